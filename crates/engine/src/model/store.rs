//! `PUT`, `GET` and `DELETE` of a model. Storing one with new relations first brings the data under
//! it: writers of its containers wait, everything is checked, and only then is anything built.

use std::sync::Arc;

use orrery_modeling::{Model, ModelError, Rules};
use orrery_storage::key::RecordKind;
use orrery_types::ids::Address;
use orrery_types::{Error, Lsn, Result, Value};

use super::expression::Language;
use super::{StoredModel, unbuilt};
use crate::catalog::records::Record;
use crate::items::Outcome;
use crate::resource::{Preconditions, Resource, object, require_object};
use crate::stamp::Stamp;
use crate::{Database, Engine};

/// A database has one model; its record has this number and name.
const NUMBER: u64 = 1;
const NAME: &str = "model";
/// What the server adds to the document, and takes off when it is sent back.
const SYSTEM: [&str; 5] = ["_rid", "_self", "_etag", "_ts", "_state"];

impl StoredModel {
    /// Compiles a document; numbers are zero until they are given.
    fn compile(
        database: &Database,
        document: Value,
        stamp: Stamp,
    ) -> std::result::Result<Self, ModelError> {
        let model = Model::parse(&document)?;
        let rules = Rules::compile(&model, database, &Language)?;
        unbuilt::check(&model, &rules)?;
        let identities: Vec<String> =
            (0..model.relations.len()).map(|i| identity(&model, &document, i)).collect();
        let numbers = vec![0; identities.len()];
        Ok(Self { stamp, document, rules, numbers, identities })
    }

    pub(crate) fn from_record(database: &Database, record: &Record) -> Result<Self> {
        let corrupt = |what: String| {
            Error::internal(format!("the model of '{}' is corrupt: {what}", database.id))
        };
        let document = record.body.get("document").clone();
        let mut model = Self::compile(database, document, record.stamp)
            .map_err(|error| corrupt(error.to_string()))?;
        let numbers = record.body.get("numbers").as_array().unwrap_or_default();
        let number = |value: &Value| value.as_i64().and_then(|n| u32::try_from(n).ok());
        model.numbers = numbers.iter().filter_map(number).collect();
        if model.numbers.len() != model.identities.len() {
            return Err(corrupt("its rules have other numbers".into()));
        }
        Ok(model)
    }

    fn record(&self, version: Lsn) -> Record {
        let numbers = self.numbers.iter().map(|n| Value::from(i64::from(*n))).collect();
        let body = Value::object(object([
            ("document", self.document.clone()),
            ("numbers", Value::array(numbers)),
        ]));
        Record { number: NUMBER, version, id: NAME.into(), stamp: self.stamp, body }
    }

    pub(crate) fn to_resource(&self, database: &Database) -> Resource {
        let link = format!("{}_model/", database.self_link());
        let mut body = self.document.as_object().cloned().unwrap_or_default();
        body.set("_state", self.state());
        Resource::new(database.rid(), self.stamp, &link, body)
    }

    /// Each rule and how far it holds. What is stored is built before it is answered.
    fn state(&self) -> Value {
        let rule = |path: String| {
            Value::object(object([("rule", path.into()), ("state", "enforced".into())]))
        };
        let types = self.rules.types.iter().map(|t| rule(format!("/types/{}", t.def.name)));
        let relations = (0..self.rules.relations.len()).map(|i| rule(format!("/relations/{i}")));
        let aggregates = (0..self.rules.aggregates.len()).map(|i| rule(format!("/aggregates/{i}")));
        Value::array(types.chain(relations).chain(aggregates).collect())
    }

    /// Takes over the numbers of relations that are the same as before; whether some are new.
    fn keep_numbers(&mut self, old: Option<&StoredModel>) -> Vec<usize> {
        let mut fresh = Vec::new();
        for (index, identity) in self.identities.iter().enumerate() {
            let same = old.and_then(|old| {
                let at = old.identities.iter().position(|other| other == identity)?;
                old.numbers.get(at)
            });
            match same {
                Some(number) => self.numbers[index] = *number,
                None => fresh.push(index),
            }
        }
        fresh
    }
}

/// A relation with its two types and the aggregates over it: what is built for it follows from these.
fn identity(model: &Model, document: &Value, index: usize) -> String {
    let relation = &model.relations[index];
    let item_type = |name: &str| {
        let found = document.get("types").get(name);
        format!("{}\n{}\n", found.get("container").to_json(), found.get("where").to_json())
    };
    let inverse = relation.inverse.as_ref().map(|inverse| &inverse.name);
    let aggregates = model.aggregates.iter().enumerate();
    let over = aggregates.filter(|(_, a)| a.on == relation.to && Some(&a.of) == inverse);
    let over: Vec<String> = over.map(|(i, _)| document.get("aggregates").at(i).to_json()).collect();
    let own = document.get("relations").at(index).to_json();
    format!("{own}\n{}{}{}", item_type(&relation.from), item_type(&relation.to), over.join("\n"))
}

impl Engine {
    /// The model of a database.
    pub fn read_model(&self, database: &Address) -> Result<Resource> {
        let database = self.catalog.database(database).map_err(|_| Error::OwnerNotFound)?;
        let model = database.model.as_ref().ok_or(Error::NotFound)?;
        Ok(model.to_resource(&database))
    }

    /// Stores the model of a database, in place of the one that is there.
    pub fn store_model(
        &self,
        database: &Address,
        document: &Value,
        conditions: &Preconditions,
    ) -> Result<(Outcome, Resource)> {
        let mut document = require_object(document)?.clone();
        for name in SYSTEM {
            document.remove(name);
        }
        let document = Value::object(document);
        let mut change = self.catalog.change();
        let found = change.state.database(database).ok_or(Error::OwnerNotFound)?;
        let mut database = (**found).clone();
        let old = database.model.take();
        conditions.check_write(old.as_ref().map(|model| model.stamp))?;
        let mut model = StoredModel::compile(&database, document, self.stamper.next())
            .map_err(|error| Error::invalid(error.to_string()))?;
        let fresh = model.keep_numbers(old.as_deref());
        self.give_numbers(&mut model, &fresh)?;
        let numbers = model.numbers.clone();
        database.model = Some(Arc::new(model));
        // Nobody writes to the containers of the old or the new model while it takes over.
        let _still = self.models.write();
        let _passes = database.close_gates(old.as_deref());
        if let Err(error) = self.build_model(&database, &fresh) {
            let given: Vec<u32> = fresh.iter().map(|index| numbers[*index]).collect();
            self.purge_references(&database, &|number| given.contains(&number))?;
            return Err(error);
        }
        let parent = u64::from(database.number);
        let stored = database.model.as_ref().ok_or_else(|| Error::internal("it was just set"))?;
        let outcome = if old.is_some() {
            let version = change.record(RecordKind::Model, parent, NUMBER)?.version;
            change.replace(RecordKind::Model, parent, &stored.record(version))?;
            Outcome::Replaced
        } else {
            change.insert(RecordKind::Model, parent, &stored.record(Lsn(0)))?;
            Outcome::Created
        };
        let resource = stored.to_resource(&database);
        change.state.insert(database.clone());
        change.commit()?;
        self.purge_references(&database, &|number| !numbers.contains(&number))?;
        Ok((outcome, resource))
    }

    /// Numbers that no rule had before, made durable at once: what a failed attempt leaves behind
    /// must never be taken for something else.
    fn give_numbers(&self, model: &mut StoredModel, fresh: &[usize]) -> Result<()> {
        if fresh.is_empty() {
            return Ok(());
        }
        let count = u32::try_from(fresh.len()).map_err(|_| Error::internal("too many rules"))?;
        let first = self.catalog.reserve_numbers("rule", count)?;
        for (index, number) in fresh.iter().zip(first..) {
            model.numbers[*index] = number;
        }
        Ok(())
    }

    /// Deletes the model of a database; the data stays as it is.
    pub fn delete_model(&self, database: &Address, conditions: &Preconditions) -> Result<()> {
        let mut change = self.catalog.change();
        let found = change.state.database(database).ok_or(Error::OwnerNotFound)?;
        let mut database = (**found).clone();
        let model = database.model.take().ok_or(Error::NotFound)?;
        conditions.check_write(Some(model.stamp))?;
        let _still = self.models.write();
        let _passes = database.close_gates(Some(&model));
        change.remove(RecordKind::Model, u64::from(database.number), NUMBER, NAME);
        change.state.insert(database.clone());
        change.commit()?;
        self.purge_references(&database, &|_| true)
    }
}
