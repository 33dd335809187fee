//! Queries that stream: an item at a time, each with all its rows, until the page is full. The place
//! where a page ends is an item and a number of its rows.

use std::ops::ControlFlow;

use super::collect::row;
use super::page::{Execution, wanted};
use super::sort::After;
use super::token::{ALL_ROWS, Continuation};
use super::{SeekPosition, SourceItem, rows};
use crate::error::QueryError;
use crate::plan::access::SourceOrder;
use crate::sort_value::SortValue;

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
    /// Runs a query without order over items in the order of keys or rows.
    pub(super) fn stream(
        &mut self,
        from: Option<(Box<[u8]>, u64, u64)>,
    ) -> Result<Option<Continuation>, QueryError> {
        let order = self.run.order;
        let (position, done, seen) = from.map_or((None, 0, 0), |(p, r, s)| (Some(p), r, s));
        if !self.query.bound.select.reads_items {
            return self.without_items(done, seen);
        }
        match (&position, order) {
            (None, _) => {}
            (Some(position), SourceOrder::Rows) => {
                let row = <[u8; 8]>::try_from(&**position).map_err(|_| QueryError::Token)?;
                self.items.source.seek(SeekPosition::Row(u64::from_be_bytes(row)))?;
            }
            (Some(position), _) => self.items.source.seek(SeekPosition::Key(position))?,
        }
        let place = |item: &SourceItem| -> Box<[u8]> {
            match order {
                SourceOrder::Rows => Box::new(item.row.to_be_bytes()),
                SourceOrder::Keys | SourceOrder::Values => item.key.clone(),
            }
        };
        let mut resumed = position;
        self.walk(
            &mut |item| match resumed.take() {
                Some(position) if position == place(item) => done,
                _ => 0,
            },
            seen,
            |_, item, rows, seen| {
                Ok(Continuation::Stream { order, position: place(item), rows, seen })
            },
        )
    }

    /// Runs a query over items that come in its order.
    pub(super) fn ordered(
        &mut self,
        after: Option<After>,
        seen: u64,
    ) -> Result<Option<Continuation>, QueryError> {
        if let Some(after) = &after {
            let place = SeekPosition::Values { keys: &after.keys, row: after.item };
            self.items.source.seek(place)?;
        }
        let mut resumed = after;
        self.walk(
            &mut |item| match resumed.take() {
                Some(after) if after.item == item.row => after.rows,
                _ => 0,
            },
            seen,
            |execution, item, rows, seen| {
                let keys = execution.item_keys()?;
                execution.behind(After { keys, item: item.row, rows }, seen)
            },
        )
    }

    /// The keys of the item at hand.
    fn item_keys(&mut self) -> Result<Vec<SortValue>, QueryError> {
        let evaluator = self.evaluator;
        let keys = self.keys.unwrap_or_default();
        // Keys are paths of the item, or of the source that it went through.
        let select = &self.query.bound.select;
        let mut env = std::mem::take(&mut self.env);
        let mut values = None;
        let result = rows::each(evaluator, select, &mut env, &mut |env| {
            let key = |(node, _): &(_, _)| evaluator.sort_value(node, env);
            values = Some(keys.iter().map(key).collect::<Result<_, _>>()?);
            Ok(ControlFlow::Break(()))
        });
        if values.is_none() {
            let key = |(node, _): &(_, _)| evaluator.sort_value(node, &mut env);
            values = Some(keys.iter().map(key).collect::<Result<_, _>>()?);
        }
        self.env = env;
        result.map(|_| values.unwrap_or_default())
    }

    fn without_items(&mut self, done: u64, seen: u64) -> Result<Option<Continuation>, QueryError> {
        let mut seen = seen;
        Ok(match self.item_rows(done, true, &mut seen)? {
            Ended::Done | Ended::Enough => None,
            Ended::Full(rows) => Some(Continuation::Stream {
                order: SourceOrder::Keys,
                position: Box::default(),
                rows,
                seen,
            }),
        })
    }

    /// Goes through items until the page is full. `done` says how many rows of an item are on
    /// earlier pages, `place` names the place behind some rows of an item.
    fn walk(
        &mut self,
        done: &mut dyn FnMut(&SourceItem) -> u64,
        seen: u64,
        place: impl Fn(&mut Self, &SourceItem, u64, u64) -> Result<Continuation, QueryError>,
    ) -> Result<Option<Continuation>, QueryError> {
        let before = seen;
        let mut seen = seen;
        if wanted(&self.query.bound.select) == Some(seen) {
            return Ok(None);
        }
        loop {
            if self.items.is_between_batches() {
                self.look_ahead(before, seen)?;
            }
            let Some(mut item) = self.items.next()? else { return Ok(None) };
            let done = done(&item);
            if done == ALL_ROWS {
                continue;
            }
            self.env[self.query.bound.item_slot] = std::mem::take(&mut item.value);
            self.text = item.text.take();
            let shown = self.shows(&item)?;
            let rows = match self.item_rows(done, shown, &mut seen)? {
                Ended::Enough => return Ok(None),
                Ended::Full(rows) => rows,
                Ended::Done if self.is_full() || self.evaluator.is_page_over() => {
                    if !self.items.fill()? {
                        return Ok(None);
                    }
                    ALL_ROWS
                }
                Ended::Done => continue,
            };
            return place(self, &item, rows, seen).map(Some);
        }
    }

    /// Whether the item at hand is at or behind the place from which on rows are shown.
    fn shows(&mut self, item: &SourceItem) -> Result<bool, QueryError> {
        if self.hidden.is_none() {
            return Ok(true);
        }
        let keys = self.item_keys()?;
        let shown = !self.hides(&keys, item.row, 0);
        if shown {
            // Items come in order.
            self.hidden = None;
        }
        Ok(shown)
    }

    /// The rows of the item at hand after the first `done` ones; they are counted if not shown.
    fn item_rows(&mut self, done: u64, shown: bool, seen: &mut u64) -> Result<Ended, QueryError> {
        let select = &self.query.bound.select;
        let evaluator = self.evaluator;
        let wanted = wanted(select);
        if wanted == Some(*seen) {
            return Ok(Ended::Enough);
        }
        let mut env = std::mem::take(&mut self.env);
        let text = self.text.take();
        let mut number = 0;
        let mut ended = Ended::Done;
        let skips = &evaluator.skips;
        skips.allow(select, done.saturating_add(select.offset.saturating_sub(*seen)));
        let result = rows::each(evaluator, select, &mut env, &mut |env| {
            evaluator.pass();
            let Some(row) = row(evaluator, select, text.as_ref(), env)? else {
                return Ok(ControlFlow::Continue(()));
            };
            let passed = skips.take();
            *seen += passed.saturating_sub(done.saturating_sub(number));
            number += passed + 1;
            if passed > 0 && wanted == Some(*seen) {
                ended = Ended::Enough;
                return Ok(ControlFlow::Break(()));
            }
            if number <= done {
                return Ok(ControlFlow::Continue(()));
            }
            let is_shown = *seen >= select.offset && shown;
            if self.is_full() || is_shown && !self.fits(&row) {
                ended = Ended::Full(number - 1);
                return Ok(ControlFlow::Break(()));
            }
            *seen += 1;
            if is_shown {
                self.push(row)?;
            }
            if wanted == Some(*seen) {
                ended = Ended::Enough;
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        });
        self.env = env;
        *seen += skips.take().saturating_sub(done.saturating_sub(number));
        result.map(|_| ended)
    }
}
