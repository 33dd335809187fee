//! Execution of a stored procedure: one transaction of the logical partition that the request names.

use orrery_script::{CallFacts, ProcedureCall, Script};
use orrery_types::ids::Address;
use orrery_types::{Error, Etag, PartitionKey, Result, Value, limits};

use super::host::TransactionHost;
use super::{ScriptKind, script_error, script_of};
use crate::Container;
use crate::item::read::CommitPosition;
use crate::script::ServerScripts;
use crate::throughput::charge;

/// What a procedure came to.
#[derive(Clone, Debug)]
pub struct Executed {
    /// Its answer as JSON.
    pub body: String,
    /// What it logged.
    pub log: String,
    /// Where it committed.
    pub place: CommitPosition,
    /// The charge of all it did.
    pub charge: f64,
}

impl ServerScripts<'_> {
    /// Runs a procedure. Everything it wrote is kept, or nothing.
    pub fn execute_procedure(
        self,
        container: &Container,
        procedure: &Address,
        partition_key: Option<&PartitionKey>,
        arguments: &[u8],
        facts: &CallFacts,
    ) -> Result<Executed> {
        let record = match self.record(container, ScriptKind::Procedure, procedure) {
            Err(Error::NotFound) => None,
            found => Some(found?),
        };
        let own = record.as_ref().map(script_of);
        let script = own.or_else(|| system_procedure(procedure)).ok_or(Error::NotFound)?;
        let key = partition_key.ok_or_else(|| {
            Error::invalid("PartitionKey value must be supplied for this operation.")
        })?;
        let arguments = arguments_array(arguments)?;
        let facts = self.facts_for(container, facts, &script);
        let call = ProcedureCall { script, facts: &facts, arguments: &arguments };
        let deadline = self.engine.scripts.deadline();
        let done = self.engine.transactions().transact(container, key, &mut |transaction| {
            let mut host = TransactionHost { engine: self.engine, transaction };
            self.engine.scripts.run_procedure(&call, &mut host, deadline).map_err(script_error)
        })?;
        Ok(Executed {
            body: done.value.body,
            log: done.value.log,
            place: done.place,
            charge: charge::rounded(done.charge + charge::SCRIPT),
        })
    }
}

/// The arguments as an array: nothing means none. An object is read as an array is, by its `length`,
/// as the service reads it.
fn arguments_array(body: &[u8]) -> Result<Value> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::array(vec![]));
    }
    let value = Value::parse(body).map_err(|e| {
        Error::invalid(format!("The arguments of a procedure must be a JSON array: {e}."))
    })?;
    let arguments = match &value {
        Value::Null => vec![],
        Value::Array(_) => return check_count(value),
        Value::Object(_) => {
            let length = value.get("length").as_i64().unwrap_or(0).max(0);
            let most = i64::try_from(limits::SCRIPT_ARGUMENTS_MAX).unwrap_or(i64::MAX);
            let at = |at: i64| match value.get(&at.to_string()) {
                Value::Undefined => Value::Null,
                given => given.clone(),
            };
            (0..length.min(most + 1)).map(at).collect()
        }
        other => {
            return Err(Error::invalid(format!(
                "The arguments of a procedure must be a JSON array; they are {}.",
                other.to_json()
            )));
        }
    };
    check_count(Value::array(arguments))
}

fn check_count(arguments: Value) -> Result<Value> {
    let count = arguments.as_array().map_or(0, <[Value]>::len);
    if count > limits::SCRIPT_ARGUMENTS_MAX {
        return Err(Error::invalid(format!(
            "A procedure takes at most {} arguments; there are {count} or more.",
            limits::SCRIPT_ARGUMENTS_MAX
        )));
    }
    Ok(arguments)
}

/// The procedures that every container has, by the names under which clients of the service know
/// them.
const SYSTEM_PROCEDURES: [(&str, &str); 2] = [
    ("__.sys.echo", include_str!("system/echo.js")),
    ("__.sys.commonBulkInsert", include_str!("system/common_bulk_insert.js")),
];

fn system_procedure(procedure: &Address) -> Option<Script<'static>> {
    let Address::Name(name) = procedure else { return None };
    let known = (0..).zip(SYSTEM_PROCEDURES);
    known.into_iter().find(|(_, (known, _))| known == name).map(|(stamp, (name, body))| {
        // No process has this number: two that write to one store tell themselves apart by theirs.
        Script { name, body, version: Etag { node: u32::MAX, stamp } }
    })
}
