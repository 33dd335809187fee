//! An engine to test: on memory, on disk, or on a store that fails now and then. `stores` says what the first two are.

use std::sync::Arc;

use orrery_engine::partition::layout::LayoutPolicy;
use orrery_engine::throughput::ThroughputRequest;
use orrery_engine::{Container, Engine};
use orrery_storage::fault::Faults;
use orrery_storage::{FaultStore, MemoryStore, StorageError, Store};
use orrery_types::ids::Address;
use orrery_types::{Clock, Lsn, ManualClock, Value};

use crate::random::Random;
use crate::stores::Disk;

/// The second at which every test begins.
pub(crate) const START_S: u64 = 1_700_000_000;

/// Where the data lies.
enum Place {
    Disk(Disk),
    Faulty(Arc<FaultStore<MemoryStore>>),
}

pub(crate) struct World {
    place: Place,
    pub(crate) clock: Arc<ManualClock>,
    /// Taken while the store is closed. On a shared store there are several, which take turns.
    engines: Vec<Option<Engine>>,
    /// Which of them is used, and what chooses the next.
    current: usize,
    random: Random,
    /// Processes on one store have different numbers; so have one's lives.
    node: u32,
}

/// How many engines work on one store of a test that does not care: `ORRERY_NODES`.
fn nodes() -> usize {
    std::env::var("ORRERY_NODES").map_or(1, |text| text.parse().expect("a number of engines"))
}

impl World {
    /// One engine, whatever the number of nodes: for a test of what one does by itself.
    pub(crate) fn one() -> Self {
        Self::on(Place::Disk(Disk::memory()))
    }

    pub(crate) fn memory() -> Self {
        match nodes() {
            1 => Self::one(),
            count => Self::several(count),
        }
    }

    /// Several engines over one store, of which one after the other is used, at random.
    pub(crate) fn several(count: usize) -> Self {
        Self::with(Place::Disk(Disk::shared()), count)
    }

    pub(crate) fn rocks() -> Self {
        Self::on(Place::Disk(Disk::rocks()))
    }

    pub(crate) fn faulty(seed: u64) -> Self {
        let faults = Faults {
            commit_fails_one_in: 60,
            answer_lost_one_in: 40,
            read_fails_one_in: 300,
            ..Faults::default()
        };
        Self::on(Place::Faulty(Arc::new(FaultStore::new(MemoryStore::new(), faults, seed))))
    }

    fn on(place: Place) -> Self {
        Self::with(place, 1)
    }

    fn with(place: Place, count: usize) -> Self {
        let clock = Arc::new(ManualClock::at_s(START_S));
        let random = Random::new(count as u64);
        let engines = (0..count).map(|_| None).collect();
        let mut world = Self { place, clock, engines, current: 0, random, node: 0 };
        for current in 0..count {
            world.current = current;
            world.reopen();
        }
        world
    }

    /// The same under another policy of layouts, until it is reopened.
    pub(crate) fn with_layout(mut self, layout: LayoutPolicy) -> Self {
        for engine in &mut self.engines {
            *engine = engine.take().map(|engine| engine.with_layout(layout));
        }
        self
    }

    /// The same with less memory for queries, until it is reopened.
    pub(crate) fn with_query_memory(mut self, bytes_max: usize) -> Self {
        for engine in &mut self.engines {
            *engine = engine.take().map(|engine| engine.with_query_memory(bytes_max));
        }
        self
    }

    pub(crate) fn is_several(&self) -> bool {
        self.engines.len() > 1
    }

    pub(crate) fn is_faulty(&self) -> bool {
        matches!(self.place, Place::Faulty(_))
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.engines[self.current].as_ref().expect("the engine is open")
    }

    /// Goes on with another engine, if there are several.
    pub(crate) fn turn(&mut self) {
        self.current = self.random.below(self.engines.len());
    }

    /// Ends the engine and starts it again on what is stored. A faulty disk comes back too, and may
    /// fail again at once.
    pub(crate) fn reopen(&mut self) {
        if let Some(engine) = self.engines[self.current].take() {
            // On a shared store its jobs are free at once, and not only when it counts as dead.
            engine.nodes().leave().expect("it leaves");
        }
        self.node += 1;
        let clock: Arc<dyn Clock> = self.clock.clone();
        for _ in 0..100 {
            let store: Arc<dyn Store> = match &self.place {
                Place::Disk(disk) => disk.open(),
                Place::Faulty(store) => {
                    // A commit that turns out to have failed its checks, or to be of another epoch, has not
                    // happened.
                    let back = store.reopen();
                    let refused = |error: &StorageError| {
                        matches!(error, StorageError::Conflict(_) | StorageError::Gone { .. })
                    };
                    assert!(back.as_ref().err().is_none_or(refused), "{back:?}");
                    store.clone()
                }
            };
            match Engine::open(store, clock.clone(), self.node) {
                Ok(engine) => {
                    self.engines[self.current] = Some(engine);
                    return;
                }
                Err(error) => assert!(self.is_faulty(), "{error}"),
            }
        }
        panic!("the store fails all the time");
    }

    /// Does it, again and again where the disk fails.
    pub(crate) fn insist<T>(&mut self, what: impl Fn(&Engine) -> orrery_types::Result<T>) -> T {
        self.turn();
        for _ in 0..100 {
            match what(self.engine()) {
                Ok(done) => return done,
                Err(error) => assert!(self.is_faulty(), "{error}"),
            }
            self.reopen();
        }
        panic!("the store fails all the time");
    }

    /// Does all background work that waits. Of several engines each does its share.
    pub(crate) fn run_tasks(&mut self) {
        if self.is_several() {
            let engines = || self.engines.iter().flatten();
            engines().try_for_each(|engine| engine.nodes().beat()).expect("heartbeats");
            let run = |engine: &Engine| engine.background().run_tasks(&|| false).map(drop);
            engines().try_for_each(run).expect("background work");
        } else {
            self.insist(|engine| engine.background().run_tasks(&|| false));
        }
    }

    /// Makes the database `d`, if it is not there.
    pub(crate) fn database(&mut self) {
        self.insist(|engine| {
            let made = engine.databases().create(&json(r#"{"id":"d"}"#), &manual(None));
            ignore_existing(made.map(drop))
        });
    }

    /// Makes a container in `d`.
    pub(crate) fn create_container(&mut self, body: &str, throughput: Option<i64>) {
        self.insist(|engine| {
            let made = engine.containers().create(&name("d"), &json(body), &manual(throughput));
            ignore_existing(made.map(drop))
        });
    }

    pub(crate) fn container(&self, id: &str) -> Arc<Container> {
        // What a test takes from it, such as the list of ranges, is that of every engine.
        self.engine().refresh_catalog().expect("the store reads");
        self.engine().containers().read(&name("d"), &name(id)).expect("the container is there")
    }
}

/// The session token for everything that a container shows now.
pub(crate) fn session_token(engine: &Engine, container: &Container) -> String {
    let ranges = engine.layouts().list_ranges(container).expect("ranges");
    let token = |range: &orrery_engine::Resource| {
        let id = range.id.parse().expect("a number");
        let lsn = range.body.get("_lsn").as_i64().expect("an LSN");
        container.token(id, Lsn(u64::try_from(lsn).expect("an LSN")))
    };
    ranges.iter().map(token).collect::<Vec<_>>().join(",")
}

/// What a retry finds done is done.
fn ignore_existing(result: orrery_types::Result<()>) -> orrery_types::Result<()> {
    match result {
        Err(orrery_types::Error::AlreadyExists) => Ok(()),
        other => other,
    }
}

pub(crate) fn manual(throughput: Option<i64>) -> ThroughputRequest {
    ThroughputRequest { manual: throughput, autoscale: None }
}

pub(crate) fn name(id: &str) -> Address {
    Address::Name(id.into())
}

pub(crate) fn json(text: &str) -> Value {
    Value::parse(text.as_bytes()).expect("JSON")
}
