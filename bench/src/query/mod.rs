//! `query`: queries of one client on a growing container, beside `PostgreSQL` with `jsonb` and a GIN
//! index on the same items. The two take turns at every single query, and both must find the same.

mod cases;
mod goods;
mod postgres;
mod server;

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
    /// Queries of each kind at each size
    #[arg(long, default_value_t = 30)]
    queries: u64,
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
    println!("- {} queries of each kind, by one client; times are medians", options.queries);
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
        println!("\n{items} items; loaded in {own_s:.0} s, by COPY in {other_s:.0} s\n");
        println!("| query | server µs | PostgreSQL µs | PostgreSQL / server |");
        println!("|---|---:|---:|---:|");
        for case in Case::ALL.into_iter().filter(|case| case.name().contains(&options.only)) {
            measure(case, items, options.queries, &mut ours, &mut theirs)?;
        }
    }
    let other = theirs.size_bytes()?;
    let own = ours.settle()?;
    println!(
        "\nOn disk, settled: {:.1} MB, of that items {:.1} MB and index {:.1} MB; PostgreSQL {:.1} MB",
        megabytes(own.all_bytes),
        megabytes(own.items_bytes),
        megabytes(own.index_bytes),
        megabytes(other),
    );
    Ok(())
}

fn measure(
    case: Case,
    items: u64,
    queries: u64,
    ours: &mut Server,
    theirs: &mut Postgres,
) -> Result<()> {
    let (mut own_ns, mut other_ns) = (Sample::histogram(), Sample::histogram());
    // Items all over the container, the same for both; one query of each warms up.
    let step = (items / (queries + 1)).max(1) | 1;
    for nth in 0..=queries {
        let number = (nth * step + nth) % items;
        let (found, took_ns) = ours.ask(case, number)?;
        let watch = Stopwatch::start();
        let expected = theirs.ask(case, number)?;
        let other_took_ns = watch.nanoseconds();
        ensure!(found.agrees(&expected), "{case:?} of item {number}: {found:?}, not {expected:?}");
        if nth > 0 {
            own_ns.record(took_ns)?;
            other_ns.record(other_took_ns)?;
        }
    }
    let (own, other) = (median_us(&own_ns), median_us(&other_ns));
    println!("| {} | {own:.0} | {other:.0} | {:.1} |", case.name(), other / own);
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "sizes are small")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "latencies are small")]
fn median_us(latencies_ns: &Histogram<u64>) -> f64 {
    latencies_ns.value_at_quantile(0.5) as f64 / 1e3
}
