//! A disk that takes no more: writes are refused with an answer that says so, reads go on, and after
//! a restart with room everything acknowledged is there. A limit on the size of files, set by the
//! shell, makes the log's writes fail as a full disk does.

#![cfg(unix)]

use std::process::Command;

use crate::client::Client;
use crate::kill::faults;
use crate::process::{Running, orrery};

const ITEMS: &str = "/dbs/d/colls/c/docs";
const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["p"]"#);

fn item(n: usize) -> String {
    format!(r#"{{"id":"{n}","p":"p","n":{n},"f":"{}"}}"#, "x".repeat(4000))
}

#[track_caller]
fn check_refused(client: &mut Client, method: &str, path: &str, body: &str) {
    let answer = client.send(method, path, &[KEY], body).unwrap();
    assert_eq!(answer.status, 503, "{method} {path}: {answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let shown = orrery_types::Value::parse(answer.body.as_bytes()).unwrap();
    assert_eq!(shown.get("code").as_str(), Some("ServiceUnavailable"));
    let message = shown.get("message").as_str().unwrap();
    assert!(message.contains("reads go on") || message.contains("not known"), "{message}");
}

fn check_all_there(client: &mut Client, acknowledged: usize) {
    for n in 0..acknowledged {
        let read = client.must("GET", &format!("{ITEMS}/{n}"), &[KEY], "");
        let body = orrery_types::Value::parse(read.body.as_bytes()).unwrap();
        assert_eq!(body.get("n").as_i64(), i64::try_from(n).ok());
    }
}

#[test]
fn a_full_disk_ends_writing_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let arguments =
        ["serve", "--data", data, "--listen", "127.0.0.1:0", "--no-tls", "--log", "off"];
    let plain = orrery(&arguments);
    let mut limited = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 1024; exec \"$@\"";
    limited.args(["-c", script, "sh"]).arg(plain.get_program()).args(plain.get_args());
    for (name, _) in plain.get_envs() {
        limited.env_remove(name);
    }
    let server = Running::spawn(limited);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    client.must("POST", "/dbs/d/colls", &[], body);
    let mut acknowledged = 0;
    while client.send("POST", ITEMS, &[KEY], item(acknowledged)).unwrap().status == 201 {
        acknowledged += 1;
        assert!(acknowledged < 10_000, "the limit does not bind");
    }
    assert!(acknowledged > 10, "some writes fit");
    check_refused(&mut client, "POST", ITEMS, &item(acknowledged + 1));
    check_refused(&mut client, "PUT", &format!("{ITEMS}/0"), &item(0));
    check_refused(&mut client, "DELETE", &format!("{ITEMS}/0"), "");
    check_refused(&mut client, "POST", "/dbs", r#"{"id":"e"}"#);
    check_refused(&mut client, "DELETE", "/dbs/d", "");
    let ready = client.send("GET", "/readyz", &[], "").unwrap();
    assert_eq!((ready.status, ready.body.contains("writes are refused")), (503, true));
    check_all_there(&mut client, acknowledged);
    assert_eq!(client.feed(ITEMS, "Documents").len(), acknowledged);
    assert_eq!(client.feed("/dbs", "Databases").len(), 1);
    drop(server);

    assert_eq!(faults(&folder.path().into()), 0);
    let server = Running::start(&arguments);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    check_all_there(&mut client, acknowledged);
    // The write that failed may have reached the disk after all; nothing beyond it may have.
    let count = client.feed(ITEMS, "Documents").len();
    assert!((acknowledged..=acknowledged + 1).contains(&count), "{acknowledged} and {count}");
    client.must("POST", ITEMS, &[KEY], &item(acknowledged + 7));
}
