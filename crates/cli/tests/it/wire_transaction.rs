//! Distributed transactions over HTTP: statuses of the whole and of each operation, charges, sessions, tokens
//! that are used twice, throughput, and who may do what.

use orrery_engine::catalog::role::{DATA_CONTRIBUTOR, DATA_READER};
use orrery_server::consistency::ConsistencyLevel;
use orrery_types::{Clock as _, Value, limits};

use crate::client::{Answer, Connection};
use crate::local::Local;
use crate::wire_session::json;

const PATH: &str = "/operations/dtc";
const COMMIT: (&str, &str) = ("x-ms-cosmos-operation-type", "CommitDistributedTransaction");
const READ: (&str, &str) = ("x-ms-cosmos-operation-type", "Read");
const RESOURCE: (&str, &str) = ("x-ms-cosmos-resource-type", "DistributedTransactionBatch");
const TOKEN: &str = "x-ms-cosmos-idempotency-token";

/// A container `a` of several ranges, one `b` in another database, and some items.
fn filled(local: Local) -> Local {
    for (database, container, throughput) in [("d", "a", "30000"), ("e", "b", "400")] {
        local.must("POST", "/dbs", &[], &format!(r#"{{"id":"{database}"}}"#));
        let body = format!(
            r#"{{"id":"{container}","partitionKey":{{"paths":["/p"],"kind":"Hash","version":2}}}}"#
        );
        let path = format!("/dbs/{database}/colls");
        local.must("POST", &path, &[("x-ms-offer-throughput", throughput)], &body);
    }
    local
}

fn started() -> Local {
    filled(Local::start())
}

fn operation(kind: &str, container: &str, key: &str, id: &str, more: &str) -> String {
    let database = if container == "a" { "d" } else { "e" };
    format!(
        r#"{{"operationType":"{kind}","resourceType":"Document","databaseName":"{database}",
            "collectionName":"{container}","id":"{id}","partitionKey":["{key}"]{more}}}"#
    )
}

fn create(container: &str, key: &str, id: &str) -> String {
    let body = format!(r#","resourceBody":{{"id":"{id}","p":"{key}","n":1}}"#);
    operation("Create", container, key, id, &body)
}

fn read(container: &str, key: &str, id: &str) -> String {
    operation("Read", container, key, id, "")
}

fn body(operations: &[String]) -> String {
    format!(r#"{{"operations":[{}]}}"#, operations.join(","))
}

/// A token for each number.
fn guid(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

fn commit(local: &Local, token: u32, operations: &[String]) -> Answer {
    let token = guid(token);
    local.send("POST", PATH, &[COMMIT, RESOURCE, (TOKEN, &token)], &body(operations))
}

fn read_all(local: &Local, operations: &[String]) -> Answer {
    let token = guid(999_999);
    local.send("POST", PATH, &[READ, RESOURCE, (TOKEN, &token)], &body(operations))
}

fn results(answer: &Answer) -> Vec<Value> {
    json(answer).get("operationResponses").as_array().unwrap_or_default().to_vec()
}

/// Status and sub-status of each operation.
fn statuses(answer: &Answer) -> Vec<(i64, i64)> {
    let number = |result: &Value, name: &str| result.get(name).as_i64().unwrap();
    results(answer).iter().map(|r| (number(r, "statusCode"), number(r, "subStatusCode"))).collect()
}

fn item(local: &Local, container: &str, key: &str, id: &str) -> Answer {
    let database = if container == "a" { "d" } else { "e" };
    let key = format!(r#"["{key}"]"#);
    let path = format!("/dbs/{database}/colls/{container}/docs/{id}");
    local.send("GET", &path, &[("x-ms-documentdb-partitionkey", &key)], "")
}

#[test]
fn a_commit_is_200_and_each_result_has_what_a_client_needs() {
    let local = started();
    let made = commit(&local, 1, &[create("a", "k1", "x"), create("b", "k2", "y")]);
    assert_eq!(made.status, 200, "{made:?}");
    assert_eq!(made.header(TOKEN), Some(&*guid(1)));
    let whole = json(&made);
    assert_eq!(whole.get("idempotencyToken").as_str(), Some(&*guid(1)));
    assert_eq!(whole.get("statusCode").as_i64(), Some(200));
    assert_eq!(whole.get("isRetriable").to_json(), "false");
    assert_eq!(statuses(&made), [(201, 0), (201, 0)]);
    let charge = |value: &Value| value.get("requestCharge").to_json().parse::<f64>().unwrap();
    let sum: f64 = results(&made).iter().map(charge).sum();
    let header: f64 = made.header("x-ms-request-charge").unwrap().parse().unwrap();
    assert!(
        sum > 2.0 && (sum - header).abs() < 0.01 && (sum - charge(&whole)).abs() < 0.01,
        "{made:?}"
    );
    for (at, (container, key, id)) in [("a", "k1", "x"), ("b", "k2", "y")].into_iter().enumerate() {
        let result = &results(&made)[at];
        let found = item(&local, container, key, id);
        assert_eq!(result.get("index").as_i64(), i64::try_from(at).ok());
        assert_eq!(result.get("Etag").as_str(), found.header("etag"));
        assert_eq!(result.get("sessionToken").as_str(), found.header("x-ms-session-token"));
        let range = found.header("x-ms-documentdb-partitionkeyrangeid");
        assert_eq!(result.get("partitionKeyRangeId").as_str(), range);
        assert_eq!(result.get("resourceBody"), &Value::Undefined, "writes have no body");
    }
    let found = read_all(&local, &[read("a", "k1", "x"), read("b", "k2", "y")]);
    assert_eq!((found.status, statuses(&found)), (200, vec![(200, 0), (200, 0)]));
    assert_eq!(results(&found)[1].get("resourceBody").get("n").as_i64(), Some(1));
}

#[test]
fn an_abort_is_452_and_names_every_operation_that_was_refused() {
    let local = started();
    commit(&local, 1, &[create("a", "k1", "x")]);
    let unknown =
        create("a", "k1", "z").replace(r#""collectionName":"a""#, r#""collectionName":"none""#);
    for (operations, expected) in [
        (
            vec![
                create("b", "k2", "y"),
                create("a", "k1", "x"),
                operation("Delete", "a", "k9", "no", ""),
            ],
            vec![(453, 5415), (409, 0), (404, 0)],
        ),
        (vec![create("b", "k2", "y"), unknown], vec![(453, 5415), (404, 1003)]),
        (
            vec![
                create("b", "k2", "y"),
                operation("Delete", "a", "k1", "x", r#","ifMatch":"\"other\"""#),
            ],
            vec![(453, 5415), (412, 0)],
        ),
        (
            vec![
                create("b", "k2", "y"),
                operation(
                    "Patch",
                    "a",
                    "k1",
                    "x",
                    r#","resourceBody":{"operations":[{"op":"incr","path":"/n","value":1}],
                        "condition":"FROM c WHERE c.n = 7"}"#,
                ),
            ],
            vec![(453, 5415), (412, 1110)],
        ),
        (
            vec![create("b", "k2", "y"), create("a", "k1", "z").replace(r#"["k1"]"#, r#"["k7"]"#)],
            vec![(453, 5415), (400, 1001)],
        ),
    ] {
        let answer = commit(&local, 2, &operations);
        assert_eq!((answer.status, statuses(&answer)), (452, expected), "{answer:?}");
        assert_eq!(item(&local, "b", "k2", "y").status, 404, "nothing was written");
    }
}

#[test]
fn reads_that_fail_leave_the_others_without_an_item() {
    let local = started();
    let made = commit(&local, 1, &[create("a", "k1", "x"), create("b", "k2", "y")]);
    let etag = results(&made)[0].get("Etag").as_str().unwrap().replace('"', "\\\"");
    let unchanged = operation("Read", "a", "k1", "x", &format!(r#","ifNoneMatch":"{etag}""#));
    let stale = operation("Read", "a", "k1", "x", r#","ifMatch":"\"other\"""#);
    let missing = read("b", "k2", "no");
    for (operations, status, expected) in [
        (vec![read("a", "k1", "x"), missing.clone()], 404, vec![(424, 0), (404, 0)]),
        (vec![missing.clone(), missing.clone()], 404, vec![(404, 0), (404, 0)]),
        (vec![stale, missing], 207, vec![(412, 0), (404, 0)]),
        (vec![unchanged.clone(), read("b", "k2", "y")], 207, vec![(304, 0), (200, 0)]),
        (vec![unchanged], 207, vec![(304, 0)]),
    ] {
        let answer = read_all(&local, &operations);
        assert_eq!((answer.status, statuses(&answer)), (status, expected), "{answer:?}");
        for (result, status) in results(&answer).iter().zip(statuses(&answer)) {
            assert_eq!(status.0 == 200, *result.get("resourceBody") != Value::Undefined);
        }
    }
}

#[test]
fn a_session_that_is_ahead_refuses_a_read_and_no_write() {
    let local = started();
    let made = commit(&local, 1, &[create("a", "k1", "x")]);
    let token = results(&made)[0].get("sessionToken").as_str().unwrap().to_owned();
    let (head, lsn) = token.split_once('#').unwrap();
    let ahead = format!("{head}#{}", lsn.parse::<u64>().unwrap() + 100);
    let with = |kind: &str, id: &str, token: &str, more: &str| {
        operation(kind, "a", "k1", id, &format!(r#","sessionToken":"{token}"{more}"#))
    };
    assert_eq!(read_all(&local, &[with("Read", "x", &token, "")]).status, 200);
    let refused = read_all(&local, &[with("Read", "x", &ahead, ""), read("a", "k1", "x")]);
    assert_eq!((refused.status, statuses(&refused)), (404, vec![(404, 1002), (424, 0)]));
    let body = r#","resourceBody":{"id":"w","p":"k1"}"#;
    assert_eq!(commit(&local, 2, &[with("Create", "w", &ahead, body)]).status, 200);
}

#[test]
fn a_request_that_is_sent_again_is_answered_again_and_not_done_again() {
    let local = started();
    commit(&local, 1, &[create("a", "k1", "x"), create("b", "k2", "y")]);
    let add = |container: &str, key: &str, id: &str| {
        let patch = r#","resourceBody":{"operations":[{"op":"incr","path":"/n","value":1}]}"#;
        operation("Patch", container, key, id, patch)
    };
    let both = [add("a", "k1", "x"), add("b", "k2", "y")];
    let (first, second) = (commit(&local, 2, &both), commit(&local, 2, &both));
    assert_eq!((first.status, second.status), (200, 200), "{second:?}");
    assert_eq!(first.body, second.body);
    let n = |container: &str, key: &str, id: &str| {
        json(&item(&local, container, key, id)).get("n").as_i64()
    };
    assert_eq!((n("a", "k1", "x"), n("b", "k2", "y")), (Some(2), Some(2)));
    // A session token that has grown does not make it another request.
    let token = results(&first)[0].get("sessionToken").as_str().unwrap().to_owned();
    let grown = add("a", "k1", "x").replacen('{', &format!(r#"{{"sessionToken":"{token}","#), 1);
    assert_eq!(commit(&local, 2, &[grown, both[1].clone()]).status, 200);
    assert_eq!(n("a", "k1", "x"), Some(2));
    let other = commit(&local, 2, &[add("a", "k1", "x")]);
    assert_eq!(other.status, 400, "{other:?}");
    local.clock.advance_s(limits::TRANSACTION_OUTCOME_KEPT_S);
    assert_eq!(commit(&local, 2, &both).status, 200);
    assert_eq!(n("a", "k1", "x"), Some(3), "the token is new after its time");
}

#[test]
fn where_throughput_is_enforced_a_spent_container_refuses_the_whole() {
    let local = filled(Local::start_with(ConsistencyLevel::default(), |engine| {
        engine.with_enforced_throughput(true)
    }));
    let large = "x".repeat(100_000);
    let put = |id: u32| {
        let body = format!(r#","resourceBody":{{"id":"y{id}","p":"k2","s":"{large}"}}"#);
        operation("Upsert", "b", "k2", &format!("y{id}"), &body)
    };
    let refused = (1..100).find_map(|id| {
        let answer = commit(&local, id, &[put(id), create("a", "k1", &format!("x{id}"))]);
        (answer.status != 200).then_some((id, answer))
    });
    let (id, refused) = refused.expect("four hundred request units are soon spent");
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(json(&refused).get("isRetriable").to_json(), "true");
    assert!(refused.header("x-ms-retry-after-ms").is_some());
    assert_eq!(statuses(&refused), [(429, 3200), (429, 3200)]);
    assert_eq!(item(&local, "a", "k1", &format!("x{id}")).status, 404, "nothing was written");
    local.clock.advance_s(60);
    let again = commit(&local, id, &[put(id), create("a", "k1", &format!("x{id}"))]);
    assert_eq!(again.status, 200, "{again:?}");
}

#[test]
fn each_operation_needs_a_role_in_its_place() {
    let local = started();
    commit(&local, 1, &[create("a", "k1", "x"), create("b", "k2", "y")]);
    let assign = |role: &str, principal: &str, scope: &str| {
        let body = format!(
            r#"{{"roleDefinitionId":"{role}","principalId":"{principal}","scope":"{scope}"}}"#
        );
        local.must("POST", "/_roleassignments", &[], &body);
    };
    assign(DATA_CONTRIBUTOR, "writer", "/dbs/d/colls/a");
    assign(DATA_READER, "writer", "/dbs/e");
    let token = local.issuer.token("writer", local.clock.now_s());
    let send = |kind: (&str, &str), number: u32, operations: &[String]| {
        let guid = guid(number);
        let answer = local.send_as(
            &token,
            "POST",
            PATH,
            &[kind, RESOURCE, (TOKEN, &guid)],
            &body(operations),
        );
        (answer.status, answer.header("x-ms-substatus").unwrap_or("-").to_owned())
    };
    let both = [read("a", "k1", "x"), read("b", "k2", "y")];
    assert_eq!(send(READ, 2, &both), (200, "-".into()));
    assert_eq!(send(COMMIT, 3, &[create("a", "k1", "w")]), (200, "-".into()));
    let mixed = [create("a", "k1", "v"), create("b", "k2", "v")];
    assert_eq!(send(COMMIT, 4, &mixed), (403, "5302".into()));
    assert_eq!(item(&local, "a", "k1", "v").status, 404);
}

#[test]
fn a_resource_token_opens_its_container_its_key_or_its_item() {
    let local = started();
    commit(&local, 1, &[create("a", "k1", "x"), create("a", "k2", "x"), create("b", "k2", "y")]);
    local.must("POST", "/dbs/d/users", &[], r#"{"id":"u"}"#);
    let permission = |id: &str, mode: &str, resource: &str, key: &str| {
        let body =
            format!(r#"{{"id":"{id}","permissionMode":"{mode}","resource":"{resource}"{key}}}"#);
        let made = local.must("POST", "/dbs/d/users/u/permissions", &[], &body);
        json(&made)
            .get("_token")
            .as_str()
            .unwrap()
            .replace('&', "%26")
            .replace('=', "%3D")
            .replace('+', "%2B")
            .replace('/', "%2F")
            .replace(';', "%3B")
    };
    let send = |token: &str, kind: (&str, &str), operations: &[String]| {
        let headers =
            [("authorization", token), ("x-ms-date", ""), kind, RESOURCE, (TOKEN, &*guid(7))];
        let headers: Vec<(String, String)> = headers
            .iter()
            .filter(|(name, _)| *name != "x-ms-date")
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        let mut connection = Connection::open(local.address).unwrap();
        connection.send("POST", PATH, &headers, body(operations).as_bytes()).unwrap().status
    };
    let key = r#","resourcePartitionKey":["k1"]"#;
    let whole = permission("whole", "Read", "dbs/d/colls/a", "");
    let keyed = permission("keyed", "All", "dbs/d/colls/a", key);
    let one = permission("one", "All", "dbs/d/colls/a/docs/x", key);
    let both = [read("a", "k1", "x"), read("a", "k2", "x")];
    assert_eq!(send(&whole, READ, &both), 200);
    assert_eq!(send(&whole, READ, &[read("a", "k1", "x"), read("b", "k2", "y")]), 403);
    assert_eq!(send(&whole, COMMIT, &[create("a", "k1", "w")]), 403, "it is for reads");
    assert_eq!(send(&keyed, READ, &both), 403);
    assert_eq!(send(&keyed, COMMIT, &[create("a", "k1", "w")]), 200);
    assert_eq!(send(&one, READ, &both[..1]), 200);
    assert_eq!(send(&one, READ, &[read("a", "k1", "w")]), 403);
    assert_eq!(send(&one, COMMIT, &[create("a", "k1", "v")]), 403);
}

#[test]
fn a_read_only_key_reads() {
    let local = started();
    commit(&local, 1, &[create("a", "k1", "x")]);
    let send = |kind: (&str, &str), operations: &[String]| {
        let date = crate::client::http_date(local.clock.now_s());
        let kind_signed = "distributedtransactionbatch";
        // Some clients sign the path.
        let authorization = crate::client::signature(
            crate::local::READ_ONLY,
            "POST",
            kind_signed,
            "operations/dtc",
            &date,
        );
        let token = guid(5);
        let headers = [
            ("authorization", &*authorization),
            ("x-ms-date", &*date),
            kind,
            RESOURCE,
            (TOKEN, &*token),
        ];
        let headers: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let mut connection = Connection::open(local.address).unwrap();
        connection.send("POST", PATH, &headers, body(operations).as_bytes()).unwrap().status
    };
    assert_eq!(send(READ, &[read("a", "k1", "x")]), 200);
    assert_eq!(send(COMMIT, &[create("a", "k1", "y")]), 403);
}
