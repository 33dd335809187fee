//! Unique keys: an index entry for each value in a logical partition, which a commit requires to be absent
//! unless it frees it itself. A transaction also looks at them after each of its operations, in every
//! shard and with all that follows from the operation, so that the operation that breaks a unique key is
//! the one that is refused.
//!
//! If another item has a unique key that a commit of derived writes needs, no retry helps as long as it has: the
//! write that follows is refused like a client's would be. A holder that has expired is in the way until the
//! sweeper has removed it.

use std::collections::{HashMap, HashSet};

use orrery_storage::key::{self, Row};
use orrery_storage::{FailedPrecondition, Part, Precondition, Put, Space};
use orrery_types::{Error, PartitionKey, PropertyPath, Result, ShardId, Value};

use crate::Container;
use crate::error::storage;
use crate::item::address::ItemKey;
use crate::item::image::BeforeImage;
use crate::model::Models;
use crate::transaction::reads::ConflictReason;
use crate::transaction::retry::RetryReason;
use crate::transaction::state::TransactionState;
use crate::transaction::write_buffer::{ItemEntry, Mutation, Savepoint, ShardIndex};

/// Who has a unique key, as far as the transaction has changed that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Nobody,
    Own,
}

/// That a transaction looks at unique keys after each of its operations.
#[derive(Debug, Default)]
pub(crate) struct UniqueClaims {
    /// Hidden items that have keys and may not be removed: they count like others.
    kept: Vec<(ShardId, Row)>,
}

impl UniqueClaims {
    /// Where these hidden items have keys and may not be removed.
    pub(crate) fn new(kept: Vec<(ShardId, Row)>) -> Self {
        Self { kept }
    }
}

type Holders = HashMap<Vec<u8>, Holder>;

/// A unique key that an item of the current operation shall have.
struct Wanted {
    key: Vec<u8>,
    ordinal: usize,
    item_key: Vec<u8>,
}

/// Frees the unique keys of what the operation since a savepoint replaces and takes those of what it
/// writes; refuses one that another item has.
pub(crate) fn claim(tx: &mut TransactionState<'_>, since: Savepoint) -> Result<()> {
    if tx.options().claims.is_none() {
        return Ok(());
    }
    let shards: Vec<ShardIndex> = tx
        .writes
        .shards()
        .filter(|(_, shard)| !shard.container.definition.unique_keys.is_empty())
        .map(|(index, _)| index)
        .collect();
    shards.into_iter().try_for_each(|shard| claim_in(tx, shard, since))
}

fn claim_in(tx: &mut TransactionState<'_>, shard: ShardIndex, since: Savepoint) -> Result<()> {
    let (mut changes, wanted) = moved_keys(tx, shard, since)?;
    for Wanted { key, ordinal, item_key } in wanted {
        let known = changes.get(&key).copied();
        let is_taken = match known.or_else(|| tx.writes.shard(shard).unique_holder(&key)) {
            Some(Holder::Nobody) => false,
            Some(Holder::Own) => true,
            None => is_held(tx, shard, &item_key, &key)?,
        };
        if is_taken {
            let entry = tx.entry(shard, &item_key);
            let entry = entry.ok_or_else(|| Error::internal("a written item has an entry"))?;
            return Err(unique_violation(tx.writes.shard(shard).container, ordinal, entry));
        }
        changes.insert(key, Holder::Own);
    }
    for (key, holder) in changes {
        tx.writes.set_unique(shard, key, holder);
    }
    Ok(())
}

/// What the operation does to unique keys: those that its items had, and those that they shall
/// have.
fn moved_keys(
    tx: &TransactionState<'_>,
    shard: ShardIndex,
    since: Savepoint,
) -> Result<(Holders, Vec<Wanted>)> {
    let (mut freed, mut wanted) = (Holders::new(), Vec::new());
    let container = tx.writes.shard(shard).container;
    for (item_key, was) in tx.writes.items_since(since, shard) {
        let Some(entry) = tx.entry(shard, item_key) else { continue };
        let keys = |item: &Value| unique_keys_of(container, &entry.at.partition_key, item);
        let old = match was {
            Mutation::Put(after) => Some(&after.value),
            Mutation::Delete => None,
            Mutation::None => entry.before.as_ref().map(BeforeImage::value).transpose()?,
        };
        let old = old.map(keys).unwrap_or_default();
        freed.extend(old.into_iter().map(|key| (key, Holder::Nobody)));
        let new = entry.after().map(|after| keys(&after.value)).unwrap_or_default();
        let want = |(ordinal, key)| Wanted { key, ordinal, item_key: item_key.to_vec() };
        wanted.extend(new.into_iter().enumerate().map(want));
    }
    Ok((freed, wanted))
}

/// Whether an item that the transaction has not written has a key. It enters the read set: a refusal
/// rests on it.
fn is_held(
    tx: &mut TransactionState<'_>,
    shard: ShardIndex,
    claimer: &[u8],
    unique_key: &[u8],
) -> Result<bool> {
    let writes = tx.writes.shard(shard);
    let (container, partition) = (writes.container, writes.partition);
    let id = partition.shard;
    let Some(holder) = tx.view().get(id, Space::Index, unique_key)? else {
        if !tx.view().is_fixed(id) {
            // Should the operation be rolled back, a refusal may still rest on it.
            let (key, reason) = (unique_key.to_vec(), ConflictReason::UniqueKeyTaken);
            tx.reads.add(shard, Space::Index, key, None, reason);
        }
        return Ok(false);
    };
    let row = unique_holder(&holder.bytes)?;
    if let Some(item_key) = tx.view().get(id, Space::Items, &key::row(row))? {
        let partition_key = tx.entry(shard, claimer).map(|e| e.at.partition_key.clone());
        let partition_key = partition_key.unwrap_or_default();
        let at = ItemKey { partition, partition_key, key: item_key.bytes.into() };
        tx.load(shard, &at)?;
        if let Some(before) = tx.entry(shard, &at.key).and_then(|e| e.before.as_ref())
            && unique_keys_of(container, &at.partition_key, before.value()?)
                .iter()
                .any(|held| held == unique_key)
        {
            let kept = tx.options().claims.as_ref().is_some_and(|c| c.kept.contains(&(id, row)));
            if kept || !tx.view().hides(container, &at.key, before) {
                return Ok(true);
            }
            return Err(tx.run_again(RetryReason::HiddenHolder(container, partition, row)));
        }
    }
    Err(tx.run_again(RetryReason::Conflict(ConflictReason::ItemChanged)))
}

/// A unique key that a commit requires to be free.
pub(crate) struct UniqueKeyCheck<'s> {
    pub(crate) key: Vec<u8>,
    /// Which of the container's unique keys it is.
    pub(crate) ordinal: usize,
    pub(crate) container: &'s Container,
    /// The item that shall have it.
    pub(crate) entry: &'s ItemEntry<'s>,
}

impl UniqueKeyCheck<'_> {
    /// Whether this is the precondition that failed.
    pub(crate) fn is(&self, failed: &FailedPrecondition) -> bool {
        self.entry.at.partition.shard == failed.shard
            && failed.precondition.key() == Some((Space::Index, &self.key[..]))
    }

    /// What the writer is told if another item has the key.
    pub(crate) fn violation(&self) -> Error {
        unique_violation(self.container, self.ordinal, self.entry)
    }
}

/// An item would get a unique key that another one has.
pub(crate) fn unique_violation(
    container: &Container,
    ordinal: usize,
    entry: &ItemEntry<'_>,
) -> Error {
    let Some(after) = entry.after().filter(|after| after.derived) else {
        return Error::UniqueKeyViolation;
    };
    let id = key::parse_item(&entry.at.key).map_or("", |key| key.id);
    let paths = container.definition.unique_keys.get(ordinal).map_or(&[][..], |paths| paths);
    let names: Vec<String> = paths.iter().map(ToString::to_string).collect();
    let values = unique_values(paths, &after.value);
    Error::DerivedKeyViolation(
        format!(
            "Unique index constraint violation: by the model, this write gives the item '{id}' of \
             container '{}' the value {} for its unique key '{}', and another item of the same \
             partition key has it. Nothing was written.",
            container.id,
            Value::array(values).to_json(),
            names.join(", ")
        )
        .into(),
    )
}

/// Adds to a part the unique keys that change: the old ones are deleted; the new ones are required to be
/// free, unless another entry of the same commit frees them. No two entries may have one in the end,
/// whoever wrote them.
pub(crate) fn maintain<'s>(
    container: &'s Container,
    entries: &[&'s ItemEntry<'s>],
    part: &mut Part,
) -> Result<Vec<UniqueKeyCheck<'s>>> {
    let mut required = Vec::new();
    if container.definition.unique_keys.is_empty() {
        return Ok(required);
    }
    let mut moves = Vec::new();
    for entry in entries.iter().filter(|entry| entry.is_written()) {
        let keys = |value: &Value| unique_keys_of(container, &entry.at.partition_key, value);
        let old = entry.before.as_ref().map(BeforeImage::value).transpose()?.map(keys);
        let new = entry.after().map(|after| keys(&after.value));
        for ordinal in 0..container.definition.unique_keys.len() {
            let nth = |keys: &Option<Vec<Vec<u8>>>| keys.as_ref()?.get(ordinal).cloned();
            moves.push((*entry, ordinal, nth(&old), nth(&new)));
        }
    }
    let freed: HashSet<&Vec<u8>> = moves
        .iter()
        .filter(|(_, _, old, new)| old != new)
        .filter_map(|(_, _, old, _)| old.as_ref())
        .collect();
    part.deletes.extend(freed.iter().map(|key| (Space::Index, (*key).clone())));
    let mut holders: HashMap<&Vec<u8>, &ItemEntry<'_>> = HashMap::new();
    for (entry, ordinal, old, new) in &moves {
        let (Some(key), Some(after)) = (new, entry.after()) else { continue };
        if let Some(other) = holders.insert(key, entry) {
            // Of the two, the one that no client has named is the one to tell of.
            let told = if after.derived { *entry } else { other };
            return Err(unique_violation(container, *ordinal, told));
        }
        if old == new && entry.keeps_row() {
            continue;
        }
        if old != new && !freed.contains(key) {
            let (key, ordinal) = (key.clone(), *ordinal);
            part.preconditions.push(Precondition::Absent { space: Space::Index, key: key.clone() });
            required.push(UniqueKeyCheck { key, ordinal, container, entry });
        }
        let value = after.row.0.to_be_bytes().to_vec();
        part.puts.push(Put { space: Space::Index, key: key.clone(), value });
    }
    Ok(required)
}

/// The keys under which an item stands in the container's unique keys, in their order.
pub(crate) fn unique_keys_of(
    container: &Container,
    partition_key: &PartitionKey,
    value: &Value,
) -> Vec<Vec<u8>> {
    let definition = &container.definition;
    let effective = definition.partition_key.effective(partition_key);
    let key = |(ordinal, paths): (u8, &Vec<PropertyPath>)| {
        key::unique(ordinal, &effective, partition_key, &unique_values(paths, value))
    };
    (0_u8..).zip(&definition.unique_keys).map(key).collect()
}

/// A missing value counts as null.
pub(crate) fn unique_values(paths: &[PropertyPath], item: &Value) -> Vec<Value> {
    let value = |path: &PropertyPath| match path.value_in(item) {
        Value::Undefined => Value::Null,
        value => value.clone(),
    };
    paths.iter().map(value).collect()
}

/// The row that the value of a unique key names.
pub(crate) fn unique_holder(bytes: &[u8]) -> Result<Row> {
    let row = bytes.try_into().map(u64::from_be_bytes);
    row.map(Row).map_err(|_| Error::internal("a unique key is corrupt"))
}

impl Models<'_> {
    /// The refusal that a failed precondition means; `None` if the commit may be tried again.
    pub(crate) fn refusal_of(
        self,
        unique: &[UniqueKeyCheck<'_>],
        failed: &FailedPrecondition,
    ) -> Result<Option<Error>> {
        let Some(unique) = unique.iter().find(|unique| unique.is(failed)) else {
            return Ok(None);
        };
        let shard = unique.entry.at.partition.shard;
        let holder = self.engine.store.get(shard, Space::Index, &unique.key).map_err(storage)?.1;
        Ok(holder.map(|_| unique.violation()))
    }
}
