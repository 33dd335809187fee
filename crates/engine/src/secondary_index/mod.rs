//! Global secondary indexes: read-only containers that are kept from a source container of the same database,
//! under another partition key. docs/global-secondary-indexes.md has the whole.
//!
//! An index follows the feed of latest versions of its source, shard by shard. Each shard of the source has, for
//! each of its indexes, the *position* up to which its feed was applied, the *place* of each item in the index, and
//! the *deletions* that the index has still to follow, because the feed does not tell them. The worker
//! ([`feed`]) reads all three with the source items from one snapshot, and one commit over the shards of source
//! and index changes items, places and position together. Its precondition on the position makes each step happen
//! once, whatever is killed, split or merged meanwhile.

pub(crate) mod cleanup;
pub(crate) mod definition;
mod feed;
pub(crate) mod item;
pub(crate) mod link;
pub(crate) mod position;
mod step;
pub(crate) mod verify;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::{Container, Engine};

pub(crate) use link::SecondaryIndexLinks;

/// How far an index is behind its source, as this process has seen it last.
#[derive(Debug, Default)]
pub(crate) struct IndexFeeding {
    /// Whether its initial build has begun.
    started: AtomicBool,
    /// By partition of the source: the second of the oldest change that is still to be applied.
    waiting_since_s: Mutex<BTreeMap<u32, u64>>,
}

impl IndexFeeding {
    pub(crate) fn start(&self) {
        self.started.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    /// Notes since when the oldest change of a partition waits, if one does.
    pub(crate) fn note(&self, partition: u32, since_s: Option<u64>) {
        let mut waiting = self.waiting_since_s.lock().unwrap_or_else(PoisonError::into_inner);
        match since_s {
            Some(since_s) => drop(waiting.insert(partition, since_s)),
            None => drop(waiting.remove(&partition)),
        }
    }

    /// Forgets partitions that were split or merged.
    pub(crate) fn retain(&self, is_there: impl Fn(u32) -> bool) {
        let mut waiting = self.waiting_since_s.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|partition, _| is_there(*partition));
    }

    /// The age of the oldest change that is still to be applied.
    pub(crate) fn lag_s(&self, now_s: u64) -> u64 {
        let waiting = self.waiting_since_s.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.values().min().map_or(0, |since_s| now_s.saturating_sub(*since_s))
    }
}

/// The worker of indexes: one at a time, and woken when there is something new to index.
#[derive(Debug, Default)]
pub(crate) struct IndexWorker {
    alone: Mutex<()>,
    wakeup: (Mutex<bool>, Condvar),
}

impl IndexWorker {
    /// Wakes the worker.
    pub(crate) fn wake(&self) {
        *self.wakeup.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wakeup.1.notify_all();
    }

    /// Waits for a wakeup, or for so long.
    pub(crate) fn wait(&self, time: Duration) {
        let woken = self.wakeup.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.wakeup.1.wait_timeout_while(woken, time, |woken| !*woken);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

/// Global secondary indexes of all databases.
#[derive(Clone, Copy)]
pub struct SecondaryIndexes<'e> {
    pub(crate) engine: &'e Engine,
}

impl SecondaryIndexes<'_> {
    /// Lets the worker look for something to index now.
    pub(crate) fn wake(self) {
        self.engine.index_worker.wake();
    }

    /// The age of the oldest change that is still to be applied to an index, in seconds; `None` if the container is
    /// no index.
    pub fn lag_of(self, container: &Container) -> Option<u64> {
        let now_s = self.engine.clock.now_s();
        container.is_secondary_index().then(|| container.feeding.lag_s(now_s))
    }

    /// The greatest of all indexes.
    pub fn lag_s(self) -> u64 {
        let (state, now_s) = (self.engine.catalog.state(), self.engine.clock.now_s());
        state.containers().map(|container| container.feeding.lag_s(now_s)).max().unwrap_or_default()
    }
}
