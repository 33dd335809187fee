//! Looking ahead, in a query without ORDER BY that reads much and finds little. Its rows come in the order
//! of the items' numbers, and to load an item by its number costs more than a step along the keys. Where a
//! page would read most of the items anyway, they are read along their keys, the numbers of the
//! first that have a row are kept, and only those are loaded in order.

use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use orrery_types::limits;

use super::collect::{Collector, row};
use super::page::{BATCH_MAX, Execution, wanted};
use super::{SourceItem, rows};
use crate::bound::{BoundSelect, Node};
use crate::error::QueryError;
use crate::plan::access::SourceOrder;

/// What a source still has, roughly.
#[derive(Clone, Copy, Debug)]
pub struct ItemsLeft {
    /// Items that have not come yet.
    pub items: u64,
    /// Items that are read to get them in any order.
    pub scanned: u64,
    /// The bytes of those.
    pub scanned_bytes: u64,
}

/// The numbers of items that alone are still to come, ascending.
#[derive(Clone, Debug)]
pub struct KeptItems {
    /// The numbers.
    pub rows: Vec<u64>,
    /// Whether no other item is wanted; otherwise all that lie behind the last of them follow.
    pub are_all: bool,
}

/// A source of items by number that can give them in another order for less.
pub trait AnyOrder {
    /// What is left.
    fn left(&self) -> orrery_types::Result<ItemsLeft>;
    /// From now on the items that have not come yet come in any order.
    fn begin_any_order(&mut self);
    /// From now on they come in order again: all that had not come before the order was left, or
    /// those that are kept of them.
    fn end_any_order(&mut self, kept: Option<KeptItems>);
}

/// What a page has found so far, and needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageProgress {
    pub(super) items_read: u64,
    pub(super) rows_found: u64,
    pub(super) rows_needed: u64,
}

/// Items of a page after which it may look ahead.
const ITEMS_READ_MIN: u64 = 1024;
/// What it takes to load an item by its number, in hundredths of a step along the keys.
const LOAD_PERCENT: u64 = 200;
/// Where a page needs few rows, it is taken to need so many: a page that has found none yet may find
/// them anywhere.
const ROWS_NEEDED_MIN: u64 = 8;

impl PageProgress {
    /// Whether reading on in order is expected to cost more than reading everything in any order.
    pub(super) fn favours_any_order(self, left: ItemsLeft) -> bool {
        let needed = self.rows_needed.max(ROWS_NEEDED_MIN);
        let expected = self.items_read.saturating_mul(needed) / self.rows_found.max(1);
        let loads = expected.min(left.items).saturating_mul(LOAD_PERCENT);
        self.items_read >= ITEMS_READ_MIN && loads > left.scanned.saturating_mul(100)
    }
}

impl Execution<'_> {
    /// Called between two batches of a query that streams over items by number, which had `before`
    /// rows when the page began and has `seen` now.
    pub(super) fn look_ahead(&mut self, before: u64, seen: u64) -> Result<(), QueryError> {
        let select = &self.query.bound.select;
        let by_number = self.run.order == SourceOrder::Rows && self.keys.is_none();
        if !by_number || self.items.read < ITEMS_READ_MIN || self.has_looked_ahead {
            return Ok(());
        }
        let room = self.limits.rows_max.saturating_sub(self.rows.len()).saturating_add(1);
        let needed = select.offset.saturating_sub(seen).saturating_add(room as u64);
        let needed = needed.min(wanted(select).map_or(u64::MAX, |end| end.saturating_sub(seen)));
        let progress = PageProgress {
            items_read: self.items.read,
            rows_found: seen - before,
            rows_needed: needed,
        };
        let Some(source) = self.items.source.any_order() else { return Ok(()) };
        let left = source.left()?;
        // A page that reads in order may end at any item, one that looks ahead only when it is done.
        let steps = (self.evaluator.steps() / self.items.read).saturating_mul(left.scanned);
        let is_short = left.scanned_bytes <= limits::QUERY_LOOK_AHEAD_BYTES_MAX
            && left.scanned <= limits::QUERY_LOOK_AHEAD_ITEMS_MAX
            && steps <= self.evaluator.budget.limits().page_steps / 4
            && needed <= limits::QUERY_LOOK_AHEAD_ROWS_MAX;
        if is_short && progress.favours_any_order(left) && is_repeatable(select) {
            self.has_looked_ahead = true;
            source.begin_any_order();
            let kept = self.items_with_rows(usize::try_from(needed).unwrap_or(usize::MAX))?;
            if let Some(source) = self.items.source.any_order() {
                source.end_any_order(kept);
            }
        }
        Ok(())
    }

    /// The same for a collector that wants distinct values: it takes items in any order, and sorts the
    /// values by the first item that has them.
    pub(super) fn look_ahead_for(
        &mut self,
        collector: &mut Collector<'_>,
    ) -> Result<(), QueryError> {
        let by_number = self.run.order == SourceOrder::Rows && self.keys.is_none();
        let progress = collector.distinct_progress(self.items.read).filter(|_| by_number);
        if let Some(progress) = progress.filter(|p| p.items_read >= ITEMS_READ_MIN)
            && let Some(source) = self.items.source.any_order()
            && progress.favours_any_order(source.left()?)
        {
            source.begin_any_order();
            collector.begin_any_order();
        }
        Ok(())
    }

    /// The first items, by number, that have a row; `None` if the time of the page did not suffice.
    fn items_with_rows(&mut self, items_max: usize) -> Result<Option<KeptItems>, QueryError> {
        let mut first: BinaryHeap<u64> = BinaryHeap::new();
        let mut are_all = true;
        loop {
            let batch = self.items.source.next_batch(BATCH_MAX)?;
            if batch.is_empty() {
                return Ok(Some(KeptItems { rows: first.into_sorted_vec(), are_all }));
            }
            self.items.read += batch.len() as u64;
            for item in batch {
                let is_full = first.len() >= items_max;
                if is_full && first.peek().is_some_and(|last| *last < item.row) {
                    are_all = false;
                    continue;
                }
                let number = item.row;
                if self.has_row(item)? {
                    first.push(number);
                    if is_full {
                        first.pop();
                        are_all = false;
                    }
                }
            }
            if self.evaluator.is_page_over() {
                return Ok(None);
            }
        }
    }

    /// Whether an item has a row. One that fails counts as one that has: it fails again when its turn
    /// comes, if it does.
    fn has_row(&mut self, item: SourceItem) -> Result<bool, QueryError> {
        let (evaluator, select) = (self.evaluator, &self.query.bound.select);
        let SourceItem { value, text, .. } = item;
        self.env[self.query.bound.item_slot] = value;
        let mut found = false;
        let result = rows::each(evaluator, select, &mut self.env, &mut |env| {
            found = row(evaluator, select, text.as_ref(), env)?.is_some();
            Ok(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        match result {
            Ok(_) => Ok(found),
            Err(QueryError::Runtime(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Whether the query says the same of an item whenever it is asked, and soon. The time is the same for a
/// whole execution; chance, functions of the user and relations are not.
fn is_repeatable(select: &BoundSelect) -> bool {
    let mut repeatable = true;
    select.for_each_node(&mut |node| {
        repeatable &= match node {
            Node::Udf(..) | Node::Follow(_) => false,
            Node::Call(function, _) => function.name != "RAND",
            _ => true,
        };
    });
    repeatable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_looks_ahead_where_it_would_load_most_items() {
        let left = |items| ItemsLeft { items, scanned: 100_000, scanned_bytes: 0 };
        let page =
            |items_read, rows_found| PageProgress { items_read, rows_found, rows_needed: 100 };
        assert!(page(2000, 0).favours_any_order(left(98_000)));
        assert!(page(2000, 2).favours_any_order(left(98_000)));
        // It is full soon, has hardly begun, or has little left to read.
        assert!(!page(2000, 20).favours_any_order(left(98_000)));
        assert!(!page(1000, 0).favours_any_order(left(99_000)));
        assert!(!page(2000, 0).favours_any_order(left(40_000)));
    }
}
