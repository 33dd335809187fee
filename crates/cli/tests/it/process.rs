//! A child process that is the real binary.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The binary, without what this machine's environment would tell it.
pub(crate) fn orrery(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
    command.args(arguments);
    // What this machine sets for itself is not what is tested.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ORRERY_")) {
        command.env_remove(name);
    }
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PAGER"] {
        command.env_remove(name);
    }
    command
}

/// A server that has said it is ready. Dropping it kills it, as `kill -9` does.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) out: BufReader<ChildStdout>,
    /// What was printed, up to the last line of the announcement.
    pub(crate) said: String,
}

impl Running {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::spawn(orrery(arguments))
    }

    /// A plain server over a folder, on a port of its own.
    pub(crate) fn serve(folder: &Path) -> Self {
        let data = folder.to_str().unwrap();
        let quiet = ["--listen", "127.0.0.1:0", "--no-tls", "--log", "error"];
        Self::start(&[&["serve", "--data", data], &quiet[..]].concat())
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("  Data ") {
            assert_ne!(out.read_line(&mut said).unwrap(), 0, "it ended: {said}");
        }
        Self { child, out, said }
    }

    pub(crate) fn word(&self, name: &str) -> String {
        let line = self.said.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let endpoint = self.word("Endpoint");
        let port = endpoint.trim_end_matches('/').rsplit(':').next().unwrap();
        format!("127.0.0.1:{port}").parse().unwrap()
    }

    pub(crate) fn key(&self) -> String {
        let line = self.said.lines().find(|line| line.starts_with("  Key ")).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    }

    /// Asks it to stop and waits until it has.
    #[cfg(unix)]
    pub(crate) fn signal(&mut self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success(), "{signal}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
