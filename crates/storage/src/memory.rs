//! The reference engine: ordered maps in memory. Tests run on it, and so does a server that keeps
//! nothing. A snapshot shares the maps; a commit copies the parts it touches of those that a
//! snapshot holds.

use std::array;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use orrery_types::{Clock, Epoch, Lsn, ShardId};

use crate::commit_log::CommitLog;
use crate::journal::{Copied, Journal};
use crate::persistent_map::PersistentMap;
use crate::shard_head::ShardHead;
use crate::store::SHARD_RESERVED;
use crate::{
    Commit, CommitId, Committed, Entry, FailedPrecondition, Head, KeyCursor, Part, Precondition,
    ReadAt, Resolution, Scan, ShardState, ShardStats, Snapshot, Space, StorageError, Store, Value,
};

type Map = PersistentMap<Stored>;
type Shards = BTreeMap<ShardId, Shard>;

#[derive(Clone, Debug)]
struct Stored {
    version: Lsn,
    bytes: Bytes,
}

#[derive(Clone, Debug)]
struct Shard {
    maps: [Map; Space::ALL.len()],
    /// Bytes of keys and values in each map.
    sizes: [usize; Space::ALL.len()],
    head: Arc<ShardHead>,
}

/// A store that lives as long as the process.
#[derive(Default)]
pub struct MemoryStore {
    shards: RwLock<Shards>,
    /// Locked after the shards.
    log: Mutex<CommitLog>,
    is_shared: bool,
    clock: Option<Arc<dyn Clock>>,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("shards", &self.shards).finish_non_exhaustive()
    }
}

/// Everything a [`MemoryStore`] held at one instant.
#[derive(Debug, Default)]
pub struct MemoryImage(Shards);

impl MemoryStore {
    /// A store without shards.
    pub fn new() -> Self {
        Self::default()
    }

    /// A store that stands for one of several processes: every engine over it takes the others for nodes of
    /// their own.
    pub fn shared() -> Self {
        Self { is_shared: true, ..Self::default() }
    }

    /// The same with a clock of its own, by which all of them go.
    pub fn shared_with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..Self::shared() }
    }

    /// What the store holds now, to go back to later; shares the maps.
    pub fn image(&self) -> MemoryImage {
        MemoryImage(self.read().iter().map(|(id, shard)| (*id, shard.fork())).collect())
    }

    /// Goes back to an image: what was written since is gone, as after a loss of power.
    pub fn restore(&self, image: &MemoryImage) {
        let restored = image.0.iter().map(|(id, shard)| (*id, shard.fork())).collect();
        let mut shards = self.write();
        let old = std::mem::replace(&mut *shards, restored);
        // What was committed since the image is lost, so nobody can tell any more.
        *self.log() = CommitLog::default();
        drop(shards);
        for shard in old.values() {
            shard.head.end();
        }
    }

    // A lock is poisoned only by a broken invariant in another thread, and no commit changes
    // anything before its last precondition, so what the lock guards is whole.
    fn read(&self) -> RwLockReadGuard<'_, Shards> {
        self.shards.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Shards> {
        self.shards.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, CommitLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn head(&self, shard: ShardId) -> Result<Arc<ShardHead>, StorageError> {
        Ok(self.read().get(&shard).ok_or(NO_SHARD)?.head.clone())
    }
}

const NO_SHARD: StorageError = StorageError::Gone { epoch: None };

impl Shard {
    fn new(epoch: Epoch) -> Self {
        let head = Arc::new(ShardHead::new(epoch, Lsn(0), ShardState::Building));
        Self { maps: array::from_fn(|_| Map::default()), sizes: [0; Space::ALL.len()], head }
    }

    /// The same content with a head of its own, as after opening the store again.
    fn fork(&self) -> Self {
        let state = self.head.state().recovered();
        let head = ShardHead::new(self.head.epoch(), self.head.lsn(), state);
        Self { maps: self.maps.clone(), sizes: self.sizes, head: Arc::new(head) }
    }

    fn map(&self, space: Space) -> &Map {
        &self.maps[space as usize]
    }

    fn map_mut(&mut self, space: Space) -> &mut Map {
        &mut self.maps[space as usize]
    }

    fn get(&self, space: Space, key: &[u8]) -> Option<Value> {
        let stored = self.map(space).get(key)?;
        Some(Value { version: stored.version, bytes: stored.bytes.clone() })
    }

    fn put(&mut self, space: Space, key: &[u8], value: &[u8], lsn: Lsn) {
        let version = if space.is_versioned() { lsn } else { Lsn(0) };
        let stored = Stored { version, bytes: Bytes::copy_from_slice(value) };
        self.sizes[space as usize] += key.len() + value.len();
        if let Some(old) = self.map_mut(space).insert(key, stored) {
            self.sizes[space as usize] -= key.len() + old.bytes.len();
        }
    }

    fn delete(&mut self, space: Space, key: &[u8]) {
        if let Some(old) = self.map_mut(space).remove(key) {
            self.sizes[space as usize] -= key.len() + old.bytes.len();
        }
    }

    fn holds(&self, precondition: &Precondition) -> bool {
        let version = |space, key: &[u8]| self.map(space).get(key).map(|stored| stored.version);
        match precondition {
            Precondition::Absent { space, key } => version(*space, key).is_none(),
            Precondition::Version { space, key, lsn } => version(*space, key) == Some(*lsn),
            Precondition::StripeUnchanged { stripe, since } => self.head.stripe(*stripe) <= *since,
        }
    }

    fn apply(&mut self, part: &Part) -> Lsn {
        if part.only_validates() {
            return self.head.lsn();
        }
        let lsn = part.next_lsn(self.head.lsn());
        if part.takes_lsn() {
            self.head.touch(&part.stripes, lsn);
        }
        for (space, key) in &part.deletes {
            self.delete(*space, key);
        }
        for put in &part.puts {
            self.put(put.space, &put.key, &put.value, lsn);
        }
        for (key, entry) in part.numbered(lsn) {
            self.put(Space::Feed, &key, entry, lsn);
        }
        self.head.record(part, lsn);
        if part.sets_control {
            self.head.set_control(lsn);
        }
        if let Some(change) = &part.head {
            self.head.change(change);
        }
        self.head.raise(lsn);
        lsn
    }

    fn scan(&self, scan: &Scan<'_>) -> Vec<Entry> {
        let range = self.map(scan.space).range(scan.from, scan.to);
        if scan.reverse { collect(range.rev(), scan) } else { collect(range, scan) }
    }
}

fn collect<'m>(range: impl Iterator<Item = (&'m [u8], &'m Stored)>, scan: &Scan<'_>) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut size_bytes = 0;
    for (key, stored) in range {
        let bytes = if scan.keys_only { Bytes::new() } else { stored.bytes.clone() };
        size_bytes += key.len() + bytes.len();
        let value = Value { version: stored.version, bytes };
        entries.push(Entry { key: key.to_vec(), value });
        if entries.len() >= scan.max_rows || size_bytes >= scan.max_bytes {
            break;
        }
    }
    entries
}

struct MemorySnapshot {
    shard: Shard,
    head: Head,
}

impl Snapshot for MemorySnapshot {
    fn head(&self) -> Head {
        self.head
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>, StorageError> {
        Ok(self.shard.get(space, key))
    }

    fn get_many(&self, space: Space, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, StorageError> {
        Ok(keys.iter().map(|key| self.shard.get(space, key)).collect())
    }

    fn scan(&self, scan: &Scan<'_>) -> Result<Vec<Entry>, StorageError> {
        Ok(self.shard.scan(scan))
    }

    fn keys(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
    ) -> Result<Box<dyn KeyCursor + '_>, StorageError> {
        let mut keys = MemoryKeys { shard: &self.shard, space, to: to.to_vec(), at: None };
        keys.seek(from)?;
        Ok(Box::new(keys))
    }

    /// Exact.
    fn estimate(&self, space: Space, from: &[u8], to: &[u8]) -> Result<u64, StorageError> {
        Ok(self.shard.map(space).range(from, to).count() as u64)
    }

    fn estimate_beyond(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
        _: u64,
    ) -> Result<u64, StorageError> {
        self.estimate(space, from, to)
    }
}

struct MemoryKeys<'s> {
    shard: &'s Shard,
    space: Space,
    to: Vec<u8>,
    at: Option<Vec<u8>>,
}

impl KeyCursor for MemoryKeys<'_> {
    fn key(&self) -> Option<&[u8]> {
        self.at.as_deref()
    }

    fn value(&self) -> Option<&[u8]> {
        let stored = self.shard.map(self.space).get(self.at.as_deref()?)?;
        Some(&stored.bytes)
    }

    fn next(&mut self) -> Result<(), StorageError> {
        match self.at.take() {
            Some(at) => self.seek(&[&at[..], &[0]].concat()),
            None => Ok(()),
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<(), StorageError> {
        self.at =
            self.shard.map(self.space).range(key, &self.to).next().map(|(key, _)| key.to_vec());
        Ok(())
    }
}

impl Store for MemoryStore {
    fn snapshot(&self, shard: ShardId, at: ReadAt) -> Result<Box<dyn Snapshot + '_>, StorageError> {
        let shards = self.read();
        let shard = shards.get(&shard).ok_or(NO_SHARD)?.clone();
        let head = shard.head.head();
        match at {
            ReadAt::AtLeast(least) if head.lsn < least => Err(StorageError::Behind(head.lsn)),
            _ => Ok(Box::new(MemorySnapshot { shard, head })),
        }
    }

    fn snapshots(&self, shards: &[ShardId]) -> Result<Vec<Box<dyn Snapshot + '_>>, StorageError> {
        let all = self.read();
        let view = |shard: &ShardId| -> Result<Box<dyn Snapshot + '_>, StorageError> {
            let shard = all.get(shard).ok_or(NO_SHARD)?.clone();
            let head = shard.head.head();
            Ok(Box::new(MemorySnapshot { shard, head }))
        };
        shards.iter().map(view).collect()
    }

    fn get(
        &self,
        shard: ShardId,
        space: Space,
        key: &[u8],
    ) -> Result<(Head, Option<Value>), StorageError> {
        let shards = self.read();
        let shard = shards.get(&shard).ok_or(NO_SHARD)?;
        Ok((shard.head.head(), shard.get(space, key)))
    }

    fn commit_once(&self, commit: Commit) -> Result<Committed, StorageError> {
        commit.validate()?;
        let mut shards = self.write();
        if self.log().is_refused(commit.id) {
            return Err(StorageError::refused(commit.id));
        }
        for part in &commit.parts {
            let shard = shards.get(&part.shard).ok_or(NO_SHARD)?;
            shard.head.takes(part)?;
            if let Some(failed) = part.preconditions.iter().find(|p| !shard.holds(p)) {
                return Err(FailedPrecondition::in_shard(part.shard, failed));
            }
        }
        let mut lsns = Vec::with_capacity(commit.parts.len());
        for part in &commit.parts {
            let shard =
                shards.get_mut(&part.shard).expect("the shard was looked up to validate the part");
            lsns.push(shard.apply(part));
        }
        self.log().record(commit.id, &lsns);
        Ok(Committed { lsns })
    }

    fn resolve(&self, _: &[ShardId], id: CommitId) -> Result<Resolution, StorageError> {
        // No commit is in progress while the shards can be read.
        let _shards = self.read();
        Ok(self.log().resolve(id))
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn now_us(&self) -> Result<Option<u64>, StorageError> {
        Ok(self.clock.as_ref().map(|clock| clock.now_us()))
    }

    fn heads(&self, shards: &[ShardId]) -> Result<Vec<Option<Head>>, StorageError> {
        let all = self.read();
        Ok(shards.iter().map(|shard| all.get(shard).map(|shard| shard.head.head())).collect())
    }

    fn lsn(&self, shard: ShardId) -> Result<Lsn, StorageError> {
        Ok(self.read().get(&shard).ok_or(NO_SHARD)?.head.lsn())
    }

    fn watch(&self, shard: ShardId, after: Lsn, timeout_ms: u64) -> Result<Lsn, StorageError> {
        self.head(shard)?.watch(after, timeout_ms)
    }

    fn create_shard(&self, shard: ShardId, epoch: Epoch) -> Result<(), StorageError> {
        assert!(shard != SHARD_RESERVED, "the last shard number is reserved");
        let mut shards = self.write();
        let existing = shards.entry(shard).or_insert_with(|| Shard::new(epoch)).head.epoch();
        if existing == epoch { Ok(()) } else { Err(StorageError::Gone { epoch: Some(existing) }) }
    }

    fn drop_shard(&self, shard: ShardId) -> Result<(), StorageError> {
        let mut shards = self.write();
        if let Some(known) = shards.get(&shard) {
            known.head.may_be_dropped()?;
        }
        if let Some(dropped) = shards.remove(&shard) {
            dropped.head.end();
        }
        Ok(())
    }

    fn shards(&self) -> Result<Vec<(ShardId, Head)>, StorageError> {
        Ok(self.read().iter().map(|(id, shard)| (*id, shard.head.head())).collect())
    }

    fn journal(&self, shard: ShardId, bytes_max: usize) -> Result<Arc<dyn Journal>, StorageError> {
        // No commit is half done while the shards can be read.
        let shards = self.read();
        let head = &shards.get(&shard).ok_or(NO_SHARD)?.head;
        head.begin_journal(bytes_max).map(|journal| journal as _).ok_or(StorageError::JournalInUse)
    }

    fn copy_into(&self, shard: ShardId, entries: &[Copied]) -> Result<(), StorageError> {
        let mut shards = self.write();
        let shard = shards.get_mut(&shard).ok_or(NO_SHARD)?;
        shard.head.takes_copies()?;
        for Copied { space, key, value } in entries {
            match value {
                Some(value) => shard.put(*space, key, &value.bytes, value.version),
                None => shard.delete(*space, key),
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn stats(&self, shard: ShardId) -> Result<ShardStats, StorageError> {
        let shards = self.read();
        let shard = shards.get(&shard).ok_or(NO_SHARD)?;
        let size_bytes = |space| shard.sizes[space as usize] as u64;
        Ok(ShardStats {
            lsn: shard.head.lsn(),
            items_bytes: size_bytes(Space::Items),
            index_bytes: size_bytes(Space::Index),
        })
    }
}
