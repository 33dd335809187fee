//! Deletion of all items with a partition key. The request is answered once an *erasure* record is durable: it
//! contains the key and the current LSN, and makes every item of the key up to that LSN invisible. The
//! background thread then removes the items with everything derived from them, and finally the record, which
//! is stored in the shard and survives a restart.
//!
//! Version 0.1 also took the first values of a hierarchical key, and wrote an erasure for the keys
//! under them into each shard. Such an erasure is still read and finished.

use arc_swap::ArcSwap;
use orrery_storage::key::{self, Bounds};
use orrery_storage::{
    Commit, Entry, Part, Precondition, Put, ReadAt, Snapshot, Space, StorageError,
};
use orrery_types::{EffectiveKey, Error, KeyRange, Lsn, PartitionKey, Result, ShardId, limits};

use crate::background::units::{UnitFailure, UnitKey, UnitKind};
use crate::background::{BATCHES_PER_STEP, BackgroundPass, UnitCursor, UnitProgress};
use crate::error::storage;
use crate::item::address::{ItemKey, complete_key};
use crate::item::image::BeforeImage;
use crate::item::read::CommitPosition;
use crate::maintain::index_terms::{Indexer, PathIdAllocation};
use crate::model::Purged;
use crate::partition::PhysicalPartition;
use crate::transaction::commit::item_part;
use crate::transaction::locks::{LockGuard, LockMode, stripe_of};
use crate::transaction::retry::{self, Attempt};
use crate::transaction::write_buffer::ItemEntry;
use crate::{Container, Engine};

/// A key whose items are deleted, as far as they were written up to an LSN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Erasure {
    partition_key: PartitionKey,
    /// What it is stored under.
    name: Vec<u8>,
    /// What the keys of its items start with.
    prefix: Vec<u8>,
    /// Of a prefix of a key: the keys of the shard under it.
    part: Option<KeyRange>,
    up_to: Lsn,
    /// The shard that it is stored in, and the commit that stored it.
    stored: (ShardId, Lsn),
    /// When its items were all removed.
    done_s: Option<u64>,
}

/// The pending erasures of a container; shared by all its catalog snapshots, since a request that started
/// before an erasure must see it too.
#[derive(Debug, Default)]
pub(crate) struct Erasures(ArcSwap<Vec<Erasure>>);

/// The erasures that are pending at one instant.
pub(crate) type Pending = std::sync::Arc<Vec<Erasure>>;

impl Erasure {
    fn of_key(
        container: &Container,
        partition_key: PartitionKey,
        up_to: Lsn,
        stored: (ShardId, Lsn),
    ) -> Self {
        let effective = container.definition.partition_key.effective(&partition_key);
        let prefix = key::items_of(&effective, &partition_key).from;
        let (name, done_s) = (prefix.clone(), None);
        Self { partition_key, name, prefix, part: None, up_to, stored, done_s }
    }

    fn of_prefix(
        container: &Container,
        partition_key: PartitionKey,
        part: KeyRange,
        up_to: Lsn,
        stored: (ShardId, Lsn),
    ) -> Self {
        let prefix =
            key::items_in(&container.definition.partition_key.range_of(&partition_key)).from;
        let name = key::erasure_of_prefix(&prefix, &part.min, &partition_key);
        Self { partition_key, name, prefix, part: Some(part), up_to, stored, done_s: None }
    }

    /// Whether it is about an item, by the item's key. Hashes can be made to collide: under a prefix the
    /// values themselves are compared.
    fn names(&self, item_key: &[u8]) -> bool {
        let under = |part: &KeyRange| {
            key::parse_item(item_key).is_some_and(|item| {
                part.contains(&item.effective)
                    && item.partition.starts_with(&self.partition_key.to_canonical())
            })
        };
        item_key.starts_with(&self.prefix) && self.part.as_ref().is_none_or(under)
    }
}

impl Erasures {
    /// Whether an item with this key and version is deleted.
    pub(crate) fn hide(&self, item_key: &[u8], version: Lsn) -> bool {
        Self::hide_in(&self.0.load(), item_key, version)
    }

    /// The same by the erasures of an earlier moment, for who reads a snapshot of that moment.
    pub(crate) fn hide_in(pending: &Pending, item_key: &[u8], version: Lsn) -> bool {
        pending.iter().any(|e| version <= e.up_to && e.names(item_key))
    }

    /// The erasures of this moment.
    pub(crate) fn pending(&self) -> Pending {
        self.0.load_full()
    }

    fn insert(&self, erasure: &Erasure) {
        self.0.rcu(|all| {
            let mut all: Vec<Erasure> = (**all).clone();
            all.retain(|e| e.name != erasure.name);
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

    /// What a shard has stored takes the place of what was known of it. What it no longer has is done.
    fn replace_of(&self, shard: ShardId, stored: &[Erasure], now_s: u64) {
        self.0.rcu(|all| {
            let mut all: Vec<Erasure> = (**all).clone();
            all.retain(|e| !stored.iter().any(|newer| newer.name == e.name));
            for erasure in all.iter_mut().filter(|e| e.stored.0 == shard) {
                erasure.done_s = erasure.done_s.or(Some(now_s));
            }
            all.extend(stored.iter().cloned());
            all
        });
    }

    /// Puts them into the order in which a shard has stored them, which is that of every process.
    fn sort_by_commit(&self) {
        self.0.rcu(|all| {
            let mut all: Vec<Erasure> = (**all).clone();
            all.sort_by_key(|erasure| erasure.stored);
            all
        });
    }

    /// The commit that stored the erasure of a logical partition, by what the keys of its items start with;
    /// `None` if the shard has none. What was loaded of the parents of the shard says nothing of it.
    fn version_of(&self, shard: ShardId, prefix: &[u8]) -> Option<Lsn> {
        let all = self.0.load();
        let is_it = |e: &&Erasure| e.name == prefix && e.stored.0 == shard && e.done_s.is_none();
        let of_key = all.iter().find(is_it);
        of_key.map(|erasure| erasure.stored.1)
    }

    /// What holds as long as no other process erases a logical partition, or finishes an erasure of it.
    /// A commit that rests on a read of its items requires it, because an erasure writes to no item.
    pub(crate) fn precondition(&self, shard: ShardId, prefix: &[u8]) -> Precondition {
        Precondition::unchanged(Space::Meta, key::erasure(prefix), self.version_of(shard, prefix))
    }

    fn undone(&self) -> usize {
        self.0.load().iter().filter(|e| e.done_s.is_none()).count()
    }
}

/// Deletion of all items of a partition key.
#[derive(Clone, Copy)]
pub struct KeyErasure<'e> {
    pub(crate) engine: &'e Engine,
}

impl KeyErasure<'_> {
    /// Deletes all items of a partition key, which must be complete. They are gone when it returns;
    /// the space they take is freed in the background.
    pub fn erase_partition_key(
        self,
        container: &Container,
        partition_key: &PartitionKey,
    ) -> Result<Vec<CommitPosition>> {
        self.engine
            .epochs()
            .retry_on_stale_epoch(container, &mut |now| self.erase_under(now, partition_key))
    }

    /// The same under one definition.
    fn erase_under(
        self,
        container: &Container,
        partition_key: &PartitionKey,
    ) -> Result<Vec<CommitPosition>> {
        container.check_writable()?;
        // The service refuses the first values of a hierarchical key: 400 with sub-status 1001.
        let key = complete_key(container, partition_key)?;
        let range = container.definition.partition_key.range_of(&key);
        let reached = container.partitions.iter();
        let reached: Vec<_> =
            reached.filter_map(|p| Some((p, p.range.intersect(&range)?))).collect();
        if container.erasures.undone() + reached.len() > limits::ERASURES_PENDING_MAX {
            return Err(Error::RateLimited { retry_after_ms: 1000 });
        }
        // Nobody writes to the logical partition meanwhile, so that all its items are either of
        // before or of after.
        let close = |partition: &PhysicalPartition| {
            partition.locks.stripe(&key.to_canonical()).acquire(LockMode::Exclusive)
        };
        let _guards: Vec<LockGuard> = reached.iter().map(|(p, _)| close(p)).collect();
        // Under the locks: a model takes over while it holds them.
        if self.engine.models().is_modelled(container) {
            // What follows from the end of each of them belongs to the same commit.
            let (partition, _) = reached.first().ok_or(Error::PartitionGone)?;
            return Ok(vec![
                self.engine.expiry_sweep().erase_modelled(container, partition, &key)?,
            ]);
        }
        let committed = retry::run(|_| self.store_erasures(container, &key, &reached))?;
        let place = |((partition, _), lsn): (&(&PhysicalPartition, KeyRange), &Lsn)| {
            CommitPosition { partition: partition.id, lsn: *lsn, item_lsn: *lsn }
        };
        Ok(reached.iter().zip(&committed).map(place).collect())
    }

    /// Stores the erasure of a key in each shard, under the locks of its logical partition; returns the LSNs.
    fn store_erasures(
        self,
        container: &Container,
        partition_key: &PartitionKey,
        reached: &[(&PhysicalPartition, KeyRange)],
    ) -> Result<Attempt<Vec<Lsn>>> {
        let stripe = stripe_of(&partition_key.to_canonical());
        let (mut parts, mut erasures) = (vec![], vec![]);
        for (partition, _) in reached {
            let up_to = self.engine.sessions().shard_lsn(partition)?;
            let unstored = (partition.shard, Lsn(0));
            let erasure = Erasure::of_key(container, partition_key.clone(), up_to, unstored);
            let mut part = Part::new(partition.shard, partition.epoch);
            let (key, value) = (key::erasure(&erasure.name), erasure.to_bytes());
            part.puts.push(Put { space: Space::Meta, key, value });
            part.sets_control = true;
            if self.engine.is_shared() {
                // Other processes do not see the locks.
                part.stripes.push(stripe);
                part.preconditions.push(Precondition::StripeUnchanged { stripe, since: up_to });
            }
            parts.push(part);
            erasures.push(erasure);
        }
        match self.engine.store.commit(Commit::new(parts)) {
            Ok(committed) => {
                for (mut erasure, lsn) in erasures.into_iter().zip(&committed.lsns) {
                    erasure.stored.1 = *lsn;
                    container.erasures.insert(&erasure);
                }
                Ok(Attempt::Done(committed.lsns))
            }
            Err(StorageError::Conflict(_)) => {
                Ok(Attempt::Again("the logical partition was written to"))
            }
            Err(error) => Err(storage(error)),
        }
    }

    /// Reads the erasures that an earlier process has not done.
    pub(crate) fn load_erasures(self, container: &Container) -> Result<()> {
        container.partitions.iter().try_for_each(|p| self.load_erasures_of(container, p).map(drop))
    }

    /// The same of one shard; returns the LSN as of which they were read.
    fn load_erasures_of(self, container: &Container, partition: &PhysicalPartition) -> Result<Lsn> {
        let shard = partition.shard;
        let snapshot = self.engine.unchecked_store().snapshot(shard, ReadAt::Latest);
        let snapshot = snapshot.map_err(storage)?;
        let (mut bounds, mut stored) = (key::erasures(), vec![]);
        loop {
            let entries = read(&*snapshot, Space::Meta, &bounds)?;
            for entry in &entries {
                stored.push(Erasure::from_entry(container, shard, entry).ok_or_else(corrupt)?);
            }
            let Some(last) = entries.last() else { break };
            bounds = bounds.after(&last.key);
        }
        container.erasures.replace_of(shard, &stored, self.engine.clock.now_s());
        Ok(snapshot.lsn())
    }

    /// Reads the erasures of a container again that other processes have stored or finished.
    pub(crate) fn load_changed(self, container: &Container) -> Result<()> {
        let Some(observed) = &self.engine.observed else { return Ok(()) };
        let shards: Vec<ShardId> = container.partitions.iter().map(|p| p.shard).collect();
        for shard in observed.with_other_erasures(&shards).map_err(storage)? {
            match self.load_erasures_of(container, container.partition_with(shard)?) {
                Ok(lsn) => {
                    container.erasures.sort_by_commit();
                    observed.loaded_erasures(shard, lsn);
                }
                // The layout has changed meanwhile.
                Err(Error::PartitionGone) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The same for all containers, of the newest picture of the catalog.
    pub(crate) fn load_all_changed(self) -> Result<()> {
        if !self.engine.is_shared() {
            return Ok(());
        }
        self.engine.catalog.refresh()?;
        self.engine.catalog.state().containers().try_for_each(|c| self.load_changed(c))
    }

    /// Removes the items of all erasures, in turns.
    pub(crate) fn run_erasures(self, run: &mut BackgroundPass<'_>) {
        for container in self.engine.catalog.state().containers() {
            container.erasures.forget(self.engine.clock.now_s());
            for erasure in container.erasures.0.load_full().iter().filter(|e| e.done_s.is_none()) {
                let unit = UnitKey::of(container, UnitKind::Erasure, &erasure.name);
                self.engine.background().run_unit(run, &unit, erasure.up_to.0, &mut |run| {
                    self.run_erasure(container, erasure, run, &unit)
                });
            }
        }
    }

    /// A turn at one erasure.
    fn run_erasure(
        self,
        container: &Container,
        erasure: &Erasure,
        run: &mut BackgroundPass<'_>,
        unit: &UnitKey,
    ) -> std::result::Result<UnitProgress, UnitFailure> {
        self.load_changed(container)?;
        let definition = &container.definition.partition_key;
        let range = definition.range_of(&erasure.partition_key);
        let range = erasure.part.as_ref().unwrap_or(&range);
        for _ in 0..BATCHES_PER_STEP {
            if (run.stop)() {
                return Ok(UnitProgress::Unfinished);
            }
            let cursor = run.cursor(unit, container);
            let Some(partition) = container.partitions.get(cursor.range) else {
                // What the model forbids stays, hidden, for now.
                if let Some(failure) = cursor.left.take() {
                    return Err(failure);
                }
                container.erasures.mark_done(erasure, self.engine.clock.now_s());
                return Ok(UnitProgress::Done);
            };
            let Some(keys) = partition.range.intersect(range) else {
                cursor.next_range();
                continue;
            };
            if !self.erase_some(container, partition, &keys, erasure, cursor)? {
                continue;
            }
            let is_left = cursor.left.is_some();
            cursor.next_range();
            if !is_left && !self.take_back(partition, erasure)? {
                return Ok(UnitProgress::Done);
            }
            // Its own commit has changed the erasures of the shard.
            self.load_changed(container)?;
        }
        Ok(UnitProgress::Unfinished)
    }

    /// Removes the next items of an erasure from a partition; whether there are no more.
    fn erase_some(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        keys: &KeyRange,
        erasure: &Erasure,
        cursor: &mut UnitCursor,
    ) -> Result<bool> {
        let mut bounds = match erasure.part {
            Some(_) => key::items_in(keys),
            None => Bounds::prefix(erasure.prefix.clone()),
        };
        if let Some(last) = &cursor.last {
            bounds = bounds.after(last);
        }
        let snapshot =
            self.engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
        let entries = read(&*snapshot, Space::Items, &bounds)?;
        drop(snapshot);
        let Some(last) = entries.last() else { return Ok(true) };
        cursor.last = Some(last.key.clone());
        let erased = |e: &Entry| e.value.version <= erasure.up_to && erasure.names(&e.key);
        let slot = |entry: Entry| {
            let before = BeforeImage::read(entry.value)?;
            let partition_key = match erasure.part {
                Some(_) => container.definition.partition_key.extract(before.value()?),
                None => erasure.partition_key.clone(),
            };
            let at = ItemKey { partition, partition_key, key: entry.key };
            Ok(ItemEntry::removed(at, before))
        };
        let slots = entries.into_iter().filter(erased).map(slot);
        let slots = slots.collect::<Result<Vec<_>>>()?;
        {
            // No model takes over during the commit.
            let _schema = self.engine.model_locks.schema_shared();
            if !self.engine.models().is_modelled(container) {
                self.remove(container, partition, &slots)?;
                return Ok(false);
            }
        }
        for slot in &slots {
            let _schema = self.engine.model_locks.schema_shared();
            if let Purged::Refused(error) =
                self.engine.expiry_sweep().purge_modelled(container, &slot.at)?
            {
                cursor.left = Some(UnitFailure::of_item(error, container, &slot.at.key));
            }
        }
        Ok(false)
    }

    /// Removes items in one commit, or one by one if it is too large or somebody wrote to one of
    /// them: what was written since is not erased.
    fn remove(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        slots: &[ItemEntry<'_>],
    ) -> Result<()> {
        if slots.is_empty() {
            return Ok(());
        }
        let indexer = Indexer {
            store: &*self.engine.store,
            container,
            partition,
            path_ids: PathIdAllocation::Immediate,
        };
        let (part, _) = item_part(self.engine, &indexer, &slots.iter().collect::<Vec<_>>())?;
        match self.engine.store.commit(Commit::new(vec![part])) {
            Err(StorageError::Conflict(_) | StorageError::TooLarge) if slots.len() > 1 => {
                slots.chunks(1).try_for_each(|one| self.remove(container, partition, one))
            }
            Ok(_) | Err(StorageError::Conflict(_)) => Ok(()),
            Err(error) => Err(storage(error)),
        }
    }

    /// Takes an erasure whose items are gone back from a shard; false if a later one took its place.
    fn take_back(self, partition: &PhysicalPartition, erasure: &Erasure) -> Result<bool> {
        let key = key::erasure(&erasure.name);
        let (_, stored) =
            self.engine.store.get(partition.shard, Space::Meta, &key).map_err(storage)?;
        let Some(stored) = stored.filter(|s| s.bytes == erasure.to_bytes()) else {
            return Ok(true);
        };
        let mut part = Part::new(partition.shard, partition.epoch);
        let (space, lsn) = (Space::Meta, stored.version);
        part.preconditions.push(Precondition::Version { space, key: key.clone(), lsn });
        part.deletes.push((Space::Meta, key));
        part.sets_control = true;
        match self.engine.store.commit(Commit::new(vec![part])) {
            Ok(_) => Ok(true),
            Err(StorageError::Conflict(_)) => Ok(false),
            Err(error) => Err(storage(error)),
        }
    }
}

impl Erasure {
    /// LSN, then the key as a header spells it; of a prefix a zero byte and its part of the keys stand
    /// between them.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.up_to.0.to_be_bytes().to_vec();
        if let Some(part) = &self.part {
            bytes.push(0);
            for end in [&part.min, &part.max] {
                bytes.extend(u16::try_from(end.0.len()).unwrap_or(u16::MAX).to_be_bytes());
                bytes.extend_from_slice(&end.0);
            }
        }
        bytes.extend_from_slice(self.partition_key.to_header().as_bytes());
        bytes
    }

    fn from_entry(container: &Container, shard: ShardId, entry: &Entry) -> Option<Self> {
        let name = key::parse_erasure(&entry.key)?.to_vec();
        let (part, up_to, header) = parts_of(&entry.value.bytes)?;
        let stored = (shard, entry.value.version);
        let partition_key = PartitionKey::parse_header(std::str::from_utf8(header).ok()?).ok()?;
        if let Some(part) = part {
            return Some(Self::of_prefix(container, partition_key, part, up_to, stored));
        }
        let prefix = name.clone();
        Some(Self { partition_key, name, prefix, part: None, up_to, stored, done_s: None })
    }
}

fn parts_of(value: &[u8]) -> Option<(Option<KeyRange>, Lsn, &[u8])> {
    let (up_to, mut rest) = value.split_first_chunk::<8>()?;
    let up_to = Lsn(u64::from_be_bytes(*up_to));
    if rest.first() != Some(&0) {
        return Some((None, up_to, rest));
    }
    rest = &rest[1..];
    let mut end = || {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let (key, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        rest = after;
        Some(EffectiveKey(key.to_vec()))
    };
    let part = KeyRange { min: end()?, max: end()? };
    Some((Some(part), up_to, rest))
}

/// The keys that a stored erasure of a prefix is about; `None` if it is of one key.
pub(crate) fn keys_of_stored(value: &[u8]) -> Option<KeyRange> {
    parts_of(value)?.0
}

fn read(snapshot: &dyn Snapshot, space: Space, bounds: &Bounds) -> Result<Vec<Entry>> {
    let scan = bounds.scan(space, limits::SWEEP_ITEMS_MAX, limits::PAGE_SIZE_BYTES_MAX);
    snapshot.scan(&scan).map_err(storage)
}

fn corrupt() -> Error {
    Error::internal("an erasure is corrupt")
}
