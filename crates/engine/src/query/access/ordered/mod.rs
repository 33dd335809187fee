//! Items in the order of values: one cursor along an index in every partition, merged by a binary heap
//! on the values and the row. Rows are taken from the heap in batches, loaded partition by partition
//! and put back into the order of the merge.
//!
//! `cursor` reads one partition, `bounds` says which index entries it reads, `missing` finds the items
//! without a value.

mod bounds;
mod cursor;
mod missing;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

use cursor::PartitionCursor;
use orrery_query::ast::Direction;
use orrery_query::plan::access::{OrderedAccess, OrderedIndex};
use orrery_query::plan::condition::ItemPath;
use orrery_query::{ItemSource, SeekPosition, SortValue, SourceItem};
use orrery_storage::key::Row;
use orrery_types::{Error, Result, Value};

use super::Shards;

/// The items of an ordered access.
pub(crate) struct OrderedSource<'s, 'e> {
    shards: &'s Shards<'e>,
    access: &'s OrderedAccess,
    order: Rc<SortOrder>,
    place: Option<SortPosition>,
    merge: Option<Merge<PartitionCursor<'s, 'e>>>,
}

impl<'s, 'e> OrderedSource<'s, 'e> {
    pub(crate) fn new(shards: &'s Shards<'e>, access: &'s OrderedAccess) -> Self {
        let order = Rc::new(SortOrder::of(access));
        Self { shards, access, order, place: None, merge: None }
    }

    /// The next rows in the order of the query, each with its partition.
    fn next_rows(&mut self, rows_max: usize) -> Result<Vec<(usize, Row)>> {
        let merge = match &mut self.merge {
            Some(merge) => merge,
            none => {
                let (shards, access, order) = (self.shards, self.access, &self.order);
                let open = |shard| {
                    PartitionCursor::open(shards, shard, access, order.clone(), self.place.clone())
                };
                let cursors = shards.list.iter().map(open).collect::<Result<_>>()?;
                none.insert(Merge::new(cursors, order)?)
            }
        };
        let mut rows = Vec::with_capacity(rows_max);
        while rows.len() < rows_max
            && let Some((partition, position)) = merge.next()?
        {
            rows.push((partition, position.row));
        }
        Ok(rows)
    }

    /// The items of some rows, in the order of the rows, without those that are hidden.
    fn load(&self, rows: &[(usize, Row)]) -> Result<Vec<SourceItem>> {
        let mut by_partition: Vec<Vec<Row>> = vec![Vec::new(); self.shards.list.len()];
        for (partition, row) in rows {
            by_partition[*partition].push(*row);
        }
        let mut loaded = Vec::with_capacity(by_partition.len());
        for (shard, rows) in self.shards.list.iter().zip(by_partition) {
            let items = if rows.is_empty() { vec![] } else { self.shards.load(shard, &rows)? };
            loaded.push(items);
        }
        if let [only] = &mut loaded[..] {
            return Ok(std::mem::take(only));
        }
        Ok(interleave(rows, loaded))
    }
}

/// Puts the items of several partitions, each in the order of its rows, into the order of all rows.
fn interleave(rows: &[(usize, Row)], loaded: Vec<Vec<SourceItem>>) -> Vec<SourceItem> {
    let mut loaded: Vec<VecDeque<SourceItem>> = loaded.into_iter().map(Into::into).collect();
    let mut items = Vec::with_capacity(rows.len());
    for (partition, row) in rows {
        let own = &mut loaded[*partition];
        // The item of a row that is hidden was not loaded.
        if own.front().is_some_and(|item| item.row == row.0) {
            items.extend(own.pop_front());
        }
    }
    items
}

impl ItemSource for OrderedSource<'_, '_> {
    fn seek(&mut self, place: SeekPosition<'_>) -> Result<()> {
        let SeekPosition::Values { keys, row } = place else {
            return Err(Error::internal("items come in the order of values"));
        };
        self.place = Some(SortPosition { keys: keys.to_vec(), row: Row(row) });
        Ok(())
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        loop {
            let rows = self.next_rows(self.shards.batch(items_max))?;
            if rows.is_empty() {
                return Ok(vec![]);
            }
            let items = self.load(&rows)?;
            if !items.is_empty() {
                return Ok(items);
            }
        }
    }
}

/// What gives positions in order.
trait Positions {
    fn next(&mut self) -> Result<Option<SortPosition>>;
}

/// Several sequences of positions as one, by a heap that holds the next position of each.
struct Merge<C> {
    cursors: Vec<C>,
    heads: BinaryHeap<MergeHead>,
    order: Rc<SortOrder>,
}

impl<C: Positions> Merge<C> {
    fn new(cursors: Vec<C>, order: &Rc<SortOrder>) -> Result<Self> {
        let heads = BinaryHeap::with_capacity(cursors.len());
        let mut merge = Self { cursors, heads, order: order.clone() };
        if merge.cursors.len() > 1 {
            (0..merge.cursors.len()).try_for_each(|at| merge.refill(at))?;
        }
        Ok(merge)
    }

    /// Puts the next position of one sequence on the heap.
    fn refill(&mut self, at: usize) -> Result<()> {
        let Some(cursor) = self.cursors.get_mut(at) else { return Ok(()) };
        if let Some(position) = cursor.next()? {
            self.heads.push(MergeHead { position, cursor: at, order: self.order.clone() });
        }
        Ok(())
    }

    /// The next position of all, and the number of the sequence that has it.
    fn next(&mut self) -> Result<Option<(usize, SortPosition)>> {
        // One sequence needs no heap.
        if let [only] = &mut self.cursors[..] {
            return Ok(only.next()?.map(|position| (0, position)));
        }
        let Some(MergeHead { position, cursor, .. }) = self.heads.pop() else { return Ok(None) };
        self.refill(cursor)?;
        Ok(Some((cursor, position)))
    }
}

/// An item's position in the order.
#[derive(Clone, Debug)]
struct SortPosition {
    keys: Vec<SortValue>,
    row: Row,
}

impl SortPosition {
    /// The position of an item without the key.
    fn missing(row: Row) -> Self {
        Self { keys: vec![SortValue::Scalar(Value::Undefined)], row }
    }
}

/// What orders items: paths of the keys, and whether each descends.
#[derive(Debug)]
struct SortOrder {
    keys: Vec<(ItemPath, bool)>,
    /// Whether equal keys come by descending rows.
    rows_descend: bool,
}

impl SortOrder {
    fn of(access: &OrderedAccess) -> Self {
        let keys: Vec<(ItemPath, bool)> = match &access.index {
            OrderedIndex::Path { path, .. } => vec![(path.clone(), access.reverse)],
            OrderedIndex::Composite { components, keys, .. } => components[keys.clone()]
                .iter()
                .map(|(path, d)| (path.clone(), (*d == Direction::Descending) != access.reverse))
                .collect(),
        };
        let rows_descend = keys.first().is_some_and(|(_, descends)| *descends);
        Self { keys, rows_descend }
    }

    fn compare(&self, a: &SortPosition, b: &SortPosition) -> Ordering {
        let directed = |order: Ordering, descends: bool| {
            if descends { order.reverse() } else { order }
        };
        for ((x, y), (_, descends)) in a.keys.iter().zip(&b.keys).zip(&self.keys) {
            let order = x.cmp(y);
            if order.is_ne() {
                return directed(order, *descends);
            }
        }
        directed(a.row.cmp(&b.row), self.rows_descend)
    }
}

/// The next position of one cursor, as the heap of a merge compares it: the greatest comes first.
#[derive(Debug)]
struct MergeHead {
    position: SortPosition,
    cursor: usize,
    order: Rc<SortOrder>,
}

impl Ord for MergeHead {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.order.compare(&self.position, &other.position);
        order.then(self.cursor.cmp(&other.cursor)).reverse()
    }
}

impl PartialOrd for MergeHead {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for MergeHead {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for MergeHead {}
