//! Project chores: `cargo xtask <verb>`. This file maps arguments to verbs; each verb has a module
//! of its own. `make` calls `explorer`, `lint`, `conformance` and `examples`; the rest is for people
//! at work.
#![expect(clippy::print_stdout, reason = "a command-line tool talks on standard output")]

mod bench;
#[path = "../../crates/storage/tests/it/cluster.rs"]
mod cluster;
mod conformance;
mod docs;
mod endure;
mod examples;
mod explorer;
mod fuzz;
mod golden;
mod lint;
mod package;
mod process;
mod project;
mod server;
mod simulate;
mod soak;
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
    /// Build the documentation site, or run every command of its walk-through.
    Docs(docs::Options),
    /// Build the web page that the server embeds, or check it.
    Explorer(explorer::Options),
    /// Measure this machine: `start`, `items`, `feed`, `scripts`, `query`, `fairness`, `import`, or all of them.
    Bench(bench::Options),
    /// Make what a release consists of: archive, Debian package, images, npm packages, wheel.
    Package(package::Options),
    /// Run the fuzz targets, each for so many inputs or seconds.
    Fuzz(fuzz::Options),
    /// Let clients work on a server that is ended all the time, and compare every answer with an oracle.
    Soak(soak::Options),
    /// Let a node work on a store whose machines fail, and look for what was acknowledged.
    #[command(subcommand)]
    Endure(endure::Endure),
    /// Say from measured service times what a number of machines can do.
    #[command(subcommand)]
    Simulate(simulate::Simulate),
    /// Write the expected text of all golden cases anew, to be read before it is committed.
    Golden,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().verb {
        Verb::Lint => lint::run(),
        Verb::Tidy => tidy::run(),
        Verb::Conformance(options) => conformance::run(&options),
        Verb::Examples(options) => examples::run(&options),
        Verb::Docs(options) => docs::run(&options),
        Verb::Explorer(options) => explorer::run(&options),
        Verb::Bench(options) => bench::run(&options),
        Verb::Package(options) => package::run(&options),
        Verb::Fuzz(options) => fuzz::run(&options),
        Verb::Soak(options) => soak::run(&options),
        Verb::Endure(endure) => endure::run(&endure),
        Verb::Simulate(simulate) => {
            simulate::run(&simulate);
            Ok(())
        }
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
