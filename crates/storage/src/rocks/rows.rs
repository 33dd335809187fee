//! Items that were read of late, as the database has them now: who reads one of them again asks one
//! map instead of the memory and the files of `RocksDB`.
//!
//! What is kept is never older than the database. The committer takes what it will change out
//! *before* it writes, and leaves its turn on the stripe; a reader puts in what it found only if
//! that turn was over before the moment of its view. So nobody can slip an old value in between, and
//! a view may use what is kept whenever it is not newer than the view.

use std::hash::BuildHasher as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use orrery_types::{Lsn, ShardId};
use quick_cache::unsync::Cache;

use super::layout;
use super::turns::{Moment, Turn};
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
    /// The last turn that changed something here.
    changed: Turn,
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
            changed: Turn::default(),
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

    /// Keeps a value that was read at or after a moment.
    pub(super) fn keep(&self, key: &[u8], value: &Value, moment: Moment) {
        if value.bytes.len() > VALUE_BYTES_MAX {
            return;
        }
        let mut stripe = self.stripe(key);
        if stripe.changed.is_over_at(moment) {
            stripe.values.insert(key.into(), value.clone());
        }
    }

    /// Takes out what commits are about to change.
    pub(super) fn change<'c>(&self, turn: Turn, commits: impl Iterator<Item = &'c Commit>) {
        let mut physical = Vec::new();
        let mut take = |shard: ShardId, key: &[u8]| {
            layout::write_key(shard, key, &mut physical);
            let mut stripe = self.stripe(&physical);
            stripe.changed = turn;
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
    pub(super) fn change_all(&self, turn: Turn) {
        for stripe in &self.stripes {
            let mut stripe = lock(stripe);
            stripe.changed = turn;
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

    use super::super::turns::Turns;
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
        let (rows, turns, key) = (Rows::new(1 << 20), Turns::default(), layout::key(SHARD, b"a"));
        rows.keep(&key, &value(5), turns.moment());
        assert_eq!(rows.find(&key, Lsn(4)), None);
        assert_eq!(rows.find(&key, Lsn(5)), Some(value(5)));
        assert_eq!(rows.find(&layout::key(SHARD, b"b"), NOW), None);
    }

    #[test]
    fn what_a_commit_changes_is_gone_before_it_is_written() {
        let (rows, turns, key) = (Rows::new(1 << 20), Turns::default(), layout::key(SHARD, b"a"));
        rows.keep(&key, &value(5), turns.moment());
        rows.change(turns.begin(), [&commit(b"a")].into_iter());
        assert_eq!(rows.find(&key, NOW), None);
    }

    #[test]
    fn what_was_read_before_a_commit_is_not_kept_after_it() {
        let (rows, turns, key) = (Rows::new(1 << 20), Turns::default(), layout::key(SHARD, b"a"));
        let before = turns.moment();
        let turn = turns.begin();
        rows.change(turn, [&commit(b"a")].into_iter());
        rows.keep(&key, &value(5), before);
        let during = turns.moment();
        turns.end(turn);
        rows.keep(&key, &value(5), during);
        assert_eq!(rows.find(&key, NOW), None, "it may be the value before the commit");
        rows.keep(&key, &value(6), turns.moment());
        assert_eq!(rows.find(&key, NOW), Some(value(6)));
    }

    #[test]
    fn everything_can_change_at_once() {
        let (rows, turns, key) = (Rows::new(1 << 20), Turns::default(), layout::key(SHARD, b"a"));
        let before = turns.moment();
        rows.keep(&key, &value(5), before);
        let turn = turns.begin();
        rows.change_all(turn);
        turns.end(turn);
        rows.keep(&key, &value(5), before);
        assert_eq!(rows.find(&key, NOW), None);
    }

    #[test]
    fn memory_is_bounded_and_giants_stay_out() {
        let (rows, now) = (Rows::new(1 << 20), Turns::default().moment());
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
