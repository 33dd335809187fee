//! Writes that name triggers: what the triggers do and the write itself are one transaction. A
//! trigger before the write may change the item, one after it sees the item as it was written; one
//! that throws undoes everything.

use bytes::Bytes;
use orrery_script::{CallFacts, Deadline, TriggerCall, TriggerTime};
use orrery_types::ids::Address;
use orrery_types::{Error, PartitionKey, Result, Value, limits};

use super::host::TransactionHost;
use super::{ScriptKind, script_error, script_of};
use crate::catalog::records::Record;
use crate::catalog::resource::Preconditions;
use crate::item::operation::ItemBody;
use crate::item::patch::Patch;
use crate::item::read::Written;
use crate::script::ServerScripts;
use crate::transaction::Transaction;
use crate::{Container, Engine};

/// When a trigger runs, in the words of its definition.
pub(super) const TYPES: &[&str] = &["Pre", "Post"];
/// For which writes, in the words of its definition.
pub(super) const OPERATIONS: &[&str] = &["All", "Create", "Update", "Replace", "Delete", "Upsert"];

/// The triggers that a request names, each list in the order in which they run.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct TriggerNames {
    pub before: Vec<String>,
    pub after: Vec<String>,
}

/// What a write does, for triggers to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum WriteKind {
    Create,
    Upsert,
    Replace,
    Patch,
    Delete,
}

impl WriteKind {
    /// As scripts know it; a patch replaces the item.
    fn name(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Upsert => "Upsert",
            Self::Replace | Self::Patch => "Replace",
            Self::Delete => "Delete",
        }
    }

    /// Whether a trigger for these writes runs at this one. An upsert may turn out to be either.
    fn is_meant_by(self, operation: &str) -> bool {
        let names: &[&str] = match self {
            Self::Create => &["All", "Create"],
            Self::Upsert => &["All", "Create", "Update", "Replace", "Upsert"],
            Self::Replace | Self::Patch => &["All", "Update", "Replace"],
            Self::Delete => &["All", "Delete"],
        };
        names.iter().any(|name| name.eq_ignore_ascii_case(operation))
    }
}

/// A write before its body is read: a trigger may still change it.
#[derive(Clone, Debug)]
pub struct TriggeredWrite {
    /// What it does.
    pub kind: WriteKind,
    /// The item, where the request names one.
    pub item: Option<Address>,
    /// The body of the request.
    pub text: Bytes,
    /// On what condition.
    pub conditions: Preconditions,
}

/// The triggers of a request, found and checked.
struct Triggers {
    before: Vec<Record>,
    after: Vec<Record>,
}

impl ServerScripts<'_> {
    /// Writes an item with triggers before and after.
    pub fn write_with_triggers(
        self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        write: &TriggeredWrite,
        names: &TriggerNames,
        facts: &CallFacts,
    ) -> Result<Written> {
        let triggers = Triggers {
            before: self.triggers(container, &names.before, TriggerTime::Before, write.kind)?,
            after: self.triggers(container, &names.after, TriggerTime::After, write.kind)?,
        };
        let key = self.key_of(container, partition_key, write)?;
        let deadline = self.engine.scripts.deadline();
        let run = TriggerRun { engine: self.engine, write, facts, deadline };
        let done = self
            .engine
            .transactions()
            .transact(container, &key, &mut |tx| run.write(tx, &triggers))?;
        let charge = crate::throughput::charge::rounded(done.charge);
        Ok(Written { place: done.place, charge, ..done.value })
    }

    fn triggers(
        self,
        container: &Container,
        names: &[String],
        moment: TriggerTime,
        kind: WriteKind,
    ) -> Result<Vec<Record>> {
        if names.len() > limits::TRIGGERS_PER_REQUEST_MAX {
            return Err(Error::invalid(format!(
                "The request names {} triggers; at most {} run at either moment.",
                names.len(),
                limits::TRIGGERS_PER_REQUEST_MAX
            )));
        }
        names.iter().map(|name| self.trigger(container, name, moment, kind)).collect()
    }

    fn trigger(
        self,
        container: &Container,
        name: &str,
        moment: TriggerTime,
        kind: WriteKind,
    ) -> Result<Record> {
        let address = Address::Name(name.to_owned());
        let found = self.record(container, ScriptKind::Trigger, &address);
        let record = found.map_err(|error| match error {
            Error::NotFound => Error::invalid(format!(
                "The container has no trigger '{name}', which the request names."
            )),
            other => other,
        })?;
        let property = |name: &str| record.body.get(name).as_str().unwrap_or_default().to_owned();
        let (wanted, given) = (word(moment), property("triggerType"));
        if !wanted.eq_ignore_ascii_case(&given) {
            return Err(Error::invalid(format!(
                "The trigger '{name}' is a {given} trigger and cannot run as a {wanted} trigger."
            )));
        }
        let operation = property("triggerOperation");
        if !kind.is_meant_by(&operation) {
            return Err(Error::invalid(format!(
                "The trigger '{name}' is for the operation {operation} and cannot run at {}.",
                kind.name()
            )));
        }
        Ok(record)
    }

    /// The logical partition of a write: what the header says, else the item itself.
    fn key_of(
        self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        write: &TriggeredWrite,
    ) -> Result<PartitionKey> {
        match (partition_key, &write.item, write.kind) {
            (Some(key), ..) => Ok(key.clone()),
            (None, Some(item), WriteKind::Patch | WriteKind::Delete) => {
                Ok(self.engine.items().locate(container, None, item)?.partition_key)
            }
            _ => Ok(ItemBody::parse(container, &write.text)?.key),
        }
    }
}

fn word(moment: TriggerTime) -> &'static str {
    match moment {
        TriggerTime::Before => "Pre",
        TriggerTime::After => "Post",
    }
}

/// One request's triggers and write, as often as its transaction starts over.
struct TriggerRun<'r> {
    engine: &'r Engine,
    write: &'r TriggeredWrite,
    facts: &'r CallFacts,
    deadline: Deadline,
}

impl TriggerRun<'_> {
    fn write(&self, tx: &mut Transaction<'_>, triggers: &Triggers) -> Result<Written> {
        let mut text = match (&self.write.item, self.write.kind) {
            // A trigger before a delete sees what is to go.
            (Some(item), WriteKind::Delete) if !triggers.before.is_empty() => tx.read(item)?.body,
            _ => self.write.text.clone(),
        };
        for trigger in &triggers.before {
            if let Some(changed) = self.run(tx, trigger, TriggerTime::Before, &text, None)? {
                text = changed;
            }
        }
        let mut written = self.apply(tx, &text)?;
        for trigger in &triggers.after {
            let body = written.body.clone();
            if let Some(changed) = self.run(tx, trigger, TriggerTime::After, &text, Some(&body))? {
                written.body = changed;
            }
        }
        Ok(written)
    }

    fn apply(&self, tx: &mut Transaction<'_>, text: &[u8]) -> Result<Written> {
        let TriggeredWrite { kind, item, conditions, .. } = self.write;
        match (kind, item) {
            (WriteKind::Create, _) => tx.create(text),
            (WriteKind::Upsert, _) => tx.upsert(text, conditions),
            (WriteKind::Replace, Some(item)) => tx.replace(item, text, conditions),
            (WriteKind::Patch, Some(item)) => {
                let body = Value::parse(text).map_err(|e| {
                    Error::invalid(format!("The request body is not valid JSON: {e}."))
                })?;
                tx.patch(item, &Patch::parse(&body)?, conditions)
            }
            (WriteKind::Delete, Some(item)) => tx.delete(item, conditions),
            (WriteKind::Replace | WriteKind::Patch | WriteKind::Delete, None) => {
                Err(Error::internal("a write of an item names none"))
            }
        }
    }

    /// Runs one trigger; returns the body that it set.
    fn run(
        &self,
        tx: &mut Transaction<'_>,
        trigger: &Record,
        moment: TriggerTime,
        request: &[u8],
        response: Option<&[u8]>,
    ) -> Result<Option<Bytes>> {
        // JSON is checked here once, so that a trigger never sees half of it.
        let has_request = !request.is_empty();
        if has_request {
            Value::parse(request)
                .map_err(|e| Error::invalid(format!("The request body is not valid JSON: {e}.")))?;
        }
        let script = script_of(trigger);
        let facts = self.engine.scripts().facts_for(tx.container(), self.facts, &script);
        let call = TriggerCall {
            script,
            facts: &facts,
            moment,
            operation: self.write.kind.name(),
            request_body: has_request.then_some(request),
            response_body: response.filter(|body| !body.is_empty()),
        };
        let mut host = TransactionHost { engine: self.engine, transaction: tx };
        let scripts = &self.engine.scripts;
        let result = scripts.run_trigger(&call, &mut host, self.deadline).map_err(script_error)?;
        Ok(result.body.map(Bytes::from))
    }
}
