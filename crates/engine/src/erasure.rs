//! Deleting everything that has a partition key. The request is answered when an *erasure* is
//! written down: it names the key and the LSN of that moment, and hides every item of the key that
//! was written up to then, at once. The background thread removes them, with everything beside them,
//! and then the erasure. It stands in the shard itself, so a restart forgets nothing.

use arc_swap::ArcSwap;
use orrery_storage::key::{self, Bounds};
use orrery_storage::record::Header;
use orrery_storage::{
    Check, Commit, Entry, Expect, Part, Put, ReadAt, Scan, Snapshot, Space, StorageError,
};
use orrery_types::{Error, Lsn, PartitionKey, Result, limits};

use crate::change::{Becomes, Before, Slot, part};
use crate::gate::Passage;
use crate::item_index::{Indexer, Numbers};
use crate::items::{Located, Place, complete_key};
use crate::partition::PhysicalPartition;
use crate::storage_error::storage;
use crate::{Container, Engine};

/// A key whose items are deleted, as far as they were written up to an LSN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Erasure {
    partition_key: PartitionKey,
    /// What the keys of its items start with.
    prefix: Vec<u8>,
    up_to: Lsn,
    /// When its items were all removed.
    done_s: Option<u64>,
}

/// The erasures of a container that are not done; shared by all its pictures, since a request that
/// began before one must see it too.
#[derive(Debug, Default)]
pub(crate) struct Erasures(ArcSwap<Vec<Erasure>>);

/// The erasures that are not done at one moment.
pub(crate) type Pending = std::sync::Arc<Vec<Erasure>>;

impl Erasures {
    /// Whether an item with this key and version is deleted.
    pub(crate) fn hide(&self, item_key: &[u8], version: Lsn) -> bool {
        Self::hide_in(&self.0.load(), item_key, version)
    }

    /// The same by the erasures of an earlier moment, for who reads a snapshot of that moment.
    pub(crate) fn hide_in(pending: &Pending, item_key: &[u8], version: Lsn) -> bool {
        pending.iter().any(|e| version <= e.up_to && item_key.starts_with(&e.prefix))
    }

    /// The erasures of this moment.
    pub(crate) fn pending(&self) -> Pending {
        self.0.load_full()
    }

    fn insert(&self, erasure: &Erasure) {
        self.0.rcu(|all| {
            let mut all: Vec<Erasure> = (**all).clone();
            all.retain(|e| e.prefix != erasure.prefix);
            all.push(erasure.clone());
            all
        });
    }

    /// Marks an erasure as done, unless a later one took its place. It goes on hiding what it hid
    /// for a while: a read that began before the items were removed still has them before it.
    fn mark_done(&self, done: &Erasure, now_s: u64) {
        self.0.rcu(|all| {
            let mut all: Vec<Erasure> = (**all).clone();
            for erasure in all.iter_mut().filter(|e| *e == done) {
                erasure.done_s = Some(now_s);
            }
            all
        });
    }

    /// Forgets what was done so long ago that no read can have begun before.
    fn forget(&self, now_s: u64) {
        let kept =
            |e: &&Erasure| e.done_s.is_none_or(|done_s| done_s + limits::ERASURE_KEPT_S > now_s);
        if !self.0.load().iter().all(|e| kept(&e)) {
            self.0.rcu(|all| all.iter().filter(kept).cloned().collect::<Vec<_>>());
        }
    }

    fn undone(&self) -> usize {
        self.0.load().iter().filter(|e| e.done_s.is_none()).count()
    }
}

impl Engine {
    /// Whether an item is stored and not to be seen: its time is over, or its key was erased.
    pub(crate) fn is_hidden(
        &self,
        container: &Container,
        item_key: &[u8],
        version: Lsn,
        header: &Header,
    ) -> bool {
        self.is_expired(container, header) || container.erasures.hide(item_key, version)
    }

    /// Deletes all items of a partition key. They are gone when it returns; the space they take is
    /// freed in the background.
    pub fn erase_partition_key(
        &self,
        container: &Container,
        partition_key: &PartitionKey,
    ) -> Result<Place> {
        self.with_current(container, &mut |now| self.erase_under(now, partition_key))
    }

    /// The same under one definition.
    fn erase_under(&self, container: &Container, partition_key: &PartitionKey) -> Result<Place> {
        let partition_key = complete_key(container, partition_key)?;
        let effective = container.definition.partition_key.effective(&partition_key);
        let partition = container.partition_of(&effective)?;
        if container.erasures.undone() >= limits::ERASURES_PENDING_MAX {
            return Err(Error::RateLimited { retry_after_ms: 1000 });
        }
        // Nobody writes to the logical partition meanwhile, so that all its items are either of
        // before or of after.
        let _pass = partition.gates.of(&partition_key.to_canonical()).pass(Passage::Alone);
        let prefix = key::items_of(&effective, &partition_key).from;
        if self.is_modelled(container) {
            // What follows from the end of each of them belongs to the same commit.
            return self.erase_modelled(container, partition, &partition_key);
        }
        let up_to = self.shard_lsn(partition)?;
        let erasure = Erasure { partition_key, prefix, up_to, done_s: None };
        let mut part = Part::new(partition.shard, partition.epoch);
        let (key, value) = (key::erasure(&erasure.prefix), erasure.to_bytes());
        part.puts.push(Put { space: Space::Meta, key, value });
        let committed = self.store.commit(Commit { parts: vec![part] }).map_err(storage)?;
        container.erasures.insert(&erasure);
        let lsn = committed.lsns.first().copied().unwrap_or_default();
        Ok(Place { partition: partition.id, lsn, item_lsn: lsn })
    }

    /// Reads the erasures that an earlier process has not done.
    pub(crate) fn load_erasures(&self, container: &Container) -> Result<()> {
        for partition in &container.partitions {
            let snapshot = self.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
            let mut bounds = key::erasures();
            loop {
                let entries = read(&*snapshot, Space::Meta, &bounds)?;
                for entry in &entries {
                    let erasure = Erasure::from_entry(&entry.key, &entry.value.bytes);
                    container.erasures.insert(&erasure.ok_or_else(corrupt)?);
                }
                let Some(last) = entries.last() else { break };
                bounds = bounds.after(&last.key);
            }
        }
        Ok(())
    }

    /// Removes the items of all erasures.
    pub(crate) fn run_erasures(&self, stop: &dyn Fn() -> bool) -> Result<()> {
        for container in self.catalog.state().containers() {
            container.erasures.forget(self.clock.now_s());
            for erasure in container.erasures.0.load_full().iter().filter(|e| e.done_s.is_none()) {
                match self.run_erasure(container, erasure, stop) {
                    // The container was deleted meanwhile.
                    Err(Error::PartitionGone) => break,
                    other => other?,
                }
            }
        }
        Ok(())
    }

    fn run_erasure(
        &self,
        container: &Container,
        erasure: &Erasure,
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        let effective = container.definition.partition_key.effective(&erasure.partition_key);
        let partition = container.partition_of(&effective)?;
        let mut bounds = Bounds::prefix(erasure.prefix.clone());
        let mut postponed = false;
        loop {
            if stop() {
                return Ok(());
            }
            let snapshot = self.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
            let entries = read(&*snapshot, Space::Items, &bounds)?;
            drop(snapshot);
            let Some(last) = entries.last() else { break };
            bounds = bounds.after(&last.key);
            let erased = |e: &Entry| e.value.version <= erasure.up_to;
            let slot = |entry: Entry| {
                let partition_key = erasure.partition_key.clone();
                let at = Located { partition, partition_key, key: entry.key };
                let before = Some(Before::read(entry.value)?);
                Ok(Slot { at, before, outcome: Becomes::Gone })
            };
            let slots = entries.into_iter().filter(erased).map(slot);
            let slots = slots.collect::<Result<Vec<_>>>()?;
            if self.is_modelled(container) {
                // With all that follows; what the model forbids stays, hidden, for now.
                let _still = self.models.read();
                for slot in &slots {
                    postponed |= !self.purge_modelled(container, &slot.at)?;
                }
            } else {
                self.remove(container, partition, &slots)?;
            }
        }
        if postponed {
            return Ok(());
        }
        self.finish_erasure(container, partition, erasure)
    }

    /// Removes items in one commit, or one by one if it is too large or somebody wrote to one of
    /// them: what was written since is not erased.
    fn remove(
        &self,
        container: &Container,
        partition: &PhysicalPartition,
        slots: &[Slot<'_>],
    ) -> Result<()> {
        if slots.is_empty() {
            return Ok(());
        }
        let indexer =
            Indexer { store: &*self.store, container, partition, numbers: Numbers::Given };
        let (part, _) = part(self, &indexer, &slots.iter().collect::<Vec<_>>())?;
        match self.store.commit(Commit { parts: vec![part] }) {
            Err(StorageError::Conflict { .. } | StorageError::TooLarge) if slots.len() > 1 => {
                slots.chunks(1).try_for_each(|one| self.remove(container, partition, one))
            }
            Ok(_) | Err(StorageError::Conflict { .. }) => Ok(()),
            Err(error) => Err(storage(error)),
        }
    }

    /// Takes back an erasure whose items are gone, unless a later one took its place.
    fn finish_erasure(
        &self,
        container: &Container,
        partition: &PhysicalPartition,
        erasure: &Erasure,
    ) -> Result<()> {
        let key = key::erasure(&erasure.prefix);
        let (_, stored) = self.store.get(partition.shard, Space::Meta, &key).map_err(storage)?;
        if let Some(stored) = stored.filter(|s| s.bytes == erasure.to_bytes()) {
            let mut part = Part::new(partition.shard, partition.epoch);
            let expect = Expect::Version(stored.version);
            part.checks.push(Check::Key { space: Space::Meta, key: key.clone(), expect });
            part.deletes.push((Space::Meta, key));
            match self.store.commit(Commit { parts: vec![part] }) {
                Ok(_) => {}
                Err(StorageError::Conflict { .. }) => return Ok(()),
                Err(error) => return Err(storage(error)),
            }
        }
        container.erasures.mark_done(erasure, self.clock.now_s());
        Ok(())
    }
}

impl Erasure {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.up_to.0.to_be_bytes().to_vec();
        bytes.extend_from_slice(self.partition_key.to_header().as_bytes());
        bytes
    }

    fn from_entry(key: &[u8], value: &[u8]) -> Option<Self> {
        let prefix = key::parse_erasure(key)?.to_vec();
        let (up_to, header) = value.split_first_chunk::<8>()?;
        let partition_key = PartitionKey::parse_header(std::str::from_utf8(header).ok()?).ok()?;
        let up_to = Lsn(u64::from_be_bytes(*up_to));
        Some(Self { partition_key, prefix, up_to, done_s: None })
    }
}

fn read(snapshot: &dyn Snapshot, space: Space, bounds: &Bounds) -> Result<Vec<Entry>> {
    let scan = Scan {
        space,
        from: &bounds.from,
        to: &bounds.to,
        reverse: false,
        max_rows: limits::SWEEP_ITEMS_MAX,
        max_bytes: limits::PAGE_SIZE_BYTES_MAX,
        keys_only: false,
    };
    snapshot.scan(&scan).map_err(storage)
}

fn corrupt() -> Error {
    Error::internal("an erasure is corrupt")
}
