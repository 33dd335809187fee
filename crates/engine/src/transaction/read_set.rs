//! What a transaction has read beside items, whose before images are in the write buffer. Everything in
//! the read set becomes a precondition of the commit, with a name for what it means if it fails. A
//! refusal has no commit: if it rests on reads of several instants, the read set is validated alone
//! before the refusal is returned, and if it does not hold, the work runs again.

use std::collections::BTreeMap;

use orrery_storage::{Precondition, Space};
use orrery_types::Lsn;

use super::write_buffer::ShardIndex;

/// What a failed precondition means: another writer was faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConflictReason {
    /// An item was changed, created or deleted since it was read.
    ItemChanged,
    /// The row of an item that was addressed by its rid leads to another key.
    RowMoved,
    /// Another item has a unique key.
    UniqueKeyTaken,
    /// A reference to an item has come since its referrers were read: its guard was written.
    ReferenceAdded,
    /// The tally of a target has changed.
    TallyChanged,
    /// A reference entry has come while its rule is built.
    EntryAppeared,
    /// Something in the logical partition has changed of which a range was read.
    RangeChanged,
    /// Another writer has allocated path ids.
    PathIdsTaken,
}

impl ConflictReason {
    /// What the log says.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::ItemChanged => "an item has changed",
            Self::RowMoved => "an item has another key",
            Self::UniqueKeyTaken => "a unique key is taken",
            Self::ReferenceAdded => "a reference was added",
            Self::TallyChanged => "a tally has changed",
            Self::EntryAppeared => "a reference entry was written",
            Self::RangeChanged => "a range has changed",
            Self::PathIdsTaken => "path ids were allocated",
        }
    }
}

/// A key that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyRead {
    /// `None`: it did not exist.
    version: Option<Lsn>,
    reason: ConflictReason,
}

/// The read set of one transaction.
#[derive(Debug, Default)]
pub(crate) struct ReadSet {
    keys: BTreeMap<(ShardIndex, Space, Vec<u8>), KeyRead>,
    /// The stripe of the logical partition of which a range was read, and the LSN of its snapshot.
    range: Option<(u8, Lsn)>,
}

impl ReadSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.range.is_none()
    }

    /// How many keys were read.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn contains(&self, shard: ShardIndex, space: Space, key: &[u8]) -> bool {
        !self.keys.is_empty() && self.keys.contains_key(&(shard, space, key.to_vec()))
    }

    /// Adds a key; the first read of a key counts.
    pub(crate) fn add(
        &mut self,
        shard: ShardIndex,
        space: Space,
        key: Vec<u8>,
        version: Option<Lsn>,
        reason: ConflictReason,
    ) {
        self.keys.entry((shard, space, key)).or_insert(KeyRead { version, reason });
    }

    /// Adds the range of a logical partition.
    pub(crate) fn add_range(&mut self, stripe: u8, since: Lsn) {
        self.range = Some((stripe, since));
    }

    /// Whether something was read in a shard.
    pub(crate) fn has_read(&self, shard: ShardIndex) -> bool {
        (shard == ShardIndex::HOME && self.range.is_some())
            || self.keys.keys().any(|(of, ..)| *of == shard)
    }

    /// The preconditions of a shard.
    pub(crate) fn preconditions(&self, shard: ShardIndex) -> impl Iterator<Item = Precondition> {
        let keys = self.keys.iter().filter(move |((of, ..), _)| *of == shard);
        let keys = keys.map(|((_, space, key), read)| {
            Precondition::unchanged(*space, key.clone(), read.version)
        });
        let range = self.range.filter(|_| shard == ShardIndex::HOME);
        keys.chain(range.map(|(stripe, since)| Precondition::StripeUnchanged { stripe, since }))
    }

    /// What it means that the precondition of a key failed.
    pub(crate) fn reason_of(
        &self,
        shard: ShardIndex,
        space: Space,
        key: &[u8],
    ) -> Option<ConflictReason> {
        self.keys.get(&(shard, space, key.to_vec())).map(|read| read.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: ShardIndex = ShardIndex::HOME;

    fn add(reads: &mut ReadSet, key: &[u8], version: Option<u64>, reason: ConflictReason) {
        reads.add(HOME, Space::Meta, key.to_vec(), version.map(Lsn), reason);
    }

    #[test]
    fn the_first_read_of_a_key_counts() {
        let mut reads = ReadSet::default();
        add(&mut reads, b"guard", Some(3), ConflictReason::ReferenceAdded);
        add(&mut reads, b"guard", Some(4), ConflictReason::TallyChanged);
        let key = b"guard".to_vec();
        let lsn = Lsn(3);
        let preconditions: Vec<Precondition> = reads.preconditions(HOME).collect();
        assert_eq!(preconditions, vec![Precondition::Version { space: Space::Meta, key, lsn }]);
        let reason = reads.reason_of(HOME, Space::Meta, b"guard");
        assert_eq!(reason, Some(ConflictReason::ReferenceAdded));
    }

    #[test]
    fn a_key_that_did_not_exist_must_not_have_come() {
        let mut reads = ReadSet::default();
        add(&mut reads, b"tally", None, ConflictReason::TallyChanged);
        let key = b"tally".to_vec();
        let preconditions: Vec<Precondition> = reads.preconditions(HOME).collect();
        assert_eq!(preconditions, vec![Precondition::Absent { space: Space::Meta, key }]);
        assert_eq!(reads.reason_of(HOME, Space::Index, b"tally"), None, "another space");
    }

    #[test]
    fn a_range_requires_its_stripe_unchanged_since_the_snapshot() {
        let mut reads = ReadSet::default();
        assert!(reads.is_empty() && !reads.has_read(HOME));
        reads.add_range(7, Lsn(9));
        assert!(reads.has_read(HOME) && !reads.is_empty());
        let preconditions: Vec<Precondition> = reads.preconditions(HOME).collect();
        assert_eq!(preconditions, vec![Precondition::StripeUnchanged { stripe: 7, since: Lsn(9) }]);
    }
}
