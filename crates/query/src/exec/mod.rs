//! Execution. Each row of FROM runs through the filter into a *collector*, which projects, sorts,
//! groups or compares. A query that needs none of the latter *streams*: it can stop after any row
//! and go on from there later; and so can one with ORDER BY whose items come in that order. The
//! others read all items before the first row is known.
//!
//! `rows` binds FROM row by row, and `parts` where a list comes in parts. `collect` is the collector, with
//! `group`, `sort`, `distinct` and `rank`. `page` cuts the result into pages, `stream` does so for queries that stream.
//! `look_ahead` spares queries that find little from loading everything in order. `token` encodes the position of the next page, and `resume_filter` is the position of a client that merges
//! ranges itself.

mod collect;
mod distinct;
mod group;
mod look_ahead;
mod page;
mod parts;
mod rank;
mod resume_filter;
mod row;
mod rows;
mod sort;
mod stream;
mod token;

use std::ops::ControlFlow;

use bytes::Bytes;
use orrery_types::Value;

pub use look_ahead::{AnyOrder, ItemsLeft, KeptItems};
pub use page::{Page, PageLimits, Run, answer_aggregates, answer_rows, execute};
pub use resume_filter::ResumeFilter;
pub use row::Row;
pub use token::Resume;

pub(crate) use page::wanted;
pub(crate) use parts::Skips;
pub(crate) use token::Fingerprints;

use crate::bound::BoundSelect;
use crate::error::QueryError;
use crate::eval::{Env, Evaluator};
use crate::sort_value::SortValue;
use collect::Collector;

/// An item and the place to find it again.
#[derive(Clone, Debug)]
pub struct SourceItem {
    /// The item with its system properties, or those of its members that the query needs.
    pub value: Value,
    /// The text of the item, where that is wanted.
    pub text: Option<Bytes>,
    /// Its number, which no other item of the container has.
    pub row: u64,
    /// Its key, if items come in the order of keys; it ends up in continuation tokens.
    pub key: Box<[u8]>,
}

/// A place in the order of a source's items.
#[derive(Clone, Copy, Debug)]
pub enum SeekPosition<'p> {
    /// The item with a key, or where it would be.
    Key(&'p [u8]),
    /// The item with a number, or where it would be.
    Row(u64),
    /// The item with these keys of ORDER BY and this number, or where it would be.
    #[expect(missing_docs, reason = "the summary says it")]
    Values { keys: &'p [SortValue], row: u64 },
}

impl<'p> SeekPosition<'p> {
    /// The key, for a source whose items come in the order of keys.
    pub fn key(self) -> orrery_types::Result<&'p [u8]> {
        match self {
            Self::Key(key) => Ok(key),
            Self::Row(_) | Self::Values { .. } => {
                Err(orrery_types::Error::internal("items come in the order of keys"))
            }
        }
    }
}

/// The items that a query reads, in the order that its plan says; it does not change between pages.
pub trait ItemSource {
    /// Goes to the first item at or after the place; called at most once and before all reading.
    fn seek(&mut self, place: SeekPosition<'_>) -> orrery_types::Result<()>;
    /// The next items, at most so many; none at the end.
    fn next_batch(&mut self, items_max: usize) -> orrery_types::Result<Vec<SourceItem>>;
    /// The source as one whose items may come in another order for less.
    fn any_order(&mut self) -> Option<&mut dyn AnyOrder> {
        None
    }
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
    let kept = evaluator.memory.kept();
    let mut collector = Collector::new(select, rows_max);
    let _ = rows::each(evaluator, select, env, &mut |env| collector.row(evaluator, env))?;
    let rows = collector.finish(evaluator, env);
    evaluator.memory.release_to(kept);
    rows
}
