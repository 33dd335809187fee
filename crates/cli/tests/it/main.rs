//! The binary as people and scripts start and stop it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

fn orrery(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
    command.args(arguments);
    // What this machine sets for itself is not what is tested.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ORRERY_")) {
        command.env_remove(name);
    }
    command
}

struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    /// What was printed, up to the last line of the announcement.
    said: String,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut child = orrery(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("  Data ") {
            assert_ne!(out.read_line(&mut said).unwrap(), 0, "it ended: {said}");
        }
        Self { child, out, said }
    }

    fn word(&self, name: &str) -> String {
        let line = self.said.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    }

    fn address(&self) -> String {
        let endpoint = self.word("Endpoint");
        let port = endpoint.trim_end_matches('/').rsplit(':').next().unwrap();
        format!("127.0.0.1:{port}")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
#[test]
fn it_serves_until_it_is_asked_to_stop() {
    for signal in ["-TERM", "-INT"] {
        let mut running = Running::start(&["--memory", "--listen", "127.0.0.1:0"]);
        let mut stream = TcpStream::connect(running.address()).unwrap();
        let request = "GET /readyz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        let pid = running.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        assert!(running.child.wait().unwrap().success(), "{signal}");
        let mut rest = String::new();
        running.out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
    }
}

#[test]
fn it_says_how_to_connect_and_keeps_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let start = || Running::start(&["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    let first = start();
    let (endpoint, key) = (first.word("Endpoint"), {
        let line = first.said.lines().find(|line| line.starts_with("  Key ")).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    });
    let expected = format!("AccountEndpoint={endpoint};AccountKey={key};");
    assert_eq!(first.word("Connection string"), expected);
    drop(first);
    assert!(start().said.contains(&key));
}

#[track_caller]
fn check_refused(arguments: &[&str], expected: &str) {
    let output = orrery(arguments).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("orrery: ") && said.contains(expected), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn what_keeps_it_from_starting_is_said_in_one_sentence() {
    let running = Running::start(&["--memory", "--listen", "127.0.0.1:0"]);
    check_refused(&["--memory", "--listen", &running.address()], "is in use");
    check_refused(&["--memory", "--key", "nonsense"], "The primary key is not a key");
    check_refused(&["--memory", "--data", "x"], "both asked for");
    check_refused(&["--memory", "--log", "a=b=c"], "log filter");
    check_refused(&["--memory", "--tls-cert", "/none", "--tls-key", "/none"], "no such file");
    check_refused(&["--config", "/none.toml"], "/none.toml");
}
