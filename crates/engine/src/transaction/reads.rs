//! Where a transaction reads from, and what it has read. Every read goes through its [`ReadView`], which also has
//! the time by which items are judged. The [`ReadSet`] has what was read beside items, whose before images
//! are in the write buffer. Everything in it becomes a precondition of the commit, with a name for what it means if it fails. A
//! refusal has no commit: if it rests on reads of several instants, the read set is validated alone
//! before the refusal is returned, and if it does not hold, the work runs again.

use std::collections::BTreeMap;

use orrery_storage::{Entry, Precondition, ReadAt, Scan, Snapshot, Space, Value};
use orrery_types::{Error, Lsn, Result, ShardId};

use super::write_buffer::ShardIndex;
use crate::background::expiry_sweep::expiry;
use crate::error::storage;
use crate::item::image::BeforeImage;
use crate::{Container, Database, Engine};

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
    /// Its position in the order of reads.
    order: u32,
}

/// The read set of one transaction.
#[derive(Debug, Default)]
pub(crate) struct ReadSet {
    keys: BTreeMap<(ShardIndex, Space, Vec<u8>), KeyRead>,
    /// Keys that were read so far, also those that were forgotten.
    sequence: u32,
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
        self.sequence += 1;
        let order = self.sequence;
        self.keys.entry((shard, space, key)).or_insert(KeyRead { version, reason, order });
    }

    /// The position of the last read.
    pub(crate) fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Forgets the keys that were read after a position: nothing rests on them.
    pub(crate) fn forget_after(&mut self, sequence: u32) {
        self.keys.retain(|_, read| read.order <= sequence);
    }

    /// Adds the range of a logical partition.
    pub(crate) fn add_range(&mut self, stripe: u8, since: Lsn) {
        self.range = Some((stripe, since));
    }

    /// Whether something was read in a shard.
    pub(crate) fn has_read(&self, shard: ShardIndex) -> bool {
        (shard == ShardIndex::FIRST && self.range.is_some())
            || self.keys.keys().any(|(of, ..)| *of == shard)
    }

    /// The preconditions of a shard.
    pub(crate) fn preconditions(&self, shard: ShardIndex) -> impl Iterator<Item = Precondition> {
        let keys = self.keys.iter().filter(move |((of, ..), _)| *of == shard);
        let keys = keys.map(|((_, space, key), read)| {
            Precondition::unchanged(*space, key.clone(), read.version)
        });
        let range = self.range.filter(|_| shard == ShardIndex::FIRST);
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

/// A snapshot of all shards of a database, taken at one instant. A reader that compares items with what
/// is derived from them in other shards sees both as of that instant, however many writers there are.
pub(crate) struct DatabaseSnapshot<'e> {
    shards: BTreeMap<u32, Box<dyn Snapshot + 'e>>,
}

impl<'e> DatabaseSnapshot<'e> {
    pub(crate) fn open(engine: &'e Engine, database: &Database) -> Result<Self> {
        let partitions = database.containers().flat_map(|container| &container.partitions);
        let shards: Vec<ShardId> = partitions.map(|partition| partition.shard).collect();
        let opened = engine.store.snapshots(&shards).map_err(storage)?;
        Ok(Self { shards: shards.iter().map(|shard| shard.0).zip(opened).collect() })
    }

    pub(crate) fn shard(&self, shard: ShardId) -> Result<&(dyn Snapshot + 'e)> {
        let found = self.shards.get(&shard.0).map(|snapshot| &**snapshot);
        found.ok_or_else(|| Error::internal("a shard of another database"))
    }
}

/// What is read.
enum Source<'e> {
    /// The newest committed value at each read.
    Latest,
    /// One snapshot of some shards, taken at one instant; other shards newest.
    Shards(Vec<(ShardId, Box<dyn Snapshot + 'e>)>),
    /// One snapshot of every shard of the database.
    Database(&'e DatabaseSnapshot<'e>),
}

/// The view of one transaction.
pub(crate) struct ReadView<'e> {
    engine: &'e Engine,
    source: Source<'e>,
    /// The statement time: the second by which the transaction judges whether an item has expired, from
    /// its first read to its commit.
    now_s: u64,
}

impl<'e> ReadView<'e> {
    /// Each read sees the newest commit.
    pub(crate) fn latest(engine: &'e Engine) -> Self {
        Self { engine, source: Source::Latest, now_s: engine.clock.now_s() }
    }

    /// Reads of the home shard see one snapshot, whose LSN is returned too.
    pub(crate) fn snapshot(engine: &'e Engine, home: ShardId) -> Result<(Self, Lsn)> {
        let snapshot = engine.store.snapshot(home, ReadAt::Latest).map_err(storage)?;
        let lsn = snapshot.lsn();
        let source = Source::Shards(vec![(home, snapshot)]);
        Ok((Self { engine, source, now_s: engine.clock.now_s() }, lsn))
    }

    /// Reads of these shards see one snapshot.
    pub(crate) fn snapshots(engine: &'e Engine, shards: &[ShardId]) -> Result<Self> {
        let opened = engine.store.snapshots(shards).map_err(storage)?;
        let source = Source::Shards(shards.iter().copied().zip(opened).collect());
        Ok(Self { engine, source, now_s: engine.clock.now_s() })
    }

    /// The LSN up to which reads of a shard see commits, if they see a snapshot.
    pub(crate) fn lsn_of(&self, shard: ShardId) -> Option<Lsn> {
        self.snapshot_of(shard).map(Snapshot::lsn)
    }

    fn snapshot_of(&self, shard: ShardId) -> Option<&(dyn Snapshot + 'e)> {
        match &self.source {
            Source::Latest => None,
            Source::Shards(shards) => {
                shards.iter().find(|(of, _)| *of == shard).map(|(_, snapshot)| &**snapshot)
            }
            Source::Database(snapshot) => snapshot.shard(shard).ok(),
        }
    }

    /// All reads see one snapshot of the database.
    pub(crate) fn database(engine: &'e Engine, snapshot: &'e DatabaseSnapshot<'e>) -> Self {
        Self { engine, source: Source::Database(snapshot), now_s: engine.clock.now_s() }
    }

    /// Whether reads of every shard are of one instant.
    pub(crate) fn is_database(&self) -> bool {
        matches!(self.source, Source::Database(_))
    }

    /// Whether reads of a shard are of one instant.
    pub(crate) fn is_fixed(&self, shard: ShardId) -> bool {
        match &self.source {
            Source::Latest => false,
            Source::Shards(_) => self.snapshot_of(shard).is_some(),
            Source::Database(_) => true,
        }
    }

    /// A stored value.
    pub(crate) fn get(&self, shard: ShardId, space: Space, key: &[u8]) -> Result<Option<Value>> {
        match &self.source {
            Source::Database(snapshot) => snapshot.shard(shard)?.get(space, key).map_err(storage),
            Source::Latest | Source::Shards(_) => match self.snapshot_of(shard) {
                Some(snapshot) => snapshot.get(space, key).map_err(storage),
                None => Ok(self.engine.store.get(shard, space, key).map_err(storage)?.1),
            },
        }
    }

    /// Stored entries of a range.
    pub(crate) fn scan(&self, shard: ShardId, scan: &Scan<'_>) -> Result<Vec<Entry>> {
        match &self.source {
            Source::Database(snapshot) => snapshot.shard(shard)?.scan(scan).map_err(storage),
            Source::Latest | Source::Shards(_) => {
                if let Some(snapshot) = self.snapshot_of(shard) {
                    return snapshot.scan(scan).map_err(storage);
                }
                let snapshot = self.engine.store.snapshot(shard, ReadAt::Latest);
                snapshot.map_err(storage)?.scan(scan).map_err(storage)
            }
        }
    }

    /// Whether a stored item is hidden: expired at the statement time, or erased.
    pub(crate) fn hides(&self, container: &Container, key: &[u8], before: &BeforeImage) -> bool {
        let expired = expiry(&container.definition, &before.header);
        expired.is_some_and(|at| at <= self.now_s) || container.erasures.hide(key, before.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: ShardIndex = ShardIndex::FIRST;

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
    fn keys_read_after_a_position_are_forgotten_unless_they_were_read_before() {
        let mut reads = ReadSet::default();
        add(&mut reads, b"before", Some(1), ConflictReason::TallyChanged);
        let position = reads.sequence();
        add(&mut reads, b"before", Some(1), ConflictReason::TallyChanged);
        add(&mut reads, b"after", Some(2), ConflictReason::ReferenceAdded);
        reads.forget_after(position);
        assert!(reads.contains(HOME, Space::Meta, b"before"));
        assert!(!reads.contains(HOME, Space::Meta, b"after"));
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
