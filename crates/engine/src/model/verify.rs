//! Whether everything that the model promises holds: copies, inverses and aggregates are computed
//! anew from the items and compared, and what is kept beside items is looked for where it must stand,
//! and nowhere else. All of it is read from one database snapshot, so writers are not held up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use orrery_modeling::{
    Action, AggregateSource, Marker, ModelPath, OnDelete, OnMissing, Tally, TypeRule,
};
use orrery_storage::key::{Bounds, Due};
use orrery_storage::{Entry, Space, key};
use orrery_types::ids::Address;
use orrery_types::{Error, Result, Value, limits};

use super::names::inverse_path;
use super::rules::{complaints, plain};
use super::{ModelContext, ModelTransaction};
use crate::error::storage;
use crate::item::address::{ItemAddress, ItemKey};
use crate::item::image::BeforeImage;
use crate::maintain::buckets;
use crate::maintain::kept_on_target::tally_of;
use crate::maintain::references;
use crate::partition::PhysicalPartition;
use crate::secondary_index::SecondaryIndexes;
use crate::transaction::reads::{DatabaseSnapshot, ReadView};
use crate::transaction::state::{TransactionOptions, TransactionState};
use crate::{Container, Engine};

/// A key with its shard.
type Place = (u32, Vec<u8>);

/// Sentences that a verification keeps; the others are counted.
const DRIFT_KEPT_MAX: usize = 1000;
/// How often it begins anew because partitions were split or merged.
const ATTEMPTS: usize = 5;

/// What a verification has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// What is not as the model promises, a sentence each; the first thousand.
    pub drift: Vec<String>,
    /// How many there are in all.
    pub drift_count: usize,
    /// Items that are to follow later, and have not followed yet.
    pub pending: usize,
    /// Items that were looked at.
    pub items: u64,
}

/// Progress of a verification, which can be watched and cancelled.
#[derive(Debug, Default)]
pub struct VerificationProgress {
    done: AtomicU64,
    all: AtomicU64,
    cancelled: AtomicBool,
}

impl VerificationProgress {
    /// In percent.
    pub fn percent(&self) -> u64 {
        let all = self.all.load(Ordering::Relaxed).max(1);
        (self.done.load(Ordering::Relaxed).saturating_mul(100) / all).min(99)
    }

    /// Ends the verification soon.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    fn pass(&self, entries: usize) -> Result<()> {
        self.done.fetch_add(entries as u64, Ordering::Relaxed);
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Unavailable("The verification was ended: the server stops.".into()));
        }
        Ok(())
    }
}

/// What should be stored, and what is not as it should be.
struct Audit<'e> {
    engine: &'e Engine,
    scope: ModelContext<'e>,
    snapshot: &'e DatabaseSnapshot<'e>,
    progress: &'e VerificationProgress,
    found: Verified,
    entries: BTreeMap<Place, Vec<u8>>,
    tallies: BTreeMap<Place, Tally>,
}

/// Whether the items of a database keep its model.
#[derive(Clone, Copy)]
pub struct ModelVerification<'e> {
    pub(crate) engine: &'e Engine,
}

impl ModelVerification<'_> {
    /// Everything that is not as the model promises, a sentence each; nothing, if all is well.
    pub fn verify(self, database: &Address) -> Result<Vec<String>> {
        Ok(self.verify_watched(database, &VerificationProgress::default())?.drift)
    }

    /// The same, watched. It reads a database snapshot, so it blocks nobody, and it takes time in
    /// proportion to the data.
    pub fn verify_watched(
        self,
        database: &Address,
        progress: &VerificationProgress,
    ) -> Result<Verified> {
        let mut attempts = 0..ATTEMPTS;
        loop {
            match self.verify_snapshot(database, progress) {
                Err(Error::PartitionGone) if attempts.next().is_some() => {
                    self.engine.erasure().load_all_changed()?;
                }
                result => return result,
            }
        }
    }

    fn verify_snapshot(
        self,
        database: &Address,
        progress: &VerificationProgress,
    ) -> Result<Verified> {
        let (database, snapshot) = {
            // No other model takes over between the two.
            let _schema = self.engine.model_locks.schema_shared();
            let database =
                self.engine.catalog.database(database).map_err(|_| Error::OwnerNotFound)?;
            let snapshot = DatabaseSnapshot::open(self.engine, &database)?;
            (database, snapshot)
        };
        let model = database.model.as_deref().ok_or(Error::NotFound)?;
        let scope = ModelContext { database: &database, model };
        let mut audit = Audit {
            engine: self.engine,
            scope,
            snapshot: &snapshot,
            progress,
            found: Verified::default(),
            entries: BTreeMap::new(),
            tallies: BTreeMap::new(),
        };
        progress.done.store(0, Ordering::Relaxed);
        progress.all.store(audit.estimate()?, Ordering::Relaxed);
        for container in database.containers().filter(|c| model.rules.concerns(&c.id)) {
            audit.items(container)?;
        }
        for partition in database.containers().flat_map(|container| &container.partitions) {
            audit.stored(partition)?;
        }
        for index in database.containers().filter(|container| container.is_secondary_index()) {
            for fault in SecondaryIndexes::verify(&database, &snapshot, index)? {
                audit.drift(format!("the global secondary index '{}': {fault}", index.id));
            }
        }
        Ok(audit.finish())
    }
}

impl<'e> Audit<'e> {
    /// About how many entries there are to look at.
    fn estimate(&self) -> Result<u64> {
        let mut all = 0;
        for container in self.scope.database.containers() {
            for partition in &container.partitions {
                let snapshot = self.snapshot.shard(partition.shard)?;
                let mut ranges =
                    vec![(Space::Index, key::model_entries()), (Space::Meta, key::all_tallies())];
                if self.scope.model.rules.concerns(&container.id) {
                    ranges.push((Space::Items, key::items_in(&partition.range)));
                }
                for (space, bounds) in ranges {
                    let found = snapshot.estimate(space, &bounds.from, &bounds.to);
                    all += found.map_err(storage)?;
                }
            }
        }
        Ok(all)
    }

    fn items(&mut self, container: &'e Container) -> Result<()> {
        for partition in &container.partitions {
            let bounds = key::items_in(&partition.range);
            self.scan(partition, Space::Items, bounds, |audit, entry| {
                audit.item(container, partition, entry)
            })?;
        }
        Ok(())
    }

    fn item(
        &mut self,
        container: &'e Container,
        partition: &'e PhysicalPartition,
        entry: &Entry,
    ) -> Result<()> {
        let before = BeforeImage::read(entry.value.clone())?;
        let value = before.value()?.clone();
        let view = ReadView::database(self.engine, self.snapshot);
        let options = TransactionOptions::default();
        let mut tx = TransactionState::new(self.engine, container, partition, view, options);
        self.found.items += 1;
        let partition_key = container.definition.partition_key.extract(&value);
        let at = ItemKey { partition, partition_key, key: entry.key.clone() };
        let address = ItemAddress { container, at };
        // What is hidden is not brought up to date any more, and counts until it is removed.
        let hidden = tx.view().hides(container, &entry.key, &before);
        let mut model = tx.under(self.scope);
        if !hidden {
            let rules = &self.scope.model.rules;
            let types = rules.types_of(&container.id, &value);
            for index in &types {
                self.judge(&rules.types[*index], &address, &value, &value);
            }
            self.hidden(&address, &types, &value);
            let truth = model.kept_anew(&address, &value)?;
            if truth != value && self.is_to_follow(&model, &address, &value)? {
                self.found.pending += 1;
            } else if truth != value {
                self.drift(format!(
                    "'{}' in '{}' is {} and should be {}",
                    address.id(),
                    container.id,
                    plain(&value).to_json(),
                    plain(&truth).to_json()
                ));
            }
        }
        if let Some(marker) = Marker::read(&value).filter(|_| self.scope.has_buckets(container)) {
            self.bucket(&mut model, &address, &value, &marker)?;
        }
        self.expect(&mut tx, &address, &value)
    }

    /// Whether something is noted that is to follow at this place.
    fn is_due(&self, index: usize, what: Due, target: &ItemAddress<'e>) -> Result<bool> {
        let key = key::due(self.scope.model.numbers[index], what, &target.at.key);
        let snapshot = self.snapshot.shard(target.at.partition.shard)?;
        Ok(snapshot.get(Space::Meta, &key).map_err(storage)?.is_some())
    }

    /// Whether an item that is not what it should be is to follow another later.
    fn is_to_follow(
        &self,
        model: &ModelTransaction<'_, 'e>,
        address: &ItemAddress<'e>,
        value: &Value,
    ) -> Result<bool> {
        for (index, rule) in self.scope.model.rules.relations.iter().enumerate() {
            if self.is_due(index, Due::Aggregates, address)? {
                return Ok(true);
            }
            for target in
                references::targets_of(model.tx, self.scope, rule, address.container, Some(value))?
            {
                if self.is_due(index, Due::Sources, &target)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// A bucket has a parent, and the parent knows of it.
    fn bucket(
        &mut self,
        model: &mut ModelTransaction<'_, 'e>,
        address: &ItemAddress<'e>,
        value: &Value,
        marker: &Marker,
    ) -> Result<()> {
        if self.scope.bucket_rule(address.container, marker).is_none() {
            // It is what a rule that is gone has left: an item like any other.
            return Ok(());
        }
        let Some((at, parent)) = buckets::owner_of_bucket(model, address, Some(marker))? else {
            self.drift(format!("the bucket '{}' belongs to no item", address.id()));
            return Ok(());
        };
        let mut entries = self.scope.bucket_entries(at, address, value, marker)?;
        entries.retain(|(key, _)| self.is_judged(key));
        let shard = address.at.partition.shard.0;
        self.entries.extend(entries.into_iter().map(|(key, value)| ((shard, key), value)));
        let rules = &self.scope.model.rules;
        let rule = &rules.buckets[at];
        let mut shown = parent.clone();
        rule.def.array.set(&mut shown, &[], Value::array(rule.elements(value).to_vec()));
        // What is wrong with the parent alone is said of the parent.
        if complaints(&rules.types[rule.on], &parent, &parent).is_empty() {
            self.judge(&rules.types[rule.on], address, &parent, &shown);
        }
        Ok(())
    }

    /// Whether an item keeps its type, where that is refused to those that do not.
    fn judge(&mut self, rule: &TypeRule, address: &ItemAddress<'e>, value: &Value, shown: &Value) {
        if rule.def.validation.action != Action::Error {
            return;
        }
        let broken = complaints(rule, value, shown);
        if !broken.is_empty() {
            let text = broken.join("; ");
            self.drift(format!(
                "'{}' in '{}' breaks its type: {text}",
                address.id(),
                address.container.id
            ));
        }
    }

    /// Properties that a name of the model hides.
    fn hidden(&mut self, address: &ItemAddress<'e>, types: &[usize], value: &Value) {
        let rules = &self.scope.model.rules;
        let mut all: Vec<ModelPath> = Vec::new();
        for rule in &rules.relations {
            all.extend(types.contains(&rule.from).then(|| rule.navigation.clone()));
            all.extend(inverse_path(rule).filter(|_| types.contains(&rule.to)));
        }
        for path in all {
            if let Some((_, found)) = path.collect(value).first() {
                let text: String = found.to_json().chars().take(40).collect();
                let (id, container) = (address.id(), &address.container.id);
                self.drift(format!(
                    "'{id}' in '{container}' has {text} at '{path}', which a name of the model hides"
                ));
            }
        }
    }

    /// What must stand beside the targets of an item.
    fn expect(
        &mut self,
        tx: &mut TransactionState<'e>,
        address: &ItemAddress<'e>,
        value: &Value,
    ) -> Result<()> {
        let model = self.scope.model;
        for (index, rule) in model.rules.relations.iter().enumerate() {
            if model.is_building(index) {
                continue;
            }
            for target in
                references::targets_of(tx, self.scope, rule, address.container, Some(value))?
            {
                self.leads_somewhere(tx, address, index, &target)?;
                let (shard, at) = (target.at.partition.shard.0, &target.at.key);
                let reference = key::reference(model.numbers[index], at, &address.at.key);
                self.entries.insert((shard, reference), vec![]);
                for aggregate in model.rules.aggregates.iter().filter(|a| a.relation == index) {
                    let value = aggregate.argument.value(value);
                    match aggregate.held() {
                        AggregateSource::InItem => {}
                        AggregateSource::Tally => {
                            let key = key::tally(model.aggregate_id(aggregate), at);
                            let tally = self.tallies.entry((shard, key)).or_default();
                            tally.merge(&Tally::of(aggregate.def.kind, &value));
                        }
                        AggregateSource::Values => {
                            let key = model.extreme_key(aggregate, at, &value, &address.at.key);
                            self.entries.extend(key.map(|key| ((shard, key), vec![])));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// A reference leads to an item, if the rule refuses others and cares for those that go.
    fn leads_somewhere(
        &mut self,
        tx: &mut TransactionState<'e>,
        address: &ItemAddress<'e>,
        index: usize,
        target: &ItemAddress<'e>,
    ) -> Result<()> {
        let rule = &self.scope.model.rules.relations[index];
        if rule.def.on_missing != OnMissing::Reject
            || rule.def.on_delete == OnDelete::Keep
            || self.scope.model.is_building(index)
        {
            return Ok(());
        }
        let shard = tx.shard_of(target);
        tx.load(shard, &target.at)?;
        if tx.past_image(shard, &target.at.key)?.is_some() {
            return Ok(());
        }
        if self.is_due(index, Due::Sources, target)? {
            self.found.pending += 1;
        } else {
            self.drift(format!(
                "'{}' in '{}' refers to '{}' by '{}', which is not there",
                address.id(),
                address.container.id,
                target.id(),
                rule.def.name
            ));
        }
        Ok(())
    }

    /// Whether a key is that of a rule which holds: not of one that is being built, nor of one that
    /// is gone, whose keys mean nothing.
    fn is_judged(&self, key: &[u8]) -> bool {
        let (model, rule) = (self.scope.model, key::rule_of(key));
        let index = model.numbers.iter().position(|number| Some(*number) == rule);
        index.is_some_and(|index| !model.is_building(index))
    }

    /// Compares what a shard has.
    fn stored(&mut self, partition: &PhysicalPartition) -> Result<()> {
        let shard = partition.shard.0;
        self.scan(partition, Space::Index, key::model_entries(), |audit, entry| {
            if !audit.is_judged(&entry.key) {
                return Ok(());
            }
            // A change that its tally does not have yet.
            if let Some(tally) = key::tally_of_delta(&entry.key) {
                let expected = audit.tallies.entry((shard, tally)).or_default();
                expected.merge(&tally_of(&entry.value.bytes)?.negated());
                return Ok(());
            }
            match audit.entries.remove(&(shard, entry.key.clone())) {
                Some(value) if value == entry.value.bytes => {}
                Some(_) => audit.say(shard, &entry.key, "is not what follows from the items"),
                None => audit.say(shard, &entry.key, "belongs to no item"),
            }
            Ok(())
        })?;
        self.scan(partition, Space::Meta, key::all_tallies(), |audit, entry| {
            if !audit.is_judged(&entry.key) {
                return Ok(());
            }
            let expected = audit.tallies.remove(&(shard, entry.key.clone())).unwrap_or_default();
            if tally_of(&entry.value.bytes)? != expected {
                audit.say(shard, &entry.key, "is not the tally of its items");
            }
            Ok(())
        })
    }

    fn scan(
        &mut self,
        partition: &PhysicalPartition,
        space: Space,
        mut bounds: Bounds,
        check: impl Fn(&mut Self, &Entry) -> Result<()>,
    ) -> Result<()> {
        let snapshot = self.snapshot.shard(partition.shard)?;
        loop {
            let scan = bounds.scan(space, limits::PAGE_ITEMS_MAX, limits::PAGE_SIZE_BYTES_MAX);
            let entries = snapshot.scan(&scan).map_err(storage)?;
            let Some(last) = entries.last() else { return Ok(()) };
            bounds = bounds.after(&last.key);
            for entry in &entries {
                check(self, entry)?;
            }
            self.progress.pass(entries.len())?;
        }
    }

    fn say(&mut self, shard: u32, key: &[u8], what: &str) {
        self.drift(format!("shard {shard}: {} {what}", key.escape_ascii()));
    }

    fn drift(&mut self, what: String) {
        self.found.drift_count += 1;
        if self.found.drift.len() < DRIFT_KEPT_MAX {
            self.found.drift.push(what);
        }
    }

    fn finish(mut self) -> Verified {
        for ((shard, key), _) in std::mem::take(&mut self.entries) {
            self.say(shard, &key, "is missing");
        }
        for ((shard, key), tally) in std::mem::take(&mut self.tallies) {
            if !tally.is_empty() {
                self.say(shard, &key, "is missing");
            }
        }
        self.found
    }
}
