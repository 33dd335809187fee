//! `scan`: what the order of insertion costs a scan. A range of up to 100,000 items is read in the order in
//! which they were inserted, a larger one along its keys, so the same scans run over 100,000 items, and again
//! after one more was created.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use memchr::memmem;

use crate::client::{Answer, Client};
use crate::load::{self, Until, Work};
use crate::machine;
use crate::message::{ID_PREFIX, Signer};
use crate::process::Process;
use crate::sample::median;
use crate::stopwatch::Stopwatch;

/// What to measure, and how often.
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
    /// Rounds; the median of those behind the first counts, which fills the caches
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Items of a page
    #[arg(long, default_value_t = 1000)]
    page: usize,
}

const LOADERS: u64 = 32;
/// The most that are read in the order of insertion.
const ITEMS: u64 = 100_000;

/// A whole scan.
#[derive(Clone, Copy)]
enum Scan {
    ReadFeed,
    Query { name: &'static str, text: &'static str, finds_all: bool },
}

const SCANS: [Scan; 4] = [
    Scan::ReadFeed,
    Scan::Query { name: "`SELECT * FROM c`", text: "SELECT * FROM c", finds_all: true },
    Scan::Query {
        name: "a filter that no index serves, and every item passes",
        text: "SELECT * FROM c WHERE c.stock + 0 >= 0",
        finds_all: true,
    },
    Scan::Query {
        name: "the same, and none passes",
        text: "SELECT * FROM c WHERE c.stock + 0 < 0",
        finds_all: false,
    },
];

/// What one scan took.
#[derive(Clone, Copy)]
struct Cost {
    elapsed_ms: f64,
    processor_ms: f64,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 1, "the first round fills the caches; at least two are needed");
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let serve = || Process::serve(&options.server, &folder.path().join("data"));
    let (server, _) = serve()?;
    let signer = Signer::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(send(server.address, &signer.setup()))?;
    let work = Work::Creates { create: signer.create(), from: 0 };
    load::run(server.address, LOADERS, &work, Until::Count(ITEMS / LOADERS))?;
    server.stop()?;
    // A server that was started anew has nothing in its caches.
    let (server, _) = serve()?;
    let by_row = rounds(options, &runtime, &server, &signer, ITEMS)?;
    let one_more = signer.create().numbered(LOADERS * load::CLIENT_NUMBERS).to_vec();
    runtime.block_on(send(server.address, &[one_more]))?;
    server.stop()?;
    let (server, _) = serve()?;
    let by_key = rounds(options, &runtime, &server, &signer, ITEMS + 1)?;
    machine::describe(&options.root);
    let (rounds, page) = (options.rounds, options.page);
    println!("- {ITEMS} items of 1 KB, pages of {page}; {rounds} rounds\n");
    println!(
        "| scan | by key ms | by row ms | ratio | processor ms | by row | ratio | cold ms | by row | ratio |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (scan, (by_row, by_key)) in SCANS.iter().zip(by_row.iter().zip(&by_key)) {
        let mut line = format!("| {} |", scan.name());
        let elapsed = [by_key, by_row].map(|costs| typical(costs, |cost| cost.elapsed_ms));
        let processor = [by_key, by_row].map(|costs| typical(costs, |cost| cost.processor_ms));
        let cold = [by_key, by_row].map(|costs| costs[0].elapsed_ms);
        for [by_key, by_row] in [elapsed, processor, cold] {
            write!(line, " {by_key:.0} | {by_row:.0} | {:.2} |", by_row / by_key)?;
        }
        println!("{line}");
    }
    Ok(())
}

/// The median of the rounds behind the first.
fn typical(costs: &[Cost], of: impl Fn(&Cost) -> f64) -> f64 {
    median(costs.iter().skip(1).map(of))
}

async fn send(address: SocketAddr, requests: &[Vec<u8>]) -> Result<()> {
    let mut client = Client::connect(address).await?;
    for request in requests {
        client.expect(request, 201).await?;
    }
    Ok(())
}

/// All rounds of each scan.
fn rounds(
    options: &Options,
    runtime: &tokio::runtime::Runtime,
    server: &Process,
    signer: &Signer,
    items: u64,
) -> Result<Vec<Vec<Cost>>> {
    let mut costs = vec![Vec::new(); SCANS.len()];
    for _ in 0..options.rounds {
        for (scan, costs) in SCANS.iter().zip(&mut costs) {
            let (before, watch) = (server.processor()?, Stopwatch::start());
            let found = runtime.block_on(scan.drain(server.address, signer, options.page))?;
            let elapsed_ms = watch.elapsed().as_secs_f64() * 1e3;
            let processor_ms = server.processor()?.saturating_sub(before).as_secs_f64() * 1e3;
            ensure!(found == scan.expected(items), "{} found {found} items", scan.name());
            costs.push(Cost { elapsed_ms, processor_ms });
        }
    }
    Ok(costs)
}

impl Scan {
    fn name(self) -> &'static str {
        match self {
            Self::ReadFeed => "read feed",
            Self::Query { name, .. } => name,
        }
    }

    fn expected(self, items: u64) -> u64 {
        match self {
            Self::Query { finds_all: false, .. } => 0,
            Self::ReadFeed | Self::Query { .. } => items,
        }
    }

    fn page(self, signer: &Signer, items: usize, after: Option<&str>) -> Vec<u8> {
        match self {
            Self::ReadFeed => signer.feed(items, after),
            Self::Query { text, .. } => {
                let body = format!(r#"{{"query":"{text}","parameters":[]}}"#);
                signer.query(&body, None, items, after)
            }
        }
    }

    /// Reads all pages; how many items came.
    async fn drain(self, address: SocketAddr, signer: &Signer, items: usize) -> Result<u64> {
        let mut client = Client::connect(address).await?;
        let (mut after, mut found) = (None, 0);
        loop {
            let request = self.page(signer, items, after.as_deref());
            let answer = client.expect(&request, 200).await?;
            found += memmem::find_iter(answer.body, ID_PREFIX).count() as u64;
            after = continuation(&answer)?;
            if after.is_none() {
                return Ok(found);
            }
        }
    }
}

/// Where the next page begins.
fn continuation(answer: &Answer<'_>) -> Result<Option<String>> {
    const NAME: &[u8] = b"\r\nx-ms-continuation: ";
    let Some(at) = memmem::find(answer.head, NAME) else { return Ok(None) };
    let value = answer.head[at + NAME.len()..].split(|b| *b == b'\r').next();
    Ok(Some(String::from_utf8(value.context("a header has a value")?.to_vec())?))
}
