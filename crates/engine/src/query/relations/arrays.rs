//! Arrays that the model keeps in buckets, as queries and headers see them: the property of the
//! parent that was never taken out of it. The directory beside the parent says how many elements each
//! bucket has, so a page out of the middle loads the buckets that it shows and no others.

use std::rc::Rc;

use orrery_storage::{Entry, Space, key};
use orrery_types::{Error, Result, Value, limits};

use super::{Expansion, NavigationKind, too_much};
use crate::error::storage;
use crate::item::address::ItemKey;
use crate::query::access::ReadCounters;

/// Buckets that are loaded at once, when all are wanted.
const BUCKETS_PER_LOAD: usize = 200;

/// The buckets of one array of one item, in their order.
#[derive(Debug, Default)]
pub(super) struct Directory {
    keys: Vec<Vec<u8>>,
    lengths: Vec<u64>,
}

impl Expansion<'_> {
    /// The elements of a bucketed array of an item, in their order.
    pub(super) fn elements(&self, at: usize, item: &Value) -> Result<Value> {
        let Some(directory) = self.directory(at, item)? else {
            return Ok(self.stored_array(at, item).clone());
        };
        let mut elements: Vec<Value> = Vec::new();
        for keys in directory.keys.chunks(BUCKETS_PER_LOAD) {
            self.load_buckets(at, keys)?;
            let buckets = self.buckets.borrow();
            let parts = keys.iter().filter_map(|key| buckets.get(key)?.as_array());
            elements.extend(parts.flatten().cloned());
        }
        Ok(Value::array(elements))
    }

    /// How many elements each of its buckets has; `None` if it is not in buckets.
    pub(super) fn lengths(&self, at: usize, item: &Value) -> Result<Option<Vec<u64>>> {
        Ok(self.directory(at, item)?.map(|directory| directory.lengths.clone()))
    }

    /// The elements of one of its buckets.
    pub(super) fn bucket(&self, at: usize, item: &Value, number: usize) -> Result<Vec<Value>> {
        let directory = self.directory(at, item)?.unwrap_or_default();
        let Some(key) = directory.keys.get(number) else { return Ok(vec![]) };
        self.load_buckets(at, std::slice::from_ref(key))?;
        let buckets = self.buckets.borrow();
        Ok(buckets.get(key).and_then(Value::as_array).unwrap_or_default().to_vec())
    }

    /// It may not have been put into buckets yet.
    fn stored_array<'v>(&self, at: usize, item: &'v Value) -> &'v Value {
        self.names.scope.model.rules.buckets[at].def.array.get(item, &[])
    }

    /// The buckets of an array of an item; `None` if it is not in buckets.
    fn directory(&self, at: usize, item: &Value) -> Result<Option<Rc<Directory>>> {
        if !self.stored_array(at, item).is_undefined() {
            return Ok(None);
        }
        let model = self.names.scope.model;
        let rule = &model.rules.buckets[at];
        let pool = self.pool(self.names.end(NavigationKind::Array(at)))?;
        let container = pool.container;
        let partition_key = container.definition.partition_key.extract(item);
        let id = item.get("id").as_str().unwrap_or_default();
        let Ok(parent) = ItemKey::of(container, partition_key, id) else { return Ok(None) };
        let place = (at, parent.key.clone());
        if let Some(known) = self.directories.borrow().get(&place) {
            return Ok(Some(known.clone()));
        }
        let Some(shard) = pool.shard_of(&parent.key)? else { return Ok(None) };
        let bounds = key::buckets_of(model.bucket_number(at), &parent.key);
        let scan = bounds.scan(Space::Index, limits::MODEL_BUCKETS_MAX + 1, usize::MAX);
        let entries = shard.snapshot.scan(&scan).map_err(storage)?;
        self.budget.read(entries.len() as u64)?;
        ReadCounters::add(&pool.taken.entries, entries.len() as u64);
        if entries.len() > limits::MODEL_BUCKETS_MAX {
            return Err(Error::invalid(format!(
                "The array '{}' of '{id}' is in more than {} buckets, which is more than a query \
                 goes through. Read the buckets themselves, as whole items, by '{}'.",
                rule.def.array,
                limits::MODEL_BUCKETS_MAX,
                rule.def.link
            )));
        }
        let mut directory = Directory::default();
        for entry in &entries {
            let (seq, length) = directory_entry(entry)?;
            let bucket = rule.ids.format(id, seq);
            let bucket = ItemKey::of(container, parent.partition_key.clone(), &bucket)?;
            directory.keys.push(bucket.key);
            directory.lengths.push(length);
        }
        let directory = Rc::new(directory);
        self.directories.borrow_mut().insert(place, directory.clone());
        Ok(Some(directory))
    }

    /// Loads the elements of buckets that are not there yet.
    fn load_buckets(&self, at: usize, keys: &[Vec<u8>]) -> Result<()> {
        let missing: Vec<Vec<u8>> = {
            let known = self.buckets.borrow();
            keys.iter().filter(|key| !known.contains_key(*key)).cloned().collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let rule = &self.names.scope.model.rules.buckets[at];
        let pool = self.pool(self.names.end(NavigationKind::Array(at)))?;
        let before = pool.taken.bytes.get();
        let found = pool.by_keys(&missing, &mut self.held.borrow_mut())?;
        let mut known = self.buckets.borrow_mut();
        for (key, item) in missing.into_iter().zip(found) {
            let elements = item.map_or_else(Vec::new, |item| rule.elements(&item.value).to_vec());
            known.insert(key, Value::array(elements));
        }
        let bytes = usize::try_from(pool.taken.bytes.get() - before).unwrap_or(usize::MAX);
        self.used_bytes.set(self.used_bytes.get().saturating_add(bytes));
        if self.used_bytes.get() > 2 * limits::MODEL_EXPAND_BYTES_MAX {
            return Err(too_much());
        }
        Ok(())
    }
}

fn directory_entry(entry: &Entry) -> Result<(u64, u64)> {
    let length = entry.value.bytes[..].try_into().map(u32::from_be_bytes);
    let found = key::parse_bucket(&entry.key).zip(length.ok());
    let (seq, length) = found.ok_or_else(|| Error::internal("a directory is corrupt"))?;
    Ok((seq, u64::from(length)))
}
