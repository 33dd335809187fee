//! A stored procedure: called by name with arguments, answers with the body that it set.

use orrery_types::Value;
use rquickjs::Array;

use crate::compiled::Script;
use crate::context::{CallBody, CallFacts, CallKind, EMPTY, LiveCall, RawText};
use crate::deadline::Deadline;
use crate::error::ScriptError;
use crate::host::ScriptHost;
use crate::pump;
use crate::runtime::{Scripts, run};
use crate::value;

/// A call of a procedure.
#[derive(Clone, Copy, Debug)]
pub struct ProcedureCall<'c> {
    /// Which procedure.
    pub script: Script<'c>,
    /// The request, as the script sees it.
    pub facts: &'c CallFacts,
    /// The arguments: an array.
    pub arguments: &'c Value,
}

/// What a procedure answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcedureResult {
    /// The body, as JSON; the empty string if it set none.
    pub body: String,
    /// What it logged.
    pub log: String,
}

impl Scripts {
    /// Runs a procedure to its end. What it did is the host's to keep or, after an error, to drop.
    pub fn run_procedure(
        &self,
        call: &ProcedureCall<'_>,
        host: &mut dyn ScriptHost,
        deadline: Deadline,
    ) -> Result<ProcedureResult, ScriptError> {
        self.overruns.watch(&call.script, || self.procedure(call, host, deadline))
    }

    fn procedure(
        &self,
        call: &ProcedureCall<'_>,
        host: &mut dyn ScriptHost,
        deadline: Deadline,
    ) -> Result<ProcedureResult, ScriptError> {
        let lease = self.lease(deadline)?;
        let context = lease.context()?;
        run(&context, |ctx| {
            let kind = CallKind {
                name: "procedure",
                operation: "Execute",
                request_body: CallBody::Value(call.arguments),
                response_body: CallBody::None,
            };
            let live = LiveCall::open(self, ctx, &call.script, call.facts, &kind, deadline)?;
            let arguments = value::to_js(ctx, call.arguments).map_err(|e| live.failed(&e))?;
            let arguments: Array<'_> = arguments.into_array().ok_or_else(not_an_array)?;
            pump::run(&live, arguments, host, &deadline)?;
            let body = live.body("responseBody", RawText::Quoted)?;
            let body = body.unwrap_or_else(|| EMPTY.into());
            Ok(ProcedureResult { body, log: live.handle("log", ())? })
        })
    }
}

fn not_an_array() -> ScriptError {
    ScriptError::Internal("the arguments of a procedure are not an array".into())
}
