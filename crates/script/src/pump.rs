//! Drives a script to its end: its promises, then the operation that waits longest, whose callback
//! may queue others and make new promises; until nothing is left or the time is over.

use orrery_types::Error;
use orrery_types::ids::{Address, Rid};
use rquickjs::{Array, Ctx, Object, Value};

use crate::context::LiveCall;
use crate::deadline::Deadline;
use crate::error::{ScriptError, Thrown};
use crate::host::{Answer, Outcome, PageRequest, ScriptHost, number};

/// Calls the script's function and sees everything through that it began.
pub(crate) fn run<'js>(
    call: &LiveCall<'js>,
    arguments: Array<'js>,
    host: &mut dyn ScriptHost,
    deadline: &Deadline,
) -> Result<(), ScriptError> {
    call.handle::<_, ()>("run", (call.main.clone(), arguments))?;
    loop {
        finish_jobs(&call.ctx, deadline)?;
        call.check_failure()?;
        let waiting: Option<Array<'js>> = call.handle("next", ())?;
        let Some(waiting) = waiting else { break };
        let operation = Operation::read(&waiting).map_err(|error| call.failed(&error))?;
        settle(call, operation.perform(host))?;
        check(deadline)?;
    }
    if call.handle("isPending", ())? {
        let text = "Error: the promise that the script returned is never settled";
        return Err(Thrown { text: text.into(), ..Thrown::default() }.into());
    }
    Ok(())
}

fn check(deadline: &Deadline) -> Result<(), ScriptError> {
    if deadline.is_over() { Err(ScriptError::Timeout(deadline.limit_ms())) } else { Ok(()) }
}

fn finish_jobs(ctx: &Ctx<'_>, deadline: &Deadline) -> Result<(), ScriptError> {
    check(deadline)?;
    while ctx.execute_pending_job() {
        check(deadline)?;
    }
    Ok(())
}

/// Runs the callback of an operation.
fn settle(call: &LiveCall<'_>, result: orrery_types::Result<Answer>) -> Result<(), ScriptError> {
    let answer = match result {
        Ok(answer) => answer,
        Err(error) => {
            let Some(number) = number(&error) else {
                return Err(ScriptError::Host(Box::new(error)));
            };
            return call.handle("fail", (number, error.to_string()));
        }
    };
    let told = tell(&call.ctx, answer).map_err(|error| call.failed(&error))?;
    call.handle("succeed", told)
}

/// The item and the options of a callback.
fn tell<'js>(ctx: &Ctx<'js>, answer: Answer) -> rquickjs::Result<(Value<'js>, Object<'js>)> {
    let options = Object::new(ctx.clone())?;
    options.set("statusCode", answer.outcome.number())?;
    if let Some(continuation) = answer.continuation {
        options.set("continuation", continuation)?;
    }
    if answer.outcome == Outcome::NotModified {
        options.set("notModified", true)?;
    }
    let has_body = !matches!(answer.outcome, Outcome::Deleted | Outcome::NotModified);
    let body =
        if has_body { ctx.json_parse(answer.body)? } else { Value::new_undefined(ctx.clone()) };
    Ok((body, options))
}

/// An operation as the queue holds it: what, on which item, with which text, and how.
struct Operation {
    kind: String,
    item: String,
    text: String,
    needs_id: bool,
    if_match: Option<String>,
    if_none_match: Option<String>,
    page: PageRequest,
}

impl Operation {
    fn read(waiting: &Array<'_>) -> rquickjs::Result<Self> {
        let options: Object<'_> = waiting.get(3)?;
        let size: Option<i64> = options.get("pageSize")?;
        Ok(Self {
            kind: waiting.get(0)?,
            item: waiting.get(1)?,
            text: waiting.get(2)?,
            needs_id: options.get::<_, Option<bool>>("needsId")?.unwrap_or(false),
            if_match: options.get("ifMatch")?,
            if_none_match: options.get("ifNoneMatch")?,
            page: PageRequest {
                size: size.unwrap_or(-1),
                continuation: options.get("continuation")?,
            },
        })
    }

    fn perform(&self, host: &mut dyn ScriptHost) -> orrery_types::Result<Answer> {
        let if_match = self.if_match.as_deref();
        match self.kind.as_str() {
            "create" => {
                let text = self.new_text(host);
                host.create(&text)
            }
            "upsert" => {
                let text = self.new_text(host);
                host.upsert(&text, if_match)
            }
            "read" => host.read(&self.address()?, self.if_none_match.as_deref()),
            "replace" => host.replace(&self.address()?, &self.text, if_match),
            "delete" => host.delete(&self.address()?, if_match),
            "list" => host.list(&self.page),
            "query" => host.query(&self.text, &self.page),
            other => Err(Error::internal(format!("a script queued '{other}'"))),
        }
    }

    /// The text of a new item, with an id in front if it came without.
    fn new_text(&self, host: &mut dyn ScriptHost) -> String {
        let rest = self.text.trim_start().strip_prefix('{');
        let Some(rest) = rest.filter(|_| self.needs_id) else { return self.text.clone() };
        let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
        format!("{{\"id\":\"{}\"{comma}{rest}", host.new_id())
    }

    fn address(&self) -> orrery_types::Result<Address> {
        if let Some(name) = self.item.strip_prefix("id:") {
            return Ok(Address::Name(name.to_owned()));
        }
        let rid: Option<Rid> = self.item.strip_prefix("rid:").and_then(|text| text.parse().ok());
        rid.map(Address::Rid).ok_or(Error::NotFound)
    }
}
