//! `orrery ready`, as health checks and scripts use it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};

use crate::process::{Running, orrery};

/// Its exit code and what it says on standard error; nothing when it succeeds.
fn said(arguments: &[&str]) -> (Option<i32>, String) {
    let output = orrery(&[&["ready"], arguments].concat()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_server_that_serves_is_ready() {
    let running = Running::start(&["--memory", "--listen", "127.0.0.1:0"]);
    let address = running.address().to_string();
    assert_eq!(said(&["--listen", &address]), (Some(0), String::new()));

    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("orrery.toml");
    std::fs::write(&config, format!("listen = \"{address}\"\nmemory = true\n")).unwrap();
    assert_eq!(said(&["--config", config.to_str().unwrap()]), (Some(0), String::new()));
}

#[test]
fn an_endpoint_is_asked_too_by_a_flag_or_the_environment() {
    let running = Running::start(&["--memory", "--listen", "127.0.0.1:0"]);
    let address = running.address().to_string();
    for scheme in ["http", "https"] {
        let endpoint = format!("{scheme}://{address}/");
        assert_eq!(said(&["--endpoint", &endpoint]), (Some(0), String::new()));
        let mut command = orrery(&["ready"]);
        let output = command.env("ORRERY_ENDPOINT", &endpoint).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    // What the command names counts over the environment.
    let mut command = orrery(&["ready", "--listen", &address]);
    let output = command.env("ORRERY_ENDPOINT", "http://127.0.0.1:1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let (code, text) = said(&["--endpoint", "http://127.0.0.1:1"]);
    assert!(code == Some(3) && text.contains("No server answers at http://127.0.0.1:1"), "{text}");
    assert_eq!(said(&["--endpoint", "nonsense"]).0, Some(2));
}

#[test]
fn where_nobody_listens_nobody_is_ready() {
    // A port that was free a moment ago.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let (code, said) = said(&["--listen", &address.to_string()]);
    assert_eq!(code, Some(3));
    assert!(said.starts_with(&format!("orrery: No server answers at {address}: ")), "{said}");
}

#[test]
fn a_server_that_starts_is_waited_for() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // Twice not yet, then ready.
    let server = std::thread::spawn(move || {
        for status in ["503 Service Unavailable", "503 Service Unavailable", "200 OK"] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            let _ = stream.read(&mut request).unwrap();
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").unwrap();
        }
    });
    let (code, text) = said(&["--listen", &address]);
    assert!(
        code == Some(1) && text.contains("answered 'HTTP/1.1 503 Service Unavailable'"),
        "{text}"
    );
    assert_eq!(said(&["--listen", &address, "--wait", "30"]), (Some(0), String::new()));
    server.join().unwrap();
}
