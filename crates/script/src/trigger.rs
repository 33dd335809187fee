//! A trigger: runs before a write, where it may change the item that is written, or after it, where
//! it sees the item as it was written and may change what is answered.

use rquickjs::Array;

use crate::compiled::Script;
use crate::context::{CallBody, CallFacts, CallKind, LiveCall, RawText};
use crate::deadline::Deadline;
use crate::error::ScriptError;
use crate::host::ScriptHost;
use crate::pump;
use crate::runtime::{Scripts, run};

/// When a trigger runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum TriggerTime {
    Before,
    After,
}

/// A call of a trigger.
#[derive(Clone, Copy, Debug)]
pub struct TriggerCall<'c> {
    /// Which trigger.
    pub script: Script<'c>,
    /// The request, as the script sees it.
    pub facts: &'c CallFacts,
    /// Before or after the write.
    pub moment: TriggerTime,
    /// The write, as scripts know it: `Create`, `Replace`, `Upsert`, `Delete`.
    pub operation: &'static str,
    /// The item that is written, or is to be deleted.
    pub request_body: Option<&'c [u8]>,
    /// The item as it was written, after the write.
    pub response_body: Option<&'c [u8]>,
}

/// What a trigger changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerResult {
    /// Before: the item to write in place of the given one. After: the body to answer with.
    pub body: Option<String>,
    /// What it logged.
    pub log: String,
}

impl Scripts {
    /// Runs a trigger to its end.
    pub fn run_trigger(
        &self,
        call: &TriggerCall<'_>,
        host: &mut dyn ScriptHost,
        deadline: Deadline,
    ) -> Result<TriggerResult, ScriptError> {
        self.overruns.watch(&call.script, || self.trigger(call, host, deadline))
    }

    fn trigger(
        &self,
        call: &TriggerCall<'_>,
        host: &mut dyn ScriptHost,
        deadline: Deadline,
    ) -> Result<TriggerResult, ScriptError> {
        let lease = self.lease(deadline)?;
        let context = lease.context()?;
        run(&context, |ctx| {
            let name = match call.moment {
                TriggerTime::Before => "before",
                TriggerTime::After => "after",
            };
            let kind = CallKind {
                name,
                operation: call.operation,
                request_body: call.request_body.map_or(CallBody::None, CallBody::Text),
                response_body: call.response_body.map_or(CallBody::None, CallBody::Text),
            };
            let live = LiveCall::open(self, ctx, &call.script, call.facts, &kind, deadline)?;
            let none = Array::new(ctx.clone()).map_err(|e| live.failed(&e))?;
            pump::run(&live, none, host, &deadline)?;
            let body = match call.moment {
                TriggerTime::Before => live.body("requestBody", RawText::Kept)?,
                TriggerTime::After => live.body("responseBody", RawText::Quoted)?,
            };
            Ok(TriggerResult { body, log: live.handle("log", ())? })
        })
    }
}
