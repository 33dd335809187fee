//! Scripts of a container as resources of the catalog: stored procedures, triggers and user-defined
//! functions. All three are kept alike, under the container, and differ in what they are for.
//! `procedure`, `trigger` and `udf` run them, `host` lets them work on items.

mod error;
mod host;
mod procedure;
mod trigger;
mod udf;

use std::borrow::Cow;

use orrery_script::{Script, looks_like_function};
use orrery_storage::key::RecordKind;
use orrery_types::ids::{Address, ChildKind, Rid};
use orrery_types::{Error, Lsn, Object, Result, Value, limits};

use crate::catalog::Change;
use crate::catalog::records::{self, Record};
use crate::catalog::resource::Stamp;
use crate::catalog::resource::{Preconditions, Resource, object, require_object, resource_id};
use crate::{Container, Engine};

pub(crate) use error::script_error;
pub use orrery_script::{Bounds, CallFacts};
pub use procedure::Executed;
pub use trigger::{TriggerNames, TriggeredWrite, WriteKind};
pub(crate) use udf::UdfCalls;

/// The three kinds of script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ScriptKind {
    Procedure,
    Trigger,
    Udf,
}

impl ScriptKind {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Procedure, Self::Trigger, Self::Udf];

    pub(crate) fn record(self) -> RecordKind {
        match self {
            Self::Procedure => RecordKind::Procedure,
            Self::Trigger => RecordKind::Trigger,
            Self::Udf => RecordKind::Udf,
        }
    }

    fn child(self) -> ChildKind {
        match self {
            Self::Procedure => ChildKind::Procedure,
            Self::Trigger => ChildKind::Trigger,
            Self::Udf => ChildKind::Udf,
        }
    }

    /// The word of its links.
    fn word(self) -> &'static str {
        match self {
            Self::Procedure => "sprocs",
            Self::Trigger => "triggers",
            Self::Udf => "udfs",
        }
    }

    fn count_max(self) -> usize {
        match self {
            Self::Procedure => limits::PROCEDURES_MAX,
            Self::Trigger => limits::TRIGGERS_MAX,
            Self::Udf => limits::UDFS_MAX,
        }
    }
}

/// A script's properties, checked, without its id.
fn accept(kind: ScriptKind, body: &Value) -> Result<Object> {
    require_object(body)?;
    let text = required(body, "body")?;
    if text.len() > limits::SCRIPT_SOURCE_BYTES_MAX {
        let limit = limits::SCRIPT_SOURCE_BYTES_MAX;
        return Err(Error::TooLarge { what: "the text of the script", size: text.len(), limit });
    }
    let mut kept = object([("body", text.into())]);
    if kind == ScriptKind::Trigger {
        for (name, words) in
            [("triggerType", trigger::TYPES), ("triggerOperation", trigger::OPERATIONS)]
        {
            let given = required(body, name)?;
            if !words.iter().any(|word| word.eq_ignore_ascii_case(given)) {
                return Err(Error::invalid(format!(
                    "The property '{name}' must be one of {}; it is '{given}'.",
                    words.join(", ")
                )));
            }
            kept.set(name, given.into());
        }
    }
    Ok(kept)
}

fn required<'b>(body: &'b Value, name: &str) -> Result<&'b str> {
    match body.get(name) {
        Value::String(text) => Ok(text),
        Value::Undefined | Value::Null => Err(Error::invalid(format!(
            "The input content is invalid because the required properties - '{name}; ' - are missing"
        ))),
        other => Err(Error::invalid(format!(
            "The property '{name}' must be a string; it is {}.",
            other.to_json()
        ))),
    }
}

/// The record's script, as the runner takes it.
pub(crate) fn script_of(record: &Record) -> Script<'_> {
    Script {
        name: &record.id,
        body: record.body.get("body").as_str().unwrap_or_default(),
        version: record.stamp.etag,
    }
}

fn parent(container: &Container) -> u64 {
    u64::from(container.number)
}

fn resource(container: &Container, kind: ScriptKind, record: &Record) -> Resource {
    let rid = Rid::Child {
        database: container.database,
        container: container.number,
        kind: kind.child(),
        number: record.number,
    };
    let mut body = object([("id", (&*record.id).into())]);
    for (name, value) in record.properties().iter() {
        body.set(name, value.clone());
    }
    let link = format!("{}{}/{rid}/", container.self_link(), kind.word());
    Resource::new(rid, record.stamp, &link, body)
}

/// Procedures, triggers and functions of a container.
#[derive(Clone, Copy)]
pub struct ServerScripts<'e> {
    pub(crate) engine: &'e Engine,
}

impl<'e> ServerScripts<'e> {
    /// A script by name or rid.
    pub(crate) fn record(
        self,
        container: &Container,
        kind: ScriptKind,
        script: &Address,
    ) -> Result<Record> {
        let parent = parent(container);
        let record = match script {
            Address::Name(name) => {
                records::by_name(&*self.engine.store, kind.record(), parent, name)?
            }
            Address::Rid(Rid::Child { kind: of, number, .. }) if *of == kind.child() => {
                records::by_number(&*self.engine.store, kind.record(), parent, *number)?
            }
            Address::Rid(_) => None,
        };
        record.ok_or(Error::NotFound)
    }

    /// Tells at once that a function does not compile. Text that is no function at all is kept, as
    /// the original keeps it, and refused when it is called.
    fn check(self, record: &Record) -> Result<()> {
        let script = script_of(record);
        if !looks_like_function(script.body) {
            return Ok(());
        }
        self.engine.scripts.check(&script).map_err(script_error)
    }

    /// Makes a script; with `upsert`, replaces the one that has the id. Tells whether it was made.
    pub fn create(
        self,
        container: &Container,
        kind: ScriptKind,
        body: &Value,
        upsert: bool,
    ) -> Result<(Resource, bool)> {
        let id = resource_id(body)?;
        let properties = Value::object(accept(kind, body)?);
        let stamp = self.engine.stamper.next();
        let record = Record { number: 0, version: Lsn(0), id, stamp, body: properties };
        self.check(&record)?;
        self.engine.epochs().redo(&mut || self.store(container, kind, record.clone(), upsert))
    }

    /// Stores a script that was checked.
    fn store(
        self,
        container: &Container,
        kind: ScriptKind,
        mut record: Record,
        upsert: bool,
    ) -> Result<(Resource, bool)> {
        let mut change = self.change_in(container)?;
        let old =
            records::by_name(&*self.engine.store, kind.record(), parent(container), &record.id)?;
        let created = old.is_none();
        if let Some(old) = old {
            if !upsert {
                return Err(Error::AlreadyExists);
            }
            (record.number, record.version) = (old.number, old.version);
            change.replace(kind.record(), parent(container), &record)?;
        } else {
            self.check_count(container, kind)?;
            record.number = u64::from(change.next_number("script")?);
            change.insert(kind.record(), parent(container), &record)?;
        }
        change.commit()?;
        Ok((resource(container, kind, &record), created))
    }

    /// A change under a container that is still there.
    fn change_in(self, container: &Container) -> Result<Change<'e>> {
        let change = self.engine.catalog.change()?;
        let database = Address::Rid(container.database_rid());
        self.engine
            .catalog
            .container(&database, &Address::Rid(container.rid()))
            .map_err(|_| Error::OwnerNotFound)?;
        Ok(change)
    }

    fn check_count(self, container: &Container, kind: ScriptKind) -> Result<()> {
        let count = records::list(&*self.engine.store, kind.record(), parent(container))?.len();
        if count < kind.count_max() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "The container has {count} {}, and may not have more.",
            kind.word()
        )))
    }

    /// One script.
    pub fn read(
        self,
        container: &Container,
        kind: ScriptKind,
        script: &Address,
    ) -> Result<Resource> {
        Ok(resource(container, kind, &self.record(container, kind, script)?))
    }

    /// The scripts of one kind, in the order of creation.
    pub fn list(self, container: &Container, kind: ScriptKind) -> Result<Vec<Resource>> {
        let all = records::list(&*self.engine.store, kind.record(), parent(container))?;
        Ok(all.iter().map(|record| resource(container, kind, record)).collect())
    }

    /// Replaces a script; its id may change.
    pub fn replace(
        self,
        container: &Container,
        kind: ScriptKind,
        script: &Address,
        body: &Value,
        conditions: &Preconditions,
    ) -> Result<Resource> {
        let id = resource_id(body)?;
        let properties = Value::object(accept(kind, body)?);
        let stamp = self.engine.stamper.next();
        let newer = new_version(&id, stamp, &properties);
        self.check(&newer)?;
        self.engine
            .epochs()
            .redo(&mut || self.replace_once(container, kind, script, newer.clone(), conditions))
    }

    /// Replaces a script by a version that was checked.
    fn replace_once(
        self,
        container: &Container,
        kind: ScriptKind,
        script: &Address,
        Record { id, stamp, body: properties, .. }: Record,
        conditions: &Preconditions,
    ) -> Result<Resource> {
        let mut change = self.change_in(container)?;
        let old = self.record(container, kind, script)?;
        conditions.check_write(Some(old.stamp))?;
        let mut record = Record { stamp, body: properties, ..old.clone() };
        if id == old.id {
            change.replace(kind.record(), parent(container), &record)?;
        } else {
            if records::by_name(&*self.engine.store, kind.record(), parent(container), &id)?
                .is_some()
            {
                return Err(Error::AlreadyExists);
            }
            change.remove(kind.record(), parent(container), old.number, &old.id);
            record.id = id;
            change.insert(kind.record(), parent(container), &record)?;
        }
        change.commit()?;
        Ok(resource(container, kind, &record))
    }

    /// Deletes a script.
    pub fn delete(
        self,
        container: &Container,
        kind: ScriptKind,
        script: &Address,
        conditions: &Preconditions,
    ) -> Result<()> {
        self.engine.epochs().redo(&mut || {
            let mut change = self.change_in(container)?;
            let record = self.record(container, kind, script)?;
            conditions.check_write(Some(record.stamp))?;
            change.remove(kind.record(), parent(container), record.number, &record.id);
            change.commit()
        })
    }
}

fn new_version(id: &str, stamp: Stamp, body: &Value) -> Record {
    Record { number: 0, version: Lsn(0), id: id.into(), stamp, body: body.clone() }
}

impl ServerScripts<'_> {
    /// The facts of a call, completed by what only the engine knows. Sizes are kilobytes as the store
    /// estimates them; a container has no greatest size. The store is asked only for a script that
    /// speaks of quotas: few do.
    fn facts_for<'f>(
        self,
        container: &Container,
        facts: &'f CallFacts,
        script: &Script<'_>,
    ) -> Cow<'f, CallFacts> {
        if !script.body.contains("Quota") {
            return Cow::Borrowed(facts);
        }
        let (quota_max, quota_used) = self.quota(container).unwrap_or_default();
        Cow::Owned(CallFacts { quota_max, quota_used, ..facts.clone() })
    }

    /// How many scripts and how much data a container may hold, and how many and how much it does, as
    /// the service writes both.
    pub fn quota(self, container: &Container) -> Result<(String, String)> {
        let bytes: u64 = self
            .engine
            .insight()
            .shard_sizes(container)?
            .iter()
            .map(|stats| stats.items_bytes)
            .sum();
        let count = |kind| self.list(container, kind).map(|scripts| scripts.len());
        let used = format!(
            "functions={};storedProcedures={};triggers={};collectionSize={};",
            count(ScriptKind::Udf)?,
            count(ScriptKind::Procedure)?,
            count(ScriptKind::Trigger)?,
            bytes.div_ceil(1024)
        );
        let max = format!(
            "functions={};storedProcedures={};triggers={};collectionSize=-1;",
            limits::UDFS_MAX,
            limits::PROCEDURES_MAX,
            limits::TRIGGERS_MAX
        );
        Ok((max, used))
    }
}

/// Gathers the removal of a container's scripts.
pub(crate) fn remove_scripts(change: &mut Change<'_>, container: &Container) -> Result<()> {
    for kind in ScriptKind::ALL {
        change.remove_all(kind.record(), parent(container))?;
    }
    Ok(())
}
