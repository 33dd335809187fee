//! Facts about the index for the planner, over the partitions that a query reads. Sizes are estimated from
//! a sample of the partitions, and each estimate is made once.

use std::cell::{OnceCell, RefCell};

use orrery_index::stats::IndexStats;
use orrery_index::{IndexStep, ValueRange};
use orrery_query::ast::Direction;
use orrery_query::plan::IndexFacts;
use orrery_query::plan::condition::{ItemPath, is_plural};
use orrery_storage::Space;
use orrery_storage::key::Bounds;
use orrery_types::Result;

use super::prefetched::PrefetchedPostings;
use super::{Shard, Shards, within};
use crate::error::storage;

/// The index as of the query's snapshots.
pub(crate) struct Facts<'s, 'e> {
    shards: &'s Shards<'e>,
    is_usable: bool,
    items: OnceCell<u64>,
    scope_items: OnceCell<u64>,
    known: RefCell<Vec<(ItemPath, ValueRange, u64)>>,
    prefetched: PrefetchedPostings<'s>,
}

/// Partitions whose sizes are read; the others are assumed to be like them.
const SAMPLED: usize = 2;

impl<'s, 'e> Facts<'s, 'e> {
    /// Without `with_index`, nothing may be relied upon.
    pub(crate) fn new(shards: &'s Shards<'e>, with_index: bool) -> Self {
        let is_usable = with_index && shards.are_indexed();
        let (items, scope_items) = (OnceCell::new(), OnceCell::new());
        let (known, prefetched) = (RefCell::default(), PrefetchedPostings::default());
        Self { shards, is_usable, items, scope_items, known, prefetched }
    }

    /// What was read for the estimates.
    pub(crate) fn into_prefetched(self) -> PrefetchedPostings<'s> {
        self.prefetched
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

    fn ask(&self, path: &[IndexStep], range: &ValueRange) -> Result<u64> {
        self.sum(|shard| {
            shard.budget.read(SEEK_READS)?;
            let Some(head) = shard.head(&*self.shards.engine.store, path)? else { return Ok(0) };
            let bounds = within(&head, range);
            if !range.codes().single {
                return IndexStats::new(&*shard.snapshot).terms(&bounds).map_err(storage);
            }
            let (term, at) = (&bounds.from, shard.snapshot.lsn());
            if let Some(noted) = shard.partition.term_sizes.of(term, at) {
                return Ok(noted);
            }
            let counted = self.prefetched.count(shard, term, COUNTED_MAX)?;
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

    /// The exact number of terms in a range over all partitions, if it is at most `most`.
    fn count_terms_up_to(
        &self,
        path: &[IndexStep],
        range: &ValueRange,
        most: usize,
    ) -> Result<Option<u64>> {
        let mut total = 0;
        for shard in &self.shards.list {
            shard.budget.read(SEEK_READS)?;
            let Some(head) = shard.head(&*self.shards.engine.store, path)? else { continue };
            let bounds = within(&head, range);
            total += if range.codes().single {
                let (term, at) = (&bounds.from, shard.snapshot.lsn());
                let sizes = &shard.partition.term_sizes;
                if sizes.exceed(term, at, most) {
                    return Ok(None);
                }
                let counted = self.prefetched.count(shard, term, most + 1)?;
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
    /// Items of the partition, in the scope or not, roughly.
    pub(super) fn items(&self) -> Result<u64> {
        self.partition.items_noted(self.snapshot.lsn(), || {
            if self.partition.parents.is_empty() {
                return self.rows_given();
            }
            IndexStats::new(&*self.snapshot).rows().map_err(storage)
        })
    }

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

/// Reads that an estimate counts as.
const SEEK_READS: u64 = 20;

/// Rows with one value are counted up to here, and guessed beyond.
const COUNTED_MAX: usize = 48;

/// Keys of a logical partition that are counted; beyond, it is taken for large.
const SCOPE_SAMPLE: usize = 256;

impl IndexFacts for Facts<'_, '_> {
    fn is_usable(&self, path: &[IndexStep]) -> bool {
        self.is_usable && self.shards.container.index.is_usable(path)
    }

    fn estimate(&self, path: &[IndexStep], range: &ValueRange) -> u64 {
        let same = |(p, s, _): &&(ItemPath, ValueRange, u64)| **p == *path && s == range;
        if let Some((.., known)) = self.known.borrow().iter().find(same) {
            return *known;
        }
        // If the estimate cannot be read, reading the items fails too and reports the error.
        let found = self.ask(path, range).unwrap_or(0);
        // What was counted is right; a guess may go beyond what there is.
        let is_guess = found >= COUNTED_MAX as u64 && !is_plural(path);
        let found = if is_guess { found.min(self.items()) } else { found };
        self.known.borrow_mut().push((path.into(), range.clone(), found));
        found
    }

    fn count_up_to(&self, path: &[IndexStep], range: &ValueRange, most: usize) -> Option<u64> {
        if self.shards.list.len() > SAMPLED {
            return None;
        }
        self.count_terms_up_to(path, range, most).ok().flatten()
    }

    fn count_partition_up_to(&self, most: usize) -> Option<u64> {
        let [shard] = &self.shards.list[..] else { return None };
        self.prefetched.prefetch_partition(shard, most).ok().flatten()
    }

    fn composites(&self) -> Vec<Vec<(ItemPath, Direction)>> {
        if !self.is_usable {
            return vec![];
        }
        let usable = self.shards.container.index.usable_composites();
        let component = |component: &orrery_index::composite::CompositeComponent| {
            let steps = component.names.iter().map(|n| IndexStep::Property(n.clone())).collect();
            let descending = component.descending;
            (steps, if descending { Direction::Descending } else { Direction::Ascending })
        };
        usable.map(|index| index.components().iter().map(component).collect()).collect()
    }

    fn items(&self) -> u64 {
        *self.items.get_or_init(|| self.sum(Shard::items).unwrap_or(0))
    }

    fn scope_items(&self) -> u64 {
        *self.scope_items.get_or_init(|| self.count_scope().unwrap_or(0))
    }

    fn indexes_missing(&self) -> bool {
        self.is_usable && self.shards.container.index.has_shapes()
    }
}
