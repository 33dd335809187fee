//! `onDelete: restrict` on data that others write all the time: a refusal rests on one item that refers,
//! and on what led to it, so that it is returned at the first attempt whatever else changes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};

use orrery_engine::Engine;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::transaction::Transaction;
use orrery_storage::{Space, key};
use orrery_types::{Error, ManualClock, Result};

use crate::interposed::{Interposed, Read};
use crate::rig::{Rig, pk, reads_item, scans_index_of};
use crate::stores::new_store;
use crate::world::{START_S, json, manual, name};

const MODEL: &str = r#"{"version":1,
  "types":{"grand":{"container":"grands"},"parent":{"container":"parents"},
    "child":{"container":"children"}},
  "relations":[
    {"name":"grand","from":"parent","path":"/grandId","to":"grand","onDelete":"cascade",
     "propagate":"sync","inverse":{"name":"parents"}},
    {"name":"parent","from":"child","path":"/parentId","to":"parent","onDelete":"restrict",
     "propagate":"sync"}],
  "aggregates":[{"on":"grand","path":"/count","of":"parents","value":"COUNT(1)","propagate":"sync"}]}"#;

fn none() -> Preconditions {
    Preconditions::default()
}

/// A family to which a child of `p1` and a sibling of it are added whenever somebody looks for who refers
/// to `p1`.
struct Busy {
    engine: Arc<Engine>,
    active: Arc<AtomicBool>,
    added: Arc<AtomicUsize>,
    /// How often the item that is deleted was read.
    attempts: Arc<AtomicUsize>,
}

impl Busy {
    fn new(throughput: Option<i64>, deleted: &'static str) -> Self {
        let engine: Arc<OnceLock<Weak<Engine>>> = Arc::default();
        let active = Arc::new(AtomicBool::new(false));
        let [added, attempts] = [0, 0].map(|n| Arc::new(AtomicUsize::new(n)));
        let (of, on, count, reads) =
            (engine.clone(), active.clone(), added.clone(), attempts.clone());
        let (looks, is_deleted) = (scans_index_of("p1"), reads_item(deleted));
        let hook = move |read: Read<'_>| {
            if on.load(SeqCst) && is_deleted(&read) {
                reads.fetch_add(1, SeqCst);
            }
            if looks(&read) && on.swap(false, SeqCst) {
                let engine = of.get().and_then(Weak::upgrade).expect("it is open");
                let n = count.fetch_add(1, SeqCst);
                std::thread::scope(|threads| threads.spawn(|| add(&engine, n, deleted)).join())
                    .expect("others go on");
                on.store(true, SeqCst);
            }
        };
        let store = Interposed::reads(new_store(), Box::new(hook));
        let clock = Arc::new(ManualClock::at_s(START_S));
        let opened = Arc::new(Engine::open(Arc::new(store), clock, 1).expect("it opens"));
        engine.set(Arc::downgrade(&opened)).expect("once");
        opened.databases().create(&json(r#"{"id":"d"}"#), &manual(None)).expect("a database");
        for id in ["grands", "parents", "children"] {
            let body =
                format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/id"],"kind":"Hash"}}}}"#);
            opened.containers().create(&name("d"), &json(&body), &manual(throughput)).expect("it");
        }
        opened.models().store(&name("d"), &json(MODEL), &none()).expect("the model is taken");
        let busy = Self { engine: opened, active, added, attempts };
        put(&busy.engine, "grands", r#"{"id":"g"}"#);
        put(&busy.engine, "parents", r#"{"id":"p1","grandId":"g"}"#);
        put(&busy.engine, "children", r#"{"id":"c1","parentId":"p1"}"#);
        busy
    }

    /// Does something while others write.
    fn during<T>(&self, work: impl FnOnce(&Engine) -> T) -> T {
        self.active.store(true, SeqCst);
        let done = work(&self.engine);
        self.active.store(false, SeqCst);
        assert!(self.added.load(SeqCst) > 0, "others have written meanwhile");
        done
    }

    fn check(&self) {
        let drift = self.engine.model_verification().verify(&name("d")).expect("it is verified");
        assert!(drift.is_empty(), "{drift:#?}");
    }
}

fn put(engine: &Engine, container: &str, item: &str) {
    let container = engine.containers().read(&name("d"), &name(container)).expect("it is there");
    engine.items().upsert(&container, None, item.as_bytes(), &none()).expect("an item");
}

fn add(engine: &Engine, n: usize, deleted: &str) {
    put(engine, "children", &format!(r#"{{"id":"new{n}","parentId":"p1"}}"#));
    // A sibling changes the count in their parent, which is no reason to look at `p1` again.
    if deleted != "g" {
        put(engine, "parents", &format!(r#"{{"id":"other{n}","grandId":"g"}}"#));
    }
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(done: &Result<T>) {
    assert!(matches!(done, Err(Error::StillReferenced(_))), "{done:?}");
}

#[test]
fn a_refusal_does_not_wait_until_nobody_adds_a_reference() {
    for throughput in [None, Some(25_000)] {
        let busy = Busy::new(throughput, "p1");
        let parents = busy.engine.containers().read(&name("d"), &name("parents")).expect("it");
        assert_refused(&busy.during(|engine| {
            engine.items().delete(&parents, Some(&pk("p1")), &name("p1"), &none())
        }));
        assert_eq!(busy.attempts.load(SeqCst), 1, "the first attempt decides");
        busy.check();
    }
}

#[test]
fn neither_does_the_refusal_of_a_transaction_and_it_may_go_on() {
    for throughput in [None, Some(25_000)] {
        for goes_on in [false, true] {
            let busy = Busy::new(throughput, "p1");
            let parents = busy.engine.containers().read(&name("d"), &name("parents")).expect("it");
            let mut runs = 0;
            let mut work = |t: &mut Transaction<'_>| {
                runs += 1;
                let refused = t.delete(&name("p1"), &none());
                if !goes_on {
                    return refused.map(drop);
                }
                assert_refused(&refused);
                t.upsert(br#"{"id":"p1","grandId":"g","note":"stays"}"#, &none()).map(drop)
            };
            let done = busy
                .during(|engine| engine.transactions().transact(&parents, &pk("p1"), &mut work));
            assert_eq!(done.is_ok(), goes_on, "{done:?}");
            assert_eq!(runs, 1, "goes on: {goes_on}");
            busy.check();
        }
    }
}

#[test]
fn the_refusal_of_a_cascade_rests_on_what_led_to_it() {
    for throughput in [None, Some(25_000)] {
        let busy = Busy::new(throughput, "g");
        let grands = busy.engine.containers().read(&name("d"), &name("grands")).expect("it");
        assert_refused(
            &busy.during(|engine| {
                engine.items().delete(&grands, Some(&pk("g")), &name("g"), &none())
            }),
        );
        assert_eq!(busy.attempts.load(SeqCst), 1, "the first attempt decides");
        busy.check();
    }
}

/// Which of its reads a refusal rests on is decided by its read set: what changes between the read and
/// the answer makes it run again.
#[test]
fn a_refusal_is_not_returned_when_its_referrer_has_left() {
    let containers = ["grands", "parents", "children"]
        .map(|id| format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/id"],"kind":"Hash"}}}}"#));
    for (throughput, deleted) in
        [(None, "p1"), (None, "g"), (Some(25_000), "p1"), (Some(25_000), "g")]
    {
        let of = containers.each_ref().map(|body| (&**body, throughput));
        let rig = Rig::new(&of, Some(MODEL));
        rig.put("grands", r#"{"id":"g"}"#).expect("a grand");
        rig.put("parents", r#"{"id":"p1","grandId":"g"}"#).expect("a parent");
        rig.put("parents", r#"{"id":"p2"}"#).expect("a parent");
        rig.put("children", r#"{"id":"c1","parentId":"p1"}"#).expect("a child");
        let container = if deleted == "g" { "grands" } else { "parents" };
        let done = rig.between(
            reads_item("c1"),
            || rig.delete(container, deleted, deleted),
            || drop(rig.put("children", r#"{"id":"c1","parentId":"p2"}"#).expect("it moves")),
        );
        done.unwrap_or_else(|error| panic!("{deleted}: {error}"));
        assert_eq!(rig.get("parents", "p1", "p1"), Err(Error::NotFound));
        rig.check();
    }
}

/// The same when the item between has left the chain: it neither goes nor is it in the way.
#[test]
fn a_refusal_is_not_returned_when_the_cascade_does_not_lead_to_it_any_more() {
    let containers = ["grands", "parents", "children"]
        .map(|id| format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/id"],"kind":"Hash"}}}}"#));
    let rig = Rig::new(&containers.each_ref().map(|body| (&**body, Some(25_000))), Some(MODEL));
    rig.put("grands", r#"{"id":"g"}"#).expect("a grand");
    rig.put("grands", r#"{"id":"h"}"#).expect("a grand");
    rig.put("parents", r#"{"id":"p1","grandId":"g"}"#).expect("a parent");
    rig.put("children", r#"{"id":"c1","parentId":"p1"}"#).expect("a child");
    let done = rig.between(
        |read| match read {
            Read::Key { space: Space::Items, key, .. } => {
                key::parse_item(key).is_some_and(|found| found.id == "c1")
            }
            _ => false,
        },
        || rig.delete("grands", "g", "g"),
        || drop(rig.put("parents", r#"{"id":"p1","grandId":"h"}"#).expect("it moves")),
    );
    done.expect("nothing refers to it any more");
    assert!(rig.get("parents", "p1", "p1").is_ok());
    rig.check();
}
