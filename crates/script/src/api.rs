//! The server's own JavaScript (`api/*.js`): what a script finds in its context. Each part is compiled
//! once, when the first script needs it, and loaded into every context from its bytecode.

use std::sync::OnceLock;

use rquickjs::{Ctx, Function};

use crate::compiled::{self, Bytecode};

/// The parts, compiled.
#[derive(Default)]
pub(crate) struct ScriptApi {
    calls: OnceLock<Bytecode>,
    queries: OnceLock<Bytecode>,
    udfs: OnceLock<Bytecode>,
}

/// Which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiKind {
    /// Procedures and triggers.
    Calls,
    /// What few of them ask for: queries in JavaScript.
    Queries,
    /// User-defined functions.
    Udfs,
}

impl ApiKind {
    fn source(self) -> &'static str {
        match self {
            Self::Calls => concat!(
                include_str!("api/guards.js"),
                include_str!("api/errors.js"),
                include_str!("api/describe.js"),
                include_str!("api/operations.js"),
                include_str!("api/messages.js"),
                include_str!("api/collection.js"),
                include_str!("api/context.js"),
            ),
            Self::Queries => include_str!("api/query.js"),
            Self::Udfs => concat!(
                include_str!("api/guards.js"),
                include_str!("api/errors.js"),
                include_str!("api/describe.js"),
                include_str!("api/udf.js"),
            ),
        }
    }
}

/// How stack traces show the server's own calls, which have no name of a file.
pub(crate) const API_FRAME: &str = "(<null>";

impl ScriptApi {
    /// A part's function, loaded into a context.
    pub(crate) fn load<'js>(
        &self,
        ctx: &Ctx<'js>,
        kind: ApiKind,
    ) -> rquickjs::Result<Function<'js>> {
        let cell = match kind {
            ApiKind::Calls => &self.calls,
            ApiKind::Queries => &self.queries,
            ApiKind::Udfs => &self.udfs,
        };
        let code = if let Some(code) = cell.get() {
            code
        } else {
            let code = compiled::compile(ctx, "orrery:api", kind.source())?;
            cell.get_or_init(|| code)
        };
        compiled::load(ctx, code)?.get()
    }
}
