//! The stores that a contract test runs on, and short ways to write and read.

use orrery_postgres::PostgresStore;
use orrery_storage::{
    Commit, Entry, FailedPrecondition, HeadChange, MemoryStore, Part, Precondition, Put, ReadAt,
    RocksOptions, RocksStore, Scan, ShardState, Snapshot, Space, StorageError, Store, Value, key,
};
use orrery_types::{Epoch, Lsn, ShardId};

use crate::nodes::Nodes;
use crate::postgres_store;

pub(crate) const SHARD: ShardId = ShardId(7);
pub(crate) const EPOCH: Epoch = Epoch(1);

/// Runs a test on every engine, each with one empty shard, and on two nodes of `PostgreSQL` that take turns.
pub(crate) fn on_every_store(test: impl Fn(&dyn Store)) {
    on_embedded_stores(&test);
    if let Some((address, options)) = postgres_store::new_store() {
        let postgres = PostgresStore::open(&address, &options).expect("the store opens");
        postgres.create_open_shard(SHARD, EPOCH).expect("a shard");
        test(&postgres);
    }
    if let Some((address, options)) = postgres_store::new_store() {
        let nodes = Nodes::open(&address, &options);
        nodes.create_open_shard(SHARD, EPOCH).expect("a shard");
        test(&nodes);
    }
}

/// Runs a test on the engines that live in this process.
pub(crate) fn on_embedded_stores(test: impl Fn(&dyn Store)) {
    let memory = MemoryStore::new();
    memory.create_open_shard(SHARD, EPOCH).expect("a shard");
    test(&memory);
    let folder = tempfile::tempdir().expect("a folder");
    let rocks = open(folder.path());
    rocks.create_open_shard(SHARD, EPOCH).expect("a shard");
    test(&rocks);
}

pub(crate) fn open(path: &std::path::Path) -> RocksStore {
    RocksStore::open(path, &RocksOptions::default()).expect("the folder opens")
}

/// A value, and the LSN of the shard.
pub(crate) fn get(
    store: &dyn Store,
    shard: ShardId,
    space: Space,
    key: &[u8],
) -> Result<(Lsn, Option<Value>), StorageError> {
    store.get(shard, space, key).map(|(head, value)| (head.lsn, value))
}

pub(crate) fn part(shard: ShardId) -> Part {
    Part::new(shard, EPOCH)
}

pub(crate) fn put(space: Space, key: &str, value: &str) -> Put {
    Put { space, key: key.into(), value: value.into() }
}

/// An item has a version, or does not exist.
pub(crate) fn unchanged(key: &str, version: Option<u64>) -> Precondition {
    Precondition::unchanged(Space::Items, key.into(), version.map(Lsn))
}

/// The answer to a commit whose precondition does not hold in a shard.
pub(crate) fn conflict(shard: ShardId, precondition: &Precondition) -> StorageError {
    let precondition = precondition.clone();
    StorageError::Conflict(Box::new(FailedPrecondition { shard, precondition }))
}

/// Commits one part and returns its LSN.
pub(crate) fn commit(store: &dyn Store, part: Part) -> Result<Lsn, StorageError> {
    store.commit(Commit::new(vec![part])).map(|committed| committed.lsns[0])
}

/// All shards with their epochs.
pub(crate) fn epochs(store: &dyn Store) -> Vec<(ShardId, Epoch)> {
    let shards = store.shards().expect("the shards");
    shards.into_iter().map(|(shard, head)| (shard, head.epoch)).collect()
}

/// Commits item writes without conditions.
pub(crate) fn write(store: &dyn Store, items: &[(&str, &str)]) -> Lsn {
    let mut part = part(SHARD);
    part.puts = items.iter().map(|(key, value)| put(Space::Items, key, value)).collect();
    commit(store, part).expect("an unconditional write")
}

/// Opens a copy, which goes on counting from an LSN.
pub(crate) fn open_copy(store: &dyn Store, shard: ShardId, lsn: u64) -> Result<Lsn, StorageError> {
    let open = HeadChange::state(ShardState::Building, ShardState::Open, EPOCH);
    let open = HeadChange { least_lsn: Lsn(lsn), ..open };
    commit(store, Part::of_head(shard, EPOCH, open))
}

pub(crate) fn latest<'s>(store: &'s dyn Store, shard: ShardId) -> Box<dyn Snapshot + 's> {
    store.snapshot(shard, ReadAt::Latest).expect("a snapshot")
}

pub(crate) fn value(version: u64, text: &str) -> Value {
    Value { version: Lsn(version), bytes: text.to_owned().into() }
}

/// All entries of a space, read by a scan without bounds.
pub(crate) fn all(snapshot: &dyn Snapshot, space: Space) -> Vec<Entry> {
    let scan = Scan {
        space,
        from: &[],
        to: key::END,
        reverse: false,
        max_rows: usize::MAX,
        max_bytes: usize::MAX,
        keys_only: false,
    };
    snapshot.scan(&scan).expect("a scan")
}

/// Keys of all entries as text.
pub(crate) fn keys(snapshot: &dyn Snapshot, space: Space) -> Vec<String> {
    texts(&all(snapshot, space))
}

pub(crate) fn texts(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|e| String::from_utf8_lossy(&e.key).into_owned()).collect()
}
