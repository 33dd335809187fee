//! A log that is damaged in the middle: every command that opens the folder says so and leaves it as it
//! is, the server starts only when told to, and from then on the folder is sound.

use std::path::{Path, PathBuf};

use crate::client::Client;
use crate::process::Running;
use crate::tool::Tool;

const ITEMS: &str = "/dbs/d/colls/c/docs";
const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["p"]"#);

fn item(n: usize) -> String {
    format!(r#"{{"id":"{n}","p":"p","n":{n},"f":"{}"}}"#, "x".repeat(500))
}

/// The longest log of a store.
fn log(data: &Path) -> PathBuf {
    let files =
        std::fs::read_dir(data.join("store/lsm")).unwrap().map(|entry| entry.unwrap().path());
    let logs = files.filter(|path| path.extension().is_some_and(|e| e == "log"));
    logs.max_by_key(|path| path.metadata().unwrap().len()).unwrap()
}

#[test]
fn a_server_does_not_start_over_a_hole_in_its_log_unless_told_to() {
    let tool = Tool::new();
    let data = tool.path("data");
    let server = Running::serve(Path::new(&data));
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    client.must("POST", "/dbs/d/colls", &[], body);
    for n in 0..30 {
        client.must("POST", ITEMS, &[KEY], &item(n));
    }
    // Killed, so that the log is not written out.
    drop(server);
    let path = log(Path::new(&data));
    let mut bytes = std::fs::read(&path).unwrap();
    let text = br#""id":"20""#;
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    bytes[at + 3] ^= 0x20;
    std::fs::write(&path, &bytes).unwrap();

    let serve = ["serve", "--data", &data, "--listen", "127.0.0.1:0", "--no-tls", "--log", "warn"];
    tool.refused(&serve, 6, "--accept-log-damage");
    for command in [&["inspect", &data][..], &["inspect", "--verify", &data]] {
        tool.refused(command, 6, "of the write-ahead log is damaged at byte");
    }
    tool.refused(&["backup", "b.tar.zst", "--data", &data], 6, "write-ahead log is damaged");
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing was changed");

    let server = Running::start(&[&serve[..], &["--accept-log-damage"]].concat());
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    assert_eq!(client.feed(ITEMS, "Documents").len(), 20);
    client.must("POST", ITEMS, &[KEY], &item(20));
    drop(server);
    let name = format!("store/damaged-log-{}", path.file_stem().unwrap().to_str().unwrap());
    let kept = Path::new(&data).join(name).join(path.file_name().unwrap());
    assert_eq!(std::fs::read(kept).unwrap(), bytes, "all of the log is kept beside");
    let said = tool.run(&["inspect", "--verify", &data]);
    assert!(said.code == 0 && said.err.contains("21 items verified"), "{said:?}");
}
