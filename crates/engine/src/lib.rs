//! What the database means. The server decodes a request, calls one method of [`Engine`], and
//! encodes what it gets; below, the engine reads and writes the store. Everything here blocks.

// The modules stand in the order of a request's way.

// What exists: databases, containers and the other resources of the account.
pub mod catalog;

// Where it lies: physical partitions, their epochs, splits and merges.
pub mod partition;

// One item: its address, its images, what a request wants done with it.
pub mod item;

// The write path, and the concurrency control of all writers.
pub mod transaction;

// What is written because an item changes.
mod maintain;

// The model of a database: its rules, and what verifies them.
pub mod model;

// The read paths.
pub mod query;

pub mod change_feed;

pub mod script;

// What runs beside requests.
pub mod background;

pub mod throughput;

pub mod insight;

mod checkpoint;
mod error;
pub mod stamp;

use std::collections::HashSet;
use std::sync::Arc;

use orrery_script::{Bounds, Scripts};
use orrery_storage::{StorageError, Store};
use orrery_types::{Clock, Error, Result, ShardId};

use background::Tasks;
use background::units::Units;
use catalog::Catalog;
use error::storage;
use insight::workload;
use stamp::Stamper;
use throughput::throttle::Throttle;

pub use background as tasks;
pub use background::erasure;
pub use background::units::FailingUnits;
pub use catalog::container::Container;
pub use catalog::database::Database;
pub use catalog::resource::Resource;
pub use catalog::{container, database, encryption_key, permission, resource, user};
pub use insight::{advice, usage, verify};
pub use item::{body as item_body, operation as item_write, patch, read as items};
pub use partition::{scope, session};
pub use query::{continuation, read_feed as feed, relations as expansion};
pub use throughput::{charge, throttle};
pub use transaction::{batch, bulk, bulk_load as load, point_write as write};

/// The database: a store, what is in it, and the time. Shared by all requests.
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) catalog: Catalog,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stamper: Stamper,
    pub(crate) tasks: Tasks,
    /// Background work that failed the last time.
    pub(crate) units: Units,
    pub(crate) scripts: Scripts,
    /// Splits and merges.
    pub(crate) layout_changes: partition::layout::LayoutChanges,
    /// When partitions are split by themselves.
    pub(crate) layout: partition::layout::LayoutPolicy,
    /// Locks that models need beside those of partitions.
    pub(crate) model_locks: model::ModelLocks,
    /// What models promise, looked at in the background.
    pub(crate) verifications: model::Verifications,
    /// Who has used up their throughput.
    pub(crate) throttle: Throttle,
    /// What was seen of requests, for the advisor.
    pub(crate) workload: workload::Workload,
    /// Which long queries run, and which wait.
    pub(crate) slices: query::slices::Slices,
    /// What queries hold together.
    pub(crate) query_memory: query::memory::QueryMemory,
}

impl Engine {
    /// Reads the catalog out of the store, or writes the first one. `node` tells processes on one
    /// store apart and should be random.
    pub fn open(store: Arc<dyn Store>, clock: Arc<dyn Clock>, node: u32) -> Result<Self> {
        let catalog = Catalog::open(store.clone())?;
        let stamper = Stamper::new(clock.clone(), node);
        let (tasks, units) = (Tasks::default(), Units::default());
        let scripts = Scripts::new(Bounds::default());
        let model_locks = model::ModelLocks::default();
        let verifications = model::Verifications::default();
        let layout_changes = partition::layout::LayoutChanges::default();
        let layout = partition::layout::LayoutPolicy::default();
        let throttle = Throttle::open(&*store)?;
        let workload = workload::Workload::default();
        let query_memory = query::memory::QueryMemory::default();
        let engine = Self {
            store,
            catalog,
            clock,
            stamper,
            tasks,
            units,
            scripts,
            layout_changes,
            layout,
            model_locks,
            verifications,
            throttle,
            workload,
            slices: query::slices::Slices::default(),
            query_memory,
        };
        engine.drop_orphans()?;
        for container in engine.catalog.state().containers() {
            if container.ttl_backfill_pending {
                engine.fence_at_start(container)?;
                engine.tasks.backfill_ttl(container.clone());
            }
            if !container.index.is_complete() {
                engine.fence_at_start(container)?;
                engine.tasks.reindex(container.clone());
            }
        }
        for container in engine.catalog.state().containers() {
            engine.load_erasures(container)?;
        }
        let kept = |c: &Container| c.definition.versions_kept_s().is_some();
        for container in engine.catalog.state().containers().filter(|c| !kept(c)) {
            // A history that was being removed when the last process ended.
            engine.tasks.rebase_history(container.clone());
        }
        Ok(engine)
    }

    /// The same with other bounds of scripts.
    #[must_use]
    pub fn with_script_bounds(mut self, bounds: Bounds) -> Self {
        self.scripts = Scripts::new(bounds);
        self
    }

    /// The same with another policy of layouts.
    #[must_use]
    pub fn with_layout(mut self, layout: partition::layout::LayoutPolicy) -> Self {
        self.layout = layout;
        self
    }

    /// The same with so much memory for all queries together.
    #[must_use]
    pub fn with_query_memory(mut self, bytes_max: usize) -> Self {
        self.query_memory = query::memory::QueryMemory::new(bytes_max);
        self
    }

    /// Whether the store takes writes: after a failed one it refuses all until it is opened again, and
    /// on a full disk until there is room.
    pub fn is_writable(&self) -> bool {
        self.store.writable().is_ok()
    }

    /// Fences a container's shards, unless the disk is full: then the backfill does it, or a writer.
    fn fence_at_start(&self, container: &Container) -> Result<()> {
        match self.fence(container) {
            Err(error @ Error::Unavailable(_)) => {
                tracing::warn!(%error, "a shard is fenced later");
                Ok(())
            }
            fenced => fenced,
        }
    }

    /// Frees shards that no container has: a process that ended between two steps of making or
    /// deleting a container left them.
    fn drop_orphans(&self) -> Result<()> {
        let state = self.catalog.state();
        let mut owned: HashSet<ShardId> =
            state.containers().flat_map(|c| &c.partitions).map(|p| p.shard).collect();
        owned.insert(catalog::SYSTEM_SHARD);
        for (shard, _) in self.store.shards().map_err(storage)? {
            if !owned.contains(&shard) {
                match self.store.drop_shard(shard) {
                    // Reads go on, and a later start finds it again.
                    Err(error @ StorageError::NoRoom(_)) => {
                        tracing::warn!(%error, "a shard without a container stays for now");
                    }
                    other => other.map_err(storage)?,
                }
            }
        }
        Ok(())
    }
}
