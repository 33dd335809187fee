//! Lists that come in parts: an array that is kept in buckets may have any number of elements, and a
//! page of them needs a bucket or two. Rows that are only counted, because they are on earlier pages or
//! before OFFSET, are passed over part by part, without being loaded.

use std::cell::Cell;
use std::ops::ControlFlow;

use super::Flow;
use super::rows::{Callback, each_from};
use crate::bound::{BoundSelect, Node, Order, Projection, Slot};
use crate::error::QueryError;
use crate::eval::{Env, Evaluator};
use crate::relation::Follow;
use crate::relation::parts::Parts;

/// Rows of the item at hand that need not be looked at.
#[derive(Debug, Default)]
pub(crate) struct Skips {
    /// How many may be passed over, and the source whose elements they are.
    allowed: Cell<(Slot, u64)>,
    /// How many were, and are not counted yet.
    done: Cell<u64>,
}

impl Skips {
    /// Allows the rows of a query to be passed over, if each of them is an element of its last source.
    pub(super) fn allow(&self, select: &BoundSelect, rows: u64) {
        let slot = select.sources.last().map_or(usize::MAX, |source| source.slot);
        let rows = if counts_elements(select) { rows } else { 0 };
        self.allowed.set((slot, rows));
        self.done.set(0);
    }

    /// Rows that were passed over since the last call.
    pub(super) fn take(&self) -> u64 {
        self.done.take()
    }

    fn left(&self, slot: Slot) -> u64 {
        let (of, rows) = self.allowed.get();
        if of == slot { rows } else { 0 }
    }

    fn pass(&self, rows: u64) {
        let (of, left) = self.allowed.get();
        self.allowed.set((of, left.saturating_sub(rows)));
        self.done.set(self.done.get() + rows);
    }
}

/// Whether each element of the last source is one row, whatever it is.
fn counts_elements(select: &BoundSelect) -> bool {
    let Some(last) = select.sources.last() else { return false };
    let mut looked_at = false;
    if let Some(filter) = &select.filter {
        filter.for_each_node(&mut |node| {
            looked_at |= matches!(node, Node::Path(slot, _) if *slot == last.slot);
        });
    }
    let is_row = match &select.projection {
        Projection::Value(Node::Path(slot, steps)) => *slot == last.slot && steps.is_empty(),
        Projection::Value(_) => false,
        Projection::Properties(_) => true,
    };
    let plain =
        select.grouping.is_none() && !select.distinct && matches!(select.order, Order::None);
    plain && is_row && !looked_at
}

/// Calls back for each element of a list that comes in parts; `None` if it comes whole.
pub(super) fn each(
    evaluator: &Evaluator<'_>,
    select: &BoundSelect,
    bound: usize,
    follow: &Follow,
    env: &mut Env,
    f: Callback<'_>,
) -> Result<Option<Flow>, QueryError> {
    let Some(parts) = Parts::of(evaluator, follow, env)? else { return Ok(None) };
    let slot = select.sources[bound].slot;
    if evaluator.skips.left(slot) > 0
        && let Some(filter) = &select.filter
        && !evaluator.eval(filter, env)?.is_true()
    {
        return Ok(Some(ControlFlow::Continue(())));
    }
    for (at, length) in parts.lengths.iter().enumerate() {
        evaluator.work(1)?;
        let skip = evaluator.skips.left(slot).min(*length);
        if skip > 0 {
            evaluator.skips.pass(skip);
        }
        if skip == *length {
            continue;
        }
        for element in parts.load(at)?.into_iter().skip(usize::try_from(skip).unwrap_or(usize::MAX))
        {
            evaluator.work(1)?;
            env[slot] = element;
            let flow = each_from(evaluator, select, bound + 1, env, f)?;
            if flow.is_break() {
                return Ok(Some(flow));
            }
        }
    }
    Ok(Some(ControlFlow::Continue(())))
}
