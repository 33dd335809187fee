//! A shared store that refuses stale reads as every store refuses stale writes. Every read returns the head of
//! its shard. If that says that another process has changed what this one goes by, the definition of the
//! container (`epoch`), its layout (`state`) or its erasures (`control`), the read gets [`StorageError::Gone`]:
//! the request loads what has changed and runs again (`partition/epoch`).
//!
//! The check is against what the *process* has loaded. A request that began with an older picture of the catalog is
//! found out at its end: the picture is replaced before the shards are named here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use orrery_storage::{
    Commit, CommitId, Committed, Copied, EmbeddedStore, Head, Journal, OnCommitted, ReadAt,
    Resolution, ShardState, ShardStats, Snapshot, Space, StorageError, Store, Value,
};
use orrery_types::{Epoch, Lsn, ShardId};

type Stored<T> = std::result::Result<T, StorageError>;

/// What this process has loaded of a shard.
#[derive(Clone, Copy, Debug)]
struct LoadedShard {
    /// The epoch of the definition in the catalog's picture.
    epoch: Epoch,
    /// The commit up to which its erasures are loaded; `None` if they never were.
    control: Option<Lsn>,
}

impl LoadedShard {
    fn is_current(&self, head: &Head) -> bool {
        self.epoch == head.epoch && self.control.is_some_and(|control| control >= head.control)
    }
}

/// The wrapper, put in by `Engine::open` for a shared store.
pub(crate) struct ObservedStore {
    inner: Arc<dyn Store>,
    /// The shards that the picture of the catalog names. Others are not checked: nothing is kept of them.
    loaded: RwLock<HashMap<ShardId, LoadedShard>>,
    /// Rises with every change of `loaded`.
    generation: AtomicU64,
}

impl ObservedStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, loaded: RwLock::default(), generation: AtomicU64::new(0) }
    }

    /// The store itself, whose reads are never refused.
    pub(crate) fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    /// Changes whenever this process has loaded something.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// The shards that a new picture of the catalog names, with their epochs.
    pub(crate) fn name_shards(&self, shards: impl Iterator<Item = (ShardId, Epoch)>) {
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *loaded);
        *loaded = shards
            .map(|(shard, epoch)| {
                let control = before.get(&shard).and_then(|known| known.control);
                (shard, LoadedShard { epoch, control })
            })
            .collect();
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// The erasures of a shard were loaded from a snapshot that shows this commit.
    pub(crate) fn loaded_erasures(&self, shard: ShardId, control: Lsn) {
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = loaded.get_mut(&shard) {
            known.control = known.control.max(Some(control));
        }
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Those shards whose erasures have changed since they were loaded.
    pub(crate) fn with_other_erasures(&self, shards: &[ShardId]) -> Stored<Vec<ShardId>> {
        let heads = self.inner.heads(shards)?;
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        let is_behind = |(shard, head): &(&ShardId, Option<Head>)| {
            let control = loaded.get(shard).and_then(|known| known.control);
            head.as_ref().is_some_and(|head| control.is_none_or(|control| control < head.control))
        };
        Ok(shards.iter().zip(heads).filter(is_behind).map(|(shard, _)| *shard).collect())
    }

    fn check(&self, shard: ShardId, head: &Head) -> Stored<()> {
        let is_known = head.state != ShardState::Dropped && {
            let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
            loaded.get(&shard).is_none_or(|known| known.is_current(head))
        };
        if is_known { Ok(()) } else { Err(StorageError::Gone { epoch: Some(head.epoch) }) }
    }
}

impl Store for ObservedStore {
    fn snapshot(&self, shard: ShardId, at: ReadAt) -> Stored<Box<dyn Snapshot + '_>> {
        let snapshot = self.inner.snapshot(shard, at)?;
        self.check(shard, &snapshot.head())?;
        Ok(snapshot)
    }

    fn snapshots(&self, shards: &[ShardId]) -> Stored<Vec<Box<dyn Snapshot + '_>>> {
        let snapshots = self.inner.snapshots(shards)?;
        for (shard, snapshot) in shards.iter().zip(&snapshots) {
            self.check(*shard, &snapshot.head())?;
        }
        Ok(snapshots)
    }

    fn get(&self, shard: ShardId, space: Space, key: &[u8]) -> Stored<(Head, Option<Value>)> {
        let (head, value) = self.inner.get(shard, space, key)?;
        self.check(shard, &head)?;
        Ok((head, value))
    }

    fn commit(&self, commit: Commit) -> Stored<Committed> {
        self.inner.commit(commit)
    }

    fn commit_once(&self, commit: Commit) -> Stored<Committed> {
        self.inner.commit_once(commit)
    }

    fn resolve(&self, shards: &[ShardId], id: CommitId) -> Stored<Resolution> {
        self.inner.resolve(shards, id)
    }

    fn try_commit(&self, commit: Commit) -> Result<Stored<Committed>, Commit> {
        self.inner.try_commit(commit)
    }

    fn submit(&self, commit: Commit, done: OnCommitted) {
        self.inner.submit(commit, done);
    }

    fn reads_inline(&self) -> bool {
        self.inner.reads_inline()
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn now_us(&self) -> Stored<Option<u64>> {
        self.inner.now_us()
    }

    fn writable(&self) -> Stored<()> {
        self.inner.writable()
    }

    fn heads(&self, shards: &[ShardId]) -> Stored<Vec<Option<Head>>> {
        self.inner.heads(shards)
    }

    fn lsn(&self, shard: ShardId) -> Stored<Lsn> {
        let head = self.inner.heads(&[shard])?.into_iter().next().flatten();
        let head = head.ok_or(StorageError::Gone { epoch: None })?;
        self.check(shard, &head)?;
        Ok(head.lsn)
    }

    fn lsn_at_least(&self, shard: ShardId, least: Lsn) -> Stored<Lsn> {
        self.inner.lsn_at_least(shard, least)
    }

    fn watch(&self, shard: ShardId, after: Lsn, timeout_ms: u64) -> Stored<Lsn> {
        self.inner.watch(shard, after, timeout_ms)
    }

    fn create_shard(&self, shard: ShardId, epoch: Epoch) -> Stored<()> {
        self.inner.create_shard(shard, epoch)
    }

    fn create_open_shard(&self, shard: ShardId, epoch: Epoch) -> Stored<()> {
        self.inner.create_open_shard(shard, epoch)
    }

    fn drop_shard(&self, shard: ShardId) -> Stored<()> {
        self.inner.drop_shard(shard)
    }

    fn retire_shard(&self, shard: ShardId) -> Stored<()> {
        self.inner.retire_shard(shard)
    }

    fn shards(&self) -> Stored<Vec<(ShardId, Head)>> {
        self.inner.shards()
    }

    fn journal(&self, shard: ShardId, bytes_max: usize) -> Stored<Arc<dyn Journal>> {
        self.inner.journal(shard, bytes_max)
    }

    fn copy_into(&self, shard: ShardId, entries: &[Copied]) -> Stored<()> {
        self.inner.copy_into(shard, entries)
    }

    fn flush(&self) -> Stored<()> {
        self.inner.flush()
    }

    fn stats(&self, shard: ShardId) -> Stored<ShardStats> {
        self.inner.stats(shard)
    }

    fn embedded(&self) -> Option<&dyn EmbeddedStore> {
        self.inner.embedded()
    }
}
