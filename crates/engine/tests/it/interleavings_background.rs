//! Background work beside changes of the catalog, in interleavings that a test decides: a store stops
//! a thread at a chosen read or commit while another operation runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::item::read::ItemRead;
use orrery_engine::{Container, Engine};
use orrery_storage::{Space, StorageError, Store};
use orrery_types::{Error, ManualClock, PartitionKey, Result, Value};

use crate::breakpoint::Breakpoint;
use crate::commit_stop::{CommitStop, PATIENCE, let_others_run};
use crate::interposed::{Interposed, Read, Step};
use crate::stores::new_store;
use crate::world::{START_S, json, manual, name};

const PEOPLE: &str = r#"{"version":1,"types":{"person":{"container":"people"},"city":{"container":"cities"}},
    "relations":[{"name":"city","from":"person","path":"/cityId","to":"city",
        "propagate":"sync","inverse":{"name":"people"}}],
    "aggregates":[{"on":"city","path":"/count","of":"people","value":"COUNT(1)","propagate":"sync"}]}"#;

fn open(store: Arc<dyn Store>) -> (Engine, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at_s(START_S));
    (Engine::open(store, clock.clone(), 1).expect("it opens"), clock)
}

fn container(engine: &Engine, id: &str) -> Arc<Container> {
    engine.containers().read(&name("d"), &name(id)).expect("a container")
}

/// A database with `people` and `cities`, both keyed on the id.
fn people(engine: &Engine, ttl: &str) {
    engine.databases().create(&json(r#"{"id":"d"}"#), &manual(None)).expect("a database");
    for id in ["people", "cities"] {
        let body = format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/id"]}}{ttl}}}"#);
        engine.containers().create(&name("d"), &json(&body), &manual(None)).expect("a container");
    }
}

fn put(engine: &Engine, id: &str, item: &str) {
    let container = container(engine, id);
    let none = Preconditions::default();
    engine.items().upsert(&container, None, item.as_bytes(), &none).expect("an item");
}

fn read(engine: &Engine, id: &str, item: &str) -> Result<ItemRead> {
    engine.items().read(&container(engine, id), Some(&key(item)), &name(item))
}

fn key(id: &str) -> PartitionKey {
    PartitionKey::parse_header(&format!("[\"{id}\"]")).expect("a key")
}

fn set_ttl(engine: &Engine, id: &str, ttl: &str) {
    let body = format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/id"]}}{ttl}}}"#);
    let none = Preconditions::default();
    engine
        .containers()
        .replace(&name("d"), &name(id), &json(&body), &none)
        .expect("it is replaced");
}

fn is_item_read(read: &Read<'_>) -> bool {
    matches!(read, Read::Key { space: Space::Items, key, .. } if key.len() > 9)
}

#[test]
fn a_longer_time_to_live_keeps_what_the_sweeper_was_about_to_remove() {
    let cases: [(&str, bool); 2] = [("plain", false), ("under a model", true)];
    for (case, modelled) in cases {
        let (store, breakpoint) = Breakpoint::over(&new_store());
        let (engine, clock) = open(store);
        people(&engine, r#","defaultTtl":10"#);
        if modelled {
            let none = Preconditions::default();
            engine.models().store(&name("d"), &json(PEOPLE), &none).expect("a model");
        }
        put(&engine, "people", r#"{"id":"p"}"#);
        clock.advance_s(11);
        assert_eq!(read(&engine, "people", "p").map(drop), Err(Error::NotFound), "{case}");
        breakpoint.arm(is_item_read);
        std::thread::scope(|threads| {
            let sweeper = threads.spawn(|| engine.background().run_tasks(&|| false));
            breakpoint.wait_reached();
            set_ttl(&engine, "people", r#","defaultTtl":1000"#);
            read(&engine, "people", "p").expect("it is back");
            breakpoint.release();
            sweeper.join().expect("no panic").expect("it is swept");
        });
        read(&engine, "people", "p").unwrap_or_else(|error| panic!("{case}: {error}"));
        engine.background().run_tasks(&|| false).expect("it runs");
        read(&engine, "people", "p").expect("it stays");
        clock.advance_s(1000);
        assert_eq!(
            engine.background().run_tasks(&|| false),
            Ok(1),
            "{case}: it goes when its time is over"
        );
        let faults =
            engine.insight().verify(&container(&engine, "people")).expect("it is verified");
        assert!(faults.is_empty(), "{case}: {faults:#?}");
    }
}

#[test]
fn a_create_that_began_before_a_longer_time_to_live_meets_the_item_that_is_back() {
    let (store, breakpoint) = Breakpoint::over(&new_store());
    let (engine, clock) = open(store);
    people(&engine, r#","defaultTtl":10"#);
    put(&engine, "people", r#"{"id":"p","first":true}"#);
    clock.advance_s(11);
    let before = container(&engine, "people");
    breakpoint.arm(is_item_read);
    std::thread::scope(|threads| {
        let creator =
            threads.spawn(|| engine.items().create(&before, None, br#"{"id":"p"}"#).map(drop));
        breakpoint.wait_reached();
        set_ttl(&engine, "people", r#","defaultTtl":1000"#);
        read(&engine, "people", "p").expect("it is back");
        breakpoint.release();
        assert_eq!(creator.join().expect("no panic"), Err(Error::AlreadyExists));
    });
}

#[test]
fn storing_a_model_does_not_wait_for_the_rest_of_a_sweep() {
    let (store, breakpoint) = Breakpoint::over(&new_store());
    let (engine, clock) = open(store);
    people(&engine, r#","defaultTtl":10"#);
    for n in 0..3 {
        put(&engine, "people", &format!(r#"{{"id":"p{n}"}}"#));
        put(&engine, "cities", &format!(r#"{{"id":"c{n}"}}"#));
    }
    clock.advance_s(11);
    // The sweep goes from partition to partition; it is stopped where it looks for the next.
    let cities = container(&engine, "cities").partitions[0].shard;
    breakpoint.arm(
        move |read| matches!(read, Read::Range { shard, space: Space::Ttl, .. } if *shard == cities),
    );
    std::thread::scope(|threads| {
        let sweeper = threads.spawn(|| engine.background().run_tasks(&|| false));
        breakpoint.wait_reached();
        let (sender, stored) = channel();
        let engine = &engine;
        threads.spawn(move || {
            let none = Preconditions::default();
            let done = engine.models().store(&name("d"), &json(PEOPLE), &none).map(drop);
            let made = engine.databases().create(&json(r#"{"id":"e"}"#), &manual(None)).map(drop);
            sender.send((done, made)).expect("somebody waits");
        });
        let done = stored.recv_timeout(PATIENCE);
        breakpoint.release();
        assert_eq!(done, Ok((Ok(()), Ok(()))), "the sweep holds up the catalog");
        sweeper.join().expect("no panic").expect("it is swept");
    });
    engine.background().run_tasks(&|| false).expect("it runs");
    assert_eq!(engine.model_verification().verify(&name("d")), Ok(vec![]));
    assert_eq!(engine.insight().usage(&container(&engine, "cities")).expect("a count").items, 0);
}

#[test]
fn an_erasure_that_waits_for_a_model_to_take_over_is_under_that_model() {
    let (store, stop) = CommitStop::over(&new_store());
    let (engine, _) = open(store);
    people(&engine, "");
    put(&engine, "people", r#"{"id":"p","cityId":"c"}"#);
    let before = container(&engine, "people");
    std::thread::scope(|threads| {
        // The model stops while it holds the locks: the numbers of its rules are reserved before.
        let mut numbers = json(PEOPLE);
        numbers.as_object_mut().expect("an object").remove("relations");
        numbers.as_object_mut().expect("an object").remove("aggregates");
        let none = Preconditions::default();
        let (engine, stop_commits) = (&engine, &stop);
        let taker = threads.spawn(move || {
            stop_commits.stop_me();
            engine.models().store(&name("d"), &numbers, &none).map(drop)
        });
        stop.wait_reached();
        let eraser =
            threads.spawn(|| engine.erasure().erase_partition_key(&before, &key("p")).map(drop));
        let_others_run(|| eraser.is_finished());
        stop.release();
        taker.join().expect("no panic").expect("it takes over");
        eraser.join().expect("no panic").expect("it is erased");
    });
    assert_eq!(read(&engine, "people", "p").map(drop), Err(Error::NotFound));
    // Under a model the items are removed in the commit of the request.
    assert_eq!(engine.insight().usage(&container(&engine, "people")).expect("a count").items, 0);
}

#[test]
fn a_model_that_comes_while_erased_items_are_removed_counts_none_of_them() {
    let (store, stop) = CommitStop::over(&new_store());
    let (engine, _) = open(store);
    people(&engine, "");
    put(&engine, "cities", r#"{"id":"c"}"#);
    put(&engine, "people", r#"{"id":"p","cityId":"c"}"#);
    put(&engine, "people", r#"{"id":"q","cityId":"c"}"#);
    engine
        .erasure()
        .erase_partition_key(&container(&engine, "people"), &key("p"))
        .expect("it is erased");
    std::thread::scope(|threads| {
        let (engine, stop_commits) = (&engine, &stop);
        let remover = threads.spawn(move || {
            stop_commits.stop_me();
            engine.background().run_tasks(&|| false)
        });
        stop.wait_reached();
        let taker = threads.spawn(|| {
            let none = Preconditions::default();
            engine.models().store(&name("d"), &json(PEOPLE), &none).map(drop)
        });
        let_others_run(|| taker.is_finished());
        stop.release();
        remover.join().expect("no panic").expect("it is removed");
        taker.join().expect("no panic").expect("it takes over");
    });
    engine.background().run_tasks(&|| false).expect("it runs");
    assert_eq!(engine.model_verification().verify(&name("d")), Ok(vec![]));
    let city = read(&engine, "cities", "c").expect("a city");
    let city = Value::parse(&city.body).expect("JSON");
    assert_eq!(city.get("count").to_json(), "1");
}

/// What an engine shows of its catalog.
fn picture(engine: &Engine) -> Vec<String> {
    let mut all = Vec::new();
    for database in engine.databases().list() {
        all.push(database.body.to_json());
        let id = name(database.body.get("id").as_str().expect("an id"));
        for container in engine.containers().list(&id).expect("a list").1 {
            let found = engine
                .containers()
                .read(&id, &name(container.body.get("id").as_str().expect("an id")))
                .expect("it is listed");
            all.push(container.body.to_json());
            let shards = found.partitions.iter().map(|p| (p.shard, p.epoch));
            all.push(format!("{:?}", shards.collect::<Vec<_>>()));
        }
        if let Ok(model) = engine.models().read(&id) {
            all.push(model.body.get("relations").to_json());
            let rules = model.body.get("_state").as_array().unwrap_or_default();
            let state = |rule: &Value| [rule.get("rule").to_json(), rule.get("state").to_json()];
            all.extend(rules.iter().flat_map(state));
        }
    }
    all
}

type Change = fn(&Engine) -> Result<()>;

/// Every kind of change of the catalog that the picture in memory shows.
const CHANGES: [(&str, Change); 9] = [
    ("create a database", |e| {
        e.databases().create(&json(r#"{"id":"new"}"#), &manual(None)).map(drop)
    }),
    ("replace a database", |e| {
        let none = Preconditions::default();
        e.databases().replace(&name("d"), &json(r#"{"id":"d"}"#), &none).map(drop)
    }),
    ("create a container", |e| {
        let body = json(r#"{"id":"new","partitionKey":{"paths":["/id"]}}"#);
        e.containers().create(&name("d"), &body, &manual(None)).map(drop)
    }),
    ("change a time to live", |e| {
        let body = json(r#"{"id":"people","partitionKey":{"paths":["/id"]},"defaultTtl":5}"#);
        e.containers()
            .replace(&name("d"), &name("people"), &body, &Preconditions::default())
            .map(drop)
    }),
    ("change an index", |e| {
        let body = json(
            r#"{"id":"people","partitionKey":{"paths":["/id"]},
               "indexingPolicy":{"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}]}}"#,
        );
        e.containers()
            .replace(&name("d"), &name("people"), &body, &Preconditions::default())
            .map(drop)
    }),
    ("store a model", |e| {
        e.models().store(&name("d"), &json(PEOPLE), &Preconditions::default()).map(drop)
    }),
    ("delete a model", |e| e.models().delete(&name("m"), &Preconditions::default())),
    ("delete a container", |e| {
        e.containers().delete(&name("d"), &name("cities"), &Preconditions::default())
    }),
    ("split", |e| e.layouts().split_partition(&name("d"), &name("people"), None, None).map(drop)),
];

#[test]
fn the_catalog_in_memory_is_the_stored_one_after_an_unknown_outcome() {
    for (what, change) in CHANGES {
        for applied in [true, false] {
            for resolved in [true, false] {
                let mut nth = 0;
                while unknown_outcome(what, change, Lost { applied, resolved }, nth) {
                    nth += 1;
                }
            }
        }
    }
}

/// How the answer to a commit is lost.
#[derive(Clone, Copy, Debug)]
struct Lost {
    /// Whether the commit happened.
    applied: bool,
    /// Whether the store can tell at once what became of it.
    resolved: bool,
}

/// Loses the answer to the n-th commit of a change; false if it has not so many.
fn unknown_outcome(what: &str, change: Change, lost: Lost, nth: usize) -> bool {
    let inner = new_store();
    let left = Arc::new(Mutex::new(None::<usize>));
    let is_silent = Arc::new(AtomicBool::new(false));
    let (counted, silent) = (left.clone(), is_silent.clone());
    let hook = Box::new(move |step: Step| {
        if step == Step::Resolve && silent.load(Ordering::SeqCst) {
            return Err(StorageError::Io("the store cannot be reached".into()));
        }
        let mut left = counted.lock().expect("sound");
        match &mut *left {
            Some(0) if step == Step::Commit => {
                *left = None;
                silent.store(!lost.resolved, Ordering::SeqCst);
                Err(StorageError::unknown(None, "an answer was lost"))
            }
            Some(n) if step == Step::Commit => {
                *n -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    });
    let store = if lost.applied {
        Interposed::answers(inner.clone(), hook)
    } else {
        Interposed::writes(inner.clone(), hook)
    };
    let (engine, _) = open(Arc::new(store));
    people(&engine, "");
    engine.databases().create(&json(r#"{"id":"m"}"#), &manual(None)).expect("a database");
    let body = r#"{"id":"people","partitionKey":{"paths":["/id"]}}"#;
    engine.containers().create(&name("m"), &json(body), &manual(None)).expect("a container");
    let model = r#"{"version":1,"types":{"person":{"container":"people"}}}"#;
    engine.models().store(&name("m"), &json(model), &Preconditions::default()).expect("a model");
    *left.lock().expect("sound") = Some(nth);
    let done = change(&engine);
    let was_lost = left.lock().expect("sound").take().is_none();
    let was_silent = is_silent.swap(false, Ordering::SeqCst);
    // Writers need no other change of the catalog to go on.
    let item = br#"{"id":"after","a":1}"#;
    let container = engine.containers().read(&name("d"), &name("people")).expect("a container");
    let written = engine.items().upsert(&container, None, item, &Preconditions::default());
    assert!(written.is_ok(), "{what}: commit {nth}, {lost:?}, {:?}", written.map(drop));
    if was_silent {
        // The next change of the catalog asks again, whatever it is.
        let later = engine.databases().create(&json(r#"{"id":"later"}"#), &manual(None));
        later.expect("the store answers again");
    }
    let shown = picture(&engine);
    let (reopened, _) = open(inner.clone());
    let stored = picture(&reopened);
    read(&reopened, "people", "after").expect("it was acknowledged");
    assert_eq!(shown, stored, "{what}: commit {nth}, {lost:?}, answered {done:?}");
    // The change can be made, or is refused because it was.
    drop(reopened);
    let again = change(&engine);
    assert!(
        matches!(again, Ok(()) | Err(Error::AlreadyExists | Error::NotFound)),
        "{what}: commit {nth}, {lost:?}, {again:?}"
    );
    was_lost
}
