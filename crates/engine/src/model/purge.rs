//! Removes what is kept for rules that are gone.

use orrery_storage::key::Bounds;
use orrery_storage::{Commit, Part, ReadAt, Scan, Space, StorageError, key};
use orrery_types::{Result, limits};

use crate::Database;
use crate::error::storage;
use crate::model::build::ModelBuilds;
use crate::partition::PhysicalPartition;

impl ModelBuilds<'_> {
    /// Removes what is kept by rules with these numbers.
    pub(crate) fn purge_kept(self, database: &Database, dead: &dyn Fn(u32) -> bool) -> Result<()> {
        let spaces = [(Space::Index, key::model_entries()), (Space::Meta, key::model_notes())];
        for (space, all) in &spaces {
            for partition in database.containers().flat_map(|container| &container.partitions) {
                self.purge_range(partition, *space, all.clone(), dead)?;
            }
        }
        Ok(())
    }

    fn purge_range(
        self,
        partition: &PhysicalPartition,
        space: Space,
        mut bounds: Bounds,
        dead: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        loop {
            let store = self.engine.unchecked_store();
            let snapshot = match store.snapshot(partition.shard, ReadAt::Latest) {
                Err(StorageError::Gone { .. }) => return Ok(()),
                other => other.map_err(storage)?,
            };
            let scan =
                Scan { keys_only: true, ..bounds.scan(space, limits::PAGE_ITEMS_MAX, usize::MAX) };
            let entries = snapshot.scan(&scan).map_err(storage)?;
            drop(snapshot);
            let Some(last) = entries.last() else { return Ok(()) };
            bounds = bounds.after(&last.key);
            let is_dead = |key: &[u8]| key::rule_of(key).is_none_or(dead);
            let mut part = Part::new(partition.shard, partition.epoch);
            let keys = entries.into_iter().map(|entry| entry.key);
            part.deletes.extend(keys.filter(|key| is_dead(key)).map(|key| (space, key)));
            if !part.deletes.is_empty() {
                self.engine.store.commit(Commit::new(vec![part])).map_err(storage)?;
            }
        }
    }
}
