//! `query`: queries of one client on a growing container, beside `PostgreSQL` with `jsonb` and a GIN
//! index on the same items. The two take turns at every single query, and both must find the same.
//! Every query is asked twice: the first time its items are on the disk or in the system's memory,
//! because both were restarted, the second time from the caches of the server that is measured.

pub(crate) mod cases;
pub(crate) mod goods;
pub(crate) mod postgres;
pub(crate) mod server;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;

use crate::machine;
use crate::sample::Sample;
use crate::stopwatch::Stopwatch;
use cases::Case;
use postgres::Postgres;
use server::Server;

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
    /// Queries of each kind at each size, at most
    #[arg(long, default_value_t = 1000)]
    queries: u64,
    /// Time for the queries of one kind, asked for the first time; after ten of them it may end it
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Only the queries whose names hold this
    #[arg(long, default_value = "")]
    only: String,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let mut ours = Server::start(&options.server, folder.path())?;
    let mut theirs = Postgres::start(folder.path())?;
    machine::describe(&options.root);
    println!(
        "- up to {} queries of each kind, by one client, each asked twice; times are medians",
        options.queries
    );
    let mut loaded = 0;
    for &items in &options.items {
        ensure!(
            items % goods::CATEGORY_ITEMS == 0 && items > loaded,
            "sizes rise by whole categories"
        );
        let watch = Stopwatch::start();
        ours.load(loaded..items)?;
        let own_s = watch.elapsed().as_secs_f64();
        let watch = Stopwatch::start();
        theirs.load(loaded..items)?;
        let other_s = watch.elapsed().as_secs_f64();
        loaded = items;
        let rest_s = ours.rest()?.as_secs_f64();
        ours = ours.restart(&options.server)?;
        theirs = theirs.restart()?;
        println!(
            "\n{items} items; loaded in {own_s:.0} s, by COPY in {other_s:.0} s; at rest {rest_s:.0} s \
             later\n"
        );
        println!(
            "| query | server µs | PostgreSQL µs | PostgreSQL / server | again: server µs \
             | PostgreSQL µs | PostgreSQL / server |"
        );
        println!("|---|---:|---:|---:|---:|---:|---:|");
        for case in Case::ALL.into_iter().filter(|case| case.name().contains(&options.only)) {
            measure(case, items, options, &mut ours, &mut theirs)?;
        }
    }
    let other = theirs.size_bytes()?;
    let own = ours.settle()?;
    println!(
        "\nOn disk, settled: {:.1} MB, of that items {:.1} MB and index {:.1} MB; PostgreSQL {:.1} MB",
        megabytes(own.all),
        megabytes(own.items),
        megabytes(own.index),
        megabytes(other),
    );
    Ok(())
}

fn measure(
    case: Case,
    items: u64,
    options: &Options,
    ours: &mut Server,
    theirs: &mut Postgres,
) -> Result<()> {
    let (mut cells, mut queries) = (Vec::new(), options.queries);
    for round in ["first", "again"] {
        let (mut own_ns, mut other_ns) = (Sample::histogram(), Sample::histogram());
        let watch = Stopwatch::start();
        // One query of each warms up.
        for nth in 0..=queries {
            let number = spread(nth, items);
            let (found, took_ns) = ours.ask(case, number)?;
            let other_watch = Stopwatch::start();
            let expected = theirs.ask(case, number)?;
            let other_took_ns = other_watch.nanoseconds();
            ensure!(
                found.agrees(&expected),
                "{case:?} of item {number}: {found:?}, not {expected:?}"
            );
            if nth > 0 {
                own_ns.record(took_ns)?;
                other_ns.record(other_took_ns)?;
            }
            if round == "first"
                && nth >= QUERIES_MIN
                && watch.elapsed().as_secs() >= options.seconds
            {
                queries = nth;
                break;
            }
        }
        let (own, other) = (median_us(&own_ns), median_us(&other_ns));
        cells.push(format!("{own:.0} | {other:.0} | {:.1}", other / own));
    }
    println!("| {} | {} |", case.name(), cells.join(" | "));
    Ok(())
}

/// Fewer say nothing.
const QUERIES_MIN: u64 = 10;

/// The items that are asked for: all over the container, however many they are.
fn spread(nth: u64, items: u64) -> u64 {
    nth.wrapping_mul(0x9e37_79b9_7f4a_7c15 >> 20) % items
}

#[expect(clippy::cast_precision_loss, reason = "sizes are small")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "latencies are small")]
fn median_us(latencies_ns: &Histogram<u64>) -> f64 {
    latencies_ns.value_at_quantile(0.5) as f64 / 1e3
}
