//! What answers say about how far a partition is, also when they refuse: clients keep it, and take it
//! for the word of one partition.

use orrery_types::Value;

use crate::client::Answer;
use crate::local::Local;

/// One range, and three.
pub(crate) const THROUGHPUTS: [(&str, usize); 2] = [("400", 1), ("18000", 3)];

/// A server with a container `c` of so much throughput in a database `d`.
pub(crate) fn with_container(throughput: &str) -> Local {
    let server = Local::start();
    server.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    server.must("POST", "/dbs/d/colls", &[("x-ms-offer-throughput", throughput)], body);
    server
}

pub(crate) fn json(answer: &Answer) -> Value {
    Value::parse(answer.body.as_bytes()).unwrap()
}

const LSNS: [&str; 5] = [
    "lsn",
    "x-ms-cosmos-llsn",
    "x-ms-quorum-acked-lsn",
    "x-ms-cosmos-quorum-acked-llsn",
    "x-ms-global-committed-lsn",
];

/// The range and the LSN of a token that is one range's.
#[track_caller]
fn place(answer: &Answer) -> (String, u64) {
    let token = answer.header("x-ms-session-token").unwrap_or_else(|| panic!("{answer:?}"));
    let (range, vector) = token.split_once(':').unwrap();
    let (_, lsn) = vector.split_once('#').unwrap();
    let lsn: u64 = lsn.parse().unwrap_or_else(|_| panic!("not of one range: {token}"));
    for name in LSNS {
        assert_eq!(answer.header(name), Some(&*lsn.to_string()), "{name}: {answer:?}");
    }
    assert_eq!(answer.header("x-ms-documentdb-partitionkeyrangeid"), Some(range), "{answer:?}");
    (range.to_owned(), lsn)
}

#[test]
fn a_refusal_carries_the_token_of_the_one_range_that_was_addressed() {
    for (throughput, ranges) in THROUGHPUTS {
        let server = with_container(throughput);
        let mut met = std::collections::BTreeSet::new();
        for i in 0..12 {
            let key = format!(r#"["key {i}"]"#);
            let key = ("x-ms-documentdb-partitionkey", &*key);
            let body = format!(r#"{{"id":"there","p":"key {i}"}}"#);
            let made = server.must("POST", "/dbs/d/colls/c/docs", &[key], &body);
            let (range, lsn) = place(&made);
            let (docs, item) = ("/dbs/d/colls/c/docs", "/dbs/d/colls/c/docs/there");
            let missing = "/dbs/d/colls/c/docs/missing";
            let stale = ("if-match", "\"00000000-0000-0000-0000-000000000000\"");
            let query = ("x-ms-documentdb-isquery", "true");
            let patch = r#"{"operations":[{"op":"remove","path":"/q"}]}"#;
            let refused = [
                (404, server.send("GET", missing, &[key], "")),
                (404, server.send("DELETE", missing, &[key], "")),
                (404, server.send("PATCH", missing, &[key], patch)),
                (404, server.send("PUT", missing, &[key], &body.replace("there", "missing"))),
                (409, server.send("POST", docs, &[key], &body)),
                (409, server.send("POST", docs, &[], &body)),
                (412, server.send("PUT", item, &[key, stale], &body)),
                (412, server.send("DELETE", item, &[key, stale], "")),
                (400, server.send("POST", docs, &[key, query], r#"{"query":"SELECT"}"#)),
                (404, server.send("POST", "/dbs/d/colls/c/sprocs/missing", &[key], "[]")),
            ];
            for (status, answer) in refused {
                assert_eq!(answer.status, status, "{answer:?}");
                assert_eq!(place(&answer), (range.clone(), lsn), "{answer:?}");
                assert_eq!(answer.header("x-ms-content-path"), None, "{answer:?}");
                assert_eq!(answer.header("x-ms-alt-content-path"), None, "{answer:?}");
                assert_eq!(answer.header("x-ms-request-charge"), Some("1"), "{answer:?}");
            }
            met.insert(range);
        }
        assert_eq!(met.len(), ranges, "keys lie in all ranges");
        // Who addresses several is told of none.
        let everywhere = [
            ("x-ms-documentdb-isquery", "true"),
            ("x-ms-documentdb-query-enablecrosspartition", "true"),
        ];
        let refused =
            server.send("POST", "/dbs/d/colls/c/docs", &everywhere, r#"{"query":"SELECT"}"#);
        assert_eq!(refused.status, 400);
        assert_eq!(refused.header("x-ms-session-token").is_some(), ranges == 1);
    }
}

#[test]
fn a_new_range_is_at_lsn_1() {
    for (throughput, ranges) in THROUGHPUTS {
        let server = with_container(throughput);
        let list = json(&server.must("GET", "/dbs/d/colls/c/pkranges", &[], ""));
        let list = list.get("PartitionKeyRanges").as_array().unwrap().to_vec();
        assert_eq!(list.len(), ranges);
        for range in list {
            assert_eq!(range.get("_lsn").as_i64(), Some(1));
        }
        let key = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
        let missing = server.send("GET", "/dbs/d/colls/c/docs/missing", &[key], "");
        assert_eq!((missing.status, place(&missing).1), (404, 1));
        let made = server.must("POST", "/dbs/d/colls/c/docs", &[key], r#"{"id":"a","p":"p"}"#);
        assert_eq!(place(&made).1, 2);
    }
}

#[test]
fn answers_about_what_is_no_item_say_how_far_the_catalog_is() {
    let server = with_container("18000");
    let script = r#"{"id":"s","body":"function () {}"}"#;
    let answers = [
        (200, server.send("GET", "/dbs", &[], "")),
        (200, server.send("GET", "/dbs/d", &[], "")),
        (404, server.send("GET", "/dbs/missing", &[], "")),
        (409, server.send("POST", "/dbs", &[], r#"{"id":"d"}"#)),
        (400, server.send("POST", "/dbs", &[], "{}")),
        (200, server.send("GET", "/dbs/d/colls", &[], "")),
        (200, server.send("GET", "/dbs/d/colls/c", &[], "")),
        (404, server.send("GET", "/dbs/d/colls/missing", &[], "")),
        (409, server.send("POST", "/dbs/d/colls", &[], r#"{"id":"c"}"#)),
        (201, server.send("POST", "/dbs/d/colls/c/sprocs", &[], script)),
        (409, server.send("POST", "/dbs/d/colls/c/sprocs", &[], script)),
        (404, server.send("GET", "/dbs/d/colls/c/udfs/missing", &[], "")),
        (201, server.send("POST", "/dbs/d/users", &[], r#"{"id":"u"}"#)),
        (200, server.send("GET", "/offers", &[], "")),
    ];
    for (status, answer) in answers {
        assert_eq!(answer.status, status, "{answer:?}");
        for name in LSNS {
            let lsn: u64 = answer
                .header(name)
                .unwrap_or_else(|| panic!("{name}: {answer:?}"))
                .parse()
                .unwrap();
            assert!(lsn > 0, "{name}: {answer:?}");
        }
        let charge: f64 = answer.header("x-ms-request-charge").unwrap().parse().unwrap();
        assert!(charge > 0.0, "{answer:?}");
        // The catalog has no sessions.
        assert_eq!(answer.header("x-ms-session-token"), None, "{answer:?}");
    }
}
