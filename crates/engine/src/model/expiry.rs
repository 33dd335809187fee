//! Expired items of containers that a model is about: their end is a delete, with all that follows.
//! Where something still refers to one and the model forbids its end, it stays, hidden, until nothing
//! does.

use orrery_storage::{Commit, Entry, Part, ReadAt, Scan, Space, StorageError, key};
use orrery_types::{Error, PartitionKey, Result, limits};

use super::{Event, ModelScope};
use crate::change::Becomes;
use crate::draft::{Draft, View};
use crate::items::{Located, Place};
use crate::partition::PhysicalPartition;
use crate::storage_error::storage;
use crate::{Container, Engine};

impl Engine {
    /// Removes expired items one by one; returns how many.
    pub(crate) fn sweep_modelled(
        &self,
        container: &Container,
        partition: &PhysicalPartition,
        entries: &[Entry],
    ) -> Result<usize> {
        let mut removed = 0;
        for entry in entries {
            let row = key::parse_ttl(&entry.key).map(|(_, row)| row).unwrap_or_default();
            let found = self.locate_hidden(container, partition, row, &entry.value.bytes)?;
            if let Some((located, _)) = found {
                removed += usize::from(self.purge_modelled(container, &located)?);
            } else {
                let mut part = Part::new(partition.shard, partition.epoch);
                part.deletes.push((Space::Ttl, entry.key.clone()));
                self.store.commit(Commit { parts: vec![part] }).map_err(storage)?;
            }
        }
        Ok(removed)
    }

    /// Deletes all items of a logical partition in one commit, with all that follows. Nobody else
    /// writes to it meanwhile but for what follows from writes elsewhere.
    pub(crate) fn erase_modelled(
        &self,
        container: &Container,
        partition: &PhysicalPartition,
        partition_key: &PartitionKey,
    ) -> Result<Place> {
        for _ in 0..limits::COMMIT_ATTEMPTS_MAX {
            let database = self.database_of(container);
            let mut draft = Draft::new(self, container, partition, View::Now);
            draft.model.scope = ModelScope::of(database.as_deref(), container);
            let mut events = Vec::new();
            for key in self.keys_of(container, partition, partition_key)? {
                let at = Located { partition, partition_key: partition_key.clone(), key };
                draft.load(&at)?;
                let Some(past) = draft.past_image(&at.key)? else { continue };
                draft.settle(&at, Becomes::Gone);
                events.push(Event::new(draft.spot(&at), Some(past), None));
            }
            // All of them are gone by now, so that none of them keeps another.
            for event in events {
                draft.follow(vec![event])?;
            }
            match self.commit_all(Commit { parts: draft.parts()?.0 }) {
                Ok(committed) => {
                    let lsn = committed.lsns.first().copied().unwrap_or_default();
                    return Ok(Place { partition: partition.id, lsn, item_lsn: lsn });
                }
                Err(StorageError::Conflict { .. }) => {}
                Err(error) => return Err(storage(error)),
            }
        }
        Err(Error::RetryWith)
    }

    /// The item keys of a logical partition, if they are not too many for one commit.
    fn keys_of(
        &self,
        container: &Container,
        partition: &PhysicalPartition,
        partition_key: &PartitionKey,
    ) -> Result<Vec<Vec<u8>>> {
        let effective = container.definition.partition_key.effective(partition_key);
        let bounds = key::items_of(&effective, partition_key);
        let snapshot = self.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
        let scan = Scan {
            space: Space::Items,
            from: &bounds.from,
            to: &bounds.to,
            reverse: false,
            max_rows: limits::MODEL_ITEMS_MAX + 1,
            max_bytes: usize::MAX,
            keys_only: true,
        };
        let entries = snapshot.scan(&scan).map_err(storage)?;
        if entries.len() > limits::MODEL_ITEMS_MAX {
            return Err(Error::ModelViolated(
                format!(
                    "The partition key has more than {} items, and under a model they are deleted in \
                     one commit with all that follows. Delete some of them first.",
                    limits::MODEL_ITEMS_MAX
                )
                .into(),
            ));
        }
        Ok(entries.into_iter().map(|entry| entry.key).collect())
    }

    /// Removes an item if it is hidden and may go; whether it is gone afterwards.
    pub(crate) fn purge_modelled(
        &self,
        container: &Container,
        located: &Located<'_>,
    ) -> Result<bool> {
        for _ in 0..limits::COMMIT_ATTEMPTS_MAX {
            let database = self.database_of(container);
            let mut draft = Draft::new(self, container, located.partition, View::Now);
            draft.model.scope = ModelScope::of(database.as_deref(), container);
            draft.load(located)?;
            let Some(past) = draft.past_image(&located.key)? else { return Ok(true) };
            if draft.current(&located.key).is_some() {
                return Ok(false);
            }
            draft.settle(located, Becomes::Gone);
            let event = Event::new(draft.spot(located), Some(past), None);
            match draft.follow(vec![event]) {
                Ok(()) => {}
                Err(error @ (Error::StillReferenced(_) | Error::ModelViolated(_))) => {
                    tracing::info!(container = &*container.id, %error, "an expired item stays for now");
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
            match self.commit_all(Commit { parts: draft.parts()?.0 }) {
                Ok(_) => return Ok(true),
                Err(StorageError::Conflict { .. }) => {}
                Err(error) => return Err(storage(error)),
            }
        }
        Ok(false)
    }
}
