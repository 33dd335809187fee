//! Reads of one instant: a `RocksDB` snapshot, whose LSN and epoch come out of the snapshot itself, so
//! that they cannot disagree with what it shows.

use std::sync::Arc;

use bytes::Bytes;
use orrery_types::ShardId;
use rocksdb::properties::{ESTIMATE_NUM_KEYS, LIVE_SST_FILES_SIZE};
use rocksdb::{DBRawIterator, Range, ReadOptions};

use super::layout::{self, Header};
use super::row_cache::SequencePoint;
use super::{Core, NO_SHARD, read_error};
use crate::{Entry, Head, KeyCursor, Scan, Snapshot, Space, StorageError, Value};

/// An estimate counts up to here.
const COUNTED_MAX: u64 = 128;

/// The same while all entries are in memory.
const COUNTED_IN_MEMORY_MAX: u64 = 512;
/// Fewer keys than these are looked up one by one.
const WALKED_MIN: usize = 16;
/// What keys that lie side by side have in common at least: the shard, and a hash.
const NEAR_BYTES: usize = 21;
/// A lookup of more keys than this bypasses the row cache. A scan in the order of rows asks for so many
/// at once; the cache keeps what is read often when others are read once.
const CACHED_KEYS_MAX: usize = 1024;
/// Entries that are passed over on the way to a key before it is searched for.
const STEPS_MAX: usize = 3;

pub(super) struct RocksSnapshot<'s> {
    core: &'s Core,
    /// Shared by the shards of which it is a view.
    view: Arc<rocksdb::Snapshot<'s>>,
    shard: ShardId,
    head: Head,
    /// When it was taken, or just before.
    point: SequencePoint,
}

impl<'s> RocksSnapshot<'s> {
    pub(super) fn new(core: &'s Core, shard: ShardId) -> Result<Self, StorageError> {
        let point = core.sequence.point();
        Self::over(core, Arc::new(core.db.snapshot()), shard, point)
    }

    /// Views of several shards: one snapshot is over all of them.
    pub(super) fn of_one_instant(
        core: &'s Core,
        shards: &[ShardId],
    ) -> Result<Vec<Self>, StorageError> {
        let point = core.sequence.point();
        let view = Arc::new(core.db.snapshot());
        shards.iter().map(|shard| Self::over(core, view.clone(), *shard, point)).collect()
    }

    fn over(
        core: &'s Core,
        view: Arc<rocksdb::Snapshot<'s>>,
        shard: ShardId,
        point: SequencePoint,
    ) -> Result<Self, StorageError> {
        let known = core.shards.load().get(&shard).map(|head| head.head());
        let head = match known {
            // Nothing was written since before the snapshot, so what is known is what it shows.
            Some(known) if core.sequence.is_current(point) => known,
            _ => view
                .get_pinned_cf(core.cf(Space::Meta), layout::header_key(shard))
                .map_err(read_error)
                .and_then(|bytes| Header::decode(&bytes.ok_or(NO_SHARD)?))
                .map(|Header { epoch, lsn, state }| Head { lsn, epoch, control: lsn, state })
                .map_err(|error| error.at(shard, Space::Meta, &layout::header_key(shard)))?,
        };
        Ok(Self { core, view, shard, head, point })
    }

    /// Entries of a range, as far as they are counted.
    fn count(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
        counted_max: u64,
    ) -> Result<u64, StorageError> {
        if from >= to {
            return Ok(0);
        }
        let mut options = self.options();
        options.set_iterate_lower_bound(layout::key(self.shard, from));
        options.set_iterate_upper_bound(layout::key(self.shard, to));
        let mut iterator = self.core.db.raw_iterator_cf_opt(self.core.cf(space), options);
        iterator.seek_to_first();
        let mut counted = 0;
        while counted < counted_max && iterator.valid() {
            counted += 1;
            iterator.next();
        }
        iterator.status().map_err(|error| read_error(error).at(self.shard, space, from))?;
        Ok(counted)
    }

    /// Looks sorted keys up along an iterator, for as long as most of them lie side by side: a step is
    /// much cheaper than a search, and a search of an iterator dearer than a lookup. Returns how
    /// many keys it has dealt with.
    fn walk(
        &self,
        space: Space,
        keys: &[Vec<u8>],
        mut found: impl FnMut(usize, Value),
    ) -> Result<usize, StorageError> {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return Ok(0) };
        if keys.len() < WALKED_MIN || !are_near(keys) {
            return Ok(0);
        }
        let mut options = self.options();
        options.set_iterate_lower_bound(first.clone());
        options.set_iterate_upper_bound([&last[..], &[0]].concat());
        let mut iterator = self.core.db.raw_iterator_cf_opt(self.core.cf(space), options);
        iterator.seek_to_first();
        let mut searches = 0;
        for (nth, key) in keys.iter().enumerate() {
            let mut steps = 0;
            while iterator.key().is_some_and(|at| at < &key[..]) && steps < STEPS_MAX {
                iterator.next();
                steps += 1;
            }
            if iterator.key().is_some_and(|at| at < &key[..]) {
                searches += 1;
                if searches > WALKED_MIN / 4 && searches * 4 > nth {
                    return Ok(nth);
                }
                iterator.seek(key);
            }
            let damaged = |error: StorageError| error.at(self.shard, space, layout::logical(key));
            iterator.status().map_err(|error| damaged(read_error(error)))?;
            if let Some((at, stored)) = iterator.item()
                && at == &key[..]
            {
                found(nth, layout::value(space, stored).map_err(damaged)?);
            }
        }
        Ok(keys.len())
    }

    /// The cached value of a key, if this view shows it.
    fn cached(&self, space: Space, key: &[u8]) -> Option<Value> {
        if space == Space::Items { self.core.row_cache.get(key, self.head.lsn) } else { None }
    }

    fn cache(&self, space: Space, key: &[u8], value: &Value) {
        if space == Space::Items {
            self.core.row_cache.insert(key, value, self.point);
        }
    }

    fn options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        options.set_snapshot(&self.view);
        options
    }
}

/// Whether most of some sorted keys begin like the one before, as those of one logical partition do.
fn are_near(keys: &[Vec<u8>]) -> bool {
    let near = |pair: &&[Vec<u8>]| match pair {
        [a, b] => a.get(..NEAR_BYTES).is_some_and(|start| b.starts_with(start)),
        _ => false,
    };
    keys.windows(2).filter(near).count() * 2 > keys.len()
}

impl Snapshot for RocksSnapshot<'_> {
    fn head(&self) -> Head {
        self.head
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>, StorageError> {
        let physical = layout::key(self.shard, key);
        if let Some(value) = self.cached(space, &physical) {
            return Ok(Some(value));
        }
        let damaged = |error: StorageError| error.at(self.shard, space, key);
        let found = self.view.get_pinned_cf(self.core.cf(space), &physical);
        let Some(bytes) = found.map_err(|error| damaged(read_error(error)))? else {
            return Ok(None);
        };
        let value = layout::value(space, &bytes).map_err(damaged)?;
        self.cache(space, &physical, &value);
        Ok(Some(value))
    }

    fn get_many(&self, space: Space, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, StorageError> {
        if let [key] = keys {
            return Ok(vec![self.get(space, key)?]);
        }
        let mut values = vec![None; keys.len()];
        let use_cache = keys.len() <= CACHED_KEYS_MAX && space == Space::Items;
        let mut order: Vec<usize> = Vec::with_capacity(keys.len());
        let mut physical = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            if use_cache {
                layout::write_key(self.shard, key, &mut physical);
                values[at] = self.cached(space, &physical);
            }
            if values[at].is_none() {
                order.push(at);
            }
        }
        if order.is_empty() {
            return Ok(values);
        }
        // In the order of keys neighbours share blocks, and one search serves several of them.
        order.sort_unstable_by_key(|at| keys[*at]);
        let physical: Vec<Vec<u8>> =
            order.iter().map(|at| layout::key(self.shard, keys[*at])).collect();
        let walked = self.walk(space, &physical, |nth, value| values[order[nth]] = Some(value))?;
        let found = self.core.db.batched_multi_get_cf_opt(
            self.core.cf(space),
            &physical[walked..],
            true,
            &self.options(),
        );
        for (at, result) in order[walked..].iter().zip(found) {
            let damaged = |error: StorageError| error.at(self.shard, space, keys[*at]);
            let found = result.map_err(|error| damaged(read_error(error)))?;
            let value = found.map(|bytes| layout::value(space, &bytes)).transpose();
            values[*at] = value.map_err(damaged)?;
        }
        if use_cache {
            for (at, key) in order.iter().zip(&physical) {
                if let Some(value) = &values[*at] {
                    self.cache(space, key, value);
                }
            }
        }
        Ok(values)
    }

    fn scan(&self, scan: &Scan<'_>) -> Result<Vec<Entry>, StorageError> {
        if scan.from >= scan.to {
            return Ok(Vec::new());
        }
        let mut options = self.options();
        options.set_iterate_lower_bound(layout::key(self.shard, scan.from));
        options.set_iterate_upper_bound(layout::key(self.shard, scan.to));
        let mut iterator = self.core.db.raw_iterator_cf_opt(self.core.cf(scan.space), options);
        if scan.reverse {
            iterator.seek_to_last();
        } else {
            iterator.seek_to_first();
        }
        let mut entries = Vec::new();
        let mut size_bytes = 0;
        while let Some((key, stored)) = iterator.item() {
            let key = layout::logical(key).to_vec();
            let value = if scan.keys_only {
                let version = layout::version(scan.space, stored);
                version.map(|version| Value { version, bytes: Bytes::new() })
            } else {
                layout::value(scan.space, stored)
            };
            let value = value.map_err(|error| error.at(self.shard, scan.space, &key))?;
            size_bytes += key.len() + value.bytes.len();
            entries.push(Entry { key, value });
            if entries.len() >= scan.max_rows || size_bytes >= scan.max_bytes {
                return Ok(entries);
            }
            if scan.reverse { iterator.prev() } else { iterator.next() }
        }
        // An iterator that met an error looks like one that met the end.
        iterator.status().map_err(|error| {
            let behind = entries.last().map_or(scan.from, |entry| &entry.key);
            read_error(error).at(self.shard, scan.space, behind)
        })?;
        Ok(entries)
    }

    fn keys(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
    ) -> Result<Box<dyn KeyCursor + '_>, StorageError> {
        let mut options = self.options();
        options.set_iterate_lower_bound(layout::key(self.shard, from));
        options.set_iterate_upper_bound(layout::key(self.shard, to.max(from)));
        let mut iterator = self.core.db.raw_iterator_cf_opt(self.core.cf(space), options);
        iterator.seek_to_first();
        let keys = RocksKeys { iterator, shard: self.shard, space, sought: from.to_vec() };
        keys.checked()?;
        Ok(Box::new(keys))
    }

    fn estimate(&self, space: Space, from: &[u8], to: &[u8]) -> Result<u64, StorageError> {
        let counted = self.count(space, from, to, COUNTED_MAX)?;
        if counted < COUNTED_MAX {
            return Ok(counted);
        }
        self.estimate_beyond(space, from, to, counted)
    }

    fn estimate_beyond(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
        counted: u64,
    ) -> Result<u64, StorageError> {
        let family = self.core.cf(space);
        let number = |name| {
            let found = self.core.db.property_int_value_cf(family, name).map_err(read_error)?;
            Ok::<u64, StorageError>(found.unwrap_or_default())
        };
        let (keys, all_bytes) = (number(ESTIMATE_NUM_KEYS)?, number(LIVE_SST_FILES_SIZE)?);
        if all_bytes == 0 {
            // Nothing tells how a range in memory compares with others: more of it is counted, and
            // beyond that a tenth is as good a guess as any.
            let counted = self.count(space, from, to, COUNTED_IN_MEMORY_MAX)?;
            let is_all = counted < COUNTED_IN_MEMORY_MAX;
            return Ok(if is_all { counted } else { counted.max(keys / 10) });
        }
        let (from, to) = (layout::key(self.shard, from), layout::key(self.shard, to));
        let range = [Range::new(&from, &to)];
        let bytes: u64 = self.core.db.get_approximate_sizes_cf(family, &range).iter().sum();
        // Files tell how large the range is among all; what is still in memory is taken to be
        // spread likewise.
        let rows = u128::from(keys) * u128::from(bytes) / u128::from(all_bytes);
        Ok(u64::try_from(rows).unwrap_or(u64::MAX).max(counted))
    }
}

struct RocksKeys<'s> {
    iterator: DBRawIterator<'s>,
    shard: ShardId,
    space: Space,
    /// The last key that was searched for.
    sought: Vec<u8>,
}

impl KeyCursor for RocksKeys<'_> {
    fn key(&self) -> Option<&[u8]> {
        self.iterator.key().map(layout::logical)
    }

    fn value(&self) -> Option<&[u8]> {
        self.iterator.value()
    }

    fn next(&mut self) -> Result<(), StorageError> {
        if self.iterator.valid() {
            self.iterator.next();
        }
        self.checked()
    }

    fn seek(&mut self, key: &[u8]) -> Result<(), StorageError> {
        self.iterator.seek(layout::key(self.shard, key));
        self.sought.clear();
        self.sought.extend_from_slice(key);
        self.checked()
    }
}

impl RocksKeys<'_> {
    /// An iterator that met an error looks like one that met the end.
    fn checked(&self) -> Result<(), StorageError> {
        if self.iterator.valid() {
            return Ok(());
        }
        let status = self.iterator.status();
        status.map_err(|error| read_error(error).at(self.shard, self.space, &self.sought))
    }
}
