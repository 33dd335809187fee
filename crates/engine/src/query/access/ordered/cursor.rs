//! The ordered cursor of one partition. Arrays, objects and long strings share index entries that do not
//! tell their order; where the cursor meets such a group, it loads the items' keys and sorts them.

use std::collections::VecDeque;
use std::rc::Rc;

use orrery_index::IndexStep;
use orrery_index::postings::CollectedRows;
use orrery_index::range::{ValueCursor, ValueEntry};
use orrery_query::SortValue;
use orrery_query::plan::access::{OrderedAccess, OrderedIndex};
use orrery_storage::key::Row;
use orrery_storage::term::{TermValue, decode_component};
use orrery_types::{Reservation, Result, Value, limits};

use super::Positions;
use super::bounds::{self, directions, key_range, ties_are_reversed};
use super::missing::MissingRows;
use super::{SortOrder, SortPosition};
use crate::error::{read, storage};
use crate::query::access::prefetched::PrefetchedPostings;
use crate::query::access::{ReadCounters, Shard, Shards};

/// Positions of one partition's items in the order of the query.
pub(super) struct PartitionCursor<'s, 'e> {
    shards: &'s Shards<'e>,
    shard: &'s Shard<'e>,
    access: &'s OrderedAccess,
    order: Rc<SortOrder>,
    /// Items without the key, if they come first.
    missing_first: Option<MissingRows<'s>>,
    entries: Option<ValueCursor<'s>>,
    /// Items without the key, if they come last: the last one first. Found when they are due.
    missing_last: Option<CollectedRows<'s>>,
    is_last_due: bool,
    /// A group that was sorted.
    group: VecDeque<SortPosition>,
    /// The memory of the group.
    group_held: Reservation<'s>,
    /// The rows that alone count, sorted.
    only: Option<CollectedRows<'s>>,
    /// Where the page begins.
    place: Option<SortPosition>,
}

impl<'s, 'e> PartitionCursor<'s, 'e> {
    pub(super) fn open(
        shards: &'s Shards<'e>,
        shard: &'s Shard<'e>,
        access: &'s OrderedAccess,
        order: Rc<SortOrder>,
        place: Option<SortPosition>,
    ) -> Result<Self> {
        let mut cursor = Self {
            shards,
            shard,
            access,
            order,
            missing_first: None,
            entries: None,
            missing_last: None,
            is_last_due: access.with_undefined && access.reverse,
            group: VecDeque::new(),
            group_held: shards.budget.reservation(),
            only: None,
            place,
        };
        cursor.only = cursor.only_rows()?;
        cursor.open_missing()?;
        cursor.open_entries()?;
        Ok(cursor)
    }

    /// The rows that alone count, sorted; `None` if all do, or if they are too many to be kept.
    fn only_rows(&self) -> Result<Option<CollectedRows<'s>>> {
        let Some(set) = &self.access.only else { return Ok(None) };
        let store = &*self.shards.engine.store;
        let Some(mut cursor) = self.shard.rows(store, set, &PrefetchedPostings::default())? else {
            return Ok(None);
        };
        let mut rows = CollectedRows::new(self.shards.budget);
        let mut next = cursor.seek(Row(0)).map_err(read)?;
        while let Some(row) = next {
            if rows.rows().len() >= limits::QUERY_ROWS_GATHERED_MAX {
                return Ok(None);
            }
            rows.push(row).map_err(read)?;
            next = cursor.seek(Row(row.0.saturating_add(1))).map_err(read)?;
        }
        ReadCounters::add(&self.shards.taken.entries, cursor.entries_read());
        Ok(Some(rows))
    }

    fn counts(&self, row: Row) -> bool {
        self.only.as_ref().is_none_or(|only| only.rows().binary_search(&row).is_ok())
    }

    /// Whether the place is among the items without the key.
    fn place_is_missing(&self) -> bool {
        self.place.as_ref().is_some_and(|p| p.keys.first().is_none_or(SortValue::is_undefined))
    }

    fn open_missing(&mut self) -> Result<()> {
        let OrderedIndex::Path { path, .. } = &self.access.index else { return Ok(()) };
        if !self.access.with_undefined || self.access.reverse {
            return Ok(());
        }
        if self.place.is_some() && !self.place_is_missing() {
            return Ok(());
        }
        let from = self.place.as_ref().map_or(Row(0), |place| place.row);
        self.missing_first = Some(MissingRows::open(self.shards, self.shard, path, from)?);
        Ok(())
    }

    fn open_entries(&mut self) -> Result<()> {
        let access = self.access;
        if self.place_is_missing() && access.reverse && access.with_undefined {
            return Ok(());
        }
        let found = bounds::entries(self.shards, self.shard, access)?;
        let Some((head, bounds)) = found else { return Ok(()) };
        // Behind an item without the key lie all entries of its path; composite entries hold undefined.
        let is_path = matches!(access.index, OrderedIndex::Path { .. });
        let place = self.place.as_ref().filter(|_| !(is_path && self.place_is_missing()));
        let bounds = match place {
            Some(place) => bounds::behind(place, access, &self.order, &head, bounds),
            None => bounds,
        };
        let (snapshot, budget) = (&*self.shard.snapshot, self.shard.budget);
        let cursor = ValueCursor::new(snapshot, bounds, head.len(), access.reverse, budget);
        self.entries = Some(cursor);
        Ok(())
    }

    /// The next item without the key, where those come first.
    fn next_missing_first(&mut self) -> Result<Option<SortPosition>> {
        while let Some(missing) = &mut self.missing_first {
            let before = missing.entries_read();
            let found = missing.next()?;
            ReadCounters::add(&self.shards.taken.entries, missing.entries_read() - before);
            match found {
                None => self.missing_first = None,
                Some(row) if self.counts(row) => return Ok(Some(SortPosition::missing(row))),
                Some(_) => {}
            }
        }
        Ok(None)
    }

    fn next_missing_last(&mut self) -> Result<Option<SortPosition>> {
        if self.is_last_due {
            self.is_last_due = false;
            self.missing_last = self.find_missing_last()?;
        }
        let Some(rows) = &mut self.missing_last else { return Ok(None) };
        Ok(rows.pop().map(SortPosition::missing))
    }

    /// Items without the key by ascending row, up to the place.
    fn find_missing_last(&self) -> Result<Option<CollectedRows<'s>>> {
        let OrderedIndex::Path { path, .. } = &self.access.index else { return Ok(None) };
        let mut missing = MissingRows::open(self.shards, self.shard, path, Row(0))?;
        let until = self.place.as_ref().filter(|_| self.place_is_missing()).map(|place| place.row);
        let mut rows = CollectedRows::new(self.shards.budget);
        while let Some(row) = missing.next()?.filter(|row| until.is_none_or(|until| *row <= until))
        {
            if self.counts(row) {
                rows.push(row).map_err(read)?;
            }
        }
        ReadCounters::add(&self.shards.taken.entries, missing.entries_read());
        Ok(Some(rows))
    }

    /// The position of an entry, or nothing if it does not count, or if its group was sorted.
    fn entry(&mut self, entry: &ValueEntry) -> Result<Option<SortPosition>> {
        let (keys, directions) = (key_range(self.access), directions(self.access));
        let mut rest = &entry.code[..];
        let mut values = Vec::with_capacity(keys.len());
        for (at, descending) in directions.iter().enumerate() {
            let (value, after) = decode_component(rest, *descending).map_err(storage)?;
            rest = after;
            if !keys.contains(&at) {
                continue;
            }
            match value {
                TermValue::Whole(value) => values.push(SortValue::of(&value)),
                TermValue::Cut(_) | TermValue::Array | TermValue::Object => {
                    let shared = entry.code.len() - rest.len();
                    self.sort_group(entry, shared)?;
                    return Ok(None);
                }
            }
        }
        if ties_are_reversed(self.access, &self.order) {
            self.reverse_group(entry, &values)?;
            return Ok(None);
        }
        Ok(self.counts(entry.row).then_some(SortPosition { keys: values, row: entry.row }))
    }

    /// The rows of all entries that share the first bytes of a code with this one, as far as they count.
    fn group_rows(&mut self, first: &ValueEntry, shared: usize) -> Result<CollectedRows<'s>> {
        let mut rows = CollectedRows::new(self.shards.budget);
        if self.counts(first.row) {
            rows.push(first.row).map_err(read)?;
        }
        let prefix = first.code.get(..shared).unwrap_or_default();
        let Some(mut cursor) = self.entries.take() else { return Ok(rows) };
        let before = cursor.entries_read();
        while let Some(next) = cursor.peek().map_err(read)? {
            if next.code.get(..shared) != Some(prefix) {
                break;
            }
            let row = next.row;
            if self.counts(row) {
                rows.push(row).map_err(read)?;
            }
            cursor.advance().map_err(read)?;
        }
        ReadCounters::add(&self.shards.taken.entries, cursor.entries_read() - before);
        self.entries = Some(cursor);
        Ok(rows)
    }

    /// Gives the items of equal keys in the other order.
    fn reverse_group(&mut self, first: &ValueEntry, keys: &[SortValue]) -> Result<()> {
        let rows = self.group_rows(first, first.code.len())?;
        let keys_bytes: usize = keys.iter().map(SortValue::size_bytes).sum();
        self.group_held.set(rows.rows().len() * (keys_bytes + size_of::<SortPosition>()))?;
        let position = |row: &Row| SortPosition { keys: keys.to_vec(), row: *row };
        self.start_group(rows.rows().iter().map(position).collect());
        Ok(())
    }

    /// Sorts the items whose entries share the first bytes of a code by what the items have.
    fn sort_group(&mut self, first: &ValueEntry, shared: usize) -> Result<()> {
        let rows = self.group_rows(first, shared)?;
        let mut group = Vec::new();
        self.group_held.set(0)?;
        let mut rest = rows.rows();
        while !rest.is_empty() {
            let (batch, others) = rest.split_at(self.shards.batch(rest.len().min(SORTED_BATCH)));
            rest = others;
            for item in self.shards.load(self.shard, batch)? {
                let paths = self.order.keys.iter().map(|(path, _)| path);
                let keys: Vec<SortValue> =
                    paths.map(|path| SortValue::of(value_at(&item.value, path))).collect();
                let keys_bytes: usize = keys.iter().map(SortValue::size_bytes).sum();
                // The list of them grows by doubling.
                self.group_held.add(keys_bytes + 2 * size_of::<SortPosition>())?;
                group.push(SortPosition { keys, row: Row(item.row) });
            }
        }
        self.start_group(group);
        Ok(())
    }

    fn start_group(&mut self, mut group: Vec<SortPosition>) {
        group.sort_by(|a, b| self.order.compare(a, b));
        if let Some(place) = &self.place {
            group.retain(|position| self.order.compare(position, place).is_ge());
        }
        self.group = group.into();
    }
}

impl Positions for PartitionCursor<'_, '_> {
    fn next(&mut self) -> Result<Option<SortPosition>> {
        if let Some(position) = self.next_missing_first()? {
            return Ok(Some(position));
        }
        loop {
            if let Some(position) = self.group.pop_front() {
                return Ok(Some(position));
            }
            let Some(cursor) = &mut self.entries else { return self.next_missing_last() };
            let before = cursor.entries_read();
            let entry = cursor.advance().map_err(read)?;
            ReadCounters::add(&self.shards.taken.entries, cursor.entries_read() - before);
            match entry {
                None => self.entries = None,
                Some(entry) => {
                    if let Some(position) = self.entry(&entry)? {
                        return Ok(Some(position));
                    }
                }
            }
        }
    }
}

/// Items of a group that are loaded at once.
const SORTED_BATCH: usize = 256;

/// The value at a path of names.
fn value_at<'v>(item: &'v Value, path: &[IndexStep]) -> &'v Value {
    path.iter().fold(item, |value, step| match step {
        IndexStep::Property(name) => value.get(name),
        IndexStep::Elements | IndexStep::Tuple(_) => &Value::Undefined,
    })
}
