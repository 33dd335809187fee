//! The writes of the committer, counted when they begin and when they are over. So whoever reads can
//! tell whether something changed meanwhile, or may have.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// How many turns were over when somebody began to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

/// The number of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn(u64);

impl Turn {
    /// Whether everything of the turn could be seen at that moment.
    pub(super) fn is_over_at(self, moment: Moment) -> bool {
        self.0 <= moment.0
    }
}

#[derive(Debug, Default)]
pub(super) struct Turns {
    begun: AtomicU64,
    over: AtomicU64,
}

impl Turns {
    /// To be asked for before a value is read, or a snapshot taken.
    pub(super) fn moment(&self) -> Moment {
        Moment(self.over.load(SeqCst))
    }

    /// Whether nothing has been written since, and nothing is being.
    pub(super) fn is_still(&self, moment: Moment) -> bool {
        self.begun.load(SeqCst) == moment.0
    }

    /// Begins a turn, before anything of it can be seen. Only the committer calls this, and ends the
    /// turn when everybody can see all of it. A turn that failed stays as it is: nobody knows what
    /// of it there is to see.
    pub(super) fn begin(&self) -> Turn {
        Turn(self.begun.fetch_add(1, SeqCst) + 1)
    }

    pub(super) fn end(&self, turn: Turn) {
        self.over.store(turn.0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_still_only_between_turns() {
        let turns = Turns::default();
        let before = turns.moment();
        assert!(turns.is_still(before));
        let turn = turns.begin();
        let during = turns.moment();
        assert!(!turns.is_still(before) && !turns.is_still(during));
        turns.end(turn);
        assert!(!turns.is_still(before) && turns.is_still(turns.moment()));
        assert!(!turn.is_over_at(before) && !turn.is_over_at(during));
        assert!(turn.is_over_at(turns.moment()));
    }
}
