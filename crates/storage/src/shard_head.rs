//! The published head of a shard: its epoch and last LSN, readable without a lock, and a condition
//! variable to wait for the next LSN. Engines publish here after a commit is durable and before they
//! answer it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use orrery_types::{Epoch, Lsn};

use crate::journal::MemoryJournal;
use crate::{Head, HeadChange, Part, ShardState, StorageError};

/// Stripes of a shard: as many as a byte names.
const STRIPES: usize = 256;

/// A state as the place in [`ShardHead::state`].
fn number_of(state: ShardState) -> u8 {
    state as u8
}

/// The published state of one shard.
#[derive(Debug)]
pub struct ShardHead {
    epoch: AtomicU64,
    lsn: AtomicU64,
    control: AtomicU64,
    gone: AtomicBool,
    state: AtomicU8,
    /// Whether a journal may exist; most commits read only this flag.
    journaled: AtomicBool,
    journal: Mutex<Weak<MemoryJournal>>,
    /// For each stripe the LSN of the last commit that changed it.
    stripes: Box<[AtomicU64; STRIPES]>,
    waiters: AtomicUsize,
    lock: Mutex<()>,
    advanced: Condvar,
}

impl ShardHead {
    /// A head of which everything counts as changed.
    pub fn new(epoch: Epoch, lsn: Lsn, state: ShardState) -> Self {
        Self {
            epoch: AtomicU64::new(epoch.0),
            lsn: AtomicU64::new(lsn.0),
            // What an earlier process changed is not known, so all of it counts as changed.
            control: AtomicU64::new(lsn.0),
            gone: AtomicBool::new(false),
            state: AtomicU8::new(number_of(state)),
            journaled: AtomicBool::new(false),
            journal: Mutex::new(Weak::new()),
            stripes: Box::new([const { AtomicU64::new(0) }; STRIPES]),
            waiters: AtomicUsize::new(0),
            lock: Mutex::new(()),
            advanced: Condvar::new(),
        }
    }

    /// Commits prepared under another epoch are refused.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(SeqCst))
    }

    /// The last commit that is visible.
    pub fn lsn(&self) -> Lsn {
        Lsn(self.lsn.load(SeqCst))
    }

    /// What readers see of the shard. The LSN is read last, so it is not older than the rest.
    pub fn head(&self) -> Head {
        let control = Lsn(self.control.load(SeqCst));
        Head { epoch: self.epoch(), state: self.state(), control, lsn: self.lsn() }
    }

    /// Whether a part of a commit fits the epoch and the state.
    pub fn takes(&self, part: &Part) -> Result<(), StorageError> {
        let epoch = self.epoch();
        if epoch == part.epoch && self.state() == part.expected_state() {
            return Ok(());
        }
        Err(StorageError::Gone { epoch: Some(epoch) })
    }

    /// Publishes an LSN, unless a later one is, and wakes its waiters.
    pub fn raise(&self, lsn: Lsn) {
        if self.lsn.fetch_max(lsn.0, SeqCst) < lsn.0 {
            self.wake();
        }
    }

    /// The LSN of the last commit that changed a stripe.
    pub fn stripe(&self, stripe: u8) -> Lsn {
        Lsn(self.stripes[usize::from(stripe)].load(SeqCst))
    }

    /// Records that the commit with this LSN changed stripes. Only the committing thread calls it.
    pub fn touch(&self, stripes: &[u8], lsn: Lsn) {
        for stripe in stripes {
            self.stripes[usize::from(*stripe)].store(lsn.0, SeqCst);
        }
    }

    /// Records that the commit with this LSN changed what may be cached of the shard. Called before the
    /// LSN is published, so that a reader of the LSN sees this too.
    pub fn set_control(&self, lsn: Lsn) {
        self.control.store(lsn.0, SeqCst);
    }

    /// Publishes what a commit does to epoch and state. Called before its LSN is published.
    pub fn change(&self, change: &HeadChange) {
        self.epoch.store(change.epoch.0, SeqCst);
        self.state.store(number_of(change.to), SeqCst);
    }

    /// Publishes a head as the store has it, read again after the answer of a commit was lost. What that
    /// commit changed is not known any more, so all that may be cached counts as changed.
    pub fn reload(&self, epoch: Epoch, state: ShardState, lsn: Lsn) {
        self.control.fetch_max(lsn.0, SeqCst);
        self.epoch.store(epoch.0, SeqCst);
        self.state.store(number_of(state), SeqCst);
        self.raise(lsn);
    }

    /// Whether commits are accepted, and which.
    pub fn state(&self) -> ShardState {
        const STATES: [ShardState; 4] =
            [ShardState::Building, ShardState::Open, ShardState::Closed, ShardState::Dropped];
        STATES[usize::from(self.state.load(SeqCst))]
    }

    /// Refuses copies into a shard that is not being made.
    pub fn takes_copies(&self) -> Result<(), StorageError> {
        let is_building = self.state() == ShardState::Building;
        if is_building { Ok(()) } else { Err(StorageError::NotEmpty) }
    }

    /// Refuses to drop a shard that may be in use.
    pub fn may_be_dropped(&self) -> Result<(), StorageError> {
        let epoch = Some(self.epoch());
        if self.state().may_be_dropped() { Ok(()) } else { Err(StorageError::Gone { epoch }) }
    }

    /// Starts a journal; `None` if another one is in use.
    pub fn begin_journal(&self, bytes_max: usize) -> Option<Arc<MemoryJournal>> {
        let mut current = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if current.strong_count() > 0 {
            return None;
        }
        let journal = Arc::new(MemoryJournal::new(bytes_max));
        *current = Arc::downgrade(&journal);
        self.journaled.store(true, SeqCst);
        Some(journal)
    }

    /// Adds a commit to the journal, if there is one.
    pub fn record(&self, part: &Part, lsn: Lsn) {
        if !self.journaled.load(SeqCst) {
            return;
        }
        let current = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        match current.upgrade() {
            Some(journal) => journal.record(part, lsn),
            None => self.journaled.store(false, SeqCst),
        }
    }

    /// Ends the journal, if there is one, as one that overflew: a commit may be missing in it.
    pub fn break_journal(&self) {
        let current = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(journal) = current.upgrade() {
            journal.end();
        }
    }

    /// Wakes waiters because the shard is dropped.
    pub fn end(&self) {
        self.gone.store(true, SeqCst);
        self.wake();
    }

    /// A waiter increments the count before it reads the LSN, and a publisher stores the LSN before it
    /// reads the count: one of them always sees the other, and a commit without waiters takes no lock.
    fn wake(&self) {
        if self.waiters.load(SeqCst) > 0 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.advanced.notify_all();
        }
    }

    /// Waits for an LSN after `after`, for the shard to be dropped, or for the timeout.
    pub fn watch(&self, after: Lsn, timeout_ms: u64) -> Result<Lsn, StorageError> {
        self.waiters.fetch_add(1, SeqCst);
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let timeout = Duration::from_millis(timeout_ms);
        let waiting = |(): &mut ()| self.lsn() <= after && !self.gone.load(SeqCst);
        drop(self.advanced.wait_timeout_while(guard, timeout, waiting));
        self.waiters.fetch_sub(1, SeqCst);
        if self.gone.load(SeqCst) {
            return Err(StorageError::Gone { epoch: None });
        }
        Ok(self.lsn())
    }
}
