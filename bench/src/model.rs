//! `model`: what a model costs. A create under a relation with one copy and one aggregate, beside a
//! plain create of the same item; an append to a post with many comments, beside one with few; and a
//! query that follows twenty references of an item, beside one for the item alone and one for the
//! same rows without what they refer to.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::client::Client;
use crate::load::{self, CLIENT_NUMBERS, Until, Work};
use crate::message::{HOLDINGS, Numbered, Portfolio, Signer};
use crate::process::Process;
use crate::sample::Series;
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
    /// Rounds; the median counts
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Length of each measurement of creates in milliseconds
    #[arg(long, default_value_t = 2000)]
    ms: u64,
    /// Appends to each post in a round
    #[arg(long, default_value_t = 200)]
    appends: u64,
    /// Comments of the post that has many
    #[arg(long, default_value_t = 100_000)]
    comments: u64,
}

/// Clients that create; each has a customer of its own.
const CLIENTS: u64 = 32;
/// Comments of a post that has few.
const FEW: u64 = 10;
/// Comments that one request of the preparation appends.
const PER_PATCH: u64 = 10;
/// The clients that create items: that of the plain container first.
const CREATORS: [(&str, &str); 3] = [
    ("plain", "plain"),
    ("counted", "one relation, a copy and COUNT"),
    ("summed", "one relation, a copy and SUM"),
];

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let time = Duration::from_millis(options.ms);
    let (server, _) = Process::serve(&options.server, &folder.path().join("data"))?;
    let signer = Signer::now();
    prepare(&server, signer.model_setup(CLIENTS, options.rounds).into_iter().map(|r| (r, 201)))?;
    let queries = queries(&server, &signer, options)?;
    prepare(&server, comments(&signer, options).map(|request| (request, 200)))?;
    let orders = |container: &str| -> Arc<[Numbered]> {
        (0..CLIENTS).map(|client| signer.order(container, client)).collect()
    };
    let creators = CREATORS.map(|(container, _)| orders(container));
    let mut creates: Vec<Series> = CREATORS.iter().map(|_| Series::default()).collect();
    let (mut few, mut many, mut syncs) = (Series::default(), Series::default(), Series::default());
    for round in 0..options.rounds {
        syncs.push(disk::run(folder.path(), time / 4)?);
        let from = u64::try_from(round)? * CLIENTS * CLIENT_NUMBERS;
        // Every other round goes backwards, so that each contestant comes first in half of them.
        let mut order: Vec<usize> = (0..creators.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let work = Work::Numbered { requests: creators[at].clone(), from, status: 201 };
            let before = server.processor()?;
            let mut sample = load::run(server.address, CLIENTS, &work, Until::Elapsed(time))?;
            sample.processor = Some(server.processor()?.saturating_sub(before));
            creates[at].push(sample);
        }
        let posts = [(format!("few-{round}"), &mut few), ("many".to_owned(), &mut many)];
        for (post, series) in posts {
            let requests: Arc<[Numbered]> = [signer.append(&post)].into_iter().collect();
            // Behind every number that the preparation took.
            let from = options.comments + u64::try_from(round)? * options.appends;
            let work = Work::Numbered { requests, from, status: 200 };
            series.push(load::run(server.address, 1, &work, Until::Count(options.appends))?);
        }
    }
    machine::describe(&options.root);
    println!("- disk: {:.0} syncs/s by one writer", syncs.rate());
    println!("- {} rounds of {} ms each; rates are medians", options.rounds, options.ms);
    report_creates(&creates)?;
    report_appends(options, &few, &many)?;
    report_queries(&queries)
}

/// Asks about people, before anything else makes the server busy with itself.
fn queries(server: &Process, signer: &Signer, options: &Options) -> Result<[Series; 3]> {
    let time = Duration::from_millis(options.ms) / 4;
    let portfolios = [Portfolio::Whole, Portfolio::Holdings, Portfolio::Prices];
    let portfolios = portfolios.map(|kind| Work::Reads(signer.portfolios(kind).into()));
    let mut queries = [Series::default(), Series::default(), Series::default()];
    for _ in 0..options.rounds {
        for (work, series) in portfolios.iter().zip(&mut queries) {
            series.push(load::run(server.address, 1, work, Until::Elapsed(time))?);
        }
    }
    Ok(queries)
}

/// Sends requests, each with the status that it must be answered with.
fn prepare(server: &Process, requests: impl Iterator<Item = (Vec<u8>, u16)>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = Client::connect(server.address).await?;
        for (request, status) in requests {
            client.expect(&request, status).await?;
        }
        Ok(())
    })
}

/// The comments that posts have at first.
fn comments<'s>(signer: &'s Signer, options: &Options) -> impl Iterator<Item = Vec<u8>> + 's {
    let (rounds, comments) = (options.rounds, options.comments);
    let few = (0..rounds).map(|round| signer.append_many(&format!("few-{round}"), 0, FEW));
    let first = (0..comments).step_by(usize::try_from(PER_PATCH).unwrap_or(1));
    let many = move |first| signer.append_many("many", first, PER_PATCH.min(comments - first));
    few.chain(first.map(many))
}

fn report_creates(creates: &[Series]) -> Result<()> {
    println!();
    println!(
        "| creates by {CLIENTS} clients | /s | p50 µs | p99 µs | processor µs | times plain |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for ((_, name), own) in CREATORS.iter().zip(creates) {
        let (p50, p99) = (own.quantile_us(0.5)?, own.quantile_us(0.99)?);
        let processor = own.processor_us().map_or(String::new(), |us| format!("{us:.0}"));
        let times = creates[0].rate() / own.rate();
        println!("| {name} | {:.0} | {p50:.0} | {p99:.0} | {processor} | {times:.2} |", own.rate());
    }
    Ok(())
}

fn report_queries(queries: &[Series; 3]) -> Result<()> {
    println!();
    println!("| queries by one client | /s | p50 µs | p99 µs | times the item | times its rows |");
    println!("|---|---:|---:|---:|---:|---:|");
    let names = [
        "an item".to_owned(),
        format!("{HOLDINGS} rows of an item"),
        format!("{HOLDINGS} rows of an item, each with its target"),
    ];
    for (name, own) in names.iter().zip(queries) {
        let (p50, p99) = (own.quantile_us(0.5)?, own.quantile_us(0.99)?);
        let (item, rows) = (queries[0].rate() / own.rate(), queries[1].rate() / own.rate());
        println!("| {name} | {:.0} | {p50:.0} | {p99:.0} | {item:.2} | {rows:.2} |", own.rate());
    }
    Ok(())
}

fn report_appends(options: &Options, few: &Series, many: &Series) -> Result<()> {
    println!();
    println!("| appends to a post of | /s | p50 µs | p99 µs | times {FEW} |");
    println!("|---:|---:|---:|---:|---:|");
    for (comments, own) in [(FEW, few), (options.comments, many)] {
        let (p50, p99) = (own.quantile_us(0.5)?, own.quantile_us(0.99)?);
        let times = few.rate() / own.rate();
        println!("| {comments} | {:.0} | {p50:.0} | {p99:.0} | {times:.2} |", own.rate());
    }
    Ok(())
}
