//! References: an entry in the shard of the target for every item that refers to it, so that all that refer
//! to an item are one range of its own shard; and a guard beside the target, which every new reference
//! writes, so that a transaction that has read the range can require that none has come.

use std::collections::BTreeSet;

use orrery_modeling::RelationRule;
use orrery_modeling::reference::{Reference, ReferenceTarget};
use orrery_storage::{Part, Put, Space, key};
use orrery_types::{Result, Value};

use crate::Container;
use crate::item::address::{ItemAddress, ItemKey};
use crate::item::image::BeforeImage;
use crate::model::ModelContext;
use crate::transaction::commit::part_of;
use crate::transaction::reads::ConflictReason;
use crate::transaction::state::TransactionState;
use crate::transaction::write_buffer::{ItemEntry, ShardWrites};

/// Adds to a commit what the written items of a shard change about references.
pub(crate) fn put_references<'e>(
    tx: &TransactionState<'e>,
    model: ModelContext<'e>,
    shard: &ShardWrites<'e>,
    parts: &mut Vec<Part>,
) -> Result<()> {
    for entry in shard.written() {
        put_references_of(tx, model, shard.container, entry, parts)?;
    }
    Ok(())
}

/// Of one item: by the image that is stored, and by the new one.
fn put_references_of<'e>(
    tx: &TransactionState<'e>,
    model: ModelContext<'e>,
    container: &Container,
    entry: &ItemEntry<'e>,
    parts: &mut Vec<Part>,
) -> Result<()> {
    let item_key = &entry.at.key;
    let stored = entry.before.as_ref().map(BeforeImage::value).transpose()?;
    let after = entry.after().map(|after| &after.value);
    for (rule, number) in model.model.rules.relations.iter().zip(&model.model.numbers) {
        let targets = |value: Option<&Value>| targets_of(tx, model, rule, container, value);
        let (old, new) = (targets(stored)?, targets(after)?);
        let keys: BTreeSet<&[u8]> = new.iter().map(|address| &*address.at.key).collect();
        let known: BTreeSet<&[u8]> = old.iter().map(|address| &*address.at.key).collect();
        for address in old.iter().filter(|address| !keys.contains(&*address.at.key)) {
            let entry = key::reference(*number, &address.at.key, item_key);
            part_of(parts, address.at.partition).deletes.push((Space::Index, entry));
        }
        for address in new.iter().filter(|address| !known.contains(&*address.at.key)) {
            let part = part_of(parts, address.at.partition);
            put_reference(part, *number, &address.at.key, item_key);
        }
    }
    Ok(())
}

/// The addresses of all targets of an item.
pub(crate) fn targets_of<'e>(
    tx: &TransactionState<'e>,
    model: ModelContext<'e>,
    rule: &RelationRule,
    container: &Container,
    value: Option<&Value>,
) -> Result<Vec<ItemAddress<'e>>> {
    let from = &model.model.rules.types[rule.from];
    let Some(value) = value.filter(|value| from.matches(&container.id, value)) else {
        return Ok(vec![]);
    };
    let mut addresses: Vec<ItemAddress<'e>> = Vec::new();
    let found = references_of(tx, model, rule, value)?;
    for address in found.into_iter().filter_map(|(_, address)| address) {
        if !addresses.iter().any(|known| known.is(&address)) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

/// Every reference of an item with the address that it leads to, if there can be an item.
pub(crate) fn references_of<'e>(
    tx: &TransactionState<'e>,
    model: ModelContext<'e>,
    rule: &RelationRule,
    value: &Value,
) -> Result<Vec<(Reference, Option<ItemAddress<'e>>)>> {
    let leads = |reference: Reference| {
        let target = reference.target.as_ref();
        let address = target.map(|target| target_address(tx, model, rule, target)).transpose()?;
        Ok((reference, address.flatten()))
    };
    rule.references(value).into_iter().map(leads).collect()
}

/// Where the target of a reference lies; `None` if no item can have such an id.
pub(crate) fn target_address<'e>(
    tx: &TransactionState<'e>,
    model: ModelContext<'e>,
    rule: &RelationRule,
    target: &ReferenceTarget,
) -> Result<Option<ItemAddress<'e>>> {
    let container = tx.same(model.container_of(rule.to)?);
    let definition = &container.definition.partition_key;
    let partition_key = definition.normalize(target.partition_key.clone());
    let at = ItemKey::of(container, partition_key, &target.id).ok();
    Ok(at.map(|at| ItemAddress { container, at }))
}

/// Reads the guard of an item: the commit holds only if no reference to it has come since now.
pub(crate) fn watch_references<'e>(
    tx: &mut TransactionState<'e>,
    address: &ItemAddress<'e>,
) -> Result<()> {
    let shard = tx.shard_of(address);
    let key = key::guard(&address.at.key);
    if !tx.reads.contains(shard, Space::Meta, &key) {
        let found = tx.view().get(address.at.partition.shard, Space::Meta, &key)?;
        let version = found.map(|value| value.version);
        tx.reads.add(shard, Space::Meta, key, version, ConflictReason::ReferenceAdded);
    }
    Ok(())
}

/// Writes a reference and the guard that tells of it.
fn put_reference(part: &mut Part, number: u32, target: &[u8], source: &[u8]) {
    let key = key::reference(number, target, source);
    part.puts.push(Put { space: Space::Index, key, value: vec![] });
    part.puts.push(Put { space: Space::Meta, key: key::guard(target), value: vec![] });
}
