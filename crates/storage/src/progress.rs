//! How far a shard is: its epoch and last LSN, readable without a lock, and a place to wait for the
//! next one. Engines publish here after a commit is durable and before they answer it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use orrery_types::{Epoch, Lsn};

use crate::journal::Journal;
use crate::{Part, StorageError};

/// Stripes of a shard: as many as a byte names.
const STRIPES: usize = 256;

/// One shard's epoch and LSN, as published.
#[derive(Debug)]
pub(crate) struct Progress {
    epoch: AtomicU64,
    lsn: AtomicU64,
    gone: AtomicBool,
    frozen: AtomicBool,
    /// Whether somebody may hold a journal: most commits need not look.
    journaled: AtomicBool,
    journal: Mutex<Weak<Journal>>,
    /// For each stripe the LSN of the last commit that named it.
    stripes: Box<[AtomicU64; STRIPES]>,
    watchers: AtomicUsize,
    gate: Mutex<()>,
    moved: Condvar,
}

impl Progress {
    pub(crate) fn new(epoch: Epoch, lsn: Lsn) -> Self {
        Self {
            epoch: AtomicU64::new(epoch.0),
            lsn: AtomicU64::new(lsn.0),
            gone: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
            journaled: AtomicBool::new(false),
            journal: Mutex::new(Weak::new()),
            stripes: Box::new([const { AtomicU64::new(0) }; STRIPES]),
            watchers: AtomicUsize::new(0),
            gate: Mutex::new(()),
            moved: Condvar::new(),
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(SeqCst))
    }

    pub(crate) fn lsn(&self) -> Lsn {
        Lsn(self.lsn.load(SeqCst))
    }

    /// Publishes an LSN and wakes those who wait for it.
    pub(crate) fn advance(&self, lsn: Lsn) {
        let before = self.lsn.swap(lsn.0, SeqCst);
        assert!(before < lsn.0, "LSNs rise");
        self.wake();
    }

    /// The LSN of the last commit that named a stripe.
    pub(crate) fn stripe(&self, stripe: u8) -> Lsn {
        Lsn(self.stripes[usize::from(stripe)].load(SeqCst))
    }

    /// A commit with this LSN names stripes. Only the thread that commits calls it.
    pub(crate) fn touch(&self, stripes: &[u8], lsn: Lsn) {
        for stripe in stripes {
            self.stripes[usize::from(*stripe)].store(lsn.0, SeqCst);
        }
    }

    pub(crate) fn fence(&self, epoch: Epoch) {
        self.epoch.store(epoch.0, SeqCst);
    }

    /// Whether commits are refused for now.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(SeqCst)
    }

    pub(crate) fn freeze(&self, frozen: bool) {
        self.frozen.store(frozen, SeqCst);
    }

    /// Begins a journal; `None` if somebody holds one.
    pub(crate) fn begin_journal(&self, bytes_max: usize) -> Option<Arc<Journal>> {
        let mut current = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if current.strong_count() > 0 {
            return None;
        }
        let journal = Arc::new(Journal::new(bytes_max));
        *current = Arc::downgrade(&journal);
        self.journaled.store(true, SeqCst);
        Some(journal)
    }

    /// Adds what a commit did to the journal, if somebody holds one.
    pub(crate) fn record(&self, part: &Part, lsn: Lsn) {
        if !self.journaled.load(SeqCst) {
            return;
        }
        let current = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        match current.upgrade() {
            Some(journal) => journal.record(part, lsn),
            None => self.journaled.store(false, SeqCst),
        }
    }

    /// Tells those who wait that nothing will come any more.
    pub(crate) fn end(&self) {
        self.gone.store(true, SeqCst);
        self.wake();
    }

    /// A watcher counts itself before it looks, and a publisher publishes before it looks at the
    /// count: one of them always sees the other, and commits nobody watches take no lock.
    fn wake(&self) {
        if self.watchers.load(SeqCst) > 0 {
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
            self.moved.notify_all();
        }
    }

    /// Waits for an LSN after `after`, the end of the shard, or the end of the time.
    pub(crate) fn watch(&self, after: Lsn, timeout_ms: u64) -> Result<Lsn, StorageError> {
        self.watchers.fetch_add(1, SeqCst);
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let timeout = Duration::from_millis(timeout_ms);
        let waiting = |(): &mut ()| self.lsn() <= after && !self.gone.load(SeqCst);
        drop(self.moved.wait_timeout_while(gate, timeout, waiting));
        self.watchers.fetch_sub(1, SeqCst);
        if self.gone.load(SeqCst) {
            return Err(StorageError::Gone { epoch: None });
        }
        Ok(self.lsn())
    }
}
