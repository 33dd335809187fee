//! `orrery import --from-endpoint`: where it goes on, where it begins anew, and what is refused.

use crate::client::Client;
use crate::process::Running;
use crate::tool::{Tool, at, with};
use crate::transfer::{BOOKS, MEMORY, item, items, lines, sorted};

const BY_PUBLISHER: &str =
    r#"{"id":"books","partitionKey":{"paths":["/publisher"],"kind":"Hash","version":2}}"#;

fn shop(server: &Running, definition: &str) -> Client {
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"shop"}"#);
    client.must("POST", "/dbs/shop/colls", &[], definition);
    client
}

fn put(client: &mut Client, n: usize, text: &str) {
    let key = format!("[\"p{}\"]", n % 7);
    let sent = [("x-ms-documentdb-partitionkey", &*key), ("x-ms-documentdb-is-upsert", "true")];
    client.must("POST", "/dbs/shop/colls/books/docs", &sent, text);
}

/// The command that moves `books` from one server to another.
fn moving(from: &Running, to: &Running) -> Vec<String> {
    let source = format!("http://{}", from.address());
    let key = from.key();
    let from = ["--from-endpoint", &source, "--from-key", &key];
    let command = [&["import"], &BOOKS[..], &from[..]].concat();
    with(&command, &at(to)).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_target_that_was_made_anew_gets_everything() {
    let tool = Tool::new();
    let (from, to) = (Running::start(&MEMORY), Running::start(&MEMORY));
    let mut there = shop(&from, BY_PUBLISHER);
    (0..20).for_each(|n| put(&mut there, n, &item(n)));
    let moving = moving(&from, &to);
    assert!(tool.must(&with(&[], &moving)).starts_with("20 created"));

    let mut here = Client::open(to.address(), &to.key()).unwrap();
    here.must("DELETE", "/dbs/shop/colls/books", &[], "");
    assert!(tool.must(&with(&[], &moving)).starts_with("20 created"));
    // A server that holds nothing yet counts its containers from one again.
    let address = to.address().to_string();
    drop(to);
    let to = Running::start(&["--memory", "--listen", &address]);
    let moving = self::moving(&from, &to);
    assert!(tool.must(&with(&[], &moving)).starts_with("20 created"));
    assert_eq!(items(&tool, &at(&to)), sorted(&lines(0..20)));

    put(&mut there, 20, &item(20));
    let said = tool.run(&with(&[], &moving));
    assert!(said.code == 0 && said.out.starts_with("1 created in "), "{said:?}");
    assert!(said.err.contains("--from-start starts over"), "{said:?}");
    let said = tool.run(&with(&["import", "--from-start"], &moving[1..]));
    assert!(said.code == 0 && said.out.starts_with("0 created, 21 replaced"), "{said:?}");
    assert!(!said.err.contains("Continuing"), "{said:?}");
}

#[test]
fn items_that_are_refused_are_named_until_they_are_taken() {
    let tool = Tool::new();
    let (from, to) = (Running::start(&MEMORY), Running::start(&MEMORY));
    let mut there = shop(&from, BY_PUBLISHER);
    let unique =
        BY_PUBLISHER.replacen('{', r#"{"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/n"]}]},"#, 1);
    shop(&to, &unique);
    let twin = |n: usize| format!(r#"{{"id":"twin","publisher":"p0","n":{n}}}"#);
    put(&mut there, 0, &item(0));
    put(&mut there, 0, &twin(0));
    let moving = moving(&from, &to);
    let moving = with(&["import", "--connections", "1"], &moving[1..]);
    for created in ["1 created, 1 not taken in", "0 created, 1 replaced, 1 not taken in"] {
        let said = tool.run(&moving);
        assert!(said.code == 5 && said.out.starts_with(created), "{said:?}");
        let named = r#"item "twin" with the partition key ["p0"]: "#;
        assert!(said.err.contains(named), "{said:?}");
        assert!(said.err.contains("named above") && !said.err.contains("line"), "{said:?}");
    }
    put(&mut there, 0, &twin(1));
    assert!(tool.must(&moving).starts_with("1 created, 1 replaced in "));
    assert!(tool.must(&moving).starts_with("0 created in "));
    for flag in [&["--existing", "keep"][..], &["--id", "n"], &["--strict"], &["--texts"]] {
        tool.refused(&[&moving[..], flag].concat(), 2, "cannot be used with");
    }
}
