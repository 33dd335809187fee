//! ORDER BY. Rows with equal keys keep the order of the items, or its reverse when the first key
//! descends.

use std::cmp::Ordering;

use orrery_types::Value;

use crate::ast::Direction;
use crate::bound::Node;
use crate::error::QueryError;
use crate::eval::{Env, Evaluator};

/// Sorts rows, keeping no more than are asked for.
pub(super) struct Sorter<'s> {
    keys: &'s [(Node, Direction)],
    rows: Vec<Row>,
    rows_max: usize,
    count: usize,
}

struct Row {
    keys: Vec<Value>,
    number: usize,
    value: Value,
}

/// Rows gathered beyond those wanted before the rest is thrown away.
const SLACK: usize = 4096;

impl<'s> Sorter<'s> {
    pub(super) fn new(keys: &'s [(Node, Direction)], rows_max: usize) -> Self {
        Self { keys, rows: Vec::new(), rows_max, count: 0 }
    }

    pub(super) fn add(
        &mut self,
        evaluator: &Evaluator<'_>,
        env: &mut Env,
        value: Value,
    ) -> Result<(), QueryError> {
        let mut keys = Vec::with_capacity(self.keys.len());
        for (node, _) in self.keys {
            let key = evaluator.eval(node, env)?;
            evaluator.keep(&key)?;
            keys.push(key);
        }
        self.rows.push(Row { keys, number: self.count, value });
        self.count += 1;
        if self.rows.len() >= self.rows_max.saturating_mul(2).saturating_add(SLACK) {
            self.trim();
            evaluator.release_to(0);
            for row in &self.rows {
                evaluator.keep(&row.value)?;
                row.keys.iter().try_for_each(|key| evaluator.keep(key))?;
            }
        }
        Ok(())
    }

    fn trim(&mut self) {
        let directions = self.keys;
        self.rows.sort_unstable_by(|a, b| compare(directions, a, b));
        self.rows.truncate(self.rows_max);
    }

    pub(super) fn finish(mut self) -> Vec<Value> {
        self.trim();
        self.rows.into_iter().map(|row| row.value).collect()
    }
}

fn compare(keys: &[(Node, Direction)], a: &Row, b: &Row) -> Ordering {
    let turned = |order: Ordering, direction: Direction| match direction {
        Direction::Ascending => order,
        Direction::Descending => order.reverse(),
    };
    for (at, (_, direction)) in keys.iter().enumerate() {
        let order = a.keys[at].cmp(&b.keys[at]);
        if order.is_ne() {
            return turned(order, *direction);
        }
    }
    turned(a.number.cmp(&b.number), keys[0].1)
}
