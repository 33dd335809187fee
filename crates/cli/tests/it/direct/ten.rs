//! The ten things that the .NET SDK relies on, each by name. What happens to a client without one of
//! them is said at its test.

use orrery_direct::token::Tokens;
use orrery_direct::{OperationCode, ResourceCode, ResponseTokens};
use orrery_server::DrainOutcome;
use orrery_server::consistency::ConsistencyLevel;

use super::{Answer, Ask, Client, World, ask};
use crate::local::Local;

const ITEM: &str = r#"{"id":"a","pk":"p","n":1}"#;
const QUERY: &str = r#"{"query":"SELECT * FROM c"}"#;
const KEY: &str = "[\"p\"]";

fn create(body: &str) -> Ask<'_> {
    ask(OperationCode::Create, body).key(KEY)
}

fn read(name: &str) -> Ask<'_> {
    ask(OperationCode::Read, "").item(name).key(KEY)
}

fn changes(after: Option<&str>) -> Ask<'_> {
    let feed = ask(OperationCode::ReadFeed, "").key(KEY);
    feed.with(|tokens| {
        tokens.a_im = Some("Incremental Feed");
        tokens.match_etag = after;
    })
}

/// Requests of every kind on a container, right and wrong.
fn everything() -> Vec<(&'static str, u32, Ask<'static>)> {
    let replaced = ask(OperationCode::Replace, ITEM).item("a").key(KEY);
    let stale = replaced.with(|tokens| tokens.match_etag = Some("\"0\""));
    let ahead = read("a").with(|tokens| tokens.session_token = Some("0:-1#999999"));
    let patch = r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#;
    let query = ask(OperationCode::Query, QUERY);
    let wrong = ask(OperationCode::Query, r#"{"query":"SELECT FROM"}"#);
    let batch = r#"[{"operationType":"Upsert","resourceBody":{"id":"b","pk":"p"}}]"#;
    let batch = ask(OperationCode::Batch, batch).key(KEY);
    let batch = batch.with(|tokens| {
        tokens.is_batch_atomic = Some(1);
        tokens.is_batch_ordered = Some(1);
    });
    vec![
        ("a read of an empty container", 404, read("a")),
        ("a delete in an empty container", 404, ask(OperationCode::Delete, "").item("a").key(KEY)),
        ("changes of an empty container", 304, changes(None)),
        ("a create", 201, create(ITEM)),
        ("a create again", 409, create(ITEM)),
        ("an upsert", 200, ask(OperationCode::Upsert, ITEM).key(KEY)),
        ("a read", 200, read("a")),
        ("a read of what is not there", 404, read("x")),
        ("a read of a session that is ahead", 404, ahead),
        ("a replace", 200, replaced),
        ("a replace of an old version", 412, stale),
        ("a patch", 200, ask(OperationCode::Patch, patch).item("a").key(KEY)),
        ("a create without id", 400, create("[]")),
        ("a query of a key", 200, query.key(KEY)),
        ("a query of a range", 200, query.with(|tokens| tokens.range_id = Some("0"))),
        ("a query that is none", 400, wrong.key(KEY)),
        ("a feed", 200, ask(OperationCode::ReadFeed, "").with(|t| t.range_id = Some("0"))),
        ("changes", 200, changes(None)),
        ("a batch", 200, batch),
        ("a delete", 204, ask(OperationCode::Delete, "").item("a").key(KEY)),
    ]
}

/// Checks every answer of a container of one range, and of one of several.
fn check_all(check: impl Fn(&str, &Answer)) {
    for mut world in [World::start(), World::with_ranges()] {
        // Of several ranges the client asks the one that has the key.
        let range = range_of_key(&mut world);
        for (name, status, plain) in everything() {
            let mut ask: Ask<'_> = plain;
            if ask.tokens.range_id.is_some() {
                ask.tokens.range_id = Some(&range);
            }
            let ahead = format!("{range}:-1#999999");
            if ask.tokens.session_token.is_some() {
                ask.tokens.session_token = Some(&ahead);
            }
            let path = world.paths[&range].clone();
            ask.tokens.replica_path = Some(&path);
            let answer = world.call(&ask);
            assert_eq!(answer.status(), status, "{name}: {}", answer.body());
            check(name, &answer);
        }
    }
}

fn range_of_key(world: &mut World) -> String {
    let probe = world.must(&ask(OperationCode::Upsert, r#"{"id":"probe","pk":"p"}"#).key(KEY));
    let range = probe.tokens().range_id.unwrap().to_owned();
    let gone = world.must(&ask(OperationCode::Delete, "").item("probe").key(KEY));
    assert_eq!(gone.status(), 204);
    range
}

/// Without them a read of what is not there takes 15 seconds and ends as 404/1002.
#[test]
fn one_every_answer_has_a_local_lsn_of_one_at_least_and_a_session_token() {
    check_all(|name, answer| {
        let tokens = answer.tokens();
        assert!(tokens.local_lsn.is_some_and(|lsn| lsn >= 1), "{name}: {tokens:?}");
        let session = tokens.session_token.unwrap_or_default();
        assert!(session.contains('#') && !session.contains(':'), "{name}: {session}");
    });
    let mut world = World::start();
    let empty = world.call(&read("a"));
    assert_eq!((empty.status(), empty.tokens().local_lsn), (404, Some(1)));
    assert!(empty.tokens().session_token.is_some());
}

/// A session token without an LSN throws in the face of the caller.
#[test]
fn two_where_there_is_a_session_token_there_is_an_lsn() {
    check_all(|name, answer| {
        let tokens = answer.tokens();
        assert!(tokens.session_token.is_none() || tokens.lsn.is_some(), "{name}");
        assert_eq!(tokens.lsn, tokens.quorum_acked_lsn, "{name}");
    });
}

/// One token of another type, and every read ends as 404/1002 after 15 seconds.
#[test]
fn three_every_token_has_the_type_of_the_clients_table() {
    check_all(|name, answer| {
        for token in Tokens::new(&answer.0.head[24..]) {
            let token = token.unwrap();
            let row = ResponseTokens::TABLE.iter().find(|row| row.id == token.id);
            assert_eq!(row.map(|row| row.kind), Some(token.kind), "{name}: {:#x}", token.id);
        }
    });
}

/// Without them the client drops the connection.
#[test]
fn four_payload_present_and_transport_request_id_come_first_in_every_answer() {
    check_all(|name, answer| {
        let ids: Vec<u16> = Tokens::new(&answer.0.head[24..]).map(|t| t.unwrap().id).collect();
        assert_eq!(ids[..2], [0x00, 0x35], "{name}");
        let has_body = answer.tokens().payload_present == Some(1);
        assert_eq!(has_body, !answer.0.body.is_empty(), "{name}");
        assert_eq!(answer.0.body.is_empty(), matches!(answer.status(), 204 | 304), "{name}");
    });
}

/// With one address, clients ask for addresses before every read of the stronger levels; with four
/// they read twice.
#[test]
fn five_two_addresses_and_a_replica_set_of_two() {
    let world = World::start();
    for (resolved, ranges) in [("dbs", ""), ("dbs/d/colls/c/docs", "0")] {
        let addresses = world.addresses(resolved, ranges);
        let primary: Vec<bool> = addresses.iter().map(|a| a["isPrimary"] == true).collect();
        assert_eq!(primary, [true, false], "{resolved}");
    }
    let account = world.local.must("GET", "/", &[], "");
    let account: serde_json::Value = serde_json::from_str(&account.body).unwrap();
    for policy in ["userReplicationPolicy", "systemReplicationPolicy"] {
        assert_eq!(account[policy]["maxReplicasetSize"], 2, "{policy}");
    }
}

/// A client with an old cache would write into another container of the same name.
#[test]
fn six_the_rid_of_another_container_is_410_1000_and_writes_nothing() {
    let mut world = World::start();
    world.must(&create(ITEM));
    let old = world.rid.clone();
    world.local.must("DELETE", "/dbs/d/colls/c", &[], "");
    let container = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    world.local.must("POST", "/dbs/d/colls", &[], container);
    for ask in [create(ITEM), read("a"), ask(OperationCode::Query, QUERY).key(KEY)] {
        let answer = world.call(&ask);
        assert_eq!((answer.status(), answer.tokens().sub_status), (410, Some(1000)));
        assert_eq!(answer.tokens().request_charge, Some(0.0));
    }
    world.refresh();
    assert_ne!(world.rid, old);
    assert_eq!(world.call(&read("a")).status(), 404, "nothing was written");
    world.must(&create(ITEM));
}

/// Without them `ArgumentNullException`.
#[test]
fn seven_every_answer_of_the_change_feed_has_an_etag_and_an_item_count() {
    let mut world = World::start();
    let empty = world.call(&changes(None));
    assert_eq!((empty.status(), empty.tokens().item_count), (304, Some(0)));
    assert!(empty.tokens().etag.is_some());
    world.must(&create(ITEM));
    let some = world.call(&changes(None));
    assert_eq!((some.status(), some.tokens().item_count), (200, Some(1)));
    let etag = some.tokens().etag.unwrap().to_owned();
    let none = world.call(&changes(Some(&etag)));
    assert_eq!((none.status(), none.tokens().item_count), (304, Some(0)));
    assert!(none.tokens().etag.is_some());
}

/// Without it queries fail, and the garbage collector may end the client's process.
#[test]
fn eight_the_configuration_of_the_query_engine_is_not_empty() {
    let world = World::start();
    let account = world.local.must("GET", "/", &[], "");
    let account: serde_json::Value = serde_json::from_str(&account.body).unwrap();
    let text = account["queryEngineConfiguration"].as_str().unwrap();
    let configuration: serde_json::Value = serde_json::from_str(text).unwrap();
    assert!(configuration.as_object().is_some_and(|members| members.len() > 5), "{text}");
}

/// The client reports 503 and does not repeat the write, whether it was done or not.
#[test]
fn nine_a_connection_with_a_write_in_flight_is_never_cut() {
    let mut world = World::start();
    let bodies: Vec<String> =
        (0..200).map(|n| format!(r#"{{"id":"{n}","pk":"p","text":"{n:01000}"}}"#)).collect();
    for body in &bodies {
        world.send(&create(body));
    }
    let World { local, mut client, .. } = world;
    let stopped = std::thread::spawn(move || local.stop());
    let mut statuses = Vec::new();
    for _ in &bodies {
        let answer = client.receive();
        let sub_status = answer.tokens().sub_status;
        assert!(answer.status() == 201 || (answer.status(), sub_status) == (410, None));
        statuses.push(answer.status());
    }
    assert_eq!(statuses.len(), bodies.len());
    assert_eq!(stopped.join().unwrap(), DrainOutcome::Complete);
}

/// 503 and 408 surface to the caller; a 429 that does not say when makes the client wait 5 seconds.
#[test]
fn ten_overload_is_429_and_says_when_to_try_again() {
    let local = Local::start_direct(ConsistencyLevel::default(), |engine| {
        engine.with_enforced_throughput(true)
    });
    let mut world = World::of(local, 400);
    let mut bodies = (0..1000).map(|n| format!(r#"{{"id":"{n}","pk":"p"}}"#));
    let throttled = loop {
        let body = bodies.next().expect("the throughput is used up long before");
        let answer = world.call(&create(&body));
        if answer.status() != 201 {
            break answer;
        }
    };
    let tokens = throttled.tokens();
    assert_eq!((throttled.status(), tokens.sub_status), (429, Some(3200)));
    assert!(tokens.retry_after_ms.is_some_and(|ms| ms > 0));
    assert_eq!(tokens.request_charge, Some(0.0));
    assert!(tokens.local_lsn.is_some_and(|lsn| lsn >= 1));
}

/// Everything but items is read from the master partition, at the strongest level.
#[test]
fn reads_of_the_master_partition_have_the_tokens_of_a_quorum() {
    let mut world = World::start();
    world.local.must("POST", "/dbs/d/users", &[], r#"{"id":"u"}"#);
    let of = |resource, operation| {
        let mut ask = ask(operation, "");
        ask.resource = resource;
        ask.tokens.container_name = None;
        ask.tokens.consistency_level = Some(0);
        ask
    };
    let database = of(ResourceCode::Database, OperationCode::Read);
    let missing = database.with(|tokens| tokens.database_name = Some("other"));
    let databases = of(ResourceCode::Database, OperationCode::ReadFeed);
    let databases = databases.with(|tokens| tokens.database_name = None);
    let user = of(ResourceCode::User, OperationCode::Read);
    let asks = [
        (200, database),
        (404, missing),
        (200, databases),
        (200, of(ResourceCode::Container, OperationCode::ReadFeed)),
        (200, of(ResourceCode::User, OperationCode::ReadFeed)),
        (200, user.with(|tokens| tokens.user_name = Some("u"))),
    ];
    for (status, ask) in asks {
        let answer = world.call(&ask);
        assert_eq!(answer.status(), status, "{:?}: {}", ask.resource, answer.body());
        let tokens = answer.tokens();
        assert!(tokens.lsn.is_some_and(|lsn| lsn >= 1), "{tokens:?}");
        assert_eq!(tokens.lsn, tokens.local_lsn);
        assert_eq!(tokens.lsn, tokens.quorum_acked_local_lsn);
        assert_eq!((tokens.write_quorum, tokens.replica_set_size), (Some(1), Some(2)));
    }
}

#[test]
fn answers_come_in_any_order_and_name_their_requests() {
    let mut world = World::start();
    world.must(&create(ITEM));
    let mut sent: Vec<u32> = (0..100).map(|_| world.send(&read("a"))).collect();
    sent.push(world.send(&ask(OperationCode::Query, QUERY).key(KEY)));
    let mut answered: Vec<u32> = Vec::new();
    for _ in &sent {
        let answer = world.client.receive();
        assert_eq!(answer.status(), 200, "{}", answer.body());
        answered.push(answer.tokens().transport_request_id.unwrap());
    }
    answered.sort_unstable();
    assert_eq!(answered, sent);
}

#[test]
fn a_request_without_a_valid_signature_is_401_and_the_connection_stays() {
    let mut world = World::start();
    let forged = read("a").with(|tokens| tokens.authorization = Some("type%3Dmaster%26ver%3D1.0"));
    assert_eq!(world.call(&forged).status(), 401);
    assert_eq!(world.call(&read("a")).status(), 404);
    let mut other = Client::connect(&world.local);
    std::mem::swap(&mut other, &mut world.client);
    assert_eq!(world.call(&read("a")).status(), 404);
}

#[test]
fn a_resource_token_opens_by_frame_what_it_opens_by_http() {
    let mut world = World::start();
    world.must(&create(ITEM));
    world.local.must("POST", "/dbs/d/users", &[], r#"{"id":"u"}"#);
    let permission = r#"{"id":"p","permissionMode":"Read","resource":"dbs/d/colls/c"}"#;
    let answer = world.local.must("POST", "/dbs/d/users/u/permissions", &[], permission);
    let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    let token = body["_token"].as_str().unwrap();
    let allowed = read("a").with(|tokens| tokens.authorization = Some(token));
    assert_eq!(world.call(&allowed).status(), 200);
    let denied = create(r#"{"id":"b","pk":"p"}"#);
    let denied = denied.with(|tokens| {
        tokens.authorization = Some(token);
        tokens.session_token = Some("0:7#15");
    });
    // The client gets its own session back: without one it would ask again for 15 seconds.
    let denied = world.call(&denied);
    assert_eq!((denied.status(), denied.tokens().session_token), (403, Some("7#15")));
}
