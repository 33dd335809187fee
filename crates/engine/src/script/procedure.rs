//! Execution of a stored procedure: one transaction of the logical partition that the request names.

use orrery_script::{CallFacts, ProcedureCall};
use orrery_types::ids::Address;
use orrery_types::{Error, PartitionKey, Result, Value};

use super::host::TransactionHost;
use super::{ScriptKind, script_error, script_of};
use crate::items::Place;
use crate::{Container, Engine, charge};

/// What a procedure came to.
#[derive(Clone, Debug)]
pub struct Executed {
    /// Its answer as JSON.
    pub body: String,
    /// What it logged.
    pub log: String,
    /// Where it committed.
    pub place: Place,
    /// The charge of all it did.
    pub charge: f64,
}

impl Engine {
    /// Runs a procedure. Everything it wrote is kept, or nothing.
    pub fn execute_procedure(
        &self,
        container: &Container,
        procedure: &Address,
        partition_key: Option<&PartitionKey>,
        arguments: &[u8],
        facts: &CallFacts,
    ) -> Result<Executed> {
        let record = self.script_record(container, ScriptKind::Procedure, procedure)?;
        let key = partition_key.ok_or_else(|| {
            Error::invalid("PartitionKey value must be supplied for this operation.")
        })?;
        let arguments = arguments_array(arguments)?;
        let script = script_of(&record);
        let facts = self.facts_for(container, facts, &script);
        let call = ProcedureCall { script, facts: &facts, arguments: &arguments };
        let deadline = self.scripts.deadline();
        let done = self.transact(container, key, &mut |transaction| {
            let mut host = TransactionHost { engine: self, transaction };
            self.scripts.run_procedure(&call, &mut host, deadline).map_err(script_error)
        })?;
        Ok(Executed {
            body: done.value.body,
            log: done.value.log,
            place: done.place,
            charge: charge::rounded(done.charge + charge::SCRIPT),
        })
    }
}

/// The arguments as an array: nothing means none, and a single value is one argument.
fn arguments_array(body: &[u8]) -> Result<Value> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::array(vec![]));
    }
    let value = Value::parse(body).map_err(|e| {
        Error::invalid(format!("The arguments of a procedure must be a JSON array: {e}."))
    })?;
    Ok(match value {
        Value::Null => Value::array(vec![]),
        Value::Array(_) => value,
        other => Value::array(vec![other]),
    })
}
