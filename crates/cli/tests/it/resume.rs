//! An interrupted import goes on only where it was: in the same container, under the same flags. An
//! interrupted export goes on only in the file that it wrote.

use std::fmt::Write as _;

use crate::client::Client;
use crate::process::Running;
use crate::tool::{Tool, at, with};
use crate::transfer::{BOOKS, MEMORY, sorted};

/// Without an index, so that many items are soon written.
const PLAIN: &str = r#"{"id":"books","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
    "indexingPolicy":{"indexingMode":"none","automatic":false}}"#;

/// Kills a transfer as soon as it has noted a place behind the start; false if it ended before.
fn killed_when_noted(tool: &Tool, arguments: &[&str]) -> bool {
    let mut child = tool.spawn(arguments);
    let transfers = tool.folder.path().join("state/orrery/transfers");
    let is_note = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.map(|entry| entry.path()).ok();
        let path = path.filter(|path| path.extension().is_some_and(|e| e == "json"));
        let text = path.and_then(|path| std::fs::read_to_string(path).ok());
        text.is_some_and(|text| !text.contains(r#""offset":0,"#))
    };
    while child.try_wait().unwrap().is_none() {
        if std::fs::read_dir(&transfers).is_ok_and(|mut notes| notes.any(is_note)) {
            child.kill().unwrap();
            child.wait().unwrap();
            return true;
        }
        std::thread::yield_now();
    }
    child.wait().unwrap();
    false
}

#[test]
fn an_import_into_another_container_or_with_other_flags_begins_anew() {
    let tool = Tool::new();
    let server = Running::start(&MEMORY);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"shop"}"#);
    client.must("POST", "/dbs/shop/colls", &[], PLAIN);
    let text = (0..20_000).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, r#"{{"id":"i{n}","p":{n}}}"#);
        text
    });
    let file = tool.write("books.jsonl", &text);
    let server = at(&server);
    let import = [&["import", &*file], &BOOKS[..]].concat();
    let import = with(&import, &server);
    // Whether it was killed in time is a matter of speed; what follows holds either way.
    let killed = killed_when_noted(&tool, &import);
    let said = tool.run(&[&import[..], &["--existing", "replace", "--json"]].concat());
    assert!(said.code == 0 && !said.err.contains("Continuing"), "{killed}: {said:?}");
    assert!(!said.out.contains(r#""replaced":0,"#), "{killed}: {said:?}");
    client.must("DELETE", "/dbs/shop/colls/books", &[], "");
    client.must("POST", "/dbs/shop/colls", &[], PLAIN);
    let said = tool.run(&import);
    assert!(said.code == 0 && said.out.starts_with("20,000 created in "), "{killed}: {said:?}");
    assert!(!said.err.contains("Continuing"), "{killed}: {said:?}");
}

#[test]
fn an_export_goes_on_only_in_the_file_that_it_wrote() {
    let tool = Tool::new();
    let server = Running::start(&MEMORY);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"shop"}"#);
    client.must("POST", "/dbs/shop/colls", &[], PLAIN);
    let filler = "x".repeat(2000);
    let text = (0..10_000).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, r#"{{"id":"i{n}","p":{n},"filler":"{filler}"}}"#);
        text
    });
    let file = tool.write("books.jsonl", &text);
    let server = at(&server);
    tool.must(&with(&[&["import", &*file], &BOOKS[..]].concat(), &server));
    let out = tool.path("out.jsonl");
    let export = [&["export", &*out], &BOOKS[..]].concat();
    let export = with(&export, &server);
    if !killed_when_noted(&tool, &export) {
        eprintln!("the export ended before it could be killed");
        return;
    }
    let begun = tool.read("out.jsonl");
    for other in [format!("{{\"changed\":1}}\n{}", &begun[14..]), begun[..1000].to_owned()] {
        // What is before the noted place counts; behind it an interruption may have left anything.
        let other = other.replace("filler", "FILLER");
        tool.write("out.jsonl", &other);
        tool.refused(&export, 4, "is there already; --force");
        let anew = [&export[..], &["--from-start"]].concat();
        tool.refused(&anew, 4, "is there already; --force");
        assert_eq!(tool.read("out.jsonl"), other);
    }
    tool.write("out.jsonl", &(begun + "half an it"));
    let said = tool.run(&export);
    assert!(said.code == 0 && said.err.contains("Continuing after"), "{said:?}");
    assert_eq!(sorted(&tool.read("out.jsonl")), sorted(&text));
}
