//! Space reclamation. Dropping a shard writes one range deletion, which is quick; the disk space is
//! freed when a compaction processes that range. This thread requests the compaction, so that no
//! caller waits for it; what it has not done when the store closes, later compactions do. The same
//! thread polls for idle compaction.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use orrery_types::ShardId;
use rocksdb::CompactOptions;

use super::idle_compaction::IdleCompaction;
use super::{Core, layout};
use crate::Space;

/// Time between two polls for idle compaction.
const IDLE_POLL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Reclaimer {
    dropped: Sender<ShardId>,
    thread: JoinHandle<()>,
}

impl Reclaimer {
    pub(super) fn start(core: &Arc<Core>) -> std::io::Result<Self> {
        let (dropped, queue) = channel();
        let core = core.clone();
        let thread = std::thread::Builder::new().name("reclaimer".into());
        Ok(Self { dropped, thread: thread.spawn(move || run(&core, &queue))? })
    }

    /// Requests that the space of a dropped shard be freed.
    pub(super) fn reclaim(&self, shard: ShardId) {
        // The thread ends only with this sender, or by a panic that is reported already.
        let _ = self.dropped.send(shard);
    }

    /// Ends the thread; the caller has stopped the compactions.
    pub(super) fn end(self) {
        drop(self.dropped);
        let _ = self.thread.join();
    }
}

fn run(core: &Core, queue: &Receiver<ShardId>) {
    let mut compaction = IdleCompaction::new(core);
    loop {
        match queue.recv_timeout(IDLE_POLL) {
            Ok(shard) => reclaim(core, shard),
            Err(RecvTimeoutError::Timeout) => compaction.poll(core),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn reclaim(core: &Core, shard: ShardId) {
    let (from, to) = layout::shard_bounds(shard);
    for space in Space::ALL {
        if core.queue.is_closed() {
            return;
        }
        let mut options = CompactOptions::default();
        options.set_exclusive_manual_compaction(false);
        core.db.compact_range_cf_opt(core.cf(space), Some(from), Some(to), &options);
    }
}
