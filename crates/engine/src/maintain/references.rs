//! The commit of a draft under a model: a part for each shard that it touches, with the references of
//! all its items in the shards of their targets.

use std::collections::BTreeSet;

use orrery_modeling::RelationRule;
use orrery_modeling::reference::Reference;
use orrery_storage::{Part, Put, Space, key};
use orrery_types::{Result, Value};

use crate::Container;
use crate::item::address::ItemAddress;
use crate::model::ModelContext;
use crate::partition::PhysicalPartition;
use crate::transaction::commit::{BeforeImage, UniqueGuard};
use crate::transaction::write_buffer::Draft;

impl<'e> Draft<'e> {
    /// All parts of the commit, that of the draft itself first, and the guards of unique keys in all
    /// of them.
    pub(crate) fn parts(&self) -> Result<(Vec<Part>, Vec<UniqueGuard<'_>>)> {
        let (own, mut guards) = self.part()?;
        let mut parts = vec![own];
        for other in self.model.others.iter().filter(|other| !other.slots.is_empty()) {
            let (part, taken) = other.part()?;
            let number = parts.len();
            guards.extend(taken.into_iter().map(|guard| UniqueGuard { part: number, ..guard }));
            parts.push(part);
        }
        let drafts = || std::iter::once(self).chain(&self.model.others);
        for draft in drafts().filter(|draft| draft.has_read_beside()) {
            draft.check_beside(&mut part_of(&mut parts, draft.partition).checks);
        }
        let Some(scope) = self.model.scope else { return Ok((parts, guards)) };
        for draft in drafts() {
            if !draft.model.kept.is_empty() {
                draft.model.kept.write(part_of(&mut parts, draft.partition));
            }
            // What follows from a write holds no lock of the logical partition that it lands in: the
            // stripe tells those who have read a range there.
            let stripe = |key| draft.slots.get(key).map(|slot| slot.at.stripe());
            let stripes: BTreeSet<u8> = draft.written.iter().filter_map(stripe).collect();
            if !stripes.is_empty() {
                part_of(&mut parts, draft.partition).stripes.extend(stripes);
            }
            for item_key in &draft.written {
                self.reference_entries(scope, draft, item_key, &mut parts)?;
            }
        }
        Ok((parts, guards))
    }

    /// What a written item changes about references: of the image that is stored, and of the new one.
    fn reference_entries(
        &self,
        scope: ModelContext<'e>,
        draft: &Draft<'e>,
        item_key: &[u8],
        parts: &mut Vec<Part>,
    ) -> Result<()> {
        let Some(slot) = draft.slots.get(item_key) else { return Ok(()) };
        let stored = slot.before.as_ref().map(BeforeImage::value).transpose()?;
        let after = slot.after().map(|after| &after.value);
        for (rule, number) in scope.model.rules.relations.iter().zip(&scope.model.numbers) {
            let targets =
                |value: Option<&Value>| self.target_addresses(scope, rule, draft.container, value);
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

    /// The places of all targets of an item.
    pub(crate) fn target_addresses(
        &self,
        scope: ModelContext<'e>,
        rule: &RelationRule,
        container: &Container,
        value: Option<&Value>,
    ) -> Result<Vec<ItemAddress<'e>>> {
        let from = &scope.model.rules.types[rule.from];
        let Some(value) = value.filter(|value| from.matches(&container.id, value)) else {
            return Ok(vec![]);
        };
        let mut addresses: Vec<ItemAddress<'e>> = Vec::new();
        for address in
            self.reference_addresses(rule, value)?.into_iter().filter_map(|(_, address)| address)
        {
            if !addresses.iter().any(|known| known.is(&address)) {
                addresses.push(address);
            }
        }
        Ok(addresses)
    }

    /// Every reference of an item with the place that it leads to, if there can be an item.
    pub(crate) fn reference_addresses(
        &self,
        rule: &RelationRule,
        value: &Value,
    ) -> Result<Vec<(Reference, Option<ItemAddress<'e>>)>> {
        let leads = |reference: Reference| {
            let target = reference.target.as_ref();
            let address = target.map(|target| self.address_of(rule, target)).transpose()?;
            Ok((reference, address.flatten()))
        };
        rule.references(value).into_iter().map(leads).collect()
    }
}

/// Writes a reference and the guard that tells of it.
pub(crate) fn put_reference(part: &mut Part, number: u32, target: &[u8], source: &[u8]) {
    let key = key::reference(number, target, source);
    part.puts.push(Put { space: Space::Index, key, value: vec![] });
    part.puts.push(Put { space: Space::Meta, key: key::guard(target), value: vec![] });
}

pub(crate) fn part_of<'p>(parts: &'p mut Vec<Part>, partition: &PhysicalPartition) -> &'p mut Part {
    let at = parts.iter().position(|part| part.shard == partition.shard).unwrap_or_else(|| {
        parts.push(Part::new(partition.shard, partition.epoch));
        parts.len() - 1
    });
    &mut parts[at]
}
