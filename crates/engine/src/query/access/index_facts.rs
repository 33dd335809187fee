//! What the planner is told about the index, over the partitions that the query reads. Sizes are
//! asked of a few partitions, which stand for all, and each only once.

use std::cell::{OnceCell, RefCell};

use orrery_index::stats::IndexStats;
use orrery_index::{IndexStep, Span};
use orrery_query::ast::Direction;
use orrery_query::plan::IndexFacts;
use orrery_query::plan::condition::{ItemPath, is_plural};
use orrery_storage::Space;
use orrery_storage::key::Bounds;
use orrery_types::Result;

use super::prefetched::OpenLists;
use super::{Shard, Shards, within};
use crate::error::storage;

/// The index as of the query's snapshots.
pub(crate) struct Facts<'s, 'e> {
    shards: &'s Shards<'e>,
    is_usable: bool,
    items: OnceCell<u64>,
    scope_items: OnceCell<u64>,
    known: RefCell<Vec<(ItemPath, Span, u64)>>,
    open: OpenLists<'s>,
}

/// Partitions that are asked.
const SAMPLED: usize = 2;

impl<'s, 'e> Facts<'s, 'e> {
    /// Without `with_index`, nothing may be relied upon.
    pub(crate) fn new(shards: &'s Shards<'e>, with_index: bool) -> Self {
        let is_usable = with_index && shards.are_indexed();
        let (items, scope_items) = (OnceCell::new(), OnceCell::new());
        let (known, open) = (RefCell::default(), OpenLists::default());
        Self { shards, is_usable, items, scope_items, known, open }
    }

    /// The lists that were begun.
    pub(crate) fn into_open(self) -> OpenLists<'s> {
        self.open
    }

    fn count_scope(&self) -> Result<u64> {
        let share = self.items() / self.shards.list.len().max(1) as u64;
        self.sum(|shard| {
            if shard.is_whole {
                return Ok(share);
            }
            let (n, more) = shard.count_keys(SCOPE_SAMPLE)?;
            if !more {
                return Ok(n);
            }
            let (from, to) = (&shard.bounds.from, &shard.bounds.to);
            let guessed = shard.snapshot.estimate_beyond(Space::Items, from, to, n);
            Ok(guessed.map_err(storage)?.min(share).max(n))
        })
    }

    fn sum(&self, of: impl Fn(&'s Shard<'e>) -> Result<u64>) -> Result<u64> {
        let list = &self.shards.list;
        let mut total = 0_u64;
        for shard in list.iter().take(SAMPLED) {
            total = total.saturating_add(of(shard)?);
        }
        let asked = list.len().clamp(1, SAMPLED) as u64;
        Ok(total.saturating_mul(list.len() as u64) / asked)
    }

    fn ask(&self, path: &[IndexStep], span: &Span) -> Result<u64> {
        self.sum(|shard| {
            let Some(head) = shard.head(&*self.shards.engine.store, path)? else { return Ok(0) };
            let bounds = within(&head, span);
            if !span.codes().single {
                return IndexStats::new(&*shard.snapshot).terms(&bounds).map_err(storage);
            }
            let (term, at) = (&bounds.from, shard.snapshot.lsn());
            if let Some(noted) = shard.partition.term_sizes.of(term, at) {
                return Ok(noted);
            }
            let counted = self.open.count(shard, term, COUNTED_MAX)?;
            if counted < COUNTED_MAX {
                return Ok(counted as u64);
            }
            let guessed =
                shard.snapshot.estimate_beyond(Space::Index, term, &bounds.to, counted as u64);
            let guessed = guessed.map_err(storage)?;
            shard.partition.term_sizes.note(term, at, guessed);
            Ok(guessed)
        })
    }

    /// The terms of a span in all partitions, if they are no more than so many.
    fn count_few(&self, path: &[IndexStep], span: &Span, most: usize) -> Result<Option<u64>> {
        let mut total = 0;
        for shard in &self.shards.list {
            let Some(head) = shard.head(&*self.shards.engine.store, path)? else { continue };
            let bounds = within(&head, span);
            total += if span.codes().single {
                let (term, at) = (&bounds.from, shard.snapshot.lsn());
                let sizes = &shard.partition.term_sizes;
                if sizes.exceed(term, at, most) {
                    return Ok(None);
                }
                let counted = self.open.count(shard, term, most + 1)?;
                if counted > most {
                    sizes.note_least(term, at, counted as u64);
                }
                counted
            } else {
                shard.count_terms(&bounds, most + 1)?
            };
            if total > most {
                return Ok(None);
            }
        }
        Ok(Some(total as u64))
    }
}

impl Shard<'_> {
    /// Terms between two keys, counted up to so many.
    fn count_terms(&self, bounds: &Bounds, most: usize) -> Result<usize> {
        let keys = self.snapshot.keys(Space::Index, &bounds.from, &bounds.to);
        let mut keys = keys.map_err(storage)?;
        let mut count = 0;
        while count < most && keys.key().is_some() {
            count += 1;
            keys.next().map_err(storage)?;
        }
        Ok(count)
    }
}

/// Rows with one value are counted up to here, and guessed beyond.
const COUNTED_MAX: usize = 48;

/// Keys of a logical partition that are counted; beyond, it is taken for large.
const SCOPE_SAMPLE: usize = 256;

impl IndexFacts for Facts<'_, '_> {
    fn is_usable(&self, path: &[IndexStep]) -> bool {
        self.is_usable && self.shards.container.index.is_usable(path)
    }

    fn estimate(&self, path: &[IndexStep], span: &Span) -> u64 {
        let same = |(p, s, _): &&(ItemPath, Span, u64)| **p == *path && s == span;
        if let Some((.., known)) = self.known.borrow().iter().find(same) {
            return *known;
        }
        // Who cannot read an estimate will not read the items either, and say so then.
        let found = self.ask(path, span).unwrap_or(0);
        // What was counted is right; a guess may go beyond what there is.
        let is_guess = found >= COUNTED_MAX as u64 && !is_plural(path);
        let found = if is_guess { found.min(self.items()) } else { found };
        self.known.borrow_mut().push((path.into(), span.clone(), found));
        found
    }

    fn few(&self, path: &[IndexStep], span: &Span, most: usize) -> Option<u64> {
        if self.shards.list.len() > SAMPLED {
            return None;
        }
        self.count_few(path, span, most).ok().flatten()
    }

    fn few_in_partition(&self, most: usize) -> Option<u64> {
        let [shard] = &self.shards.list[..] else { return None };
        self.open.begin(shard, most).ok().flatten()
    }

    fn composites(&self) -> Vec<Vec<(ItemPath, Direction)>> {
        if !self.is_usable {
            return vec![];
        }
        let usable = self.shards.container.index.usable_composites();
        let component = |component: &orrery_index::composite::Component| {
            let steps = component.names.iter().map(|n| IndexStep::Property(n.clone())).collect();
            let descending = component.descending;
            (steps, if descending { Direction::Descending } else { Direction::Ascending })
        };
        usable.map(|index| index.components().iter().map(component).collect()).collect()
    }

    fn items(&self) -> u64 {
        let count = |shard: &Shard<'_>| {
            shard.partition.items_noted(shard.snapshot.lsn(), || {
                if shard.partition.parents.is_empty() {
                    return shard.rows_given();
                }
                IndexStats::new(&*shard.snapshot).rows().map_err(storage)
            })
        };
        *self.items.get_or_init(|| self.sum(count).unwrap_or(0))
    }

    fn scope_items(&self) -> u64 {
        *self.scope_items.get_or_init(|| self.count_scope().unwrap_or(0))
    }

    fn knows_lacking(&self) -> bool {
        self.is_usable && self.shards.container.index.has_shapes()
    }
}
