//! The cascade of an operation under a model: what follows from the change of one item for others. Each
//! change is given to the maintainers of every relation; what they change is followed in turn, until
//! nothing more follows. How many items one operation changes is bounded.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;

use orrery_modeling::{ElementPath, OnOverflow, Propagate, RelationRule, TypeRule};
use orrery_storage::key;
use orrery_storage::key::{Bounds, Due};
use orrery_types::{Error, Result, Value, limits};

use super::copies::Copies;
use super::kept_on_target::KeptOnTarget;
use super::on_delete::OnTargetDelete;
use crate::item::address::ItemAddress;
use crate::maintain::buckets;
use crate::maintain::deferred;
use crate::maintain::kept_on_target;
use crate::maintain::own_references;
use crate::maintain::references;
use crate::model::ModelTransaction;
use crate::transaction::retry::{ReadPosition, RefusalBasis};
use crate::transaction::write_buffer::ShardIndex;

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

    /// Whether the item was of a type, and whether it is.
    pub(crate) fn is_of(&self, of: &TypeRule) -> (bool, bool) {
        let is = |value: &Option<Value>| {
            value.as_ref().is_some_and(|value| of.matches(&self.address.container.id, value))
        };
        (is(&self.before), is(&self.after))
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

/// Why an item changes.
#[derive(Clone, Copy)]
enum Because {
    /// The client writes it.
    Client,
    /// It refers to an item that is deleted, which is the change at this position.
    TargetDeleted(usize),
    /// Anything else: it follows from more than one item.
    Computed,
}

/// A change of the cascade and its cause.
struct Cause {
    shard: ShardIndex,
    key: Vec<u8>,
    because: Because,
}

/// The cascade of one operation.
pub(crate) struct Cascade<'c, 't, 'e> {
    pub(crate) model: &'c mut ModelTransaction<'t, 'e>,
    /// Where the client's own change was: in its logical partition nothing counts as elsewhere.
    pub(crate) origin: ItemAddress<'e>,
    queue: VecDeque<(usize, ItemChange<'e>)>,
    /// Every change of the cascade, in the order in which they were added to the queue.
    causes: Vec<Cause>,
    /// The change that is followed, by its position among them.
    followed: usize,
    /// What was read before the cascade.
    until: ReadPosition,
    /// For each relation how many items in other logical partitions were changed.
    elsewhere: Vec<usize>,
    changed: usize,
}

/// Adds everything that follows from changes.
pub(crate) fn follow<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    changes: Vec<ItemChange<'e>>,
) -> Result<()> {
    let Some(origin) = changes.first().map(|change| change.address.clone()) else {
        return Ok(());
    };
    let relations = &model.context.model.rules.relations;
    let elsewhere = vec![0; relations.len()];
    let until = ReadPosition::of(model.tx);
    let mut cascade = Cascade {
        model,
        origin,
        queue: VecDeque::new(),
        causes: vec![],
        followed: 0,
        until,
        elsewhere,
        changed: 0,
    };
    for change in changes {
        cascade.add(change, Because::Client);
    }
    while let Some((position, change)) = cascade.queue.pop_front() {
        cascade.followed = position;
        buckets::drop_arrays(cascade.model, &change)?;
        for (index, rule) in relations.iter().enumerate() {
            for maintainer in RELATION_MAINTAINERS {
                maintainer.maintain(RelationRef { index, rule }, &change, &mut cascade)?;
            }
        }
    }
    Ok(())
}

/// All items that refer to one, as they are after this transaction.
pub(crate) fn referrers<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    index: usize,
    address: &ItemAddress<'e>,
) -> Result<Vec<ItemAddress<'e>>> {
    let found = referrers_up_to(model, index, address, limits::MODEL_ITEMS_MAX)?;
    let rule = &model.context.model.rules.relations[index];
    found.ok_or_else(|| too_many(rule, limits::MODEL_ITEMS_MAX))
}

/// The same if they are not more than so many.
pub(crate) fn referrers_up_to<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    index: usize,
    address: &ItemAddress<'e>,
    max: usize,
) -> Result<Option<Vec<ItemAddress<'e>>>> {
    let all = key::references_to(model.context.model.numbers[index], &address.at.key);
    referrers_in(model, index, address, all, max)
}

/// Those of them that share the logical partition of the target, if they are not more than so
/// many.
fn referrers_beside<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    index: usize,
    address: &ItemAddress<'e>,
    max: usize,
) -> Result<Vec<ItemAddress<'e>>> {
    let scope = model.context;
    let rule = &scope.model.rules.relations[index];
    if scope.container_of(rule.from)?.number != address.container.number {
        return Ok(vec![]);
    }
    let mut prefix = key::references_to(scope.model.numbers[index], &address.at.key).from;
    let definition = &address.container.definition.partition_key;
    let effective = definition.effective(&address.at.partition_key);
    prefix.extend(key::items_of(&effective, &address.at.partition_key).from);
    let beside = Bounds::prefix(prefix);
    let mut found = referrers_in(model, index, address, beside, max)?.unwrap_or_default();
    found.retain(|source| source.is_beside(address));
    Ok(found)
}

fn referrers_in<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    index: usize,
    address: &ItemAddress<'e>,
    mut bounds: Bounds,
    max: usize,
) -> Result<Option<Vec<ItemAddress<'e>>>> {
    let scope = model.context;
    let rule = &scope.model.rules.relations[index];
    let sources = model.tx.same(scope.container_of(rule.from)?);
    references::watch_references(model.tx, address)?;
    let mut keys: BTreeSet<Vec<u8>> = BTreeSet::new();
    loop {
        let (page, rest) =
            kept_on_target::reference_page(model, address, bounds, limits::PAGE_ITEMS_MAX)?;
        if page.is_empty() {
            break;
        }
        bounds = rest;
        keys.extend(page);
        if keys.len() > max {
            return Ok(None);
        }
    }
    own_references::apply(model, index, address, &mut keys)?;
    if keys.len() > max {
        return Ok(None);
    }
    let mut addresses = Vec::with_capacity(keys.len());
    for source in &keys {
        // It may have changed since its reference was found. What counts is the item as it was
        // loaded: that version is in the read set.
        if let Some(source) = model.tx.address_of_key(sources, source)?
            && refers(model, rule, &source, address)?
        {
            addresses.push(source);
        }
    }
    Ok(Some(addresses))
}

/// Whether an item, hidden or not, refers to a target by a relation.
fn refers<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    rule: &RelationRule,
    source: &ItemAddress<'e>,
    target: &ItemAddress<'e>,
) -> Result<bool> {
    let shard = model.tx.shard_of(source);
    let Some(value) = model.tx.past_image(shard, &source.at.key)? else { return Ok(false) };
    Ok(!places(model, rule, &value, target)?.is_empty())
}

/// Where in an item the references to another stand; nowhere if it is not of the source type.
pub(crate) fn places<'e>(
    model: &ModelTransaction<'_, 'e>,
    rule: &RelationRule,
    value: &Value,
    address: &ItemAddress<'e>,
) -> Result<Vec<ElementPath>> {
    let from = &model.context.model.rules.types[rule.from];
    if !from.matches(&from.def.container, value) {
        return Ok(vec![]);
    }
    let all = references::references_of(model.tx, model.context, rule, value)?.into_iter();
    let here = all.filter(|(_, to)| to.as_ref().is_some_and(|found| found.is(address)));
    Ok(here.map(|(reference, _)| reference.place).collect())
}

/// The ids of all that refer to an item.
pub(crate) fn true_inverse<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    index: usize,
    address: &ItemAddress<'e>,
) -> Result<Value> {
    let referrers = referrers(model, index, address)?;
    let ids = referrers.iter().map(|source| Value::from(&*source.id())).collect();
    Ok(Value::array(ids))
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
        let relaxed = self.model.tx.options().relaxed;
        let is_sync = rule.propagate() == Propagate::Sync;
        let may_wait = may_follow_later(rule);
        if !may_wait && (rule.same_partition || !relaxed) {
            return referrers(self.model, index, target);
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
            && let Some(sources) = referrers_up_to(self.model, index, target, max)?
        {
            return Ok(sources);
        }
        deferred::put_due(self.model, index, Due::Sources, target)?;
        if rule.same_partition {
            return Ok(vec![]);
        }
        referrers_beside(self.model, index, target, little)
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
        let change = ItemChange::new(address.clone(), Some(before), Some(after));
        self.add(change, Because::Computed);
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
        let because = if may_follow_later(relation.rule) {
            Because::Computed
        } else {
            Because::TargetDeleted(self.followed)
        };
        self.add(ItemChange::new(address, Some(before), None), because);
        Ok(())
    }

    fn add(&mut self, change: ItemChange<'e>, because: Because) {
        let shard = self.model.tx.shard_of(&change.address);
        self.causes.push(Cause { shard, key: change.address.at.key.clone(), because });
        self.queue.push_back((self.causes.len() - 1, change));
    }

    /// The basis of a refusal because of one item that refers to the one whose change is followed: that
    /// item, and the items whose deletions have led to the change. If something else has, it rests on
    /// everything that was read.
    pub(crate) fn refuse_because_of(&mut self, referrer: &ItemAddress<'e>) {
        let shard = self.model.tx.shard_of(referrer);
        let mut items = vec![(shard, referrer.at.key.clone())];
        let mut position = self.followed;
        while let Some(cause) = self.causes.get(position) {
            items.push((cause.shard, cause.key.clone()));
            match cause.because {
                Because::TargetDeleted(earlier) => position = earlier,
                Because::Client => {
                    let basis = RefusalBasis { until: self.until, items };
                    self.model.tx.operation.refuse_because(basis);
                    return;
                }
                Because::Computed => return,
            }
        }
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
            if bound
                && !self.model.tx.options().relaxed
                && self.elsewhere[index] > rule.def.max_fanout
            {
                return Err(over_fanout(rule, rule.def.max_fanout));
            }
        }
        Ok(())
    }
}

/// An item that refers to another and is not hidden, as it is after this transaction. It is looked for
/// among as many as one write may lead to.
pub(super) fn visible_referrer<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    index: usize,
    address: &ItemAddress<'e>,
) -> Result<Option<ItemAddress<'e>>> {
    let scope = model.context;
    let rule = &scope.model.rules.relations[index];
    let sources = model.tx.same(scope.container_of(rule.from)?);
    let mut bounds = key::references_to(scope.model.numbers[index], &address.at.key);
    let mut looked_at = 0;
    while looked_at < limits::MODEL_ITEMS_MAX {
        let (page, rest) =
            kept_on_target::reference_page(model, address, bounds, limits::PAGE_ITEMS_MAX)?;
        if page.is_empty() {
            break;
        }
        bounds = rest;
        looked_at += page.len();
        let mut keys: BTreeSet<Vec<u8>> = page.into_iter().collect();
        own_references::apply(model, index, address, &mut keys)?;
        for source in keys {
            if let Some(source) = model.tx.address_of_key(sources, &source)?
                && !source.is(address)
                && refers(model, rule, &source, address)?
                && model.tx.value_at(&source)?.is_some()
            {
                return Ok(Some(source));
            }
        }
    }
    Ok(None)
}

/// Whether a rule lets changes follow later, and how many there are decides which.
fn may_follow_later(rule: &RelationRule) -> bool {
    rule.propagate() != Propagate::Sync || rule.def.on_overflow == OnOverflow::Async
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
