//! A server that a test started, wherever it runs, and a first query to it through the command line.

use crate::process;
use crate::stopwatch::Stopwatch;
use anyhow::{Context as _, Result, bail, ensure};
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The issue of a slow machine is not the package's.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A process that has said what was waited for; dropping it ends it.
pub(super) struct Serving {
    process: Child,
    /// Everything that it had printed by then.
    pub(super) said: String,
}

impl Serving {
    /// Starts a command and reads its standard output up to a line that contains a string.
    pub(super) fn start(mut command: Command, text: &'static str) -> Result<Self> {
        // The server stops with this process, however that ends.
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let out = process.stdout.take().context("standard output is a pipe")?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut out, mut line) = (BufReader::new(out), String::new());
            while out.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                // The test may have ended.
                let _ = sender.send(std::mem::take(&mut line));
            }
        });
        let (watch, mut serving) = (Stopwatch::start(), Self { process, said: String::new() });
        while !serving.said.lines().any(|line| line.contains(text)) {
            let left = START_LIMIT.saturating_sub(watch.elapsed());
            match receiver.recv_timeout(left) {
                Ok(line) => serving.said += &line,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    bail!("'{text}' was not printed within {START_LIMIT:?}: {}", serving.said)
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    bail!("it ended without printing '{text}': {}", serving.said)
                }
            }
        }
        Ok(serving)
    }

    /// A value of the announcement, such as `Key`.
    pub(super) fn word(&self, name: &str) -> Result<String> {
        let line = self.said.lines().find(|line| line.trim_start().starts_with(name));
        let word = line.and_then(|line| line.split_whitespace().last());
        word.map(str::to_owned).with_context(|| format!("no line '{name}' in {}", self.said))
    }

    /// Sends SIGTERM and waits; an orderly stop ends with success.
    pub(super) fn stop(mut self) -> Result<()> {
        let pid = self.process.id().to_string();
        process::run(Command::new("sh").args(["-c", "kill -s TERM \"$0\"", &pid]))?;
        let status = self.process.wait()?;
        ensure!(status.success(), "the server stopped with {status}");
        Ok(())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Ports nobody listens on.
pub(super) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let listeners: Vec<_> = (0..N)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<Result<_, _>>()
        .context("no free port")?;
    let ports: Vec<_> = listeners
        .iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect::<Result<_>>()?;
    ports.try_into().ok().context("as many ports as listeners")
}

/// Creates a database, a container and an item, and queries it, with the command line of a program.
pub(super) fn first_query(program: &Path, endpoint: &str, key: &str) -> Result<()> {
    let orrery = |arguments: &[&str]| -> Result<String> {
        let mut command = Command::new(program);
        command.args(arguments).env("ORRERY_ENDPOINT", endpoint).env("ORRERY_KEY", key);
        process::output(command.stdin(Stdio::null()))
    };
    orrery(&["db", "create", "shop"])?;
    orrery(&["container", "create", "books", "-d", "shop", "-k", "/publisher"])?;
    orrery(&[
        "item",
        "write",
        r#"{"id":"b1","publisher":"p","price":30}"#,
        "-d",
        "shop",
        "-c",
        "books",
    ])?;
    let query = "SELECT VALUE b.price FROM b WHERE b.price < 50";
    let found = orrery(&["query", "-d", "shop", "-c", "books", "--json", query])?;
    ensure!(found.contains("30"), "the first query answered {found}");
    Ok(())
}
