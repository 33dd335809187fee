//! One page of a query's result.

use std::collections::VecDeque;

use orrery_types::{Value, limits};

use super::collect::Collector;
use super::resume_filter::ResumeFilter;
use super::row::Row;
use super::sort::{After, Sorter};
use super::token::{Continuation, Resume, is_short};
use super::{ItemSource, SourceItem, rows};
use crate::ast::Direction;
use crate::bound::{BoundSelect, Node, Order, Origin};
use crate::error::QueryError;
use crate::eval::{Env, EvalContext, Evaluator, size_bytes};
use crate::plan::access::SourceOrder;
use crate::plan::condition::ItemPath;
use crate::plan::{Plan, steps_of};
use crate::query::BoundQuery;
use crate::sort_value::SortValue;

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
    pub rows: Vec<Row>,
    /// Present when there may be more.
    pub continuation: Option<String>,
    /// Items taken from the source.
    pub items_read: u64,
    /// Work done, in steps of evaluation.
    pub steps: u64,
    /// Rows that passed the filter.
    pub rows_passed: u64,
}

/// Items fetched at once, at most.
pub(super) const BATCH_MAX: usize = 1024;

/// How a query is run: where it goes on, and what its plan says about the order of items.
#[derive(Clone, Debug)]
pub struct Run {
    /// Where the last page ended.
    pub resume: Option<Resume>,
    /// The client's own position to resume from; of the two, the later one counts.
    pub filter: Option<ResumeFilter>,
    /// The order in which items come.
    pub order: SourceOrder,
    /// The path by whose values items come, or are to be sorted, although the query names none.
    pub chosen_order: Option<ItemPath>,
}

impl Run {
    /// By a plan.
    pub fn by(plan: &Plan, resume: Option<Resume>, filter: Option<ResumeFilter>) -> Self {
        let chosen_order = plan.chosen_order.clone();
        Self { resume, filter, order: plan.access.order(), chosen_order }
    }

    /// Whether earlier rows are only counted, so that all rows are made again.
    pub(crate) fn is_counted(&self) -> bool {
        self.resume.as_ref().is_some_and(|r| matches!(r.continuation, Continuation::Whole { .. }))
    }

    /// Over items in the order of their keys.
    pub fn over_keys(resume: Option<Resume>) -> Self {
        let chosen_order = resume.as_ref().and_then(Resume::chosen_order);
        Self { resume, filter: None, order: SourceOrder::Keys, chosen_order }
    }
}

/// Runs a query up to the end of one page.
pub fn execute(
    query: &BoundQuery,
    source: &mut dyn ItemSource,
    run: &Run,
    limits: PageLimits,
    context: &EvalContext<'_>,
) -> Result<Page, QueryError> {
    let evaluator = Evaluator::new(context);
    let select = &query.bound.select;
    let chosen = run.chosen_order.as_ref().map(|path| {
        vec![(Node::Path(query.bound.item_slot, steps_of(path)), Direction::Ascending)]
    });
    let keys = match &select.order {
        Order::Keys(keys) => Some(keys.as_slice()),
        Order::None => chosen.as_deref(),
        Order::Rank(_) => None,
    };
    let mut execution = Execution {
        query,
        evaluator: &evaluator,
        items: Items {
            source,
            fetched: VecDeque::new(),
            read: 0,
            batch: first_batch(select, limits),
        },
        env: vec![Value::Undefined; query.bound.slots],
        rows: Vec::new(),
        text: None,
        hidden: None,
        bytes: 0,
        limits,
        run,
        keys: keys.filter(|_| select.streams_in_order()),
        has_looked_ahead: false,
    };
    let from = run.resume.as_ref().map(|resume| resume.continuation.clone());
    let next = execution.page(from)?;
    let token = |next| Resume::new(next, run.chosen_order.clone()).to_text(query.fingerprints());
    Ok(Page {
        items_read: execution.items.read,
        rows: execution.rows,
        continuation: next.map(token),
        steps: evaluator.steps(),
        rows_passed: evaluator.passed(),
    })
}

/// The row of a query whose aggregates are known.
pub fn answer_aggregates(
    query: &BoundQuery,
    values: Vec<Value>,
    context: &EvalContext<'_>,
) -> Result<Page, QueryError> {
    let evaluator = Evaluator::new(context);
    let select = &query.bound.select;
    let mut env = vec![Value::Undefined; query.bound.slots];
    let aggregates = select.grouping.iter().flat_map(|grouping| &grouping.aggregates);
    for ((slot, ..), value) in aggregates.zip(values) {
        env[*slot] = value;
    }
    let row = super::collect::project(&evaluator, select, &mut env)?;
    let shown = select.offset == 0 && wanted(select) != Some(0);
    let rows = row.into_iter().filter(|_| shown).map(Row::Value).collect();
    Ok(Page { rows, steps: evaluator.steps(), ..Page::default() })
}

/// A page of a query whose rows are known, all of them and in the order of their values.
pub fn answer_rows(
    query: &BoundQuery,
    rows: Vec<Value>,
    resume: Option<&Resume>,
    limits: PageLimits,
) -> Page {
    let select = &query.bound.select;
    let done = match resume.map(|resume| &resume.continuation) {
        Some(Continuation::Whole { rows, .. }) => *rows,
        _ => 0,
    };
    let first = usize::try_from(select.offset.saturating_add(done)).unwrap_or(usize::MAX);
    let end = wanted(select).and_then(|end| usize::try_from(end).ok()).unwrap_or(usize::MAX);
    let end = end.min(rows.len());
    let mut page = Page::default();
    let mut bytes = 0;
    let mut rest = rows.into_iter().take(end).skip(first);
    while page.rows.is_empty() || (page.rows.len() < limits.rows_max && bytes < limits.bytes_max) {
        let Some(row) = rest.next() else { break };
        bytes += size_bytes(&row, limits.bytes_max);
        page.rows.push(Row::Value(row));
    }
    if rest.next().is_some() {
        let rows = done + page.rows.len() as u64;
        let next = Continuation::Whole { order: SourceOrder::Values, rows };
        page.continuation = Some(Resume::new(next, None).to_text(query.fingerprints()));
    }
    page
}

pub(super) struct Items<'a> {
    pub(super) source: &'a mut dyn ItemSource,
    fetched: VecDeque<SourceItem>,
    pub(super) read: u64,
    /// Items that are asked for next.
    batch: usize,
}

/// The items of the first batch: as many as fill the page, if none of them is dropped.
fn first_batch(select: &BoundSelect, limits: PageLimits) -> usize {
    if !select.streams_in_order() {
        return BATCH_MAX;
    }
    let wanted = wanted(select).and_then(|rows| usize::try_from(rows).ok()).unwrap_or(usize::MAX);
    limits.rows_max.min(wanted).saturating_add(1).min(BATCH_MAX)
}

impl Items<'_> {
    pub(super) fn is_between_batches(&self) -> bool {
        self.fetched.is_empty()
    }

    pub(super) fn fill(&mut self) -> Result<bool, QueryError> {
        if self.fetched.is_empty() {
            self.fetched = self.source.next_batch(self.batch)?.into();
            self.batch = (self.batch * 2).min(BATCH_MAX);
        }
        Ok(!self.fetched.is_empty())
    }

    pub(super) fn next(&mut self) -> Result<Option<SourceItem>, QueryError> {
        self.fill()?;
        let item = self.fetched.pop_front();
        self.read += u64::from(item.is_some());
        Ok(item)
    }
}

pub(super) struct Execution<'a> {
    pub(super) query: &'a BoundQuery,
    pub(super) evaluator: &'a Evaluator<'a>,
    pub(super) items: Items<'a>,
    pub(super) env: Env,
    pub(super) rows: Vec<Row>,
    /// The text of the item at hand, if it is the row.
    pub(super) text: Option<bytes::Bytes>,
    /// Rows before this place are counted and not shown.
    pub(super) hidden: Option<After>,
    bytes: usize,
    pub(super) limits: PageLimits,
    pub(super) run: &'a Run,
    /// The keys by which items come or rows are sorted, where a page may end within the order.
    pub(super) keys: Option<&'a [(Node, Direction)]>,
    /// Whether it has looked ahead on this page, successfully or not.
    pub(super) has_looked_ahead: bool,
}

impl Execution<'_> {
    /// One page, from the beginning or where the last one ended.
    fn page(&mut self, from: Option<Continuation>) -> Result<Option<Continuation>, QueryError> {
        let select = &self.query.bound.select;
        let Some(keys) = self.keys else {
            return match from {
                _ if self.run.filter.is_some() => Err(QueryError::Token),
                Some(Continuation::Whole { rows, .. }) => self.whole(rows),
                Some(Continuation::Stream { position, rows, seen, .. }) if select.streams() => {
                    self.stream(Some((position, rows, seen)))
                }
                None if select.streams() => self.stream(None),
                None => self.whole(0),
                Some(_) => Err(QueryError::Token),
            };
        };
        let filter = self.run.filter.as_ref().map(|filter| filter.place(keys));
        let (after, seen, done) = match from {
            None => (None, 0, 0),
            Some(Continuation::Whole { rows, .. }) if filter.is_none() => return self.whole(rows),
            Some(Continuation::Whole { rows, .. }) => (None, 0, rows),
            Some(Continuation::Ordered { keys, row, rows, seen }) => {
                (Some(After { keys, item: row, rows }), seen, 0)
            }
            Some(Continuation::Stream { .. }) => return Err(QueryError::Token),
        };
        // What is counted is counted from the beginning.
        let counts = wanted(select).is_some() || done > 0;
        let after = if counts {
            self.hidden = filter;
            after
        } else {
            After::further(keys, after, filter)
        };
        match self.run.order {
            SourceOrder::Values if done == 0 => self.ordered(after, seen),
            _ => self.sorted(after, seen, done),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        !self.rows.is_empty()
            && (self.rows.len() >= self.limits.rows_max.max(1)
                || self.bytes >= self.limits.bytes_max)
    }

    /// Whether a row can be on the page with those before it; a single one always can.
    pub(super) fn fits(&self, row: &Row) -> bool {
        let bytes_max = self.limits.bytes_max;
        self.rows.is_empty() || self.bytes + row.size_bytes(bytes_max) <= bytes_max
    }

    pub(super) fn push(&mut self, row: Row) -> Result<(), QueryError> {
        // The page bounds its rows; each of them is bounded here.
        let memory = &self.evaluator.memory;
        let kept = memory.kept();
        memory.keep(row.heap_bytes(memory.left()))?;
        memory.release_to(kept);
        self.bytes += row.size_bytes(self.limits.bytes_max);
        self.rows.push(row);
        Ok(())
    }

    /// Reads all items, sorts their rows, and takes those of one page behind a place and behind the
    /// first `done` rows.
    fn sorted(
        &mut self,
        after: Option<After>,
        mut seen: u64,
        done: u64,
    ) -> Result<Option<Continuation>, QueryError> {
        let (query, evaluator) = (self.query, self.evaluator);
        let select = &query.bound.select;
        let Some(keys) = self.keys else { return Err(QueryError::Token) };
        let end = wanted(select).unwrap_or(u64::MAX);
        let first = select.offset.saturating_add(done);
        // One row beyond the page tells whether there is another page.
        let page = u64::try_from(self.limits.rows_max.max(1)).unwrap_or(u64::MAX);
        let needed = match &self.hidden {
            None => first.saturating_sub(seen).saturating_add(page).saturating_add(1),
            Some(_) => u64::MAX,
        };
        let needed = needed.min(end.saturating_sub(seen));
        let rows_max = usize::try_from(needed).unwrap_or(usize::MAX);
        let mut sorter = Sorter::new(keys, rows_max).after(after);
        let mut env = std::mem::take(&mut self.env);
        if rows_max == 0 {
            self.env = env;
            return Ok(None);
        }
        while let Some(item) = self.items.next()? {
            sorter.begin(item.row);
            env[query.bound.item_slot] = item.value;
            let text = item.text;
            let _ = rows::each(evaluator, select, &mut env, &mut |env| {
                evaluator.pass();
                if let Some(row) = super::collect::row(evaluator, select, text.as_ref(), env)? {
                    sorter.add(evaluator, env, row)?;
                }
                Ok(std::ops::ControlFlow::Continue(()))
            })?;
        }
        self.env = env;
        let mut last: Option<After> = None;
        for row in sorter.finish() {
            if self.is_full() {
                return last.map(|after| self.behind(after, seen)).transpose();
            }
            seen += 1;
            if seen > first && !self.hides(&row.keys, row.item, row.number) {
                self.push(row.value)?;
            }
            last = Some(After { keys: row.keys, item: row.item, rows: row.number + 1 });
        }
        Ok(None)
    }

    /// Whether a row is before the position from which the client resumes.
    pub(super) fn hides(&self, keys: &[SortValue], item: u64, number: u64) -> bool {
        let directions = self.keys.unwrap_or_default();
        self.hidden.as_ref().is_some_and(|place| place.is_behind(directions, keys, item, number))
    }

    /// The place behind some rows of an item; by number where its keys are too long for a token.
    pub(super) fn behind(&self, after: After, seen: u64) -> Result<Continuation, QueryError> {
        // What a resumeFilter passed over was not counted, and its sender keeps long keys anyway.
        let is_filtered = self.run.filter.is_some();
        let bytes_max = if is_filtered {
            limits::QUERY_TOKEN_LONG_KEYS_BYTES_MAX
        } else {
            limits::QUERY_TOKEN_KEYS_BYTES_MAX
        };
        if is_short(&after.keys, bytes_max) {
            let After { keys, item: row, rows } = after;
            return Ok(Continuation::Ordered { keys, row, rows, seen });
        }
        if is_filtered && wanted(&self.query.bound.select).is_none() {
            return Err(QueryError::runtime(format!(
                "The query cannot be resumed: the values of ORDER BY take more than {bytes_max} \
                 bytes in a continuation token. Ask for larger pages.",
            )));
        }
        let rows = seen.saturating_sub(self.query.bound.select.offset);
        Ok(Continuation::Whole { order: SourceOrder::Values, rows })
    }

    /// Whether earlier pages were of rows in the order of their values.
    fn counts_by_value(&self) -> bool {
        self.run.resume.as_ref().is_some_and(Resume::counts_by_value)
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
        let mut all = self.collect(select, Some(needed))?;
        if self.keys.is_none() && self.counts_by_value() {
            all.sort_unstable();
        }
        let mut taken = done;
        for (at, row) in (0..end).zip(all) {
            if at < first {
                continue;
            }
            if self.is_full() {
                let order = match self.run.order {
                    _ if self.keys.is_some() || self.counts_by_value() => SourceOrder::Values,
                    order => order,
                };
                return Ok(Some(Continuation::Whole { order, rows: taken }));
            }
            self.push(Row::Value(row))?;
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
        let outermost = std::ptr::eq(select, &raw const self.query.bound.select);
        let chosen = self.keys.filter(|_| outermost && matches!(select.order, Order::None));
        let by_value = self.counts_by_value() && self.keys.is_none();
        let rows_max = if by_value { usize::MAX } else { rows_max };
        let mut collector = Collector::ordered(select, rows_max, chosen);
        let mut env = std::mem::take(&mut self.env);
        if rows_max == 0 {
            // Nothing is wanted, so nothing need be read.
        } else if let Some((source, inner)) = whole_source(select) {
            let rows = self.with_env(&mut env, |this| this.collect(inner, None))?;
            for (number, row) in (0..).zip(rows) {
                collector.item(number, evaluator, &mut env)?;
                let flow = rows::each_value(evaluator, source, row, &mut env, &mut |env| {
                    rows::each_from(evaluator, select, 1, env, &mut |env| {
                        evaluator.pass();
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
            loop {
                if self.items.is_between_batches() {
                    self.look_ahead_for(&mut collector)?;
                }
                let Some(item) = self.items.next()? else { break };
                env[self.query.bound.item_slot] = item.value;
                collector.item(item.row, evaluator, &mut env)?;
                let flow = rows::each(evaluator, select, &mut env, &mut |env| {
                    evaluator.pass();
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

/// Rows to be seen before TOP or LIMIT ends the query, those before OFFSET included. Where a query has
/// both, TOP counts what OFFSET leaves, as it does for clients that merge.
pub(crate) fn wanted(select: &BoundSelect) -> Option<u64> {
    let shown = [select.top, select.limit].into_iter().flatten().min();
    shown.map(|shown| shown.saturating_add(select.offset))
}
