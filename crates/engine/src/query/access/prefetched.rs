//! Postings and items that the planner read while it estimated sizes. The access path that the planner
//! chose continues from them instead of reading them again.

use std::cell::RefCell;

use orrery_index::postings::Postings;
use orrery_query::{ItemSource, SeekPosition, SourceItem};
use orrery_storage::{Entry, Space};
use orrery_types::{Result, ShardId, limits};

use super::{Shard, Shards};
use crate::error::{read, storage};

/// Postings that are kept; each is an open cursor.
const POSTINGS_MAX: usize = 16;

/// Lists that were postings, by partition and term.
#[derive(Default)]
pub(crate) struct PrefetchedPostings<'s> {
    postings: RefCell<Vec<(ShardId, Postings<'s>)>>,
    /// All items of the logical partition that is read.
    partition: RefCell<Option<Vec<Entry>>>,
}

impl<'s> PrefetchedPostings<'s> {
    /// How many rows have a term, counted up to `most`.
    pub(crate) fn count(&self, shard: &'s Shard<'_>, term: &[u8], most: usize) -> Result<usize> {
        let mut postings = self.postings.borrow_mut();
        let own = |(of, list): &&mut (ShardId, Postings<'s>)| {
            *of == shard.partition.shard && list.prefix() == term
        };
        if let Some((_, list)) = postings.iter_mut().find(own) {
            return list.count_up_to(most).map_err(read);
        }
        let mut list = Postings::of(&*shard.snapshot, term.to_vec(), shard.budget);
        let counted = list.count_up_to(most).map_err(read)?;
        if postings.len() < POSTINGS_MAX {
            postings.push((shard.partition.shard, list));
        }
        Ok(counted)
    }

    /// The postings of a term, from its first row on.
    pub(crate) fn take(&self, shard: &'s Shard<'_>, term: Vec<u8>) -> Postings<'s> {
        let mut postings = self.postings.borrow_mut();
        let own = |(of, list): &(ShardId, Postings<'s>)| {
            *of == shard.partition.shard && list.prefix() == term
        };
        match postings.iter().position(own) {
            Some(at) => postings.swap_remove(at).1,
            None => Postings::of(&*shard.snapshot, term, shard.budget),
        }
    }

    /// Reads the items of a logical partition and keeps them, if there are at most `most`.
    pub(super) fn prefetch_partition(&self, shard: &Shard<'_>, most: usize) -> Result<Option<u64>> {
        let scan =
            shard.bounds.scan(Space::Items, most + 1, limits::QUERY_SMALL_PARTITION_BYTES_MAX);
        let entries = shard.snapshot.scan(&scan).map_err(storage)?;
        shard.budget.read(entries.len() as u64)?;
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

    /// Moves all postings out.
    pub(crate) fn take_all(&self) -> Self {
        Self { postings: RefCell::new(self.postings.take()), partition: RefCell::default() }
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
    fn seek(&mut self, place: SeekPosition<'_>) -> Result<()> {
        let items = std::mem::take(&mut self.items);
        let behind: Vec<SourceItem> = match place {
            SeekPosition::Row(row) if self.by_row => items.filter(|item| item.row >= row).collect(),
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
