//! A store around a store that does what disks do: fail, stall, lose answers and forget. Tests of
//! the layers above put it in the place of the real one; every choice comes from a seed.
//!
//! A failed commit here is like a failed sync there: the caller gets an unknown outcome, reads
//! show the state before it, writes are refused until [`FaultStore::reopen`], and only then it turns
//! out whether the commit had reached the disk.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orrery_types::{Epoch, Lsn, ShardId};

use crate::journal::{Copied, Journal};
use crate::memory::{MemoryImage, MemoryStore};
use crate::{
    Commit, CommitId, Committed, Head, HeadChange, Part, ReadAt, Resolution, ShardStats, Snapshot,
    Space, StorageError, Store, Value,
};

/// How often what goes wrong: once in so many calls; zero is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Commits whose sync fails.
    pub commit_fails_one_in: u64,
    /// Commits whose answer is lost: done or not, and the store goes on.
    pub answer_lost_one_in: u64,
    /// Reads that fail; the next may succeed.
    pub read_fails_one_in: u64,
    /// Calls that stall.
    pub stalls_one_in: u64,
    /// How long a stall lasts at most.
    pub stall_us_max: u64,
}

/// A store with faults.
#[derive(Debug)]
pub struct FaultStore<S> {
    inner: S,
    faults: Faults,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: u64,
    /// Writes are refused; the commit that failed waits for the reopening to decide its fate.
    failed: Option<Commit>,
    synced: MemoryImage,
}

impl State {
    /// The next number of a `SplitMix64` sequence.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn one_in(&mut self, times: u64) -> bool {
        times > 0 && self.next().is_multiple_of(times)
    }

    fn coin(&mut self) -> bool {
        self.one_in(2)
    }
}

impl<S: Store> FaultStore<S> {
    /// Puts faults around a store. The same seed and calls give the same faults.
    pub fn new(inner: S, faults: Faults, seed: u64) -> Self {
        let state = State { random: seed, failed: None, synced: MemoryImage::default() };
        Self { inner, faults, state: Mutex::new(state) }
    }

    /// The store inside, without faults.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// What closing and opening a store does after a failure: writes are taken again, and the
    /// commit that failed has happened after all, or not. Then nobody goes on with shards that were being
    /// made or had been closed.
    pub fn reopen(&self) -> Result<(), StorageError> {
        let mut state = self.lock();
        let failed = match state.failed.take() {
            Some(commit) if state.coin() => self.inner.commit(commit).map(drop),
            _ => Ok(()),
        };
        for (shard, Head { epoch, state, .. }) in self.inner.shards()? {
            if state.recovered() != state {
                let change = HeadChange::state(state, state.recovered(), epoch);
                let part = Part::of_head(shard, epoch, change);
                self.inner.commit(Commit::new(vec![part]))?;
            }
        }
        failed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stall(&self) {
        let mut state = self.lock();
        if state.one_in(self.faults.stalls_one_in) {
            let stall_us = state.next() % (self.faults.stall_us_max + 1);
            drop(state);
            std::thread::sleep(Duration::from_micros(stall_us));
        }
    }

    fn before_read(&self) -> Result<(), StorageError> {
        self.stall();
        if self.lock().one_in(self.faults.read_fails_one_in) {
            return Err(StorageError::Io("a read was made to fail".into()));
        }
        Ok(())
    }

    fn before_write(&self) -> Result<(), StorageError> {
        self.stall();
        refuse_if_failed(&self.lock())
    }
}

fn refuse_if_failed(state: &State) -> Result<(), StorageError> {
    match state.failed {
        Some(_) => Err(StorageError::ReadOnly("a commit was made to fail".into())),
        None => Ok(()),
    }
}

impl FaultStore<MemoryStore> {
    /// What the store holds now survives the next loss of power.
    pub fn sync(&self) {
        self.lock().synced = self.inner.image();
    }

    /// The machine goes down and comes up again over a disk that lied about its syncs: everything
    /// since the last [`FaultStore::sync`] is gone, acknowledged or not.
    pub fn lose_power(&self) {
        let mut state = self.lock();
        self.inner.restore(&state.synced);
        state.failed = None;
    }
}

impl<S: Store> Store for FaultStore<S> {
    fn snapshot(&self, shard: ShardId, at: ReadAt) -> Result<Box<dyn Snapshot + '_>, StorageError> {
        self.before_read()?;
        self.inner.snapshot(shard, at)
    }

    fn snapshots(&self, shards: &[ShardId]) -> Result<Vec<Box<dyn Snapshot + '_>>, StorageError> {
        self.before_read()?;
        self.inner.snapshots(shards)
    }

    fn get(
        &self,
        shard: ShardId,
        space: Space,
        key: &[u8],
    ) -> Result<(Head, Option<Value>), StorageError> {
        self.before_read()?;
        self.inner.get(shard, space, key)
    }

    fn writable(&self) -> Result<(), StorageError> {
        refuse_if_failed(&self.lock())?;
        self.inner.writable()
    }

    fn commit_once(&self, commit: Commit) -> Result<Committed, StorageError> {
        commit.validate()?;
        self.stall();
        let mut state = self.lock();
        refuse_if_failed(&state)?;
        let id = Some(commit.id);
        if state.one_in(self.faults.commit_fails_one_in) {
            state.failed = Some(commit);
            return Err(StorageError::unknown(id, "a commit was made to fail"));
        }
        let lost = state.one_in(self.faults.answer_lost_one_in);
        if lost && state.coin() {
            return Err(StorageError::unknown(id, "an answer was made to get lost"));
        }
        drop(state);
        let committed = self.inner.commit_once(commit)?;
        if lost {
            return Err(StorageError::unknown(id, "an answer was made to get lost"));
        }
        Ok(committed)
    }

    fn resolve(&self, shards: &[ShardId], id: CommitId) -> Result<Resolution, StorageError> {
        self.before_read()?;
        // What became of a commit that failed shows when the store is opened again.
        if self.lock().failed.as_ref().is_some_and(|failed| failed.id == id) {
            return Ok(Resolution::NotKnown);
        }
        self.inner.resolve(shards, id)
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn now_us(&self) -> Result<Option<u64>, StorageError> {
        self.inner.now_us()
    }

    fn heads(&self, shards: &[ShardId]) -> Result<Vec<Option<Head>>, StorageError> {
        self.before_read()?;
        self.inner.heads(shards)
    }

    fn lsn_at_least(&self, shard: ShardId, least: Lsn) -> Result<Lsn, StorageError> {
        self.before_read()?;
        self.inner.lsn_at_least(shard, least)
    }

    fn watch(&self, shard: ShardId, after: Lsn, timeout_ms: u64) -> Result<Lsn, StorageError> {
        self.inner.watch(shard, after, timeout_ms)
    }

    fn create_shard(&self, shard: ShardId, epoch: Epoch) -> Result<(), StorageError> {
        self.before_write()?;
        self.inner.create_shard(shard, epoch)
    }

    fn drop_shard(&self, shard: ShardId) -> Result<(), StorageError> {
        self.before_write()?;
        self.inner.drop_shard(shard)
    }

    fn shards(&self) -> Result<Vec<(ShardId, Head)>, StorageError> {
        self.inner.shards()
    }

    fn journal(&self, shard: ShardId, bytes_max: usize) -> Result<Arc<dyn Journal>, StorageError> {
        self.inner.journal(shard, bytes_max)
    }

    fn copy_into(&self, shard: ShardId, entries: &[Copied]) -> Result<(), StorageError> {
        self.before_write()?;
        self.inner.copy_into(shard, entries)
    }

    fn flush(&self) -> Result<(), StorageError> {
        self.before_write()?;
        self.inner.flush()
    }

    fn stats(&self, shard: ShardId) -> Result<ShardStats, StorageError> {
        self.inner.stats(shard)
    }
}
