//! One page of a query's result.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use orrery_types::{Value, limits};

use super::collect::{Collector, project};
use super::token::{ALL_ROWS, Continuation};
use super::{ItemSource, SourceItem, rows};
use crate::bound::{BoundSelect, Origin};
use crate::error::QueryError;
use crate::eval::{Env, EvalContext, Evaluator, size_bytes};
use crate::query::BoundQuery;

/// When a page is full.
#[derive(Clone, Copy, Debug)]
pub struct PageLimits {
    /// Rows on a page, at least one.
    pub rows_max: usize,
    /// Size of the rows in memory, roughly; a page has at least one row.
    pub bytes_max: usize,
}

impl Default for PageLimits {
    fn default() -> Self {
        Self { rows_max: limits::PAGE_ITEMS_DEFAULT, bytes_max: limits::PAGE_SIZE_BYTES_MAX }
    }
}

/// Some rows, and where to go on.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The rows; possibly none although there are more to come.
    pub rows: Vec<Value>,
    /// Present when there may be more.
    pub continuation: Option<String>,
    /// Items taken from the source.
    pub items_read: u64,
    /// Work done, in steps of evaluation.
    pub steps: u64,
}

/// Items fetched at once.
const BATCH: usize = 100;

/// Runs a query up to the end of one page.
pub fn execute(
    query: &BoundQuery,
    source: &mut dyn ItemSource,
    continuation: Option<&str>,
    limits: PageLimits,
    context: &EvalContext<'_>,
) -> Result<Page, QueryError> {
    let fingerprint = query.fingerprint();
    let from = continuation.map(|text| Continuation::parse(text, fingerprint)).transpose()?;
    let evaluator = Evaluator::new(context);
    let mut execution = Execution {
        query,
        evaluator: &evaluator,
        items: Items { source, fetched: VecDeque::new(), read: 0 },
        env: vec![Value::Undefined; query.bound.slots],
        rows: Vec::new(),
        bytes: 0,
        limits,
    };
    let select = &query.bound.select;
    let next = match (select.streams(), from) {
        (true, None) => execution.stream(None)?,
        (true, Some(Continuation::Stream { position, rows, seen })) => {
            execution.stream(Some((position, rows, seen)))?
        }
        (false, None) => execution.whole(0)?,
        (false, Some(Continuation::Whole { rows })) => execution.whole(rows)?,
        _ => return Err(QueryError::Token),
    };
    Ok(Page {
        items_read: execution.items.read,
        rows: execution.rows,
        continuation: next.map(|next| next.to_text(fingerprint)),
        steps: evaluator.steps(),
    })
}

struct Items<'a> {
    source: &'a mut dyn ItemSource,
    fetched: VecDeque<SourceItem>,
    read: u64,
}

impl Items<'_> {
    fn fill(&mut self) -> Result<bool, QueryError> {
        if self.fetched.is_empty() {
            self.fetched = self.source.next_batch(BATCH)?.into();
        }
        Ok(!self.fetched.is_empty())
    }

    fn next(&mut self) -> Result<Option<SourceItem>, QueryError> {
        self.fill()?;
        let item = self.fetched.pop_front();
        self.read += u64::from(item.is_some());
        Ok(item)
    }
}

struct Execution<'a> {
    query: &'a BoundQuery,
    evaluator: &'a Evaluator<'a>,
    items: Items<'a>,
    env: Env,
    rows: Vec<Value>,
    bytes: usize,
    limits: PageLimits,
}

/// How an item ended.
enum Ended {
    /// All its rows are on the page or behind it.
    Done,
    /// The page was full before row so-and-so.
    Full(u64),
    /// TOP or LIMIT is reached.
    Enough,
}

impl Execution<'_> {
    fn is_full(&self) -> bool {
        !self.rows.is_empty()
            && (self.rows.len() >= self.limits.rows_max.max(1)
                || self.bytes >= self.limits.bytes_max)
    }

    fn push(&mut self, row: Value) -> Result<(), QueryError> {
        let kept = self.evaluator.kept_bytes();
        self.evaluator.keep(&row)?;
        self.evaluator.release_to(kept);
        self.bytes += size_bytes(&row, self.limits.bytes_max);
        self.rows.push(row);
        Ok(())
    }

    /// Runs a streaming query, item by item.
    fn stream(
        &mut self,
        from: Option<(Box<[u8]>, u64, u64)>,
    ) -> Result<Option<Continuation>, QueryError> {
        let select = &self.query.bound.select;
        let mut seen = from.as_ref().map_or(0, |(_, _, seen)| *seen);
        if wanted(select) == Some(seen) {
            return Ok(None);
        }
        if !select.reads_items {
            let done = from.map_or(0, |(_, rows, _)| rows);
            return Ok(match self.item_rows(done, &mut seen)? {
                Ended::Done | Ended::Enough => None,
                Ended::Full(rows) => {
                    Some(Continuation::Stream { position: Box::default(), rows, seen })
                }
            });
        }
        if let Some((position, ..)) = &from {
            self.items.source.seek(position)?;
        }
        let mut resumed = from;
        while let Some(item) = self.items.next()? {
            let done = match resumed.take() {
                Some((position, rows, _)) if position == item.position => rows,
                _ => 0,
            };
            if done == ALL_ROWS {
                continue;
            }
            self.env[self.query.bound.item_slot] = item.value;
            let rows = match self.item_rows(done, &mut seen)? {
                Ended::Enough => return Ok(None),
                Ended::Full(rows) => rows,
                Ended::Done if self.is_full() || self.evaluator.is_tired() => {
                    if !self.items.fill()? {
                        return Ok(None);
                    }
                    ALL_ROWS
                }
                Ended::Done => continue,
            };
            return Ok(Some(Continuation::Stream { position: item.position, rows, seen }));
        }
        Ok(None)
    }

    /// The rows of the item at hand after the first `done` ones.
    fn item_rows(&mut self, done: u64, seen: &mut u64) -> Result<Ended, QueryError> {
        let select = &self.query.bound.select;
        let evaluator = self.evaluator;
        let wanted = wanted(select);
        if wanted == Some(*seen) {
            return Ok(Ended::Enough);
        }
        let mut env = std::mem::take(&mut self.env);
        let mut number = 0;
        let mut ended = Ended::Done;
        let result = rows::each(evaluator, select, &mut env, &mut |env| {
            let Some(row) = project(evaluator, select, env)? else {
                return Ok(ControlFlow::Continue(()));
            };
            number += 1;
            if number <= done {
                return Ok(ControlFlow::Continue(()));
            }
            if self.is_full() {
                ended = Ended::Full(number - 1);
                return Ok(ControlFlow::Break(()));
            }
            *seen += 1;
            if *seen > select.offset {
                self.push(row)?;
            }
            if wanted == Some(*seen) {
                ended = Ended::Enough;
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        });
        self.env = env;
        result.map(|_| ended)
    }

    /// Computes the whole result and takes the rows after the first `done` ones.
    fn whole(&mut self, done: u64) -> Result<Option<Continuation>, QueryError> {
        let select = &self.query.bound.select;
        let wanted = wanted(select);
        let end = wanted.unwrap_or(u64::MAX);
        let first = select.offset.saturating_add(done);
        // One row beyond the page tells whether there is another page.
        let page = u64::try_from(self.limits.rows_max.max(1)).unwrap_or(u64::MAX);
        let needed = first.saturating_add(page).saturating_add(1).min(end);
        let all = self.collect(select, Some(needed))?;
        let mut taken = done;
        for (at, row) in (0..end).zip(all) {
            if at < first {
                continue;
            }
            if self.is_full() {
                return Ok(Some(Continuation::Whole { rows: taken }));
            }
            self.push(row)?;
            taken += 1;
        }
        Ok(None)
    }

    /// All rows of a query that does not stream, before TOP, OFFSET and LIMIT.
    fn collect(
        &mut self,
        select: &BoundSelect,
        wanted: Option<u64>,
    ) -> Result<Vec<Value>, QueryError> {
        let rows_max = wanted.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
        let evaluator = self.evaluator;
        let mut collector = Collector::new(select, rows_max);
        let mut env = std::mem::take(&mut self.env);
        if rows_max == 0 {
            // Nothing is wanted, so nothing need be read.
        } else if let Some((source, inner)) = whole_source(select) {
            for row in self.with_env(&mut env, |this| this.collect(inner, None))? {
                let flow = rows::each_value(evaluator, source, row, &mut env, &mut |env| {
                    rows::each_from(evaluator, select, 1, env, &mut |env| {
                        collector.row(evaluator, env)
                    })
                })?;
                if flow.is_break() {
                    break;
                }
            }
        } else if !select.reads_items {
            let _ =
                rows::each(evaluator, select, &mut env, &mut |env| collector.row(evaluator, env))?;
        } else {
            while let Some(item) = self.items.next()? {
                env[self.query.bound.item_slot] = item.value;
                collector.item(evaluator, &mut env)?;
                let flow = rows::each(evaluator, select, &mut env, &mut |env| {
                    collector.row(evaluator, env)
                })?;
                if flow.is_break() {
                    break;
                }
            }
        }
        let rows = collector.finish(evaluator, &mut env);
        self.env = env;
        rows
    }

    fn with_env<T>(
        &mut self,
        env: &mut Env,
        f: impl FnOnce(&mut Self) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        std::mem::swap(&mut self.env, env);
        let result = f(self);
        std::mem::swap(&mut self.env, env);
        result
    }
}

/// The first source, when it is a subquery over the items that does not stream.
fn whole_source(select: &BoundSelect) -> Option<(&crate::bound::BoundSource, &BoundSelect)> {
    let source = select.sources.first()?;
    match &source.origin {
        Origin::Rows(inner) if inner.reads_items && !inner.streams() => Some((source, inner)),
        _ => None,
    }
}

/// Rows to be seen before TOP or LIMIT ends the query, those before OFFSET included.
fn wanted(select: &BoundSelect) -> Option<u64> {
    let limited = select.limit.map(|limit| limit.saturating_add(select.offset));
    match (select.top, limited) {
        (Some(top), Some(limited)) => Some(top.min(limited)),
        (top, limited) => top.or(limited),
    }
}
