//! The retry loop of all writers, and why a transaction runs again. This is the only place that makes
//! [`Error::RetryWith`]: inside a transaction it is a token that stops the work at hand, and the loop
//! looks at the reason instead; to the sender of a request it means that the attempts are used up.
//!
//! A refusal is returned only if its reads hold at one instant ([`TransactionState::justifies`]). A deletion that
//! `restrict` refuses may have read a great deal that others write all the time: the guard of its target,
//! every other referrer, tallies of the items that it refers to itself. One referrer is enough to refuse it,
//! so the rest is forgotten ([`RefusalBasis`]), and no writer of it makes the refusal run again.

use orrery_storage::key::Row;
use orrery_storage::{FailedPrecondition, Space};
use orrery_types::{Error, Result, ShardId, limits};

use super::reads::ConflictReason;
use super::state::TransactionState;
use super::write_buffer::{ShardIndex, ShardWrites};
use crate::Container;
use crate::partition::PhysicalPartition;
use crate::transaction::Transactions;

/// Why a transaction runs again. Nothing of it was written.
#[derive(Clone, Copy)]
pub(crate) enum RetryReason<'e> {
    /// Another writer was faster.
    Conflict(ConflictReason),
    /// A range is read by a transaction that holds its lock shared.
    NeedsExclusiveLock,
    /// A hidden item has a unique key that is needed: it must be removed first.
    HiddenHolder(&'e Container, &'e PhysicalPartition, Row),
    /// A refusal rests on reads that are not of one instant, and that do not hold any more.
    RefusalOutdated,
}

impl RetryReason<'_> {
    /// What the log says.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Conflict(reason) => reason.text(),
            Self::NeedsExclusiveLock => "a range is read under a shared lock",
            Self::HiddenHolder(..) => "a hidden item has a unique key",
            Self::RefusalOutdated => "a refusal rests on reads that have changed",
        }
    }
}

/// What came of one attempt.
pub(crate) enum Attempt<T> {
    Done(T),
    /// Nothing was written; why, for the log.
    Again(&'static str),
}

/// Makes attempts until one is done. An attempt is given its number: after several conflicts a writer
/// takes its locks exclusively ([`super::locks::LockMode::of_attempt`]).
pub(crate) fn run<T>(mut attempt: impl FnMut(usize) -> Result<Attempt<T>>) -> Result<T> {
    for number in 0..limits::COMMIT_ATTEMPTS_MAX {
        match attempt(number)? {
            Attempt::Done(value) => return Ok(value),
            Attempt::Again(reason) => {
                tracing::debug!(attempt = number, reason, "a transaction runs again");
            }
        }
    }
    Err(Error::RetryWith)
}

/// What must be waited for is not done on a thread that may not wait.
pub(crate) fn needs_waiting() -> Error {
    Error::RetryWith
}

impl TransactionState<'_> {
    /// What it means that a precondition of its commit failed.
    pub(crate) fn conflict_reason(&self, failed: &FailedPrecondition) -> ConflictReason {
        let Some((space, key)) = failed.precondition.key() else {
            return ConflictReason::RangeChanged;
        };
        let is_failed = |shard: &ShardWrites<'_>| shard.partition.shard == failed.shard;
        let shard = self.writes.shards().find(|(_, shard)| is_failed(shard));
        let read = shard.and_then(|(shard, _)| self.reads.reason_of(shard, space, key));
        read.unwrap_or(match space {
            Space::Items => ConflictReason::ItemChanged,
            Space::Index => ConflictReason::UniqueKeyTaken,
            Space::Feed | Space::Ttl | Space::Meta => ConflictReason::PathIdsTaken,
        })
    }

    /// The attempt after a failed precondition, with its reason for the log.
    pub(crate) fn after_conflict<T>(&self, failed: &FailedPrecondition) -> Attempt<T> {
        Attempt::Again(self.conflict_reason(failed).text())
    }
}

impl Transactions<'_> {
    /// Does what must be done before a transaction runs again. A hidden item that has a unique key and
    /// cannot be removed is returned.
    pub(crate) fn before_retry(self, reason: RetryReason<'_>) -> Result<Option<(ShardId, Row)>> {
        let RetryReason::HiddenHolder(container, partition, row) = reason else { return Ok(None) };
        let _schema = self.engine.model_locks.schema_shared();
        let gone = self.engine.expiry_sweep().purge_hidden_row(container, partition, row)?;
        Ok((!gone).then_some((partition.shard, row)))
    }
}

/// A position in the order of all reads of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadPosition {
    items: u32,
    keys: u32,
}

/// What a refusal rests on: everything that was read up to a position, and these items.
#[derive(Debug)]
pub(crate) struct RefusalBasis {
    pub(crate) until: ReadPosition,
    pub(crate) items: Vec<(ShardIndex, Vec<u8>)>,
}

impl ReadPosition {
    /// The position of the last read of a transaction.
    pub(crate) fn of(tx: &TransactionState<'_>) -> Self {
        Self { items: tx.writes.read_sequence(), keys: tx.reads.sequence() }
    }
}

/// Forgets what a refused operation has read and its refusal does not rest on. Its writes have been
/// rolled back.
pub(super) fn narrow_reads(tx: &mut TransactionState<'_>) {
    if let Some(basis) = tx.operation.take_refusal_basis() {
        tx.reads.forget_after(basis.until.keys);
        tx.writes.forget_reads_after(basis.until.items, &basis.items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_numbered_and_end_with_the_first_that_is_done() {
        let mut numbers = Vec::new();
        let done = run(|number| {
            numbers.push(number);
            Ok(if number == 3 { Attempt::Done("done") } else { Attempt::Again("conflict") })
        });
        assert_eq!(done.expect("the fourth attempt is done"), "done");
        assert_eq!(numbers, [0, 1, 2, 3]);
    }

    #[test]
    fn when_the_attempts_are_used_up_the_sender_is_told_to_retry() {
        let mut attempts = 0;
        let ended: Result<()> = run(|_| {
            attempts += 1;
            Ok(Attempt::Again("conflict"))
        });
        assert!(matches!(ended, Err(Error::RetryWith)));
        assert_eq!(attempts, limits::COMMIT_ATTEMPTS_MAX);
    }

    #[test]
    fn an_error_ends_the_attempts() {
        let mut attempts = 0;
        let ended: Result<()> = run(|_| {
            attempts += 1;
            Err(Error::NotFound)
        });
        assert!(matches!(ended, Err(Error::NotFound)));
        assert_eq!(attempts, 1);
    }
}
