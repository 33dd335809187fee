//! Where a transaction reads from, and the time by which it judges what it reads. Every read of a
//! transaction goes through its view.

use std::collections::BTreeMap;

use orrery_storage::{Entry, ReadAt, Scan, Snapshot, Space, Value};
use orrery_types::{Error, Lsn, Result, ShardId};

use crate::background::expiry_sweep::expiry;
use crate::error::storage;
use crate::item::image::BeforeImage;
use crate::{Container, Database, Engine};

/// A snapshot of all shards of a database, taken at one instant. A reader that compares items with what
/// is derived from them in other shards sees both as of that instant, however many writers there are.
pub(crate) struct DatabaseSnapshot<'e> {
    shards: BTreeMap<u32, Box<dyn Snapshot + 'e>>,
}

impl<'e> DatabaseSnapshot<'e> {
    pub(crate) fn open(engine: &'e Engine, database: &Database) -> Result<Self> {
        let partitions = database.containers().flat_map(|container| &container.partitions);
        let shards: Vec<ShardId> = partitions.map(|partition| partition.shard).collect();
        let opened = engine.store.snapshots(&shards).map_err(storage)?;
        Ok(Self { shards: shards.iter().map(|shard| shard.0).zip(opened).collect() })
    }

    pub(crate) fn shard(&self, shard: ShardId) -> Result<&(dyn Snapshot + 'e)> {
        let found = self.shards.get(&shard.0).map(|snapshot| &**snapshot);
        found.ok_or_else(|| Error::internal("a shard of another database"))
    }
}

/// What is read.
enum Source<'e> {
    /// The newest committed value at each read.
    Latest,
    /// One snapshot of the home shard; other shards newest.
    Shard(ShardId, Box<dyn Snapshot + 'e>),
    /// One snapshot of every shard of the database.
    Database(&'e DatabaseSnapshot<'e>),
}

/// The view of one transaction.
pub(crate) struct ReadView<'e> {
    engine: &'e Engine,
    source: Source<'e>,
    /// The statement time: the second by which the transaction judges whether an item has expired, from
    /// its first read to its commit.
    now_s: u64,
}

impl<'e> ReadView<'e> {
    /// Each read sees the newest commit.
    pub(crate) fn latest(engine: &'e Engine) -> Self {
        Self { engine, source: Source::Latest, now_s: engine.clock.now_s() }
    }

    /// Reads of the home shard see one snapshot, whose LSN is returned too.
    pub(crate) fn snapshot(engine: &'e Engine, home: ShardId) -> Result<(Self, Lsn)> {
        let snapshot = engine.store.snapshot(home, ReadAt::Latest).map_err(storage)?;
        let lsn = snapshot.lsn();
        let source = Source::Shard(home, snapshot);
        Ok((Self { engine, source, now_s: engine.clock.now_s() }, lsn))
    }

    /// All reads see one snapshot of the database.
    pub(crate) fn database(engine: &'e Engine, snapshot: &'e DatabaseSnapshot<'e>) -> Self {
        Self { engine, source: Source::Database(snapshot), now_s: engine.clock.now_s() }
    }

    /// Whether reads of every shard are of one instant.
    pub(crate) fn is_database(&self) -> bool {
        matches!(self.source, Source::Database(_))
    }

    /// Whether reads of a shard are of one instant.
    pub(crate) fn is_fixed(&self, shard: ShardId) -> bool {
        match &self.source {
            Source::Latest => false,
            Source::Shard(home, _) => *home == shard,
            Source::Database(_) => true,
        }
    }

    /// A stored value.
    pub(crate) fn get(&self, shard: ShardId, space: Space, key: &[u8]) -> Result<Option<Value>> {
        match &self.source {
            Source::Database(snapshot) => snapshot.shard(shard)?.get(space, key).map_err(storage),
            Source::Shard(home, snapshot) if *home == shard => {
                snapshot.get(space, key).map_err(storage)
            }
            Source::Latest | Source::Shard(..) => {
                Ok(self.engine.store.get(shard, space, key).map_err(storage)?.1)
            }
        }
    }

    /// Stored entries of a range.
    pub(crate) fn scan(&self, shard: ShardId, scan: &Scan<'_>) -> Result<Vec<Entry>> {
        match &self.source {
            Source::Database(snapshot) => snapshot.shard(shard)?.scan(scan).map_err(storage),
            Source::Shard(home, snapshot) if *home == shard => snapshot.scan(scan).map_err(storage),
            Source::Latest | Source::Shard(..) => {
                let snapshot = self.engine.store.snapshot(shard, ReadAt::Latest);
                snapshot.map_err(storage)?.scan(scan).map_err(storage)
            }
        }
    }

    /// Whether a stored item is hidden: expired at the statement time, or erased.
    pub(crate) fn hides(&self, container: &Container, key: &[u8], before: &BeforeImage) -> bool {
        let expired = expiry(&container.definition, &before.header);
        expired.is_some_and(|at| at <= self.now_s) || container.erasures.hide(key, before.version)
    }
}
