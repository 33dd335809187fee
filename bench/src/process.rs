//! Processes under measurement: starting and ending them, and what the system says they took.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::message;
use crate::stopwatch::Stopwatch;

const READY_LIMIT: Duration = Duration::from_secs(60);
/// The same under a tool that makes everything slower.
const READY_UNDER_LIMIT: Duration = Duration::from_secs(600);
const PROBE_PAUSE: Duration = Duration::from_millis(1);
const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// Linux reports processor time in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// A process with an address; dropping it kills it, as `kill -9` would.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Starts a server on a folder; returns it once it is ready, with the time that took.
    pub(crate) fn serve(binary: &Path, data: &Path) -> Result<(Self, Duration)> {
        let place = [OsStr::new("--data"), data.as_os_str()];
        Self::start(Command::new(binary), &place, &data.with_extension("log"), READY_LIMIT)
    }

    /// Starts a server on a store in `PostgreSQL`.
    pub(crate) fn serve_store(
        binary: &Path,
        (address, schema): (&str, &str),
        log: &Path,
    ) -> Result<Self> {
        let place = ["--store", address, "--store-schema", schema].map(OsStr::new);
        Ok(Self::start(Command::new(binary), &place, log, READY_LIMIT)?.0)
    }

    /// The same under a tool, such as valgrind, which is given the binary as its last argument.
    pub(crate) fn serve_under(tool: &[String], binary: &Path, data: &Path) -> Result<Self> {
        let (program, arguments) = tool.split_first().context("a tool has a name")?;
        let mut command = Command::new(program);
        command.args(arguments).arg(binary);
        let place = [OsStr::new("--data"), data.as_os_str()];
        Ok(Self::start(command, &place, &data.with_extension("log"), READY_UNDER_LIMIT)?.0)
    }

    fn start(
        mut command: Command,
        place: &[&OsStr],
        log: &Path,
        limit: Duration,
    ) -> Result<(Self, Duration)> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let log = File::create(log)?;
        command.args(["serve", "--listen", &address.to_string(), "--key", &message::key()]);
        command.args(place).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        let watch = Stopwatch::start();
        let program = command.get_program().to_owned();
        let child = command.spawn().with_context(|| format!("no {}", program.display()))?;
        let mut process = Self { child, address };
        while !is_ready(address) {
            if let Some(status) = process.child.try_wait()? {
                bail!("the server ended at once ({status})");
            }
            ensure!(watch.elapsed() < limit, "the server was not ready in {limit:?}");
            std::thread::sleep(PROBE_PAUSE);
        }
        Ok((process, watch.elapsed()))
    }

    /// Starts this program with another verb, gives it the input, and reads its address.
    pub(crate) fn sibling(verb: &str, input: &[u8]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(verb).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        child.stdin.take().context("no standard input")?.write_all(input)?;
        let mut line = String::new();
        let output = child.stdout.take().context("no standard output")?;
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().parse().context("the process did not say its address")?;
        Ok(Self { child, address })
    }

    /// Asks the process to end in order, and waits for it.
    pub(crate) fn stop(mut self) -> Result<()> {
        // The shell's own `kill`: the program of that name is missing on small systems.
        let id = self.child.id().to_string();
        let asked = Command::new("sh").args(["-c", r#"kill -s TERM "$0""#, &id]).status()?;
        ensure!(asked.success(), "the server cannot be asked to stop");
        let ended = self.child.wait()?;
        ensure!(ended.success(), "the server stopped with {ended}");
        Ok(())
    }

    /// The number by which the system knows it.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Processor time so far, of all threads, in user and system mode.
    pub(crate) fn processor(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let ticks =
            ticks(&stat, OWN).context("the process's times are not where they should be")?;
        Ok(TICK * ticks)
    }

    /// Memory in use, in kilobytes.
    pub(crate) fn resident_kb(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.context("the process's memory is not where it should be")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A failed kill means that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many fields from the 14th are times of a process itself, and with its children that have ended.
const OWN: usize = 2;
const WITH_ENDED: usize = 4;

/// Times from the 14th field; the second one, a name in parentheses, may hold spaces.
fn ticks(stat: &str, times: usize) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().skip(11).take(times).collect();
    let each = fields.iter().map(|field| field.parse::<u32>().ok());
    if fields.len() == times { each.sum() } else { None }
}

/// Processor time so far of a process and its children, those that have ended included.
pub(crate) fn family_processor(id: u32) -> Result<Duration> {
    let mut sum = 0;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        // Some are no processes, and others end meanwhile: then their parent has their times.
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        if parent(&stat) == Some(id) {
            sum += ticks(&stat, OWN).unwrap_or_default();
        }
    }
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    let own = ticks(&stat, WITH_ENDED);
    Ok(TICK * (sum + own.context("the process's times are not where they should be")?))
}

/// The fourth field.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn is_ready(address: SocketAddr) -> bool {
    let probe = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PROBE_LIMIT))?;
        stream
            .write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.starts_with("HTTP/1.1 200"))
    };
    probe().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_a_name_with_spaces() {
        let stat = "7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 4 0";
        assert_eq!(ticks(stat, OWN), Some(300));
        assert_eq!(parent(stat), Some(1));
        assert_eq!(ticks("7 (a) S 1 2", OWN), None);
    }

    #[test]
    fn the_times_of_ended_children_count_for_a_family() {
        let stat = "7 (a) S 1 2 3 4 5 6 7 8 9 10 250 50 30 3 20 0 4 0";
        assert_eq!(ticks(stat, WITH_ENDED), Some(333));
        family_processor(std::process::id()).unwrap();
    }
}
