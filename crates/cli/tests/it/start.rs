//! Starting and stopping.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

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
fn it_stops_when_the_process_that_started_it_is_gone() {
    let mut command = orrery(&["--memory", "--listen", "127.0.0.1:0", "--stop-at-eof"]);
    // The pipe closes with whoever holds its other end, however that ended.
    command.stdin(Stdio::piped());
    let mut running = Running::spawn(command);
    assert!(running.child.try_wait().unwrap().is_none());
    drop(running.child.stdin.take());
    assert!(running.child.wait().unwrap().success());
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
    assert!(!first.said.contains("Gateway mode"), "{}", first.said);
    drop(first);
    let gateway = ["serve", "--data", data, "--listen", "127.0.0.1:0", "--no-direct"];
    let gateway = Running::start(&gateway);
    assert!(gateway.said.contains("Clients must use Gateway mode"), "{}", gateway.said);
    drop(gateway);
    assert!(start().said.contains(&key));
    // Where the emulator's key opens nothing, the connection string has the account's own.
    let strict =
        ["serve", "--data", data, "--listen", "127.0.0.1:0", "--allow-well-known-key=false"];
    let strict = Running::start(&strict);
    let expected = format!("AccountEndpoint={};AccountKey={key};", strict.word("Endpoint"));
    assert_eq!(strict.word("Connection string"), expected);
}

/// The lines that a server has written to standard error when it is ready.
fn logged(arguments: &[&str]) -> (String, String) {
    let mut command = orrery(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut said = String::new();
    while !said.contains("Data  ") && !said.contains("\"data\"") {
        assert_ne!(out.read_line(&mut said).unwrap(), 0, "it ended: {said}");
    }
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    (said, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_log_says_where_it_is_and_where_the_keys_are_and_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let serve = ["serve", "--data", data, "--listen", "127.0.0.1:0"];
    let (said, text) = logged(&serve);
    let key = said.lines().find(|line| line.starts_with("  Key ")).unwrap();
    let key = key.split_whitespace().last().unwrap().to_owned();
    let keys = folder.path().join("keys.toml");
    let (said, json) = logged(&[&serve[..], &["--log-format", "json"]].concat());
    for log in [&text, &json] {
        for expected in
            [env!("CARGO_PKG_VERSION"), "https://localhost:", data, keys.to_str().unwrap()]
        {
            assert!(log.contains(expected), "{expected}: {log}");
        }
        assert!(!log.contains(&key), "{log}");
    }
    // Where logs are JSON, standard output is one object of JSON, without a key.
    let value = orrery_types::Value::parse(said.as_bytes()).unwrap();
    assert!(value.get("endpoints").at(0).as_str().unwrap().starts_with("https://"), "{said}");
    assert_eq!(value.get("keys").as_str(), keys.to_str());
    assert!(!said.contains(&key) && !said.contains(WELL_KNOWN_KEY), "{said}");
}

#[track_caller]
fn check_refused(arguments: &[&str], code: i32, expected: &str) {
    let output = orrery(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("orrery: ") && said.contains(expected), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn what_keeps_it_from_starting_is_said_in_one_sentence() {
    let running = Running::start(&["--memory", "--listen", "127.0.0.1:0"]);
    check_refused(&["--memory", "--listen", &running.address().to_string()], 1, "is in use");
    check_refused(&["--memory", "--key", "nonsense"], 2, "The primary key is not a key");
    check_refused(&["--memory", "--data", "x"], 2, "both asked for");
    check_refused(&["--memory", "--log", "a=b=c"], 2, "log filter");
    check_refused(&["--memory", "--tls-cert", "/none", "--tls-key", "/none"], 1, "no such file");
    check_refused(&["--config", "/none.toml"], 2, "/none.toml");
    // A file where the folder should be; a folder in which nothing can be created.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("data");
    check_refused(&["--data", below.to_str().unwrap()], 1, "choose another folder with --data");
    check_refused(&["--data", "/proc/orrery"], 1, "with --data");
    // Data of a version that is not known.
    let data = folder.path().join("data");
    let listen = ["--listen", "127.0.0.1:0", "--log", "error"];
    let serve = [&["serve", "--data", data.to_str().unwrap()], &listen[..]].concat();
    drop(Running::start(&serve));
    std::fs::write(data.join("store/FORMAT"), "orrery-format 999\n").unwrap();
    check_refused(&serve, 1, "use the version that wrote it");
}
