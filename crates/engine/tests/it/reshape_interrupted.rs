//! A process that ends in the middle of a split or a merge, after every single step of it: what opens
//! afterwards has the old layout or the new one, and all of the data.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use orrery_engine::Engine;
use orrery_engine::feed::PageSize;
use orrery_engine::resource::Preconditions;
use orrery_engine::scope::ScopeRequest;
use orrery_storage::{
    Commit, Committed, Copied, CopyLog, Journal, MemoryStore, Put, ReadAt, ShardStats, Snapshot,
    Space, StorageError, Store, Value,
};
use orrery_types::{Epoch, Lsn, ManualClock, Result, ShardId};

use crate::world::{START_S, json, manual, name};

/// A store that takes so many writes and then none: as if the process had ended.
struct Ending {
    inner: Arc<MemoryStore>,
    left: AtomicUsize,
}

impl Ending {
    fn write(&self) -> std::result::Result<(), StorageError> {
        let left = |left: usize| left.checked_sub(1);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left) {
            Ok(_) => Ok(()),
            Err(_) => Err(StorageError::ReadOnly("the process has ended".into())),
        }
    }
}

type Stored<T> = std::result::Result<T, StorageError>;

impl Store for Ending {
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
        self.write()?;
        self.inner.commit(commit)
    }

    fn watch(&self, shard: ShardId, after: Lsn, timeout_ms: u64) -> Stored<Lsn> {
        self.inner.watch(shard, after, timeout_ms)
    }

    fn create_shard(&self, shard: ShardId, epoch: Epoch) -> Stored<()> {
        self.write()?;
        self.inner.create_shard(shard, epoch)
    }

    fn fence_shard(&self, shard: ShardId, epoch: Epoch) -> Stored<()> {
        self.write()?;
        self.inner.fence_shard(shard, epoch)
    }

    fn drop_shard(&self, shard: ShardId) -> Stored<()> {
        self.write()?;
        self.inner.drop_shard(shard)
    }

    fn shards(&self) -> Stored<Vec<(ShardId, Epoch)>> {
        self.inner.shards()
    }

    fn bulk_load(&self, shard: ShardId, entries: &mut dyn Iterator<Item = Put>) -> Stored<Lsn> {
        self.write()?;
        self.inner.bulk_load(shard, entries)
    }

    fn journal(&self, shard: ShardId, bytes_max: usize) -> Stored<Arc<Journal>> {
        self.inner.journal(shard, bytes_max)
    }

    fn copy_into(&self, shard: ShardId, entries: &[Copied], log: CopyLog) -> Stored<()> {
        self.write()?;
        self.inner.copy_into(shard, entries, log)
    }

    fn settle_copies(&self) -> Stored<()> {
        self.inner.settle_copies()
    }

    fn advance_shard(&self, shard: ShardId, lsn: Lsn) -> Stored<()> {
        self.write()?;
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

fn open(store: Arc<dyn Store>) -> Engine {
    Engine::open(store, Arc::new(ManualClock::at_s(START_S)), 1).expect("it opens")
}

fn items(engine: &Engine) -> Vec<bytes::Bytes> {
    let container = engine.read_container(&name("d"), &name("c")).expect("a container");
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let page = engine.read_items(&container, &scope, PageSize { items: 1000 }, None);
    page.expect("a page").items
}

fn put(engine: &Engine, n: usize) {
    let container = engine.read_container(&name("d"), &name("c")).expect("a container");
    let text = format!(r#"{{"id":"{n}","p":{n},"u":{n}}}"#);
    let none = Preconditions::default();
    engine.upsert_item(&container, None, text.as_bytes(), &none).expect("an upsert");
}

/// Ends a change of the layout after each of its steps; returns how many it had.
fn interrupt(throughput: i64, change: impl Fn(&Engine) -> Result<()>) -> usize {
    let store = Arc::new(MemoryStore::new());
    let engine = open(store.clone());
    engine.create_database(&json(r#"{"id":"d"}"#), &manual(None)).expect("a database");
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
        "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}"#;
    engine.create_container(&name("d"), &json(body), &manual(Some(throughput))).expect("made");
    for n in 0..50 {
        put(&engine, n);
    }
    let before = items(&engine);
    drop(engine);
    let image = store.image();
    for steps in 0.. {
        store.restore(&image);
        let left = |steps| Arc::new(Ending { inner: store.clone(), left: AtomicUsize::new(steps) });
        let engine = open(left(usize::MAX));
        drop(engine);
        let ending = left(usize::MAX);
        let engine = open(ending.clone());
        ending.left.store(steps, Ordering::SeqCst);
        let changed = change(&engine);
        drop(engine);
        // What is frozen or in a journal is so in one process only.
        store.restore(&store.image());
        let engine = open(store.clone());
        let container = engine.read_container(&name("d"), &name("c")).expect("a container");
        assert_eq!(items(&engine), before, "after {steps} steps");
        assert_eq!(engine.verify(&container), Ok(vec![]), "after {steps} steps");
        let shards = store.shards().expect("shards").len();
        assert_eq!(
            shards,
            container.partitions.len() + 1,
            "after {steps} steps nothing is left over"
        );
        let new = container.partitions.iter().any(|p| !p.parents.is_empty());
        assert!(changed.is_err() || new, "after {steps} steps");
        put(&engine, 99);
        assert_eq!(items(&engine).len(), 51);
        if changed.is_ok() {
            return steps;
        }
    }
    unreachable!("it ends some time");
}

#[test]
fn a_split_that_is_interrupted_leaves_one_layout() {
    let steps = interrupt(400, |engine| {
        engine.split_partition(&name("d"), &name("c"), None, None).map(drop)
    });
    assert!(steps > 10, "{steps} steps");
}

#[test]
fn a_merge_that_is_interrupted_leaves_one_layout() {
    let steps =
        interrupt(20_000, |engine| engine.merge_partitions(&name("d"), &name("c"), None).map(drop));
    assert!(steps > 10, "{steps} steps");
}
