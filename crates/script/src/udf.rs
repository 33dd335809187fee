//! User-defined functions, as a query calls them: many times, with values, without any context. All
//! functions of one page of a query share its time; each has a context of its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use orrery_types::{Etag, Value};
use rquickjs::function::Args;
use rquickjs::{Context, Ctx, Function, Object, Persistent};

use crate::api::ApiKind;
use crate::compiled::{Script, load_script};
use crate::context::{Exceptions, function};
use crate::deadline::Deadline;
use crate::error::ScriptError;
use crate::rejections;
use crate::runtime::{Lease, Scripts, internal, run};
use crate::value;

/// The functions that one execution of a query calls.
pub struct Udfs<'s> {
    scripts: &'s Scripts,
    loaded: RefCell<HashMap<Etag, Loaded>>,
    /// Behind what it lends: contexts go before their runtime.
    lease: Lease<'s>,
}

struct Loaded {
    /// Before the context, which they hold on to.
    main: Persistent<Function<'static>>,
    handles: Persistent<Object<'static>>,
    context: Context,
}

impl Scripts {
    /// Begins an execution that may call functions until the deadline.
    pub fn udfs(&self, deadline: Deadline) -> Result<Udfs<'_>, ScriptError> {
        Ok(Udfs { scripts: self, loaded: RefCell::default(), lease: self.lease(deadline)? })
    }
}

impl Udfs<'_> {
    /// Calls a function. `Undefined` may come and go.
    pub fn call(&self, script: &Script<'_>, arguments: &[Value]) -> Result<Value, ScriptError> {
        if self.lease.deadline.is_over() {
            return Err(ScriptError::Timeout(self.lease.deadline.limit_ms()));
        }
        let mut loaded = self.loaded.borrow_mut();
        let function = match loaded.entry(script.version) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(free) => free.insert(self.load(script)?),
        };
        let overruns = &self.scripts.overruns;
        overruns.watch(script, || function.call(arguments, &self.lease.deadline))
    }

    fn load(&self, script: &Script<'_>) -> Result<Loaded, ScriptError> {
        let context = self.lease.context()?;
        let deadline = &self.lease.deadline;
        let (main, handles) = run(&context, |ctx| {
            let code = self.scripts.bytecode(ctx, script, deadline)?;
            let plain = Exceptions::plain(deadline);
            let install = || -> rquickjs::Result<Object<'_>> {
                let handles = Object::new(ctx.clone())?;
                handles.set("describe", self.scripts.api.load(ctx, ApiKind::Udfs)?)?;
                Ok(handles)
            };
            let handles = install().map_err(|e| plain.thrown(ctx, &e))?;
            let exceptions = Exceptions { deadline, handles: Some(&handles) };
            let main = load_script(ctx, &code).map_err(|e| exceptions.thrown(ctx, &e))?;
            let main = function(main, script)?;
            Ok((Persistent::save(ctx, main), Persistent::save(ctx, handles)))
        })?;
        Ok(Loaded { main, handles, context })
    }
}

impl Loaded {
    fn call(&self, arguments: &[Value], deadline: &Deadline) -> Result<Value, ScriptError> {
        run(&self.context, |ctx| {
            let handles = self.handles.clone().restore(ctx).map_err(|e| internal(&e))?;
            let exceptions = Exceptions { deadline, handles: Some(&handles) };
            self.call_in(ctx, arguments).map_err(|e| exceptions.thrown(ctx, &e))
        })
    }

    fn call_in(&self, ctx: &Ctx<'_>, arguments: &[Value]) -> rquickjs::Result<Value> {
        let main = self.main.clone().restore(ctx)?;
        let mut args = Args::new(ctx.clone(), arguments.len());
        for argument in arguments {
            args.push_arg(value::to_js(ctx, argument)?)?;
        }
        let result: rquickjs::Value<'_> = args.apply(&main)?;
        // The value of a promise is not awaited, and it must not outlive the call.
        while ctx.execute_pending_job() {}
        if let Some(reason) = rejections::take(ctx) {
            return Err(ctx.throw(reason));
        }
        value::from_js(ctx, result)
    }
}
