//! Items that the filter names by id, or by partition key and id. A few are loaded at once and come in
//! the order of rows, as they would without their names; many are loaded in batches.

use std::collections::VecDeque;

use orrery_query::{ItemSource, SeekPosition, SourceItem};
use orrery_types::{Reservation, Result, limits};

use super::Shards;
use super::keys::KeySource;
use super::prefetched::LoadedItems;

/// The items of known keys in the order of rows.
pub(crate) enum PointSource<'s, 'e> {
    /// All of them are in memory.
    Loaded(LoadedItems, #[expect(dead_code, reason = "it is held")] Reservation<'s>),
    /// They are too large to be in memory together: their rows and keys are known.
    ByRow(RowKeys<'s, 'e>),
}

/// Rows and keys of items, by ascending row.
pub(crate) struct RowKeys<'s, 'e> {
    shards: &'s Shards<'e>,
    list: VecDeque<(u64, Vec<u8>)>,
    _held: Reservation<'s>,
}

impl<'s, 'e> PointSource<'s, 'e> {
    /// Items with these keys, which are sorted.
    pub(crate) fn new(shards: &'s Shards<'e>, keys: Vec<Vec<u8>>) -> Result<Self> {
        let taken = &shards.taken;
        let (items_before, bytes_before) = (taken.items.get(), taken.bytes.get());
        let mut source = KeySource::new(shards, keys);
        let mut items: Vec<SourceItem> = Vec::new();
        let mut rows: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut held = shards.budget.reservation();
        loop {
            let batch = source.next_batch(limits::PAGE_ITEMS_MAX)?;
            if batch.is_empty() {
                break;
            }
            let is_large = taken.bytes.get() - bytes_before > limits::QUERY_BATCH_BYTES_MAX;
            if rows.is_empty() && !is_large {
                held.set(shards.loaded_since(bytes_before))?;
                items.extend(batch);
                continue;
            }
            // What was kept so far is loaded again in its order.
            let known = items.drain(..).chain(batch);
            rows.extend(known.map(|item| (item.row, item.key.into_vec())));
            held.set(rows.iter().map(|(_, key)| 64 + key.len()).sum())?;
        }
        if rows.is_empty() {
            return Ok(Self::Loaded(LoadedItems::new(items, true), held));
        }
        // They count when they are loaded for the query.
        taken.items.set(items_before);
        taken.bytes.set(bytes_before);
        rows.sort_unstable();
        Ok(Self::ByRow(RowKeys { shards, list: rows.into(), _held: held }))
    }
}

impl ItemSource for PointSource<'_, '_> {
    fn seek(&mut self, place: SeekPosition<'_>) -> Result<()> {
        match (self, place) {
            (Self::Loaded(items, _), place) => items.seek(place),
            (Self::ByRow(rows), SeekPosition::Row(from)) => {
                rows.list.retain(|(row, _)| *row >= from);
                Ok(())
            }
            (Self::ByRow(_), _) => {
                Err(orrery_types::Error::internal("items come in the order of rows"))
            }
        }
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        match self {
            Self::Loaded(items, _) => items.next_batch(items_max),
            Self::ByRow(rows) => rows.next_batch(items_max),
        }
    }
}

impl RowKeys<'_, '_> {
    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        while !self.list.is_empty() {
            let count = self.shards.batch(items_max.min(self.list.len()));
            let keys: Vec<Vec<u8>> = self.list.drain(..count).map(|(_, key)| key).collect();
            // The caller counts the memory of the batch.
            let mut held = self.shards.budget.reservation();
            let found = self.shards.by_keys(&keys, &mut held)?;
            // Items may have expired since their rows were read.
            let items: Vec<SourceItem> = found.into_iter().flatten().collect();
            if !items.is_empty() {
                return Ok(items);
            }
        }
        Ok(vec![])
    }
}
