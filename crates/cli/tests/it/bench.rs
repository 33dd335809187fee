//! `orrery bench`: it removes what it made, and nothing else.

use crate::client::Client;
use crate::process::Running;
use crate::tool::{Tool, at, with};
use crate::transfer::MEMORY;

const BENCH: [&str; 7] = ["bench", "--seconds", "1", "--items", "10", "--clients", "1"];

#[test]
fn a_database_of_somebody_else_is_left_alone() {
    let tool = Tool::new();
    let server = Running::start(&MEMORY);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    let make = |client: &mut Client, id: &str| {
        let key = r#"{"paths":["/p"],"kind":"Hash","version":2}"#;
        let body = format!(r#"{{"id":"{id}","partitionKey":{key}}}"#);
        client.must("POST", "/dbs/orrery-bench/colls", &[], &body);
    };
    client.must("POST", "/dbs", &[], r#"{"id":"orrery-bench"}"#);
    make(&mut client, "items");
    make(&mut client, "results");
    let here = at(&server);
    tool.refused(&with(&BENCH, &here), 4, "remove it yourself");
    assert_eq!(client.feed("/dbs/orrery-bench/colls", "DocumentCollections").len(), 2);

    // As an interrupted run leaves it.
    client.must("DELETE", "/dbs/orrery-bench/colls/results", &[], "");
    let said = tool.must(&with(&BENCH, &here));
    assert!(said.contains("point read"), "{said}");
    assert_eq!(client.feed("/dbs", "Databases").len(), 0);
}
