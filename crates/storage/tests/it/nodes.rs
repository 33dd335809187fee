//! Two nodes over one store of `PostgreSQL`, which take turns: whatever one of them writes, the next call sees on the
//! other. So every case of the contract is one of several nodes, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use orrery_postgres::{PostgresOptions, PostgresStore};
use orrery_storage::{
    Commit, CommitId, Committed, Copied, Head, Journal, ReadAt, Resolution, ShardStats, Snapshot,
    Space, StorageError, Store, Value,
};
use orrery_types::{Epoch, Lsn, ShardId};

pub(crate) struct Nodes {
    stores: [PostgresStore; 2],
    calls: AtomicUsize,
}

impl Nodes {
    pub(crate) fn open(address: &str, options: &PostgresOptions) -> Self {
        let open = |_| PostgresStore::open(address, options).expect("the store opens");
        Self { stores: [0, 1].map(open), calls: AtomicUsize::new(0) }
    }

    fn next(&self) -> &PostgresStore {
        &self.stores[self.calls.fetch_add(1, Relaxed) % 2]
    }
}

type Stored<T> = Result<T, StorageError>;

impl Store for Nodes {
    fn snapshot(&self, shard: ShardId, at: ReadAt) -> Stored<Box<dyn Snapshot + '_>> {
        self.next().snapshot(shard, at)
    }

    fn snapshots(&self, shards: &[ShardId]) -> Stored<Vec<Box<dyn Snapshot + '_>>> {
        self.next().snapshots(shards)
    }

    fn get(&self, shard: ShardId, space: Space, key: &[u8]) -> Stored<(Head, Option<Value>)> {
        self.next().get(shard, space, key)
    }

    fn commit_once(&self, commit: Commit) -> Stored<Committed> {
        self.next().commit_once(commit)
    }

    fn resolve(&self, shards: &[ShardId], id: CommitId) -> Stored<Resolution> {
        self.next().resolve(shards, id)
    }

    fn reads_inline(&self) -> bool {
        false
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn now_us(&self) -> Stored<Option<u64>> {
        self.next().now_us()
    }

    fn heads(&self, shards: &[ShardId]) -> Stored<Vec<Option<Head>>> {
        self.next().heads(shards)
    }

    fn lsn_at_least(&self, shard: ShardId, least: Lsn) -> Stored<Lsn> {
        self.next().lsn_at_least(shard, least)
    }

    fn watch(&self, shard: ShardId, after: Lsn, timeout_ms: u64) -> Stored<Lsn> {
        self.next().watch(shard, after, timeout_ms)
    }

    fn create_shard(&self, shard: ShardId, epoch: Epoch) -> Stored<()> {
        self.next().create_shard(shard, epoch)
    }

    fn drop_shard(&self, shard: ShardId) -> Stored<()> {
        self.next().drop_shard(shard)
    }

    fn shards(&self) -> Stored<Vec<(ShardId, Head)>> {
        self.next().shards()
    }

    fn journal(&self, shard: ShardId, bytes_max: usize) -> Stored<Arc<dyn Journal>> {
        self.next().journal(shard, bytes_max)
    }

    fn copy_into(&self, shard: ShardId, entries: &[Copied]) -> Stored<()> {
        self.next().copy_into(shard, entries)
    }

    fn flush(&self) -> Stored<()> {
        self.next().flush()
    }

    fn stats(&self, shard: ShardId) -> Stored<ShardStats> {
        self.next().stats(shard)
    }
}
