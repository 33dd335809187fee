//! What operations cost, and that the same costs the same.

use bytes::Bytes;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::change_feed::{ChangesRequest, Mode, Shape};
use orrery_engine::item::patch::Patch;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_engine::transaction::batch::{BatchAction, BatchAnswer, BatchOperation, Content};
use orrery_types::PartitionKey;

use crate::world::{World, json, name};

const ALL: PageSize = PageSize { items: 1000 };

fn world(policy: &str) -> World {
    let mut world = World::memory();
    world.database();
    let body = format!(
        r#"{{"id":"c","partitionKey":{{"paths":["/p"],"kind":"Hash","version":2}}{policy}}}"#
    );
    world.create_container(&body, None);
    world
}

fn key() -> PartitionKey {
    PartitionKey::parse_header(r#"["p"]"#).expect("a key")
}

/// An item of so many bytes with as many properties of its own as there are numbers.
fn item(id: &str, bytes: usize, numbers: &[i64]) -> String {
    let own: Vec<String> =
        numbers.iter().enumerate().map(|(at, n)| format!(r#","n{at}":{n}"#)).collect();
    let own = own.concat();
    let start = format!(r#"{{"id":"{id}","p":"p"{own},"x":""#);
    let fill = bytes.saturating_sub(start.len() + 2);
    format!("{start}{}\"}}", "x".repeat(fill))
}

#[track_caller]
fn check(charge: f64, expected: f64) {
    assert!((charge - expected).abs() < 1e-9, "{charge}, not {expected}");
}

fn upsert(world: &World, text: &str) -> f64 {
    let any = Preconditions::default();
    let container = world.container("c");
    let key = key();
    world.engine().items().upsert(&container, Some(&key), text.as_bytes(), &any).expect("it").charge
}

fn read(world: &World, id: &str) -> f64 {
    world.engine().items().read(&world.container("c"), Some(&key()), &name(id)).expect("it").charge
}

fn delete(world: &World, id: &str) -> f64 {
    let (container, any) = (world.container("c"), Preconditions::default());
    world.engine().items().delete(&container, Some(&key()), &name(id), &any).expect("it").charge
}

#[test]
fn a_kilobyte_costs_what_is_published() {
    let world = world("");
    // id, p, x and seven numbers are ten terms.
    let text = item("a", 1024, &[1, 2, 3, 4, 5, 6, 7]);
    check(upsert(&world, &text), 6.95);
    check(read(&world, "a"), 1.0);
    // Two terms differ.
    check(upsert(&world, &item("a", 1024, &[1, 2, 3, 4, 5, 8, 9])), 10.7);
    check(delete(&world, "a"), 6.95);
    check(upsert(&world, &item("b", 64 * 1024, &[])), 23.27);
    check(read(&world, "b"), 4.76);
}

#[test]
fn the_time_of_a_write_does_not_count() {
    let policies = [
        "",
        r#","indexingPolicy":{"compositeIndexes":[[{"path":"/p"},{"path":"/_ts"}]]}"#,
        r#","indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[]}"#,
        r#","indexingPolicy":{"indexingMode":"none","automatic":false}"#,
    ];
    for policy in policies {
        let world = world(policy);
        upsert(&world, &item("a", 500, &[1]));
        let at_once = upsert(&world, &item("a", 500, &[1]));
        world.clock.advance_s(100);
        check(upsert(&world, &item("a", 500, &[1])), at_once);
    }
}

#[test]
fn what_is_not_indexed_is_not_charged() {
    let none = world(r#","indexingPolicy":{"indexingMode":"none","automatic":false}"#);
    check(upsert(&none, &item("a", 1024, &[1, 2, 3])), 4.95);
    check(upsert(&none, &item("a", 1024, &[4, 5, 6])), 9.9);
}

#[test]
fn a_patch_is_a_replace_and_its_operations() {
    let world = world("");
    upsert(&world, &item("a", 1024, &[1, 2]));
    let patch =
        json(r#"[{"op":"set","path":"/n0","value":7},{"op":"set","path":"/n1","value":8}]"#);
    let patch = Patch::parse(&patch).expect("a patch");
    let any = Preconditions::default();
    let container = world.container("c");
    let patched = world.engine().items().patch(&container, Some(&key()), &name("a"), &patch, &any);
    check(patched.expect("it").charge, 11.5);
}

#[test]
fn a_batch_costs_the_sum_of_its_operations() {
    let world = world("");
    let operation = |action| BatchOperation {
        action,
        partition_key: None,
        conditions: Preconditions::default(),
        content: Content::Full,
    };
    let operations = [
        operation(BatchAction::Create(Bytes::from(item("a", 1024, &[1])))),
        operation(BatchAction::Read(name("a"))),
        operation(BatchAction::Replace(name("a"), Bytes::from(item("a", 1024, &[2])))),
        operation(BatchAction::Delete(name("a"))),
    ];
    let answers =
        world.engine().transactions().batch(&world.container("c"), Some(&key()), &operations);
    let answers = answers.expect("answers");
    let each: Vec<f64> = answers.answers.iter().map(BatchAnswer::charge).collect();
    for (charge, expected) in each.iter().zip([5.75, 1.0, 10.3, 5.75]) {
        check(*charge, expected);
    }
    check(answers.charge, 22.8);
}

#[test]
fn feeds_cost_what_their_items_cost() {
    let world = world("");
    for n in 0..5 {
        upsert(&world, &item(&n.to_string(), 1024, &[n]));
    }
    let container = world.container("c");
    let whole = container.scope(&ScopeRequest::default()).expect("a scope");
    let page = world.engine().queries().read_items(&container, &whole, ALL, None).expect("a page");
    check(page.charge, 5.0);
    let changes = |after: Option<&str>| {
        let request = ChangesRequest {
            scope: ScopeRequest::default(),
            mode: Mode::Latest(Shape::Bare),
            after,
            since_s: None,
            size: ALL,
        };
        world.engine().change_feed().read_changes(&container, &request).expect("changes")
    };
    let page = changes(None);
    check(page.charge, 5.0);
    check(changes(Some(&page.etag)).charge, 1.0);
}

#[test]
fn a_query_costs_by_its_work_and_always_the_same() {
    let world = world("");
    for n in 0..50 {
        upsert(&world, &item(&n.to_string(), 1024, &[n]));
    }
    let container = world.container("c");
    let charge = |text: &str| {
        let request = json(&format!(r#"{{"query":"{text}"}}"#));
        let request = QueryRequest::parse(&request).expect("a query");
        let key = Some(key());
        let scope = ScopeRequest { partition_key: key, ..ScopeRequest::default() };
        let scope = container.scope(&scope).expect("a scope");
        let paging = Paging::default();
        world
            .engine()
            .queries()
            .query_items(&container, &scope, &request, ALL, &paging)
            .expect("rows")
            .charge
    };
    let queries = [
        "SELECT VALUE 1",
        "SELECT * FROM c WHERE c.n0 = 100",
        "SELECT * FROM c WHERE c.n0 = 7",
        "SELECT * FROM c WHERE c.n0 < 5",
        "SELECT c.id FROM c",
        "SELECT * FROM c",
    ];
    let first: Vec<f64> = queries.iter().map(|text| charge(text)).collect();
    assert!(first.is_sorted(), "{first:?}");
    assert!((2.3..2.4).contains(&first[1]), "{first:?}");
    assert!(first[5] > first[3] + 1.0, "{first:?}");
    world.clock.advance_s(3600);
    for (text, charged) in queries.iter().zip(first) {
        check(charge(text), charged);
    }
}
