//! `items`: point reads and durable creates, by one client and by many. The contestants take turns
//! within each round, so that other load of the machine affects all of them alike.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::client::Client;
use crate::load::{self, CLIENT_NUMBERS, Until, Work};
use crate::message::Signer;
use crate::process::Process;
use crate::raw::Raw;
use crate::sample::{Sample, Series};
use crate::{bare, disk, machine};

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
    /// Leave the creates out
    #[arg(long)]
    reads_only: bool,
}

const CLIENTS: [u64; 2] = [1, 32];
/// Items to read, loaded by 32 clients.
const LOADED_EACH: u64 = 313;
const LOADERS: u64 = 32;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Read,
    Create,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Contestant {
    Server,
    /// The handler that does nothing.
    Bare,
    /// The store without a server.
    Store,
}

type Event = (Operation, u64, Contestant);

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let time = Duration::from_millis(options.ms);
    let arena = Arena::open(options, folder.path())?;
    let events = events(options.reads_only);
    let mut series: Vec<Series> = events.iter().map(|_| Series::default()).collect();
    let mut syncs = Series::default();
    let mut numbers = (1..).map(|run| run * LOADERS * CLIENT_NUMBERS);
    for round in 0..options.rounds {
        syncs.push(disk::run(folder.path(), time / 4)?);
        // Every other round goes backwards, so that each contestant comes first in half of them.
        let mut order: Vec<usize> = (0..events.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let from = numbers.next().unwrap_or_default();
            series[at].push(arena.measure(events[at], from, time)?);
        }
    }
    machine::describe(&options.root);
    println!("- disk: {:.0} syncs/s by one writer", syncs.rate());
    println!("- {} rounds of {} ms each; rates are medians", options.rounds, options.ms);
    report(&events, &series)
}

fn events(reads_only: bool) -> Vec<Event> {
    let mut events = Vec::new();
    for clients in CLIENTS {
        for contestant in [Contestant::Server, Contestant::Bare] {
            events.push((Operation::Read, clients, contestant));
        }
        if reads_only {
            continue;
        }
        for contestant in [Contestant::Server, Contestant::Bare, Contestant::Store] {
            events.push((Operation::Create, clients, contestant));
        }
    }
    events
}

/// All that is measured, ready to run.
struct Arena {
    server: Process,
    bare: Process,
    store: Raw,
    reads: Arc<[Vec<u8>]>,
    signer: Signer,
}

impl Arena {
    fn open(options: &Options, folder: &std::path::Path) -> Result<Self> {
        let data = folder.join("data");
        let (server, _) = Process::serve(&options.server, &data)?;
        let signer = Signer::now();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut client = Client::connect(server.address).await?;
            for request in signer.setup() {
                client.expect(&request, 201).await?;
            }
            anyhow::Ok(())
        })?;
        let work = Work::Creates { create: signer.create(), from: 0 };
        load::run(server.address, LOADERS, &work, Until::Count(LOADED_EACH))?;
        let loaded = (0..LOADERS).flat_map(|client| {
            let from = client * CLIENT_NUMBERS;
            from..from + LOADED_EACH
        });
        let reads: Arc<[Vec<u8>]> = loaded.map(|number| signer.read(number)).collect();
        let input = runtime.block_on(async {
            let mut reader = Client::connect(server.address).await?;
            let mut creator = Client::connect(server.address).await?;
            let read = reader.expect(&reads[0], 200).await?;
            let mut create = signer.create();
            let created = creator.expect(create.numbered(CLIENT_NUMBERS - 1), 201).await?;
            anyhow::Ok(bare::input([read, created]))
        })?;
        let bare = Process::sibling("bare", &input)?;
        let store = Raw::open(&folder.join("store"))?;
        Ok(Self { server, bare, store, reads, signer })
    }

    fn measure(&self, event: Event, from: u64, time: Duration) -> Result<Sample> {
        let (operation, clients, contestant) = event;
        let process = match contestant {
            Contestant::Server => &self.server,
            Contestant::Bare => &self.bare,
            Contestant::Store => return self.store.run(clients, from, time),
        };
        let work = match operation {
            Operation::Read => Work::Reads(Arc::clone(&self.reads)),
            Operation::Create => Work::Creates { create: self.signer.create(), from },
        };
        let before = process.processor()?;
        let mut sample = load::run(process.address, clients, &work, Until::Elapsed(time))?;
        sample.processor = Some(process.processor()?.saturating_sub(before));
        Ok(sample)
    }
}

fn report(events: &[Event], series: &[Series]) -> Result<()> {
    println!();
    println!(
        "| operation | clients | who | operations/s | p50 µs | p99 µs | processor µs/op | server's part |"
    );
    println!("|---|---:|---|---:|---:|---:|---:|---:|");
    for ((operation, clients, contestant), own) in events.iter().zip(series) {
        let server = (*operation, *clients, Contestant::Server);
        let server = events.iter().position(|event| *event == server);
        let ratio = match (contestant, server) {
            (Contestant::Bare | Contestant::Store, Some(at)) => {
                format!("{:.2}", series[at].ratio(own))
            }
            _ => String::new(),
        };
        let operation = match operation {
            Operation::Read => "point read",
            Operation::Create => "durable create",
        };
        let who = match contestant {
            Contestant::Server => "server",
            Contestant::Bare => "bare handler",
            Contestant::Store => "store alone",
        };
        let processor = own.processor_us().map_or(String::new(), |us| format!("{us:.1}"));
        let (p50, p99) = (own.quantile_us(0.5)?, own.quantile_us(0.99)?);
        println!(
            "| {operation} | {clients} | {who} | {:.0} | {p50:.0} | {p99:.0} | {processor} | {ratio} |",
            own.rate()
        );
    }
    Ok(())
}
