//! `cargo xtask bench`: builds the server and the measuring program as they are released, and runs
//! one benchmark or all. The measuring itself is in `bench/`; what came out, and how to read it, in
//! `bench/RESULTS.md`.

use crate::server::{self, Profile};
use crate::{process, project};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which benchmark [default: all]
    #[arg(value_enum)]
    suite: Option<Suite>,
    /// Folder for the data, on the disk to be measured [default: the system's for temporary files]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// More arguments for the measuring program, such as `--rounds 3`
    #[arg(last = true, requires = "suite")]
    rest: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Suite {
    /// Time to ready, and what an idle server takes.
    Start,
    /// Point reads and durable creates, beside a handler that does nothing and the bare store.
    Items,
    /// A stored procedure that reads and writes ten items, beside a batch that does the same.
    Scripts,
    /// The change feed: reading it, and following it.
    Feed,
    /// Scans in the order of insertion, beside scans along the keys.
    Scan,
    /// Writes under a model, beside plain ones; appends to long arrays, beside short ones.
    Model,
    /// Queries, beside `PostgreSQL`.
    Query,
    /// One client's reads and small queries beside many products of arrays.
    Fairness,
    /// Items from a file, beside `RocksDB` taking the keys that they become.
    Import,
    /// `orrery advise` over an export of a million items: time and memory.
    Advisor,
    /// `RocksDB` and `PostgreSQL` as the store, and several nodes over one `PostgreSQL`; not part of all.
    Store,
    /// Instructions of the server for one request, compared with `bench/instructions.txt`; needs valgrind.
    Instructions,
    /// Direct mode, beside HTTP/1.1, HTTP/2 and an echo of the same frames; not part of all.
    Direct,
    /// The same operations on several databases, from one load generator; not part of all.
    Compare,
    /// The same operations on a growing container; not part of all.
    Growth,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.suite == Some(Suite::Instructions) {
        let server = server::build("orrery", Profile::Counted)?;
        let program = server::build("orrery-bench", Profile::Dev)?;
        return run_suite(Suite::Instructions, &server, &program, options);
    }
    let server = server::build("orrery", Profile::Release)?;
    let program = server::build("orrery-bench", Profile::Release)?;
    let suites = if let Some(suite) = options.suite {
        vec![suite]
    } else {
        use Suite::{Advisor, Fairness, Feed, Import, Items, Model, Query, Scan, Scripts, Start};
        vec![Start, Items, Feed, Scan, Scripts, Model, Query, Fairness, Import, Advisor]
    };
    for suite in suites {
        run_suite(suite, &server, &program, options)?;
    }
    Ok(())
}

fn run_suite(suite: Suite, server: &Path, program: &Path, options: &Options) -> Result<()> {
    let mut command = Command::new(program);
    command.arg(match suite {
        Suite::Start => "start",
        Suite::Items => "items",
        Suite::Scripts => "scripts",
        Suite::Feed => "feed",
        Suite::Scan => "scan",
        Suite::Model => "model",
        Suite::Query => "query",
        Suite::Fairness => "fairness",
        Suite::Import => "import",
        Suite::Advisor => "advisor",
        Suite::Store => "store",
        Suite::Instructions => "instructions",
        Suite::Direct => "direct",
        Suite::Compare => "compare",
        Suite::Growth => "growth",
    });
    command.arg("--server").arg(server).arg("--root").arg(project::root());
    if suite == Suite::Compare {
        command.arg("--packages").arg(project::cache("compare")?);
        command.arg("--plots").arg(project::root().join("bench/plots"));
        command.arg("--results").arg(project::root().join("bench/RESULTS.md"));
    }
    if let Some(folder) = &options.folder {
        command.arg("--folder").arg(folder);
    }
    process::run(command.args(&options.rest))
}
