//! A snapshot of all shards of a database, taken at one instant. A reader that compares items with what
//! is derived from them in other shards sees both as of that instant, however many writers there are.

use std::collections::BTreeMap;

use orrery_storage::{Entry, ReadAt, Scan, Snapshot, Space, Value};
use orrery_types::{Error, Result, ShardId};

use crate::error::storage;
use crate::transaction::write_buffer::{Draft, View};
use crate::{Database, Engine};

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

impl<'e> Draft<'e> {
    /// The view of a draft beside this one.
    pub(crate) fn view_beside(&self) -> View<'e> {
        match &self.view {
            View::Database(snapshot) => View::Database(snapshot),
            View::Latest | View::Shard(_) => View::Latest,
        }
    }

    /// A stored value, in any shard: of the draft's own from its snapshot, if it has one.
    pub(crate) fn stored(&self, shard: ShardId, space: Space, key: &[u8]) -> Result<Option<Value>> {
        match &self.view {
            View::Database(snapshot) => snapshot.shard(shard)?.get(space, key).map_err(storage),
            View::Shard(snapshot) if shard == self.partition.shard => {
                snapshot.get(space, key).map_err(storage)
            }
            View::Latest | View::Shard(_) => {
                Ok(self.engine.store.get(shard, space, key).map_err(storage)?.1)
            }
        }
    }

    /// Stored entries, in any shard; the same holds.
    pub(crate) fn scanned(&self, shard: ShardId, scan: &Scan<'_>) -> Result<Vec<Entry>> {
        match &self.view {
            View::Database(snapshot) => snapshot.shard(shard)?.scan(scan).map_err(storage),
            View::Shard(snapshot) if shard == self.partition.shard => {
                snapshot.scan(scan).map_err(storage)
            }
            View::Latest | View::Shard(_) => {
                let snapshot = self.engine.store.snapshot(shard, ReadAt::Latest);
                snapshot.map_err(storage)?.scan(scan).map_err(storage)
            }
        }
    }
}
