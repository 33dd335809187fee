//! `PUT`, `GET` and `DELETE` of a model. Writers of its containers wait for the moment in which one
//! takes the place of another, and the commit raises the epochs of all shards of these containers, so that
//! what was prepared under the old model is refused; what its new rules keep of items that are there is built afterwards,
//! beside them (`build`).

use std::sync::Arc;

use orrery_modeling::{BucketRule, Model, ModelError, ModelPath, Rules};
use orrery_storage::key::{self, RecordKind};
use orrery_storage::{ReadAt, Scan, Space};
use orrery_types::ids::Address;
use orrery_types::{Error, Lsn, Result, Value, limits};

use super::build::lock_all;
use super::expression::Language;
use super::{Stage, StoredModel};
use crate::catalog::records::Record;
use crate::catalog::resource::Stamp;
use crate::catalog::resource::{Preconditions, Resource, object, require_object};
use crate::error::storage;
use crate::item::read::Outcome;
use crate::model::Models;
use crate::{Container, Database};

/// A database has one model; its record has this number and name.
pub(crate) const NUMBER: u64 = 1;
const NAME: &str = "model";
/// What the server adds to the document, and takes off when it is sent back.
const SYSTEM: [&str; 5] = ["_rid", "_self", "_etag", "_ts", "_state"];

/// Rules that are gone, by number. Numbers rise: those of a model that comes meanwhile are newer.
struct GoneRules {
    newest: u32,
    kept: Vec<u32>,
}

impl GoneRules {
    fn has(&self, number: u32) -> bool {
        number <= self.newest && !self.kept.contains(&number)
    }
}

impl StoredModel {
    /// Compiles a document; numbers are zero until they are given.
    fn compile(
        database: &Database,
        document: Value,
        stamp: Stamp,
    ) -> std::result::Result<Self, ModelError> {
        let model = Model::parse(&document)?;
        let rules = Rules::compile(&model, database, &Language)?;
        let relations = (0..model.relations.len()).map(|i| identity(&model, &document, i));
        let buckets = (0..model.buckets.len()).map(|i| bucket_identity(&model, &document, i));
        let identities: Vec<String> = relations.chain(buckets).collect();
        let numbers = vec![0; identities.len()];
        let stages = vec![Stage::Building; identities.len()];
        Ok(Self { stamp, document, rules, numbers, identities, stages })
    }

    pub(crate) fn from_record(database: &Database, record: &Record) -> Result<Self> {
        let corrupt = |what: String| {
            Error::internal(format!("the model of '{}' is corrupt: {what}", database.id))
        };
        let document = record.body.get("document").clone();
        let mut model = Self::compile(database, document, record.stamp).map_err(|error| {
            Error::internal(format!(
                "the model of database '{}' is not valid in this version: {error}. Start the version \
                 that stored it, replace the model there, and then start this one",
                database.id
            ))
        })?;
        let numbers = record.body.get("numbers").as_array().unwrap_or_default();
        let number = |value: &Value| value.as_i64().and_then(|n| u32::try_from(n).ok());
        model.numbers = numbers.iter().filter_map(number).collect();
        if model.numbers.len() != model.identities.len() {
            return Err(corrupt("its rules have other numbers".into()));
        }
        let stages = record.body.get("stages").as_array().unwrap_or_default();
        let stage = |at: usize| match stages.get(at).and_then(Value::as_str) {
            Some("building") => Stage::Building,
            Some("verified") => Stage::Verified,
            _ => Stage::Enforced,
        };
        model.stages = (0..model.numbers.len()).map(stage).collect();
        Ok(model)
    }

    pub(crate) fn record(&self, version: Lsn) -> Record {
        let numbers = self.numbers.iter().map(|n| Value::from(i64::from(*n))).collect();
        let body = Value::object(object([
            ("document", self.document.clone()),
            ("numbers", Value::array(numbers)),
            ("stages", Value::array(self.stages.iter().map(|s| s.name().into()).collect())),
        ]));
        Record { number: NUMBER, version, id: NAME.into(), stamp: self.stamp, body }
    }

    pub(crate) fn to_resource(&self, database: &Database, state: Value) -> Resource {
        let link = format!("{}_model/", database.self_link());
        let mut body = self.document.as_object().cloned().unwrap_or_default();
        body.set("_state", state);
        Resource::new(database.rid(), self.stamp, &link, body)
    }

    /// The path of a rule in the document, by the rule's number.
    pub(crate) fn path_of(&self, number: u32) -> Option<String> {
        let index = self.numbers.iter().position(|known| *known == number)?;
        Some(match index.checked_sub(self.rules.relations.len()) {
            None => format!("/relations/{index}"),
            Some(bucket) => format!("/buckets/{bucket}"),
        })
    }

    /// The number of a bucketed array.
    pub(crate) fn bucket_number(&self, index: usize) -> u32 {
        let at = self.rules.relations.len() + index;
        self.numbers.get(at).copied().unwrap_or_default()
    }

    /// Takes over the numbers of rules that are the same as before; whether some are new.
    fn keep_numbers(&mut self, old: Option<&StoredModel>) -> Vec<usize> {
        let mut fresh = Vec::new();
        for (index, identity) in self.identities.iter().enumerate() {
            let same = old.and_then(|old| {
                let at = old.identities.iter().position(|other| other == identity)?;
                old.numbers.get(at).copied().zip(old.stages.get(at).copied())
            });
            match same {
                Some((number, stage)) => {
                    (self.numbers[index], self.stages[index]) = (number, stage);
                }
                None => fresh.push(index),
            }
        }
        fresh
    }
}

/// A relation with its two types and the aggregates over it: what is built for it follows from these.
fn identity(model: &Model, document: &Value, index: usize) -> String {
    let relation = &model.relations[index];
    let item_type = |name: &str| type_identity(document, name);
    let inverse = relation.inverse.as_ref().map(|inverse| &inverse.name);
    let aggregates = model.aggregates.iter().enumerate();
    let over = aggregates.filter(|(_, a)| a.on == relation.to && Some(&a.of) == inverse);
    let over: Vec<String> = over.map(|(i, _)| document.get("aggregates").at(i).to_json()).collect();
    let own = document.get("relations").at(index).to_json();
    format!("{own}\n{}{}{}", item_type(&relation.from), item_type(&relation.to), over.join("\n"))
}

fn bucket_identity(model: &Model, document: &Value, index: usize) -> String {
    let own = document.get("buckets").at(index).to_json();
    format!("{own}\n{}", type_identity(document, &model.buckets[index].on))
}

fn type_identity(document: &Value, name: &str) -> String {
    let found = document.get("types").get(name);
    format!("{}\n{}\n", found.get("container").to_json(), found.get("where").to_json())
}

impl Models<'_> {
    /// The model of a database.
    pub fn read(self, database: &Address) -> Result<Resource> {
        self.engine.catalog.refresh()?;
        self.engine.epochs().redo(&mut || {
            let found = self.engine.catalog.database(database);
            let database = found.map_err(|_| Error::OwnerNotFound)?;
            let model = database.model.as_ref().ok_or(Error::NotFound)?;
            self.resource(&database, model)
        })
    }

    fn resource(self, database: &Database, model: &StoredModel) -> Result<Resource> {
        Ok(model.to_resource(database, self.state(database, model)?))
    }

    /// Milliseconds since the oldest change that is still to be followed was made, over all models.
    pub fn lag_ms(self) -> Result<u64> {
        self.engine.epochs().redo(&mut || self.lag_now_ms())
    }

    fn lag_now_ms(self) -> Result<u64> {
        let mut oldest = None;
        for database in self.engine.catalog.state().databases() {
            let Some(model) = database.model.as_deref() else { continue };
            let since = self
                .engine
                .deferred_effects()
                .lags(database, model)?
                .into_iter()
                .filter_map(|lag| lag.since_us)
                .min();
            oldest = oldest.into_iter().chain(since).min();
        }
        Ok(oldest.map_or(0, |since_us| self.engine.clock.now_us().saturating_sub(since_us) / 1000))
    }

    /// Stores the model of a database, in place of the one that is there.
    pub fn store(
        self,
        database: &Address,
        document: &Value,
        conditions: &Preconditions,
    ) -> Result<(Outcome, Resource)> {
        let mut document = require_object(document)?.clone();
        for name in SYSTEM {
            document.remove(name);
        }
        let document = Value::object(document);
        let (outcome, address, gone) = self
            .engine
            .epochs()
            .redo(&mut || self.replace(database, document.clone(), conditions))?;
        self.purge(&address, &gone)?;
        // A little is built before it is answered; the background thread does the rest.
        self.engine.erasure().load_all_changed()?;
        self.engine.model_builds().build_model(&address, limits::MODEL_BUILD_ITEMS_INLINE);
        let resource = self.read(&address)?;
        Ok((outcome, resource))
    }

    /// Puts a model in place of the one that is there; its new rules are to be built.
    fn replace(
        self,
        database: &Address,
        document: Value,
        conditions: &Preconditions,
    ) -> Result<(Outcome, Address, GoneRules)> {
        let mut change = self.engine.catalog.change()?;
        let found = change.state.database(database).ok_or(Error::OwnerNotFound)?;
        let mut database = (**found).clone();
        let old = database.model.take();
        conditions.check_write(old.as_ref().map(|model| model.stamp))?;
        let mut model = StoredModel::compile(&database, document, self.engine.stamper.next())
            .map_err(|error| Error::invalid(error.to_string()))?;
        let concerned = |container: &&Arc<Container>| {
            container.is_secondary_index() && model.rules.concerns(&container.id)
        };
        if let Some(index) = database.containers().find(concerned) {
            return Err(Error::invalid(format!(
                "The container '{}' is a global secondary index: its items follow those of its source, and \
                 no model is about them.",
                index.id
            )));
        }
        let fresh = model.keep_numbers(old.as_deref());
        self.give_numbers(&mut model, &fresh)?;
        let numbers = model.numbers.clone();
        let given = numbers.iter().chain(old.iter().flat_map(|old| &old.numbers));
        let newest = given.max().copied().unwrap_or_default();
        database.model = Some(Arc::new(model));
        // Nobody writes to the containers of the old or the new model while it takes over.
        let schema = self.engine.model_locks.schema_exclusive();
        let named = database.containers_of(old.as_deref());
        let locks = lock_all(&named);
        let parent = u64::from(database.number);
        let stored = database.model.as_ref().ok_or_else(|| Error::internal("it was just set"))?;
        if let Some(old) = old.as_deref() {
            self.refuse_lost_arrays(&database, old, stored)?;
        }
        let outcome = if old.is_some() {
            let version = change.record(RecordKind::Model, parent, NUMBER)?.version;
            change.replace(RecordKind::Model, parent, &stored.record(version))?;
            Outcome::Replaced
        } else {
            change.insert(RecordKind::Model, parent, &stored.record(Lsn(0)))?;
            Outcome::Created
        };
        change.replace_definitions(&mut database, &named)?;
        change.state.insert(database.clone());
        change.commit()?;
        drop((locks, schema));
        let gone = GoneRules { newest, kept: numbers };
        Ok((outcome, Address::Rid(database.rid()), gone))
    }

    /// Removes what is kept for rules that are gone.
    fn purge(self, database: &Address, gone: &GoneRules) -> Result<()> {
        self.engine.epochs().redo(&mut || {
            let Ok(database) = self.engine.catalog.database(database) else { return Ok(()) };
            self.engine.model_builds().purge_kept(&database, &|number| gone.has(number))
        })
    }

    /// Elements of an array that gets another name, or buckets that get other ids, would be left
    /// behind: an array with elements stays what it is, unless its rule is taken out.
    fn refuse_lost_arrays(
        self,
        database: &Database,
        old: &StoredModel,
        new: &StoredModel,
    ) -> Result<()> {
        let container =
            |model: &StoredModel, on: usize| model.rules.types[on].def.container.clone();
        for (index, rule) in old.rules.buckets.iter().enumerate() {
            let own = container(old, rule.on);
            let is_here = |other: &&Arc<BucketRule>| container(new, other.on) == own;
            let known = |path: &ModelPath| {
                let mut rules = old.rules.buckets.iter();
                rules.any(|rule| container(old, rule.on) == own && rule.def.array == *path)
            };
            let same = new.rules.buckets.iter().filter(is_here);
            let same = same.clone().find(|other| other.def.array == rule.def.array).or_else(|| {
                same.clone().find(|other| {
                    old.rules.types[rule.on].def.name == new.rules.types[other.on].def.name
                        && !known(&other.def.array)
                })
            });
            let Some(other) = same else { continue };
            let what = if other.def.array != rule.def.array {
                "array"
            } else if other.ids != rule.ids {
                "bucket/idFormat"
            } else if other.def.link != rule.def.link {
                "bucket/link"
            } else {
                continue;
            };
            if self.has_elements(database, old, index)? {
                let at = new.rules.buckets.iter().position(|rule| Arc::ptr_eq(rule, other));
                return Err(Error::invalid(format!(
                    "/buckets/{}/{what}: the array '{}' has elements in buckets, which would be left \
                     behind. Keep it as it was, or empty the array of every item first. To leave the \
                     buckets as items of their own, store the model without the rule, and add another \
                     one later.",
                    at.unwrap_or_default(),
                    rule.def.array
                )));
            }
        }
        Ok(())
    }

    /// Whether an array of some item has buckets.
    fn has_elements(self, database: &Database, model: &StoredModel, index: usize) -> Result<bool> {
        let bounds = key::all_buckets_of(model.bucket_number(index));
        let on = model.rules.buckets[index].on;
        let container = database.container_named(&model.rules.types[on].def.container);
        if model.is_building(model.rules.relations.len() + index) {
            // Some may not be written down yet.
            return Ok(true);
        }
        for partition in container.iter().flat_map(|container| &container.partitions) {
            let scan = Scan { keys_only: true, ..bounds.scan(Space::Index, 1, usize::MAX) };
            let snapshot =
                self.engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
            if !snapshot.scan(&scan).map_err(storage)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Numbers that no rule had before, made durable at once: what a failed attempt leaves behind
    /// must never be taken for something else.
    fn give_numbers(self, model: &mut StoredModel, fresh: &[usize]) -> Result<()> {
        if fresh.is_empty() {
            return Ok(());
        }
        let count = u32::try_from(fresh.len()).map_err(|_| Error::internal("too many rules"))?;
        let first = self.engine.catalog.reserve_numbers("rule", count)?;
        for (index, number) in fresh.iter().zip(first..) {
            model.numbers[*index] = number;
        }
        Ok(())
    }

    /// Deletes the model of a database; the data stays as it is.
    pub fn delete(self, database: &Address, conditions: &Preconditions) -> Result<()> {
        let (address, gone) =
            self.engine.epochs().redo(&mut || self.delete_once(database, conditions))?;
        self.purge(&address, &gone)
    }

    /// The same on one picture of the catalog, without what was kept for its rules.
    fn delete_once(
        self,
        database: &Address,
        conditions: &Preconditions,
    ) -> Result<(Address, GoneRules)> {
        let mut change = self.engine.catalog.change()?;
        let found = change.state.database(database).ok_or(Error::OwnerNotFound)?;
        let mut database = (**found).clone();
        let model = database.model.take().ok_or(Error::NotFound)?;
        conditions.check_write(Some(model.stamp))?;
        let schema = self.engine.model_locks.schema_exclusive();
        let named = database.containers_of(Some(&model));
        let locks = lock_all(&named);
        change.remove(RecordKind::Model, u64::from(database.number), NUMBER, NAME);
        change.replace_definitions(&mut database, &named)?;
        change.state.insert(database.clone());
        change.commit()?;
        drop((locks, schema));
        let newest = model.numbers.iter().max().copied().unwrap_or_default();
        Ok((Address::Rid(database.rid()), GoneRules { newest, kept: vec![] }))
    }
}
