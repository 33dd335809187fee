//! Execution. Each row of FROM runs through the filter into a *collector*, which projects, sorts,
//! groups or compares. A query that needs none of the latter *streams*: it can stop after any row
//! and go on from there later. The others read all items before the first row is known.
//!
//! `rows` binds FROM row by row, `collect` gathers, `group`, `sort` and `rank` are its ways, `page`
//! cuts the result into pages and `token` writes down where to go on.

mod collect;
mod group;
mod page;
mod rank;
mod rows;
mod sort;
mod token;

use std::ops::ControlFlow;

use orrery_types::Value;

pub use page::{Page, PageLimits, execute};

use crate::bound::BoundSelect;
use crate::error::QueryError;
use crate::eval::{Env, Evaluator};
use collect::Collector;

/// An item and the place to find it again.
#[derive(Clone, Debug)]
pub struct SourceItem {
    /// The item with its system properties.
    pub value: Value,
    /// The source's own name for the place; it ends up in continuation tokens.
    pub position: Box<[u8]>,
}

/// The items that a query reads, in an order that does not change between pages.
pub trait ItemSource {
    /// Goes to the first item at or after the place; called at most once and before all reading.
    fn seek(&mut self, position: &[u8]) -> orrery_types::Result<()>;
    /// The next items, at most so many; none at the end.
    fn next_batch(&mut self, items_max: usize) -> orrery_types::Result<Vec<SourceItem>>;
}

/// Whether to go on with the next row.
pub(crate) type Flow = ControlFlow<()>;

/// The rows of a correlated subquery, at most so many.
pub(crate) fn subquery_rows(
    evaluator: &Evaluator<'_>,
    select: &BoundSelect,
    env: &mut Env,
    rows_max: usize,
) -> Result<Vec<Value>, QueryError> {
    let kept = evaluator.kept_bytes();
    let mut collector = Collector::new(select, rows_max);
    let _ = rows::each(evaluator, select, env, &mut |env| collector.row(evaluator, env))?;
    let rows = collector.finish(evaluator, env);
    evaluator.release_to(kept);
    rows
}
