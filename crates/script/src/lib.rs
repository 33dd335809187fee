//! Server-side JavaScript: stored procedures, triggers and user-defined functions. The engine
//! implements [`ScriptHost`], this crate runs the script against it.
//!
//! The life of a procedure:
//!
//! 1. `compiled` turns its text into bytecode once; the cache is keyed by the script's version.
//! 2. `runtime` lends a JavaScript runtime with a fresh context, so that no script sees another, and
//!    bounds its time, memory and stack. `overruns` blocks what runs out of time again and again.
//! 3. `context` installs the server's own API (`api`, written in JavaScript) and calls the function.
//! 4. Operations on the container are only queued by the script; their bodies are read at once
//!    (`plain`) and wait in `body_store`. `pump` takes operations one by one, asks the host, and runs the
//!    callback with what `value` makes of the answer, until nothing is left to do. So the host is never called from
//!    within JavaScript, and needs neither a lock nor a lifetime without end.
//! 5. `procedure`, `trigger` and `udf` read the outcome.
//!
//! Nothing here knows a store, a file or a socket; what a script throws becomes a [`ScriptError`].

// The bindings load bytecode by an unsafe function, which `compiled` calls at one place.
#![deny(unsafe_code)]

mod api;
mod compiled;
mod context;
mod deadline;
mod error;
mod host;
mod body_store;
mod overruns;
mod plain;
mod procedure;
mod pump;
mod rejections;
mod runtime;
mod trigger;
mod udf;
mod value;

pub use compiled::{Script, looks_like_function};
pub use context::CallFacts;
pub use deadline::Deadline;
pub use error::{ScriptError, Thrown};
pub use host::{HostAnswer, HostOutcome, PageRequest, ScriptHost};
pub use procedure::{ProcedureCall, ProcedureResult};
pub use runtime::{Bounds, Scripts};
pub use trigger::{TriggerCall, TriggerResult, TriggerTime};
pub use udf::Udfs;
