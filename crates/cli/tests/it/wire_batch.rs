//! Batches over HTTP: their status, their charge, and the sessions of their clients.

use orrery_types::Value;

use crate::client::Answer;
use crate::local::Local;
use crate::wire_session::{THROUGHPUTS, json, with_container};

const DOCS: &str = "/dbs/d/colls/c/docs";
const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["p"]"#);

fn batch(server: &Local, more: &[(&str, &str)], operations: &str) -> Answer {
    let kind =
        [KEY, ("x-ms-cosmos-is-batch-request", "true"), ("x-ms-cosmos-batch-atomic", "true")];
    server.send("POST", DOCS, &[&kind, more].concat(), operations)
}

fn create(id: &str) -> String {
    format!(r#"{{"operationType":"Create","resourceBody":{{"id":"{id}","p":"p"}}}}"#)
}

#[test]
fn a_batch_costs_what_its_operations_cost_also_when_it_fails() {
    let server = with_container("400");
    let read = r#"{"operationType":"Read","id":"a"}"#;
    for (status, operations) in [
        (200, vec![create("a"), create("b")]),
        (207, vec![create("c"), create("a"), create("d")]),
        (207, vec![read.to_owned(), create("e"), create("a"), create("f")]),
    ] {
        let answer = batch(&server, &[], &format!("[{}]", operations.join(",")));
        assert_eq!(answer.status, status, "{answer:?}");
        let of = |result: &Value| result.get("requestCharge").to_json().parse::<f64>().unwrap();
        let results = json(&answer);
        let sum: f64 = results.as_array().unwrap().iter().map(of).sum();
        let charge: f64 = answer.header("x-ms-request-charge").unwrap().parse().unwrap();
        assert!(charge > 2.0 && (sum - charge).abs() < 0.01, "{sum} {answer:?}");
    }
}

#[test]
fn a_batch_in_which_an_item_is_not_modified_is_207() {
    let server = with_container("400");
    let made = server.must("POST", DOCS, &[KEY], r#"{"id":"a","p":"p"}"#);
    let etag = made.header("etag").unwrap().replace('"', "\\\"");
    let read = format!(r#"{{"operationType":"Read","id":"a","ifNoneMatch":"{etag}"}}"#);
    let answer = batch(&server, &[], &format!("[{read},{}]", create("b")));
    assert_eq!(answer.status, 207, "{answer:?}");
    let status = |at: usize| json(&answer).as_array().unwrap()[at].get("statusCode").as_i64();
    assert_eq!((status(0), status(1)), (Some(304), Some(201)));
}

#[test]
fn a_read_in_a_batch_or_in_bulk_fails_where_its_if_match_does() {
    for (throughput, _) in THROUGHPUTS {
        let server = with_container(throughput);
        let made = server.must("POST", DOCS, &[KEY], r#"{"id":"a","p":"p"}"#);
        let etag = made.header("etag").unwrap().replace('"', "\\\"");
        for atomic in ["true", "false"] {
            let kind = [
                KEY,
                ("x-ms-cosmos-is-batch-request", "true"),
                ("x-ms-cosmos-batch-atomic", atomic),
            ];
            for (tag, expected) in [(&*etag, 200), ("\\\"other\\\"", 412)] {
                let read = format!(r#"[{{"operationType":"Read","id":"a","ifMatch":"{tag}"}}]"#);
                let answer = server.send("POST", DOCS, &kind, &read);
                let results = json(&answer);
                let status = results.as_array().unwrap()[0].get("statusCode").as_i64();
                assert_eq!(status, Some(expected), "{atomic} {answer:?}");
            }
        }
    }
}

#[test]
fn sessions_are_checked_in_batches_and_their_form_everywhere() {
    for (throughput, _) in THROUGHPUTS {
        let server = with_container(throughput);
        let made = server.must("POST", DOCS, &[KEY], r#"{"id":"a","p":"p"}"#);
        let token = made.header("x-ms-session-token").unwrap();
        let (head, lsn) = token.split_once('#').unwrap();
        let ahead = format!("{head}#{}", lsn.parse::<u64>().unwrap() + 100);
        let (now, ahead) = (("x-ms-session-token", token), ("x-ms-session-token", &*ahead));
        let read = r#"[{"operationType":"Read","id":"a"}]"#;
        assert_eq!(batch(&server, &[now], read).status, 200);
        let refused = batch(&server, &[ahead], read);
        assert_eq!((refused.status, refused.header("x-ms-substatus")), (404, Some("1002")));
        assert_eq!(batch(&server, &[ahead], &format!("[{}]", create("b"))).status, 200);

        let item = "/dbs/d/colls/c/docs/a";
        let bad = [KEY, ("x-ms-session-token", "invalidtoken")];
        let query = [bad[0], bad[1], ("x-ms-documentdb-isquery", "true")];
        let body = r#"{"id":"n","p":"p"}"#;
        for answer in [
            server.send("POST", DOCS, &bad, body),
            server.send("PUT", "/dbs/d/colls/c/docs/n", &bad, body),
            server.send("DELETE", "/dbs/d/colls/c/docs/n", &bad, ""),
            server.send("DELETE", item, &bad, ""),
            server.send("GET", item, &bad, ""),
            server.send("GET", DOCS, &bad, ""),
            server.send("POST", DOCS, &query, r#"{"query":"SELECT * FROM c"}"#),
            batch(&server, &[bad[1]], &format!("[{}]", create("n"))),
        ] {
            assert_eq!(answer.status, 400, "{answer:?}");
            let said = "The session token provided 'invalidtoken' is invalid.";
            assert!(answer.body.contains(said), "{answer:?}");
        }
        let missing = server.send("GET", "/dbs/d/colls/c/docs/n", &[KEY], "");
        assert_eq!(missing.status, 404, "nothing was written");
    }
}
