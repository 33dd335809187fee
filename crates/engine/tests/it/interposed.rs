//! A store in memory that asks before each write whether, and tells somebody that, it happens.

use std::path::Path;
use std::sync::Arc;

use orrery_storage::{
    Commit, Committed, Copied, CopyLog, CopyRun, GatheredRun, Journal, MemoryStore, Put, ReadAt,
    ShardStats, Snapshot, Space, StorageError, Store, Value,
};
use orrery_types::{Epoch, Lsn, ShardId};

pub(crate) type Stored<T> = std::result::Result<T, StorageError>;

/// What is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Commit,
    /// A shard is made, dropped, or raised in epoch or LSN.
    Shard,
    Copy,
    /// What was copied is made durable: the copy is complete but for what is written meanwhile.
    Settle,
}

/// Is called before each step; an error takes its place.
pub(crate) type Hook = Box<dyn Fn(Step) -> Stored<()> + Send + Sync>;

pub(crate) struct Interposed {
    pub(crate) inner: Arc<MemoryStore>,
    pub(crate) hook: Hook,
}

impl Store for Interposed {
    fn snapshot(&self, shard: ShardId, at: ReadAt) -> Stored<Box<dyn Snapshot + '_>> {
        self.inner.snapshot(shard, at)
    }

    fn snapshots(&self, shards: &[ShardId]) -> Stored<Vec<Box<dyn Snapshot + '_>>> {
        self.inner.snapshots(shards)
    }

    fn get(&self, shard: ShardId, space: Space, key: &[u8]) -> Stored<(Lsn, Option<Value>)> {
        self.inner.get(shard, space, key)
    }

    fn commit(&self, commit: Commit) -> Stored<Committed> {
        (self.hook)(Step::Commit)?;
        self.inner.commit(commit)
    }

    fn watch(&self, shard: ShardId, after: Lsn, timeout_ms: u64) -> Stored<Lsn> {
        self.inner.watch(shard, after, timeout_ms)
    }

    fn create_shard(&self, shard: ShardId, epoch: Epoch) -> Stored<()> {
        (self.hook)(Step::Shard)?;
        self.inner.create_shard(shard, epoch)
    }

    fn fence_shard(&self, shard: ShardId, epoch: Epoch) -> Stored<()> {
        (self.hook)(Step::Shard)?;
        self.inner.fence_shard(shard, epoch)
    }

    fn drop_shard(&self, shard: ShardId) -> Stored<()> {
        (self.hook)(Step::Shard)?;
        self.inner.drop_shard(shard)
    }

    fn shards(&self) -> Stored<Vec<(ShardId, Epoch)>> {
        self.inner.shards()
    }

    fn bulk_load(&self, shard: ShardId, entries: &mut dyn Iterator<Item = Put>) -> Stored<Lsn> {
        (self.hook)(Step::Copy)?;
        self.inner.bulk_load(shard, entries)
    }

    fn journal(&self, shard: ShardId, bytes_max: usize) -> Stored<Arc<Journal>> {
        self.inner.journal(shard, bytes_max)
    }

    fn copy_into(&self, shard: ShardId, entries: &[Copied], log: CopyLog) -> Stored<()> {
        (self.hook)(Step::Copy)?;
        self.inner.copy_into(shard, entries, log)
    }

    fn copy_run(&self, shard: ShardId, space: Space) -> Stored<Box<dyn CopyRun + '_>> {
        Ok(Box::new(GatheredRun::new(self, shard, space)))
    }

    fn settle_copies(&self) -> Stored<()> {
        (self.hook)(Step::Settle)?;
        self.inner.settle_copies()
    }

    fn advance_shard(&self, shard: ShardId, lsn: Lsn) -> Stored<()> {
        (self.hook)(Step::Shard)?;
        self.inner.advance_shard(shard, lsn)
    }

    fn freeze_shard(&self, shard: ShardId, frozen: bool) -> Stored<()> {
        self.inner.freeze_shard(shard, frozen)
    }

    fn stats(&self, shard: ShardId) -> Stored<ShardStats> {
        self.inner.stats(shard)
    }

    fn checkpoint(&self, into: &Path) -> Stored<()> {
        self.inner.checkpoint(into)
    }
}
