//! References of the items that a transaction has written, by their targets. Their entries are stored at the
//! commit; until then this index has them, so that a cascade finds who refers to an item without
//! reading every item that it has written so far. An item is read once for each of its writes.

use std::collections::{BTreeSet, HashMap};

use orrery_types::Result;

use crate::item::address::ItemAddress;
use crate::maintain::references;
use crate::model::ModelTransaction;
use crate::transaction::write_buffer::ShardIndex;

/// A written item: the number of its container, and its key.
type Source = (u32, Vec<u8>);

/// The position of a relation in the model, and the key of an item that it leads to.
type TargetOfRelation = (usize, Vec<u8>);

/// What the written items of a transaction refer to, as of the writes that it was last brought up to.
#[derive(Debug, Default)]
pub(crate) struct OwnReferences {
    targets: HashMap<Source, Vec<TargetOfRelation>>,
    sources: HashMap<TargetOfRelation, BTreeSet<Source>>,
    /// How many times the references of an item were read.
    #[cfg(test)]
    items_read: usize,
}

impl OwnReferences {
    /// Forgets all items.
    fn clear(&mut self) {
        self.targets.clear();
        self.sources.clear();
    }

    /// Replaces what an item refers to; `None`: the transaction does not write it any more.
    fn set(&mut self, source: Source, targets: Option<Vec<TargetOfRelation>>) {
        #[cfg(test)]
        {
            self.items_read += 1;
        }
        for target in self.targets.remove(&source).unwrap_or_default() {
            if let Some(sources) = self.sources.get_mut(&target) {
                sources.remove(&source);
            }
        }
        let Some(targets) = targets else { return };
        for target in &targets {
            self.sources.entry(target.clone()).or_default().insert(source.clone());
        }
        self.targets.insert(source, targets);
    }
}

/// What the transaction's own writes change about who refers to an item: the stored entries of
/// items that it has written count no more, and those that refer to it now are added.
pub(crate) fn apply<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    index: usize,
    address: &ItemAddress<'e>,
    keys: &mut BTreeSet<Vec<u8>>,
) -> Result<()> {
    update(model)?;
    let (own, rule) = (&model.tx.own_references, &model.context.model.rules.relations[index]);
    if own.targets.is_empty() {
        return Ok(());
    }
    let from = model.context.container_of(rule.from)?.number;
    keys.retain(|key| !own.targets.contains_key(&(from, key.clone())));
    if model.context.container_of(rule.to)?.number == address.container.number
        && let Some(sources) = own.sources.get(&(index, address.at.key.clone()))
    {
        keys.extend(sources.iter().map(|(_, key)| key.clone()));
    }
    Ok(())
}

/// Reads the items that were written, or rolled back, since the last time.
fn update(model: &mut ModelTransaction<'_, '_>) -> Result<()> {
    for (shard, key) in model.tx.writes.take_changed_items() {
        match targets_of(model, shard, &key) {
            Ok(targets) => {
                let container = model.tx.writes.shard(shard).container.number;
                model.tx.own_references.set((container, key), targets);
            }
            Err(error) => {
                // The work may go on after this: the next look-up begins with all items.
                model.tx.own_references.clear();
                model.tx.writes.forget_changed_items();
                return Err(error);
            }
        }
    }
    Ok(())
}

/// What an item refers to as the transaction leaves it; `None` if it does not write it.
fn targets_of(
    model: &ModelTransaction<'_, '_>,
    shard: ShardIndex,
    key: &[u8],
) -> Result<Option<Vec<TargetOfRelation>>> {
    let writes = model.tx.writes.shard(shard);
    let Some(entry) = writes.item(key).filter(|entry| entry.is_written()) else {
        return Ok(None);
    };
    if writes.container.database_rid() != model.context.database.rid() {
        return Ok(None);
    }
    let value = entry.after().map(|after| &after.value);
    let mut all = Vec::new();
    for (index, rule) in model.context.model.rules.relations.iter().enumerate() {
        let found = references::targets_of(model.tx, model.context, rule, writes.container, value)?;
        all.extend(found.into_iter().map(|address| (index, address.at.key)));
    }
    Ok(Some(all))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orrery_storage::MemoryStore;
    use orrery_types::ids::Address;
    use orrery_types::{ManualClock, Value};

    use crate::Engine;
    use crate::catalog::offer::ThroughputRequest;
    use crate::catalog::resource::Preconditions;
    use crate::item::address::ItemKey;
    use crate::item::operation::ItemWrite;
    use crate::model::ModelContext;
    use crate::transaction::reads::ReadView;
    use crate::transaction::state::{TransactionOptions, TransactionState};
    use crate::transaction::write_buffer::ShardIndex;

    const MODEL: &str = r#"{"version":1,"types":{"node":{"container":"nodes"}},"relations":[
        {"name":"parent","from":"node","path":"/parentId","to":"node","partitionKey":["/p"],
         "onDelete":"cascade","propagate":"sync"}]}"#;

    fn json(text: &str) -> Value {
        Value::parse(text.as_bytes()).expect("JSON")
    }

    fn name(id: &str) -> Address {
        Address::Name(id.into())
    }

    /// Deletes the first of a chain of so many items, each of which refers to the one before it. Returns
    /// how many items were deleted, and how many times the references of a written item were read.
    fn delete_chain(length: usize) -> (usize, usize) {
        let clock = Arc::new(ManualClock::at_s(1000));
        let engine = Engine::open(Arc::new(MemoryStore::new()), clock, 1).expect("an engine");
        let (none, any) = (ThroughputRequest::default(), Preconditions::default());
        engine.databases().create(&json(r#"{"id":"d"}"#), &none).expect("a database");
        let body = r#"{"id":"nodes","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
        engine.containers().create(&name("d"), &json(body), &none).expect("a container");
        engine.models().store(&name("d"), &json(MODEL), &any).expect("the model is accepted");
        let container = engine.containers().read(&name("d"), &name("nodes")).expect("it exists");
        for n in 0..length {
            let parent = n.checked_sub(1).map(|n| format!(r#","parentId":"n{n}""#));
            let text = format!(r#"{{"id":"n{n}","p":"x"{}}}"#, parent.unwrap_or_default());
            engine.items().create(&container, None, text.as_bytes()).expect("an item");
        }
        let database = engine.models().database_of(&container);
        let model = ModelContext::of(database.as_deref(), &container);
        assert!(model.is_some(), "the model is about the container");
        let view = ReadView::latest(&engine);
        let partition = &container.partitions[0];
        let options = TransactionOptions::under(model);
        let mut tx = TransactionState::new(&engine, &container, partition, view, options);
        let key = orrery_types::PartitionKey::parse_header(r#"["x"]"#).expect("a key");
        let at = ItemKey::of(&container, key, "n0").expect("a key");
        tx.apply(&at, &ItemWrite::Delete(name("n0"), any)).expect("all are deleted");
        (tx.writes.shard(ShardIndex::FIRST).written().len(), tx.own_references.items_read)
    }

    #[test]
    fn a_cascade_reads_the_references_of_each_written_item_once() {
        for length in [10, 100, 400] {
            let (deleted, read) = delete_chain(length);
            assert_eq!(deleted, length);
            assert_eq!(read, length, "one read for each write, whatever the number of look-ups");
        }
    }
}
