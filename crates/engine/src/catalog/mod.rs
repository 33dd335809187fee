//! What the account holds. Databases, containers and roles are kept in memory as an immutable picture
//! that requests read without a lock; users, permissions, offers and keys, of which there may be
//! many, are read from the store. All of it lives in one shard, the system shard, and every change
//! is one commit there before the picture is replaced.

pub mod container;
pub mod database;
pub mod encryption_key;
pub mod offer;
pub mod permission;
pub(crate) mod records;
pub mod resource;
pub mod role;
pub mod user;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use foldhash::HashMap;
use orrery_storage::key::RecordKind;
use orrery_storage::{Commit, CommitId, Part, Resolution, StorageError, Store};
use orrery_types::ids::{Address, Rid};
use orrery_types::{Epoch, Error, Result, ShardId};

use crate::catalog::container::Container;
use crate::catalog::database::Database;
use crate::catalog::role::RoleTable;
use crate::error::storage;
use crate::model::StoredModel;
use records::Record;

/// The shard of the catalog.
pub(crate) const SYSTEM_SHARD: ShardId = ShardId(0);
/// The system shard never splits, so its epoch never changes.
pub(crate) const SYSTEM_EPOCH: Epoch = Epoch(1);

/// The picture in memory and the lock under which it changes.
pub(crate) struct Catalog {
    store: Arc<dyn Store>,
    state: ArcSwap<State>,
    /// Holds a change of which nobody knows yet whether it was stored.
    changing: Mutex<Option<Unresolved>>,
    /// Shards that no layout has any more since such a change was resolved.
    unneeded: Mutex<Vec<ShardId>>,
}

/// A change whose commit got no answer: its id, the picture after it, and the shards that it decides about.
struct Unresolved {
    commit: CommitId,
    state: State,
    layout: UndecidedLayout,
}

/// The shards of a cutover: the children are the layout if its commit was stored, otherwise the frozen
/// parents are.
#[derive(Default)]
pub(crate) struct UndecidedLayout {
    pub(crate) parents: Vec<ShardId>,
    pub(crate) children: Vec<ShardId>,
}

/// Why a change is not stored.
#[derive(Debug)]
pub(crate) struct WriteFailed {
    pub(crate) error: StorageError,
    /// Whether it may be stored nevertheless.
    pub(crate) unknown: bool,
}

/// All databases, containers and roles at one moment.
#[derive(Clone, Default)]
pub(crate) struct State {
    databases: BTreeMap<u32, Arc<Database>>,
    names: HashMap<Box<str>, u32>,
    pub(crate) roles: Arc<RoleTable>,
}

impl Catalog {
    pub(crate) fn open(store: Arc<dyn Store>) -> Result<Self> {
        store.create_shard(SYSTEM_SHARD, SYSTEM_EPOCH).map_err(storage)?;
        let roles = Arc::new(RoleTable::load(&*store)?);
        let mut state = State { roles, ..State::default() };
        for record in records::list(&*store, RecordKind::Database, 0)? {
            let mut database = Database::from_record(&record)?;
            let parent = u64::from(database.number);
            for record in records::list(&*store, RecordKind::Container, parent)? {
                database.insert(Container::from_record(&database, &record)?);
            }
            if let Some(record) = records::list(&*store, RecordKind::Model, parent)?.first() {
                let model = StoredModel::from_record(&database, record)?;
                database.model = Some(Arc::new(model));
            }
            state.insert(database);
        }
        let (state, unneeded) = (ArcSwap::from_pointee(state), Mutex::default());
        Ok(Self { store, state, changing: Mutex::new(None), unneeded })
    }

    /// The picture of now.
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// A database by name or rid.
    pub(crate) fn database(&self, address: &Address) -> Result<Arc<Database>> {
        self.state.load().database(address).cloned().ok_or(Error::NotFound)
    }

    /// A container by names or rids: a missing database is a missing owner.
    pub(crate) fn container(
        &self,
        database: &Address,
        container: &Address,
    ) -> Result<Arc<Container>> {
        let state = self.state.load();
        let database = state.database(database).ok_or(Error::OwnerNotFound)?;
        database.container(container).cloned().ok_or(Error::NotFound)
    }

    /// Takes numbers at once, whatever becomes of the change in whose course it happens.
    pub(crate) fn reserve_numbers(&self, counter: &str, count: u32) -> Result<u32> {
        let mut part = Part::new(SYSTEM_SHARD, SYSTEM_EPOCH);
        let first = records::next_numbers(&*self.store, &mut part, counter, count)?;
        self.store.commit(Commit::new(vec![part])).map_err(storage)?;
        Ok(first)
    }

    /// Returns when every change that had begun is over. If the outcome of the last one was unknown, the store
    /// is asked again: writers of a shard that it froze wait for nothing else.
    pub(crate) fn wait_for_changes(&self) {
        self.resolve(&mut self.changing.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Shards to be dropped since a change of unknown outcome was resolved; each is returned once.
    pub(crate) fn take_unneeded(&self) -> Vec<ShardId> {
        if let Ok(mut unresolved) = self.changing.try_lock() {
            self.resolve(&mut unresolved);
        }
        std::mem::take(&mut self.unneeded.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins a change; nobody else changes the catalog until the guard is dropped.
    pub(crate) fn change(&self) -> Change<'_> {
        let mut guard = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.resolve(&mut guard);
        let part = Part::new(SYSTEM_SHARD, SYSTEM_EPOCH);
        Change { catalog: self, guard, part, state: (*self.state()).clone() }
    }

    /// Finds out about a change whose outcome was unknown, and shows it if it was stored. It stays
    /// unknown if the store cannot tell.
    fn resolve(&self, unresolved: &mut Option<Unresolved>) {
        let Some(change) = unresolved.take() else { return };
        let unneeded = match self.store.resolve(&[SYSTEM_SHARD], change.commit) {
            Ok(Resolution::Committed(_)) => {
                self.state.store(Arc::new(change.state));
                change.layout.parents
            }
            Ok(Resolution::Never) if self.unfreeze(&change.layout.parents) => {
                change.layout.children
            }
            Ok(Resolution::Never | Resolution::NotKnown) | Err(_) => {
                *unresolved = Some(change);
                return;
            }
        };
        self.unneeded.lock().unwrap_or_else(PoisonError::into_inner).extend(unneeded);
    }

    /// Lets shards be written to again; whether that succeeded.
    fn unfreeze(&self, shards: &[ShardId]) -> bool {
        shards.iter().all(|shard| match self.store.freeze_shard(*shard, false) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, shard = shard.0, "a shard cannot be unfrozen yet");
                false
            }
        })
    }
}

/// A change to the catalog: writes gathered for one commit, and the picture after it.
pub(crate) struct Change<'c> {
    catalog: &'c Catalog,
    guard: MutexGuard<'c, Option<Unresolved>>,
    pub(crate) part: Part,
    pub(crate) state: State,
}

impl Change<'_> {
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.catalog.store
    }

    /// A number that no resource of the account had before.
    pub(crate) fn next_number(&mut self, counter: &str) -> Result<u32> {
        self.next_numbers(counter, 1)
    }

    /// The first of several such numbers in a row. Once a change for each counter: what this
    /// change has taken is not in the store yet.
    pub(crate) fn next_numbers(&mut self, counter: &str, count: u32) -> Result<u32> {
        records::next_numbers(&*self.catalog.store, &mut self.part, counter, count)
    }

    /// A record as it is now, for replacing it.
    pub(crate) fn record(&self, kind: RecordKind, parent: u64, number: u64) -> Result<Record> {
        records::by_number(self.store(), kind, parent, number)?.ok_or(Error::NotFound)
    }

    pub(crate) fn insert(&mut self, kind: RecordKind, parent: u64, record: &Record) -> Result<()> {
        records::insert(&mut self.part, kind, parent, record)
    }

    pub(crate) fn replace(&mut self, kind: RecordKind, parent: u64, record: &Record) -> Result<()> {
        records::replace(&mut self.part, kind, parent, record)
    }

    pub(crate) fn remove(&mut self, kind: RecordKind, parent: u64, number: u64, id: &str) {
        records::remove(&mut self.part, kind, parent, number, id);
    }

    /// Removes every record of a kind under a parent.
    pub(crate) fn remove_all(&mut self, kind: RecordKind, parent: u64) -> Result<Vec<Record>> {
        let all = records::list(&*self.catalog.store, kind, parent)?;
        for record in &all {
            self.remove(kind, parent, record.number, &record.id);
        }
        Ok(all)
    }

    /// Makes the change durable, then visible.
    pub(crate) fn commit(mut self) -> Result<()> {
        self.write().map_err(|failed| storage(failed.error))?;
        self.publish();
        Ok(())
    }

    /// Makes the change durable. If the store cannot tell what became of it, nobody changes the catalog
    /// before it can.
    pub(crate) fn write(&mut self) -> std::result::Result<(), WriteFailed> {
        if self.guard.is_some() {
            let reason = "the outcome of an earlier change of the catalog is unknown";
            let error = StorageError::NotCommitted(reason.into());
            return Err(WriteFailed { error, unknown: false });
        }
        let mut part = std::mem::replace(&mut self.part, Part::new(SYSTEM_SHARD, SYSTEM_EPOCH));
        part.sets_control = true;
        let commit = Commit::new(vec![part]);
        let id = commit.id;
        match self.catalog.store.commit(commit) {
            Ok(_) => Ok(()),
            Err(error @ StorageError::Unknown(_)) => {
                let (state, layout) = (self.state.clone(), UndecidedLayout::default());
                *self.guard = Some(Unresolved { commit: id, state, layout });
                Err(WriteFailed { error, unknown: true })
            }
            Err(error) => Err(WriteFailed { error, unknown: false }),
        }
    }

    /// Names the shards about which a change of unknown outcome decides.
    pub(crate) fn decides_about(&mut self, layout: UndecidedLayout) {
        if let Some(unresolved) = &mut *self.guard {
            unresolved.layout = layout;
        }
    }

    /// Makes a durable change visible.
    pub(crate) fn publish(self) {
        self.catalog.state.store(Arc::new(self.state));
    }
}

impl State {
    pub(crate) fn databases(&self) -> impl Iterator<Item = &Arc<Database>> {
        self.databases.values()
    }

    pub(crate) fn database(&self, address: &Address) -> Option<&Arc<Database>> {
        let number = match address {
            Address::Name(name) => *self.names.get(name.as_str())?,
            Address::Rid(Rid::Database(number)) => *number,
            Address::Rid(_) => return None,
        };
        self.databases.get(&number)
    }

    /// Adds a database or replaces the one with its number.
    pub(crate) fn insert(&mut self, database: Database) {
        self.names.insert(database.id.clone(), database.number);
        self.databases.insert(database.number, Arc::new(database));
    }

    pub(crate) fn remove(&mut self, database: &Database) {
        self.names.remove(&database.id);
        self.databases.remove(&database.number);
    }

    /// Every container of the account.
    pub(crate) fn containers(&self) -> impl Iterator<Item = &Arc<Container>> {
        self.databases.values().flat_map(|d| d.containers())
    }
}
