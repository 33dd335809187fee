//! What follows from a change of one item for others: what is kept on the targets of its references,
//! and what becomes of the items that refer to it. Each change that follows is followed in turn.

use std::collections::{BTreeSet, VecDeque};

use orrery_modeling::reference::Target;
use orrery_modeling::{
    AggregateKind, AggregateRule, OnDelete, OnOverflow, Place, Propagate, RelationRule,
};
use orrery_storage::{ReadAt, Scan, Space, key};
use orrery_types::{Error, Result, Value, limits};

use super::spot::Spot;
use crate::draft::Draft;
use crate::storage_error::storage;

/// A change of one item.
pub(crate) struct Event<'e> {
    spot: Spot<'e>,
    before: Option<Value>,
    after: Option<Value>,
}

impl<'e> Event<'e> {
    pub(crate) fn new(spot: Spot<'e>, before: Option<Value>, after: Option<Value>) -> Self {
        Self { spot, before, after }
    }
}

/// Follows changes until nothing more follows.
struct Wave<'w, 'e> {
    draft: &'w mut Draft<'e>,
    /// Where the client's own change was: beside it nothing counts as elsewhere.
    origin: Spot<'e>,
    queue: VecDeque<Event<'e>>,
    /// For each relation how many items elsewhere were changed.
    elsewhere: Vec<usize>,
    changed: usize,
}

impl<'e> Draft<'e> {
    /// Adds everything that follows from changes.
    pub(crate) fn follow(&mut self, events: Vec<Event<'e>>) -> Result<()> {
        let Some(scope) = self.model.scope else { return Ok(()) };
        let Some(origin) = events.first().map(|event| event.spot.clone()) else { return Ok(()) };
        let elsewhere = vec![0; scope.model.rules.relations.len()];
        let queue = events.into();
        let mut wave = Wave { draft: self, origin, queue, elsewhere, changed: 0 };
        while let Some(event) = wave.queue.pop_front() {
            for (index, rule) in scope.model.rules.relations.iter().enumerate() {
                wave.as_source(index, rule, &event)?;
                wave.as_target(index, rule, &event)?;
            }
        }
        Ok(())
    }

    /// All items that refer to one, as they are after this draft.
    pub(crate) fn referrers(&mut self, index: usize, spot: &Spot<'e>) -> Result<Vec<Spot<'e>>> {
        let Some(scope) = self.model.scope else { return Ok(vec![]) };
        let rule = &scope.model.rules.relations[index];
        let number = scope.model.numbers[index];
        let sources = self.same(scope.container_of(rule.from)?);
        self.watch(spot)?;
        let mut keys: BTreeSet<Vec<u8>> = BTreeSet::new();
        let mut bounds = key::references_to(number, &spot.at.key);
        let snapshot = self.engine.store.snapshot(spot.at.partition.shard, ReadAt::Latest);
        let snapshot = snapshot.map_err(storage)?;
        loop {
            let scan = Scan {
                space: Space::Index,
                from: &bounds.from,
                to: &bounds.to,
                reverse: false,
                max_rows: limits::PAGE_ITEMS_MAX,
                max_bytes: usize::MAX,
                keys_only: true,
            };
            let entries = snapshot.scan(&scan).map_err(storage)?;
            let Some(last) = entries.last() else { break };
            for entry in &entries {
                if let Some(found) = key::parse_reference(&entry.key) {
                    keys.insert(found.source.to_vec());
                }
            }
            if keys.len() > limits::MODEL_ITEMS_MAX {
                return Err(too_many(rule, keys.len()));
            }
            bounds = bounds.after(&last.key);
        }
        drop(snapshot);
        self.own_references(index, spot, &mut keys)?;
        let spots = keys.iter().map(|source| self.spot_of_key(sources, source));
        let spots = spots.collect::<Result<Vec<_>>>()?;
        Ok(spots.into_iter().flatten().collect())
    }

    /// The commit holds only if no reference to the item has come since now.
    fn watch(&mut self, spot: &Spot<'e>) -> Result<()> {
        let draft = self.beside(spot.container, spot.at.partition);
        let key = key::guard(&spot.at.key);
        if !draft.model.guards.contains_key(&key) {
            let found = draft.engine.store.get(spot.at.partition.shard, Space::Meta, &key);
            let version = found.map_err(storage)?.1.map(|value| value.version);
            draft.model.guards.insert(key, version);
        }
        Ok(())
    }

    /// What the draft's own writes change about who refers to an item.
    fn own_references(
        &self,
        index: usize,
        spot: &Spot<'e>,
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
                let Some(value) = draft.image(item_key)? else { continue };
                if !from.matches(&draft.container.id, &value) {
                    continue;
                }
                for target in rule.targets(&value) {
                    if self.spot_of(rule, &target)?.is_some_and(|found| found.is(spot)) {
                        keys.insert(item_key.clone());
                    }
                }
            }
        }
        Ok(())
    }

    /// The ids of all that refer to an item.
    pub(crate) fn true_inverse(&mut self, index: usize, spot: &Spot<'e>) -> Result<Value> {
        let ids =
            self.referrers(index, spot)?.iter().map(|source| Value::from(&*source.id())).collect();
        Ok(Value::array(ids))
    }

    /// The aggregate over all that refer to an item.
    pub(crate) fn true_aggregate(
        &mut self,
        aggregate: &AggregateRule,
        spot: &Spot<'e>,
    ) -> Result<Value> {
        let mut count = 0;
        for source in self.referrers(aggregate.relation, spot)? {
            // One that is hidden counts until it is removed.
            let draft = self.beside(source.container, source.at.partition);
            let value = draft.past_image(&source.at.key)?;
            count += value.map_or(0, |value| contribution(aggregate, Some(&value)));
        }
        Ok(Value::from(count))
    }
}

/// What an item adds to an aggregate.
fn contribution(aggregate: &AggregateRule, item: Option<&Value>) -> i64 {
    match aggregate.def.kind {
        AggregateKind::Count => {
            i64::from(item.is_some_and(|item| !aggregate.argument.value(item).is_undefined()))
        }
        // Refused when the model is stored.
        AggregateKind::Sum | AggregateKind::Avg | AggregateKind::Min | AggregateKind::Max => 0,
    }
}

impl<'e> Wave<'_, 'e> {
    /// The item is of the source type, or was: what is kept on its targets follows.
    fn as_source(&mut self, index: usize, rule: &RelationRule, event: &Event<'e>) -> Result<()> {
        let Some(scope) = self.draft.model.scope else { return Ok(()) };
        let rules = &scope.model.rules;
        let aggregates: Vec<&AggregateRule> =
            rules.aggregates.iter().filter(|a| a.relation == index).map(|a| &**a).collect();
        let store = rule.def.inverse.as_ref().filter(|inverse| inverse.store.is_some());
        if aggregates.is_empty() && store.is_none() {
            return Ok(());
        }
        let from = &rules.types[rule.from];
        let image = |value: &Option<Value>| {
            value.clone().filter(|value| from.matches(&event.spot.container.id, value))
        };
        let (before, after) = (image(&event.before), image(&event.after));
        let targets =
            |item: &Option<Value>| item.as_ref().map(|i| rule.targets(i)).unwrap_or_default();
        let (old, new) = (targets(&before), targets(&after));
        let mut all: Vec<Target> = old.clone();
        all.extend(new.iter().filter(|t| !old.contains(t)).cloned());
        for target in all {
            let (was, is) = (old.contains(&target), new.contains(&target));
            let Some(spot) = self.draft.spot_of(rule, &target)? else { continue };
            let Some(value) = self.draft.target_at(rule, &spot)? else { continue };
            let mut kept = value.clone();
            for aggregate in &aggregates {
                let side = |held: bool, item: &Option<Value>| {
                    if held { contribution(aggregate, item.as_ref()) } else { 0 }
                };
                let delta = side(is, &after) - side(was, &before);
                let path = &aggregate.def.path;
                let stored = path.get(&kept, &[]).as_i64().unwrap_or(0);
                if delta != 0 {
                    path.set(&mut kept, &[], Value::from(stored + delta));
                }
            }
            if let (Some(inverse), true) = (store, was != is) {
                keep_inverse(inverse, &event.spot.id(), is, &mut kept)?;
            }
            if kept != value {
                let bound = |a: &&AggregateRule| bounds(a.def.propagate, a.def.on_overflow);
                let max =
                    aggregates.iter().copied().filter(|a| bound(a)).map(|a| a.def.max_fanout).min();
                self.limit(index, rule, max, &spot)?;
                self.put(index, rule, &spot, value, kept)?;
            }
        }
        Ok(())
    }

    /// An aggregate may allow fewer changes elsewhere than its relation.
    fn limit(
        &self,
        index: usize,
        rule: &RelationRule,
        max: Option<usize>,
        spot: &Spot<'e>,
    ) -> Result<()> {
        match max {
            Some(max) if !spot.is_beside(&self.origin) && self.elsewhere[index] >= max => {
                Err(over_fanout(rule, max))
            }
            _ => Ok(()),
        }
    }

    /// The item is of the target type, or was: those that refer to it follow.
    fn as_target(&mut self, index: usize, rule: &RelationRule, event: &Event<'e>) -> Result<()> {
        let Some(scope) = self.draft.model.scope else { return Ok(()) };
        let to = &scope.model.rules.types[rule.to];
        let is = |value: &Option<Value>| {
            value.as_ref().is_some_and(|value| to.matches(&event.spot.container.id, value))
        };
        let (was, now) = (is(&event.before), is(&event.after));
        if was && !now {
            return self.gone(index, rule, &event.spot);
        }
        if !now || rule.copies.is_empty() {
            return Ok(());
        }
        let copies = |value: &Option<Value>| -> Vec<Value> {
            let of = |item: &Value| rule.copies.iter().map(|(_, copy)| copy.value(item)).collect();
            value.as_ref().map(of).unwrap_or_default()
        };
        let after = copies(&event.after);
        if was && copies(&event.before) == after {
            return Ok(());
        }
        for source in self.draft.referrers(index, &event.spot)? {
            let Some(value) = self.draft.value_at(&source)? else { continue };
            let mut kept = value.clone();
            for place in self.places(rule, &value, &event.spot)? {
                for ((path, _), copy) in rule.copies.iter().zip(&after) {
                    path.set(&mut kept, &place, copy.clone());
                }
            }
            if kept != value {
                self.put(index, rule, &source, value, kept)?;
            }
        }
        Ok(())
    }

    /// Where in an item the references to another stand.
    fn places(&self, rule: &RelationRule, value: &Value, spot: &Spot<'e>) -> Result<Vec<Place>> {
        let mut places = Vec::new();
        for reference in rule.references(value) {
            let Some(target) = &reference.target else { continue };
            if self.draft.spot_of(rule, target)?.is_some_and(|found| found.is(spot)) {
                places.push(reference.place);
            }
        }
        Ok(places)
    }

    /// A target is gone.
    fn gone(&mut self, index: usize, rule: &RelationRule, spot: &Spot<'e>) -> Result<()> {
        if rule.def.on_delete == OnDelete::Keep {
            return Ok(());
        }
        let mut sources = self.draft.referrers(index, spot)?;
        sources.retain(|source| !source.is(spot));
        if rule.def.on_delete == OnDelete::Restrict {
            let mut seen = Vec::new();
            for source in sources {
                if self.draft.value_at(&source)?.is_some() {
                    seen.push(source);
                }
            }
            return if seen.is_empty() { Ok(()) } else { Err(still_referenced(rule, &seen)) };
        }
        for source in sources {
            let Some(value) = self.draft.value_at(&source)? else { continue };
            if rule.def.on_delete == OnDelete::Cascade {
                self.count(index, rule, &source)?;
                self.draft.delete_derived(&source)?;
                self.queue.push_back(Event::new(source, Some(value), None));
                continue;
            }
            let places = self.places(rule, &value, spot)?;
            let mut kept = value.clone();
            if rule.def.on_delete == OnDelete::Pull {
                rule.def.path.pull(&mut kept, &places);
            } else {
                for place in &places {
                    rule.def.path.set(&mut kept, place, Value::Undefined);
                    for (path, _) in &rule.copies {
                        path.set(&mut kept, place, Value::Undefined);
                    }
                }
            }
            self.put(index, rule, &source, value, kept)?;
        }
        Ok(())
    }

    fn put(
        &mut self,
        index: usize,
        rule: &RelationRule,
        spot: &Spot<'e>,
        before: Value,
        after: Value,
    ) -> Result<()> {
        self.count(index, rule, spot)?;
        self.draft.put_derived(spot, after.clone())?;
        self.queue.push_back(Event::new(spot.clone(), Some(before), Some(after)));
        Ok(())
    }

    /// Counts a change of another item; too many are refused.
    fn count(&mut self, index: usize, rule: &RelationRule, spot: &Spot<'e>) -> Result<()> {
        self.changed += 1;
        if self.changed > limits::MODEL_ITEMS_MAX {
            return Err(too_many(rule, self.changed));
        }
        if !spot.is_beside(&self.origin) {
            self.elsewhere[index] += 1;
            let bound = bounds(rule.propagate(), rule.def.on_overflow);
            if bound && self.elsewhere[index] > rule.def.max_fanout {
                return Err(over_fanout(rule, rule.def.max_fanout));
            }
        }
        Ok(())
    }
}

/// Whether a rule bounds what one write changes elsewhere. What may follow later happens at once here
/// too; only the bound on a whole write holds for it.
fn bounds(propagate: Propagate, on_overflow: OnOverflow) -> bool {
    propagate == Propagate::Sync && on_overflow == OnOverflow::Fail
}

fn keep_inverse(
    inverse: &orrery_modeling::Inverse,
    id: &str,
    added: bool,
    kept: &mut Value,
) -> Result<()> {
    let Some(path) = &inverse.store else { return Ok(()) };
    let mut ids: Vec<Value> = path.get(kept, &[]).as_array().unwrap_or_default().to_vec();
    if added {
        if ids.len() >= inverse.max_items {
            return Err(Error::ModelViolated(
                format!(
                    "'{path}' already has {} ids, the most that the inverse '{}' may hold (maxItems). \
                     Nothing was written.",
                    inverse.max_items, inverse.name
                )
                .into(),
            ));
        }
        ids.push(id.into());
    } else if let Some(at) = ids.iter().position(|known| known.as_str() == Some(id)) {
        ids.remove(at);
    }
    path.set(kept, &[], Value::array(ids));
    Ok(())
}

fn over_fanout(rule: &RelationRule, max: usize) -> Error {
    Error::ModelViolated(
        format!(
            "The relation '{}' would change more than {max} items in other partitions (maxFanout). \
             Nothing was written.",
            rule.def.name
        )
        .into(),
    )
}

fn still_referenced(rule: &RelationRule, sources: &[Spot<'_>]) -> Error {
    let mut ids: Vec<String> = sources.iter().map(|source| source.id().into_string()).collect();
    ids.sort_unstable();
    ids.truncate(limits::MODEL_HOLDERS_MAX);
    let more = sources.len().saturating_sub(ids.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
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
             Nothing was written.",
            rule.def.name,
            limits::MODEL_ITEMS_MAX
        )
        .into(),
    )
}
