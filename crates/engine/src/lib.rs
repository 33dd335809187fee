//! What the database means. [`Engine`] holds what all requests share, and leads to a small type for each
//! idea: `engine.containers().create(…)`, `engine.items().read(…)`. The server decodes a request, calls one
//! of their methods, and encodes the result; below, the engine reads and writes the store. Everything here
//! blocks.

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

// Containers that are kept from others, under another partition key.
pub mod secondary_index;

pub mod throughput;

pub mod insight;

// The whole store, read by another process while it is used.
pub mod store_copy;

mod error;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use orrery_script::{Bounds, Scripts};
use orrery_storage::{Head, ShardState, StorageError, Store};
use orrery_types::{Clock, MemoryPool, Result, ShardId};

use background::Tasks;
use background::units::Units;
use catalog::Catalog;
use catalog::resource::Stamper;
use error::storage;
use insight::workload;
use throughput::throttle::Throttle;

pub use catalog::container::Container;
pub use catalog::database::Database;
pub use catalog::resource::Resource;

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
    /// The worker of global secondary indexes.
    pub(crate) index_worker: secondary_index::IndexWorker,
    /// What models promise, looked at in the background.
    pub(crate) verifications: model::Verifications,
    /// Who has used up their throughput.
    pub(crate) throttle: Throttle,
    /// What was seen of requests, for the advisor.
    pub(crate) workload: workload::WorkloadRecorder,
    /// Which long queries run, and which wait.
    pub(crate) slices: query::slices::Slices,
    /// What queries hold together.
    pub(crate) query_memory: MemoryPool,
}

impl Engine {
    /// Reads the catalog out of the store, or writes the first one. `node` tells processes on one
    /// store apart and should be random.
    pub fn open(store: Arc<dyn Store>, clock: Arc<dyn Clock>, node: u32) -> Result<Self> {
        // Listed first: what the catalog then does not name was never opened for a container, or is no longer.
        let shards = store.shards().map_err(storage)?;
        let catalog = Catalog::open(store.clone())?;
        let stamper = Stamper::new(clock.clone(), node);
        let (tasks, units) = (Tasks::default(), Units::default());
        let scripts = Scripts::new(Bounds::default());
        let model_locks = model::ModelLocks::default();
        let verifications = model::Verifications::default();
        let layout_changes = partition::layout::LayoutChanges::default();
        let layout = partition::layout::LayoutPolicy::default();
        let throttle = Throttle::open(&*store)?;
        let workload = workload::WorkloadRecorder::default();
        let query_memory = MemoryPool::default();
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
            index_worker: secondary_index::IndexWorker::default(),
            verifications,
            throttle,
            workload,
            slices: query::slices::Slices::default(),
            query_memory,
        };
        engine.drop_orphans(&shards)?;
        for container in engine.catalog.state().containers() {
            engine.epochs().catch_up(container)?;
            if container.ttl_backfill_pending {
                engine.tasks.backfill_ttl(container.clone());
            }
            if !container.index.is_complete() {
                engine.tasks.reindex(container.clone());
            }
        }
        for container in engine.catalog.state().containers() {
            engine.erasure().load_erasures(container)?;
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
        self.query_memory = MemoryPool::new(bytes_max);
        self
    }

    /// The same with throughput that is enforced for every offer that does not say otherwise.
    #[must_use]
    pub fn with_enforced_throughput(mut self, everywhere: bool) -> Self {
        self.throttle.enforce_everywhere(everywhere);
        self
    }

    /// Memory that queries have reserved at the moment, in bytes.
    pub fn query_memory_used(&self) -> usize {
        self.query_memory.used_bytes()
    }

    /// Whether the store takes writes: after a failed one it refuses all until it is opened again, and
    /// on a full disk until there is room.
    pub fn is_writable(&self) -> bool {
        self.store.writable().is_ok()
    }

    /// Whether a thread that serves connections may read from the store ([`Store::reads_inline`]).
    pub fn reads_inline(&self) -> bool {
        self.store.reads_inline()
    }

    /// Writes a consistent copy of the whole store into a folder that does not exist yet. What was
    /// acknowledged before the call is in it; writers are not held up.
    pub fn checkpoint(&self, into: &Path) -> Result<()> {
        orrery_storage::checkpoint(&*self.store, into).map_err(storage)
    }

    /// Frees shards that no container has, of those that there were before the catalog was read. What is being
    /// made is left to its maker: a store that no other process can be using has none when it is opened.
    fn drop_orphans(&self, shards: &[(ShardId, Head)]) -> Result<()> {
        let state = self.catalog.state();
        let mut owned: HashSet<ShardId> =
            state.containers().flat_map(|c| &c.partitions).map(|p| p.shard).collect();
        owned.insert(catalog::SYSTEM_SHARD);
        for (shard, head) in shards {
            if owned.contains(shard) || head.state == ShardState::Building {
                continue;
            }
            // In version 0.1 a shard without a container could be open.
            match self.store.retire_shard(*shard).and_then(|()| self.store.drop_shard(*shard)) {
                // Reads go on, and a later start finds it again.
                Err(error @ (StorageError::NoRoom(_) | StorageError::Gone { .. })) => {
                    tracing::warn!(%error, "a shard without a container stays for now");
                }
                other => other.map_err(storage)?,
            }
        }
        Ok(())
    }
}

/// What can be done with the database, by idea, in the order of a request's way. Each of these types is a
/// reference to the engine; its methods stand in the module that it is defined in.
impl Engine {
    /// Databases of the account.
    pub fn databases(&self) -> catalog::database::DatabaseCatalog<'_> {
        catalog::database::DatabaseCatalog { engine: self }
    }

    /// Containers of a database.
    pub fn containers(&self) -> catalog::container::ContainerCatalog<'_> {
        catalog::container::ContainerCatalog { engine: self }
    }

    /// Users of a database.
    pub fn users(&self) -> catalog::user::UserCatalog<'_> {
        catalog::user::UserCatalog { engine: self }
    }

    /// Permissions of a user.
    pub fn permissions(&self) -> catalog::permission::PermissionCatalog<'_> {
        catalog::permission::PermissionCatalog { engine: self }
    }

    /// Throughput that databases and containers were given.
    pub fn offers(&self) -> catalog::offer::OfferCatalog<'_> {
        catalog::offer::OfferCatalog { engine: self }
    }

    /// Client encryption keys of a database.
    pub fn encryption_keys(&self) -> catalog::encryption_key::EncryptionKeyCatalog<'_> {
        catalog::encryption_key::EncryptionKeyCatalog { engine: self }
    }

    /// Roles of directory principals.
    pub fn roles(&self) -> catalog::role::RoleCatalog<'_> {
        catalog::role::RoleCatalog { engine: self }
    }

    /// Epochs of shards, and what runs again under a new one.
    pub(crate) fn epochs(&self) -> partition::epoch::Epochs<'_> {
        partition::epoch::Epochs { engine: self }
    }

    /// Physical partitions of containers: splits and merges.
    pub fn layouts(&self) -> partition::layout::Layouts<'_> {
        partition::layout::Layouts { engine: self }
    }

    /// Session tokens, and how far shards have come.
    pub fn sessions(&self) -> partition::session::Sessions<'_> {
        partition::session::Sessions { engine: self }
    }

    /// Single items: reads, and writes that are given as text.
    pub fn items(&self) -> item::read::ItemAccess<'_> {
        item::read::ItemAccess { engine: self }
    }

    /// Writes of one item.
    pub fn point_writes(&self) -> transaction::point_write::PointWrites<'_> {
        transaction::point_write::PointWrites { engine: self }
    }

    /// Transactions of several operations.
    pub fn transactions(&self) -> transaction::Transactions<'_> {
        transaction::Transactions { engine: self }
    }

    /// Models of databases.
    pub fn models(&self) -> model::Models<'_> {
        model::Models { engine: self }
    }

    /// Rules of a model that are applied to older items.
    pub(crate) fn model_builds(&self) -> model::build::ModelBuilds<'_> {
        model::build::ModelBuilds { engine: self }
    }

    /// What follows from a write after its commit.
    pub fn deferred_effects(&self) -> maintain::deferred::DeferredEffects<'_> {
        maintain::deferred::DeferredEffects { engine: self }
    }

    /// Global secondary indexes.
    pub fn secondary_indexes(&self) -> secondary_index::SecondaryIndexes<'_> {
        secondary_index::SecondaryIndexes { engine: self }
    }

    /// Whether the items of a database keep its model.
    pub fn model_verification(&self) -> model::ModelVerification<'_> {
        model::ModelVerification { engine: self }
    }

    /// Queries and read feeds.
    pub fn queries(&self) -> query::Queries<'_> {
        query::Queries { engine: self }
    }

    /// The change feed of a container, and the history of versions behind it.
    pub fn change_feed(&self) -> change_feed::ChangeFeedReader<'_> {
        change_feed::ChangeFeedReader { engine: self }
    }

    /// Procedures, triggers and functions of a container.
    pub fn scripts(&self) -> script::ServerScripts<'_> {
        script::ServerScripts { engine: self }
    }

    /// Work beside requests, unit by unit.
    pub fn background(&self) -> background::BackgroundWork<'_> {
        background::BackgroundWork { engine: self }
    }

    /// Removal of expired items.
    pub(crate) fn expiry_sweep(&self) -> background::expiry_sweep::ExpirySweep<'_> {
        background::expiry_sweep::ExpirySweep { engine: self }
    }

    /// Indexes that are built over older items.
    pub fn index_build(&self) -> background::index_build::IndexBuild<'_> {
        background::index_build::IndexBuild { engine: self }
    }

    /// Expiry entries of items that are older than the default time to live.
    pub(crate) fn ttl_backfill(&self) -> background::ttl_backfill::TtlBackfill<'_> {
        background::ttl_backfill::TtlBackfill { engine: self }
    }

    /// Deletion of all items of a partition key.
    pub fn erasure(&self) -> background::erasure::KeyErasure<'_> {
        background::erasure::KeyErasure { engine: self }
    }

    /// Throughput that requests may use.
    pub fn throughput(&self) -> throughput::throttle::Throttling<'_> {
        throughput::throttle::Throttling { engine: self }
    }

    /// What is known about the data: advice, usage, verification.
    pub fn insight(&self) -> insight::Insight<'_> {
        insight::Insight { engine: self }
    }
}
