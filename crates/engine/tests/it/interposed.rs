//! A store that calls a hook before each write and after each read. A hook may fail the
//! write, or hold the reader up: [`Breakpoint`](crate::breakpoint::Breakpoint) stops a thread at a
//! chosen key, so that a test decides what happens between a read and what follows from it.

use std::sync::Arc;

use orrery_storage::{
    Commit, CommitId, Committed, Copied, Entry, Head, Journal, KeyCursor, ReadAt, Resolution, Scan,
    ShardStats, Snapshot, Space, StorageError, Store, Value,
};
use orrery_types::{Epoch, Lsn, ShardId};

pub(crate) type Stored<T> = std::result::Result<T, StorageError>;

/// What is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Commit,
    /// The store is asked what became of a commit.
    Resolve,
    /// A shard is made or dropped.
    Shard,
    Copy,
    /// What was copied is made durable: the copy is complete but for what is written meanwhile.
    Flush,
}

/// Is called before each step; an error takes its place.
pub(crate) type Hook = Box<dyn Fn(Step) -> Stored<()> + Send + Sync>;

/// What was just read. The caller has not seen it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read<'k> {
    /// A snapshot was taken.
    Snapshot { shard: ShardId },
    /// One key, newest or from a snapshot.
    Key { shard: ShardId, space: Space, key: &'k [u8] },
    /// A range from a snapshot; of a key cursor, the range that it walks along.
    Range { shard: ShardId, space: Space, from: &'k [u8], to: &'k [u8] },
}

/// Is called after each read, on the reader's thread.
pub(crate) type ReadHook = Box<dyn Fn(Read<'_>) + Send + Sync>;

pub(crate) struct Interposed {
    inner: Arc<dyn Store>,
    hook: Hook,
    after_read: ReadHook,
    after_commit: Hook,
    has_clock: bool,
}

impl Interposed {
    /// Calls `hook` before each write.
    pub(crate) fn writes(inner: Arc<dyn Store>, hook: Hook) -> Self {
        let (after_read, after_commit) = (Box::new(|_: Read<'_>| ()), Box::new(|_| Ok(())));
        Self { inner, hook, after_read, after_commit, has_clock: true }
    }

    /// Leaves the time of the store out, for tests that move the time by hand.
    pub(crate) fn without_clock(inner: Arc<dyn Store>) -> Self {
        Self { has_clock: false, ..Self::writes(inner, Box::new(|_| Ok(()))) }
    }

    /// Calls `hook` after each read.
    pub(crate) fn reads(inner: Arc<dyn Store>, hook: ReadHook) -> Self {
        Self { after_read: hook, ..Self::writes(inner, Box::new(|_| Ok(()))) }
    }

    /// Calls `hook` after each commit that was applied: an error takes the place of its answer.
    pub(crate) fn answers(inner: Arc<dyn Store>, hook: Hook) -> Self {
        Self { after_commit: hook, ..Self::writes(inner, Box::new(|_| Ok(()))) }
    }

    fn hooked<'s>(
        &'s self,
        shard: ShardId,
        inner: Box<dyn Snapshot + 's>,
    ) -> Box<dyn Snapshot + 's> {
        (self.after_read)(Read::Snapshot { shard });
        Box::new(HookedSnapshot { shard, inner, after_read: &self.after_read })
    }
}

/// A snapshot whose reads call the hook.
struct HookedSnapshot<'s> {
    shard: ShardId,
    inner: Box<dyn Snapshot + 's>,
    after_read: &'s ReadHook,
}

impl HookedSnapshot<'_> {
    fn key_read(&self, space: Space, key: &[u8]) {
        (self.after_read)(Read::Key { shard: self.shard, space, key });
    }

    fn range_read(&self, space: Space, from: &[u8], to: &[u8]) {
        (self.after_read)(Read::Range { shard: self.shard, space, from, to });
    }
}

impl Snapshot for HookedSnapshot<'_> {
    fn head(&self) -> Head {
        self.inner.head()
    }

    fn get(&self, space: Space, key: &[u8]) -> Stored<Option<Value>> {
        let value = self.inner.get(space, key);
        self.key_read(space, key);
        value
    }

    fn get_many(&self, space: Space, keys: &[&[u8]]) -> Stored<Vec<Option<Value>>> {
        let values = self.inner.get_many(space, keys);
        for key in keys {
            self.key_read(space, key);
        }
        values
    }

    fn scan(&self, scan: &Scan<'_>) -> Stored<Vec<Entry>> {
        let entries = self.inner.scan(scan);
        self.range_read(scan.space, scan.from, scan.to);
        entries
    }

    fn keys(&self, space: Space, from: &[u8], to: &[u8]) -> Stored<Box<dyn KeyCursor + '_>> {
        let cursor = self.inner.keys(space, from, to);
        self.range_read(space, from, to);
        cursor
    }

    fn estimate(&self, space: Space, from: &[u8], to: &[u8]) -> Stored<u64> {
        self.inner.estimate(space, from, to)
    }

    fn estimate_beyond(&self, space: Space, from: &[u8], to: &[u8], counted: u64) -> Stored<u64> {
        self.inner.estimate_beyond(space, from, to, counted)
    }
}

impl Store for Interposed {
    fn snapshot(&self, shard: ShardId, at: ReadAt) -> Stored<Box<dyn Snapshot + '_>> {
        Ok(self.hooked(shard, self.inner.snapshot(shard, at)?))
    }

    fn snapshots(&self, shards: &[ShardId]) -> Stored<Vec<Box<dyn Snapshot + '_>>> {
        let views = self.inner.snapshots(shards)?;
        Ok(shards.iter().zip(views).map(|(shard, view)| self.hooked(*shard, view)).collect())
    }

    fn get(&self, shard: ShardId, space: Space, key: &[u8]) -> Stored<(Head, Option<Value>)> {
        let value = self.inner.get(shard, space, key);
        (self.after_read)(Read::Key { shard, space, key });
        value
    }

    fn commit_once(&self, commit: Commit) -> Stored<Committed> {
        (self.hook)(Step::Commit)?;
        let committed = self.inner.commit_once(commit)?;
        (self.after_commit)(Step::Commit)?;
        Ok(committed)
    }

    fn resolve(&self, shards: &[ShardId], id: CommitId) -> Stored<Resolution> {
        (self.hook)(Step::Resolve)?;
        (self.after_commit)(Step::Resolve)?;
        self.inner.resolve(shards, id)
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn now_us(&self) -> Stored<Option<u64>> {
        if self.has_clock { self.inner.now_us() } else { Ok(None) }
    }

    fn heads(&self, shards: &[ShardId]) -> Stored<Vec<Option<Head>>> {
        self.inner.heads(shards)
    }

    fn watch(&self, shard: ShardId, after: Lsn, timeout_ms: u64) -> Stored<Lsn> {
        self.inner.watch(shard, after, timeout_ms)
    }

    fn create_shard(&self, shard: ShardId, epoch: Epoch) -> Stored<()> {
        (self.hook)(Step::Shard)?;
        self.inner.create_shard(shard, epoch)
    }

    fn drop_shard(&self, shard: ShardId) -> Stored<()> {
        (self.hook)(Step::Shard)?;
        self.inner.drop_shard(shard)
    }

    fn shards(&self) -> Stored<Vec<(ShardId, Head)>> {
        self.inner.shards()
    }

    fn journal(&self, shard: ShardId, bytes_max: usize) -> Stored<Arc<dyn Journal>> {
        self.inner.journal(shard, bytes_max)
    }

    fn copy_into(&self, shard: ShardId, entries: &[Copied]) -> Stored<()> {
        (self.hook)(Step::Copy)?;
        self.inner.copy_into(shard, entries)
    }

    fn flush(&self) -> Stored<()> {
        (self.hook)(Step::Flush)?;
        self.inner.flush()
    }

    fn stats(&self, shard: ShardId) -> Stored<ShardStats> {
        self.inner.stats(shard)
    }
}
