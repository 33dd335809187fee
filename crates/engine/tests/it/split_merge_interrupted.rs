//! A process that ends in the middle of a split or a merge, after every single step of it: what opens
//! afterwards has the old layout or the new one, and all of the data.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use orrery_engine::Engine;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_storage::{MemoryStore, StorageError, Store};
use orrery_types::{ManualClock, Result};

use crate::interposed::{Hook, Interposed, Step};
use crate::world::{START_S, json, manual, name};

/// A store that takes so many writes and then none: as if the process had ended.
pub(crate) fn ending(inner: &Arc<MemoryStore>, left: &Arc<AtomicUsize>) -> Arc<dyn Store> {
    let left = left.clone();
    let hook: Hook = Box::new(move |step| {
        if step == Step::Flush {
            return Ok(());
        }
        let taken = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        let ended = |_| StorageError::ReadOnly("the process has ended".into());
        taken.map(drop).map_err(ended)
    });
    Arc::new(Interposed::writes(inner.clone(), hook))
}

fn open(store: Arc<dyn Store>) -> Engine {
    Engine::open(store, Arc::new(ManualClock::at_s(START_S)), 1).expect("it opens")
}

/// All items, whatever ranges they lie in.
fn items(engine: &Engine) -> Vec<bytes::Bytes> {
    let container = engine.containers().read(&name("d"), &name("c")).expect("a container");
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let page = engine.queries().read_items(&container, &scope, PageSize { items: 1000 }, None);
    let mut items = page.expect("a page").items;
    items.sort_unstable();
    items
}

fn put(engine: &Engine, n: usize) {
    let container = engine.containers().read(&name("d"), &name("c")).expect("a container");
    let text = format!(r#"{{"id":"{n}","p":{n},"u":{n}}}"#);
    let none = Preconditions::default();
    engine.items().upsert(&container, None, text.as_bytes(), &none).expect("an upsert");
}

/// Ends a change of the layout after each of its steps; returns how many it had.
fn interrupt(throughput: i64, change: impl Fn(&Engine) -> Result<()>) -> usize {
    // Always on memory, whose image is put back for each step.
    let store = Arc::new(MemoryStore::new());
    let engine = open(store.clone());
    engine.databases().create(&json(r#"{"id":"d"}"#), &manual(None)).expect("a database");
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
        "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}"#;
    engine.containers().create(&name("d"), &json(body), &manual(Some(throughput))).expect("made");
    for n in 0..50 {
        put(&engine, n);
    }
    let before = items(&engine);
    drop(engine);
    let image = store.image();
    for steps in 0.. {
        store.restore(&image);
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        drop(open(ending(&store, &left)));
        let engine = open(ending(&store, &left));
        left.store(steps, Ordering::SeqCst);
        let changed = change(&engine);
        drop(engine);
        // What is closed or in a journal is so as long as the store is open.
        store.restore(&store.image());
        let engine = open(store.clone());
        let container = engine.containers().read(&name("d"), &name("c")).expect("a container");
        assert_eq!(items(&engine), before, "after {steps} steps");
        assert_eq!(engine.insight().verify(&container), Ok(vec![]), "after {steps} steps");
        let shards = store.shards().expect("shards").len();
        assert_eq!(
            shards,
            container.partitions.len() + 1,
            "after {steps} steps nothing is left over"
        );
        let new = container.partitions.iter().any(|p| !p.parents.is_empty());
        assert!(changed.is_err() || new, "after {steps} steps");
        put(&engine, 99);
        assert_eq!(items(&engine).len(), 51);
        if changed.is_ok() {
            return steps;
        }
    }
    unreachable!("it ends some time");
}

#[test]
fn a_split_that_is_interrupted_leaves_one_layout() {
    let steps = interrupt(400, |engine| {
        engine.layouts().split_partition(&name("d"), &name("c"), None, None).map(drop)
    });
    assert!(steps > 10, "{steps} steps");
}

#[test]
fn a_merge_that_is_interrupted_leaves_one_layout() {
    let steps = interrupt(12_000, |engine| {
        engine.layouts().merge_partitions(&name("d"), &name("c"), None).map(drop)
    });
    assert!(steps > 10, "{steps} steps");
}
