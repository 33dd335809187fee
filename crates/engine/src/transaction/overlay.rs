//! What a transaction sees of its logical partition: its snapshot, with its own writes over it.

use std::collections::BTreeMap;

use bytes::Bytes;
use orrery_query::{ItemSource, SeekPosition, SourceItem};
use orrery_storage::key::{self, Bounds, Row};
use orrery_storage::{Scan, Space};
use orrery_types::{Error, PartitionKey, Result, limits};

use super::state::TransactionState;
use crate::item::image::{BeforeImage, stored_value};

/// An item as the transaction sees it.
pub(crate) struct OverlaidItem {
    pub(crate) key: Vec<u8>,
    pub(crate) row: Row,
    pub(crate) text: Bytes,
}

/// The items of the logical partition in the order of their keys.
pub(crate) struct OverlaySource<'t, 'e> {
    tx: &'t TransactionState<'e>,
    bounds: Bounds,
    from: Vec<u8>,
}

impl<'t, 'e> OverlaySource<'t, 'e> {
    /// From the beginning, or after the item with a key.
    pub(crate) fn new(
        tx: &'t TransactionState<'e>,
        partition_key: &PartitionKey,
        last: Option<&[u8]>,
    ) -> Self {
        let effective = tx.container().definition.partition_key.effective(partition_key);
        let bounds = key::items_of(&effective, partition_key);
        let from = last.map_or_else(|| bounds.from.clone(), key::after).max(bounds.from.clone());
        Self { tx, bounds, from }
    }

    /// Items with their keys and rows, from where the last call ended; empty at the end.
    pub(crate) fn next_texts(&mut self, items_max: usize) -> Result<Vec<OverlaidItem>> {
        let (view, home) = (self.tx.view(), self.tx.home_shard());
        loop {
            if self.from >= self.bounds.to {
                return Ok(vec![]);
            }
            let scan = Scan {
                space: Space::Items,
                from: &self.from,
                to: &self.bounds.to,
                reverse: false,
                max_rows: items_max.clamp(1, limits::PAGE_ITEMS_MAX),
                max_bytes: limits::PAGE_SIZE_BYTES_MAX,
                keys_only: false,
            };
            let entries = view.scan(home.partition.shard, &scan)?;
            // Own writes beyond the last entry wait for their turn, unless there is no more.
            let to = entries.last().map_or_else(|| self.bounds.to.clone(), |e| key::after(&e.key));
            let mut found: BTreeMap<Vec<u8>, (Row, Bytes)> = BTreeMap::new();
            for entry in entries {
                let before = BeforeImage::read(entry.value)?;
                if !view.hides(home.container, &entry.key, &before) {
                    found.insert(entry.key, (before.header.row, before.text()));
                }
            }
            for (key, entry) in home.items().range(self.from.clone()..to.clone()) {
                match entry.after() {
                    Some(after) => {
                        drop(found.insert(key.clone(), (after.row, after.text.clone())));
                    }
                    None if entry.is_written() => drop(found.remove(key)),
                    None => {}
                }
            }
            self.from = to;
            if !found.is_empty() {
                let item = |(key, (row, text))| OverlaidItem { key, row, text };
                return Ok(found.into_iter().map(item).collect());
            }
        }
    }
}

impl ItemSource for OverlaySource<'_, '_> {
    fn seek(&mut self, place: SeekPosition<'_>) -> Result<()> {
        let SeekPosition::Key(position) = place else {
            return Err(Error::internal("items come in the order of keys"));
        };
        let inside = position >= &self.bounds.from[..] && position < &self.bounds.to[..];
        if !inside {
            return Err(Error::invalid("Invalid Continuation Token"));
        }
        self.from = position.to_vec();
        Ok(())
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        let item = |item: OverlaidItem| {
            let value = stored_value(&item.text)?;
            Ok(SourceItem { value, text: None, row: item.row.0, key: item.key.into() })
        };
        self.next_texts(items_max)?.into_iter().map(item).collect()
    }
}
