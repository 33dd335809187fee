//! The collector: takes the rows of FROM and WHERE and returns the values of SELECT.

use std::ops::ControlFlow;

use orrery_types::Value;

use super::Flow;
use super::distinct::DistinctValues;
use super::group::Groups;
use super::look_ahead::PageProgress;
use super::rank::Ranking;
use super::row::Row;
use super::sort::{Sorted, Sorter};
use crate::ast::Direction;
use crate::bound::{BoundSelect, Node, Order, Projection};
use crate::error::QueryError;
use crate::eval::{Env, Evaluator};
use crate::functions::aggregate::{DISTINCT_BYTES, LISTED_BYTES};

/// Gathers the rows of one query.
pub(super) struct Collector<'s> {
    select: &'s BoundSelect,
    way: Way<'s>,
    rows_max: usize,
}

enum Way<'s> {
    Plain(Vec<Value>),
    Distinct(DistinctValues),
    Sorted(Sorter<'s>),
    Ranked(Ranking<'s>),
    Grouped(Groups<'s>),
}

impl<'s> Collector<'s> {
    /// A collector that needs no more than so many rows.
    pub(super) fn new(select: &'s BoundSelect, rows_max: usize) -> Self {
        Self::ordered(select, rows_max, None)
    }

    /// The same for a query that got an order although it names none.
    pub(super) fn ordered(
        select: &'s BoundSelect,
        rows_max: usize,
        chosen: Option<&'s [(Node, Direction)]>,
    ) -> Self {
        if let Some(keys) = chosen {
            return Self { select, way: Way::Sorted(Sorter::new(keys, rows_max)), rows_max };
        }
        let way = match (&select.grouping, &select.order) {
            (Some(grouping), _) => Way::Grouped(Groups::new(grouping)),
            (None, Order::Keys(keys)) => {
                // With DISTINCT any number of sorted rows may fall together.
                let kept = if select.distinct { usize::MAX } else { rows_max };
                Way::Sorted(Sorter::new(keys, kept))
            }
            (None, Order::Rank(rank)) => Way::Ranked(Ranking::new(rank)),
            (None, Order::None) if select.distinct => Way::Distinct(DistinctValues::default()),
            (None, Order::None) => Way::Plain(Vec::new()),
        };
        Self { select, way, rows_max }
    }

    /// Takes an item before the filter: its number, and for statistics over all of them the item.
    pub(super) fn item(
        &mut self,
        number: u64,
        evaluator: &Evaluator<'_>,
        env: &mut Env,
    ) -> Result<(), QueryError> {
        match &mut self.way {
            Way::Ranked(ranking) => ranking.count(evaluator, env),
            Way::Sorted(sorter) => {
                sorter.begin(number);
                Ok(())
            }
            Way::Distinct(distinct) => {
                distinct.begin(number);
                Ok(())
            }
            Way::Plain(_) | Way::Grouped(_) => Ok(()),
        }
    }

    /// Takes the row that the environment holds.
    pub(super) fn row(
        &mut self,
        evaluator: &Evaluator<'_>,
        env: &mut Env,
    ) -> Result<Flow, QueryError> {
        if let Way::Grouped(groups) = &mut self.way {
            groups.add(evaluator, env)?;
            return Ok(ControlFlow::Continue(()));
        }
        let Some(value) = project(evaluator, self.select, env)? else {
            return Ok(ControlFlow::Continue(()));
        };
        if let Way::Sorted(sorter) = &mut self.way {
            sorter.add(evaluator, env, Row::Value(value))?;
            return Ok(ControlFlow::Continue(()));
        }
        if let Way::Distinct(distinct) = &mut self.way {
            if let Some(new) = distinct.add(value) {
                evaluator.keep(new, DISTINCT_BYTES)?;
            }
            let enough = distinct.has_first(self.rows_max);
            return Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
        }
        evaluator.keep(&value, LISTED_BYTES)?;
        let enough = match &mut self.way {
            Way::Plain(list) => {
                list.push(value);
                list.len() >= self.rows_max
            }
            Way::Ranked(ranking) => {
                ranking.add(evaluator, env, value)?;
                false
            }
            Way::Distinct(_) | Way::Sorted(_) | Way::Grouped(_) => false,
        };
        Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// All rows, after GROUP BY, ORDER BY and DISTINCT; not yet TOP, OFFSET and LIMIT.
    pub(super) fn finish(
        self,
        evaluator: &Evaluator<'_>,
        env: &mut Env,
    ) -> Result<Vec<Value>, QueryError> {
        let rows = match self.way {
            Way::Plain(list) => return Ok(list),
            Way::Distinct(distinct) => return Ok(distinct.into_values()),
            Way::Sorted(sorter) => {
                sorter.finish().into_iter().map(|row: Sorted| row.value.into_value()).collect()
            }
            Way::Ranked(ranking) => ranking.finish(),
            Way::Grouped(groups) => {
                let keys: &[(Node, Direction)] = match &self.select.order {
                    Order::Keys(keys) => keys,
                    Order::None | Order::Rank(_) => &[],
                };
                let mut rows = Vec::new();
                let mut sorter = Sorter::new(keys, usize::MAX);
                groups.finish(env, &mut |env| {
                    evaluator.work(1)?;
                    match project(evaluator, self.select, env)? {
                        None => {}
                        Some(value) if keys.is_empty() => {
                            evaluator.keep(&value, LISTED_BYTES)?;
                            rows.push(value);
                        }
                        Some(value) => sorter.add(evaluator, env, Row::Value(value))?,
                    }
                    Ok(())
                })?;
                rows.extend(sorter.finish().into_iter().map(|row: Sorted| row.value.into_value()));
                rows
            }
        };
        if !self.select.distinct {
            return Ok(rows);
        }
        let mut distinct = DistinctValues::default();
        for row in rows {
            evaluator.memory.keep(DISTINCT_BYTES)?;
            let _ = distinct.add(row);
        }
        Ok(distinct.into_values())
    }

    /// What DISTINCT has found so far, while items come in order.
    pub(super) fn distinct_progress(&self, items_read: u64) -> Option<PageProgress> {
        match &self.way {
            Way::Distinct(distinct) => distinct.progress(items_read, self.rows_max),
            _ => None,
        }
    }

    /// From now on items come in any order.
    pub(super) fn begin_any_order(&mut self) {
        if let Way::Distinct(distinct) = &mut self.way {
            distinct.begin_any_order();
        }
    }
}

/// The row of SELECT for what is at hand: the text of the item, where that is the row.
pub(super) fn row(
    evaluator: &Evaluator<'_>,
    select: &BoundSelect,
    text: Option<&bytes::Bytes>,
    env: &mut Env,
) -> Result<Option<Row>, QueryError> {
    match text {
        Some(text) => Ok(Some(Row::Text(text.clone()))),
        None => Ok(project(evaluator, select, env)?.map(Row::Value)),
    }
}

/// The value of SELECT for the row at hand; `None` when it is undefined and the row falls away.
pub(super) fn project(
    evaluator: &Evaluator<'_>,
    select: &BoundSelect,
    env: &mut Env,
) -> Result<Option<Value>, QueryError> {
    let value = match &select.projection {
        Projection::Value(node) => evaluator.eval(node, env)?,
        Projection::Properties(properties) => evaluator.object(properties, env)?,
    };
    Ok(if value.is_undefined() { None } else { Some(value) })
}
