//! Row numbers are reserved before they are needed: to prepare a write never waits for a commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use orrery_engine::item::operation::ItemBody;
use orrery_engine::item::operation::ItemWrite;
use orrery_engine::{Container, Engine};
use orrery_storage::Store;
use orrery_types::ManualClock;

use crate::interposed::{Hook, Interposed, Step};
use crate::stores::new_store;
use crate::world::{START_S, json, manual, name};

fn open(store: &Arc<dyn Store>, commits: &Arc<AtomicUsize>) -> Engine {
    let counted = commits.clone();
    let hook: Hook = Box::new(move |step| {
        counted.fetch_add(usize::from(step == Step::Commit), SeqCst);
        Ok(())
    });
    let store: Arc<dyn Store> = Arc::new(Interposed::writes(store.clone(), hook));
    Engine::open(store, Arc::new(ManualClock::at_s(START_S)), 1).expect("it opens")
}

fn create(container: &Container, id: usize) -> ItemWrite {
    let text = format!(r#"{{"id":"{id}"}}"#);
    ItemWrite::Create(ItemBody::parse(container, text.as_bytes()).expect("an item"))
}

#[test]
fn preparing_a_write_makes_no_commit() {
    let (store, commits) = (new_store(), Arc::new(AtomicUsize::new(0)));
    let engine = open(&store, &commits);
    engine.databases().create(&json(r#"{"id":"d"}"#), &manual(None)).expect("a database");
    let body = json(r#"{"id":"c","partitionKey":{"paths":["/id"],"kind":"Hash"}}"#);
    engine.containers().create(&name("d"), &body, &manual(None)).expect("a container");
    let container = engine.containers().read(&name("d"), &name("c")).expect("a container");
    // The first item allocates path ids with its commit, the second finds them.
    for id in [1000, 1001] {
        engine.point_writes().write(&container, None, &create(&container, id)).expect("an item");
    }
    let before = commits.load(SeqCst);
    for n in 1..100 {
        let prepared = engine.point_writes().prepare(&container, None, &create(&container, n));
        assert!(prepared.expect("it is prepared").is_some(), "a new range has its first rows");
    }
    assert_eq!(commits.load(SeqCst), before);
    // An engine that was just opened has no rows, and does not reserve them here.
    let engine = open(&store, &commits);
    let container = engine.containers().read(&name("d"), &name("c")).expect("a container");
    let before = commits.load(SeqCst);
    let prepared = engine.point_writes().prepare(&container, None, &create(&container, 100));
    assert!(prepared.expect("no refusal").is_none(), "somebody who may wait must write it");
    assert_eq!(commits.load(SeqCst), before);
    engine.point_writes().write(&container, None, &create(&container, 100)).expect("an item");
    let before = commits.load(SeqCst);
    let prepared = engine.point_writes().prepare(&container, None, &create(&container, 101));
    assert!(prepared.expect("it is prepared").is_some());
    assert_eq!(commits.load(SeqCst), before);
}
