//! Numbers the write batches of the committer, when each one starts and when it is complete. A
//! reader compares numbers to tell whether anything was written while it read.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A point between two writes: every write up to it was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SequencePoint(u64);

/// The number of one write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteNumber(u64);

impl WriteNumber {
    /// Whether the write was complete at that point, so that a view taken there shows all of it.
    pub(super) fn is_complete_at(self, point: SequencePoint) -> bool {
        self.0 <= point.0
    }
}

/// Counts writes that have started and writes that are complete.
#[derive(Debug, Default)]
pub(super) struct WriteSequence {
    started: AtomicU64,
    completed: AtomicU64,
}

impl WriteSequence {
    /// The last point at which all writes were complete. Readers ask for it before they read a
    /// value or take a snapshot.
    pub(super) fn point(&self) -> SequencePoint {
        SequencePoint(self.completed.load(SeqCst))
    }

    /// Whether no write has started since that point.
    pub(super) fn is_current(&self, point: SequencePoint) -> bool {
        self.started.load(SeqCst) == point.0
    }

    /// Starts a write, before any of it is visible. Only the committer calls this, and completes the
    /// write once all of it is visible. A write that failed is never completed: how much of it is
    /// visible is unknown.
    pub(super) fn start(&self) -> WriteNumber {
        WriteNumber(self.started.fetch_add(1, SeqCst) + 1)
    }

    pub(super) fn complete(&self, write: WriteNumber) {
        self.completed.store(write.0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_current_only_while_no_write_has_started_since() {
        let sequence = WriteSequence::default();
        let before = sequence.point();
        assert!(sequence.is_current(before));
        let write = sequence.start();
        let during = sequence.point();
        assert!(!sequence.is_current(before) && !sequence.is_current(during));
        sequence.complete(write);
        assert!(!sequence.is_current(before) && sequence.is_current(sequence.point()));
        assert!(!write.is_complete_at(before) && !write.is_complete_at(during));
        assert!(write.is_complete_at(sequence.point()));
    }

    #[test]
    fn a_write_that_failed_leaves_no_current_point() {
        let sequence = WriteSequence::default();
        sequence.start();
        assert!(!sequence.is_current(sequence.point()));
    }
}
