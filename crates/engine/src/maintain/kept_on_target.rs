//! What is kept on a target for those that refer to it: aggregates and stored inverses, in one write of
//! the target. COUNT stands in the target itself and is raised and lowered there. SUM and AVG have a
//! *tally*, from which the sum comes without any rounding on the way. MIN and MAX have the values of all
//! sources in their order, so that when an extreme goes the next one is found by a seek.
//!
//! Tallies and values follow from the sources alone, whether their target exists or not. A tally is
//! checked by its version. Values have none: whoever changes one writes the guard of the target, and
//! whoever has looked for an extreme checks it.

use orrery_modeling::reference::ReferenceTarget;
use orrery_modeling::{
    AggregateKind, AggregateRule, AggregateSource, Inverse, Propagate, RelationRule, Tally,
};
use orrery_storage::key::{AggregateId, Bounds, Due};
use orrery_storage::{Part, Put, Scan, Space, key};
use orrery_types::{Error, Result, Value, limits};

use super::cascade::{
    Cascade, ItemChange, RelationMaintainer, RelationRef, bounds_fanout, over_fanout,
};
use crate::item::address::ItemAddress;
use crate::item::image::BeforeImage;
use crate::maintain::cascade;
use crate::maintain::deferred;
use crate::maintain::references;
use crate::model::rules::is_displaced;
use crate::model::{ModelTransaction, StoredModel};
use crate::transaction::commit::part_of;
use crate::transaction::key_entries;
use crate::transaction::reads::ConflictReason;
use crate::transaction::write_buffer::ShardWrites;

/// Adds the tallies that a transaction changes in a shard to its commit, and the changes of tallies that
/// are written down for later.
pub(crate) fn put_tallies(shard: &ShardWrites<'_>, parts: &mut Vec<Part>) {
    for (key, tally) in shard.tallies().iter().filter(|(_, tally)| *tally.now() != tally.stored) {
        let (part, key) = (part_of(parts, shard.partition), key.clone());
        if tally.now().is_empty() {
            part.deletes.push((Space::Meta, key));
        } else {
            part.puts.push(Put { space: Space::Meta, key, value: tally.now().to_bytes() });
        }
    }
    for ((of, target), (mark, tally)) in shard.deltas().iter().filter(|(_, d)| !d.1.is_empty()) {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&mark.node.to_be_bytes());
        bytes[4..].copy_from_slice(&mark.stamp.to_be_bytes());
        let (space, key) = (Space::Index, key::delta(*of, target, &bytes));
        part_of(parts, shard.partition).puts.push(Put { space, key, value: tally.to_bytes() });
    }
}

/// The item is of the source type, or was: what is kept on its targets follows.
#[derive(Debug)]
pub(super) struct KeptOnTarget;

impl RelationMaintainer for KeptOnTarget {
    fn maintain<'e>(
        &self,
        relation: RelationRef<'_>,
        change: &ItemChange<'e>,
        cascade: &mut Cascade<'_, '_, 'e>,
    ) -> Result<()> {
        let RelationRef { index, rule } = relation;
        let model = cascade.model.context.model;
        let over = model.rules.aggregates.iter().filter(|a| a.relation == index);
        let aggregates: Vec<&AggregateRule> = over.map(|a| &**a).collect();
        let store = rule.def.inverse.as_ref().filter(|inverse| inverse.store.is_some());
        if aggregates.is_empty() && store.is_none() && !model.is_building(index) {
            return Ok(());
        }
        let from = &model.rules.types[rule.from];
        let image = |value: &Option<Value>| {
            value.clone().filter(|value| from.matches(&change.address.container.id, value))
        };
        let images = (image(&change.before), image(&change.after));
        let targets =
            |item: &Option<Value>| item.as_ref().map(|i| rule.targets(i)).unwrap_or_default();
        let (old, new) = (targets(&images.0), targets(&images.1));
        let mut all: Vec<ReferenceTarget> = old.clone();
        all.extend(new.iter().filter(|t| !old.contains(t)).cloned());
        for target in all {
            let context = cascade.model.context;
            let Some(address) =
                references::target_address(cascade.model.tx, context, rule, &target)?
            else {
                continue;
            };
            let refers = (old.contains(&target), new.contains(&target));
            let source = SourceChange { address: &change.address, images: &images, refers };
            source.follow(relation, &aggregates, store, &address, cascade)?;
        }
        Ok(())
    }
}

/// The change of a source, as one of its targets sees it.
struct SourceChange<'s, 'e> {
    address: &'s ItemAddress<'e>,
    images: &'s (Option<Value>, Option<Value>),
    /// Whether it did refer to the target, and whether it does.
    refers: (bool, bool),
}

impl<'e> SourceChange<'_, 'e> {
    /// Brings what is kept on one target up to date.
    fn follow(
        &self,
        relation: RelationRef<'_>,
        aggregates: &[&AggregateRule],
        store: Option<&Inverse>,
        target: &ItemAddress<'e>,
        cascade: &mut Cascade<'_, '_, 'e>,
    ) -> Result<()> {
        let RelationRef { index, rule } = relation;
        let model = cascade.model.context.model;
        let (mut was, is) = self.refers;
        if model.is_building(index) {
            let number = model.numbers[index];
            was = enter(cascade.model, number, target, self.address, (was, is))?;
        }
        let mut now = Vec::new();
        for aggregate in aggregates {
            let side = |held: bool, item: &Option<Value>| {
                let item = item.as_ref().filter(|_| held);
                item.map_or(Value::Undefined, |item| aggregate.argument.value(item))
            };
            let change = Change { old: side(was, &self.images.0), new: side(is, &self.images.1) };
            if change.old == change.new {
                continue;
            }
            if is_later(relation, aggregate, target, cascade) {
                keep_later(cascade.model, aggregate, target, self.address, &change)?;
            } else {
                keep_beside(cascade.model, aggregate, target, self.address, &change)?;
                now.push((*aggregate, change));
            }
        }
        let inverse = store.filter(|_| was != is);
        if now.is_empty() && inverse.is_none() {
            return Ok(());
        }
        let Some(value) = cascade.model.target_at(rule, target)? else { return Ok(()) };
        let mut kept = value.clone();
        for (aggregate, change) in &now {
            let path = &aggregate.def.path;
            let stored = path.get(&kept, &[]).clone();
            if is_displaced(&stored, &Value::Null) {
                // It stood there before the rule, which is being built: it is left as it is.
                continue;
            }
            let truth = aggregate_after(cascade.model, aggregate, target, &stored, change)?;
            path.set(&mut kept, &[], truth);
        }
        if let Some(inverse) = inverse
            && keep_inverse(inverse, &self.address.id(), is, &mut kept)
        {
            inverse_overflows(cascade.model, index, inverse, target)?;
        }
        if kept != value {
            limit(relation, now.iter().map(|(aggregate, _)| *aggregate), target, cascade)?;
            cascade.put(relation, target, value, kept)?;
        }
        Ok(())
    }
}

/// Whether a change reaches a target's aggregate later.
fn is_later<'e>(
    relation: RelationRef<'_>,
    aggregate: &AggregateRule,
    target: &ItemAddress<'e>,
    cascade: &Cascade<'_, '_, 'e>,
) -> bool {
    aggregate.may_follow()
        && !target.is_beside(&cascade.origin)
        && (aggregate.def.propagate == Propagate::Async
            || cascade.elsewhere(relation) >= aggregate.def.max_fanout)
}

/// An aggregate may allow fewer changes elsewhere than its relation.
fn limit<'a, 'e>(
    relation: RelationRef<'_>,
    aggregates: impl Iterator<Item = &'a AggregateRule>,
    target: &ItemAddress<'e>,
    cascade: &Cascade<'_, '_, 'e>,
) -> Result<()> {
    let bound = |a: &&AggregateRule| bounds_fanout(a.def.propagate, a.def.on_overflow);
    match aggregates.filter(bound).map(|a| a.def.max_fanout).min() {
        Some(max)
            if !cascade.model.tx.options().relaxed
                && !target.is_beside(&cascade.origin)
                && cascade.elsewhere(relation) >= max =>
        {
            Err(over_fanout(relation.rule, max))
        }
        _ => Ok(()),
    }
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

impl StoredModel {
    pub(crate) fn aggregate_id(&self, aggregate: &AggregateRule) -> AggregateId {
        let rule = self.numbers.get(aggregate.relation).copied().unwrap_or_default();
        AggregateId { rule, ordinal: aggregate.ordinal }
    }

    /// The key of the value that a source has for MIN or MAX; `None` if it has none.
    pub(crate) fn extreme_key(
        &self,
        aggregate: &AggregateRule,
        target: &[u8],
        value: &Value,
        source: &[u8],
    ) -> Option<Vec<u8>> {
        let key = |value: &Value| key::extreme(self.aggregate_id(aggregate), target, value, source);
        (!value.is_undefined()).then(|| key(&ordered(value)))
    }
}

/// A value as it is ordered. Arrays, objects and long strings only spoil the aggregate.
fn ordered(value: &Value) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) => Value::array(vec![]),
        Value::String(text) if text.len() > limits::MODEL_EXTREME_BYTES_MAX => Value::array(vec![]),
        other => other.clone(),
    }
}

fn spoils(value: &Value) -> bool {
    matches!(ordered(value), Value::Array(_))
}

/// Of two values, undefined being none, the one that the aggregate keeps.
fn better(kind: AggregateKind, a: Value, b: Value) -> Value {
    match (a.is_undefined(), b.is_undefined()) {
        (true, _) => b,
        (_, true) => a,
        _ if (b < a) == (kind == AggregateKind::Min) => b,
        _ => a,
    }
}

/// A value that a source has for an aggregate, before and after a change; undefined is none.
struct Change {
    old: Value,
    new: Value,
}

impl Change {
    /// What it adds to a tally.
    fn tally(&self, kind: AggregateKind) -> Tally {
        let mut tally = Tally::of(kind, &self.old).negated();
        tally.merge(&Tally::of(kind, &self.new));
        tally
    }
}

/// A stored inverse has too many ids: the write is refused, or noted if nobody can be refused.
fn inverse_overflows<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    index: usize,
    inverse: &Inverse,
    target: &ItemAddress<'e>,
) -> Result<()> {
    if !model.tx.options().relaxed {
        return Err(inverse_full(inverse));
    }
    let note = key::violation(model.context.model.numbers[index], &target.at.key);
    let shard = model.tx.shard_of(target);
    model.tx.writes.set_key(shard, Space::Meta, note, Some(vec![]));
    Ok(())
}

/// Follows a change of a source in what is kept beside its target.
fn keep_beside<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    aggregate: &AggregateRule,
    target: &ItemAddress<'e>,
    source: &ItemAddress<'e>,
    change: &Change,
) -> Result<()> {
    match aggregate.held() {
        AggregateSource::InItem => {}
        AggregateSource::Tally => {
            let (kind, key) = (aggregate.def.kind, load_tally(model, aggregate, target)?);
            let shard = model.tx.shard_of(target);
            model.tx.writes.merge_tally(shard, &key, &change.tally(kind));
        }
        AggregateSource::Values => {
            let (stored, shard) = (model.context.model, model.tx.shard_of(target));
            let key = |value: &Value| {
                stored.extreme_key(aggregate, &target.at.key, value, &source.at.key)
            };
            if let Some(old) = key(&change.old) {
                model.tx.writes.set_key(shard, Space::Index, old, None);
            }
            if let Some(new) = key(&change.new) {
                model.tx.writes.set_key(shard, Space::Index, new, Some(vec![]));
            }
            write_guard(model, target);
        }
    }
    Ok(())
}

/// Writes the guard of a target: who has read its references or values must look again.
fn write_guard<'e>(model: &mut ModelTransaction<'_, 'e>, target: &ItemAddress<'e>) {
    let shard = model.tx.shard_of(target);
    model.tx.writes.set_key(shard, Space::Meta, key::guard(&target.at.key), Some(vec![]));
}

/// While references are being written down, one counts from when its entry exists: whether it
/// did, and it does if it stays.
fn enter<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    number: u32,
    target: &ItemAddress<'e>,
    source: &ItemAddress<'e>,
    (was, is): (bool, bool),
) -> Result<bool> {
    let key = key::reference(number, &target.at.key, &source.at.key);
    let shard = model.tx.shard_of(target);
    let is_own = model.tx.writes.shard(shard).key(Space::Index, &key).is_some();
    let known = was && key_entries::key_entry(model.tx, target, &key)?.is_some();
    if was && !known && !is_own {
        let reason = ConflictReason::EntryAppeared;
        model.tx.reads.add(shard, Space::Index, key.clone(), None, reason);
    }
    if is != known {
        model.tx.writes.set_key(shard, Space::Index, key, is.then(Vec::new));
        write_guard(model, target);
    }
    Ok(known)
}

/// Follows a change of a source so that the aggregate of its target can follow later.
fn keep_later<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    aggregate: &AggregateRule,
    target: &ItemAddress<'e>,
    source: &ItemAddress<'e>,
    change: &Change,
) -> Result<()> {
    if aggregate.held() == AggregateSource::Tally {
        let (kind, of) = (aggregate.def.kind, model.context.model.aggregate_id(aggregate));
        let mark = model.tx.engine.stamper.next().etag;
        let shard = model.tx.shard_of(target);
        let change = change.tally(kind);
        model.tx.writes.merge_delta(shard, (of, &target.at.key), mark, &change);
    } else {
        keep_beside(model, aggregate, target, source, change)?;
    }
    deferred::put_due(model, aggregate.relation, Due::Aggregates, target)
}

/// Adds changes that were written down to the tally of a target, so many at most; whether there
/// are more.
pub(crate) fn fold_deltas<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    aggregate: &AggregateRule,
    target: &ItemAddress<'e>,
    max: usize,
) -> Result<bool> {
    let bounds = key::deltas_of(model.context.model.aggregate_id(aggregate), &target.at.key);
    let mut deltas = key_entries::stored_entries(model.tx, target, &bounds, false, max + 1)?;
    let more = deltas.len() > max;
    deltas.truncate(max);
    let shard = model.tx.shard_of(target);
    for (delta, value) in deltas {
        let key = load_tally(model, aggregate, target)?;
        model.tx.writes.merge_tally(shard, &key, &tally_of(&value)?);
        key_entries::set_entry(model.tx, target, delta, None);
    }
    Ok(more)
}

/// The aggregate of a target as it is after a change of a source, which is kept beside it.
fn aggregate_after<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    aggregate: &AggregateRule,
    target: &ItemAddress<'e>,
    stored: &Value,
    change: &Change,
) -> Result<Value> {
    let kind = aggregate.def.kind;
    match aggregate.held() {
        AggregateSource::InItem => {
            let counts = |value: &Value| i64::from(!value.is_undefined());
            let count = stored.as_i64().unwrap_or(0);
            Ok(Value::from(count + counts(&change.new) - counts(&change.old)))
        }
        AggregateSource::Values => {
            let unsure = stored.is_undefined() || spoils(&change.old) || spoils(&change.new);
            if unsure || change.old == *stored {
                return aggregate_beside(model, aggregate, target);
            }
            Ok(better(kind, stored.clone(), change.new.clone()))
        }
        AggregateSource::Tally => aggregate_beside(model, aggregate, target),
    }
}

/// The aggregate of a target out of what is kept beside it.
pub(crate) fn aggregate_beside<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    aggregate: &AggregateRule,
    target: &ItemAddress<'e>,
) -> Result<Value> {
    let kind = aggregate.def.kind;
    match aggregate.held() {
        AggregateSource::InItem => counted(model, aggregate, target),
        AggregateSource::Tally => {
            let key = load_tally(model, aggregate, target)?;
            let shard = model.tx.shard_of(target);
            let tally = model.tx.writes.shard(shard).tallies().get(&key);
            Ok(tally.map_or(Value::Undefined, |tally| tally.now().value(kind)))
        }
        AggregateSource::Values => {
            let of = model.context.model.aggregate_id(aggregate);
            let bounds = key::extremes_of(of, &target.at.key);
            references::watch_references(model.tx, target)?;
            let last = extreme(model, target, &bounds, true)?;
            if spoils(&last) || kind == AggregateKind::Max {
                return Ok(if spoils(&last) { Value::Undefined } else { last });
            }
            extreme(model, target, &bounds, false)
        }
    }
}

/// The count over all that refer to an item.
fn counted<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    aggregate: &AggregateRule,
    target: &ItemAddress<'e>,
) -> Result<Value> {
    let mut count = 0;
    for source in cascade::referrers(model, aggregate.relation, target)? {
        // One that is hidden counts until it is removed.
        let shard = model.tx.shard_of(&source);
        let value = model.tx.past_image(shard, &source.at.key)?;
        let counts = |item| !aggregate.argument.value(&item).is_undefined();
        count += i64::from(value.is_some_and(counts));
    }
    Ok(Value::from(count))
}

/// Makes sure that the tally of a target has been read; its key.
fn load_tally<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    aggregate: &AggregateRule,
    target: &ItemAddress<'e>,
) -> Result<Vec<u8>> {
    let key = key::tally(model.context.model.aggregate_id(aggregate), &target.at.key);
    let shard = model.tx.shard_of(target);
    if !model.tx.writes.shard(shard).tallies().contains_key(&key) {
        let found = model.tx.view().get(target.at.partition.shard, Space::Meta, &key)?;
        let version = found.as_ref().map(|value| value.version);
        let stored = found.map(|value| tally_of(&value.bytes)).transpose()?.unwrap_or_default();
        let reason = ConflictReason::TallyChanged;
        model.tx.reads.add(shard, Space::Meta, key.clone(), version, reason);
        model.tx.writes.add_tally(shard, key.clone(), stored);
    }
    Ok(key)
}

/// The first or last value of a range, as it is after this transaction; undefined if there is none.
fn extreme<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    target: &ItemAddress<'e>,
    bounds: &Bounds,
    last: bool,
) -> Result<Value> {
    let Some((key, _)) = key_entries::end_entry(model.tx, target, bounds, last)? else {
        return Ok(Value::Undefined);
    };
    key::parse_extreme(&key).ok_or_else(|| corrupt("a value"))
}

/// The aggregate computed from the sources themselves, however many there are. The transaction's own
/// writes are not seen.
pub(crate) fn recomputed<'e>(
    model: &ModelTransaction<'_, 'e>,
    aggregate: &AggregateRule,
    target: &ItemAddress<'e>,
) -> Result<Value> {
    let (kind, stored) = (aggregate.def.kind, model.context.model);
    let rule: &RelationRule = &stored.rules.relations[aggregate.relation];
    let sources = model.tx.same(model.context.container_of(rule.from)?);
    let (mut tally, mut extreme, mut spoilt) = (Tally::default(), Value::Undefined, false);
    let mut bounds = key::references_to(stored.numbers[aggregate.relation], &target.at.key);
    loop {
        let (keys, rest) = reference_page(model, target, bounds, limits::PAGE_ITEMS_MAX)?;
        if keys.is_empty() {
            break;
        }
        bounds = rest;
        for key in keys {
            let parsed = key::parse_item(&key).ok_or_else(|| corrupt("a reference"))?;
            let shard = sources.partition_of(&parsed.effective)?.shard;
            let Some(found) = model.tx.view().get(shard, Space::Items, &key)? else { continue };
            let value = aggregate.argument.value(BeforeImage::read(found)?.value()?);
            tally.merge(&Tally::of(kind, &value));
            spoilt |= spoils(&value);
            extreme = better(kind, extreme, value);
        }
    }
    Ok(match kind {
        AggregateKind::Min | AggregateKind::Max if spoilt => Value::Undefined,
        AggregateKind::Min | AggregateKind::Max => extreme,
        AggregateKind::Count | AggregateKind::Sum | AggregateKind::Avg => tally.value(kind),
    })
}

/// Item keys of the next sources that refer to a target, and where to go on.
pub(crate) fn reference_page<'e>(
    model: &ModelTransaction<'_, 'e>,
    target: &ItemAddress<'e>,
    bounds: Bounds,
    max_rows: usize,
) -> Result<(Vec<Vec<u8>>, Bounds)> {
    let scan = Scan { keys_only: true, ..bounds.scan(Space::Index, max_rows, usize::MAX) };
    let entries = model.tx.view().scan(target.at.partition.shard, &scan)?;
    let source = |key: &[u8]| key::parse_reference(key).map(|found| found.source.to_vec());
    let keys = entries.iter().filter_map(|entry| source(&entry.key)).collect();
    let rest = match entries.last() {
        Some(last) => bounds.after(&last.key),
        None => bounds,
    };
    Ok((keys, rest))
}

pub(crate) fn tally_of(bytes: &[u8]) -> Result<Tally> {
    Tally::from_bytes(bytes).ok_or_else(|| corrupt("a tally"))
}

fn corrupt(what: &str) -> Error {
    Error::internal(format!("{what} of the model is corrupt"))
}
