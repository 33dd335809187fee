//! The position from which a client that merges ranges resumes an ordered query: the `resumeFilter` beside
//! the text of the query. It is a position in the whole result, so OFFSET, TOP and LIMIT count the rows
//! before it too.

use super::sort::After;
use super::token::ALL_ROWS;
use crate::ast::Direction;
use crate::bound::{Node, Order};
use crate::error::QueryError;
use crate::query::BoundQuery;
use crate::sort_value::SortValue;

/// A place in the order of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumeFilter {
    /// The keys of ORDER BY.
    pub keys: Vec<SortValue>,
    /// The item among those with these keys; without it, all of them.
    pub row: Option<u64>,
    /// Whether to begin behind what it names, and not with it.
    pub exclude: bool,
}

impl ResumeFilter {
    /// Refuses a place that no row of this query can have.
    pub fn check(&self, query: &BoundQuery) -> Result<(), QueryError> {
        let select = &query.bound.select;
        let Order::Keys(keys) = &select.order else {
            return Err(QueryError::runtime(
                "A resumeFilter is only valid for a query with ORDER BY on paths.",
            ));
        };
        if !select.streams_in_order() {
            return Err(QueryError::runtime(
                "A resumeFilter is not valid for a query with DISTINCT or GROUP BY.",
            ));
        }
        if keys.len() != self.keys.len() {
            return Err(QueryError::runtime(format!(
                "The resumeFilter has {} values, and ORDER BY has {} keys. Send one value for each \
                 key.",
                self.keys.len(),
                keys.len()
            )));
        }
        Ok(())
    }

    /// The place between rows.
    pub(super) fn place(&self, directions: &[(Node, Direction)]) -> After {
        // Items with equal keys come in the direction of the first one.
        let descends = directions.first().is_some_and(|(_, d)| *d == Direction::Descending);
        let first = if descends { u64::MAX } else { 0 };
        let item = self.row.unwrap_or(if self.exclude { !first } else { first });
        let rows = if self.exclude { ALL_ROWS } else { 0 };
        After { keys: self.keys.clone(), item, rows }
    }
}
