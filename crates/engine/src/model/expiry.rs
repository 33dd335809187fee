//! Expired items of containers that a model is about: their end is a delete, with all that follows.
//! Where something still refers to one and the model forbids its end, it stays, hidden, until nothing
//! does.

use orrery_storage::{Commit, Entry, Part, Space, StorageError, key};
use orrery_types::{Error, Result, limits};

use super::{Event, ModelScope};
use crate::change::Becomes;
use crate::draft::{Draft, View};
use crate::items::Located;
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
            match self.store.commit(Commit { parts: draft.parts()?.0 }) {
                Ok(_) => return Ok(true),
                Err(StorageError::Conflict { .. }) => {}
                Err(error) => return Err(storage(error)),
            }
        }
        Ok(false)
    }
}
