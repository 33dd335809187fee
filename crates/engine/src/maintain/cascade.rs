//! The cascade of an operation under a model: what follows from the change of one item for others. Each
//! change is given to the maintainers of every relation; what they change is followed in turn, until
//! nothing more follows. How many items one operation changes is bounded.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;

use orrery_modeling::{OnOverflow, Place, Propagate, RelationRule};
use orrery_storage::key;
use orrery_storage::key::{Bounds, Due};
use orrery_types::{Error, Result, Value, limits};

use super::copies::Copies;
use super::kept_on_target::KeptOnTarget;
use super::on_delete::OnTargetDelete;
use crate::item::address::ItemAddress;
use crate::model::ModelTransaction;

/// A change of one item.
pub(crate) struct ItemChange<'e> {
    pub(crate) address: ItemAddress<'e>,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

impl<'e> ItemChange<'e> {
    pub(crate) fn new(
        address: ItemAddress<'e>,
        before: Option<Value>,
        after: Option<Value>,
    ) -> Self {
        Self { address, before, after }
    }
}

/// A relation of the model, by its position.
#[derive(Clone, Copy)]
pub(crate) struct RelationRef<'r> {
    pub(crate) index: usize,
    pub(crate) rule: &'r RelationRule,
}

/// Follows the change of an item in the items at the other end of a relation.
pub(crate) trait RelationMaintainer: Debug + Sync {
    /// Writes what follows from a change, and adds the changes that follow to the cascade.
    fn maintain<'e>(
        &self,
        relation: RelationRef<'_>,
        change: &ItemChange<'e>,
        cascade: &mut Cascade<'_, '_, 'e>,
    ) -> Result<()>;
}

/// The maintainers of a relation, in their order. Of the last two one has something to do: an item that
/// is no longer of the target type is followed as a deletion, any other as a change of what is copied.
pub(crate) const RELATION_MAINTAINERS: [&dyn RelationMaintainer; 3] =
    [&KeptOnTarget, &OnTargetDelete, &Copies];

/// The cascade of one operation.
pub(crate) struct Cascade<'c, 't, 'e> {
    pub(crate) model: &'c mut ModelTransaction<'t, 'e>,
    /// Where the client's own change was: in its logical partition nothing counts as elsewhere.
    pub(crate) origin: ItemAddress<'e>,
    queue: VecDeque<ItemChange<'e>>,
    /// For each relation how many items in other logical partitions were changed.
    elsewhere: Vec<usize>,
    changed: usize,
}

impl<'e> ModelTransaction<'_, 'e> {
    /// Adds everything that follows from changes.
    pub(crate) fn cascade(&mut self, changes: Vec<ItemChange<'e>>) -> Result<()> {
        let Some(origin) = changes.first().map(|change| change.address.clone()) else {
            return Ok(());
        };
        let relations = &self.context.model.rules.relations;
        let elsewhere = vec![0; relations.len()];
        let mut cascade =
            Cascade { model: self, origin, queue: changes.into(), elsewhere, changed: 0 };
        while let Some(change) = cascade.queue.pop_front() {
            cascade.model.drop_arrays(&change)?;
            for (index, rule) in relations.iter().enumerate() {
                for maintainer in RELATION_MAINTAINERS {
                    maintainer.maintain(RelationRef { index, rule }, &change, &mut cascade)?;
                }
            }
        }
        Ok(())
    }

    /// All items that refer to one, as they are after this transaction.
    pub(crate) fn referrers(
        &mut self,
        index: usize,
        address: &ItemAddress<'e>,
    ) -> Result<Vec<ItemAddress<'e>>> {
        let found = self.referrers_up_to(index, address, limits::MODEL_ITEMS_MAX)?;
        let rule = &self.context.model.rules.relations[index];
        found.ok_or_else(|| too_many(rule, limits::MODEL_ITEMS_MAX))
    }

    /// The same if they are not more than so many.
    pub(crate) fn referrers_up_to(
        &mut self,
        index: usize,
        address: &ItemAddress<'e>,
        max: usize,
    ) -> Result<Option<Vec<ItemAddress<'e>>>> {
        let all = key::references_to(self.context.model.numbers[index], &address.at.key);
        self.referrers_in(index, address, all, max)
    }

    /// Those of them that share the logical partition of the target, if they are not more than so
    /// many.
    fn referrers_beside(
        &mut self,
        index: usize,
        address: &ItemAddress<'e>,
        max: usize,
    ) -> Result<Vec<ItemAddress<'e>>> {
        let scope = self.context;
        let rule = &scope.model.rules.relations[index];
        if scope.container_of(rule.from)?.number != address.container.number {
            return Ok(vec![]);
        }
        let mut prefix = key::references_to(scope.model.numbers[index], &address.at.key).from;
        let definition = &address.container.definition.partition_key;
        let effective = definition.effective(&address.at.partition_key);
        prefix.extend(key::items_of(&effective, &address.at.partition_key).from);
        let beside = Bounds::prefix(prefix);
        let mut found = self.referrers_in(index, address, beside, max)?.unwrap_or_default();
        found.retain(|source| source.is_beside(address));
        Ok(found)
    }

    fn referrers_in(
        &mut self,
        index: usize,
        address: &ItemAddress<'e>,
        mut bounds: Bounds,
        max: usize,
    ) -> Result<Option<Vec<ItemAddress<'e>>>> {
        let scope = self.context;
        let rule = &scope.model.rules.relations[index];
        let sources = self.tx.same(scope.container_of(rule.from)?);
        self.tx.watch_references(address)?;
        let mut keys: BTreeSet<Vec<u8>> = BTreeSet::new();
        loop {
            let (page, rest) = self.reference_page(address, bounds, limits::PAGE_ITEMS_MAX)?;
            if page.is_empty() {
                break;
            }
            bounds = rest;
            keys.extend(page);
            if keys.len() > max {
                return Ok(None);
            }
        }
        self.own_references(index, address, &mut keys)?;
        if keys.len() > max {
            return Ok(None);
        }
        let mut addresses = Vec::with_capacity(keys.len());
        for source in &keys {
            // It may have changed since its reference was found. What counts is the item as it was
            // loaded: that version is in the read set.
            if let Some(source) = self.tx.address_of_key(sources, source)?
                && self.refers(rule, &source, address)?
            {
                addresses.push(source);
            }
        }
        Ok(Some(addresses))
    }

    /// Whether an item, hidden or not, refers to a target by a relation.
    fn refers(
        &mut self,
        rule: &RelationRule,
        source: &ItemAddress<'e>,
        target: &ItemAddress<'e>,
    ) -> Result<bool> {
        let shard = self.tx.shard_of(source);
        let Some(value) = self.tx.past_image(shard, &source.at.key)? else { return Ok(false) };
        Ok(!self.places(rule, &value, target)?.is_empty())
    }

    /// Where in an item the references to another stand; nowhere if it is not of the source type.
    pub(crate) fn places(
        &self,
        rule: &RelationRule,
        value: &Value,
        address: &ItemAddress<'e>,
    ) -> Result<Vec<Place>> {
        let from = &self.context.model.rules.types[rule.from];
        if !from.matches(&from.def.container, value) {
            return Ok(vec![]);
        }
        let all = self.tx.references_of(self.context, rule, value)?.into_iter();
        let here = all.filter(|(_, to)| to.as_ref().is_some_and(|found| found.is(address)));
        Ok(here.map(|(reference, _)| reference.place).collect())
    }

    /// What the transaction's own writes change about who refers to an item.
    fn own_references(
        &self,
        index: usize,
        address: &ItemAddress<'e>,
        keys: &mut BTreeSet<Vec<u8>>,
    ) -> Result<()> {
        let scope = self.context;
        let rule = &scope.model.rules.relations[index];
        let from = &scope.model.rules.types[rule.from];
        for (_, shard) in self.tx.writes.shards() {
            if *shard.container.id != *from.def.container {
                continue;
            }
            for entry in shard.items().values().filter(|entry| entry.is_written()) {
                keys.remove(&entry.at.key);
                let value = entry.after().map(|after| &after.value);
                let targets = self.tx.targets_of(scope, rule, shard.container, value)?;
                if targets.iter().any(|found| found.is(address)) {
                    keys.insert(entry.at.key.clone());
                }
            }
        }
        Ok(())
    }

    /// The ids of all that refer to an item.
    pub(crate) fn true_inverse(
        &mut self,
        index: usize,
        address: &ItemAddress<'e>,
    ) -> Result<Value> {
        let referrers = self.referrers(index, address)?;
        let ids = referrers.iter().map(|source| Value::from(&*source.id())).collect();
        Ok(Value::array(ids))
    }
}

impl<'e> Cascade<'_, '_, 'e> {
    /// How many items in other logical partitions a relation has changed.
    pub(crate) fn elsewhere(&self, relation: RelationRef<'_>) -> usize {
        self.elsewhere[relation.index]
    }

    /// The items that follow a target in this commit; that others follow later is written down.
    pub(crate) fn sources(
        &mut self,
        RelationRef { index, rule }: RelationRef<'_>,
        target: &ItemAddress<'e>,
    ) -> Result<Vec<ItemAddress<'e>>> {
        let relaxed = self.model.tx.relaxed;
        let is_sync = rule.propagate() == Propagate::Sync;
        let may_wait = !is_sync || rule.def.on_overflow == OnOverflow::Async;
        if !may_wait && (rule.same_partition || !relaxed) {
            return self.model.referrers(index, target);
        }
        let elsewhere = rule.def.max_fanout.saturating_sub(self.elsewhere[index]);
        let little =
            limits::MODEL_EFFECTS_BESIDE_MAX.saturating_sub(self.model.tx.writes.written());
        // How many may be in this commit, if that is all of them.
        let all = match (rule.same_partition, is_sync) {
            (true, true) => Some(limits::MODEL_ITEMS_MAX.saturating_sub(self.changed)),
            (true, false) => Some(little),
            (false, true) => Some(elsewhere).filter(|_| !relaxed),
            (false, false) => None,
        };
        if let Some(max) = all
            && let Some(sources) = self.model.referrers_up_to(index, target, max)?
        {
            return Ok(sources);
        }
        self.model.put_due(index, Due::Sources, target)?;
        if rule.same_partition {
            return Ok(vec![]);
        }
        self.model.referrers_beside(index, target, little)
    }

    /// Changes an item, and follows that.
    pub(crate) fn put(
        &mut self,
        relation: RelationRef<'_>,
        address: &ItemAddress<'e>,
        before: Value,
        after: Value,
    ) -> Result<()> {
        self.count(relation, address)?;
        self.model.put_derived(address, after.clone())?;
        self.queue.push_back(ItemChange::new(address.clone(), Some(before), Some(after)));
        Ok(())
    }

    /// Deletes an item, and follows that.
    pub(crate) fn delete(
        &mut self,
        relation: RelationRef<'_>,
        address: ItemAddress<'e>,
        before: Value,
    ) -> Result<()> {
        self.count(relation, &address)?;
        self.model.tx.delete_derived(&address)?;
        self.queue.push_back(ItemChange::new(address, Some(before), None));
        Ok(())
    }

    /// Counts a change of another item; too many are refused.
    fn count(
        &mut self,
        RelationRef { index, rule }: RelationRef<'_>,
        address: &ItemAddress<'e>,
    ) -> Result<()> {
        self.changed += 1;
        if self.changed > limits::MODEL_ITEMS_MAX {
            return Err(too_many(rule, self.changed));
        }
        if !address.is_beside(&self.origin) {
            self.elsewhere[index] += 1;
            let bound = bounds_fanout(rule.propagate(), rule.def.on_overflow);
            if bound && !self.model.tx.relaxed && self.elsewhere[index] > rule.def.max_fanout {
                return Err(over_fanout(rule, rule.def.max_fanout));
            }
        }
        Ok(())
    }
}

/// Whether a rule bounds what one write changes elsewhere: what is over the bound of another follows
/// later.
pub(super) fn bounds_fanout(propagate: Propagate, on_overflow: OnOverflow) -> bool {
    propagate == Propagate::Sync && on_overflow == OnOverflow::Fail
}

pub(super) fn over_fanout(rule: &RelationRule, max: usize) -> Error {
    Error::ModelViolated(
        format!(
            "The relation '{}' would change more than {max} items in other partitions (maxFanout). \
             Nothing was written. Under \"onOverflow\":\"async\" they follow later.",
            rule.def.name
        )
        .into(),
    )
}

fn too_many(rule: &RelationRule, count: usize) -> Error {
    Error::ModelViolated(
        format!(
            "The relation '{}' leads to {count} items or more, and one write changes at most {}. \
             Nothing was written. Under \"propagate\":\"async\" or \"onOverflow\":\"async\" they \
             follow later.",
            rule.def.name,
            limits::MODEL_ITEMS_MAX
        )
        .into(),
    )
}
