//! Batches in `HybridRow` form over HTTP, as the .NET SDK sends them: the answer has the same form.

use orrery_server::wire::hybrid_row::{OperationRow, ResultRow, decode_results, encode_operations};
use orrery_types::Value;

use crate::client::{Answer, Client};
use crate::process::Running;

const ITEMS: &str = "/dbs/d/colls/c/docs";
const CREATE: i32 = 0;
const PATCH: i32 = 1;
const READ: i32 = 2;
const DELETE: i32 = 4;
const REPLACE: i32 = 5;
const UPSERT: i32 = 20;

fn operation(kind: i32, id: Option<&str>, body: Option<&str>) -> OperationRow {
    OperationRow {
        operation_type: Some(kind),
        resource_type: Some(2),
        id: id.map(str::to_owned),
        resource_body: body.map(|body| body.as_bytes().to_vec()),
        ..OperationRow::default()
    }
}

fn results(answer: &Answer) -> Vec<ResultRow> {
    decode_results(&answer.bytes).unwrap_or_else(|e| panic!("{e}: {answer:?}"))
}

fn statuses(results: &[ResultRow]) -> Vec<i32> {
    results.iter().map(|result| result.status).collect()
}

fn n(result: &ResultRow) -> i64 {
    let body = Value::parse(result.resource_body.as_deref().unwrap()).unwrap();
    body.get("n").as_i64().unwrap()
}

#[test]
fn batches_and_bulk_in_hybrid_row() {
    let server = Running::start(&["serve", "--memory", "--listen", "127.0.0.1:0", "--no-tls"]);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    client.must("POST", "/dbs/d/colls", &[], body);
    let is_batch = ("x-ms-cosmos-is-batch-request", "True");
    let key = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
    let (atomic, ordered) =
        (("x-ms-cosmos-batch-atomic", "True"), ("x-ms-cosmos-batch-ordered", "True"));
    let mut transactional = |operations: &[OperationRow]| {
        let headers = [is_batch, atomic, ordered, key];
        client.send("POST", ITEMS, &headers, encode_operations(operations)).unwrap()
    };

    let mut quiet = operation(REPLACE, Some("a"), Some(r#"{"id":"a","p":"p","n":5}"#));
    quiet.minimal_return = Some(true);
    let patch = Some(r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#);
    let answer = transactional(&[
        operation(CREATE, None, Some(r#"{"id":"a","p":"p","n":1}"#)),
        operation(PATCH, Some("a"), patch),
        quiet,
        operation(READ, Some("a"), None),
        operation(UPSERT, None, Some(r#"{"id":"b","p":"p","n":7}"#)),
        operation(DELETE, Some("b"), None),
    ]);
    let found = results(&answer);
    assert_eq!((answer.status, statuses(&found)), (200, vec![201, 200, 200, 200, 201, 204]));
    assert_eq!([n(&found[0]), n(&found[1]), n(&found[3]), n(&found[4])], [1, 2, 5, 7]);
    assert_eq!(found[2].resource_body, None);
    assert_eq!(found[2].etag, found[3].etag);
    assert!(found.iter().all(|result| result.request_charge > Some(0.0)));
    let charge: f64 = found.iter().filter_map(|result| result.request_charge).sum();
    let header: f64 = answer.header("x-ms-request-charge").unwrap().parse().unwrap();
    assert!((charge - header).abs() < 0.01, "{charge} and {header}");
    assert!(answer.header("x-ms-session-token").is_some());

    let mut stale = operation(DELETE, Some("a"), None);
    stale.if_match = Some("\"stale\"".to_owned());
    let answer = transactional(&[operation(PATCH, Some("a"), patch), stale]);
    assert_eq!((answer.status, statuses(&results(&answer))), (207, vec![424, 412]));

    let answer = transactional(&[operation(3, Some("a"), None)]);
    assert_eq!((answer.status, answer.header("content-type")), (400, Some("application/json")));
    let mut with_life = operation(CREATE, None, Some(r#"{"id":"z","p":"p"}"#));
    with_life.time_to_live_s = Some(5);
    assert_eq!(transactional(&[with_life]).status, 400);

    let mut bulk: Vec<OperationRow> = Vec::new();
    for (p, id) in [("p", "a"), ("p", "c"), ("q", "a")] {
        let body = format!(r#"{{"id":"{id}","p":"{p}","n":1}}"#);
        let mut create = operation(CREATE, None, Some(&body));
        create.partition_key = Some(format!("[\"{p}\"]"));
        bulk.push(create);
    }
    let headers = [
        is_batch,
        ("x-ms-cosmos-batch-atomic", "False"),
        ("x-ms-cosmos-batch-continue-on-error", "True"),
        ("x-ms-documentdb-partitionkeyrangeid", "0"),
    ];
    let answer = client.send("POST", ITEMS, &headers, encode_operations(&bulk)).unwrap();
    assert_eq!((answer.status, statuses(&results(&answer))), (207, vec![409, 201, 201]));
}
