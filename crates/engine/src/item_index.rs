//! The index terms of items, which change in the item's own commit. What is a term is decided in the
//! index crate; here items become what it takes, and here is where those who look terms up ask for
//! the numbers of paths.

use std::cell::RefCell;

use orrery_index::{Carried, Home, IndexStep, IndexedItem, Rules, Terms};
use orrery_storage::Store;
use orrery_storage::key::{CompositeId, PathId};
use orrery_types::{Error, Result, Value};

use crate::Container;
use crate::item_body::SYSTEM_PROPERTIES;
use crate::partition::PhysicalPartition;
use crate::resource::seconds;
use crate::stamp::Stamp;
use crate::storage_error::storage;

/// How a path that has no number yet gets one.
#[derive(Clone, Copy)]
pub(crate) enum Numbers<'e> {
    /// It does not.
    Known,
    /// With the commit of the item; if another writer gives numbers at the same time, it fails.
    Carried(&'e RefCell<Carried>),
    /// At once, which waits for a commit.
    Given,
}

/// Finds the terms of items of one partition.
#[derive(Clone, Copy)]
pub(crate) struct Indexer<'e> {
    pub(crate) store: &'e dyn Store,
    pub(crate) container: &'e Container,
    pub(crate) partition: &'e PhysicalPartition,
    pub(crate) numbers: Numbers<'e>,
}

impl Indexer<'_> {
    /// The terms of an item under every policy in effect. [`Error::RetryWith`] if a path needs a
    /// number and none may be given.
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
        match self.numbers {
            Numbers::Known => Err(Error::RetryWith),
            Numbers::Carried(carried) => {
                let home = self.partition.home(self.store);
                let mut carried = carried.borrow_mut();
                dictionary.carried_terms(home, rules, &item, &mut carried).map_err(storage)
            }
            Numbers::Given => {
                let home = self.partition.home(self.store);
                dictionary.terms(home, rules, &item).map_err(storage)
            }
        }
    }
}

/// An item as the index sees it: what the client sent with the system properties of the stamp.
pub(crate) fn indexed_item<'v>(
    rules: &Rules,
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
    pub(crate) fn home<'s>(&self, store: &'s dyn Store) -> Home<'s> {
        Home { store, shard: self.shard, epoch: self.epoch }
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
