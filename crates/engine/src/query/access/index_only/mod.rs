//! Answers that need no item: counts, extremes, sums and distinct values out of the index itself.

use orrery_index::ValueRange;
use orrery_index::postings::Rows;
use orrery_index::range::ValueCursor;
use orrery_index::stored_numbers::{StoredNumber, StoredNumbers};
use orrery_index::value_range::Kind;
use orrery_query::plan::access::RowSet;
use orrery_query::plan::condition::ItemPath;
use orrery_query::plan::index_only::{IndexAggregate, IndexOnly};
use orrery_storage::key::{self, Bounds, Row};
use orrery_storage::term::{TermValue, decode_term};
use orrery_storage::{Scan, Space};
use orrery_types::{DoubleSum, Reservation, Result, Value, limits};

use super::prefetched::PrefetchedPostings;
use super::{ReadCounters, Shard, Shards, within};
use crate::error::{read, storage};

/// What the index says.
pub(crate) enum IndexAnswer<'s> {
    /// One value for each aggregate.
    Aggregates(Vec<Value>),
    /// The distinct values, in their order, and their memory.
    Distinct(Vec<Value>, Reservation<'s>),
}

impl Shards<'_> {
    /// The answer of the index; `None` if it turns out not to know.
    pub(crate) fn answer<'s>(
        &'s self,
        only: &IndexOnly,
        prefetched: &PrefetchedPostings<'s>,
    ) -> Result<Option<IndexAnswer<'s>>> {
        match only {
            IndexOnly::Aggregates(list) => {
                let mut values = Vec::with_capacity(list.len());
                for aggregate in list {
                    let Some(value) = self.aggregate(aggregate, prefetched)? else {
                        return Ok(None);
                    };
                    values.push(value);
                }
                Ok(Some(IndexAnswer::Aggregates(values)))
            }
            IndexOnly::Distinct { path, range, .. } => {
                let found = self.distinct(path, range)?;
                Ok(found.map(|(values, held)| IndexAnswer::Distinct(values, held)))
            }
        }
    }

    fn aggregate<'s>(
        &'s self,
        aggregate: &IndexAggregate,
        prefetched: &PrefetchedPostings<'s>,
    ) -> Result<Option<Value>> {
        let number = |n: u64| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
        match aggregate {
            IndexAggregate::CountAll => {
                let mut total = 0;
                for shard in &self.list {
                    total += self.count_keys(shard, Space::Items, &key::all_rows())?;
                }
                Ok(Some(number(total)))
            }
            IndexAggregate::Count(set) => Ok(self.count(set, prefetched)?.map(number)),
            IndexAggregate::Extreme { path, range, greatest } => {
                self.extreme(path, range, *greatest)
            }
            IndexAggregate::Sum { path, of, average } => {
                self.sum(path, of.as_ref(), *average, prefetched)
            }
        }
    }

    /// Adds up the numbers that stand beside the shapes of the items.
    fn sum<'s>(
        &'s self,
        path: &ItemPath,
        of: Option<&RowSet>,
        average: bool,
        prefetched: &PrefetchedPostings<'s>,
    ) -> Result<Option<Value>> {
        let mut total = Total::default();
        for shard in &self.list {
            let store = &*self.engine.store;
            let Some(path) = shard.partition.path_id(store, path)? else { continue };
            let shapes_max = shard.shapes_max(of)?;
            let numbers = StoredNumbers::of(&*shard.snapshot, path, shapes_max, self.budget);
            let numbers = numbers.map_err(read)?;
            let Some(mut numbers) = numbers else { return Ok(None) };
            match of {
                None => numbers.each(|kept| total.add(kept)).map_err(read)?,
                Some(set) => {
                    let Some(mut rows) = shard.rows(store, set, prefetched)? else {
                        return Ok(None);
                    };
                    let mut next = rows.seek(Row(0)).map_err(read)?;
                    while let Some(row) = next {
                        if !total.add(numbers.at(row).map_err(read)?) {
                            break;
                        }
                        next = rows.seek(Row(row.0.saturating_add(1))).map_err(read)?;
                    }
                    ReadCounters::add(&self.taken.entries, rows.entries_read());
                }
            }
            ReadCounters::add(&self.taken.entries, numbers.entries_read());
            if total.is_unknown {
                return Ok(None);
            }
            if total.is_spoilt {
                break;
            }
        }
        Ok(Some(total.value(average)))
    }

    fn count<'s>(
        &'s self,
        set: &RowSet,
        prefetched: &PrefetchedPostings<'s>,
    ) -> Result<Option<u64>> {
        let mut total = 0;
        for shard in &self.list {
            // The entries of one range are as many as its rows.
            if let RowSet::Terms(terms) = set
                && let [range] = terms.ranges.as_slice()
            {
                if let Some(head) = shard.head(&*self.engine.store, &terms.path)? {
                    total += self.count_keys(shard, Space::Index, &within(&head, range))?;
                }
                continue;
            }
            let rows = shard.rows(&*self.engine.store, set, prefetched)?;
            let Some(rows) = rows else { return Ok(None) };
            total += self.count_rows(rows)?;
        }
        Ok(Some(total))
    }

    fn count_rows(&self, mut rows: Rows<'_>) -> Result<u64> {
        let mut count = 0;
        let mut next = rows.seek(Row(0)).map_err(read)?;
        while let Some(row) = next {
            count += 1;
            next = rows.seek(Row(row.0.saturating_add(1))).map_err(read)?;
        }
        ReadCounters::add(&self.taken.entries, rows.entries_read());
        Ok(count)
    }

    fn count_keys(&self, shard: &Shard<'_>, space: Space, bounds: &Bounds) -> Result<u64> {
        let keys = shard.snapshot.keys(space, &bounds.from, &bounds.to);
        let mut keys = keys.map_err(storage)?;
        let mut count = 0;
        while keys.key().is_some() {
            count += 1;
            if count % COUNTED_PER_READ == 0 {
                self.budget.read(COUNTED_PER_READ)?;
            }
            keys.next().map_err(storage)?;
        }
        ReadCounters::add(&self.taken.entries, count);
        Ok(count)
    }

    fn extreme(
        &self,
        path: &ItemPath,
        range: &ValueRange,
        greatest: bool,
    ) -> Result<Option<Value>> {
        let mut best = Value::Undefined;
        for shard in &self.list {
            let Some(head) = shard.head(&*self.engine.store, path)? else { continue };
            let snapshot = &*shard.snapshot;
            // One array or object leaves the aggregate without a value.
            for kind in [Kind::Array, Kind::Object].map(ValueRange::Type) {
                let within_span = matches!(range, ValueRange::Defined);
                let bounds = within(&head, &kind);
                let mut spoilt = ValueCursor::new(snapshot, bounds, head.len(), false, self.budget);
                if within_span && spoilt.advance().map_err(read)?.is_some() {
                    return Ok(Some(Value::Undefined));
                }
            }
            let bounds = within(&head, range);
            let mut cursor = ValueCursor::new(snapshot, bounds, head.len(), greatest, self.budget);
            let Some(entry) = cursor.advance().map_err(read)? else { continue };
            ReadCounters::add(&self.taken.entries, cursor.entries_read());
            let (value, _) = decode_term(&entry.code).map_err(storage)?;
            // Of a cut string only the beginning is known.
            let TermValue::Whole(value) = value else { return Ok(None) };
            if best.is_undefined() || (value > best) == greatest {
                best = value;
            }
        }
        Ok(Some(best))
    }

    /// Goes from value to value, not from entry to entry.
    fn distinct(
        &self,
        path: &ItemPath,
        range: &ValueRange,
    ) -> Result<Option<(Vec<Value>, Reservation<'_>)>> {
        let mut values = Vec::new();
        let mut held = self.budget.reservation();
        for shard in &self.list {
            let Some(head) = shard.head(&*self.engine.store, path)? else { continue };
            let mut bounds = within(&head, range);
            loop {
                let snapshot = &*shard.snapshot;
                let bounds_now = bounds.clone();
                let mut cursor =
                    ValueCursor::new(snapshot, bounds_now, head.len(), false, self.budget);
                let mut last: Option<Box<[u8]>> = None;
                let mut repeated = 0;
                while let Some(entry) = cursor.advance().map_err(read)? {
                    if last.as_ref() == Some(&entry.code) {
                        repeated += 1;
                        if repeated > REPEATED_MAX {
                            break;
                        }
                        continue;
                    }
                    repeated = 0;
                    let (value, _) = decode_term(&entry.code).map_err(storage)?;
                    let TermValue::Whole(value) = value else { return Ok(None) };
                    // A string is no longer than its code; the list grows by doubling.
                    held.add(3 * size_of::<Value>() + 32 + entry.code.len())?;
                    values.push(value);
                    if values.len() > limits::QUERY_ROWS_GATHERED_MAX / 8 {
                        return Ok(None);
                    }
                    last = Some(entry.code);
                }
                ReadCounters::add(&self.taken.entries, cursor.entries_read());
                match last {
                    Some(code) if repeated > REPEATED_MAX => {
                        bounds.from = key::prefix_end(&[&head[..], &code].concat());
                    }
                    _ => break,
                }
            }
        }
        values.sort_unstable();
        values.dedup();
        Ok(Some((values, held)))
    }
}

/// Numbers that were added up.
#[derive(Default)]
struct Total {
    sum: DoubleSum,
    count: u64,
    /// One item has something else than a number, which leaves the sum without a value.
    is_spoilt: bool,
    /// One item has to be looked at.
    is_unknown: bool,
}

impl Total {
    /// Adds what one item has; whether to go on.
    fn add(&mut self, kept: StoredNumber) -> bool {
        match kept {
            StoredNumber::Undefined => {}
            StoredNumber::Number(number) => {
                self.sum.add(number);
                self.count += 1;
            }
            StoredNumber::Other => self.is_spoilt = true,
            StoredNumber::Unknown => self.is_unknown = true,
        }
        !self.is_spoilt && !self.is_unknown
    }

    fn value(&self, average: bool) -> Value {
        if self.is_spoilt {
            return Value::Undefined;
        }
        IndexAggregate::total(average, self.sum.value(), self.count)
    }
}

/// Entries that are counted before the budget is asked again.
const COUNTED_PER_READ: u64 = 256;

/// Items with the same value that are passed over before the next value is sought.
const REPEATED_MAX: usize = 512;

/// Rows of a partition for each that is wanted, up to which lists of all of them are best walked along.
const DENSE_ROWS: u64 = 32;

impl Shard<'_> {
    /// Shapes among which the rows of a set are better looked for than in their items. Where few of
    /// many rows are wanted, each of them is searched for in every shape.
    fn shapes_max(&self, of: Option<&RowSet>) -> Result<usize> {
        let Some(set) = of else { return Ok(limits::INDEX_SHAPES_MAX) };
        let is_dense = self.rows_given()? <= set.estimate().saturating_mul(DENSE_ROWS);
        Ok(if is_dense { limits::INDEX_SHAPES_WALKED_MAX } else { limits::INDEX_SHAPES_SOUGHT_MAX })
    }

    /// Numbers from the least row to the greatest: what a partition that was never split has items,
    /// unless many were deleted. Sizes on disk would not tell, since rows are small beside items.
    pub(crate) fn rows_given(&self) -> Result<u64> {
        let (Some(first), Some(last)) = (self.end_row(false)?, self.last_row()?) else {
            return Ok(0);
        };
        Ok(last.0 - first.0 + 1)
    }

    /// The greatest row.
    pub(crate) fn last_row(&self) -> Result<Option<Row>> {
        self.end_row(true)
    }

    fn end_row(&self, reverse: bool) -> Result<Option<Row>> {
        let bounds = key::all_rows();
        let scan = Scan {
            space: Space::Items,
            from: &bounds.from,
            to: &bounds.to,
            reverse,
            max_rows: 1,
            max_bytes: usize::MAX,
            keys_only: true,
        };
        let found = self.snapshot.scan(&scan).map_err(storage)?;
        Ok(found.first().and_then(|entry| key::parse_row(&entry.key)))
    }

    /// Item keys of the scope, at most so many, and whether there are more.
    pub(crate) fn count_keys(&self, most: usize) -> Result<(u64, bool)> {
        let scan = Scan { keys_only: true, ..self.bounds.scan(Space::Items, most, usize::MAX) };
        let entries = self.snapshot.scan(&scan).map_err(storage)?;
        Ok((entries.len() as u64, entries.len() == most))
    }
}

#[cfg(test)]
mod tests;
