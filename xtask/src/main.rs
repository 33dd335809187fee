//! Project chores: `cargo xtask <verb>`. This file maps arguments to verbs; each verb has a module
//! of its own. `make` calls `explorer`, `lint`, `conformance` and `examples`; the rest is for people
//! at work.
#![expect(clippy::print_stdout, reason = "a command-line tool talks on standard output")]

mod bench;
mod conformance;
mod examples;
mod explorer;
mod fuzz;
mod golden;
mod lint;
mod package;
mod process;
mod project;
mod server;
mod stopwatch;
mod tidy;
mod toolchain;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project chores")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Check formatting, lints and house rules.
    Lint,
    /// Check the house rules only: crate edges, file sizes, names, forbidden words.
    Tidy,
    /// Run official SDKs against a server and compare with the known failures.
    Conformance(conformance::Options),
    /// Run every program under examples/ against a server, and compare what it prints.
    Examples(examples::Options),
    /// Build the web page that the server embeds, or check it.
    Explorer(explorer::Options),
    /// Measure this machine: `start`, `items`, `feed`, `scripts`, `query`, `import`, or all of them.
    Bench(bench::Options),
    /// Make what a release consists of: a Debian package, an archive.
    Package(package::Options),
    /// Run the fuzz targets, each for so many inputs or seconds.
    Fuzz(fuzz::Options),
    /// Write the expected text of all golden cases anew, to be read before it is committed.
    Golden,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().verb {
        Verb::Lint => lint::run(),
        Verb::Tidy => tidy::run(),
        Verb::Conformance(options) => conformance::run(&options),
        Verb::Examples(options) => examples::run(&options),
        Verb::Explorer(options) => explorer::run(&options),
        Verb::Bench(options) => bench::run(&options),
        Verb::Package(options) => package::run(&options),
        Verb::Fuzz(options) => fuzz::run(&options),
        Verb::Golden => golden::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
