//! Clients that believe in ranges which were split: they are told, and find everything where it is now.

use orrery_direct::OperationCode;

use super::{PATIENCE, World, ask};

#[test]
fn a_range_that_was_split_is_410_1007_for_every_request_and_nothing_is_lost() {
    let mut world = World::start();
    for n in 0..20 {
        let body = format!(r#"{{"id":"{n}","pk":"{n}"}}"#);
        let key = format!("[\"{n}\"]");
        world.must(&ask(OperationCode::Create, &body).key(&key));
    }
    world.local.must("POST", "/dbs/d/colls/c/operations/split", &[], "");
    let query = r#"{"query":"SELECT VALUE c.id FROM c"}"#;
    let asks = [
        ask(OperationCode::Read, "").item("1").key("[\"1\"]"),
        ask(OperationCode::Create, r#"{"id":"new","pk":"1"}"#).key("[\"1\"]"),
        ask(OperationCode::Query, query).with(|tokens| tokens.range_id = Some("0")),
        ask(OperationCode::ReadFeed, "").with(|tokens| tokens.range_id = Some("0")),
    ];
    for ask in asks {
        let answer = world.call(&ask);
        assert_eq!((answer.status(), answer.tokens().sub_status), (410, Some(1007)));
        assert_eq!(answer.tokens().request_charge, Some(0.0));
    }
    world.refresh();
    assert_eq!(world.paths.len(), 2);
    let mut found = Vec::new();
    for range in world.paths.keys().cloned().collect::<Vec<_>>() {
        let ask = ask(OperationCode::Query, query).with(|tokens| tokens.range_id = Some(&range));
        let answer = world.must(&ask);
        assert_eq!(answer.tokens().range_id, Some(&*range));
        let body: serde_json::Value = serde_json::from_str(answer.body()).unwrap();
        let ids = body["Documents"].as_array().unwrap().iter();
        found.extend(ids.map(|id| id.as_str().unwrap().parse::<u32>().unwrap()));
    }
    found.sort_unstable();
    assert_eq!(found, (0..20).collect::<Vec<_>>(), "each once, and none that was turned away");
}

#[test]
fn a_client_that_leaves_in_mid_query_frees_its_threads() {
    let mut world = World::start();
    let numbers: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    let body = format!(r#"{{"id":"a","pk":"a","l":[{}]}}"#, numbers.join(","));
    world.must(&ask(OperationCode::Create, &body).key("[\"a\"]"));
    // Time stands still, so that no deadline ends them, and together they take longer than the test waits.
    let query = r#"{"query":"SELECT VALUE x FROM c JOIN x IN c.l JOIN y IN c.l JOIN z IN c.l WHERE x + y + z < 0"}"#;
    for _ in 0..20 {
        world.send(&ask(OperationCode::Query, query).key("[\"a\"]"));
    }
    // What comes behind them is answered first: they run on other threads.
    let behind = world.send(&ask(OperationCode::Read, "").item("a").key("[\"a\"]"));
    let answer = world.client.receive();
    assert_eq!((answer.status(), answer.tokens().transport_request_id), (200, Some(behind)));
    let World { local, client, .. } = world;
    drop(client);
    assert!(local.ends_within(PATIENCE), "the queries are still running");
}

#[test]
fn a_container_that_is_gone_is_404_1003() {
    let mut world = World::start();
    world.local.must("DELETE", "/dbs/d/colls/c", &[], "");
    let answer = world.call(&ask(OperationCode::Read, "").item("1").key("[\"1\"]"));
    assert_eq!((answer.status(), answer.tokens().sub_status), (404, Some(1003)));
}
