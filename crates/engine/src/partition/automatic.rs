//! Automatic splits: of a partition that holds too much data, or of a container whose throughput requires
//! more partitions than it has. They run one after the other on a thread of their own, so that a long split
//! delays no other background work. Nothing is merged automatically.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use orrery_types::ids::{Address, Rid};
use orrery_types::{Error, Result, ShardId, limits};

use super::layout::SplitRequest;
use crate::Container;
use crate::catalog::offer::Throughput;
use crate::error::storage;
use crate::partition::PhysicalPartition;
use crate::partition::layout::Layouts;

/// When partitions are split automatically, and how many a new container has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutPolicy {
    /// Data of a partition beyond which it is split.
    pub partition_bytes_max: u64,
    /// Partitions that a container begins with at least.
    pub partitions_first: u32,
    /// Time for which clients can see that a partition is being split before its children take over,
    /// however little there is to copy.
    pub announced_ms: u64,
}

impl Default for LayoutPolicy {
    fn default() -> Self {
        Self {
            partition_bytes_max: limits::PARTITION_SIZE_BYTES_MAX,
            partitions_first: 1,
            announced_ms: 0,
        }
    }
}

/// Wakes and stops the thread for automatic splits.
#[derive(Default)]
pub(crate) struct SplitMonitor {
    state: Mutex<MonitorState>,
    wakeup: Condvar,
}

#[derive(Default)]
struct MonitorState {
    /// Something changed since the last check.
    check_requested: bool,
    stopped: bool,
    /// Partitions of one logical partition, which cannot be split, and when to check them again.
    indivisible: HashMap<ShardId, u64>,
}

/// Interval of the checks of partition sizes.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Interval of the checks of a partition that cannot be split, in seconds.
const INDIVISIBLE_S: u64 = 600;

impl SplitMonitor {
    fn lock(&self) -> std::sync::MutexGuard<'_, MonitorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread for a check.
    pub(crate) fn request_check(&self) {
        self.lock().check_requested = true;
        self.wakeup.notify_all();
    }

    /// Ends the thread after the current chunk of a split.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.wakeup.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Waits for a requested check, a stop, or the end of the interval.
    pub(crate) fn wait(&self) {
        let idle = |state: &mut MonitorState| !state.check_requested && !state.stopped;
        let waited = self.wakeup.wait_timeout_while(self.lock(), CHECK_INTERVAL, idle);
        waited.unwrap_or_else(PoisonError::into_inner).0.check_requested = false;
    }
}

impl Layouts<'_> {
    /// Splits partitions until none is due; returns the number of splits. On a shared store whoever has the lease of
    /// a container's background work looks.
    pub fn run_splits(self, stop: &dyn Fn() -> bool) -> Result<usize> {
        let (mut splits, mut failed) = (0, None);
        self.engine.nodes().before_pass();
        let state = self.engine.catalog.state();
        for container in state.containers().filter(|c| self.engine.nodes.holds(c.job())) {
            while !stop() {
                match self.split_if_due(container, stop) {
                    Ok(true) => splits += 1,
                    // It may also have been deleted, or split by a request.
                    Ok(false)
                    | Err(Error::NotFound | Error::OwnerNotFound | Error::PartitionGone) => break,
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
        }
        failed.map_or(Ok(splits), Err)
    }

    fn split_if_due(self, container: &Container, stop: &dyn Fn() -> bool) -> Result<bool> {
        let address = (Address::Rid(container.database_rid()), Address::Rid(container.rid()));
        let container = self.engine.catalog.container(&address.0, &address.1)?;
        let announced_ms = self.engine.layout.announced_ms;
        if self.needs_partitions(&container)? {
            let cut = SplitRequest { id: None, at: None, announced_ms };
            return self.split_while(&address.0, &address.1, &cut, stop).map(|_| true);
        }
        for partition in &container.partitions {
            if !self.is_too_large(partition)? || self.is_indivisible(partition) {
                continue;
            }
            let Some(at) = self.middle_of_data(&container, partition)? else {
                self.note_indivisible(partition);
                continue;
            };
            let id = partition.id.to_string();
            let cut = SplitRequest { id: Some(&id), at: Some(&at), announced_ms };
            return self.split_while(&address.0, &address.1, &cut, stop).map(|_| true);
        }
        Ok(false)
    }

    /// Whether the throughput of a container requires more partitions than it has.
    pub(crate) fn needs_partitions(self, container: &Container) -> Result<bool> {
        let offer = self.engine.offers().throughput_of(container)?;
        let wanted = offer.map_or(1, Throughput::partitions_least);
        Ok(container.partitions.len() < usize::try_from(wanted).unwrap_or(usize::MAX))
    }

    /// The same by the rid of what an offer is for; databases have no partitions.
    pub(crate) fn is_offer_pending(self, owner: &str) -> Result<bool> {
        let Ok(rid @ Rid::Container { database, .. }) = owner.parse::<Rid>() else {
            return Ok(false);
        };
        let database = Address::Rid(Rid::Database(database));
        match self.engine.catalog.container(&database, &Address::Rid(rid)) {
            Ok(container) => self.needs_partitions(&container),
            Err(_) => Ok(false),
        }
    }

    fn is_too_large(self, partition: &PhysicalPartition) -> Result<bool> {
        let stats = self.engine.store.stats(partition.shard).map_err(storage)?;
        Ok(stats.items_bytes + stats.index_bytes > self.engine.layout.partition_bytes_max)
    }

    fn is_indivisible(self, partition: &PhysicalPartition) -> bool {
        let state = self.engine.layout_changes.monitor.lock();
        state
            .indivisible
            .get(&partition.shard)
            .is_some_and(|until_s| self.engine.clock.now_s() < *until_s)
    }

    fn note_indivisible(self, partition: &PhysicalPartition) {
        tracing::warn!(
            partition = partition.id,
            "partition exceeds its size limit but holds one logical partition, which cannot be split"
        );
        let until_s = self.engine.clock.now_s() + INDIVISIBLE_S;
        self.engine.layout_changes.monitor.lock().indivisible.insert(partition.shard, until_s);
    }
}
