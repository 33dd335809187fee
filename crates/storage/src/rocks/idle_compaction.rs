//! Idle compaction: once nobody writes, level-0 files are merged into one sorted run. An iterator
//! merges all sorted runs, and a query that reads a few dozen entries takes a third less time over
//! one of them. `RocksDB` by itself waits for more files, because it must expect more writes.

use rocksdb::CompactOptions;

use super::row_cache::SequencePoint;
use super::{Core, layout};
use crate::Space;

/// A space is compacted if all its files are at most this many times as large as the new ones.
const SIZE_RATIO_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct IdleCompaction {
    /// The write sequence at the last poll.
    seen: SequencePoint,
    /// Everything written up to here is compacted. Files that exist at the start stay as they are.
    compacted: SequencePoint,
}

impl IdleCompaction {
    pub(super) fn new(core: &Core) -> Self {
        let now = core.sequence.point();
        Self { seen: now, compacted: now }
    }

    /// Compacts if nothing was written since the last poll.
    pub(super) fn poll(&mut self, core: &Core) {
        let now = core.sequence.point();
        let is_idle = now == self.seen && core.sequence.is_current(now);
        self.seen = now;
        if !is_idle || now == self.compacted {
            return;
        }
        self.compacted = now;
        for space in Space::ALL {
            if core.queue.is_closed() || !core.sequence.is_current(now) {
                return;
            }
            if is_worthwhile(core, space) {
                let mut options = CompactOptions::default();
                options.set_exclusive_manual_compaction(false);
                let all = None::<&[u8]>;
                core.db.compact_range_cf_opt(core.cf(space), all, all, &options);
            }
        }
    }
}

fn is_worthwhile(core: &Core, space: Space) -> bool {
    // Without the list of files nothing is compacted; `RocksDB` does it later.
    let files = core.db.live_files().unwrap_or_default();
    let own = || files.iter().filter(|file| file.column_family_name == layout::name(space));
    let all: usize = own().map(|file| file.size).sum();
    let new: usize = own().filter(|file| file.level == 0).map(|file| file.size).sum();
    new > 0 && all <= new.saturating_mul(SIZE_RATIO_MAX)
}

#[cfg(test)]
mod tests {
    use super::super::{RocksOptions, RocksStore};
    use super::*;
    use crate::{Commit, Part, Put, Store as _};
    use orrery_types::{Epoch, ShardId};

    const SHARD: ShardId = ShardId(1);

    fn write(store: &RocksStore, number: u32) {
        let key = number.to_be_bytes().to_vec();
        let mut part = Part::new(SHARD, Epoch(1));
        part.puts = vec![Put { space: Space::Items, key, value: b"value".to_vec() }];
        store.commit(Commit::new(vec![part])).expect("a commit");
    }

    fn level_0_files(store: &RocksStore) -> usize {
        let files = store.core.db.live_files().expect("files");
        let items = layout::name(Space::Items);
        files.iter().filter(|f| f.column_family_name == items && f.level == 0).count()
    }

    #[test]
    fn level_0_is_compacted_once_nobody_writes() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = RocksStore::open(folder.path(), &RocksOptions::default()).expect("a store");
        let mut compaction = IdleCompaction::new(&store.core);
        store.create_open_shard(SHARD, Epoch(1)).expect("a shard");
        for number in 0..3 {
            write(&store, number);
            store.core.flush().expect("a flush");
        }
        compaction.poll(&store.core);
        assert_eq!(level_0_files(&store), 3, "something was written since the last poll");
        compaction.poll(&store.core);
        assert_eq!(level_0_files(&store), 0);
        for number in 0..3_u32 {
            let found = store.get(SHARD, Space::Items, &number.to_be_bytes()).expect("a read").1;
            assert_eq!(&found.expect("a value").bytes[..], b"value");
        }
        write(&store, 3);
        store.core.flush().expect("a flush");
        drop(store);
        let store = RocksStore::open(folder.path(), &RocksOptions::default()).expect("a store");
        let mut compaction = IdleCompaction::new(&store.core);
        compaction.poll(&store.core);
        assert_eq!(level_0_files(&store), 1, "files that exist at the start stay");
    }
}
