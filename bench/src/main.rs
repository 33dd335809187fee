//! Measures a built server from outside. `cargo xtask bench` builds it and the server and calls
//! one verb; `bench/RESULTS.md` holds what came out and how to read it.
//!
//! - `start`: how soon a server is ready, and what it takes while nobody asks it anything
//! - `items`: point reads and durable creates, beside a handler that does nothing and beside the
//!   store without a server
//! - `scripts`: a stored procedure that reads and writes ten items, beside a batch that does the same
//! - `feed`: how fast the change feed is read, how far a reader is behind writers, and how writes go on
//!   while their range is split
//! - `scan`: what the order of insertion costs a scan of 100,000 items
//! - `model`: writes under a model beside plain ones, and appends to long arrays beside short ones
//! - `query`: queries on a growing container, beside `PostgreSQL` with the same items
//! - `fairness`: reads and small queries of one client beside many that send products of arrays
//! - `import`: items from a file, beside `RocksDB` taking the keys that they become
//! - `advisor`: `orrery advise` over a large export, its time and memory
//! - `store`: the same operations on a folder and on `PostgreSQL`, beside the statements of commits alone,
//!   and on several nodes over one `PostgreSQL`
//! - `instructions`: instructions of the server for one request, on thirteen paths
//! - `direct`: Direct mode beside HTTP/1.1, HTTP/2 and an echo of the same frames
//! - `compare`: the same operations on several databases, from one load generator
//! - `growth`: the same operations on a growing container
//! - `bare`: that handler; `items` starts it as a process of its own
//! - `echo`: that echo; `direct` starts it as a process of its own
#![expect(clippy::print_stdout, reason = "a command-line tool talks on standard output")]

mod advisor;
mod bare;
mod client;
mod compare;
mod direct;
mod disk;
mod fairness;
mod feed;
mod import;
mod instructions;
mod items;
mod load;
mod machine;
mod message;
mod model;
mod process;
mod query;
mod raw;
mod sample;
mod scan;
mod scripts;
mod split;
mod start;
mod stopwatch;
mod store;
mod wire;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "orrery-bench", about = "Measures a built server from outside")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Time to ready, and what an idle server takes.
    Start(start::Options),
    /// Point reads and durable creates.
    Items(items::Options),
    /// A stored procedure beside a batch.
    Scripts(scripts::Options),
    /// The change feed: reading it, following it, and splitting what is written to.
    Feed(feed::Options),
    /// Scans in the order of insertion beside scans along the keys.
    Scan(scan::Options),
    /// What a model costs.
    Model(model::Options),
    /// Queries, beside `PostgreSQL`.
    Query(query::Options),
    /// One client's reads and small queries beside many products of arrays.
    Fairness(fairness::Options),
    /// Items from a file.
    Import(import::Options),
    /// `orrery advise` over a large export.
    Advisor(advisor::Options),
    /// `RocksDB` and `PostgreSQL` as the store, and several nodes.
    Store(store::Options),
    /// Instructions of the server for one request.
    Instructions(instructions::Options),
    /// The same operations on several databases.
    Compare(compare::Options),
    /// The same operations on a growing container.
    Growth(compare::growth::Options),
    /// Direct mode beside HTTP.
    Direct(direct::Options),
    /// Frames, each answered with what it is given on standard input.
    Echo,
    /// The handler that does nothing; answers what it is given on standard input.
    Bare,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().verb {
        Verb::Start(options) => start::run(&options),
        Verb::Items(options) => items::run(&options),
        Verb::Scripts(options) => scripts::run(&options),
        Verb::Feed(options) => feed::run(&options),
        Verb::Scan(options) => scan::run(&options),
        Verb::Model(options) => model::run(&options),
        Verb::Query(options) => query::run(&options),
        Verb::Fairness(options) => fairness::run(&options),
        Verb::Import(options) => import::run(&options),
        Verb::Advisor(options) => advisor::run(&options),
        Verb::Store(options) => store::run(&options),
        Verb::Instructions(options) => instructions::run(&options),
        Verb::Compare(options) => compare::run(&options),
        Verb::Growth(options) => compare::growth::run(&options),
        Verb::Direct(options) => direct::run(&options),
        Verb::Echo => direct::echo::run(),
        Verb::Bare => bare::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("orrery-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
