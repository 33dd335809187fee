//! Starting and stopping.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use orrery_server::auth::keys::WELL_KNOWN_KEY;

use crate::process::{Running, orrery};

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
        running.signal(signal);
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
    let (endpoint, key) = (first.word("Endpoint"), first.key());
    let expected = format!("AccountEndpoint={endpoint};AccountKey={WELL_KNOWN_KEY};");
    assert_eq!(first.word("Connection string"), expected);
    assert_ne!(key, WELL_KNOWN_KEY);
    assert!(first.said.contains("Gateway mode"), "{}", first.said);
    drop(first);
    assert!(start().said.contains(&key));
    // Where the emulator's key opens nothing, the connection string has the account's own.
    let strict =
        ["serve", "--data", data, "--listen", "127.0.0.1:0", "--allow-well-known-key=false"];
    let strict = Running::start(&strict);
    let expected = format!("AccountEndpoint={};AccountKey={key};", strict.word("Endpoint"));
    assert_eq!(strict.word("Connection string"), expected);
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
    check_refused(&["--memory", "--listen", &running.address().to_string()], "is in use");
    check_refused(&["--memory", "--key", "nonsense"], "The primary key is not a key");
    check_refused(&["--memory", "--data", "x"], "both asked for");
    check_refused(&["--memory", "--log", "a=b=c"], "log filter");
    check_refused(&["--memory", "--tls-cert", "/none", "--tls-key", "/none"], "no such file");
    check_refused(&["--config", "/none.toml"], "/none.toml");
}
