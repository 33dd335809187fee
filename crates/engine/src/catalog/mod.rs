//! What the account holds. Databases, containers and roles are kept in memory as an immutable picture
//! that requests read without a lock; users, permissions, offers and keys, of which there may be
//! many, are read from the store. All of it lives in one shard, the system shard. Every change is one
//! commit, of the records there and of the heads of the shards that they are about ([`HeadChange`]); then
//! the picture is replaced.

pub mod container;
pub mod database;
pub mod encryption_key;
pub mod offer;
pub mod permission;
pub(crate) mod records;
pub mod resource;
pub mod role;
pub(crate) mod shared;
pub mod user;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use foldhash::HashMap;
use orrery_storage::key::{self, RecordKind};
use orrery_storage::{
    Commit, CommitId, Committed, Head, HeadChange, Part, ReadAt, Resolution, ShardState, Snapshot,
    Space, StorageError, Store,
};
use orrery_types::ids::{Address, Rid};
use orrery_types::{Epoch, Error, Lsn, Result, ShardId, limits};

use crate::catalog::container::Container;
use crate::catalog::database::Database;
use crate::catalog::role::RoleTable;
use crate::error::storage;
use crate::model::StoredModel;
use crate::nodes::observed_store::ObservedStore;
use records::Record;

/// The shard of the catalog.
pub(crate) const SYSTEM_SHARD: ShardId = ShardId(0);
/// The system shard never splits, so its epoch never changes.
pub(crate) const SYSTEM_EPOCH: Epoch = Epoch(1);

/// The picture in memory and the lock under which it changes.
pub(crate) struct Catalog {
    store: Arc<dyn Store>,
    /// The same store, if other processes change the catalog too ([`shared`]).
    observed: Option<Arc<ObservedStore>>,
    state: ArcSwap<State>,
    /// Holds a change of which nobody knows yet whether it was stored.
    changing: Mutex<Option<Unresolved>>,
    left: Mutex<LeftShards>,
    refreshes: shared::Refreshes,
}

/// A change whose commit got no answer: its id, the shards of its parts, and the picture after it.
struct Unresolved {
    commit: CommitId,
    shards: Vec<ShardId>,
    state: State,
}

/// Shards that changes have left behind.
#[derive(Default)]
struct LeftShards {
    /// Those of changes that failed or got no answer: they may be closed, or half made.
    unsettled: Vec<UnsettledShards>,
    /// Those that nothing names.
    unneeded: Vec<ShardId>,
}

/// Shards of a change that failed: closed, or half made.
pub(crate) struct UnsettledShards {
    pub(crate) shards: Vec<ShardId>,
    /// The commit that has closed them, if it is not known whether it happened.
    pub(crate) closed_by: Option<CommitId>,
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
    /// The commit of the system shard that it shows with all before it. Only kept up to date on a shared store.
    shows: Lsn,
    /// The version of the key that every change writes on a shared store.
    head_version: Option<Lsn>,
}

impl Catalog {
    pub(crate) fn open(
        store: Arc<dyn Store>,
        observed: Option<Arc<ObservedStore>>,
    ) -> Result<Self> {
        let head = store.heads(&[SYSTEM_SHARD]).map_err(storage)?.into_iter().next().flatten();
        if observed.is_none() && head.is_some_and(|head| head.state == ShardState::Dropped) {
            // The first start ended before it was open.
            store.drop_shard(SYSTEM_SHARD).map_err(storage)?;
        }
        store.create_open_shard(SYSTEM_SHARD, SYSTEM_EPOCH).map_err(storage)?;
        let state = {
            let snapshot = store.snapshot(SYSTEM_SHARD, ReadAt::Latest).map_err(storage)?;
            State::load(&*snapshot, None)?
        };
        if let Some(observed) = &observed {
            observed.name_shards(state.shards());
        }
        let state = ArcSwap::from_pointee(state);
        let (changing, left) = (Mutex::new(None), Mutex::default());
        Ok(Self { store, observed, state, changing, left, refreshes: shared::Refreshes::default() })
    }

    /// The picture of now.
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// A database by name or rid.
    pub(crate) fn database(&self, address: &Address) -> Result<Arc<Database>> {
        self.look_up(|state| state.database(address).cloned().ok_or(Error::NotFound))
    }

    /// A container by names or rids: a missing database is a missing owner.
    pub(crate) fn container(
        &self,
        database: &Address,
        container: &Address,
    ) -> Result<Arc<Container>> {
        self.look_up(|state| {
            let database = state.database(database).ok_or(Error::OwnerNotFound)?;
            database.container(container).cloned().ok_or(Error::NotFound)
        })
    }

    /// Takes numbers at once, whatever becomes of the change in whose course it happens.
    pub(crate) fn reserve_numbers(&self, counter: &str, count: u32) -> Result<u32> {
        for _ in 0..limits::COMMIT_ATTEMPTS_MAX {
            let mut part = Part::new(SYSTEM_SHARD, SYSTEM_EPOCH);
            let first = records::next_numbers(&*self.store, &mut part, counter, count)?;
            match self.store.commit(Commit::new(vec![part])) {
                Ok(_) => return Ok(first),
                // Another process has taken some.
                Err(StorageError::Conflict(_)) => {}
                Err(error) => return Err(storage(error)),
            }
        }
        Err(Error::RetryWith)
    }

    /// Returns when every change that had begun is over. If the outcome of the last one was unknown, the store
    /// is asked again: writers of a shard that it closed wait for nothing else.
    pub(crate) fn wait_for_changes(&self) {
        self.resolve(&mut self.changing.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Shards to be dropped that changes have left behind; each is returned once.
    pub(crate) fn take_unneeded(&self) -> Vec<ShardId> {
        if let Ok(mut unresolved) = self.changing.try_lock() {
            self.resolve(&mut unresolved);
        }
        std::mem::take(&mut self.left().unneeded)
    }

    fn left(&self) -> MutexGuard<'_, LeftShards> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a change of the newest picture; nobody else in this process changes the catalog until the guard is
    /// dropped. If another process does, the commit gets a conflict (`Epochs::redo`).
    pub(crate) fn change(&self) -> Result<Change<'_>> {
        let mut guard = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.resolve(&mut guard);
        self.refresh()?;
        let part = Part::new(SYSTEM_SHARD, SYSTEM_EPOCH);
        let state = (*self.state()).clone();
        Ok(Change { catalog: self, guard, part, shards: vec![], state })
    }

    /// Finds out about a change whose outcome was unknown, and shows it if it was stored. It stays
    /// unknown if the store cannot tell.
    fn resolve(&self, unresolved: &mut Option<Unresolved>) {
        if let Some(change) = unresolved.take() {
            match self.store.resolve(&change.shards, change.commit) {
                // On a shared store it is read from there.
                Ok(Resolution::Committed(_)) if self.observed.is_some() => {}
                Ok(Resolution::Committed(_)) => self.state.store(Arc::new(change.state)),
                Ok(Resolution::Never) => {}
                Ok(Resolution::NotKnown) | Err(_) => {
                    *unresolved = Some(change);
                    return;
                }
            }
            let left = UnsettledShards { shards: change.shards, closed_by: None };
            self.left().unsettled.push(left);
        }
        self.settle();
    }

    /// Leaves shards of a change that failed: those that it has closed are opened again, now or by the next
    /// change, the next writer that they hold up, or the background.
    pub(crate) fn leave(&self, shards: UnsettledShards) {
        self.left().unsettled.push(shards);
        self.settle();
    }

    fn settle(&self) {
        let unsettled = std::mem::take(&mut self.left().unsettled);
        for UnsettledShards { shards, closed_by } in unsettled {
            let resolution = closed_by.map(|commit| self.store.resolve(&shards, commit));
            match resolution {
                // Another change has closed them since, and is at work.
                Some(Ok(Resolution::Never)) => continue,
                Some(Ok(Resolution::NotKnown) | Err(_)) => {
                    self.left().unsettled.push(UnsettledShards { shards, closed_by });
                    continue;
                }
                Some(Ok(Resolution::Committed(_))) | None => {}
            }
            for shard in shards {
                match self.settle_shard(shard) {
                    Ok(true) => self.left().unneeded.push(shard),
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(%error, shard = shard.0, "a shard cannot be opened again yet");
                        let left = UnsettledShards { shards: vec![shard], closed_by: None };
                        self.left().unsettled.push(left);
                    }
                }
            }
        }
    }

    /// Opens a shard if it is closed; whether it is one that nothing names.
    fn settle_shard(&self, shard: ShardId) -> std::result::Result<bool, StorageError> {
        let head = self.store.heads(&[shard])?.into_iter().next().flatten();
        let Some(Head { epoch, state, .. }) = head else { return Ok(false) };
        if state != ShardState::Closed {
            return Ok(state.may_be_dropped());
        }
        let reopen = HeadChange::state(ShardState::Closed, ShardState::Open, epoch);
        match self.store.commit(Commit::new(vec![Part::of_head(shard, epoch, reopen)])) {
            // It is open if the answer to an earlier attempt was lost.
            Ok(_) | Err(StorageError::Gone { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A change to the catalog: writes gathered for one commit, and the picture after it.
pub(crate) struct Change<'c> {
    catalog: &'c Catalog,
    guard: MutexGuard<'c, Option<Unresolved>>,
    pub(crate) part: Part,
    /// What it does in other shards, in the same commit.
    shards: Vec<Part>,
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

    /// Adds what the change does in another shard: its head, above all.
    pub(crate) fn add(&mut self, part: Part) {
        self.shards.push(part);
    }

    /// Makes the change durable, then visible.
    pub(crate) fn commit(mut self) -> Result<()> {
        self.write().map_err(|failed| storage(failed.error))?;
        self.publish();
        Ok(())
    }

    /// Makes the change durable; the LSNs are of the system shard, and then of the others in the order in
    /// which they were added. If the store cannot tell what became of it, no other change is made before
    /// it can.
    pub(crate) fn write(&mut self) -> std::result::Result<Committed, WriteFailed> {
        if self.guard.is_some() {
            let reason = "the outcome of an earlier change of the catalog is unknown";
            let error = StorageError::NotCommitted(reason.into());
            return Err(WriteFailed { error, unknown: false });
        }
        let mut part = std::mem::replace(&mut self.part, Part::new(SYSTEM_SHARD, SYSTEM_EPOCH));
        part.sets_control = true;
        if self.catalog.observed.is_some() {
            self.state.require_as_seen(&mut part);
        }
        let mut parts = vec![part];
        parts.append(&mut self.shards);
        let shards = parts.iter().map(|part| part.shard).collect();
        let commit = Commit::new(parts);
        let id = commit.id;
        match self.catalog.store.commit(commit) {
            Ok(committed) => {
                let lsn = committed.lsns.first().copied().unwrap_or_default();
                (self.state.shows, self.state.head_version) = (lsn, Some(lsn));
                Ok(committed)
            }
            Err(error @ StorageError::Unknown(_)) => {
                let state = self.state.clone();
                *self.guard = Some(Unresolved { commit: id, shards, state });
                Err(WriteFailed { error, unknown: true })
            }
            Err(error) => Err(WriteFailed { error, unknown: false }),
        }
    }

    /// Makes a durable change visible.
    pub(crate) fn publish(self) {
        self.catalog.show(self.state);
    }

    /// Numbers for shards that the change makes. On a shared store they are taken at once: a shard is made
    /// before the commit, and another process must not make the same.
    pub(crate) fn shard_numbers(&mut self, count: u32) -> Result<u32> {
        match self.catalog.observed {
            Some(_) => self.catalog.reserve_numbers("shard", count),
            None => self.next_numbers("shard", count),
        }
    }
}

impl State {
    /// Reads the catalog. What `before` has in memory beside the records is kept.
    fn load(snapshot: &dyn Snapshot, before: Option<&Self>) -> Result<Self> {
        let head = snapshot.get(Space::Meta, &key::catalog_head()).map_err(storage)?;
        let mut state = Self {
            roles: Arc::new(RoleTable::load(snapshot)?),
            shows: snapshot.lsn(),
            head_version: head.map(|head| head.version),
            ..Self::default()
        };
        for record in records::list_in(snapshot, RecordKind::Database, 0)? {
            let mut database = Database::from_record(&record)?;
            let known = before.and_then(|before| before.databases.get(&database.number));
            let parent = u64::from(database.number);
            for record in records::list_in(snapshot, RecordKind::Container, parent)? {
                let container = Container::from_record(&database, &record)?;
                let rid = Address::Rid(container.rid());
                match known.and_then(|known| known.container(&rid)) {
                    Some(known) => database.insert_shared(container.going_on_from(known)),
                    None => database.insert(container),
                }
            }
            if let Some(record) = records::list_in(snapshot, RecordKind::Model, parent)?.first() {
                let model = StoredModel::from_record(&database, record)?;
                database.model = Some(Arc::new(model));
            }
            state.insert(database);
        }
        Ok(state)
    }

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
