//! Clients that believe in ranges which were split: they are told, and find everything where it is now.

use orrery_direct::OperationCode;

use super::{World, ask};

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
fn a_container_that_is_gone_is_404_1003() {
    let mut world = World::start();
    world.local.must("DELETE", "/dbs/d/colls/c", &[], "");
    let answer = world.call(&ask(OperationCode::Read, "").item("1").key("[\"1\"]"));
    assert_eq!((answer.status(), answer.tokens().sub_status), (404, Some(1003)));
}
