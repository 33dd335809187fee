//! What else is asked of a container while its layout changes: it is deleted, gets another throughput or
//! another definition. Each holds, and nothing is left half done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::partition::layout::LayoutChangeResult;
use orrery_engine::throughput::Migration;
use orrery_engine::{Container, Engine};
use orrery_storage::Store;
use orrery_types::ids::Rid;
use orrery_types::{Error, ManualClock, Result};

use crate::interposed::{Hook, Interposed, Step};
use crate::stores::new_store;
use crate::world::{START_S, json, manual, name};

const DEFINITION: &str = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;

/// An engine over a store that does something else once, in the middle of a copy.
struct Beside {
    store: Arc<dyn Store>,
    engine: Arc<Engine>,
    what: Arc<Mutex<Option<What>>>,
    happened: Arc<AtomicBool>,
}

/// When to do it, and what.
type What = (Step, Box<dyn FnOnce(&Engine) + Send>);

impl Beside {
    /// With a container of as many ranges as its throughput asks for, and items.
    fn new(throughput: i64) -> Self {
        let store = new_store();
        let (what, happened) =
            (Arc::new(Mutex::new(None::<What>)), Arc::new(AtomicBool::new(false)));
        let engine: Arc<Mutex<Option<Arc<Engine>>>> = Arc::default();
        let (own, asked, done) = (engine.clone(), what.clone(), happened.clone());
        let copying = AtomicBool::new(false);
        let hook: Hook = Box::new(move |step| {
            if step == Step::Copy {
                copying.store(true, Ordering::SeqCst);
            }
            if !copying.load(Ordering::SeqCst) {
                return Ok(());
            }
            let due = asked.lock().expect("a lock").take_if(|(at, _)| *at == step);
            if let Some((_, what)) = due {
                let engine = own.lock().expect("a lock").clone().expect("the engine is open");
                what(&engine);
                done.store(true, Ordering::SeqCst);
            }
            Ok(())
        });
        let interposed: Arc<dyn Store> = Arc::new(Interposed::writes(store.clone(), hook));
        let clock = Arc::new(ManualClock::at_s(START_S));
        let opened = Arc::new(Engine::open(interposed, clock, 1).expect("it opens"));
        *engine.lock().expect("a lock") = Some(opened.clone());
        opened.databases().create(&json(r#"{"id":"d"}"#), &manual(None)).expect("a database");
        let made =
            opened.containers().create(&name("d"), &json(DEFINITION), &manual(Some(throughput)));
        made.expect("a container");
        let beside = Self { store, engine: opened, what, happened };
        for n in 0..50 {
            beside.put(n).expect("an item");
        }
        beside
    }

    fn container(&self) -> Arc<Container> {
        self.engine.containers().read(&name("d"), &name("c")).expect("a container")
    }

    fn put(&self, n: usize) -> Result<()> {
        let text = format!(r#"{{"id":"{n}","p":{n}}}"#);
        let none = Preconditions::default();
        self.engine.items().upsert(&self.container(), None, text.as_bytes(), &none).map(drop)
    }

    /// Splits or merges, and does it meanwhile.
    fn change_layout_beside(
        &self,
        at: Step,
        change: Change,
        what: impl FnOnce(&Engine) + Send + 'static,
    ) -> Result<LayoutChangeResult> {
        *self.what.lock().expect("a lock") = Some((at, Box::new(what)));
        let (database, container) = (name("d"), name("c"));
        let changed = match change {
            Change::Split => {
                self.engine.layouts().split_partition(&database, &container, None, None)
            }
            Change::Merge => self.engine.layouts().merge_partitions(&database, &container, None),
        };
        assert!(self.happened.load(Ordering::SeqCst), "it happened meanwhile");
        changed
    }

    fn shards(&self) -> usize {
        self.store.shards().expect("shards").len()
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Split,
    Merge,
}

const CHANGES: [(Change, i64); 2] = [(Change::Split, 400), (Change::Merge, 12_000)];

#[test]
fn a_container_that_is_deleted_meanwhile_is_gone() {
    for (change, throughput) in CHANGES {
        for at in [Step::Copy, Step::Flush] {
            let beside = Beside::new(throughput);
            let changed = beside.change_layout_beside(at, change, |engine| {
                let none = Preconditions::default();
                engine.containers().delete(&name("d"), &name("c"), &none).expect("a delete");
            });
            assert_eq!(changed, Err(Error::NotFound), "{change:?} at {at:?}");
            let read = beside.engine.containers().read(&name("d"), &name("c"));
            assert_eq!(read.map(drop), Err(Error::NotFound));
            assert_eq!(beside.shards(), 1, "{change:?} at {at:?}: its data is gone");
            // Its name is free, and nothing of it shows in the next one.
            let body = json(DEFINITION);
            let made = beside.engine.containers().create(&name("d"), &body, &manual(None));
            made.expect("a container");
            assert_eq!(beside.engine.insight().verify(&beside.container()), Ok(vec![]));
            beside.put(1).expect("an item");
        }
    }
}

#[test]
fn a_database_that_is_deleted_meanwhile_is_gone() {
    for (change, throughput) in CHANGES {
        let beside = Beside::new(throughput);
        let changed = beside.change_layout_beside(Step::Flush, change, |engine| {
            engine.databases().delete(&name("d"), &Preconditions::default()).expect("a delete");
        });
        assert!(matches!(changed, Err(Error::NotFound | Error::OwnerNotFound)), "{changed:?}");
        assert_eq!(beside.shards(), 1, "{change:?}: its data is gone");
    }
}

#[test]
fn throughput_that_is_changed_meanwhile_holds() {
    for (change, throughput) in CHANGES {
        let beside = Beside::new(throughput);
        let before = beside.container().partitions.len();
        let changed = beside.change_layout_beside(Step::Flush, change, |engine| {
            let offer = engine.offers().list().expect("offers").remove(0);
            let Rid::Offer(number) = offer.rid else { panic!("an offer") };
            let body = json(r#"{"content":{"offerThroughput":31000}}"#);
            let none = Preconditions::default();
            let refused = engine.offers().replace(
                number,
                &json(r#"{"content":{"offerThroughput":-1}}"#),
                Migration::None,
                &none,
            );
            assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
            engine.offers().replace(number, &body, Migration::None, &none).expect("a replace");
        });
        changed.expect("the layout changes");
        assert_ne!(beside.container().partitions.len(), before, "{change:?}");
        beside.engine.layouts().run_splits(&|| false).expect("splits");
        assert_eq!(beside.container().partitions.len(), 4, "{change:?}: what 31,000 RU/s ask for");
        assert_eq!(beside.engine.insight().verify(&beside.container()), Ok(vec![]));
        assert_eq!(beside.shards(), 1 + 4 + retired(change), "{change:?}");
    }
}

/// Parents that are kept a while for reads that began before.
fn retired(change: Change) -> usize {
    match change {
        // Of one range came two, and of those four.
        Change::Split => 3,
        // Of two ranges came one, of that two, and of those four.
        Change::Merge => 5,
    }
}

#[test]
fn a_definition_that_is_changed_meanwhile_holds() {
    for (change, throughput) in CHANGES {
        for at in [Step::Copy, Step::Flush] {
            let beside = Beside::new(throughput);
            let changed = beside.change_layout_beside(at, change, |engine| {
                let body = DEFINITION.replace(
                    r#""id":"c""#,
                    r#""id":"c","indexingPolicy":{"includedPaths":[{"path":"/p/?"}],
                        "excludedPaths":[{"path":"/*"}]},"defaultTtl":60"#,
                );
                let none = Preconditions::default();
                let replaced =
                    engine.containers().replace(&name("d"), &name("c"), &json(&body), &none);
                replaced.expect("a replace");
            });
            changed.expect("the layout changes");
            beside.put(99).expect("an item under the new definition");
            beside.engine.background().run_tasks(&|| false).expect("tasks");
            let container = beside.container();
            assert_eq!(
                container.definition.default_ttl.map(drop),
                Some(()),
                "{change:?} at {at:?}"
            );
            assert_eq!(
                beside.engine.insight().verify(&container),
                Ok(vec![]),
                "{change:?} at {at:?}"
            );
        }
    }
}
