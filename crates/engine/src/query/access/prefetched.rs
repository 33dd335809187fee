//! What the planner began to read when it asked how much there is: lists of rows, and a small logical
//! partition. Whoever reads them goes on where it stopped, instead of searching for them anew.

use std::cell::RefCell;

use orrery_index::postings::Postings;
use orrery_query::{ItemSource, Place, SourceItem};
use orrery_storage::{Entry, Scan, Space};
use orrery_types::{Result, ShardId, limits};

use super::{Shard, Shards};
use crate::error::storage;

/// Lists that are kept; each of them is an open cursor.
const KEPT_MAX: usize = 16;

/// Lists that were begun, by partition and term.
#[derive(Default)]
pub(crate) struct OpenLists<'s> {
    begun: RefCell<Vec<(ShardId, Postings<'s>)>>,
    /// All items of the logical partition that is read.
    partition: RefCell<Option<Vec<Entry>>>,
}

impl<'s> OpenLists<'s> {
    /// How many rows have a term, counted up to so many.
    pub(crate) fn count(&self, shard: &'s Shard<'_>, term: &[u8], most: usize) -> Result<usize> {
        let mut begun = self.begun.borrow_mut();
        let own = |(of, list): &&mut (ShardId, Postings<'s>)| {
            *of == shard.partition.shard && list.prefix() == term
        };
        if let Some((_, list)) = begun.iter_mut().find(own) {
            return list.count_up_to(most).map_err(storage);
        }
        let mut list = Postings::of(&*shard.snapshot, term.to_vec());
        let counted = list.count_up_to(most).map_err(storage)?;
        if begun.len() < KEPT_MAX {
            begun.push((shard.partition.shard, list));
        }
        Ok(counted)
    }

    /// The list of a term, from its first row on.
    pub(crate) fn take(&self, shard: &'s Shard<'_>, term: Vec<u8>) -> Postings<'s> {
        let mut begun = self.begun.borrow_mut();
        let own = |(of, list): &(ShardId, Postings<'s>)| {
            *of == shard.partition.shard && list.prefix() == term
        };
        match begun.iter().position(own) {
            Some(at) => begun.swap_remove(at).1,
            None => Postings::of(&*shard.snapshot, term),
        }
    }

    /// Reads the items of a scope and keeps them, if they are no more than so many.
    pub(super) fn begin(&self, shard: &Shard<'_>, most: usize) -> Result<Option<u64>> {
        let scan = Scan {
            space: Space::Items,
            from: &shard.bounds.from,
            to: &shard.bounds.to,
            reverse: false,
            max_rows: most + 1,
            max_bytes: limits::QUERY_SMALL_PARTITION_BYTES_MAX,
            keys_only: false,
        };
        let entries = shard.snapshot.scan(&scan).map_err(storage)?;
        let bytes: usize = entries.iter().map(|e| e.key.len() + e.value.bytes.len()).sum();
        if entries.len() > most || bytes >= limits::QUERY_SMALL_PARTITION_BYTES_MAX {
            return Ok(None);
        }
        let items = entries.len() as u64;
        self.partition.replace(Some(entries));
        Ok(Some(items))
    }

    /// The items of the logical partition, if they were read; in the order of keys or of rows.
    pub(crate) fn take_partition<'e>(
        &self,
        shards: &'s Shards<'e>,
        by_row: bool,
    ) -> Result<Option<LoadedItems>> {
        let Some(entries) = self.partition.take() else { return Ok(None) };
        let mut items = Vec::with_capacity(entries.len());
        for Entry { key, value } in entries {
            items.extend(shards.item(key, &value)?);
        }
        Ok(Some(LoadedItems::new(items, by_row)))
    }

    /// All lists, which are gone then.
    pub(crate) fn take_all(&self) -> Self {
        Self { begun: RefCell::new(self.begun.take()), partition: RefCell::default() }
    }
}

/// Items that are in memory already, in the order of keys or of rows.
pub(crate) struct LoadedItems {
    items: std::vec::IntoIter<SourceItem>,
    by_row: bool,
}

impl LoadedItems {
    /// The items come in the order of keys.
    pub(crate) fn new(mut items: Vec<SourceItem>, by_row: bool) -> Self {
        if by_row {
            items.sort_unstable_by_key(|item| item.row);
        }
        Self { items: items.into_iter(), by_row }
    }
}

impl ItemSource for LoadedItems {
    fn seek(&mut self, place: Place<'_>) -> Result<()> {
        let items = std::mem::take(&mut self.items);
        let behind: Vec<SourceItem> = match place {
            Place::Row(row) if self.by_row => items.filter(|item| item.row >= row).collect(),
            place => {
                let key = place.key()?;
                items.filter(|item| *item.key >= *key).collect()
            }
        };
        self.items = behind.into_iter();
        Ok(())
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        Ok(self.items.by_ref().take(items_max).collect())
    }
}
