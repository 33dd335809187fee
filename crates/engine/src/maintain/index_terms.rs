//! Maintains the index terms of items, which change in the item's own commit. The index crate decides what
//! is a term; this file gives it the items, and gives readers of terms the ids of paths.

use std::cell::RefCell;

use orrery_index::maintain::{TermImage, maintain};
use orrery_index::rules::NOW;
use orrery_index::{
    CompositeIndex, DictionaryShard, IndexRules, IndexStep, IndexedItem, PendingPathIds, TermCount,
    Terms,
};
use orrery_storage::key::{CompositeId, PathId};
use orrery_storage::{Part, Store};
use orrery_types::{Error, Result, Value};

use super::{CommitContext, CommitMaintainer};
use crate::Container;
use crate::catalog::resource::Stamp;
use crate::catalog::resource::seconds;
use crate::error::storage;
use crate::item::operation::SYSTEM_PROPERTIES;
use crate::partition::PhysicalPartition;
use crate::transaction::retry;
use crate::transaction::write_buffer::ItemEntry;

/// How a path that has no id yet gets one.
#[derive(Clone, Copy, Default)]
pub(crate) enum PathIdAllocation<'e> {
    /// It does not: the caller must not wait for a commit.
    LookupOnly,
    /// With the commit of the item; if another writer allocates ids at the same time, it fails.
    WithCommit(&'e RefCell<PendingPathIds>),
    /// At once, which waits for a commit of its own.
    #[default]
    Immediate,
}

/// Finds the terms of items of one partition.
#[derive(Clone, Copy)]
pub(crate) struct Indexer<'e> {
    pub(crate) store: &'e dyn Store,
    pub(crate) container: &'e Container,
    pub(crate) partition: &'e PhysicalPartition,
    pub(crate) path_ids: PathIdAllocation<'e>,
}

impl Indexer<'_> {
    /// The terms of an item under every policy in effect. [`retry::needs_waiting`] if a path
    /// needs an id and none may be allocated.
    pub(crate) fn terms<'v>(
        &self,
        stamp: Stamp,
        value: impl FnOnce() -> Result<&'v Value>,
    ) -> Result<Terms> {
        let rules = self.container.index.rules();
        if rules.indexing() == 0 {
            return Ok(Terms::default());
        }
        let item = indexed_item(rules, value()?, stamp)?;
        let dictionary = &self.partition.dictionary;
        if let Some(terms) = dictionary.known_terms(rules, &item) {
            return Ok(terms);
        }
        match self.path_ids {
            PathIdAllocation::LookupOnly => Err(retry::needs_waiting()),
            PathIdAllocation::WithCommit(carried) => {
                let home = self.partition.home(self.store);
                let mut carried = carried.borrow_mut();
                dictionary.carried_terms(home, rules, &item, &mut carried).map_err(storage)
            }
            PathIdAllocation::Immediate => {
                let home = self.partition.home(self.store);
                dictionary.terms(home, rules, &item).map_err(storage)
            }
        }
    }
}

impl Indexer<'_> {
    /// The terms of an item that a write of it is charged for: those of what the client has sent.
    pub(crate) fn charged(&self, terms: &Terms) -> TermCount {
        let mut count = TermCount::of(terms);
        count.paths = count.paths.saturating_sub(self.system_terms());
        count
    }

    /// The same of the terms that change when an item is replaced. How long that is after the last
    /// write must not count, so the time of the write never does.
    pub(crate) fn charged_change(
        &self,
        (before, was): (&Terms, Stamp),
        (after, is): (&Terms, Stamp),
    ) -> (TermCount, TermCount) {
        let (mut gone, mut new) = TermCount::differing(before, after);
        // The etag is another in any case.
        let same_second = usize::from(was.ts == is.ts);
        let system = self.system_terms().saturating_sub(same_second);
        for count in [&mut gone, &mut new] {
            count.paths = count.paths.saturating_sub(system);
        }
        let timed = |(index, policies): &(CompositeIndex, _)| {
            policies & NOW != 0 && index.text().contains("/\"_ts\"")
        };
        if self.container.index.rules().composites().iter().any(timed) {
            gone.composites = TermCount::of(before).composites;
            new.composites = TermCount::of(after).composites;
        }
        (gone, new)
    }

    /// Terms of what the server writes into every item.
    fn system_terms(&self) -> usize {
        let rules = self.container.index.rules();
        let is_term = |name: &&str| {
            rules.root().step(orrery_storage::key::PathStep::Property(name)).included() & NOW != 0
        };
        ["_ts", "_etag"].iter().filter(|name| is_term(name)).count()
    }
}

/// The maintainer of index terms: those that differ are written and deleted.
#[derive(Debug)]
pub(super) struct IndexTerms;

impl CommitMaintainer for IndexTerms {
    /// A renamed item keeps its row: what its old entry deletes its new one puts, and puts come after
    /// deletes.
    fn maintain(
        &self,
        entry: &ItemEntry<'_>,
        context: &CommitContext<'_>,
        part: &mut Part,
    ) -> Result<()> {
        let indexer = &context.indexer;
        let before = match &entry.before {
            Some(before) => {
                Some(TermImage { terms: before.terms(indexer)?, row: before.header.row })
            }
            None => None,
        };
        let after = entry.after().map(|after| TermImage { terms: &after.terms, row: after.row });
        maintain(before, after, indexer.container.index.rules().all(), part);
        Ok(())
    }
}

/// An item as the index sees it: what the client sent with the system properties of the stamp.
pub(crate) fn indexed_item<'v>(
    rules: &IndexRules,
    value: &'v Value,
    stamp: Stamp,
) -> Result<IndexedItem<'v>> {
    let own = value.as_object().ok_or_else(|| Error::internal("an item is no object"))?;
    let mut system = vec![("_ts", seconds(stamp.ts))];
    if rules.includes_property("_etag") {
        system.push(("_etag", Value::from(stamp.etag.to_string())));
    }
    Ok(IndexedItem::new(own, &SYSTEM_PROPERTIES, system))
}

impl PhysicalPartition {
    pub(crate) fn home<'s>(&self, store: &'s dyn Store) -> DictionaryShard<'s> {
        DictionaryShard { store, shard: self.shard, epoch: self.epoch }
    }

    /// The number under which the terms of a path stand in this partition; `None` if no item here
    /// ever had the path. Only for paths that the container's index state calls usable, and on a
    /// snapshot whose epoch is that of the partition.
    pub fn path_id(&self, store: &dyn Store, path: &[IndexStep]) -> Result<Option<PathId>> {
        self.dictionary.path_id(self.home(store), path).map_err(storage)
    }

    /// The number of a usable composite index in this partition, by its canonical text; `None` if no
    /// item was ever here.
    pub fn composite_id(&self, store: &dyn Store, text: &str) -> Result<Option<CompositeId>> {
        self.dictionary.composite_id(self.home(store), text).map_err(storage)
    }
}
