//! Splits that nobody asks for by name: a partition holds too much, or the container's throughput
//! asks for more partitions than there are. A thread of their own does them, one after the other, so
//! that a long one holds up nothing else. Less data or less throughput merges nothing.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use orrery_types::ids::{Address, Rid};
use orrery_types::{Error, Result, ShardId, limits};

use super::layout::Cut;
use crate::catalog::offer::Throughput;
use crate::error::storage;
use crate::partition::PhysicalPartition;
use crate::{Container, Engine};

/// When partitions are split by themselves, and how many a container begins with.
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

/// What the thread is to look at.
#[derive(Default)]
pub(crate) struct Watch {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    /// Something has changed that the thread has not looked at.
    asked: bool,
    stopped: bool,
    /// Partitions that hold one logical partition, and when to look at them again.
    whole: HashMap<ShardId, u64>,
}

/// Time between two looks at the sizes of partitions.
const PAUSE: Duration = Duration::from_secs(10);
/// Time after which a partition that cannot be divided is looked at again, in seconds.
const WHOLE_S: u64 = 600;

impl Watch {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread.
    pub(crate) fn ask(&self) {
        self.lock().asked = true;
        self.moved.notify_all();
    }

    /// Ends the thread after what it is doing.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.moved.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Waits until somebody asks, or for a while.
    pub(crate) fn wait(&self) {
        let idle = |state: &mut State| !state.asked && !state.stopped;
        let waited = self.moved.wait_timeout_while(self.lock(), PAUSE, idle);
        waited.unwrap_or_else(PoisonError::into_inner).0.asked = false;
    }
}

impl Engine {
    /// Splits what is too large or has too much to do, until nothing is; returns how often.
    pub fn run_splits(&self, stop: &dyn Fn() -> bool) -> Result<usize> {
        let (mut splits, mut failed) = (0, None);
        for container in self.catalog.state().containers() {
            while !stop() {
                match self.split_if_due(container, stop) {
                    Ok(true) => splits += 1,
                    // Or it was deleted, or somebody else has split it.
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

    fn split_if_due(&self, container: &Container, stop: &dyn Fn() -> bool) -> Result<bool> {
        let address = (Address::Rid(container.database_rid()), Address::Rid(container.rid()));
        let container = self.catalog.container(&address.0, &address.1)?;
        let announced_ms = self.layout.announced_ms;
        if self.needs_partitions(&container)? {
            let cut = Cut { id: None, at: None, announced_ms };
            return self.split_while(&address.0, &address.1, &cut, stop).map(|_| true);
        }
        for partition in &container.partitions {
            if !self.is_too_large(partition)? || self.is_whole(partition) {
                continue;
            }
            let Some(at) = self.middle_of_data(&container, partition)? else {
                self.note_whole(partition);
                continue;
            };
            let id = partition.id.to_string();
            let cut = Cut { id: Some(&id), at: Some(&at), announced_ms };
            return self.split_while(&address.0, &address.1, &cut, stop).map(|_| true);
        }
        Ok(false)
    }

    /// Whether the throughput of a container asks for more partitions than it has.
    pub(crate) fn needs_partitions(&self, container: &Container) -> Result<bool> {
        let offer = self.throughput_of(container)?;
        let wanted = offer.map_or(1, Throughput::partitions_least);
        Ok(container.partitions.len() < usize::try_from(wanted).unwrap_or(usize::MAX))
    }

    /// The same by the rid of what an offer is for; databases have no partitions.
    pub(crate) fn is_offer_pending(&self, owner: &str) -> Result<bool> {
        let Ok(rid @ Rid::Container { database, .. }) = owner.parse::<Rid>() else {
            return Ok(false);
        };
        let database = Address::Rid(Rid::Database(database));
        match self.catalog.container(&database, &Address::Rid(rid)) {
            Ok(container) => self.needs_partitions(&container),
            Err(_) => Ok(false),
        }
    }

    fn is_too_large(&self, partition: &PhysicalPartition) -> Result<bool> {
        let stats = self.store.stats(partition.shard).map_err(storage)?;
        Ok(stats.items_bytes + stats.index_bytes > self.layout.partition_bytes_max)
    }

    fn is_whole(&self, partition: &PhysicalPartition) -> bool {
        let state = self.reshapes.watch.lock();
        state.whole.get(&partition.shard).is_some_and(|until_s| self.clock.now_s() < *until_s)
    }

    fn note_whole(&self, partition: &PhysicalPartition) {
        tracing::warn!(
            partition = partition.id,
            "a partition is too large and holds one logical partition, which cannot be divided"
        );
        let until_s = self.clock.now_s() + WHOLE_S;
        self.reshapes.watch.lock().whole.insert(partition.shard, until_s);
    }
}
