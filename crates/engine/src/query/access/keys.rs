//! Items in the order of their keys from the query's own snapshots: all of them, or those with known keys.
//! A page that follows relations must be of one instant, so it cannot read batch by batch as a plain
//! scan does.

use std::collections::VecDeque;

use orrery_query::{ItemSource, SeekPosition, SourceItem};
use orrery_storage::{Scan, Space, key};
use orrery_types::{Error, Result, limits};

use super::Shards;
use crate::error::storage;

fn place_key(place: SeekPosition<'_>) -> Result<Vec<u8>> {
    match place {
        SeekPosition::Key(key) => Ok(key.to_vec()),
        _ => Err(Error::internal("items come in the order of keys")),
    }
}

/// Items whose keys are known.
pub(crate) struct KeySource<'s, 'e> {
    shards: &'s Shards<'e>,
    keys: VecDeque<Vec<u8>>,
}

impl<'s, 'e> KeySource<'s, 'e> {
    /// The keys are sorted, each there once.
    pub(crate) fn new(shards: &'s Shards<'e>, keys: Vec<Vec<u8>>) -> Self {
        Self { shards, keys: keys.into() }
    }
}

impl ItemSource for KeySource<'_, '_> {
    fn seek(&mut self, place: SeekPosition<'_>) -> Result<()> {
        let from = place_key(place)?;
        self.keys.retain(|key| *key >= from);
        Ok(())
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        while !self.keys.is_empty() {
            let count = self.shards.batch(items_max.min(self.keys.len()));
            let batch: Vec<Vec<u8>> = self.keys.drain(..count).collect();
            // The caller counts the memory of the batch.
            let mut held = self.shards.budget.reservation();
            let found = self.shards.by_keys(&batch, &mut held)?;
            let items: Vec<SourceItem> = found.into_iter().flatten().collect();
            if !items.is_empty() {
                return Ok(items);
            }
        }
        Ok(vec![])
    }
}

/// All items of the scope.
pub(crate) struct SnapshotScan<'s, 'e> {
    shards: &'s Shards<'e>,
    /// The partition at hand.
    at: usize,
    from: Vec<u8>,
}

impl<'s, 'e> SnapshotScan<'s, 'e> {
    pub(crate) fn new(shards: &'s Shards<'e>) -> Self {
        Self { shards, at: 0, from: Vec::new() }
    }
}

impl ItemSource for SnapshotScan<'_, '_> {
    fn seek(&mut self, place: SeekPosition<'_>) -> Result<()> {
        self.from = place_key(place)?;
        Ok(())
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        while let Some(shard) = self.shards.list.get(self.at) {
            let from = shard.bounds.from.clone().max(self.from.clone());
            let scan = Scan {
                space: Space::Items,
                from: &from,
                to: &shard.bounds.to,
                reverse: false,
                max_rows: items_max,
                max_bytes: limits::PAGE_SIZE_BYTES_MAX,
                keys_only: false,
            };
            let entries = shard.snapshot.scan(&scan).map_err(storage)?;
            let Some(last) = entries.last() else {
                self.at += 1;
                continue;
            };
            self.from = key::after(&last.key);
            let mut items = Vec::with_capacity(entries.len());
            for entry in entries {
                items.extend(self.shards.item(entry.key, &entry.value)?);
            }
            if !items.is_empty() {
                return Ok(items);
            }
        }
        Ok(vec![])
    }
}
