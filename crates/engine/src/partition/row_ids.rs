//! Row numbers of one physical partition. They are given out of blocks that are reserved durably before
//! the first number of a block is used: a number is lost now and then, and none is given to two items.
//!
//! The next block is reserved while half of the current one is left, by a commit that nobody waits
//! for. Only a partition that was just opened has no block; then a caller that may wait reserves one.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orrery_storage::{Commit, Committed, Part, Precondition, Put, Space, StorageError, Store, key};
use orrery_types::{Epoch, Error, Lsn, Result, ShardId, limits};

use crate::error::storage;

#[derive(Debug, Default)]
pub(super) struct RowIds {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    current: Range<u64>,
    /// Reserved, and used once the current block is used up.
    next: Range<u64>,
    /// The version and value of the counter, as this process wrote it last.
    counter: Option<(Lsn, u64)>,
    /// A commit that reserves the next block is on its way.
    is_reserving: bool,
    /// Numbers of the block that was added last.
    block: u64,
}

impl State {
    fn take(&mut self) -> Option<u64> {
        if self.current.is_empty() {
            self.current = std::mem::take(&mut self.next);
        }
        self.current.next()
    }

    fn is_low(&self) -> bool {
        self.next.is_empty() && self.current.end - self.current.start < self.block / 2
    }

    fn add(&mut self, block: Range<u64>, version: Lsn) {
        self.counter = Some((version, block.end));
        self.block = block.end - block.start;
        if self.current.is_empty() {
            self.current = block;
        } else {
            self.next = block;
        }
    }
}

/// The writes that reserve the next block, and the block.
pub(super) struct Reservation {
    pub(super) part: Part,
    pub(super) block: Range<u64>,
}

impl Reservation {
    /// Reads the counter.
    pub(super) fn read(store: &dyn Store, shard: ShardId, epoch: Epoch) -> Result<Self> {
        let found = store.get(shard, Space::Meta, &key::rows_reserved()).map_err(storage)?.1;
        let Some(value) = found else { return Ok(Self::after(store, shard, epoch, None)) };
        let start = value.bytes[..].try_into().map(u64::from_be_bytes);
        let start = start.map_err(|_| Error::internal("a row counter is corrupt"))?;
        Ok(Self::after(store, shard, epoch, Some((value.version, start))))
    }

    fn after(store: &dyn Store, shard: ShardId, epoch: Epoch, counter: Option<(Lsn, u64)>) -> Self {
        let (space, key) = (Space::Meta, key::rows_reserved());
        let (version, start) = counter.map_or((None, 1), |(lsn, start)| (Some(lsn), start));
        let shared = store.is_shared();
        let size = if shared { limits::ROW_BLOCK_SHARED } else { limits::ROW_BLOCK };
        let block = start..start + size;
        let mut part = Part::new(shard, epoch);
        part.preconditions.push(Precondition::unchanged(space, key.clone(), version));
        part.puts.push(Put { space, key, value: block.end.to_be_bytes().to_vec() });
        Self { part, block }
    }
}

fn first_lsn(committed: &Committed) -> Lsn {
    committed.lsns.first().copied().unwrap_or_default()
}

impl RowIds {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next number, if one is reserved. Never waits for a commit.
    pub(super) fn try_next(
        self: &Arc<Self>,
        store: &dyn Store,
        shard: ShardId,
        epoch: Epoch,
    ) -> Option<u64> {
        let mut state = self.lock();
        let number = state.take()?;
        if state.is_low()
            && !state.is_reserving
            && let Some(counter) = state.counter
        {
            state.is_reserving = true;
            drop(state);
            self.reserve_ahead(store, Reservation::after(store, shard, epoch, Some(counter)));
        }
        Some(number)
    }

    /// The next number; reserves a block if there is none.
    pub(super) fn next(
        self: &Arc<Self>,
        store: &dyn Store,
        shard: ShardId,
        epoch: Epoch,
    ) -> Result<u64> {
        loop {
            if let Some(number) = self.try_next(store, shard, epoch) {
                return Ok(number);
            }
            let Reservation { part, block } = Reservation::read(store, shard, epoch)?;
            match store.commit(Commit::new(vec![part])) {
                Ok(committed) => self.add(block, first_lsn(&committed)),
                // Another thread has reserved a block.
                Err(StorageError::Conflict(_)) => {}
                Err(error) => return Err(storage(error)),
            }
        }
    }

    /// Adds a block that was reserved by the commit with this LSN.
    pub(super) fn add(&self, block: Range<u64>, version: Lsn) {
        self.lock().add(block, version);
    }

    fn reserve_ahead(self: &Arc<Self>, store: &dyn Store, reservation: Reservation) {
        let (ids, Reservation { part, block }) = (self.clone(), reservation);
        let done = Box::new(move |answer: std::result::Result<Committed, StorageError>| {
            let mut state = ids.lock();
            state.is_reserving = false;
            match answer {
                Ok(committed) => state.add(block, first_lsn(&committed)),
                // The block is given up. Whoever finds none left reads the counter again.
                Err(_) => state.counter = None,
            }
        });
        store.submit(Commit::new(vec![part]), done);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use orrery_storage::MemoryStore;

    use super::*;

    const BLOCK: u64 = limits::ROW_BLOCK;
    const SHARD: ShardId = ShardId(3);
    const EPOCH: Epoch = Epoch(1);

    fn store() -> MemoryStore {
        let store = MemoryStore::new();
        store.create_open_shard(SHARD, EPOCH).unwrap();
        store
    }

    #[test]
    fn blocks_follow_each_other_without_a_wait_once_there_is_one() {
        let (store, ids) = (store(), Arc::new(RowIds::default()));
        assert_eq!(ids.try_next(&store, SHARD, EPOCH), None, "nothing is reserved yet");
        assert_eq!(store.lsn(SHARD), Ok(Lsn(0)), "and to ask reserves nothing");
        let mut given = HashSet::from([ids.next(&store, SHARD, EPOCH).unwrap()]);
        for _ in 0..3 * BLOCK {
            let number = ids.try_next(&store, SHARD, EPOCH).expect("reserved ahead");
            assert!(given.insert(number), "{number} was given twice");
        }
        assert_eq!(store.lsn(SHARD), Ok(Lsn(4)), "one commit for each block");
    }

    #[test]
    fn a_reopened_partition_goes_on_behind_what_was_reserved() {
        let store = store();
        let first = Arc::new(RowIds::default()).next(&store, SHARD, EPOCH).unwrap();
        let second = Arc::new(RowIds::default()).next(&store, SHARD, EPOCH).unwrap();
        assert_eq!((first, second), (1, 1 + BLOCK));
    }

    #[test]
    fn blocks_are_small_where_several_processes_reserve_them() {
        let store = MemoryStore::shared();
        store.create_open_shard(SHARD, EPOCH).unwrap();
        let owners = [Arc::new(RowIds::default()), Arc::new(RowIds::default())];
        let first = owners.iter().map(|ids| ids.next(&store, SHARD, EPOCH).unwrap());
        assert_eq!(first.collect::<Vec<_>>(), [1, 1 + limits::ROW_BLOCK_SHARED]);
    }

    #[test]
    fn two_owners_of_one_partition_never_give_the_same_number() {
        let store = store();
        let owners = [Arc::new(RowIds::default()), Arc::new(RowIds::default())];
        let mut given = HashSet::new();
        // Each one's reservation ahead fails once the other has reserved.
        for n in 0..5 * BLOCK {
            let ids = &owners[usize::from(n % 3 == 0)];
            assert!(given.insert(ids.next(&store, SHARD, EPOCH).unwrap()));
        }
    }
}
