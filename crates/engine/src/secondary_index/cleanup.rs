//! What a deleted index leaves in the shards of its source is removed in the background.

use orrery_storage::key;
use orrery_storage::{Commit, Part, ReadAt, Scan, Space, StorageError};
use orrery_types::{Error, Result, limits};

use super::SecondaryIndexes;
use crate::Container;
use crate::background::{BATCHES_PER_STEP, UnitProgress};
use crate::error::storage;
use crate::partition::PhysicalPartition;

impl SecondaryIndexes<'_> {
    /// Removes some of the keys of a former index; the catalog forgets it when there are no more.
    pub(super) fn remove_former(
        self,
        source: &Container,
        index: u32,
        stop: &dyn Fn() -> bool,
    ) -> Result<UnitProgress> {
        // The commit that removed the index raised the epochs, so no writer that knew of it comes after it.
        let mut batches = 0..BATCHES_PER_STEP;
        for partition in &source.partitions {
            while self.remove_some(partition, index)? {
                if stop() || batches.next().is_none() {
                    return Ok(UnitProgress::Unfinished);
                }
            }
        }
        let is_done = self.forget_former(source, index)?;
        Ok(if is_done { UnitProgress::Done } else { UnitProgress::Unfinished })
    }

    /// One commit's worth of it; whether there may be more.
    fn remove_some(self, partition: &PhysicalPartition, index: u32) -> Result<bool> {
        // Its own writes are refused if it goes by what another process has changed.
        let store = self.engine.unchecked_store();
        let snapshot = match store.snapshot(partition.shard, ReadAt::Latest) {
            // The source was deleted meanwhile.
            Err(StorageError::Gone { .. }) => return Ok(false),
            other => other.map_err(storage)?,
        };
        let mut part = Part::new(partition.shard, partition.epoch);
        for (space, bounds) in [
            (Space::Index, key::secondary_places(index)),
            (Space::Meta, key::secondary_deletions(index)),
            (Space::Meta, key::secondary_held_of(index)),
        ] {
            let room = limits::SECONDARY_INDEX_ITEMS_MAX.saturating_sub(part.deletes.len());
            let scan = Scan { keys_only: true, ..bounds.scan(space, room.max(1), usize::MAX) };
            let found = snapshot.scan(&scan).map_err(storage)?;
            part.deletes.extend(found.into_iter().map(|entry| (space, entry.key)));
        }
        let position = key::secondary_position(index);
        let is_last = part.deletes.is_empty();
        if is_last {
            if snapshot.get(Space::Meta, &position).map_err(storage)?.is_none() {
                return Ok(false);
            }
            part.deletes.push((Space::Meta, position));
        }
        drop(snapshot);
        match self.engine.store.commit(Commit::new(vec![part])) {
            Ok(_) => Ok(!is_last),
            Err(StorageError::Gone { .. }) => Err(Error::PartitionGone),
            Err(error) => Err(storage(error)),
        }
    }
}
