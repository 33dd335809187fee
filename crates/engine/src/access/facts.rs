//! What the planner is told about the index, over the partitions that the query reads. Sizes are
//! asked of a few partitions, which stand for all, and each only once.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use orrery_index::stats::IndexStats;
use orrery_index::{IndexStep, Span};
use orrery_query::ast::Direction;
use orrery_query::plan::IndexFacts;
use orrery_query::plan::condition::{ItemPath, is_plural};
use orrery_types::Result;

use super::{Shard, Shards, within};
use crate::storage_error::storage;

/// The index as of the query's snapshots.
pub(crate) struct Facts<'s, 'e> {
    shards: &'s Shards<'e>,
    is_usable: bool,
    items: OnceCell<u64>,
    scope_items: OnceCell<u64>,
    known: RefCell<HashMap<(ItemPath, String), u64>>,
}

/// Partitions that are asked.
const SAMPLED: usize = 2;

impl<'s, 'e> Facts<'s, 'e> {
    /// Without `with_index`, nothing may be relied upon.
    pub(crate) fn new(shards: &'s Shards<'e>, with_index: bool) -> Self {
        let is_usable = with_index && shards.are_indexed();
        let (items, scope_items) = (OnceCell::new(), OnceCell::new());
        Self { shards, is_usable, items, scope_items, known: RefCell::default() }
    }

    fn count_scope(&self) -> Result<u64> {
        let share = self.items() / self.shards.list.len().max(1) as u64;
        self.sum(|shard| {
            if shard.is_whole {
                return Ok(share);
            }
            let (n, more) = shard.count_keys(SCOPE_SAMPLE)?;
            Ok(if more { (share / 4).max(n) } else { n })
        })
    }

    fn sum(&self, of: impl Fn(&Shard<'e>) -> Result<u64>) -> Result<u64> {
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
            IndexStats::new(&*shard.snapshot).terms(&within(&head, span)).map_err(storage)
        })
    }
}

/// Keys of a logical partition that are counted; beyond, it is taken for large.
const SCOPE_SAMPLE: usize = 256;

impl IndexFacts for Facts<'_, '_> {
    fn is_usable(&self, path: &[IndexStep]) -> bool {
        self.is_usable && self.shards.container.index.is_usable(path)
    }

    fn estimate(&self, path: &[IndexStep], span: &Span) -> u64 {
        let key = (ItemPath::from(path), span.to_string());
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        // Who cannot read an estimate will not read the items either, and say so then.
        let found = self.ask(path, span).unwrap_or(0);
        let found = if is_plural(path) { found } else { found.min(self.items()) };
        self.known.borrow_mut().insert(key, found);
        found
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
            if shard.partition.parents.is_empty() {
                return shard.rows_given();
            }
            IndexStats::new(&*shard.snapshot).rows().map_err(storage)
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
