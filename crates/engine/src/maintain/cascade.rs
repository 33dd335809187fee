//! What follows from a change of one item for others: what is kept on the targets of its references,
//! and what becomes of the items that refer to it. Each change that follows is followed in turn.

use std::collections::{BTreeSet, VecDeque};

use orrery_modeling::reference::Target;
use orrery_modeling::{
    AggregateRule, Inverse, OnDelete, OnOverflow, Place, Propagate, RelationRule,
};
use orrery_storage::key::{Bounds, Due};
use orrery_storage::{Space, key};
use orrery_types::{Error, Result, Value, limits};

use super::kept_on_target::Change;
use crate::item::address::ItemAddress;
use crate::model::rules::is_displaced;
use crate::transaction::write_buffer::Draft;

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

/// The cascade of one operation: changes are followed until nothing more follows.
struct Cascade<'w, 'e> {
    draft: &'w mut Draft<'e>,
    /// Where the client's own change was: beside it nothing counts as elsewhere.
    origin: ItemAddress<'e>,
    queue: VecDeque<ItemChange<'e>>,
    /// For each relation how many items elsewhere were changed.
    elsewhere: Vec<usize>,
    changed: usize,
}

impl<'e> Draft<'e> {
    /// Adds everything that follows from changes.
    pub(crate) fn cascade(&mut self, item_changes: Vec<ItemChange<'e>>) -> Result<()> {
        let Some(scope) = self.model.scope else { return Ok(()) };
        let Some(origin) = item_changes.first().map(|item_change| item_change.address.clone())
        else {
            return Ok(());
        };
        let elsewhere = vec![0; scope.model.rules.relations.len()];
        let queue = item_changes.into();
        let mut cascade = Cascade { draft: self, origin, queue, elsewhere, changed: 0 };
        while let Some(item_change) = cascade.queue.pop_front() {
            cascade.draft.drop_arrays(&item_change)?;
            for (index, rule) in scope.model.rules.relations.iter().enumerate() {
                cascade.as_source(index, rule, &item_change)?;
                cascade.as_target(index, rule, &item_change)?;
            }
        }
        Ok(())
    }

    /// All items that refer to one, as they are after this draft.
    pub(crate) fn referrers(
        &mut self,
        index: usize,
        address: &ItemAddress<'e>,
    ) -> Result<Vec<ItemAddress<'e>>> {
        let Some(scope) = self.model.scope else { return Ok(vec![]) };
        let found = self.referrers_up_to(index, address, limits::MODEL_ITEMS_MAX)?;
        found.ok_or_else(|| too_many(&scope.model.rules.relations[index], limits::MODEL_ITEMS_MAX))
    }

    /// The same if they are not more than so many.
    pub(crate) fn referrers_up_to(
        &mut self,
        index: usize,
        address: &ItemAddress<'e>,
        max: usize,
    ) -> Result<Option<Vec<ItemAddress<'e>>>> {
        let Some(scope) = self.model.scope else { return Ok(None) };
        let all = key::references_to(scope.model.numbers[index], &address.at.key);
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
        let Some(scope) = self.model.scope else { return Ok(vec![]) };
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
        let Some(scope) = self.model.scope else { return Ok(None) };
        let rule = &scope.model.rules.relations[index];
        let sources = self.same(scope.container_of(rule.from)?);
        self.watch(address)?;
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
            if let Some(source) = self.address_of_key(sources, source)?
                && self.refers(rule, &source, address)?
            {
                addresses.push(source);
            }
        }
        Ok(Some(addresses))
    }

    /// Whether the item at a address, hidden or not, refers to a target by a relation.
    fn refers(
        &mut self,
        rule: &RelationRule,
        source: &ItemAddress<'e>,
        target: &ItemAddress<'e>,
    ) -> Result<bool> {
        let draft = self.beside(source.container, source.at.partition);
        let Some(value) = draft.past_image(&source.at.key)? else { return Ok(false) };
        Ok(!self.places(rule, &value, target)?.is_empty())
    }

    /// An item with the copies beside its references to a target put to these values.
    pub(crate) fn with_copies(
        &self,
        rule: &RelationRule,
        value: &Value,
        target: &ItemAddress<'e>,
        copies: &[Value],
    ) -> Result<Value> {
        let mut kept = value.clone();
        for place in self.places(rule, value, target)? {
            for ((path, _), copy) in rule.copies.iter().zip(copies) {
                path.set(&mut kept, &place, copy.clone());
            }
        }
        Ok(kept)
    }

    /// An item after the end of a target to which it refers; `None` if that is its end too.
    pub(crate) fn without_target(
        &self,
        rule: &RelationRule,
        value: &Value,
        target: &ItemAddress<'e>,
    ) -> Result<Option<Value>> {
        let mut kept = value.clone();
        let places = self.places(rule, value, target)?;
        if places.is_empty() {
            return Ok(Some(kept));
        }
        match rule.def.on_delete {
            OnDelete::Keep | OnDelete::Restrict => {}
            OnDelete::Cascade => return Ok(None),
            OnDelete::Pull => rule.def.path.pull(&mut kept, &places),
            OnDelete::Unset => {
                for place in &places {
                    rule.def.path.set(&mut kept, place, Value::Undefined);
                    for (path, _) in &rule.copies {
                        path.set(&mut kept, place, Value::Undefined);
                    }
                }
            }
        }
        Ok(Some(kept))
    }

    /// Where in an item the references to another stand; nowhere if it is not of the source type.
    fn places(
        &self,
        rule: &RelationRule,
        value: &Value,
        address: &ItemAddress<'e>,
    ) -> Result<Vec<Place>> {
        let Some(scope) = self.model.scope else { return Ok(vec![]) };
        let from = &scope.model.rules.types[rule.from];
        if !from.matches(&from.def.container, value) {
            return Ok(vec![]);
        }
        let all = self.reference_addresses(rule, value)?.into_iter();
        let here = all.filter(|(_, to)| to.as_ref().is_some_and(|found| found.is(address)));
        Ok(here.map(|(reference, _)| reference.place).collect())
    }

    /// The commit holds only if no reference to the item has come since now.
    pub(crate) fn watch(&mut self, address: &ItemAddress<'e>) -> Result<()> {
        let draft = self.beside(address.container, address.at.partition);
        let key = key::guard(&address.at.key);
        if !draft.model.guards.contains_key(&key) {
            let found = draft.stored(address.at.partition.shard, Space::Meta, &key)?;
            let version = found.map(|value| value.version);
            draft.model.guards.insert(key, version);
        }
        Ok(())
    }

    /// What the draft's own writes change about who refers to an item.
    fn own_references(
        &self,
        index: usize,
        address: &ItemAddress<'e>,
        keys: &mut BTreeSet<Vec<u8>>,
    ) -> Result<()> {
        let Some(scope) = self.model.scope else { return Ok(()) };
        let rule = &scope.model.rules.relations[index];
        let from = &scope.model.rules.types[rule.from];
        for draft in std::iter::once(self).chain(&self.model.others) {
            if *draft.container.id != *from.def.container {
                continue;
            }
            for item_key in &draft.written {
                keys.remove(item_key);
                let value = draft.image(item_key)?;
                let targets =
                    self.target_addresses(scope, rule, draft.container, value.as_ref())?;
                if targets.iter().any(|found| found.is(address)) {
                    keys.insert(item_key.clone());
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
        let ids = self
            .referrers(index, address)?
            .iter()
            .map(|source| Value::from(&*source.id()))
            .collect();
        Ok(Value::array(ids))
    }
}

impl<'e> Cascade<'_, 'e> {
    /// The item is of the source type, or was: what is kept on its targets follows.
    fn as_source(
        &mut self,
        index: usize,
        rule: &RelationRule,
        item_change: &ItemChange<'e>,
    ) -> Result<()> {
        let Some(scope) = self.draft.model.scope else { return Ok(()) };
        let source = &item_change.address;
        let rules = &scope.model.rules;
        let aggregates: Vec<&AggregateRule> =
            rules.aggregates.iter().filter(|a| a.relation == index).map(|a| &**a).collect();
        let store = rule.def.inverse.as_ref().filter(|inverse| inverse.store.is_some());
        let building = scope.model.is_building(index);
        if aggregates.is_empty() && store.is_none() && !building {
            return Ok(());
        }
        let from = &rules.types[rule.from];
        let image = |value: &Option<Value>| {
            value.clone().filter(|value| from.matches(&source.container.id, value))
        };
        let (before, after) = (image(&item_change.before), image(&item_change.after));
        let targets =
            |item: &Option<Value>| item.as_ref().map(|i| rule.targets(i)).unwrap_or_default();
        let (old, new) = (targets(&before), targets(&after));
        let mut all: Vec<Target> = old.clone();
        all.extend(new.iter().filter(|t| !old.contains(t)).cloned());
        for target in all {
            let Some(address) = self.draft.address_of(rule, &target)? else { continue };
            let (mut was, is) = (old.contains(&target), new.contains(&target));
            if building {
                was = self.draft.enter(scope.model.numbers[index], &address, source, (was, is))?;
            }
            let mut now = Vec::new();
            for aggregate in &aggregates {
                let side = |held: bool, item: &Option<Value>| {
                    let item = item.as_ref().filter(|_| held);
                    item.map_or(Value::Undefined, |item| aggregate.argument.value(item))
                };
                let (old, new) = (side(was, &before), side(is, &after));
                let change = Change { old, new };
                if change.old == change.new {
                    continue;
                }
                if self.is_later(index, aggregate, &address) {
                    self.draft.keep_later(scope, aggregate, &address, source, &change)?;
                } else {
                    self.draft.keep_beside(scope, aggregate, &address, source, &change)?;
                    now.push((*aggregate, change));
                }
            }
            let inverse = store.filter(|_| was != is);
            if now.is_empty() && inverse.is_none() {
                continue;
            }
            let Some(value) = self.draft.target_at(rule, &address)? else { continue };
            let mut kept = value.clone();
            for (aggregate, change) in &now {
                let path = &aggregate.def.path;
                let stored = path.get(&kept, &[]).clone();
                if is_displaced(&stored, &Value::Null) {
                    // It stood there before the rule, which is being built: it is left as it is.
                    continue;
                }
                let draft = &mut *self.draft;
                let truth = draft.aggregate_after(scope, aggregate, &address, &stored, change)?;
                path.set(&mut kept, &[], truth);
            }
            if let Some(inverse) = inverse {
                let full = keep_inverse(inverse, &source.id(), is, &mut kept);
                if full && !self.draft.model.relaxed {
                    return Err(inverse_full(inverse));
                }
                if full {
                    // Nobody can be refused: it is noted.
                    let note = key::violation(scope.model.numbers[index], &address.at.key);
                    let draft = self.draft.beside(address.container, address.at.partition);
                    draft.model.kept.notes.insert(note);
                }
            }
            if kept != value {
                let bound = |a: &AggregateRule| bounds(a.def.propagate, a.def.on_overflow);
                let bound = now.iter().map(|(a, _)| *a).filter(|a| bound(a));
                self.limit(index, rule, bound.map(|a| a.def.max_fanout).min(), &address)?;
                self.put(index, rule, &address, value, kept)?;
            }
        }
        Ok(())
    }

    /// Whether a change reaches a target's aggregate later.
    fn is_later(&self, index: usize, aggregate: &AggregateRule, target: &ItemAddress<'e>) -> bool {
        aggregate.may_follow()
            && !target.is_beside(&self.origin)
            && (aggregate.def.propagate == Propagate::Async
                || self.elsewhere[index] >= aggregate.def.max_fanout)
    }

    /// An aggregate may allow fewer changes elsewhere than its relation.
    fn limit(
        &self,
        index: usize,
        rule: &RelationRule,
        max: Option<usize>,
        address: &ItemAddress<'e>,
    ) -> Result<()> {
        match max {
            Some(max)
                if !self.draft.model.relaxed
                    && !address.is_beside(&self.origin)
                    && self.elsewhere[index] >= max =>
            {
                Err(over_fanout(rule, max))
            }
            _ => Ok(()),
        }
    }

    /// The item is of the target type, or was: those that refer to it follow.
    fn as_target(
        &mut self,
        index: usize,
        rule: &RelationRule,
        item_change: &ItemChange<'e>,
    ) -> Result<()> {
        let Some(scope) = self.draft.model.scope else { return Ok(()) };
        let to = &scope.model.rules.types[rule.to];
        let is = |value: &Option<Value>| {
            value.as_ref().is_some_and(|value| to.matches(&item_change.address.container.id, value))
        };
        let (was, now) = (is(&item_change.before), is(&item_change.after));
        if was && !now {
            return self.gone(index, rule, &item_change.address);
        }
        if !now || rule.copies.is_empty() {
            return Ok(());
        }
        let copies = |value: &Option<Value>| -> Vec<Value> {
            let of = |item: &Value| rule.copies.iter().map(|(_, copy)| copy.value(item)).collect();
            value.as_ref().map(of).unwrap_or_default()
        };
        let after = copies(&item_change.after);
        if was && copies(&item_change.before) == after {
            return Ok(());
        }
        for source in self.sources(index, rule, &item_change.address)? {
            let Some(value) = self.draft.value_at(&source)? else { continue };
            let kept = self.draft.with_copies(rule, &value, &item_change.address, &after)?;
            if kept != value {
                self.put(index, rule, &source, value, kept)?;
            }
        }
        Ok(())
    }

    /// The items that follow a target in this commit; that others follow later is written down.
    fn sources(
        &mut self,
        index: usize,
        rule: &RelationRule,
        target: &ItemAddress<'e>,
    ) -> Result<Vec<ItemAddress<'e>>> {
        let is_sync = rule.propagate() == Propagate::Sync;
        let may_wait = !is_sync || rule.def.on_overflow == OnOverflow::Async;
        if !may_wait && (rule.same_partition || !self.draft.model.relaxed) {
            return self.draft.referrers(index, target);
        }
        let elsewhere = rule.def.max_fanout.saturating_sub(self.elsewhere[index]);
        let little = limits::MODEL_EFFECTS_BESIDE_MAX.saturating_sub(self.draft.changes());
        // How many may be in this commit, if that is all of them.
        let all = match (rule.same_partition, is_sync) {
            (true, true) => Some(limits::MODEL_ITEMS_MAX.saturating_sub(self.changed)),
            (true, false) => Some(little),
            (false, true) => Some(elsewhere).filter(|_| !self.draft.model.relaxed),
            (false, false) => None,
        };
        if let Some(max) = all
            && let Some(sources) = self.draft.referrers_up_to(index, target, max)?
        {
            return Ok(sources);
        }
        self.draft.put_due(index, Due::Sources, target)?;
        if rule.same_partition {
            return Ok(vec![]);
        }
        self.draft.referrers_beside(index, target, little)
    }

    /// A target is gone.
    fn gone(&mut self, index: usize, rule: &RelationRule, address: &ItemAddress<'e>) -> Result<()> {
        if rule.def.on_delete == OnDelete::Keep {
            return Ok(());
        }
        self.draft.must_reach_sources(index, rule, address, &self.origin)?;
        if rule.def.on_delete == OnDelete::Restrict {
            let found = self.draft.referrers_up_to(index, address, limits::MODEL_ITEMS_MAX)?;
            let Some(found) = found else { return Err(still_referenced(rule, &[])) };
            let mut seen = Vec::new();
            for source in found {
                if !source.is(address) && self.draft.value_at(&source)?.is_some() {
                    seen.push(source);
                }
            }
            return if seen.is_empty() { Ok(()) } else { Err(still_referenced(rule, &seen)) };
        }
        let mut sources = self.sources(index, rule, address)?;
        sources.retain(|source| !source.is(address));
        for source in sources {
            let Some(value) = self.draft.value_at(&source)? else { continue };
            match self.draft.without_target(rule, &value, address)? {
                Some(kept) if kept == value => {}
                Some(kept) => self.put(index, rule, &source, value, kept)?,
                None => {
                    self.count(index, rule, &source)?;
                    self.draft.delete_derived(&source)?;
                    self.queue.push_back(ItemChange::new(source, Some(value), None));
                }
            }
        }
        Ok(())
    }

    fn put(
        &mut self,
        index: usize,
        rule: &RelationRule,
        address: &ItemAddress<'e>,
        before: Value,
        after: Value,
    ) -> Result<()> {
        self.count(index, rule, address)?;
        self.draft.put_derived(address, after.clone())?;
        self.queue.push_back(ItemChange::new(address.clone(), Some(before), Some(after)));
        Ok(())
    }

    /// Counts a change of another item; too many are refused.
    fn count(
        &mut self,
        index: usize,
        rule: &RelationRule,
        address: &ItemAddress<'e>,
    ) -> Result<()> {
        self.changed += 1;
        if self.changed > limits::MODEL_ITEMS_MAX {
            return Err(too_many(rule, self.changed));
        }
        if !address.is_beside(&self.origin) {
            self.elsewhere[index] += 1;
            let bound = bounds(rule.propagate(), rule.def.on_overflow);
            if bound && !self.draft.model.relaxed && self.elsewhere[index] > rule.def.max_fanout {
                return Err(over_fanout(rule, rule.def.max_fanout));
            }
        }
        Ok(())
    }
}

/// Whether a rule bounds what one write changes elsewhere: what is over the bound of another follows
/// later.
fn bounds(propagate: Propagate, on_overflow: OnOverflow) -> bool {
    propagate == Propagate::Sync && on_overflow == OnOverflow::Fail
}

/// Adds or removes an id of a stored inverse; whether there are too many now.
fn keep_inverse(inverse: &Inverse, id: &str, added: bool, kept: &mut Value) -> bool {
    let Some(path) = &inverse.store else { return false };
    if is_displaced(path.get(kept, &[]), &Value::Null) {
        return false;
    }
    let mut ids: Vec<Value> = path.get(kept, &[]).as_array().unwrap_or_default().to_vec();
    if added {
        ids.push(id.into());
    } else if let Some(at) = ids.iter().position(|known| known.as_str() == Some(id)) {
        ids.remove(at);
    }
    let full = added && ids.len() > inverse.max_items;
    path.set(kept, &[], Value::array(ids));
    full
}

fn inverse_full(inverse: &Inverse) -> Error {
    let path = inverse.store.as_ref().map(ToString::to_string).unwrap_or_default();
    Error::ModelViolated(
        format!(
            "'{path}' already has {} ids, the most that the inverse '{}' may hold (maxItems). \
             Nothing was written.",
            inverse.max_items, inverse.name
        )
        .into(),
    )
}

fn over_fanout(rule: &RelationRule, max: usize) -> Error {
    Error::ModelViolated(
        format!(
            "The relation '{}' would change more than {max} items in other partitions (maxFanout). \
             Nothing was written. Under \"onOverflow\":\"async\" they follow later.",
            rule.def.name
        )
        .into(),
    )
}

fn still_referenced(rule: &RelationRule, sources: &[ItemAddress<'_>]) -> Error {
    let mut ids: Vec<String> = sources.iter().map(|source| source.id().into_string()).collect();
    ids.sort_unstable();
    ids.truncate(limits::MODEL_HOLDERS_MAX);
    let more = match sources.len().saturating_sub(ids.len()) {
        0 if sources.is_empty() => format!("more than {} items", limits::MODEL_ITEMS_MAX),
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Error::StillReferenced(
        format!(
            "Items of type '{}' refer to it by '{}' (relation '{}', onDelete restrict): {}{more}.",
            rule.def.from,
            rule.def.path,
            rule.def.name,
            ids.join(", ")
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
