//! The outcomes of the last commits of an embedded engine, by id. It is kept in memory: an answer is lost
//! between an engine and its caller, and both end with the process.

use std::collections::{HashMap, VecDeque};

use orrery_types::Lsn;
use orrery_types::limits::COMMIT_LOG_ENTRIES;

use crate::CommitId;

/// What became of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It is in the store; the LSN of each part, as in its answer.
    Committed(Vec<Lsn>),
    /// It is not, and it never will be: a commit of this id is refused from now on.
    Never,
    /// The store cannot tell: too many commits came after it, the store was opened again, or a write
    /// failed.
    NotKnown,
}

#[derive(Debug)]
pub(crate) struct CommitLog {
    /// The LSNs of a commit; `None` for an id that is refused.
    outcomes: HashMap<CommitId, Option<Box<[Lsn]>>>,
    /// The same ids in the order in which they came.
    order: VecDeque<CommitId>,
    /// No id above this one was forgotten, and none was made before the log was.
    forgotten: CommitId,
    /// The greatest id of those that were forgotten and must be refused.
    refused: CommitId,
}

impl Default for CommitLog {
    fn default() -> Self {
        let (outcomes, order) = (HashMap::new(), VecDeque::new());
        Self { outcomes, order, forgotten: CommitId::new(), refused: CommitId::NONE }
    }
}

impl CommitLog {
    /// Whether a commit must be refused, because somebody was told that it never happens.
    pub(crate) fn is_refused(&self, id: CommitId) -> bool {
        id <= self.refused || self.outcomes.get(&id).is_some_and(Option::is_none)
    }

    /// Notes that a commit happened.
    pub(crate) fn record(&mut self, id: CommitId, lsns: &[Lsn]) {
        self.insert(id, Some(lsns.into()));
    }

    /// What became of a commit that is not in progress.
    pub(crate) fn resolve(&mut self, id: CommitId) -> Resolution {
        match self.known(id) {
            Resolution::NotKnown if id > self.forgotten => {
                self.insert(id, None);
                Resolution::Never
            }
            known => known,
        }
    }

    /// What is known of a commit, without refusing it.
    pub(crate) fn known(&self, id: CommitId) -> Resolution {
        match self.outcomes.get(&id) {
            Some(Some(lsns)) => Resolution::Committed(lsns.to_vec()),
            Some(None) => Resolution::Never,
            None => Resolution::NotKnown,
        }
    }

    fn insert(&mut self, id: CommitId, outcome: Option<Box<[Lsn]>>) {
        if self.order.len() >= COMMIT_LOG_ENTRIES
            && let Some(oldest) = self.order.pop_front()
        {
            self.forgotten = self.forgotten.max(oldest);
            if let Some(None) = self.outcomes.remove(&oldest) {
                self.refused = self.refused.max(oldest);
            }
        }
        if self.outcomes.insert(id, outcome).is_none() {
            self.order.push_back(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_forgotten_is_not_known_and_what_was_refused_stays_refused() {
        let before = CommitId::new();
        let mut log = CommitLog::default();
        assert_eq!(log.resolve(before), Resolution::NotKnown, "it may be of another process");
        let (refused, first) = (CommitId::new(), CommitId::new());
        assert_eq!(log.resolve(refused), Resolution::Never);
        log.record(first, &[Lsn(1), Lsn(4)]);
        assert_eq!(log.resolve(first), Resolution::Committed(vec![Lsn(1), Lsn(4)]));
        assert!(log.is_refused(refused) && !log.is_refused(first));
        for lsn in 0..COMMIT_LOG_ENTRIES as u64 {
            log.record(CommitId::new(), &[Lsn(lsn)]);
        }
        assert_eq!(log.resolve(first), Resolution::NotKnown);
        assert_eq!(log.resolve(refused), Resolution::NotKnown);
        assert!(log.is_refused(refused) && !log.is_refused(CommitId::new()));
        assert_eq!(log.outcomes.len(), COMMIT_LOG_ENTRIES);
    }
}
