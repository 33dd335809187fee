//! Whether everything that the model promises holds: copies, inverses and aggregates are computed
//! anew from the items and compared, and what is kept beside items is looked for where it must stand,
//! and nowhere else.

use std::collections::BTreeMap;

use orrery_modeling::{Held, Marker, OnDelete, OnMissing, Tally};
use orrery_storage::key::Bounds;
use orrery_storage::{Entry, ReadAt, Scan, Space, key};
use orrery_types::ids::Address;
use orrery_types::{Error, Result, Value, limits};

use super::ModelScope;
use super::aggregates::tally_of;
use super::govern::plain;
use super::spot::Spot;
use crate::change::Before;
use crate::draft::{Draft, View};
use crate::items::{Located, place_of};
use crate::partition::PhysicalPartition;
use crate::storage_error::storage;
use crate::{Container, Engine};

/// A key with its shard.
type Place = (u32, Vec<u8>);

/// What should be stored, and what is not as it should be.
struct Audit<'e> {
    engine: &'e Engine,
    scope: ModelScope<'e>,
    drift: Vec<String>,
    entries: BTreeMap<Place, Vec<u8>>,
    tallies: BTreeMap<Place, Tally>,
}

impl Engine {
    /// Everything that is not as the model promises, a sentence each; nothing, if all is well. It is
    /// meant for a database that nobody writes to, and takes time in proportion to the data.
    pub fn verify_model(&self, database: &Address) -> Result<Vec<String>> {
        let database = self.catalog.database(database).map_err(|_| Error::OwnerNotFound)?;
        let model = database.model.as_deref().ok_or(Error::NotFound)?;
        let scope = ModelScope { database: &database, model };
        let (drift, entries, tallies) = (vec![], BTreeMap::new(), BTreeMap::new());
        let mut audit = Audit { engine: self, scope, drift, entries, tallies };
        for container in database.containers().filter(|c| model.rules.concerns(&c.id)) {
            audit.items(container)?;
        }
        for partition in database.containers().flat_map(|container| &container.partitions) {
            audit.stored(partition)?;
        }
        Ok(audit.finish())
    }
}

impl<'e> Audit<'e> {
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
        let before = Before::read(entry.value.clone())?;
        let value = before.value()?.clone();
        let mut draft = Draft::new(self.engine, container, partition, View::Now);
        draft.model.scope = Some(self.scope);
        let partition_key = container.definition.partition_key.extract(&value);
        let at = Located { partition, partition_key, key: entry.key.clone() };
        let spot = Spot { container, at };
        // What is hidden is not brought up to date any more, and counts until it is removed.
        if !draft.is_hidden(&entry.key, &before) {
            let truth = draft.kept_anew(&spot, &value)?;
            if truth != value {
                self.drift.push(format!(
                    "'{}' in '{}' is {} and should be {}",
                    spot.id(),
                    container.id,
                    plain(&value).to_json(),
                    plain(&truth).to_json()
                ));
            }
        }
        if let Some(marker) = Marker::read(&value).filter(|_| self.scope.has_buckets(container)) {
            self.bucket(&mut draft, &spot, &value, &marker)?;
        }
        self.expect(&mut draft, &spot, &value)
    }

    /// A bucket has a parent, and the parent knows of it.
    fn bucket(
        &mut self,
        draft: &mut Draft<'e>,
        spot: &Spot<'e>,
        value: &Value,
        marker: &Marker,
    ) -> Result<()> {
        let Some(mut entries) = self.scope.bucket_entries(spot, value, marker)? else {
            return Ok(());
        };
        entries.retain(|(key, _)| self.is_judged(key));
        let shard = spot.at.partition.shard.0;
        self.entries.extend(entries.into_iter().map(|(key, value)| ((shard, key), value)));
        let key = spot.at.partition_key.clone();
        let at = place_of(spot.container, key, &marker.of)?;
        draft.load(&at)?;
        if draft.past_image(&at.key)?.is_none() {
            self.drift.push(format!("the bucket '{}' belongs to no item", spot.id()));
        }
        Ok(())
    }

    /// What must stand beside the targets of an item.
    fn expect(&mut self, draft: &mut Draft<'e>, spot: &Spot<'e>, value: &Value) -> Result<()> {
        let model = self.scope.model;
        for (index, rule) in model.rules.relations.iter().enumerate() {
            if model.is_building(index) {
                continue;
            }
            for target in draft.target_spots(self.scope, rule, spot.container, Some(value))? {
                self.leads_somewhere(draft, spot, index, &target)?;
                let (shard, at) = (target.at.partition.shard.0, &target.at.key);
                let reference = key::reference(model.numbers[index], at, &spot.at.key);
                self.entries.insert((shard, reference), vec![]);
                for aggregate in model.rules.aggregates.iter().filter(|a| a.relation == index) {
                    let value = aggregate.argument.value(value);
                    match aggregate.held() {
                        Held::InItem => {}
                        Held::Tally => {
                            let key = key::tally(model.aggregate_id(aggregate), at);
                            let tally = self.tallies.entry((shard, key)).or_default();
                            tally.merge(&Tally::of(aggregate.def.kind, &value));
                        }
                        Held::Values => {
                            let key = model.extreme_key(aggregate, at, &value, &spot.at.key);
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
        draft: &mut Draft<'e>,
        spot: &Spot<'e>,
        index: usize,
        target: &Spot<'e>,
    ) -> Result<()> {
        let rule = &self.scope.model.rules.relations[index];
        if rule.def.on_missing != OnMissing::Reject
            || rule.def.on_delete == OnDelete::Keep
            || self.scope.model.is_building(index)
        {
            return Ok(());
        }
        let beside = draft.beside(target.container, target.at.partition);
        beside.load(&target.at)?;
        if beside.past_image(&target.at.key)?.is_none() {
            self.drift.push(format!(
                "'{}' in '{}' refers to '{}' by '{}', which is not there",
                spot.id(),
                spot.container.id,
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
        let engine = self.engine;
        let snapshot = engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
        loop {
            let scan = Scan {
                space,
                from: &bounds.from,
                to: &bounds.to,
                reverse: false,
                max_rows: limits::PAGE_ITEMS_MAX,
                max_bytes: limits::PAGE_SIZE_BYTES_MAX,
                keys_only: false,
            };
            let entries = snapshot.scan(&scan).map_err(storage)?;
            let Some(last) = entries.last() else { return Ok(()) };
            bounds = bounds.after(&last.key);
            for entry in &entries {
                check(self, entry)?;
            }
        }
    }

    fn say(&mut self, shard: u32, key: &[u8], what: &str) {
        self.drift.push(format!("shard {shard}: {} {what}", key.escape_ascii()));
    }

    fn finish(mut self) -> Vec<String> {
        for ((shard, key), _) in std::mem::take(&mut self.entries) {
            self.say(shard, &key, "is missing");
        }
        for ((shard, key), tally) in std::mem::take(&mut self.tallies) {
            if !tally.is_empty() {
                self.say(shard, &key, "is missing");
            }
        }
        self.drift
    }
}
