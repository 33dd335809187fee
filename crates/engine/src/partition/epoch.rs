//! Epochs refuse writers with an old definition. Every replacement of a container's definition, and of a model
//! that names the container, raises the epochs of its shards in the same commit, and a split or merge
//! retires some of them. From then on the store refuses commits that were prepared under the old definition,
//! so none of them lands after the backfill that the change has started. A writer that is refused reloads the
//! definition and starts over.

use std::sync::Arc;

use orrery_storage::{Commit, Head, HeadChange, Part, ShardState};
use orrery_types::ids::Address;
use orrery_types::{Epoch, Error, Result, ShardId};

use crate::error::storage;
use crate::{Container, Engine};

/// How often a request reloads a definition that changes under it.
const RELOADS_MAX: usize = 8;

impl Container {
    /// Where its data lies, and under which epochs.
    pub(crate) fn shards(&self) -> Vec<(ShardId, Epoch)> {
        self.partitions.iter().map(|p| (p.shard, p.epoch)).collect()
    }
}

/// Epochs of shards, and what runs again under a new one.
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
            let Some(now) = self.reload(container) else { break };
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
                now.push(self.reload(container).ok_or(Error::OwnerNotFound)?);
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
            let Some(now) = self.reload(container) else { break };
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

    /// The container as of now, after every catalog change in progress has ended; `None` if it is gone.
    fn reload(self, container: &Container) -> Option<Arc<Container>> {
        self.engine.catalog.wait_for_changes();
        let database = Address::Rid(container.database_rid());
        self.engine.catalog.container(&database, &Address::Rid(container.rid())).ok()
    }

    /// Brings shards to the epochs that the catalog has. In version 0.1 the catalog was changed first, so
    /// a process that ended in between has left them behind.
    pub(crate) fn catch_up(self, container: &Container) -> Result<()> {
        let shards: Vec<ShardId> = container.partitions.iter().map(|p| p.shard).collect();
        let heads = self.engine.store.heads(&shards).map_err(storage)?;
        for (partition, head) in container.partitions.iter().zip(heads) {
            let Some(Head { epoch, state: ShardState::Open, .. }) = head else { continue };
            if epoch < partition.epoch {
                let raise = HeadChange::epoch(partition.epoch);
                let commit = Commit::new(vec![Part::of_head(partition.shard, epoch, raise)]);
                self.engine.store.commit(commit).map_err(storage)?;
            }
        }
        Ok(())
    }
}
