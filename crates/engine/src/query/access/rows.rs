//! Items by number: the rows of all partitions in one order, loaded in batches. Numbers begin with
//! that of the partition that gave them, so partitions mostly follow one another, and one whose
//! rows all come later is not opened. The parts of a partition that was split share its numbers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use bytes::Bytes;
use orrery_index::postings::Rows;
use orrery_query::plan::access::RowSet;
use orrery_query::{ItemSource, Place, SourceItem};
use orrery_storage::key::{self, Row};
use orrery_storage::{Scan, Space};
use orrery_types::{Error, Result};

use super::prefetched::OpenLists;
use super::{Shard, Shards, Taken};
use crate::error::storage;

/// The items of a set of rows, or of all rows.
pub(crate) struct RowSource<'s, 'e> {
    shards: &'s Shards<'e>,
    set: Option<RowSet>,
    open: OpenLists<'s>,
    /// Opened so far, by partition.
    cursors: Vec<Option<Cursor<'s>>>,
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

    fn open(&self, at: usize) -> Result<Cursor<'s>> {
        let shards: &'s Shards<'e> = self.shards;
        let shard = shards
            .list
            .get(at)
            .ok_or_else(|| Error::internal("a partition of the query is missing"))?;
        let rows = match &self.set {
            Some(set) => shard.rows(&*self.shards.engine.store, set, &self.open)?,
            None => None,
        };
        // Rows that are too many to be sorted are found among all rows, by the filter.
        Ok(rows.map_or_else(|| Cursor::Directory(Directory::default()), Cursor::Set))
    }

    /// The next rows in order, each with its partition.
    fn next_rows(&mut self, rows_max: usize) -> Result<Vec<Found>> {
        let mut found = Vec::new();
        while found.len() < rows_max
            && let Some(Reverse((row, opened, at))) = self.heads.pop()
        {
            if !opened {
                self.cursors[at] = Some(self.open(at)?);
            }
            let others = self.heads.peek().map_or(Row(u64::MAX), |Reverse((row, ..))| *row);
            let Some(cursor) = &mut self.cursors[at] else { continue };
            let shard = &self.shards.list[at];
            let before = cursor.entries_read();
            let mut next = cursor.seek(shard, row.max(self.from), rows_max)?;
            while let Some((row, key)) = next {
                if found.len() >= rows_max || row > others {
                    self.heads.push(Reverse((row, true, at)));
                    break;
                }
                found.push(Found { at, row, key });
                next = cursor.seek(shard, Row(row.0.saturating_add(1)), rows_max)?;
            }
            Taken::add(&self.shards.taken.entries, cursor.entries_read() - before);
        }
        Ok(found)
    }

    /// The items of some rows, in the order of the rows.
    fn load(&self, found: Vec<Found>) -> Result<Vec<SourceItem>> {
        let mut parts: Vec<(Vec<Row>, Vec<Bytes>)> = vec![Default::default(); self.cursors.len()];
        for Found { at, row, key } in found {
            match key {
                Some(key) => parts[at].1.push(key),
                None => parts[at].0.push(row),
            }
        }
        let mut items = Vec::new();
        let mut is_merged = false;
        for (shard, (rows, keys)) in self.shards.list.iter().zip(parts) {
            let loaded = if keys.is_empty() {
                self.shards.load(shard, &rows)?
            } else {
                self.shards.load_keys(shard, keys)?
            };
            is_merged |= !items.is_empty() && !loaded.is_empty();
            items.extend(loaded);
        }
        if is_merged {
            items.sort_unstable_by_key(|item: &SourceItem| item.row);
        }
        Ok(items)
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
            let found = self.next_rows(self.shards.batch(items_max))?;
            if found.is_empty() {
                return Ok(vec![]);
            }
            let items = self.load(found)?;
            if !items.is_empty() {
                return Ok(items);
            }
        }
    }
}

/// A row, the partition that has it, and the key of its item if that is known.
struct Found {
    at: usize,
    row: Row,
    key: Option<Bytes>,
}

/// The rows of one partition.
enum Cursor<'s> {
    Set(Rows<'s>),
    Directory(Directory),
}

impl Cursor<'_> {
    /// The first row at or behind one; `ahead` says how many will be asked for.
    fn seek(
        &mut self,
        shard: &Shard<'_>,
        row: Row,
        ahead: usize,
    ) -> Result<Option<(Row, Option<Bytes>)>> {
        match self {
            Self::Set(rows) => Ok(rows.seek(row).map_err(storage)?.map(|row| (row, None))),
            Self::Directory(directory) => {
                let found = directory.seek(shard, row, ahead)?;
                Ok(found.map(|(row, key)| (row, Some(key))))
            }
        }
    }

    fn entries_read(&self) -> u64 {
        match self {
            Self::Set(rows) => rows.entries_read(),
            // Items are counted when they are loaded.
            Self::Directory(_) => 0,
        }
    }
}

/// The row directory of a partition, read ahead: which rows lead to items of the scope.
#[derive(Default)]
struct Directory {
    ahead: VecDeque<(Row, Bytes)>,
    /// Where to read on; `None` at the end.
    next: Option<Row>,
    is_open: bool,
}

impl Directory {
    fn seek(&mut self, shard: &Shard<'_>, row: Row, ahead: usize) -> Result<Option<(Row, Bytes)>> {
        if !self.is_open {
            self.is_open = true;
            self.next = Some(row);
        }
        loop {
            while let Some((at, _)) = self.ahead.front() {
                if *at >= row {
                    return Ok(self.ahead.front().cloned());
                }
                self.ahead.pop_front();
            }
            let Some(next) = self.next else { return Ok(None) };
            self.read(shard, next.max(row), ahead)?;
        }
    }

    /// Reads on from a row.
    fn read(&mut self, shard: &Shard<'_>, from: Row, rows: usize) -> Result<()> {
        let rows = rows.max(ROWS_MIN);
        let entries = shard.snapshot.scan(&Scan {
            space: Space::Items,
            from: &key::row(from),
            to: &key::all_rows().to,
            reverse: false,
            max_rows: rows,
            max_bytes: usize::MAX,
            keys_only: false,
        });
        let entries = entries.map_err(storage)?;
        let last = entries.last().filter(|_| entries.len() == rows);
        let row_of = |key: &[u8]| key::parse_row(key).ok_or_else(|| Error::internal("no row key"));
        self.next = match last {
            Some(last) => row_of(&last.key)?.0.checked_add(1).map(Row),
            None => None,
        };
        for entry in entries {
            if shard.holds(&entry.value.bytes) {
                self.ahead.push_back((row_of(&entry.key)?, entry.value.bytes));
            }
        }
        Ok(())
    }
}

/// Entries of the directory that are read at once, at least.
const ROWS_MIN: usize = 64;
