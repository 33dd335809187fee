//! What is kept beside a target for the aggregates over those that refer to it. COUNT stands in the
//! target itself and is raised and lowered there. SUM and AVG have a *tally*, from which the sum comes
//! without any rounding on the way. MIN and MAX have the values of all sources in their order, so
//! that when an extreme goes the next one is found by a seek.
//!
//! Tallies and values follow from the sources alone, whether their target is there or not. A tally is
//! checked by its version. Values have none: whoever changes one writes the guard of the target, and
//! whoever has looked for an extreme checks it.

use std::collections::{BTreeMap, BTreeSet};

use orrery_modeling::{AggregateKind, AggregateRule, Held, Tally};
use orrery_storage::key::{AggregateId, Bounds, Due};
use orrery_storage::{Check, Expect, Part, Put, Scan, Space, key};
use orrery_types::{Error, Etag, Lsn, Result, Value, limits};

use super::deferred::DueNote;
use crate::item::address::ItemAddress;
use crate::model::{ModelContext, StoredModel};
use crate::transaction::commit::BeforeImage;
use crate::transaction::write_buffer::Draft;

/// What a draft changes in its physical partition beside its items.
#[derive(Clone, Default)]
pub(crate) struct Kept {
    tallies: BTreeMap<Vec<u8>, DraftTally>,
    /// Entries of the index space; one without a value goes.
    pub(crate) entries: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Guards of the targets whose values change.
    touched: BTreeSet<Vec<u8>>,
    /// Changes that a tally has later, each with a mark of its own.
    deltas: BTreeMap<(AggregateId, Vec<u8>), (Etag, Tally)>,
    /// Entries that must not have come meanwhile.
    absent: BTreeSet<Vec<u8>>,
    /// Notes of the meta space without a value.
    pub(crate) notes: BTreeSet<Vec<u8>>,
    /// What follows later, and since when.
    pub(crate) due: BTreeMap<Vec<u8>, DueNote>,
}

#[derive(Clone)]
struct DraftTally {
    version: Option<Lsn>,
    stored: Tally,
    now: Tally,
}

impl Kept {
    pub(crate) fn is_empty(&self) -> bool {
        self.tallies.is_empty()
            && self.entries.is_empty()
            && self.due.is_empty()
            && self.absent.is_empty()
    }

    /// Whether something of it was read that the commit must check.
    pub(crate) fn has_read(&self) -> bool {
        !self.tallies.is_empty() || !self.absent.is_empty()
    }

    /// Adds the preconditions of what was read.
    pub(crate) fn check(&self, checks: &mut Vec<Check>) {
        for (key, tally) in &self.tallies {
            let (space, key) = (Space::Meta, key.clone());
            let expect = tally.version.map_or(Expect::Absent, Expect::Version);
            checks.push(Check::Key { space, key, expect });
        }
        for key in &self.absent {
            let (space, key, expect) = (Space::Index, key.clone(), Expect::Absent);
            checks.push(Check::Key { space, key, expect });
        }
    }

    /// Goes back to what it was before a change. What the change has read stays read: its refusal
    /// rests on it.
    pub(crate) fn restore(&mut self, before: Self) {
        let refused = std::mem::replace(self, before);
        for (key, tally) in refused.tallies {
            let now = tally.stored.clone();
            self.tallies.entry(key).or_insert(DraftTally { now, ..tally });
        }
        self.absent.extend(refused.absent);
    }

    /// Adds the writes to the commit.
    pub(crate) fn write(&self, part: &mut Part) {
        for (key, tally) in &self.tallies {
            let (space, key) = (Space::Meta, key.clone());
            if tally.now == tally.stored {
                continue;
            }
            if tally.now.is_empty() {
                part.deletes.push((space, key));
            } else {
                part.puts.push(Put { space, key, value: tally.now.to_bytes() });
            }
        }
        for (key, value) in &self.entries {
            let (space, key) = (Space::Index, key.clone());
            match value.clone() {
                Some(value) => part.puts.push(Put { space, key, value }),
                None => part.deletes.push((space, key)),
            }
        }
        for ((of, target), (mark, tally)) in self.deltas.iter().filter(|(_, (_, t))| !t.is_empty())
        {
            let mut bytes = [0; 12];
            bytes[..4].copy_from_slice(&mark.node.to_be_bytes());
            bytes[4..].copy_from_slice(&mark.stamp.to_be_bytes());
            let (space, key) = (Space::Index, key::delta(*of, target, &bytes));
            part.puts.push(Put { space, key, value: tally.to_bytes() });
        }
        for (key, note) in &self.due {
            let (space, key) = (Space::Meta, key.clone());
            part.puts.push(Put { space, key, value: note.to_bytes() });
        }
        let guards = self.touched.iter().chain(&self.notes).cloned();
        part.puts.extend(guards.map(|key| Put { space: Space::Meta, key, value: vec![] }));
    }
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
pub(crate) struct Change {
    pub(crate) old: Value,
    pub(crate) new: Value,
}

impl<'e> Draft<'e> {
    /// Follows a change of a source in what is kept beside its target.
    pub(crate) fn keep_beside(
        &mut self,
        scope: ModelContext<'e>,
        aggregate: &AggregateRule,
        target: &ItemAddress<'e>,
        source: &ItemAddress<'e>,
        change: &Change,
    ) -> Result<()> {
        match aggregate.held() {
            Held::InItem => {}
            Held::Tally => {
                let kind = aggregate.def.kind;
                let tally = self.tally(scope, aggregate, target)?;
                tally.merge(&Tally::of(kind, &change.old).negated());
                tally.merge(&Tally::of(kind, &change.new));
            }
            Held::Values => {
                let model = scope.model;
                let key = |value: &Value| {
                    model.extreme_key(aggregate, &target.at.key, value, &source.at.key)
                };
                let (old, new) = (key(&change.old), key(&change.new));
                let kept = &mut self.beside(target.container, target.at.partition).model.kept;
                kept.entries.extend(old.map(|key| (key, None)));
                kept.entries.extend(new.map(|key| (key, Some(vec![]))));
                kept.touched.insert(key::guard(&target.at.key));
            }
        }
        Ok(())
    }

    /// While references are being written down, one counts from when its entry is there: whether it
    /// was, and it is if it stays.
    pub(crate) fn enter(
        &mut self,
        number: u32,
        target: &ItemAddress<'e>,
        source: &ItemAddress<'e>,
        (was, is): (bool, bool),
    ) -> Result<bool> {
        let key = key::reference(number, &target.at.key, &source.at.key);
        let own = self.beside(target.container, target.at.partition);
        let is_own = own.model.kept.entries.contains_key(&key);
        let known = was && self.entry(target, &key)?.is_some();
        let kept = &mut self.beside(target.container, target.at.partition).model.kept;
        if was && !known && !is_own {
            kept.absent.insert(key.clone());
        }
        if is != known {
            kept.entries.insert(key, is.then(Vec::new));
            kept.touched.insert(key::guard(&target.at.key));
        }
        Ok(known)
    }

    /// Follows a change of a source so that the aggregate of its target can follow later.
    pub(crate) fn keep_later(
        &mut self,
        scope: ModelContext<'e>,
        aggregate: &AggregateRule,
        target: &ItemAddress<'e>,
        source: &ItemAddress<'e>,
        change: &Change,
    ) -> Result<()> {
        if aggregate.held() == Held::Tally {
            let (kind, of) = (aggregate.def.kind, scope.model.aggregate_id(aggregate));
            let mark = self.engine.stamper.next().etag;
            let draft = self.beside(target.container, target.at.partition);
            let deltas = draft.model.kept.deltas.entry((of, target.at.key.clone()));
            let (_, tally) = deltas.or_insert_with(|| (mark, Tally::default()));
            tally.merge(&Tally::of(kind, &change.old).negated());
            tally.merge(&Tally::of(kind, &change.new));
        } else {
            self.keep_beside(scope, aggregate, target, source, change)?;
        }
        self.put_due(aggregate.relation, Due::Aggregates, target)
    }

    /// Adds changes that were written down to the tally of a target, so many at most; whether there
    /// are more.
    pub(crate) fn fold_deltas(
        &mut self,
        scope: ModelContext<'e>,
        aggregate: &AggregateRule,
        target: &ItemAddress<'e>,
        max: usize,
    ) -> Result<bool> {
        let bounds = key::deltas_of(scope.model.aggregate_id(aggregate), &target.at.key);
        let mut deltas = self.first_entries(target, &bounds, max + 1)?;
        let more = deltas.len() > max;
        deltas.truncate(max);
        for (key, value) in deltas {
            self.tally(scope, aggregate, target)?.merge(&tally_of(&value)?);
            self.set_entry(target, key, None);
        }
        Ok(more)
    }

    /// The aggregate of a target as it is after a change of a source, which is kept beside it.
    pub(crate) fn aggregate_after(
        &mut self,
        scope: ModelContext<'e>,
        aggregate: &AggregateRule,
        target: &ItemAddress<'e>,
        stored: &Value,
        change: &Change,
    ) -> Result<Value> {
        let kind = aggregate.def.kind;
        match aggregate.held() {
            Held::InItem => {
                let counts = |value: &Value| i64::from(!value.is_undefined());
                let count = stored.as_i64().unwrap_or(0);
                Ok(Value::from(count + counts(&change.new) - counts(&change.old)))
            }
            Held::Values => {
                let unsure = stored.is_undefined() || spoils(&change.old) || spoils(&change.new);
                if unsure || change.old == *stored {
                    return self.aggregate_beside(scope, aggregate, target);
                }
                Ok(better(kind, stored.clone(), change.new.clone()))
            }
            Held::Tally => self.aggregate_beside(scope, aggregate, target),
        }
    }

    /// The aggregate of a target out of what is kept beside it.
    pub(crate) fn aggregate_beside(
        &mut self,
        scope: ModelContext<'e>,
        aggregate: &AggregateRule,
        target: &ItemAddress<'e>,
    ) -> Result<Value> {
        let kind = aggregate.def.kind;
        match aggregate.held() {
            Held::InItem => self.counted(aggregate, target),
            Held::Tally => Ok(self.tally(scope, aggregate, target)?.value(kind)),
            Held::Values => {
                let bounds = key::extremes_of(scope.model.aggregate_id(aggregate), &target.at.key);
                self.watch(target)?;
                let last = self.extreme(target, &bounds, true)?;
                if spoils(&last) || kind == AggregateKind::Max {
                    return Ok(if spoils(&last) { Value::Undefined } else { last });
                }
                self.extreme(target, &bounds, false)
            }
        }
    }

    /// The count over all that refer to an item.
    fn counted(&mut self, aggregate: &AggregateRule, target: &ItemAddress<'e>) -> Result<Value> {
        let mut count = 0;
        for source in self.referrers(aggregate.relation, target)? {
            // One that is hidden counts until it is removed.
            let draft = self.beside(source.container, source.at.partition);
            let value = draft.past_image(&source.at.key)?;
            let counts = |item| !aggregate.argument.value(&item).is_undefined();
            count += i64::from(value.is_some_and(counts));
        }
        Ok(Value::from(count))
    }

    fn tally(
        &mut self,
        scope: ModelContext<'e>,
        aggregate: &AggregateRule,
        target: &ItemAddress<'e>,
    ) -> Result<&mut Tally> {
        let key = key::tally(scope.model.aggregate_id(aggregate), &target.at.key);
        let draft = self.beside(target.container, target.at.partition);
        if !draft.model.kept.tallies.contains_key(&key) {
            let found = draft.stored(target.at.partition.shard, Space::Meta, &key)?;
            let version = found.as_ref().map(|value| value.version);
            let stored = found.map(|value| tally_of(&value.bytes)).transpose()?.unwrap_or_default();
            let tally = DraftTally { version, now: stored.clone(), stored };
            draft.model.kept.tallies.insert(key.clone(), tally);
        }
        let tally = draft.model.kept.tallies.get_mut(&key);
        tally.map(|tally| &mut tally.now).ok_or_else(|| Error::internal("it was just put there"))
    }

    /// The first or last value of a range, as it is after this draft; undefined if there is none.
    fn extreme(&mut self, target: &ItemAddress<'e>, bounds: &Bounds, last: bool) -> Result<Value> {
        let Some((key, _)) = self.end_entry(target, bounds, last)? else {
            return Ok(Value::Undefined);
        };
        key::parse_extreme(&key).ok_or_else(|| corrupt("a value"))
    }

    /// The aggregate computed from the sources themselves, however many there are. The draft's own
    /// writes are not seen.
    pub(crate) fn recomputed(
        &self,
        scope: ModelContext<'e>,
        aggregate: &AggregateRule,
        target: &ItemAddress<'e>,
    ) -> Result<Value> {
        let kind = aggregate.def.kind;
        let rule = &scope.model.rules.relations[aggregate.relation];
        let sources = self.same(scope.container_of(rule.from)?);
        let (mut tally, mut extreme, mut spoilt) = (Tally::default(), Value::Undefined, false);
        let number = scope.model.numbers[aggregate.relation];
        let mut bounds = key::references_to(number, &target.at.key);
        loop {
            let (keys, rest) = self.reference_page(target, bounds, limits::PAGE_ITEMS_MAX)?;
            if keys.is_empty() {
                break;
            }
            bounds = rest;
            for key in keys {
                let place = key::parse_item(&key).ok_or_else(|| corrupt("a reference"))?;
                let shard = sources.partition_of(&place.effective)?.shard;
                let Some(found) = self.stored(shard, Space::Items, &key)? else { continue };
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
    pub(crate) fn reference_page(
        &self,
        target: &ItemAddress<'e>,
        bounds: Bounds,
        max_rows: usize,
    ) -> Result<(Vec<Vec<u8>>, Bounds)> {
        let scan = Scan {
            space: Space::Index,
            from: &bounds.from,
            to: &bounds.to,
            reverse: false,
            max_rows,
            max_bytes: usize::MAX,
            keys_only: true,
        };
        let entries = self.scanned(target.at.partition.shard, &scan)?;
        let source = |key: &[u8]| key::parse_reference(key).map(|found| found.source.to_vec());
        let keys = entries.iter().filter_map(|entry| source(&entry.key)).collect();
        let rest = match entries.last() {
            Some(last) => bounds.after(&last.key),
            None => bounds,
        };
        Ok((keys, rest))
    }
}

pub(crate) fn tally_of(bytes: &[u8]) -> Result<Tally> {
    Tally::from_bytes(bytes).ok_or_else(|| corrupt("a tally"))
}

fn corrupt(what: &str) -> Error {
    Error::internal(format!("{what} of the model is corrupt"))
}
