//! `orrery emulator`: what tools look for that start the emulator's image, and what they set.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use orrery_server::auth::keys::WELL_KNOWN_KEY;

use crate::client::{Client, Connection};
use crate::process::orrery;

const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/tls");

/// A server that has printed the last line which tools wait for.
struct Emulator {
    child: Child,
    said: String,
    ports: Ports,
}

/// Ports of its own, since those of the emulator may be in use on this machine.
struct Ports {
    endpoint: u16,
    explorer: u16,
    health: u16,
}

impl Emulator {
    fn start(set: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let listeners: Vec<_> =
            (0..3).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        let port = |at: usize| listeners[at].local_addr().unwrap().port();
        let ports = Ports { endpoint: port(0), explorer: port(1), health: port(2) };
        drop(listeners);
        let mut command = orrery(&["emulator"]);
        command
            .env("PORT", ports.endpoint.to_string())
            .env("EXPLORER_PORT", ports.explorer.to_string())
            .env("HEALTH_PORT", ports.health.to_string())
            .stdout(Stdio::piped());
        set(&mut command);
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        // The module of Testcontainers for Java waits for the end of the line as well.
        while !said.ends_with("Started\r\n") {
            assert_ne!(out.read_line(&mut said).unwrap(), 0, "it ended: {said}");
        }
        Self { child, said, ports }
    }

    fn get(port: u16, path: &str) -> crate::client::Answer {
        let mut connection = Connection::open(local(port)).unwrap();
        connection.send("GET", path, &[], b"").unwrap()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

#[test]
fn it_answers_as_the_emulator_does_and_takes_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap().to_owned();
    let start = || Emulator::start(|command| command.env("DATA_PATH", &data));
    let emulator = start();
    let expected = format!("Now listening on: http://0.0.0.0:{}\r\n", emulator.ports.endpoint);
    assert!(emulator.said.contains(&expected), "{}", emulator.said);
    for path in ["/alive", "/ready", "/status"] {
        assert_eq!(Emulator::get(emulator.ports.health, path).status, 200, "{path}");
    }
    let status = Emulator::get(emulator.ports.health, "/status").body;
    assert!(status.starts_with("{\"status\":\"ready\",\"version\":\""), "{status}");
    assert_eq!(Emulator::get(emulator.ports.explorer, "/_explorer/").status, 200);
    let mut client = Client::open(local(emulator.ports.endpoint), WELL_KNOWN_KEY).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"kept"}"#);
    drop(emulator);
    // Data stays, as the emulator keeps it in its folder.
    let again = start();
    let mut client = Client::open(local(again.ports.endpoint), WELL_KNOWN_KEY).unwrap();
    client.must("GET", "/dbs/kept", &[], "");
}

#[test]
fn certificate_key_and_ports_of_ones_own_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("key");
    let key = "dGhpcyBrZXkgb3BlbnMgb25lIHRocm93LWF3YXkgc2VydmVyIGZvciBhIHRlc3Q=";
    std::fs::write(&key_file, format!("{key}\n")).unwrap();
    let emulator = Emulator::start(|command| {
        command
            .env("PROTOCOL", "https")
            .env("CERT_PATH", Path::new(TLS).join("aes.pfx"))
            .env("CERT_SECRET", "secret")
            .env("KEY_FILE", &key_file)
            .env("LOG_LEVEL", "quiet")
            .env("ENABLE_EXPLORER", "false")
            .env("AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE", "false")
    });
    let expected = format!("Now listening on: https://0.0.0.0:{}\r\n", emulator.ports.endpoint);
    assert!(emulator.said.contains(&expected), "{}", emulator.said);
    let leaf = std::fs::read_to_string(Path::new(TLS).join("leaf.pem")).unwrap();
    let pem = Emulator::get(emulator.ports.endpoint, "/_explorer/emulator.pem").body;
    assert!(pem.starts_with(&leaf), "{pem}");
    assert!(Connection::open(local(emulator.ports.explorer)).is_err(), "its port is closed");
    let address = local(emulator.ports.endpoint);
    Client::open(address, key).unwrap().must("POST", "/dbs", &[], r#"{"id":"a"}"#);
    let refused = Client::open(address, WELL_KNOWN_KEY).unwrap().send("GET", "/dbs", &[], "");
    assert_eq!(refused.unwrap().status, 401);
}

#[track_caller]
fn check_refused(set: impl FnOnce(&mut Command) -> &mut Command, code: i32, expected: &str) {
    let mut command = orrery(&["emulator", "--memory", "--listen", "127.0.0.1:0"]);
    command.args(["--explorer-port", "0", "--health-port", "0"]);
    set(&mut command);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(expected), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn what_cannot_be_used_is_refused_in_a_sentence() {
    let file = |name: &str| Path::new(TLS).join(name);
    check_refused(|c| c.env("CERT_PATH", file("aes.pfx")), 1, "the password is wrong");
    check_refused(|c| c.env("CERT_PATH", file("none.pfx")), 1, "none.pfx");
    let rc2 = file("rc2.pfx");
    check_refused(
        |c| c.env("CERT_PATH", rc2).env("CERT_SECRET", "secret"),
        1,
        "export it with AES-256",
    );
    check_refused(|c| c.env("KEY_FILE", file("none")), 2, "KEY_FILE is");
    check_refused(|c| c.env("KEY_FILE", file("README.md")), 2, "is not a key");
    check_refused(|c| c.env("PROTOCOL", "ftp"), 2, "PROTOCOL");
    check_refused(|c| c.env("PORT", "many"), 2, "many");
    let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    check_refused(|c| c.env("ORRERY_ALSO_LISTEN", format!("0.0.0.0:{port}")), 1, "is in use");
}
