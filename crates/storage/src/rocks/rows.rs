//! Items that were read of late, as the database has them now: who reads one of them again asks one
//! map instead of the memory and the files of `RocksDB`.
//!
//! What is kept is never older than the database. The committer takes what it will change out
//! *before* it writes, and leaves the number of its write on the stripe; a reader inserts what it found only if
//! that write was complete before its view was taken. So no old value can be inserted in between, and
//! a view may use what is kept whenever it is not newer than the view.

use std::hash::BuildHasher as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use orrery_types::{Lsn, ShardId};
use quick_cache::unsync::Cache;

use super::layout;
use super::write_sequence::{SequencePoint, WriteNumber};
use crate::{Commit, Space, Value};

/// Parts of the map, each with a lock of its own.
const STRIPES: usize = 64;
/// A larger value is not kept: it would push out too many others.
const VALUE_BYTES_MAX: usize = 64 * 1024;
/// What a value takes beside its bytes and those of its key, roughly.
const ENTRY_BYTES: usize = 128;
/// A usual value, by which the map guesses how many there will be.
const USUAL_BYTES: usize = 1024;

#[derive(Debug)]
pub(super) struct Rows {
    stripes: Box<[Mutex<Stripe>]>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Stripe {
    /// The last write that changed something here.
    changed: WriteNumber,
    values: Cache<Box<[u8]>, Value, ByBytes>,
}

#[derive(Clone, Debug)]
struct ByBytes;

impl quick_cache::Weighter<Box<[u8]>, Value> for ByBytes {
    fn weight(&self, key: &Box<[u8]>, value: &Value) -> u64 {
        (key.len() + value.bytes.len() + ENTRY_BYTES) as u64
    }
}

impl Rows {
    pub(super) fn new(bytes_max: usize) -> Self {
        let bytes = bytes_max / STRIPES;
        let stripe = || Stripe {
            changed: WriteNumber::default(),
            values: Cache::with_weighter(bytes / USUAL_BYTES, bytes as u64, ByBytes),
        };
        let stripes = (0..STRIPES).map(|_| Mutex::new(stripe())).collect();
        Self { stripes, hasher: RandomState::default() }
    }

    /// The value of a key, if it is here and a view of this LSN shows it.
    pub(super) fn find(&self, key: &[u8], view: Lsn) -> Option<Value> {
        let stripe = self.stripe(key);
        stripe.values.get(key).filter(|value| value.version <= view).cloned()
    }

    /// Keeps a value that was read at or after a point.
    pub(super) fn keep(&self, key: &[u8], value: &Value, point: SequencePoint) {
        if value.bytes.len() > VALUE_BYTES_MAX {
            return;
        }
        let mut stripe = self.stripe(key);
        if stripe.changed.is_complete_at(point) {
            stripe.values.insert(key.into(), value.clone());
        }
    }

    /// Takes out what commits are about to change.
    pub(super) fn change<'c>(&self, write: WriteNumber, commits: impl Iterator<Item = &'c Commit>) {
        let mut physical = Vec::new();
        let mut take = |shard: ShardId, key: &[u8]| {
            layout::write_key(shard, key, &mut physical);
            let mut stripe = self.stripe(&physical);
            stripe.changed = write;
            stripe.values.remove(&physical[..]);
        };
        for part in commits.flat_map(|commit| &commit.parts) {
            let deletes = part.deletes.iter().map(|(space, key)| (*space, key));
            let puts = part.puts.iter().map(|put| (put.space, &put.key));
            for (_, key) in deletes.chain(puts).filter(|(space, _)| *space == Space::Items) {
                take(part.shard, key);
            }
        }
    }

    /// The same for a change that is not told key by key: a shard that goes, or one that comes with what
    /// was copied into it without the committer.
    pub(super) fn change_all(&self, write: WriteNumber) {
        for stripe in &self.stripes {
            let mut stripe = lock(stripe);
            stripe.changed = write;
            stripe.values.clear();
        }
    }

    fn stripe(&self, key: &[u8]) -> MutexGuard<'_, Stripe> {
        // The map within takes other bits of another hash.
        let hash = usize::try_from(self.hasher.hash_one(key) % STRIPES as u64).unwrap_or_default();
        lock(&self.stripes[hash])
    }
}

fn lock(stripe: &Mutex<Stripe>) -> MutexGuard<'_, Stripe> {
    stripe.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use orrery_types::Epoch;

    use super::super::write_sequence::WriteSequence;
    use super::*;
    use crate::{Part, Put};

    const SHARD: ShardId = ShardId(1);
    const NOW: Lsn = Lsn(u64::MAX);

    fn value(version: u64) -> Value {
        Value { version: Lsn(version), bytes: version.to_string().into_bytes().into() }
    }

    fn commit(key: &[u8]) -> Commit {
        let put = Put { space: Space::Items, key: key.to_vec(), value: Vec::new() };
        Commit { parts: vec![Part { puts: vec![put], ..Part::new(SHARD, Epoch(0)) }] }
    }

    #[test]
    fn a_value_is_shown_to_views_that_have_reached_it() {
        let (rows, sequence, key) =
            (Rows::new(1 << 20), WriteSequence::default(), layout::key(SHARD, b"a"));
        rows.keep(&key, &value(5), sequence.point());
        assert_eq!(rows.find(&key, Lsn(4)), None);
        assert_eq!(rows.find(&key, Lsn(5)), Some(value(5)));
        assert_eq!(rows.find(&layout::key(SHARD, b"b"), NOW), None);
    }

    #[test]
    fn what_a_commit_changes_is_gone_before_it_is_written() {
        let (rows, sequence, key) =
            (Rows::new(1 << 20), WriteSequence::default(), layout::key(SHARD, b"a"));
        rows.keep(&key, &value(5), sequence.point());
        rows.change(sequence.start(), [&commit(b"a")].into_iter());
        assert_eq!(rows.find(&key, NOW), None);
    }

    #[test]
    fn what_was_read_before_a_commit_is_not_kept_after_it() {
        let (rows, sequence, key) =
            (Rows::new(1 << 20), WriteSequence::default(), layout::key(SHARD, b"a"));
        let before = sequence.point();
        let write = sequence.start();
        rows.change(write, [&commit(b"a")].into_iter());
        rows.keep(&key, &value(5), before);
        let during = sequence.point();
        sequence.complete(write);
        rows.keep(&key, &value(5), during);
        assert_eq!(rows.find(&key, NOW), None, "it may be the value before the commit");
        rows.keep(&key, &value(6), sequence.point());
        assert_eq!(rows.find(&key, NOW), Some(value(6)));
    }

    #[test]
    fn everything_can_change_at_once() {
        let (rows, sequence, key) =
            (Rows::new(1 << 20), WriteSequence::default(), layout::key(SHARD, b"a"));
        let before = sequence.point();
        rows.keep(&key, &value(5), before);
        let write = sequence.start();
        rows.change_all(write);
        sequence.complete(write);
        rows.keep(&key, &value(5), before);
        assert_eq!(rows.find(&key, NOW), None);
    }

    #[test]
    fn memory_is_bounded_and_giants_stay_out() {
        let (rows, now) = (Rows::new(1 << 20), WriteSequence::default().point());
        let large = Value { version: Lsn(1), bytes: vec![0; VALUE_BYTES_MAX + 1].into() };
        rows.keep(b"large", &large, now);
        assert_eq!(rows.find(b"large", NOW), None);
        for number in 0..10_000_u32 {
            let key = layout::key(SHARD, &number.to_be_bytes());
            let value = Value { version: Lsn(1), bytes: vec![0; 1024].into() };
            rows.keep(&key, &value, now);
        }
        let kept: u64 = rows.stripes.iter().map(|stripe| lock(stripe).values.weight()).sum();
        assert!(kept > 0 && kept <= 1 << 20, "{kept}");
    }
}
