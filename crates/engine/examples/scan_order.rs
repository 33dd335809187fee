//! What it costs to read 100,000 items in the order of insertion instead of the order of keys.
//!
//! `cargo run --release -p orrery-engine --example scan_order [ITEMS]`

#![expect(clippy::print_stdout, reason = "it measures and reports")]

use std::sync::Arc;

use orrery_engine::item::operation::ItemBody;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_engine::throughput::ThroughputRequest;
use orrery_engine::transaction::bulk_load::Existing;
use orrery_engine::{Container, Engine, query::continuation};
use orrery_storage::{RocksOptions, RocksStore, key};
use orrery_types::ids::Address;
use orrery_types::{EffectiveKey, KeyComponent, PartitionKey, SystemClock, Value};

fn json(text: &str) -> Value {
    Value::parse(text.as_bytes()).expect("JSON")
}

/// Milliseconds for which this thread had a processor.
#[expect(clippy::cast_precision_loss, reason = "it is a measurement")]
fn processor_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let ns: u64 = text.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    ns as f64 / 1e6
}

/// All pages of a query; rows and milliseconds of processor time.
fn query(engine: &Engine, container: &Container, text: &str, size: PageSize) -> (usize, f64) {
    let body = format!(r#"{{"query":"{text}"}}"#);
    let request = QueryRequest::parse(&json(&body)).expect("a query");
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let started = processor_ms();
    let (mut rows, mut token): (usize, Option<String>) = (0, None);
    loop {
        let paging = Paging { continuation: token.as_deref(), crosses: true, ..Paging::default() };
        let page = engine
            .queries()
            .query_items(container, &scope, &request, size, &paging)
            .expect("a page");
        rows += page.rows.len();
        token = page.continuation;
        if token.is_none() {
            return (rows, processor_ms() - started);
        }
    }
}

fn feed(engine: &Engine, container: &Container, mut token: Option<String>) -> (usize, f64) {
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let started = processor_ms();
    let mut rows = 0;
    loop {
        let size = PageSize { items: 1000 };
        let page =
            engine.queries().read_items(container, &scope, size, token.as_deref()).expect("a page");
        rows += page.items.len();
        token = page.continuation;
        if token.is_none() {
            return (rows, processor_ms() - started);
        }
    }
}

fn main() {
    let items: usize = std::env::args().nth(1).map_or(100_000, |n| n.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a folder");
    let store = RocksStore::open(folder.path(), &RocksOptions::default()).expect("a store");
    let engine = Engine::open(Arc::new(store), Arc::new(SystemClock), 1).expect("an engine");
    let manual = ThroughputRequest { manual: None, autoscale: None };
    engine.databases().create(&json(r#"{"id":"d"}"#), &manual).expect("a database");
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    let database = Address::Name("d".into());
    engine.containers().create(&database, &json(body), &manual).expect("a container");
    let container = engine.containers().read(&database, &Address::Name("c".into())).expect("it");
    let pad = "x".repeat(200);
    let body = |n: usize| {
        let (id, pk) = (n * 7919 % items, n * 31 % 5000);
        let text = format!(r#"{{"id":"i{id}","pk":"k{pk}","n":{n},"pad":"{pad}"}}"#);
        ItemBody::parse(&container, text.as_bytes()).expect("an item")
    };
    for from in (0..items).step_by(1000) {
        let bodies = (from..items.min(from + 1000)).map(body).collect();
        engine
            .transactions()
            .load_items(&container, bodies, Existing::Refuse)
            .expect("they are loaded");
    }
    let least = PartitionKey(vec![KeyComponent::Null]);
    let first = key::item(&EffectiveKey::min(), &least, "");
    let by_key = continuation::encode(&format!("items {} ", container.rid()), &first);
    for round in 1..=4 {
        println!("round {round}");
        let (rows, ms) = feed(&engine, &container, Some(by_key.clone()));
        println!("  feed by key           {rows:>7} rows {ms:>9.1} ms");
        let (rows, ms) = feed(&engine, &container, None);
        println!("  feed by row           {rows:>7} rows {ms:>9.1} ms");
        let all = PageSize { items: 1000 };
        let (_, ms) =
            query(&engine, &container, "SELECT VALUE COUNT(1) FROM c WHERE c.n + 0 < 0", all);
        println!("  filter by key         {:>7} rows {ms:>9.1} ms", 0);
        let (rows, ms) =
            query(&engine, &container, "SELECT VALUE c.id FROM c WHERE c.n + 0 < 0", all);
        println!("  filter by row         {rows:>7} rows {ms:>9.1} ms");
        let (rows, ms) = query(&engine, &container, "SELECT * FROM c", all);
        println!("  SELECT * by row       {rows:>7} rows {ms:>9.1} ms");
    }
}
