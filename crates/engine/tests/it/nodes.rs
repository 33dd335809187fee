//! Three engines over one store that says it is shared, each with its own clock, as three processes would be; and
//! stores without one of the protections between processes, to show what it is for.

use std::sync::{Arc, Mutex};

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_engine::{Container, Engine};
use orrery_storage::{
    Commit, CommitId, Committed, Copied, Entry, Head, Journal, KeyCursor, MemoryStore,
    Precondition, ReadAt, Resolution, Scan, ShardState, ShardStats, Snapshot, Space, Store, Value,
    key,
};
use orrery_types::{Epoch, Lsn, ManualClock, PartitionKey, Result, ShardId};

use crate::interposed::{Hook, Interposed, Step, Stored};
use crate::world::{START_S, json, manual, name};

pub(crate) fn shared_store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::shared())
}

/// The engines of one store.
pub(crate) struct Nodes(pub(crate) Vec<Engine>);

pub(crate) fn open_node(store: Arc<dyn Store>) -> Engine {
    Engine::open(store, Arc::new(ManualClock::at_s(START_S)), 1).expect("it opens")
}

impl Nodes {
    pub(crate) fn over(store: &Arc<dyn Store>) -> Self {
        Self((0..3).map(|_| open_node(store.clone())).collect())
    }

    /// With the database `d` and its container `people`, which all of them know.
    pub(crate) fn with_people(store: &Arc<dyn Store>, more: &str) -> Self {
        let first = open_node(store.clone());
        first.databases().create(&json(r#"{"id":"d"}"#), &manual(None)).expect("a database");
        let body = json(&people(more));
        first.containers().create(&name("d"), &body, &manual(None)).expect("a container");
        let nodes = Self::over(store);
        for node in &nodes.0 {
            put(node, "p", "first").expect("an item");
            get(node, "p", "first").expect("it");
        }
        nodes
    }
}

/// The definition of `people` with some more properties.
pub(crate) fn people(more: &str) -> String {
    format!(r#"{{"id":"people","partitionKey":{{"paths":["/p"]}}{more}}}"#)
}

pub(crate) fn container(engine: &Engine) -> Result<Arc<Container>> {
    engine.containers().read(&name("d"), &name("people"))
}

pub(crate) fn pk(p: &str) -> PartitionKey {
    PartitionKey::parse_header(&format!(r#"["{p}"]"#)).expect("a key")
}

pub(crate) fn put(engine: &Engine, p: &str, id: &str) -> Result<()> {
    let text = format!(r#"{{"id":"{id}","p":"{p}","a":1}}"#);
    let none = Preconditions::default();
    let found = container(engine)?;
    engine.items().upsert(&found, None, text.as_bytes(), &none).map(drop)
}

pub(crate) fn create(engine: &Engine, p: &str, id: &str) -> Result<()> {
    let text = format!(r#"{{"id":"{id}","p":"{p}","a":1}}"#);
    let found = container(engine)?;
    engine.items().create(&found, None, text.as_bytes()).map(drop)
}

pub(crate) fn get(engine: &Engine, p: &str, id: &str) -> Result<()> {
    let found = container(engine)?;
    engine.items().read(&found, Some(&pk(p)), &name(id)).map(drop)
}

pub(crate) fn erase(engine: &Engine, p: &str) -> Result<()> {
    let found = container(engine)?;
    engine.erasure().erase_partition_key(&found, &pk(p)).map(drop)
}

pub(crate) fn replace(engine: &Engine, more: &str) -> Result<()> {
    let none = Preconditions::default();
    engine.containers().replace(&name("d"), &name("people"), &json(&people(more)), &none).map(drop)
}

/// How many items a query with a filter finds.
pub(crate) fn count(engine: &Engine, filter: &str) -> Result<usize> {
    let container = container(engine)?;
    let scope = container.scope(&ScopeRequest::default())?;
    let text = format!(r#"{{"query":"SELECT VALUE c.id FROM c WHERE {filter}"}}"#);
    let request = QueryRequest::parse(&json(&text))?;
    let (mut rows, mut token) = (0, None::<String>);
    loop {
        let paging = Paging { continuation: token.as_deref(), crosses: true, ..Paging::default() };
        let size = PageSize { items: 1000 };
        let page = engine.queries().query_items(&container, &scope, &request, size, &paging)?;
        (rows, token) = (rows + page.rows.len(), page.continuation);
        if token.is_none() {
            return Ok(rows);
        }
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// What happens on another node right before the next commit through a store, or a later one.
#[derive(Clone, Default)]
pub(crate) struct Meanwhile(Arc<Mutex<(usize, Option<Work>)>>);

impl Meanwhile {
    /// A store whose next commit waits for what is armed.
    pub(crate) fn over(inner: &Arc<dyn Store>) -> (Arc<dyn Store>, Self) {
        let meanwhile = Self::default();
        let armed = meanwhile.clone();
        let hook: Hook = Box::new(move |step| {
            if let Some(work) = (step == Step::Commit).then(|| armed.next()).flatten() {
                work();
            }
            Ok(())
        });
        (Arc::new(Interposed::writes(inner.clone(), hook)), meanwhile)
    }

    fn next(&self) -> Option<Work> {
        let (skipped, work) = &mut *self.0.lock().expect("a lock");
        if *skipped > 0 && work.is_some() {
            *skipped -= 1;
            return None;
        }
        work.take()
    }

    pub(crate) fn arm(&self, work: impl FnOnce() + Send + 'static) {
        self.0.lock().expect("a lock").1 = Some(Box::new(work));
    }

    /// It happens before a later commit, after so many others.
    pub(crate) fn skip(&self, commits: usize) {
        self.0.lock().expect("a lock").0 = commits;
    }

    /// Whether the commit has come.
    pub(crate) fn has_happened(&self) -> bool {
        self.0.lock().expect("a lock").1.is_none()
    }
}

/// A protection between processes that a [`Weakened`] store lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Without {
    /// Commits are tested for changes of the ranges that they have read.
    Stripes,
    /// Commits are refused if they were prepared under another definition.
    Epochs,
    /// Heads say when something was changed that processes cache.
    Control,
    /// Changes of the catalog are tested for other changes.
    CatalogHead,
    /// Commits are tested for erasures.
    ErasureKeys,
}

/// A store that lacks a protection.
pub(crate) struct Weakened {
    inner: Arc<dyn Store>,
    without: Without,
}

impl Weakened {
    pub(crate) fn over(inner: Arc<dyn Store>, without: Without) -> Arc<dyn Store> {
        Arc::new(Self { inner, without })
    }

    fn head(&self, head: Head) -> Head {
        if self.without == Without::Control { Head { control: Lsn(0), ..head } } else { head }
    }

    fn drops(&self, precondition: &Precondition) -> bool {
        let is_of = |prefix: &[u8]| {
            precondition
                .key()
                .is_some_and(|(space, key)| space == Space::Meta && key.starts_with(prefix))
        };
        match self.without {
            Without::Stripes => matches!(precondition, Precondition::StripeUnchanged { .. }),
            Without::CatalogHead => is_of(&key::catalog_head()),
            Without::ErasureKeys => is_of(&key::erasure(&[])),
            Without::Epochs | Without::Control => false,
        }
    }
}

struct WeakenedSnapshot<'s>(Box<dyn Snapshot + 's>);

impl Snapshot for WeakenedSnapshot<'_> {
    fn head(&self) -> Head {
        Head { control: Lsn(0), ..self.0.head() }
    }

    fn get(&self, space: Space, key: &[u8]) -> Stored<Option<Value>> {
        self.0.get(space, key)
    }

    fn get_many(&self, space: Space, keys: &[&[u8]]) -> Stored<Vec<Option<Value>>> {
        self.0.get_many(space, keys)
    }

    fn scan(&self, scan: &Scan<'_>) -> Stored<Vec<Entry>> {
        self.0.scan(scan)
    }

    fn keys(&self, space: Space, from: &[u8], to: &[u8]) -> Stored<Box<dyn KeyCursor + '_>> {
        self.0.keys(space, from, to)
    }

    fn estimate(&self, space: Space, from: &[u8], to: &[u8]) -> Stored<u64> {
        self.0.estimate(space, from, to)
    }

    fn estimate_beyond(&self, space: Space, from: &[u8], to: &[u8], counted: u64) -> Stored<u64> {
        self.0.estimate_beyond(space, from, to, counted)
    }
}

impl Store for Weakened {
    fn snapshot(&self, shard: ShardId, at: ReadAt) -> Stored<Box<dyn Snapshot + '_>> {
        let snapshot = self.inner.snapshot(shard, at)?;
        Ok(if self.without == Without::Control {
            Box::new(WeakenedSnapshot(snapshot))
        } else {
            snapshot
        })
    }

    fn snapshots(&self, shards: &[ShardId]) -> Stored<Vec<Box<dyn Snapshot + '_>>> {
        shards.iter().map(|shard| self.snapshot(*shard, ReadAt::Latest)).collect()
    }

    fn get(&self, shard: ShardId, space: Space, key: &[u8]) -> Stored<(Head, Option<Value>)> {
        self.inner.get(shard, space, key).map(|(head, value)| (self.head(head), value))
    }

    fn commit_once(&self, mut commit: Commit) -> Stored<Committed> {
        for part in &mut commit.parts {
            part.preconditions.retain(|precondition| !self.drops(precondition));
            let now = self.inner.heads(&[part.shard])?.into_iter().next().flatten();
            if let Some(now) = now.filter(|now| now.state == ShardState::Open)
                && self.without == Without::Epochs
                && part.head.is_none()
            {
                part.epoch = now.epoch;
            }
        }
        self.inner.commit_once(commit)
    }

    fn resolve(&self, shards: &[ShardId], id: CommitId) -> Stored<Resolution> {
        self.inner.resolve(shards, id)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn heads(&self, shards: &[ShardId]) -> Stored<Vec<Option<Head>>> {
        let heads = self.inner.heads(shards)?;
        Ok(heads.into_iter().map(|head| head.map(|head| self.head(head))).collect())
    }

    fn watch(&self, shard: ShardId, after: Lsn, timeout_ms: u64) -> Stored<Lsn> {
        self.inner.watch(shard, after, timeout_ms)
    }

    fn create_shard(&self, shard: ShardId, epoch: Epoch) -> Stored<()> {
        self.inner.create_shard(shard, epoch)
    }

    fn drop_shard(&self, shard: ShardId) -> Stored<()> {
        self.inner.drop_shard(shard)
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
}
