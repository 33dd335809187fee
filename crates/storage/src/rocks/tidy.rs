//! Once nobody writes, what lies in several layers of files is made one layer: whoever walks along keys
//! walks along all layers at once, and a query that reads a few dozen entries takes a third less when
//! there is one. `RocksDB` waits for more files first, because it must expect more writes.

use rocksdb::CompactOptions;

use super::write_sequence::SequencePoint;
use super::{Core, layout};
use crate::Space;

/// What is compacted may be so many times as large as what is new in it.
const PART: usize = 16;

#[derive(Debug)]
pub(super) struct Tidy {
    /// The write sequence at the last look.
    seen: SequencePoint,
    /// Up to where everything is tidy. What was there at the start stays as it is.
    done: SequencePoint,
}

impl Tidy {
    pub(super) fn new(core: &Core) -> Self {
        let now = core.sequence.point();
        Self { seen: now, done: now }
    }

    /// Looks whether anything was written since the last look; tidies up if not.
    pub(super) fn look(&mut self, core: &Core) {
        let now = core.sequence.point();
        let is_quiet = now == self.seen && core.sequence.is_current(now);
        self.seen = now;
        if !is_quiet || now == self.done {
            return;
        }
        self.done = now;
        for space in Space::ALL {
            if core.queue.is_closed() || !core.sequence.is_current(now) {
                return;
            }
            if is_worth_it(core, space) {
                let mut options = CompactOptions::default();
                options.set_exclusive_manual_compaction(false);
                let all = None::<&[u8]>;
                core.db.compact_range_cf_opt(core.cf(space), all, all, &options);
            }
        }
    }
}

fn is_worth_it(core: &Core, space: Space) -> bool {
    // Who cannot list the files has other worries than their order.
    let files = core.db.live_files().unwrap_or_default();
    let own = || files.iter().filter(|file| file.column_family_name == layout::name(space));
    let all: usize = own().map(|file| file.size).sum();
    let new: usize = own().filter(|file| file.level == 0).map(|file| file.size).sum();
    new > 0 && all <= new.saturating_mul(PART)
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
        store.commit(Commit { parts: vec![part] }).expect("a commit");
    }

    fn new_files(store: &RocksStore) -> usize {
        let files = store.core.db.live_files().expect("files");
        let items = layout::name(Space::Items);
        files.iter().filter(|f| f.column_family_name == items && f.level == 0).count()
    }

    #[test]
    fn files_become_one_layer_once_nobody_writes() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = RocksStore::open(folder.path(), &RocksOptions::default()).expect("a store");
        let mut tidy = Tidy::new(&store.core);
        store.create_shard(SHARD, Epoch(1)).expect("a shard");
        for number in 0..3 {
            write(&store, number);
            store.core.flush().expect("a flush");
        }
        tidy.look(&store.core);
        assert_eq!(new_files(&store), 3, "something was written since the last look");
        tidy.look(&store.core);
        assert_eq!(new_files(&store), 0);
        for number in 0..3_u32 {
            let found = store.get(SHARD, Space::Items, &number.to_be_bytes()).expect("a read").1;
            assert_eq!(&found.expect("a value").bytes[..], b"value");
        }
        write(&store, 3);
        store.core.flush().expect("a flush");
        drop(store);
        let store = RocksStore::open(folder.path(), &RocksOptions::default()).expect("a store");
        let mut tidy = Tidy::new(&store.core);
        tidy.look(&store.core);
        assert_eq!(new_files(&store), 1, "what was there at the start stays");
    }
}
