//! Heads of shards: as rows of the table, and what this process has last heard of their LSNs.
//!
//! What was heard is a lower bound: every commit and every read of this process adds to it, and so does the thread
//! that looks at the heads of watched shards (`node_session`).

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, PoisonError, RwLock};

use orrery_storage::shard_head::ShardHead;
use orrery_storage::{Head, ShardState};
use orrery_types::{Epoch, Lsn, ShardId};
use postgres::Row;

use crate::scan::lsn;

/// The number of a shard in the server's type.
pub(crate) fn shard_number(shard: ShardId) -> i32 {
    i32::try_from(shard.0).expect("shards are numbered from 0, and no account has so many")
}

/// The shard with a number of the server's.
pub(crate) fn shard_id(row: &Row, column: usize) -> ShardId {
    ShardId(row.get::<_, i32>(column).unsigned_abs())
}

/// The number of a state in the table of heads.
pub(crate) fn state_number(state: ShardState) -> i16 {
    match state {
        ShardState::Building => 0,
        ShardState::Open => 1,
        ShardState::Closed => 2,
        ShardState::Dropped => 3,
    }
}

/// A head, whose columns `lsn, epoch, control, state` begin at `column`.
pub(crate) fn head_of(row: &Row, column: usize) -> Head {
    let state = match row.get::<_, i16>(column + 3) {
        0 => ShardState::Building,
        1 => ShardState::Open,
        2 => ShardState::Closed,
        _ => ShardState::Dropped,
    };
    let (epoch, control) = (Epoch(lsn(row, column + 1).0), lsn(row, column + 2));
    Head { lsn: lsn(row, column), epoch, control, state }
}

/// A shard that this process has heard of.
pub(crate) struct KnownShard {
    /// Only its LSN counts.
    head: ShardHead,
    watchers: AtomicUsize,
    trimmed_at: AtomicU64,
}

impl KnownShard {
    fn new() -> Self {
        Self {
            head: ShardHead::new(Epoch(0), Lsn(0), ShardState::Open),
            watchers: AtomicUsize::new(0),
            trimmed_at: AtomicU64::new(0),
        }
    }

    /// The last LSN that was heard of.
    pub(crate) fn lsn(&self) -> Lsn {
        self.head.lsn()
    }

    /// The LSN at which its log was last looked at, which becomes this one.
    pub(crate) fn trimmed_at(&self, lsn: u64) -> u64 {
        self.trimmed_at.swap(lsn, Relaxed)
    }

    /// Watches it until what is returned is dropped.
    pub(crate) fn watch(&self) -> Watch<'_> {
        self.watchers.fetch_add(1, SeqCst);
        Watch(self)
    }
}

/// A shard that is watched.
pub(crate) struct Watch<'k>(&'k KnownShard);

impl Watch<'_> {
    /// Waits for an LSN after this one, or for the time to be over; an error if the shard is gone.
    pub(crate) fn wait(
        &self,
        after: Lsn,
        timeout_ms: u64,
    ) -> Result<Lsn, orrery_storage::StorageError> {
        self.0.head.watch(after, timeout_ms)
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.watchers.fetch_sub(1, SeqCst);
    }
}

/// The shards that this process has heard of.
#[derive(Default)]
pub(crate) struct KnownShards {
    shards: RwLock<HashMap<ShardId, Arc<KnownShard>>>,
}

impl KnownShards {
    pub(crate) fn find(&self, shard: ShardId) -> Option<Arc<KnownShard>> {
        self.shards.read().unwrap_or_else(PoisonError::into_inner).get(&shard).cloned()
    }

    pub(crate) fn shard(&self, shard: ShardId) -> Arc<KnownShard> {
        self.find(shard).unwrap_or_else(|| {
            let mut shards = self.shards.write().unwrap_or_else(PoisonError::into_inner);
            shards.entry(shard).or_insert_with(|| Arc::new(KnownShard::new())).clone()
        })
    }

    /// A shard has come to an LSN. Wakes who waits for it.
    pub(crate) fn saw(&self, shard: ShardId, lsn: Lsn) {
        self.shard(shard).head.raise(lsn);
    }

    /// A shard does not exist any more.
    pub(crate) fn forget(&self, shard: ShardId) {
        let mut shards = self.shards.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shards.remove(&shard) {
            known.head.end();
        }
    }

    /// Those that somebody watches.
    pub(crate) fn watched(&self) -> Vec<ShardId> {
        let shards = self.shards.read().unwrap_or_else(PoisonError::into_inner);
        let watched = shards.iter().filter(|(_, known)| known.watchers.load(SeqCst) > 0);
        watched.map(|(shard, _)| *shard).collect()
    }
}
