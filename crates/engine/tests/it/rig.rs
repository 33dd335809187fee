//! An engine over a store whose reads can be stopped, with short ways to write, read and verify.

use std::sync::Arc;

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::item::read::Written;
use orrery_engine::transaction::batch::{BatchAction, BatchAnswer, BatchOperation, Content};
use orrery_engine::{Container, Engine};
use orrery_storage::{Space, Store, key};
use orrery_types::ids::{Address, Rid};
use orrery_types::{Clock, ManualClock, PartitionKey, Result, Value};

use crate::breakpoint::Breakpoint;
use crate::interposed::Read;
use crate::stores::new_store;
use crate::world::{START_S, json, manual, name};

pub(crate) struct Rig {
    pub(crate) engine: Arc<Engine>,
    /// What the engine works on, for another one.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) breakpoint: Arc<Breakpoint>,
    pub(crate) clock: Arc<ManualClock>,
    containers: Vec<String>,
}

impl Rig {
    /// With containers, each with its throughput, and a model if there is one.
    pub(crate) fn new(containers: &[(&str, Option<i64>)], model: Option<&str>) -> Self {
        Self::over(&new_store(), containers, model)
    }

    /// The same over a store of the test's.
    pub(crate) fn over(
        store: &Arc<dyn Store>,
        containers: &[(&str, Option<i64>)],
        model: Option<&str>,
    ) -> Self {
        let clock = Arc::new(ManualClock::at_s(START_S));
        Self::open(store, containers, model, clock.clone(), clock)
    }

    /// The same, where the engine has another clock than the test moves.
    pub(crate) fn with_clock(
        containers: &[(&str, Option<i64>)],
        model: Option<&str>,
        clock: Arc<ManualClock>,
        engine_clock: Arc<dyn Clock>,
    ) -> Self {
        Self::open(&new_store(), containers, model, clock, engine_clock)
    }

    fn open(
        store: &Arc<dyn Store>,
        containers: &[(&str, Option<i64>)],
        model: Option<&str>,
        clock: Arc<ManualClock>,
        engine_clock: Arc<dyn Clock>,
    ) -> Self {
        let (store, breakpoint) = Breakpoint::over(store);
        let engine = Arc::new(Engine::open(store.clone(), engine_clock, 1).expect("it opens"));
        engine.databases().create(&json(r#"{"id":"d"}"#), &manual(None)).expect("a database");
        let mut ids = Vec::new();
        for (body, throughput) in containers {
            let body = json(body);
            ids.push(body.get("id").as_str().expect("an id").to_owned());
            let made = engine.containers().create(&name("d"), &body, &manual(*throughput));
            made.expect("a container");
        }
        if let Some(model) = model {
            let none = Preconditions::default();
            engine.models().store(&name("d"), &json(model), &none).expect("the model is taken");
        }
        Self { engine, store, breakpoint, clock, containers: ids }
    }

    pub(crate) fn container(&self, id: &str) -> Arc<Container> {
        self.engine.containers().read(&name("d"), &name(id)).expect("the container is there")
    }

    pub(crate) fn put(&self, container: &str, item: &str) -> Result<Written> {
        let none = Preconditions::default();
        self.engine.items().upsert(&self.container(container), None, item.as_bytes(), &none)
    }

    pub(crate) fn delete(&self, container: &str, key: &str, id: &str) -> Result<Written> {
        let none = Preconditions::default();
        self.engine.items().delete(&self.container(container), Some(&pk(key)), &name(id), &none)
    }

    pub(crate) fn get(&self, container: &str, key: &str, id: &str) -> Result<Value> {
        let read =
            self.engine.items().read(&self.container(container), Some(&pk(key)), &name(id))?;
        Ok(Value::parse(&read.body).expect("JSON"))
    }

    /// One property of an item.
    pub(crate) fn at(&self, container: &str, key: &str, id: &str, property: &str) -> String {
        self.get(container, key, id).expect(id).get(property).to_json()
    }

    /// The address of an item by its rid.
    pub(crate) fn by_rid(&self, container: &str, key: &str, id: &str) -> Address {
        let item = self.get(container, key, id).expect(id);
        let rid = item.get("_rid").as_str().expect("a rid").parse::<Rid>();
        Address::Rid(rid.unwrap_or_else(|_| panic!("a rid of an item")))
    }

    /// Upserts in one transactional batch.
    pub(crate) fn batch(
        &self,
        container: &str,
        key: &str,
        items: &[&str],
    ) -> Result<Vec<BatchAnswer>> {
        let operation = |item: &&str| BatchOperation {
            action: BatchAction::Upsert(item.as_bytes().to_vec().into()),
            partition_key: None,
            conditions: Preconditions::default(),
            content: Content::Full,
        };
        let operations: Vec<BatchOperation> = items.iter().map(operation).collect();
        let container = self.container(container);
        Ok(self.engine.transactions().batch(&container, Some(&pk(key)), &operations)?.answers)
    }

    /// Does `work` on a thread that stops at the first matching read, and `meanwhile` then.
    pub(crate) fn between<T: Send>(
        &self,
        stop: impl Fn(&Read<'_>) -> bool + Send + 'static,
        work: impl FnOnce() -> T + Send,
        meanwhile: impl FnOnce(),
    ) -> T {
        self.breakpoint.arm(stop);
        std::thread::scope(|threads| {
            let worker = threads.spawn(work);
            self.breakpoint.wait_reached();
            meanwhile();
            self.breakpoint.release();
            worker.join().expect("no panic")
        })
    }

    /// Recomputes everything that indexes and the model promise: nothing may differ.
    #[track_caller]
    pub(crate) fn check(&self) {
        if self.engine.models().read(&name("d")).is_ok() {
            let drift =
                self.engine.model_verification().verify(&name("d")).expect("it is verified");
            assert!(drift.is_empty(), "{drift:#?}");
        }
        for id in &self.containers {
            let faults = self.engine.insight().verify(&self.container(id)).expect("it is verified");
            assert!(faults.is_empty(), "{faults:#?}");
        }
    }
}

pub(crate) fn pk(key: &str) -> PartitionKey {
    PartitionKey::parse_header(&Value::array(vec![Value::from(key)]).to_json()).expect("a key")
}

/// The item with an id is read by its key.
pub(crate) fn reads_item(id: &'static str) -> impl Fn(&Read<'_>) -> bool + Send + 'static {
    move |read| match read {
        Read::Key { space: Space::Items, key, .. } => {
            key::parse_item(key).is_some_and(|found| found.id == id)
        }
        _ => false,
    }
}

/// A range of the index is scanned whose bounds name an id.
pub(crate) fn scans_index_of(id: &'static str) -> impl Fn(&Read<'_>) -> bool + Send + 'static {
    move |read| match read {
        Read::Range { space: Space::Index, from, .. } => {
            from.windows(id.len()).any(|bytes| bytes == id.as_bytes())
        }
        _ => false,
    }
}
