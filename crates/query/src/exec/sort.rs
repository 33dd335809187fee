//! ORDER BY. Rows with equal keys keep the order of the items' numbers, or its reverse when the
//! first key descends: what walking an index in either direction gives.

use std::cmp::Ordering;

use super::row::Row;
use crate::ast::Direction;
use crate::bound::Node;
use crate::error::QueryError;
use crate::eval::{Env, Evaluator};
use crate::memory::allocated;
use crate::sort_value::SortValue;

/// A row in its place.
#[derive(Clone, Debug)]
pub(super) struct Sorted {
    pub(super) keys: Vec<SortValue>,
    /// The item that it came from.
    pub(super) item: u64,
    /// Which of the item's rows it is, from 0.
    pub(super) number: u64,
    pub(super) value: Row,
}

impl Sorted {
    /// Counts the memory of the row and its keys.
    fn keep(&self, evaluator: &Evaluator<'_>) -> Result<(), QueryError> {
        let memory = &evaluator.memory;
        let keys: usize = self.keys.iter().map(SortValue::size_bytes).sum();
        // The list of rows grows by doubling.
        let own = 2 * size_of::<Self>() + allocated(0) + keys;
        memory.keep(self.value.heap_bytes(memory.left()).saturating_add(own))
    }
}

/// A place between rows: behind the first so many of one item.
#[derive(Clone, Debug)]
pub(super) struct After {
    pub(super) keys: Vec<SortValue>,
    pub(super) item: u64,
    pub(super) rows: u64,
}

impl After {
    /// Whether a row of an item stands before the place.
    pub(super) fn is_behind(
        &self,
        directions: &[(Node, Direction)],
        keys: &[SortValue],
        item: u64,
        number: u64,
    ) -> bool {
        match compare_items(directions, (keys, item), (&self.keys, self.item)) {
            Ordering::Less => true,
            Ordering::Equal => number < self.rows,
            Ordering::Greater => false,
        }
    }

    /// The place that comes later in the order.
    pub(super) fn further(
        directions: &[(Node, Direction)],
        a: Option<Self>,
        b: Option<Self>,
    ) -> Option<Self> {
        let (a, b) = match (a, b) {
            (Some(a), Some(b)) => (a, b),
            (one, other) => return one.or(other),
        };
        let order = compare_items(directions, (&a.keys, a.item), (&b.keys, b.item));
        Some(if order.then(a.rows.cmp(&b.rows)).is_lt() { b } else { a })
    }
}

/// Sorts rows, keeping no more than are asked for.
pub(super) struct Sorter<'s> {
    keys: &'s [(Node, Direction)],
    rows: Vec<Sorted>,
    rows_max: usize,
    after: Option<After>,
    item: u64,
    number: u64,
    /// What was kept when the first row came.
    kept_before: usize,
}

/// Rows gathered beyond those wanted before the rest is thrown away.
const SLACK: usize = 4096;

impl<'s> Sorter<'s> {
    pub(super) fn new(keys: &'s [(Node, Direction)], rows_max: usize) -> Self {
        let rows = Vec::new();
        Self { keys, rows, rows_max, after: None, item: 0, number: 0, kept_before: 0 }
    }

    /// Leaves out everything before a place.
    pub(super) fn after(mut self, after: Option<After>) -> Self {
        self.after = after;
        self
    }

    /// The rows that follow are of this item.
    pub(super) fn begin(&mut self, item: u64) {
        self.item = item;
        self.number = 0;
    }

    pub(super) fn add(
        &mut self,
        evaluator: &Evaluator<'_>,
        env: &mut Env,
        value: Row,
    ) -> Result<(), QueryError> {
        let mut keys = Vec::with_capacity(self.keys.len());
        for (node, _) in self.keys {
            keys.push(evaluator.sort_value(node, env)?);
        }
        let row = Sorted { keys, item: self.item, number: self.number, value };
        self.number += 1;
        if self.is_done(&row) {
            return Ok(());
        }
        if self.rows.is_empty() {
            self.kept_before = evaluator.memory.kept();
        }
        row.keep(evaluator)?;
        self.rows.push(row);
        if self.rows.len() >= self.rows_max.saturating_mul(2).saturating_add(SLACK) {
            self.trim();
            evaluator.memory.release_to(self.kept_before);
            self.rows.iter().try_for_each(|row| row.keep(evaluator))?;
        }
        Ok(())
    }

    fn is_done(&self, row: &Sorted) -> bool {
        let is_behind = |after: &After| after.is_behind(self.keys, &row.keys, row.item, row.number);
        self.after.as_ref().is_some_and(is_behind)
    }

    fn trim(&mut self) {
        let directions = self.keys;
        self.rows.sort_unstable_by(|a, b| {
            compare_items(directions, (&a.keys, a.item), (&b.keys, b.item))
                .then(a.number.cmp(&b.number))
        });
        self.rows.truncate(self.rows_max);
    }

    pub(super) fn finish(mut self) -> Vec<Sorted> {
        self.trim();
        self.rows
    }
}

/// The order of two items by their keys and numbers.
fn compare_items(
    keys: &[(Node, Direction)],
    a: (&[SortValue], u64),
    b: (&[SortValue], u64),
) -> Ordering {
    let turned = |order: Ordering, direction: Direction| match direction {
        Direction::Ascending => order,
        Direction::Descending => order.reverse(),
    };
    for ((x, y), (_, direction)) in a.0.iter().zip(b.0).zip(keys) {
        let order = x.cmp(y);
        if order.is_ne() {
            return turned(order, *direction);
        }
    }
    turned(a.1.cmp(&b.1), keys.first().map_or(Direction::Ascending, |(_, direction)| *direction))
}
