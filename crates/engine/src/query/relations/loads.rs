//! Items of one container that a page has loaded, each once: by their keys, and by the references that
//! lead to them.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use orrery_modeling::reference::ReferenceTarget;
use orrery_types::{PartitionKey, Value};

/// An item that was loaded.
pub(super) struct Loaded {
    /// `None` if it is not there, or not to be seen.
    pub(super) value: Option<Value>,
    pub(super) bytes: usize,
    /// Whether the answer needed it; what was loaded ahead does not count before.
    pub(super) used: bool,
}

/// By number: the place in the list of those that were loaded.
#[derive(Default)]
pub(super) struct Loads {
    list: Vec<Loaded>,
    by_key: HashMap<Vec<u8>, usize, RandomState>,
    by_id: HashMap<Box<str>, Vec<(PartitionKey, usize)>, RandomState>,
}

impl Loads {
    /// Makes room for so many more.
    pub(super) fn reserve(&mut self, more: usize) {
        self.list.reserve(more);
        self.by_key.reserve(more);
        self.by_id.reserve(more);
    }

    pub(super) fn add(&mut self, key: Vec<u8>, loaded: Loaded) {
        self.by_key.insert(key, self.list.len());
        self.list.push(loaded);
    }

    /// The number of an item, if it was loaded.
    pub(super) fn by_key(&self, key: &[u8]) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// What a reference leads to, if that was looked up.
    pub(super) fn by_target(&self, target: &ReferenceTarget) -> Option<usize> {
        let alike = self.by_id.get(&target.id)?;
        let is = |(key, _): &&(PartitionKey, _)| *key == target.partition_key;
        alike.iter().find(is).map(|(_, number)| *number)
    }

    /// Remembers what a reference leads to: the item with a key, or nothing. What was not loaded is
    /// looked up when it is asked for.
    pub(super) fn note(&mut self, target: ReferenceTarget, key: Option<&[u8]>) {
        if key.is_none() {
            self.list.push(Loaded { value: None, bytes: 0, used: false });
        }
        let last = self.list.len().checked_sub(1);
        let Some(number) = key.map_or(last, |key| self.by_key(key)) else { return };
        self.by_id.entry(target.id).or_default().push((target.partition_key, number));
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Loaded> {
        self.list.get_mut(number)
    }
}
