//! The model of a database: kept in the catalog, one for each database, and compiled into rules when
//! it is stored and when the server starts.

mod expression;

use std::sync::Arc;

use orrery_modeling::{Model, ModelError, Rules};
use orrery_storage::key::RecordKind;
use orrery_types::ids::Address;
use orrery_types::{Error, Lsn, Result, Value};

use crate::catalog::records::Record;
use crate::items::Outcome;
use crate::resource::{Preconditions, Resource, require_object};
use crate::stamp::Stamp;
use crate::{Database, Engine};
use expression::Language;

/// The model of a database at one moment.
#[derive(Debug)]
pub(crate) struct StoredModel {
    pub(crate) stamp: Stamp,
    /// As it was sent, without system properties.
    document: Value,
    pub(crate) rules: Rules,
}

/// A database has one model; its record has this number and name.
const NUMBER: u64 = 1;
const NAME: &str = "model";
/// What the server adds to the document, and takes off when it is sent back.
const SYSTEM: [&str; 5] = ["_rid", "_self", "_etag", "_ts", "_state"];

impl StoredModel {
    pub(crate) fn from_record(database: &Database, record: &Record) -> Result<Self> {
        let document = record.body.clone();
        let rules = compile(database, &document)
            .map_err(|e| Error::internal(format!("the model of '{}': {e}", database.id)))?;
        Ok(Self { stamp: record.stamp, document, rules })
    }

    fn record(&self, version: Lsn) -> Record {
        let (stamp, body) = (self.stamp, self.document.clone());
        Record { number: NUMBER, version, id: NAME.into(), stamp, body }
    }

    fn to_resource(&self, database: &Database) -> Resource {
        let link = format!("{}_model/", database.self_link());
        let body = self.document.as_object().cloned().unwrap_or_default();
        Resource::new(database.rid(), self.stamp, &link, body)
    }
}

fn compile(database: &Database, document: &Value) -> std::result::Result<Rules, ModelError> {
    let model = Model::parse(document)?;
    let rules = Rules::compile(&model, database, &Language)?;
    match unbuilt(&model) {
        None => Ok(rules),
        Some((path, what)) => {
            let reason = format!("{what}: not built yet in this version; leave it out");
            Err(ModelError::new(path, reason))
        }
    }
}

/// What is understood and not kept yet: it is refused, because a promise must hold.
fn unbuilt(model: &Model) -> Option<(String, &'static str)> {
    let promising = |t: &&orrery_modeling::ItemType| {
        t.schema.is_some() || t.limits.warn_bytes.is_some() || t.limits.max_bytes.is_some()
    };
    if let Some(found) = model.types.iter().find(promising) {
        return Some((format!("/types/{}", found.name), "schema and limits"));
    }
    if !model.relations.is_empty() {
        return Some(("/relations/0".into(), "relations"));
    }
    if !model.buckets.is_empty() {
        return Some(("/buckets/0".into(), "buckets"));
    }
    None
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
        let mut object = require_object(document)?.clone();
        for name in SYSTEM {
            object.remove(name);
        }
        let document = Value::object(object);
        let mut change = self.catalog.change();
        let found = change.state.database(database).ok_or(Error::OwnerNotFound)?;
        let mut database = (**found).clone();
        let old = database.model.take();
        match &old {
            Some(model) => conditions.check_write(Some(model.stamp))?,
            None => conditions.check_write(None)?,
        }
        let rules = compile(&database, &document).map_err(|e| Error::invalid(e.to_string()))?;
        let model = StoredModel { stamp: self.stamper.next(), document, rules };
        let parent = u64::from(database.number);
        let outcome = if old.is_some() {
            let version = change.record(RecordKind::Model, parent, NUMBER)?.version;
            change.replace(RecordKind::Model, parent, &model.record(version))?;
            Outcome::Replaced
        } else {
            change.insert(RecordKind::Model, parent, &model.record(Lsn(0)))?;
            Outcome::Created
        };
        let resource = model.to_resource(&database);
        database.model = Some(Arc::new(model));
        change.state.insert(database);
        change.commit()?;
        Ok((outcome, resource))
    }

    /// Deletes the model of a database; the data stays as it is.
    pub fn delete_model(&self, database: &Address, conditions: &Preconditions) -> Result<()> {
        let mut change = self.catalog.change();
        let found = change.state.database(database).ok_or(Error::OwnerNotFound)?;
        let mut database = (**found).clone();
        let model = database.model.take().ok_or(Error::NotFound)?;
        conditions.check_write(Some(model.stamp))?;
        change.remove(RecordKind::Model, u64::from(database.number), NUMBER, NAME);
        change.state.insert(database);
        change.commit()
    }
}
