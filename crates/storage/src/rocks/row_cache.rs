//! The row cache: items that were read recently, as the database has them now. A second read of one
//! of them asks one map instead of the memtables and files of `RocksDB`.
//!
//! An entry is never older than the database. The committer invalidates what it will change
//! *before* it writes, and leaves the number of that write on the stripe; a reader inserts what it
//! found only if that write was complete before its view was taken. So no old value can be inserted
//! in between, and a view may use an entry whenever the entry is not newer than the view. The numbers come
//! from the [`WriteSequence`]: it counts the write batches of the committer, when each one starts and when it
//! is complete.

use std::hash::BuildHasher as _;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use orrery_types::{Lsn, ShardId};
use quick_cache::unsync::Cache;

use super::layout;
use crate::{Commit, Space, Value};

/// Parts of the cache, each with its own lock.
const STRIPES: usize = 64;
/// A larger value is not cached: it would evict too many others.
const VALUE_BYTES_MAX: usize = 64 * 1024;
/// Estimated memory of an entry beside the bytes of its key and value.
const ENTRY_BYTES: usize = 128;
/// Size of a typical value, from which the map's capacity is estimated.
const USUAL_BYTES: usize = 1024;

#[derive(Debug)]
pub(super) struct RowCache {
    stripes: Box<[Mutex<Stripe>]>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Stripe {
    /// The last write that invalidated an entry here.
    invalidated: WriteNumber,
    values: Cache<Box<[u8]>, Value, ByteWeight>,
}

#[derive(Clone, Debug)]
struct ByteWeight;

impl quick_cache::Weighter<Box<[u8]>, Value> for ByteWeight {
    fn weight(&self, key: &Box<[u8]>, value: &Value) -> u64 {
        (key.len() + value.bytes.len() + ENTRY_BYTES) as u64
    }
}

impl RowCache {
    pub(super) fn new(bytes_max: usize) -> Self {
        let bytes = bytes_max / STRIPES;
        let stripe = || Stripe {
            invalidated: WriteNumber::default(),
            values: Cache::with_weighter(bytes / USUAL_BYTES, bytes as u64, ByteWeight),
        };
        let stripes = (0..STRIPES).map(|_| Mutex::new(stripe())).collect();
        Self { stripes, hasher: RandomState::default() }
    }

    /// The value of a key, if it is cached and a view at this LSN shows it.
    pub(super) fn get(&self, key: &[u8], view: Lsn) -> Option<Value> {
        let stripe = self.stripe(key);
        stripe.values.get(key).filter(|value| value.version <= view).cloned()
    }

    /// Inserts a value that was read at or after a point of the write sequence.
    pub(super) fn insert(&self, key: &[u8], value: &Value, point: SequencePoint) {
        if value.bytes.len() > VALUE_BYTES_MAX {
            return;
        }
        let mut stripe = self.stripe(key);
        if stripe.invalidated.is_complete_at(point) {
            stripe.values.insert(key.into(), value.clone());
        }
    }

    /// Removes what commits are about to change.
    pub(super) fn invalidate<'c>(
        &self,
        write: WriteNumber,
        commits: impl Iterator<Item = &'c Commit>,
    ) {
        let mut physical = Vec::new();
        let mut remove = |shard: ShardId, key: &[u8]| {
            layout::write_key(shard, key, &mut physical);
            let mut stripe = self.stripe(&physical);
            stripe.invalidated = write;
            stripe.values.remove(&physical[..]);
        };
        for part in commits.flat_map(|commit| &commit.parts) {
            let deletes = part.deletes.iter().map(|(space, key)| (*space, key));
            let puts = part.puts.iter().map(|put| (put.space, &put.key));
            for (_, key) in deletes.chain(puts).filter(|(space, _)| *space == Space::Items) {
                remove(part.shard, key);
            }
        }
    }

    /// Removes everything, for a change that does not list its keys: a shard that is dropped, or one
    /// that was filled without the committer.
    pub(super) fn invalidate_all(&self, write: WriteNumber) {
        for stripe in &self.stripes {
            let mut stripe = lock(stripe);
            stripe.invalidated = write;
            stripe.values.clear();
        }
    }

    fn stripe(&self, key: &[u8]) -> MutexGuard<'_, Stripe> {
        // The map inside uses a hash of its own.
        let hash = usize::try_from(self.hasher.hash_one(key) % STRIPES as u64).unwrap_or_default();
        lock(&self.stripes[hash])
    }
}

fn lock(stripe: &Mutex<Stripe>) -> MutexGuard<'_, Stripe> {
    stripe.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    use orrery_types::Epoch;

    use super::super::row_cache::WriteSequence;
    use super::*;
    use crate::{Part, Put};

    const SHARD: ShardId = ShardId(1);
    const NOW: Lsn = Lsn(u64::MAX);

    fn value(version: u64) -> Value {
        Value { version: Lsn(version), bytes: version.to_string().into_bytes().into() }
    }

    fn commit(key: &[u8]) -> Commit {
        let put = Put { space: Space::Items, key: key.to_vec(), value: Vec::new() };
        Commit::new(vec![Part { puts: vec![put], ..Part::new(SHARD, Epoch(0)) }])
    }

    #[test]
    fn a_value_is_shown_to_views_that_have_reached_it() {
        let (cache, sequence, key) =
            (RowCache::new(1 << 20), WriteSequence::default(), layout::key(SHARD, b"a"));
        cache.insert(&key, &value(5), sequence.point());
        assert_eq!(cache.get(&key, Lsn(4)), None);
        assert_eq!(cache.get(&key, Lsn(5)), Some(value(5)));
        assert_eq!(cache.get(&layout::key(SHARD, b"b"), NOW), None);
    }

    #[test]
    fn a_commit_invalidates_before_it_is_written() {
        let (cache, sequence, key) =
            (RowCache::new(1 << 20), WriteSequence::default(), layout::key(SHARD, b"a"));
        cache.insert(&key, &value(5), sequence.point());
        cache.invalidate(sequence.start(), [&commit(b"a")].into_iter());
        assert_eq!(cache.get(&key, NOW), None);
    }

    #[test]
    fn a_value_read_before_a_commit_is_not_cached_after_it() {
        let (cache, sequence, key) =
            (RowCache::new(1 << 20), WriteSequence::default(), layout::key(SHARD, b"a"));
        let before = sequence.point();
        let write = sequence.start();
        cache.invalidate(write, [&commit(b"a")].into_iter());
        cache.insert(&key, &value(5), before);
        let during = sequence.point();
        sequence.complete(write);
        cache.insert(&key, &value(5), during);
        assert_eq!(cache.get(&key, NOW), None, "it may be the value before the commit");
        cache.insert(&key, &value(6), sequence.point());
        assert_eq!(cache.get(&key, NOW), Some(value(6)));
    }

    #[test]
    fn everything_can_be_invalidated_at_once() {
        let (cache, sequence, key) =
            (RowCache::new(1 << 20), WriteSequence::default(), layout::key(SHARD, b"a"));
        let before = sequence.point();
        cache.insert(&key, &value(5), before);
        let write = sequence.start();
        cache.invalidate_all(write);
        sequence.complete(write);
        cache.insert(&key, &value(5), before);
        assert_eq!(cache.get(&key, NOW), None);
    }

    #[test]
    fn memory_is_bounded_and_large_values_are_not_cached() {
        let (cache, now) = (RowCache::new(1 << 20), WriteSequence::default().point());
        let large = Value { version: Lsn(1), bytes: vec![0; VALUE_BYTES_MAX + 1].into() };
        cache.insert(b"large", &large, now);
        assert_eq!(cache.get(b"large", NOW), None);
        for number in 0..10_000_u32 {
            let key = layout::key(SHARD, &number.to_be_bytes());
            let value = Value { version: Lsn(1), bytes: vec![0; 1024].into() };
            cache.insert(&key, &value, now);
        }
        let weight: u64 = cache.stripes.iter().map(|stripe| lock(stripe).values.weight()).sum();
        assert!(weight > 0 && weight <= 1 << 20, "{weight}");
    }

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
