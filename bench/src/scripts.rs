//! `scripts`: a stored procedure that reads and writes ten items of one logical partition, beside a
//! transactional batch that does the same: both read every item, and both give each of them another
//! stock, which is indexed. Each client has a partition of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::client::Client;
use crate::load::{self, Until, Work};
use crate::message::{Numbered, Signer};
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
    /// Length of each measurement in milliseconds
    #[arg(long, default_value_t = 2000)]
    ms: u64,
}

const CLIENTS: [u64; 2] = [1, 32];
/// Groups of items, one for each client.
const GROUPS: u64 = 32;
/// Items of a group.
const SIZE: u64 = 10;
const CONTESTANTS: [&str; 2] = ["procedure", "batch"];

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let time = Duration::from_millis(options.ms);
    let (server, _) = Process::serve(&options.server, &folder.path().join("data"))?;
    let signer = Signer::now();
    fill(&server, &signer)?;
    let procedures: Arc<[Vec<u8>]> = (0..GROUPS).map(|g| signer.execute(g, SIZE)).collect();
    let batches: Arc<[Numbered]> = (0..GROUPS).map(|g| signer.group_batch(g, SIZE)).collect();
    let works = [Work::Own(procedures), Work::Changes(batches)];
    let mut series: Vec<Series> = (0..CLIENTS.len() * 2).map(|_| Series::default()).collect();
    let mut syncs = Series::default();
    for round in 0..options.rounds {
        syncs.push(disk::run(folder.path(), time / 4)?);
        // Every other round goes backwards, so that each contestant comes first in half of them.
        let mut order: Vec<usize> = (0..series.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let before = server.processor()?;
            let until = Until::Elapsed(time);
            let mut sample = load::run(server.address, CLIENTS[at / 2], &works[at % 2], until)?;
            sample.processor = Some(server.processor()?.saturating_sub(before));
            series[at].push(sample);
        }
    }
    machine::describe(&options.root);
    println!("- disk: {:.0} syncs/s by one writer", syncs.rate());
    println!("- {} rounds of {} ms each; rates are medians", options.rounds, options.ms);
    report(&series)
}

/// Makes the container, the groups and the procedure.
fn fill(server: &Process, signer: &Signer) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = Client::connect(server.address).await?;
        for request in signer.setup() {
            client.expect(&request, 201).await?;
        }
        client.expect(&signer.procedure(), 201).await?;
        for group in 0..GROUPS {
            for number in 0..SIZE {
                client.expect(&signer.create_in(group, number), 201).await?;
            }
        }
        Ok(())
    })
}

fn report(series: &[Series]) -> Result<()> {
    println!();
    println!(
        "| clients | who | calls/s | p50 µs | p99 µs | processor µs/call | procedure's part |"
    );
    println!("|---:|---|---:|---:|---:|---:|---:|");
    for (at, own) in series.iter().enumerate() {
        let part = match at % 2 {
            0 => String::new(),
            _ => format!("{:.2}", series[at - 1].ratio(own)),
        };
        let processor = own.processor_us().map_or(String::new(), |us| format!("{us:.1}"));
        let (p50, p99) = (own.quantile_us(0.5)?, own.quantile_us(0.99)?);
        println!(
            "| {} | {} | {:.0} | {p50:.0} | {p99:.0} | {processor} | {part} |",
            CLIENTS[at / 2],
            CONTESTANTS[at % 2],
            own.rate()
        );
    }
    Ok(())
}
