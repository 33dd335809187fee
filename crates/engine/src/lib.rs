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

// Processes that serve the same store, and who of them does what.
pub mod nodes;

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
use nodes::observed_store::ObservedStore;
use throughput::throttle::Throttle;

pub use catalog::container::Container;
pub use catalog::database::Database;
pub use catalog::resource::Resource;

/// The database: a store, what is in it, and the time. Shared by all requests.
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    /// The same store, if other processes use it too: what this one has loaded of it.
    pub(crate) observed: Option<Arc<ObservedStore>>,
    pub(crate) catalog: Catalog,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stamper: Stamper,
    pub(crate) tasks: Tasks,
    /// What this process is among the nodes of a shared store.
    pub(crate) nodes: nodes::Nodes,
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
    /// Reads the catalog out of the store, or writes the first one. `node` tells the lives of one process apart in
    /// etags and should be random; on a shared store it is replaced by the number of the node.
    pub fn open(store: Arc<dyn Store>, clock: Arc<dyn Clock>, node: u32) -> Result<Self> {
        // Listed first: what the catalog then does not name was never opened for a container, or is no longer.
        let shards = store.shards().map_err(storage)?;
        let observed = store.is_shared().then(|| Arc::new(ObservedStore::new(store.clone())));
        let store = observed.clone().map_or(store, |observed| observed);
        let catalog = Catalog::open(store.clone(), observed.clone())?;
        let nodes = nodes::Nodes::join(&*store, &clock)?;
        let clock = nodes.clock(clock);
        let stamper = Stamper::new(clock.clone(), nodes.number().unwrap_or(node));
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
            observed,
            catalog,
            clock,
            stamper,
            tasks,
            nodes,
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
        // What other nodes of a shared store have left is cleaned up under a lease.
        if engine.observed.is_none() {
            engine.recover(&shards)?;
        }
        for container in engine.catalog.state().containers() {
            engine.tasks.queue_asked_for(container);
        }
        Ok(engine)
    }

    /// Takes over a store that no other process can be using.
    fn recover(&self, shards: &[(ShardId, Head)]) -> Result<()> {
        self.drop_orphans(shards)?;
        let state = self.catalog.state();
        state.containers().try_for_each(|container| self.epochs().catch_up(container))?;
        state.containers().try_for_each(|container| self.erasure().load_erasures(container))
    }

    /// Returns when what is known of the catalog shows every change that was answered before the call, by
    /// whichever process.
    pub fn refresh_catalog(&self) -> Result<()> {
        self.catalog.refresh()
    }

    /// Whether other processes may use the store at the same time.
    pub(crate) fn is_shared(&self) -> bool {
        self.observed.is_some()
    }

    /// The store for what goes by its own state and not by the catalog: its reads are never refused because
    /// another process has changed something.
    pub(crate) fn unchecked_store(&self) -> &Arc<dyn Store> {
        self.observed.as_ref().map_or(&self.store, |observed| observed.inner())
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
        orrery_storage::checkpoint(&**self.unchecked_store(), into).map_err(storage)
    }

    /// Frees shards that no container has, of those that there were before the catalog was read. What is being
    /// made is left to its maker: a store that no other process can be using has none when it is opened.
    /// On a shared store nothing may call it that has not found out whether the makers still run.
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

    /// The nodes of a shared store.
    pub fn nodes(&self) -> nodes::NodeRegistry<'_> {
        nodes::NodeRegistry { engine: self }
    }

    /// The clock by which this engine goes; on a shared store that of the store, if it has one.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
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
