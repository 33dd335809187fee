//! Epochs fence writers with an old definition. A change of what writes leave behind raises the epoch of
//! the container's shards, and a split or merge retires some of them. From then on the store refuses
//! commits that were prepared under the old definition, so that none of them lands after the backfill
//! that the change has started. A writer that is refused reloads the definition and starts over.

use std::sync::Arc;

use orrery_storage::StorageError;
use orrery_types::ids::Address;
use orrery_types::{Epoch, Error, Result, ShardId};

use crate::error::storage;
use crate::model::ModelContext;
use crate::{Container, Engine};

/// How often a request reloads a definition that changes under it.
const RELOADS_MAX: usize = 8;

impl Container {
    /// Gives its partitions the next epoch; the catalog must know it before the store does.
    pub(crate) fn raise_epoch(&mut self) {
        for partition in &mut self.partitions {
            partition.epoch = Epoch(partition.epoch.0 + 1);
        }
    }
}

impl Container {
    /// Where its data lies, and under which epochs.
    pub(crate) fn shards(&self) -> Vec<(ShardId, Epoch)> {
        self.partitions.iter().map(|p| (p.shard, p.epoch)).collect()
    }
}

/// Epochs of shards: fences, and what runs again under a new one.
#[derive(Clone, Copy)]
pub(crate) struct Epochs<'e> {
    pub(crate) engine: &'e Engine,
}

impl Epochs<'_> {
    /// Runs `work` with the current definition, and again while the store refuses its epoch.
    pub(crate) fn retry_on_stale_epoch<T>(
        self,
        container: &Container,
        work: &mut dyn FnMut(&Container) -> Result<T>,
    ) -> Result<T> {
        let mut result = work(container);
        for _ in 0..RELOADS_MAX {
            if !matches!(result, Err(Error::PartitionGone)) {
                break;
            }
            let Some(now) = self.reload_and_fence(container)? else { break };
            result = work(&now);
        }
        result
    }

    /// The same for work on several containers. One that was deleted meanwhile has no items.
    pub(crate) fn retry_all_on_stale_epoch<T>(
        self,
        containers: &[Arc<Container>],
        work: &mut dyn FnMut(&[Arc<Container>]) -> Result<T>,
    ) -> Result<T> {
        let mut result = work(containers);
        for _ in 0..RELOADS_MAX {
            if !matches!(result, Err(Error::PartitionGone)) {
                break;
            }
            let mut now = Vec::with_capacity(containers.len());
            for container in containers {
                now.push(self.reload_and_fence(container)?.ok_or(Error::OwnerNotFound)?);
            }
            result = work(&now);
        }
        result
    }

    /// Runs a read with the current layout, and again if one of the shards that it began with is gone.
    pub(crate) fn retry_on_gone_shard<T>(
        self,
        container: &Container,
        work: &mut dyn FnMut(&Container) -> Result<T>,
    ) -> Result<T> {
        let mut result = work(container);
        if !matches!(result, Err(Error::PartitionGone)) {
            return result;
        }
        let mut tried = container.shards();
        for _ in 0..RELOADS_MAX {
            let Some(now) = self.reload_and_fence(container)? else { break };
            // What is gone was never in the layout: the client asked for it.
            if now.shards() == tried {
                break;
            }
            tried = now.shards();
            result = work(&now);
            if !matches!(result, Err(Error::PartitionGone)) {
                break;
            }
        }
        result
    }

    /// The container as of now, after every catalog change in progress has ended. Its shards are fenced,
    /// and so are those that its writes reach through a model. `None` if it is gone.
    fn reload_and_fence(self, container: &Container) -> Result<Option<Arc<Container>>> {
        self.engine.catalog.wait_for_changes();
        let database = Address::Rid(container.database_rid());
        let Ok(now) = self.engine.catalog.container(&database, &Address::Rid(container.rid()))
        else {
            return Ok(None);
        };
        self.fence(&now)?;
        let owner = self.engine.models().database_of(&now);
        if let Some(scope) = ModelContext::of(owner.as_deref(), &now) {
            let reached = |other: &&Arc<Container>| {
                other.number != now.number && scope.model.rules.concerns(&other.id)
            };
            scope.database.containers().filter(reached).try_for_each(|other| self.fence(other))?;
        }
        Ok(Some(now))
    }

    /// Brings the shards to the epoch that the catalog has. No harm if they are there.
    pub(crate) fn fence(self, container: &Container) -> Result<()> {
        for partition in &container.partitions {
            match self.engine.store.fence_shard(partition.shard, partition.epoch) {
                // It was deleted meanwhile, or has a later epoch: what follows will notice.
                Ok(()) | Err(StorageError::Gone { .. }) => {}
                Err(error) => return Err(storage(error)),
            }
        }
        Ok(())
    }

    /// Fences a container's shards, unless the disk is full: then the backfill does it, or a writer.
    pub(crate) fn fence_at_start(self, container: &Container) -> Result<()> {
        match self.fence(container) {
            Err(error @ Error::Unavailable(_)) => {
                tracing::warn!(%error, "a shard is fenced later");
                Ok(())
            }
            fenced => fenced,
        }
    }
}
