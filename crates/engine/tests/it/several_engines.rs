//! Several engines over one store that does not know of them: what the store itself protects. With what the engine does on a
//! shared store they are in `several_engines_shared`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use orrery_engine::Engine;
use orrery_engine::catalog::resource::Preconditions;
use orrery_storage::{MemoryStore, Store};
use orrery_types::{Error, ManualClock, PartitionKey, Result};

use crate::interposed::{Hook, Interposed};
use crate::world::{START_S, json, manual, name};

fn open(store: Arc<dyn Store>, node: u32) -> Engine {
    Engine::open(store, Arc::new(ManualClock::at_s(START_S)), node).expect("it opens")
}

const PEOPLE: &str = r#"{"id":"people","partitionKey":{"paths":["/id"]}}"#;
const MODEL: &str = r#"{"version":1,"types":{"person":{"container":"people"}}}"#;

/// A store with the database `d` and its container `people` of two ranges, and the first engine over it.
fn people(store: Arc<dyn Store>) -> Engine {
    let engine = open(store, 1);
    engine.databases().create(&json(r#"{"id":"d"}"#), &manual(None)).expect("a database");
    let made = engine.containers().create(&name("d"), &json(PEOPLE), &manual(Some(12_000)));
    made.expect("a container");
    for n in 0..8 {
        put(&engine, &format!("{n}")).expect("an item");
    }
    engine
}

fn put(engine: &Engine, id: &str) -> Result<()> {
    let container = engine.containers().read(&name("d"), &name("people"))?;
    let text = format!(r#"{{"id":"{id}","a":1}}"#);
    engine.items().upsert(&container, None, text.as_bytes(), &Preconditions::default()).map(drop)
}

fn read(engine: &Engine, id: &str) -> Result<()> {
    let container = engine.containers().read(&name("d"), &name("people"))?;
    let key = PartitionKey::parse_header(&format!(r#"["{id}"]"#)).expect("a key");
    engine.items().read(&container, Some(&key), &name(id)).map(drop)
}

#[track_caller]
pub(crate) fn check_sound(engine: &Engine, what: &str) {
    engine.background().run_tasks(&|| false).expect(what);
    let container = engine.containers().read(&name("d"), &name("people")).expect("a container");
    assert_eq!(engine.insight().verify(&container), Ok(vec![]), "{what}");
}

type Change = fn(&Engine) -> Result<()>;

fn replace(engine: &Engine, more: &str) -> Result<()> {
    let body = json(&PEOPLE.replace(r#""id":"people""#, &format!(r#""id":"people"{more}"#)));
    let none = Preconditions::default();
    engine.containers().replace(&name("d"), &name("people"), &body, &none).map(drop)
}

/// Changes of what writers of `people` go by.
const CHANGES: [(&str, Change); 9] = [
    ("nothing", |e| replace(e, "")),
    ("a time to live", |e| replace(e, r#","defaultTtl":5"#)),
    ("an index", |e| {
        let policy = r#"{"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}]}"#;
        replace(e, &format!(r#","indexingPolicy":{policy}"#))
    }),
    ("versions", |e| replace(e, r#","changeFeedPolicy":{"retentionDuration":10}"#)),
    ("computed properties", |e| {
        let computed = r#"[{"name":"b","query":"SELECT VALUE c.a FROM c"}]"#;
        replace(e, &format!(r#","computedProperties":{computed}"#))
    }),
    ("a model", |e| {
        e.models().store(&name("d"), &json(MODEL), &Preconditions::default()).map(drop)
    }),
    ("a model that goes", |e| {
        e.models().store(&name("d"), &json(MODEL), &Preconditions::default())?;
        e.models().delete(&name("d"), &Preconditions::default())
    }),
    ("a split", |e| {
        e.layouts().split_partition(&name("d"), &name("people"), Some("0"), None).map(drop)
    }),
    ("a merge", |e| e.layouts().merge_partitions(&name("d"), &name("people"), None).map(drop)),
];

#[test]
fn what_was_prepared_under_an_old_definition_is_refused() {
    for (what, change) in CHANGES {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let first = people(store.clone());
        let second = open(store.clone(), 2);
        change(&first).expect(what);
        // Of the ranges of a split and a merge every one is tried.
        for id in ["x", "y", "z", "u", "v", "w"] {
            let written = put(&second, id);
            let is_refused = matches!(written, Err(Error::PartitionGone));
            assert!(is_refused || what == "a split", "{what}: {written:?}");
            assert_eq!(read(&first, id).is_err(), is_refused, "{what}: {written:?}");
        }
        check_sound(&first, what);
        put(&first, "x").expect("under its own definition");
    }
}

#[test]
fn a_container_that_was_deleted_takes_no_writes() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = people(store.clone());
    let second = open(store.clone(), 2);
    let none = Preconditions::default();
    first.containers().delete(&name("d"), &name("people"), &none).expect("a delete");
    first.containers().create(&name("d"), &json(PEOPLE), &manual(None)).expect("another one");
    assert!(matches!(put(&second, "x"), Err(Error::PartitionGone)));
    assert_eq!(read(&first, "x"), Err(Error::NotFound));
}

/// Opens further engines before each write of a change: what they take for nobody's is somebody's.
#[test]
fn a_start_in_the_middle_of_a_change_takes_nothing_away() {
    let create: Change = |e| {
        let body = json(r#"{"id":"more","partitionKey":{"paths":["/id"]}}"#);
        e.containers().create(&name("d"), &body, &manual(Some(12_000)))?;
        let container = e.containers().read(&name("d"), &name("more"))?;
        e.items().create(&container, None, br#"{"id":"first"}"#).map(drop)
    };
    for (what, change) in CHANGES.into_iter().chain([("a container", create)]) {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let is_armed = Arc::new(AtomicBool::new(false));
        let (armed, beside) = (is_armed.clone(), inner.clone());
        let hook: Hook = Box::new(move |_| {
            if armed.load(Ordering::SeqCst) {
                drop(open(beside.clone(), 2));
            }
            Ok(())
        });
        let engine = people(Arc::new(Interposed::writes(inner.clone(), hook)));
        is_armed.store(true, Ordering::SeqCst);
        change(&engine).expect(what);
        put(&engine, "after").expect(what);
        is_armed.store(false, Ordering::SeqCst);
        for engine in [engine, open(inner, 3)] {
            (0..8).try_for_each(|n| read(&engine, &n.to_string())).expect(what);
            read(&engine, "after").expect(what);
            check_sound(&engine, what);
        }
    }
}
