//! ORDER BY. Rows with equal keys keep the order of the items' numbers, or its reverse when the
//! first key descends: what walking an index in either direction gives.

use std::cmp::Ordering;

use orrery_types::Value;

use super::row::Row;
use crate::ast::Direction;
use crate::bound::Node;
use crate::error::QueryError;
use crate::eval::{Env, Evaluator};

/// A row in its place.
#[derive(Clone, Debug)]
pub(super) struct Sorted {
    pub(super) keys: Vec<Value>,
    /// The item that it came from.
    pub(super) item: u64,
    /// Which of the item's rows it is, from 0.
    pub(super) number: u64,
    pub(super) value: Row,
}

/// A place between rows: behind the first so many of one item.
#[derive(Clone, Debug)]
pub(super) struct After {
    pub(super) keys: Vec<Value>,
    pub(super) item: u64,
    pub(super) rows: u64,
}

/// Sorts rows, keeping no more than are asked for.
pub(super) struct Sorter<'s> {
    keys: &'s [(Node, Direction)],
    rows: Vec<Sorted>,
    rows_max: usize,
    after: Option<After>,
    item: u64,
    number: u64,
}

/// Rows gathered beyond those wanted before the rest is thrown away.
const SLACK: usize = 4096;

impl<'s> Sorter<'s> {
    pub(super) fn new(keys: &'s [(Node, Direction)], rows_max: usize) -> Self {
        Self { keys, rows: Vec::new(), rows_max, after: None, item: 0, number: 0 }
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
            keys.push(evaluator.eval(node, env)?);
        }
        let row = Sorted { keys, item: self.item, number: self.number, value };
        self.number += 1;
        if self.is_done(&row) {
            return Ok(());
        }
        evaluator.keep_row(&row.value)?;
        row.keys.iter().try_for_each(|key| evaluator.keep(key))?;
        self.rows.push(row);
        if self.rows.len() >= self.rows_max.saturating_mul(2).saturating_add(SLACK) {
            self.trim();
            evaluator.release_to(0);
            for row in &self.rows {
                evaluator.keep_row(&row.value)?;
                row.keys.iter().try_for_each(|key| evaluator.keep(key))?;
            }
        }
        Ok(())
    }

    fn is_done(&self, row: &Sorted) -> bool {
        let Some(after) = &self.after else { return false };
        let (a, b) = ((&*row.keys, row.item), (&*after.keys, after.item));
        match compare_items(self.keys, a, b) {
            Ordering::Less => true,
            Ordering::Equal => row.number < after.rows,
            Ordering::Greater => false,
        }
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
fn compare_items(keys: &[(Node, Direction)], a: (&[Value], u64), b: (&[Value], u64)) -> Ordering {
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
