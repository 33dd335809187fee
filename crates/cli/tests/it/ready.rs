//! `orrery ready`, as health checks and scripts use it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};

use crate::process::{Running, orrery};

/// What it says on standard error; nothing when it succeeds.
fn said(arguments: &[&str]) -> (bool, String) {
    let output = orrery(&[&["ready"], arguments].concat()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_server_that_serves_is_ready() {
    let running = Running::start(&["--memory", "--listen", "127.0.0.1:0"]);
    let address = running.address().to_string();
    assert_eq!(said(&["--listen", &address]), (true, String::new()));

    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("orrery.toml");
    std::fs::write(&config, format!("listen = \"{address}\"\nmemory = true\n")).unwrap();
    assert_eq!(said(&["--config", config.to_str().unwrap()]), (true, String::new()));
}

#[test]
fn where_nobody_listens_nobody_is_ready() {
    // A port that was free a moment ago.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let (is_ready, said) = said(&["--listen", &address.to_string()]);
    assert!(!is_ready);
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
    let (is_ready, text) = said(&["--listen", &address]);
    assert!(!is_ready && text.contains("answered 'HTTP/1.1 503 Service Unavailable'"), "{text}");
    assert_eq!(said(&["--listen", &address, "--wait", "30"]), (true, String::new()));
    server.join().unwrap();
}
