//! `compare`: the same items and the same operations on several databases, from one load generator.
//! The systems take turns within each round. A closed loop measures how many operations a second a system
//! completes; then an open loop offers all of them one and the same rate and measures latencies from the
//! instant at which an operation was due, so that a stall counts for everything that it delays.

mod driver;
pub(crate) mod growth;
mod operation;
mod plot;
mod report;
mod session;
mod system;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::{disk, machine};
use driver::{Pace, Workload};
use operation::Operation;
use report::{Measured, Results};
use system::System;

/// What to measure, and for how long.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long)]
    server: PathBuf,
    /// The checkout, for the commit's name
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// Folder for the data, on the disk to be measured [default: the system's for temporary files]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Folder for what is installed from npm [default: none, and these systems are left out]
    #[arg(long)]
    packages: Option<PathBuf>,
    /// Another binary of the server, to be measured beside it
    #[arg(long)]
    before: Option<PathBuf>,
    /// Leave out other databases
    #[arg(long)]
    no_others: bool,
    /// Numbers of clients
    #[arg(long, value_delimiter = ',', default_value = "1,16,64")]
    clients: Vec<usize>,
    /// Rounds; medians count
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Length of each measurement in milliseconds
    #[arg(long, default_value_t = 2000)]
    ms: u64,
    /// Folder for the plots [default: none are drawn]
    #[arg(long)]
    plots: Option<PathBuf>,
    /// File with a section for the results, which are written into it [default: none]
    #[arg(long)]
    results: Option<PathBuf>,
    /// Only the operations whose names hold this
    #[arg(long, default_value = "")]
    only: String,
}

/// The open loop offers this fraction of what the slowest durable system completes in the closed one.
const OFFERED_FRACTION: f64 = 0.5;

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let systems = System::start_all(options, folder.path())?;
    let operations: Vec<Operation> =
        Operation::ALL.into_iter().filter(|o| o.name().contains(&options.only)).collect();
    for system in &systems {
        driver::load(system)?;
        driver::check(system, &operations)?;
    }
    let mut results = Results::default();
    let syncs = disk::run(folder.path(), Duration::from_secs(1))?;
    // Creates come last: they make the containers grow.
    for operation in operations {
        for clients in &options.clients {
            measure(options, &systems, operation, *clients, &mut results)?;
        }
    }
    let mut text = machine::description(&options.root);
    let (rounds, ms, items) = (options.rounds, options.ms, operation::LOADED_ITEMS);
    writeln!(text, "- disk: {:.0} syncs/s by one writer", syncs.rate())?;
    writeln!(text, "- {rounds} rounds of {ms} ms; {items} items; load {}", machine::load())?;
    for system in &systems {
        writeln!(text, "- {}: {}", system.name(), system.version()?)?;
    }
    text += &report::table(&results);
    print!("{text}");
    if let Some(folder) = &options.plots {
        plot::draw(&results, folder)?;
    }
    // A part of the operations does not replace all.
    if let Some(file) = options.results.as_ref().filter(|_| options.only.is_empty()) {
        let before = std::fs::read_to_string(file)?;
        std::fs::write(file, report::replace_section(&before, &text)?)?;
    }
    Ok(())
}

/// All rounds of one operation with one number of clients.
fn measure(
    options: &Options,
    systems: &[System],
    operation: Operation,
    clients: usize,
    results: &mut Results,
) -> Result<()> {
    let time = Duration::from_millis(options.ms);
    let workload = Workload { operation, clients, items: operation::LOADED_ITEMS };
    for round in 0..options.rounds {
        // Every other round goes backwards: no system always comes first.
        let mut order: Vec<usize> = (0..systems.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        let mut rates = vec![0.0; systems.len()];
        for at in &order {
            let sample = driver::run(&systems[*at], workload, Pace::Closed { time })?;
            rates[*at] = sample.rate();
        }
        let durable = systems.iter().zip(&rates).filter(|(system, _)| system.is_durable());
        let slowest = durable.map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min);
        let pace = Pace::Open { time, rate: slowest * OFFERED_FRACTION };
        for at in order {
            let open = driver::run(&systems[at], workload, pace)?;
            results.add(
                (operation, clients, systems[at].name()),
                Measured { rate: rates[at], offered: slowest * OFFERED_FRACTION, open },
            );
        }
    }
    Ok(())
}
