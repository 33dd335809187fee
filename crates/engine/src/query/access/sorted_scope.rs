//! The items of a small part of a partition in the order of rows. The row directory is of the whole
//! partition, so most of what it leads to would be out of scope: instead the rows of the scope are gathered
//! along the keys and sorted, some thousands at a time, and items are loaded in that order.

use std::collections::{BinaryHeap, VecDeque};

use orrery_query::{ItemSource, SeekPosition, SourceItem};
use orrery_storage::{Scan, Space, key, record};
use orrery_types::{Error, Reservation, Result, limits};

use super::Shards;
use crate::error::storage;

/// All items of the scope, by row.
pub(crate) struct SortedScope<'s, 'e> {
    shards: &'s Shards<'e>,
    /// Rows and keys of the next items.
    next: VecDeque<(u64, Vec<u8>)>,
    /// From which row on they are gathered next; `None` if there are no others.
    from: Option<u64>,
    held: Reservation<'s>,
}

/// Memory of a row and its key beside the bytes of the key.
const ROW_BYTES: usize = 64;

impl<'s, 'e> SortedScope<'s, 'e> {
    pub(crate) fn new(shards: &'s Shards<'e>) -> Self {
        let held = shards.budget.reservation();
        Self { shards, next: VecDeque::new(), from: Some(0), held }
    }

    /// Gathers the first rows at or behind one.
    fn gather(&mut self, from: u64) -> Result<()> {
        let mut first: BinaryHeap<(u64, Vec<u8>)> = BinaryHeap::new();
        let mut are_all = true;
        for shard in &self.shards.list {
            let mut start = shard.bounds.from.clone();
            loop {
                let entries = shard.snapshot.scan(&Scan {
                    space: Space::Items,
                    from: &start,
                    to: &shard.bounds.to,
                    reverse: false,
                    max_rows: limits::PAGE_ITEMS_MAX,
                    max_bytes: limits::PAGE_SIZE_BYTES_MAX,
                    keys_only: false,
                });
                let entries = entries.map_err(storage)?;
                shard.budget.read(entries.len() as u64)?;
                let Some(last) = entries.last() else { break };
                start = key::after(&last.key);
                for entry in entries {
                    let row = record::row(&entry.value.bytes);
                    let row = row.ok_or_else(|| Error::internal("a stored item is cut short"))?.0;
                    if row >= from {
                        first.push((row, entry.key));
                    }
                    if first.len() > limits::QUERY_ROWS_SORTED_MAX {
                        first.pop();
                        are_all = false;
                    }
                }
            }
        }
        self.held.set(first.iter().map(|(_, key)| ROW_BYTES + key.len()).sum())?;
        self.next = first.into_sorted_vec().into();
        self.from = self.next.back().filter(|_| !are_all).map(|(row, _)| row + 1);
        Ok(())
    }
}

impl ItemSource for SortedScope<'_, '_> {
    fn seek(&mut self, place: SeekPosition<'_>) -> Result<()> {
        let SeekPosition::Row(row) = place else {
            return Err(Error::internal("items come in the order of rows"));
        };
        self.from = Some(row);
        Ok(())
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        loop {
            if self.next.is_empty() {
                let Some(from) = self.from else { return Ok(vec![]) };
                self.gather(from)?;
                if self.next.is_empty() {
                    return Ok(vec![]);
                }
            }
            let count = self.shards.batch(items_max.min(self.next.len()));
            let keys: Vec<Vec<u8>> = self.next.drain(..count).map(|(_, key)| key).collect();
            // The caller counts the memory of the batch.
            let mut held = self.shards.budget.reservation();
            let found = self.shards.by_keys(&keys, &mut held)?;
            let items: Vec<SourceItem> = found.into_iter().flatten().collect();
            if !items.is_empty() {
                return Ok(items);
            }
        }
    }
}
