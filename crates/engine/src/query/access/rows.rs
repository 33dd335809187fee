//! Items by number: the rows of all partitions in one order, loaded in batches. Numbers begin with
//! that of the partition that gave them, so partitions mostly follow one another, and one whose
//! turn has not come is not opened.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use orrery_index::postings::{Postings, Rows};
use orrery_query::plan::access::RowSet;
use orrery_query::{ItemSource, Place, SourceItem};
use orrery_storage::key::Row;
use orrery_types::{Error, Result};

use super::prefetched::OpenLists;
use super::{Shards, Taken};
use crate::error::storage;

/// The items of a set of rows.
pub(crate) struct RowSource<'s, 'e> {
    shards: &'s Shards<'e>,
    set: Option<RowSet>,
    open: OpenLists<'s>,
    /// Opened so far, by partition.
    cursors: Vec<Option<Rows<'s>>>,
    /// The next row of each partition, or the least that it can have if it is not opened yet.
    heads: BinaryHeap<Reverse<(Row, bool, usize)>>,
    from: Row,
}

impl<'s, 'e> RowSource<'s, 'e> {
    pub(crate) fn new(shards: &'s Shards<'e>, set: Option<RowSet>, open: OpenLists<'s>) -> Self {
        let cursors = shards.list.iter().map(|_| None).collect();
        let heads = shards.list.iter().enumerate();
        let heads = heads.map(|(at, shard)| Reverse((shard.first_row(), false, at))).collect();
        Self { shards, set, open, cursors, heads, from: Row(0) }
    }

    fn open(&self, at: usize) -> Result<Rows<'s>> {
        let shard = self
            .shards
            .list
            .get(at)
            .ok_or_else(|| Error::internal("a partition of the query is missing"))?;
        let rows = match &self.set {
            Some(set) => shard.rows(&*self.shards.engine.store, set, &self.open)?,
            None => None,
        };
        // Rows that are too many to be sorted are found among all rows, by the filter.
        Ok(rows.unwrap_or_else(|| Box::new(Postings::all(&*shard.snapshot))))
    }

    /// The next rows, all of one partition.
    fn next_rows(&mut self, rows_max: usize) -> Result<Option<(usize, Vec<Row>)>> {
        while let Some(Reverse((row, opened, at))) = self.heads.pop() {
            if !opened {
                self.cursors[at] = Some(self.open(at)?);
            }
            let Some(cursor) = &mut self.cursors[at] else { continue };
            let others = self.heads.peek().map_or(Row(u64::MAX), |Reverse((row, ..))| *row);
            let before = cursor.entries_read();
            let mut rows = Vec::new();
            let mut next = cursor.seek(row.max(self.from)).map_err(storage)?;
            while let Some(row) = next {
                if rows.len() >= rows_max || row > others {
                    break;
                }
                rows.push(row);
                next = cursor.seek(Row(row.0.saturating_add(1))).map_err(storage)?;
            }
            Taken::add(&self.shards.taken.entries, cursor.entries_read() - before);
            if let Some(row) = next {
                self.heads.push(Reverse((row, true, at)));
            }
            if !rows.is_empty() {
                return Ok(Some((at, rows)));
            }
        }
        Ok(None)
    }
}

impl ItemSource for RowSource<'_, '_> {
    fn seek(&mut self, place: Place<'_>) -> Result<()> {
        let Place::Row(row) = place else {
            return Err(Error::internal("items come in the order of rows"));
        };
        self.from = Row(row);
        Ok(())
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        loop {
            let batch = self.shards.batch(items_max);
            let Some((at, rows)) = self.next_rows(batch)? else { return Ok(vec![]) };
            let items = self.shards.load(&self.shards.list[at], &rows)?;
            if !items.is_empty() {
                return Ok(items);
            }
        }
    }
}
