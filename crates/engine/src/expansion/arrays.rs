//! Arrays that the model keeps in buckets, as queries and headers see them: the property of the
//! parent that was never taken out of it.

use orrery_storage::{Scan, Space, key};
use orrery_types::{Error, Result, Value, limits};

use super::{Expansion, Way, too_much};
use crate::access::Taken;
use crate::items::place_of;
use crate::storage_error::storage;

/// Buckets that are loaded at once.
const BUCKETS_PER_LOAD: usize = 200;

impl Expansion<'_> {
    /// The elements of a bucketed array of an item, in their order.
    pub(super) fn elements(&self, at: usize, item: &Value) -> Result<Value> {
        let model = self.names.scope.model;
        let rule = &model.rules.buckets[at];
        // It may not have been put into buckets yet.
        let stored = rule.def.array.get(item, &[]);
        if !stored.is_undefined() {
            return Ok(stored.clone());
        }
        let pool = self.pool(self.names.end(Way::Array(at)))?;
        let container = pool.container;
        let partition_key = container.definition.partition_key.extract(item);
        let id = item.get("id").as_str().unwrap_or_default();
        let Ok(parent) = place_of(container, partition_key, id) else {
            return Ok(Value::Undefined);
        };
        let place = (at, parent.key.clone());
        if let Some(known) = self.arrays.borrow().get(&place) {
            return Ok(known.clone());
        }
        let Some(shard) = pool.shard_of(&parent.key)? else { return Ok(Value::Undefined) };
        let bounds = key::buckets_of(model.bucket_number(at), &parent.key);
        let scan = Scan {
            space: Space::Index,
            from: &bounds.from,
            to: &bounds.to,
            reverse: false,
            max_rows: limits::MODEL_ITEMS_MAX + 1,
            max_bytes: usize::MAX,
            keys_only: true,
        };
        let directory = shard.snapshot.scan(&scan).map_err(storage)?;
        Taken::add(&pool.taken.entries, directory.len() as u64);
        if directory.len() > limits::MODEL_ITEMS_MAX {
            return Err(too_much());
        }
        let mut elements: Vec<Value> = Vec::new();
        for some in directory.chunks(BUCKETS_PER_LOAD) {
            let bucket = |entry: &orrery_storage::Entry| {
                let seq = key::parse_bucket(&entry.key);
                let seq = seq.ok_or_else(|| Error::internal("a directory is corrupt"))?;
                let partition_key = parent.partition_key.clone();
                Ok(place_of(container, partition_key, &rule.ids.format(id, seq))?.key)
            };
            let keys = some.iter().map(bucket).collect::<Result<Vec<_>>>()?;
            let before = pool.taken.bytes.get();
            for found in pool.by_keys(&keys)?.into_iter().flatten() {
                elements.extend_from_slice(rule.elements(&found.value));
            }
            let bytes = usize::try_from(pool.taken.bytes.get() - before).unwrap_or(usize::MAX);
            self.used_bytes.set(self.used_bytes.get().saturating_add(bytes));
            if self.used_bytes.get() > 2 * limits::MODEL_EXPAND_BYTES_MAX {
                return Err(too_much());
            }
        }
        let elements = Value::array(elements);
        self.arrays.borrow_mut().insert(place, elements.clone());
        Ok(elements)
    }
}
