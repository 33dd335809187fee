//! Items by row: the rows of all partitions in one order, loaded in batches. A row number begins with the
//! number of the partition that assigned it, so partitions mostly follow one another, and a partition whose
//! rows all come later is not opened. The parts of a partition that was split share its row numbers.
//!
//! A query that looks ahead gets the items of a scan along their keys for a while, which is cheaper.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use bytes::Bytes;
use orrery_index::postings::Rows;
use orrery_query::plan::access::RowSet;
use orrery_query::{AnyOrder, ItemSource, ItemsLeft, KeptItems, SeekPosition, SourceItem};
use orrery_storage::key::{self, Row};
use orrery_storage::{Scan, Space, record};
use orrery_types::{Error, Result, limits};

use super::prefetched::PrefetchedPostings;
use super::{ReadCounters, Shard, Shards};
use crate::error::{read, storage};

/// The items of a set of rows, or of all rows.
pub(crate) struct RowSource<'s, 'e> {
    shards: &'s Shards<'e>,
    set: Option<RowSet>,
    prefetched: PrefetchedPostings<'s>,
    /// Opened so far, by partition.
    cursors: Vec<Option<Cursor<'s>>>,
    /// The next row of each partition, or the least that it can have if it is not opened yet.
    heads: BinaryHeap<Reverse<(Row, bool, usize)>>,
    /// Items before this row have come, or are not wanted.
    from: Row,
    /// Whether these are all items of the scope.
    is_scan: bool,
    arrival: Arrival,
}

/// In which order items come.
enum Arrival {
    ByRow,
    /// By key, from this one on in this partition.
    ByKey {
        at: usize,
        from: Vec<u8>,
    },
    /// Only these, by row; and then all that lie behind them, unless these are all.
    Kept {
        rows: VecDeque<Row>,
        are_all: bool,
    },
}

impl<'s, 'e> RowSource<'s, 'e> {
    pub(crate) fn new(
        shards: &'s Shards<'e>,
        set: Option<RowSet>,
        prefetched: PrefetchedPostings<'s>,
    ) -> Self {
        let cursors = shards.list.iter().map(|_| None).collect();
        let heads = shards.list.iter().enumerate();
        let heads = heads.map(|(at, shard)| Reverse((shard.first_row(), false, at))).collect();
        let (from, is_scan, arrival) = (Row(0), false, Arrival::ByRow);
        Self { shards, set, prefetched, cursors, heads, from, is_scan, arrival }
    }

    /// All items of the scope, whose rows are those of the set if there is one.
    pub(crate) fn scan(
        shards: &'s Shards<'e>,
        set: Option<RowSet>,
        prefetched: PrefetchedPostings<'s>,
    ) -> Self {
        Self { is_scan: true, ..Self::new(shards, set, prefetched) }
    }

    fn open(&self, at: usize) -> Result<Cursor<'s>> {
        let shards: &'s Shards<'e> = self.shards;
        let shard = shards
            .list
            .get(at)
            .ok_or_else(|| Error::internal("a partition of the query is missing"))?;
        let rows = match &self.set {
            Some(set) => shard.rows(&*self.shards.engine.store, set, &self.prefetched)?,
            None => None,
        };
        // Rows that are too many to be sorted are found among all rows, by the filter.
        Ok(rows.map_or_else(|| Cursor::Directory(Directory::default()), Cursor::Set))
    }

    /// The next rows in order, each with its partition.
    fn next_rows(&mut self, rows_max: usize) -> Result<Vec<FoundRow>> {
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
                found.push(FoundRow { at, row, key });
                next = cursor.seek(shard, Row(row.0.saturating_add(1)), rows_max)?;
            }
            ReadCounters::add(&self.shards.taken.entries, cursor.entries_read() - before);
        }
        Ok(found)
    }

    /// The items of some rows, in the order of the rows.
    fn load(&self, found: Vec<FoundRow>) -> Result<Vec<SourceItem>> {
        let mut parts: Vec<(Vec<Row>, Vec<Bytes>)> = vec![Default::default(); self.cursors.len()];
        for FoundRow { at, row, key } in found {
            match key {
                Some(key) => parts[at].1.push(key),
                None => parts[at].0.push(row),
            }
        }
        let mut items = Vec::new();
        let mut is_merged = false;
        for (shard, (rows, keys)) in self.shards.list.iter().zip(parts) {
            let keys = if keys.is_empty() { shard.keys_of(&rows)? } else { keys };
            let loaded = self.shards.load_keys(shard, keys)?;
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
    fn seek(&mut self, place: SeekPosition<'_>) -> Result<()> {
        let SeekPosition::Row(row) = place else {
            return Err(Error::internal("items come in the order of rows"));
        };
        self.from = Row(row);
        Ok(())
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        loop {
            let batch = match self.arrival {
                Arrival::ByRow => self.next_by_row(items_max)?,
                Arrival::ByKey { .. } => self.next_by_key(items_max)?,
                Arrival::Kept { .. } => self.next_kept(items_max)?,
            };
            match batch {
                Some(items) if items.is_empty() => {}
                batch => return Ok(batch.unwrap_or_default()),
            }
        }
    }

    fn any_order(&mut self) -> Option<&mut dyn AnyOrder> {
        if self.is_scan { Some(self) } else { None }
    }
}

impl RowSource<'_, '_> {
    /// Some items by row, perhaps none of those that were looked at; `None` at the end.
    fn next_by_row(&mut self, items_max: usize) -> Result<Option<Vec<SourceItem>>> {
        let found = self.next_rows(self.shards.batch(items_max))?;
        let Some(last) = found.last() else { return Ok(None) };
        self.from = Row(last.row.0.saturating_add(1));
        self.load(found).map(Some)
    }

    /// The same by key.
    fn next_by_key(&mut self, items_max: usize) -> Result<Option<Vec<SourceItem>>> {
        let Arrival::ByKey { at, from } = &mut self.arrival else { return Ok(None) };
        let Some(shard) = self.shards.list.get(*at) else { return Ok(None) };
        let entries = shard.snapshot.scan(&Scan {
            space: Space::Items,
            from: from.as_slice().max(&shard.bounds.from),
            to: &shard.bounds.to,
            reverse: false,
            max_rows: items_max,
            max_bytes: limits::PAGE_SIZE_BYTES_MAX,
            keys_only: false,
        });
        let entries = entries.map_err(storage)?;
        shard.budget.read(entries.len() as u64)?;
        if let Some(last) = entries.last() {
            *from = key::after(&last.key);
        } else {
            *at += 1;
            *from = Vec::new();
        }
        let mut items = Vec::with_capacity(entries.len());
        for entry in entries {
            if record::row(&entry.value.bytes).is_none_or(|row| row >= self.from) {
                items.extend(self.shards.item(entry.key, &entry.value)?);
            }
        }
        Ok(Some(items))
    }

    /// Some of the items that are kept.
    fn next_kept(&mut self, items_max: usize) -> Result<Option<Vec<SourceItem>>> {
        let Arrival::Kept { rows, are_all } = &mut self.arrival else { return Ok(None) };
        if rows.is_empty() {
            if *are_all {
                return Ok(None);
            }
            self.arrival = Arrival::ByRow;
            return Ok(Some(Vec::new()));
        }
        let batch: Vec<Row> = rows.drain(..self.shards.batch(items_max.min(rows.len()))).collect();
        self.from = batch.last().map_or(self.from, |last| Row(last.0.saturating_add(1)));
        let mut items = Vec::new();
        // A row that another partition has leads to nothing in this one.
        for shard in &self.shards.list {
            items.extend(self.shards.load(shard, &batch)?);
        }
        items.sort_unstable_by_key(|item: &SourceItem| item.row);
        Ok(Some(items))
    }
}

impl AnyOrder for RowSource<'_, '_> {
    fn left(&self) -> Result<ItemsLeft> {
        let (mut items, mut scanned) = (0_u64, 0_u64);
        for shard in &self.shards.list {
            let all = match &self.set {
                Some(set) => set.estimate(),
                None => shard.items()?,
            };
            // Rows of parents that were merged lie far apart.
            let behind = shard.last_row()?.map_or(0, |last| last.0.saturating_sub(self.from.0));
            items = items.saturating_add(behind.min(all));
            scanned = scanned.saturating_add(all);
        }
        let taken = &self.shards.taken;
        let item_bytes = taken.bytes.get().checked_div(taken.items.get()).unwrap_or_default();
        Ok(ItemsLeft { items, scanned, scanned_bytes: scanned.saturating_mul(item_bytes) })
    }

    fn begin_any_order(&mut self) {
        self.arrival = Arrival::ByKey { at: 0, from: Vec::new() };
    }

    fn end_any_order(&mut self, kept: Option<KeptItems>) {
        self.arrival = match kept {
            None => Arrival::ByRow,
            Some(KeptItems { rows, are_all }) => {
                Arrival::Kept { rows: rows.into_iter().map(Row).collect(), are_all }
            }
        };
    }
}

/// A row, the partition that has it, and the key of its item if that is known.
struct FoundRow {
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
            Self::Set(rows) => Ok(rows.seek(row).map_err(read)?.map(|row| (row, None))),
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
        shard.budget.read(entries.len() as u64)?;
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
