//! `growth`: the same operations on a container of ten thousand items, a hundred thousand and so on, right
//! after loading and once the server is at rest. What a growing container costs by itself is the slope at
//! rest; what is worse right after loading is the work that loading leaves behind.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::driver::{self, Pace, Workload};
use super::operation::Operation;
use super::system::System;
use crate::query::goods;
use crate::query::server::Server;
use crate::sample::{Sample, median};
use crate::stopwatch::Stopwatch;
use crate::{disk, machine};

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
    /// Items in the container at each measurement, rising, in steps of ten thousand
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000")]
    items: Vec<u64>,
    /// Numbers of clients
    #[arg(long, value_delimiter = ',', default_value = "1,16")]
    clients: Vec<usize>,
    /// Rounds; medians count
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Length of each measurement in milliseconds
    #[arg(long, default_value_t = 500)]
    ms: u64,
}

/// When a container was measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Loaded,
    AtRest,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Loaded => "right after loading",
            Self::AtRest => "at rest",
        }
    }
}

/// The rates of one operation by so many clients, size by size.
struct Row {
    state: State,
    operation: Operation,
    clients: usize,
    rates: Vec<f64>,
    p99_us: Vec<f64>,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    machine::describe(&options.root);
    let syncs = disk::run(folder.path(), Duration::from_secs(1))?;
    println!("- disk: {:.0} syncs/s by one writer", syncs.rate());
    println!("- {} rounds of {} ms; load {}", options.rounds, options.ms, machine::load());
    let server = Server::start(&options.server, folder.path())?;
    let mut rows = empty_rows(&options.clients);
    println!("\n| items | loaded in s | at rest after s | files MB | memory MB |");
    println!("|---:|---:|---:|---:|---:|");
    let mut loaded = 0;
    for &items in &options.items {
        let whole = items % goods::CATEGORY_ITEMS == 0 && items > loaded;
        ensure!(whole, "sizes rise by whole categories");
        let watch = Stopwatch::start();
        server.load(loaded..items)?;
        let load_s = watch.elapsed().as_secs_f64();
        loaded = items;
        measure(options, &server, items, State::Loaded, &mut rows)?;
        let rest_s = server.rest()?.as_secs_f64();
        let (files_mb, memory_mb) = (server.disk_bytes()? / 1_000_000, server.resident_mb()?);
        println!("| {items} | {load_s:.0} | {rest_s:.0} | {files_mb} | {memory_mb} |");
        measure(options, &server, items, State::AtRest, &mut rows)?;
    }
    print(&options.items, &rows);
    Ok(())
}

fn empty_rows(clients: &[usize]) -> Vec<Row> {
    let mut rows = Vec::new();
    for state in [State::Loaded, State::AtRest] {
        for operation in Operation::ALL {
            for &clients in clients {
                let (rates, p99_us) = (Vec::new(), Vec::new());
                rows.push(Row { state, operation, clients, rates, p99_us });
            }
        }
    }
    rows
}

#[expect(clippy::cast_precision_loss, reason = "latencies are small")]
fn measure(
    options: &Options,
    server: &Server,
    items: u64,
    state: State,
    rows: &mut [Row],
) -> Result<()> {
    let system = System::at(server.address());
    driver::check(&system, &Operation::ALL)?;
    let time = Duration::from_millis(options.ms);
    for row in rows.iter_mut().filter(|row| row.state == state) {
        let workload = Workload { operation: row.operation, clients: row.clients, items };
        let mut latencies_ns = Sample::histogram();
        let mut rates = Vec::new();
        for _ in 0..options.rounds {
            let sample = driver::run(&system, workload, Pace::Closed { time })?;
            rates.push(sample.rate());
            latencies_ns.add(&sample.latencies_ns)?;
        }
        row.rates.push(median(rates.into_iter()));
        row.p99_us.push(latencies_ns.value_at_quantile(0.99) as f64 / 1e3);
    }
    Ok(())
}

/// Rates with their p99, and the last one as a part of the first.
fn print(sizes: &[u64], rows: &[Row]) {
    let heads: Vec<String> =
        sizes.iter().map(|size| format!("{size} items: /s | p99 µs")).collect();
    println!("\n| | operation | clients | {} | last to first |", heads.join(" | "));
    println!("|---|---|---:|{}---:|", "---:|".repeat(sizes.len() * 2));
    for row in rows {
        let pairs = row.rates.iter().zip(&row.p99_us);
        let cells: Vec<String> =
            pairs.map(|(rate, p99_us)| format!("{rate:.0} | {p99_us:.0}")).collect();
        let (state, operation, clients) = (row.state.name(), row.operation.name(), row.clients);
        let slope = row.rates.last().zip(row.rates.first()).map_or(f64::NAN, |(l, f)| l / f);
        println!("| {state} | {operation} | {clients} | {} | {slope:.2} |", cells.join(" | "));
    }
}
