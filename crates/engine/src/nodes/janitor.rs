//! What dead nodes have left of splits, merges and new containers. The holder of the account's lease looks for it:
//! leases of splits and merges whose node is dead, and shards that nothing names. A shard that is being made is named
//! by the lease of its split, or for a moment by nobody, while a container is made; so one that stays
//! unnamed is dropped after a while, and the commit that would have named it then fails. A shard that was split,
//! merged or deleted stays as long for reads that began before.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use orrery_storage::key::Job;
use orrery_storage::{ShardState, StorageError};
use orrery_types::{Result, ShardId, limits};

use super::NodeRegistry;
use super::lease::Cluster;
use crate::catalog::SYSTEM_SHARD;
use crate::error::storage;

/// Shards that are not in use, since when they were seen so, and when to look again.
#[derive(Default)]
pub(super) struct UnusedShards {
    since_us: BTreeMap<ShardId, (ShardState, u64)>,
    next_us: u64,
}

impl NodeRegistry<'_> {
    /// Cleans up after splits and merges of this process that have ended without an answer.
    pub(crate) fn clean_up_own(self) -> Result<()> {
        let Some(membership) = &self.engine.nodes.membership else { return Ok(()) };
        let held = membership.held.load();
        for (job, version) in &held.jobs {
            let is_layout = matches!(job, Job::Layout { .. });
            if is_layout && *membership.running_layout() != Some(*job) {
                let cluster = Cluster::read(self.store())?;
                let lease = cluster.leases.get(job).filter(|lease| lease.version == *version);
                lease.map_or(Ok(()), |lease| self.clean_up_layout(*job, lease.clone()))?;
            }
        }
        Ok(())
    }

    /// Cleans up after nodes that are dead, and frees shards that are no longer in use.
    pub(crate) fn clean_up(self) -> Result<()> {
        let Some(membership) = &self.engine.nodes.membership else { return Ok(()) };
        let (store, now_us) = (self.store(), self.engine.clock.now_us());
        let mut cluster = Cluster::read(store)?;
        cluster.bury(store, now_us)?;
        let is_layout = |job: &Job| matches!(job, Job::Layout { .. });
        for (job, lease) in cluster.leases.iter().filter(|(job, _)| is_layout(job)) {
            if cluster.is_free(*job) {
                tracing::warn!(
                    node = lease.record.node,
                    "a split or merge of a dead node is undone"
                );
                self.clean_up_layout(*job, lease.clone())?;
            }
        }
        let mut unused = membership.unused.lock().unwrap_or_else(PoisonError::into_inner);
        if now_us < unused.next_us {
            return Ok(());
        }
        let made: Vec<ShardId> =
            cluster.leases.values().flat_map(|lease| &lease.record.children).copied().collect();
        let shards = store.shards().map_err(storage)?;
        let found = shards
            .into_iter()
            .map(|(shard, head)| (shard, head.state))
            .filter(|(s, state)| state.may_be_dropped() && *s != SYSTEM_SHARD && !made.contains(s));
        let before = std::mem::take(&mut unused.since_us);
        for (shard, state) in found {
            let known = before.get(&shard).filter(|(known, _)| *known == state);
            unused.since_us.insert(shard, known.copied().unwrap_or((state, now_us)));
        }
        let kept_us = limits::SHARD_RETIRED_S * 1_000_000;
        let due = unused.since_us.iter().filter(|(_, (_, since_us))| since_us + kept_us <= now_us);
        let due: Vec<ShardId> = due.map(|(shard, _)| *shard).collect();
        for shard in due {
            match store.drop_shard(shard) {
                // The commit that names it was faster.
                Ok(()) | Err(StorageError::Gone { .. }) => drop(unused.since_us.remove(&shard)),
                Err(error) => return Err(storage(error)),
            }
        }
        unused.next_us = now_us + limits::UNUSED_SHARDS_MS * 1000;
        Ok(())
    }
}
