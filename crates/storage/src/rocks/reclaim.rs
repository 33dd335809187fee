//! Gives the space of dropped shards back to the disk. Dropping a shard writes one mark over its
//! range, which is quick; the bytes below the mark go when a compaction meets them, and this thread
//! asks for that compaction, so that nobody waits for it. What it does not get to before the store
//! closes, later compactions do. The same thread looks now and then whether there is time to tidy up.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use orrery_types::ShardId;
use rocksdb::CompactOptions;

use super::tidy::Tidy;
use super::{Core, layout};
use crate::Space;

/// Between two looks at whether anybody writes.
const TIDY_PAUSE: Duration = Duration::from_secs(1);

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

    /// Has the space of a dropped shard given back.
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
    let mut tidy = Tidy::new(core);
    loop {
        match queue.recv_timeout(TIDY_PAUSE) {
            Ok(shard) => reclaim(core, shard),
            Err(RecvTimeoutError::Timeout) => tidy.look(core),
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
