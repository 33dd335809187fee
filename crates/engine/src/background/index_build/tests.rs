//! A folder from before there was an index.

use std::sync::Arc;

use orrery_storage::{MemoryStore, Snapshot, Store};
use orrery_types::{ManualClock, ShardId, Value};

use super::*;
use crate::catalog::offer::ThroughputRequest;
use crate::catalog::{SYSTEM_EPOCH, SYSTEM_SHARD};

fn json(text: &str) -> Value {
    Value::parse(text.as_bytes()).expect("JSON")
}

fn name(id: &str) -> Address {
    Address::Name(id.into())
}

fn open(store: &Arc<MemoryStore>) -> Engine {
    Engine::open(store.clone(), Arc::new(ManualClock::at_s(1000)), 1).expect("an engine")
}

fn entries(snapshot: &dyn Snapshot, space: Space, bounds: &Bounds) -> Vec<Entry> {
    let scan = Scan { max_rows: usize::MAX, max_bytes: usize::MAX, space, ..scan_items(bounds) };
    snapshot.scan(&scan).expect("a scan")
}

/// Takes away what an older version would not have written.
fn forget_the_index(store: &MemoryStore, shard: ShardId, epoch: Epoch) {
    let mut part = Part::new(shard, epoch);
    let snapshot = store.snapshot(shard, ReadAt::Latest).expect("a snapshot");
    let everything = Bounds { from: vec![0x12], to: vec![0x17] };
    for (space, bounds) in [(Space::Index, key::all_index_terms()), (Space::Meta, everything)] {
        let found = entries(&*snapshot, space, &bounds);
        assert!(!found.is_empty(), "{space:?}");
        part.deletes.extend(found.into_iter().map(|entry| (space, entry.key)));
    }
    let mut system = Part::new(SYSTEM_SHARD, SYSTEM_EPOCH);
    let snapshot = store.snapshot(SYSTEM_SHARD, ReadAt::Latest).expect("a snapshot");
    let records = Bounds::prefix(key::records(RecordKind::Container, 1));
    for entry in entries(&*snapshot, Space::Meta, &records) {
        let mut record = Value::parse(&entry.value.bytes).expect("JSON");
        let mut body = record.get("body").as_object().expect("a body").clone();
        assert!(body.remove("indexed").is_some());
        record.as_object_mut().expect("a record").set("body", Value::object(body));
        let value = record.to_json().into_bytes();
        system.puts.push(Put { space: Space::Meta, key: entry.key, value });
    }
    store.commit(Commit::new(vec![part, system])).expect("a commit");
}

#[test]
fn items_written_without_an_index_get_one_at_the_next_start() {
    let store = Arc::new(MemoryStore::new());
    let engine = open(&store);
    let none = ThroughputRequest::default();
    engine.databases().create(&json(r#"{"id":"d"}"#), &none).expect("a database");
    let body = json(r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash"}}"#);
    engine.containers().create(&name("d"), &body, &none).expect("a container");
    let container = engine.containers().read(&name("d"), &name("c")).expect("it was made");
    for n in 0..300 {
        let text = format!(r#"{{"id":"{n}","p":"{}","n":{n},"l":[{n}]}}"#, n % 7);
        engine.items().create(&container, None, text.as_bytes()).expect("an item");
    }
    let partition = &container.partitions[0];
    forget_the_index(&store, partition.shard, partition.epoch);
    drop(engine);

    let engine = open(&store);
    let container = engine.containers().read(&name("d"), &name("c")).expect("it is there");
    let path = [orrery_index::IndexStep::Property("n".into())];
    assert!(!container.index.is_usable(&path));
    assert_eq!(engine.index_build().index_progress(&container), Ok(0));
    engine.items().create(&container, None, br#"{"id":"new","n":1}"#).expect("an item");
    engine.background().run_tasks(&|| false).expect("the work");
    let container = engine.containers().read(&name("d"), &name("c")).expect("it is there");
    assert!(container.index.is_usable(&path));
    assert_eq!(engine.insight().verify(&container), Ok(vec![]));
}
