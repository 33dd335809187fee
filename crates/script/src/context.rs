//! One call of a procedure or trigger: the facts that its JavaScript objects show, the handles by
//! which it is driven, and how what it throws is read.

use std::sync::Arc;

use rquickjs::prelude::Opt;
use rquickjs::{Array, Ctx, FromJs, Function, Object, Value};

use crate::api::{API_FRAME, ApiKind};
use crate::body_store::BodyStore;
use crate::compiled::{Script, load_script, syntax_error};
use crate::deadline::Deadline;
use crate::error::{ScriptError, Thrown};
use crate::runtime::{Scripts, internal};
use crate::value;

/// The request in which a script runs, as the script sees it.
#[derive(Clone, Debug, Default)]
pub struct CallFacts {
    /// `dbs/{rid}/colls/{rid}/`.
    pub self_link: String,
    /// `dbs/{id}/colls/{id}`.
    pub alt_link: String,
    /// Headers of the request that a script may see, in lower case.
    pub headers: Vec<(String, String)>,
    /// Quota and usage as the service writes them, `name=number;…`.
    pub quota_max: String,
    /// See `quota_max`.
    pub quota_used: String,
    /// Whether `console.log` keeps what it is given.
    pub is_logging: bool,
}

/// What differs between procedures and the two moments of a trigger.
pub(crate) struct CallKind<'c> {
    /// As the API names it: `procedure`, `before` or `after`.
    pub(crate) name: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) request_body: CallBody<'c>,
    pub(crate) response_body: CallBody<'c>,
}

/// A body that a script finds in a message.
pub(crate) enum CallBody<'c> {
    None,
    Text(&'c [u8]),
    Value(&'c orrery_types::Value),
}

impl CallBody<'_> {
    fn to_js<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<Value<'js>> {
        match self {
            Self::None => Ok(Value::new_undefined(ctx.clone())),
            Self::Text(text) => ctx.json_parse(*text),
            Self::Value(given) => value::to_js(ctx, given),
        }
    }
}

/// The handles that the API gives the server.
pub(crate) struct LiveCall<'js> {
    pub(crate) ctx: Ctx<'js>,
    handles: Object<'js>,
    pub(crate) main: Function<'js>,
    pub(crate) kept: Arc<BodyStore>,
    body_bytes_max: usize,
    deadline: Deadline,
}

impl<'js> LiveCall<'js> {
    /// Installs the API and loads the script's function.
    pub(crate) fn open(
        scripts: &Scripts,
        ctx: &Ctx<'js>,
        script: &Script<'_>,
        facts: &CallFacts,
        kind: &CallKind<'_>,
        deadline: Deadline,
    ) -> Result<Self, ScriptError> {
        let code = scripts.bytecode(ctx, script, &deadline)?;
        let kept = Arc::new(BodyStore::new(scripts.bounds.memory_bytes));
        let installed = install(scripts, ctx, facts, kind, deadline, &kept);
        let handles = installed.map_err(|e| Exceptions::plain(&deadline).thrown(ctx, &e))?;
        let exceptions = Exceptions { deadline: &deadline, handles: Some(&handles) };
        let main = load_script(ctx, &code).map_err(|e| exceptions.thrown(ctx, &e))?;
        let main = function(main, script)?;
        let body_bytes_max = scripts.bounds.body_bytes;
        Ok(Self { ctx: ctx.clone(), handles, main, kept, body_bytes_max, deadline })
    }

    /// Calls one of the API's handles.
    pub(crate) fn handle<A, R>(&self, name: &str, arguments: A) -> Result<R, ScriptError>
    where
        A: rquickjs::function::IntoArgs<'js>,
        R: FromJs<'js>,
    {
        let call = || -> rquickjs::Result<R> {
            self.handles.get::<_, Function<'js>>(name)?.call(arguments)
        };
        call().map_err(|error| self.failed(&error))
    }

    /// What a failed step of the script means.
    pub(crate) fn failed(&self, error: &rquickjs::Error) -> ScriptError {
        let exceptions = Exceptions { deadline: &self.deadline, handles: Some(&self.handles) };
        exceptions.thrown(&self.ctx, error)
    }

    /// The exception that was thrown, by its value.
    pub(crate) fn thrown(&self, error: Value<'js>) -> ScriptError {
        let exceptions = Exceptions { deadline: &self.deadline, handles: Some(&self.handles) };
        exceptions.describe(&self.ctx, error)
    }

    /// The body that the script has set, if it has, as JSON.
    pub(crate) fn body(&self, handle: &str, raw: RawText) -> Result<Option<String>, ScriptError> {
        let set: Option<Array<'js>> = self.handle(handle, ())?;
        let Some(set) = set else { return Ok(None) };
        let read = || -> rquickjs::Result<String> {
            let body: Value<'js> = set.get(0)?;
            match raw {
                RawText::Kept if body.is_string() => body.get(),
                RawText::Quoted if body.is_undefined() => Ok(EMPTY.into()),
                RawText::Kept | RawText::Quoted => {
                    Ok(value::json(&self.ctx, body, self.body_bytes_max)?.unwrap_or_default())
                }
            }
        };
        let body = read().map_err(|error| self.failed(&error))?;
        let (size, limit) = (body.len(), self.body_bytes_max);
        if size > limit { Err(ScriptError::TooLarge { size, limit }) } else { Ok(Some(body)) }
    }
}

/// What a body of text is: already JSON, or a value that is still to be written as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawText {
    Kept,
    Quoted,
}

/// The body if none was set.
pub(crate) const EMPTY: &str = "\"\"";

/// What a script's text stands for, which may be anything.
pub(crate) fn function<'js>(
    main: Value<'js>,
    script: &Script<'_>,
) -> Result<Function<'js>, ScriptError> {
    main.into_function().ok_or_else(|| {
        ScriptError::Syntax(format!("TypeError: '{}' is not a function", script.name).into())
    })
}

fn install<'js>(
    scripts: &Scripts,
    ctx: &Ctx<'js>,
    facts: &CallFacts,
    kind: &CallKind<'_>,
    deadline: Deadline,
    kept: &Arc<BodyStore>,
) -> rquickjs::Result<Object<'js>> {
    let told = Object::new(ctx.clone())?;
    told.set("kind", kind.name)?;
    told.set("operationType", kind.operation)?;
    told.set("selfLink", facts.self_link.as_str())?;
    told.set("altLink", facts.alt_link.as_str())?;
    told.set("quotaMax", facts.quota_max.as_str())?;
    told.set("quotaUsed", facts.quota_used.as_str())?;
    told.set("isLogging", facts.is_logging)?;
    told.set("bodyBytesMax", scripts.bounds.body_bytes)?;
    told.set("logBytesMax", scripts.bounds.log_bytes)?;
    told.set("operationsMax", scripts.bounds.operations)?;
    let headers = Object::new(ctx.clone())?;
    for (name, value) in &facts.headers {
        headers.set(name.as_str(), value.as_str())?;
    }
    told.set("headers", headers)?;
    told.set("requestBody", kind.request_body.to_js(ctx)?)?;
    told.set("responseBody", kind.response_body.to_js(ctx)?)?;
    let time_is_short = Function::new(ctx.clone(), move || deadline.is_near())?;
    let (kept, api) = (kept.clone(), scripts.api.clone());
    let keep =
        Function::new(ctx.clone(), move |ctx: Ctx<'js>, body: Value<'js>| kept.keep(&ctx, body))?;
    let body_bytes_max = scripts.bounds.body_bytes;
    let text_length = Function::new(ctx.clone(), move |ctx: Ctx<'js>, body: Value<'js>| {
        let text = value::json(&ctx, body, body_bytes_max)?;
        Ok::<_, rquickjs::Error>(text.map_or(0, |text| text.encode_utf16().count()))
    })?;
    let queries =
        Function::new(ctx.clone(), move |ctx: Ctx<'js>| api.load(&ctx, ApiKind::Queries))?;
    let install: Function<'js> = scripts.api.load(ctx, ApiKind::Calls)?;
    install.call((told, time_is_short, keep, text_length, queries))
}

/// Reads what was thrown. `handles` are there once the API is installed.
pub(crate) struct Exceptions<'e, 'js> {
    pub(crate) deadline: &'e Deadline,
    pub(crate) handles: Option<&'e Object<'js>>,
}

impl<'e, 'js> Exceptions<'e, 'js> {
    /// Before the API is installed.
    pub(crate) fn plain(deadline: &'e Deadline) -> Self {
        Self { deadline, handles: None }
    }

    /// What an error of the bindings means.
    pub(crate) fn thrown(&self, ctx: &Ctx<'js>, error: &rquickjs::Error) -> ScriptError {
        if self.deadline.is_over() {
            return ScriptError::Timeout(self.deadline.limit_ms());
        }
        if matches!(error, rquickjs::Error::Exception) {
            return self.describe(ctx, ctx.catch());
        }
        Thrown { text: format!("InternalError: {error}"), ..Thrown::default() }.into()
    }

    /// The same for the compiler.
    pub(crate) fn syntax(&self, ctx: &Ctx<'js>, error: &rquickjs::Error) -> ScriptError {
        match self.thrown(ctx, error) {
            ScriptError::Thrown(thrown) => syntax_error(&thrown.text, &thrown.stack),
            other => other,
        }
    }

    /// A value that was thrown, with its number and stack. A script can make even this fail.
    pub(crate) fn describe(&self, ctx: &Ctx<'js>, thrown: Value<'js>) -> ScriptError {
        let is_null = thrown.is_null();
        let described = match self.handles {
            Some(handles) => describe(handles, thrown),
            None => describe_plain(&thrown),
        };
        match described {
            // Where there is no memory left, not even for an error, the runtime throws null.
            Ok(described) if is_null => {
                let text = "null (a script that has used up its memory throws this too)".into();
                Thrown { text, ..described }.into()
            }
            Ok(described) => described.into(),
            Err(_) if self.deadline.is_over() => ScriptError::Timeout(self.deadline.limit_ms()),
            Err(error) => {
                ctx.catch();
                Thrown { text: unreadable(&error), ..Thrown::default() }.into()
            }
        }
    }
}

fn unreadable(error: &rquickjs::Error) -> String {
    match internal(error) {
        ScriptError::Internal(text) => {
            format!("InternalError: what was thrown cannot be read: {text}")
        }
        other => other.to_string(),
    }
}

fn describe<'js>(handles: &Object<'js>, thrown: Value<'js>) -> rquickjs::Result<Thrown> {
    let describe: Function<'js> = handles.get("describe")?;
    let log: Option<Function<'js>> = handles.get("log")?;
    let described: Object<'js> = describe.call((thrown,))?;
    Ok(Thrown {
        number: described.get("number")?,
        text: described.get("text")?,
        stack: own_frames(&described.get::<_, String>("stack")?),
        log: log.map_or_else(|| Ok(String::new()), |log| log.call(()))?,
    })
}

fn describe_plain(thrown: &Value<'_>) -> rquickjs::Result<Thrown> {
    let Some(error) = thrown.as_exception() else {
        return Ok(Thrown { text: "InternalError: out of memory".into(), ..Thrown::default() });
    };
    let name: Opt<String> = Opt(error.as_object().get("name")?);
    let name = name.0.unwrap_or_else(|| "Error".into());
    let text = format!("{name}: {}", error.message().unwrap_or_default());
    Ok(Thrown { text, stack: own_frames(&error.stack().unwrap_or_default()), ..Thrown::default() })
}

/// A stack without the server's own calls.
fn own_frames(stack: &str) -> String {
    let lines =
        stack.lines().filter(|line| !line.contains(API_FRAME) && !line.contains("(native)"));
    lines.map(|line| format!("   {}", line.trim())).collect::<Vec<_>>().join("\n")
}
