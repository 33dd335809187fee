//! Drives a script to its end: its promises, then the operation that waits longest, whose callback
//! may queue others and make new promises; until nothing is left or the time is over. A promise that
//! is rejected by then and has no handler fails the call.

use orrery_types::ids::{Address, Rid};
use orrery_types::{Error, Object as Properties, Value as Item};
use rquickjs::{Array, Ctx, Object, Value};

use crate::body_store::OperationBody;
use crate::context::LiveCall;
use crate::deadline::Deadline;
use crate::error::{ScriptError, Thrown};
use crate::host::{HostAnswer, HostOutcome, PageRequest, ScriptHost, number};
use crate::rejections;

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
        let next: Option<Object<'js>> = call.handle("next", ())?;
        let Some(next) = next else { break };
        let Some(waiting) = next.as_array() else {
            return Err(call.thrown(next.get("error").map_err(|error| call.failed(&error))?));
        };
        let operation = Operation::read(call, waiting).map_err(|error| call.failed(&error))?;
        let (is_heard, result) = (operation.is_heard, operation.perform(host));
        settle(call, result, is_heard)?;
        check(deadline)?;
    }
    if let Some(reason) = rejections::take(&call.ctx) {
        return Err(call.thrown(reason));
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
fn settle(
    call: &LiveCall<'_>,
    result: orrery_types::Result<HostAnswer>,
    is_heard: bool,
) -> Result<(), ScriptError> {
    let answer = match result {
        Ok(answer) => answer,
        Err(error) => {
            let Some(number) = number(&error) else {
                return Err(ScriptError::Host(Box::new(error)));
            };
            return call.handle("fail", (number, error.to_string()));
        }
    };
    if !is_heard {
        return Ok(());
    }
    let told = tell(&call.ctx, answer).map_err(|error| call.failed(&error))?;
    call.handle("succeed", told)
}

/// The item and the options of a callback.
fn tell<'js>(ctx: &Ctx<'js>, answer: HostAnswer) -> rquickjs::Result<(Value<'js>, Object<'js>)> {
    let options = Object::new(ctx.clone())?;
    options.set("statusCode", answer.outcome.number())?;
    if let Some(continuation) = answer.continuation {
        options.set("continuation", continuation)?;
    }
    if answer.outcome == HostOutcome::NotModified {
        options.set("notModified", true)?;
    }
    let has_body = !matches!(answer.outcome, HostOutcome::Deleted | HostOutcome::NotModified);
    let body =
        if has_body { ctx.json_parse(answer.body)? } else { Value::new_undefined(ctx.clone()) };
    Ok((body, options))
}

/// An operation as the queue holds it, part by part: see `api/operations.js`.
struct Operation {
    kind: u8,
    id: Option<String>,
    rid: Option<String>,
    body: Option<OperationBody>,
    needs_id: bool,
    if_match: Option<String>,
    if_none_match: Option<String>,
    page: PageRequest,
    /// Whether a callback or promise waits for the result.
    is_heard: bool,
}

impl Operation {
    fn read<'js>(call: &LiveCall<'js>, waiting: &Array<'js>) -> rquickjs::Result<Self> {
        let body: Option<u32> = waiting.get(3)?;
        Ok(Self {
            kind: waiting.get(0)?,
            id: waiting.get(1)?,
            rid: waiting.get(2)?,
            body: body.map(|number| call.kept.take(number)),
            needs_id: waiting.get(4)?,
            if_match: waiting.get(5)?,
            if_none_match: waiting.get(6)?,
            page: PageRequest {
                size: waiting.get::<Option<i64>>(7)?.unwrap_or(-1),
                continuation: waiting.get(8)?,
            },
            is_heard: !waiting.get::<Value<'js>>(9)?.is_undefined(),
        })
    }

    fn perform(self, host: &mut dyn ScriptHost) -> orrery_types::Result<HostAnswer> {
        let address = self.address();
        let Self { body, if_match, if_none_match, page, .. } = self;
        let body = body.unwrap_or_else(|| Err(Error::internal("an operation has no body")));
        let if_match = if_match.as_deref();
        let new = |host: &mut dyn ScriptHost, item: Item| {
            if self.needs_id { with_id(item, host) } else { item }
        };
        match self.kind {
            0 => {
                let item = new(host, body?);
                host.create(item)
            }
            1 => {
                let item = new(host, body?);
                host.upsert(item, if_match)
            }
            2 => host.read(&address?, if_none_match.as_deref()),
            3 => host.replace(&address?, body?, if_match),
            4 => host.delete(&address?, if_match),
            5 => host.list(&page),
            6 => host.query(&body?, &page),
            other => Err(Error::internal(format!("a script queued an operation {other}"))),
        }
    }

    fn address(&self) -> orrery_types::Result<Address> {
        if let Some(name) = &self.id {
            return Ok(Address::Name(name.clone()));
        }
        let rid: Option<Rid> = self.rid.as_ref().and_then(|text| text.parse().ok());
        rid.map(Address::Rid).ok_or(Error::NotFound)
    }
}

/// A new item with an id in front if it came without.
fn with_id(item: Item, host: &mut dyn ScriptHost) -> Item {
    let Some(object) = item.as_object() else { return item };
    let is_given = match object.get("id") {
        None | Some(Item::Undefined | Item::Null | Item::Bool(false)) => false,
        Some(Item::Number(number)) => number.as_f64() != 0.0,
        Some(Item::String(id)) => !id.is_empty(),
        Some(_) => true,
    };
    if is_given {
        return item;
    }
    let rest = object.iter().filter(|(name, _)| &***name != "id");
    let rest = rest.map(|(name, value)| (name.clone(), value.clone()));
    let id = ("id".into(), host.new_id().into());
    Item::object(Properties::from_distinct(std::iter::once(id).chain(rest).collect()))
}
