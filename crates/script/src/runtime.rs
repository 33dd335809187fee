//! JavaScript runtimes, lent out one per call. A runtime that comes back clean is kept for the next
//! call; each call gets a new context, so that no global outlives a call. Bounds of memory and
//! stack are the runtime's, the bound of time is asked by its interrupt handler.

use std::sync::{Arc, Mutex, PoisonError};

use orrery_types::{Etag, limits};
use quick_cache::sync::Cache;
use rquickjs::context::intrinsic;
use rquickjs::{Context, Ctx, Runtime};

use crate::api::ScriptApi;
use crate::compiled::{self, Bytecode, Script};
use crate::context::Exceptions;
use crate::deadline::Deadline;
use crate::error::ScriptError;
use crate::overruns::Overruns;
use crate::rejections;

/// How much a script may take.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the limits of the same names say it")]
pub struct Bounds {
    pub run_ms: u64,
    pub memory_bytes: usize,
    pub stack_bytes: usize,
    pub operations: usize,
    pub body_bytes: usize,
    pub log_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            run_ms: limits::SCRIPT_RUN_MS_MAX,
            memory_bytes: limits::SCRIPT_MEMORY_BYTES_MAX,
            stack_bytes: limits::SCRIPT_STACK_BYTES_MAX,
            operations: limits::SCRIPT_OPERATIONS_MAX,
            body_bytes: limits::SCRIPT_BODY_BYTES_MAX,
            log_bytes: limits::SCRIPT_LOG_BYTES_MAX,
        }
    }
}

/// Growth of memory after which a script's garbage is collected. A context alone takes some 300 kB;
/// a collection among short calls would find nothing.
const COLLECT_BYTES: usize = 4 * 1024 * 1024;

/// Runs scripts. Shared by all requests.
pub struct Scripts {
    pub(crate) bounds: Bounds,
    idle: Mutex<Vec<Runtime>>,
    compiled: Cache<Etag, Bytecode, ByBytes>,
    pub(crate) api: Arc<ScriptApi>,
    pub(crate) overruns: Overruns,
}

/// The language without what looks outside: no clocks beyond `Date`, no modules, no threads, and
/// nothing that tells when memory is freed, which is after the call.
type Language = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
);

#[derive(Clone)]
struct ByBytes;

impl quick_cache::Weighter<Etag, Bytecode> for ByBytes {
    fn weight(&self, _: &Etag, code: &Bytecode) -> u64 {
        code.len() as u64
    }
}

impl Scripts {
    /// A runner with bounds of its own.
    pub fn new(bounds: Bounds) -> Self {
        const USUAL_BYTES: u64 = 4096;
        let max = limits::SCRIPTS_COMPILED_BYTES_MAX;
        let usual = usize::try_from(max / USUAL_BYTES).unwrap_or(usize::MAX);
        let compiled = Cache::with_weighter(usual, max, ByBytes);
        Self {
            bounds,
            idle: Mutex::default(),
            compiled,
            api: Arc::default(),
            overruns: Overruns::default(),
        }
    }

    /// The time of a request that begins now.
    pub fn deadline(&self) -> Deadline {
        Deadline::after_ms(self.bounds.run_ms)
    }

    /// Whether a script is a function of the language; what it does is not looked at.
    pub fn check(&self, script: &Script<'_>) -> Result<(), ScriptError> {
        let lease = self.lease(self.deadline())?;
        let context = lease.context()?;
        run(&context, |ctx| self.bytecode(ctx, script, &lease.deadline).map(|_| ()))
    }

    /// The bytecode of a script, compiled if this version is new.
    pub(crate) fn bytecode(
        &self,
        ctx: &Ctx<'_>,
        script: &Script<'_>,
        deadline: &Deadline,
    ) -> Result<Bytecode, ScriptError> {
        if let Some(code) = self.compiled.get(&script.version) {
            return Ok(code);
        }
        let made = compiled::compile_script(ctx, &script.file(), script.source());
        let code = made.map_err(|error| Exceptions::plain(deadline).syntax(ctx, &error))?;
        self.compiled.insert(script.version, code.clone());
        Ok(code)
    }

    /// Lends a runtime until the lease is dropped.
    pub(crate) fn lease(&self, deadline: Deadline) -> Result<Lease<'_>, ScriptError> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let runtime = match kept {
            Some(runtime) => runtime,
            None => self.runtime()?,
        };
        runtime.set_interrupt_handler(Some(Box::new(move || deadline.is_over())));
        Ok(Lease { scripts: self, runtime, deadline })
    }

    fn runtime(&self) -> Result<Runtime, ScriptError> {
        let runtime = Runtime::new().map_err(|error| internal(&error))?;
        runtime.set_memory_limit(self.bounds.memory_bytes);
        runtime.set_max_stack_size(self.bounds.stack_bytes);
        runtime.set_gc_threshold(COLLECT_BYTES);
        runtime.set_host_promise_rejection_tracker(Some(rejections::tracker()));
        Ok(runtime)
    }
}

/// A runtime in use.
pub(crate) struct Lease<'s> {
    scripts: &'s Scripts,
    runtime: Runtime,
    pub(crate) deadline: Deadline,
}

impl Lease<'_> {
    /// A context that no script has seen. It must not outlive the lease.
    pub(crate) fn context(&self) -> Result<Context, ScriptError> {
        Context::custom::<Language>(&self.runtime).map_err(|error| internal(&error))
    }
}

/// Runs something in a context. Rejections that it leaves behind hold on to the context, and end with
/// the run.
pub(crate) fn run<R>(
    context: &Context,
    work: impl for<'js> FnOnce(&Ctx<'js>) -> Result<R, ScriptError>,
) -> Result<R, ScriptError> {
    context.with(|ctx| {
        let result = work(&ctx);
        drop(rejections::take(&ctx));
        result
    })
}

impl Drop for Lease<'_> {
    /// Keeps the runtime unless something of the call might still be in it: work that was never
    /// done, or what an interrupted script left.
    fn drop(&mut self) {
        self.runtime.set_interrupt_handler(None);
        if self.deadline.is_over() {
            return;
        }
        // A context is full of circles, which only the collector frees.
        self.runtime.run_gc();
        if self.runtime.is_job_pending() {
            return;
        }
        let mut idle = self.scripts.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < limits::SCRIPT_RUNTIMES_KEPT {
            idle.push(self.runtime.clone());
        }
    }
}

pub(crate) fn internal(error: &rquickjs::Error) -> ScriptError {
    ScriptError::Internal(format!("the JavaScript runtime: {error}").into())
}
