//! `direct`: what a request costs in Direct mode, beside HTTP/1.1 and HTTP/2 over TLS, HTTP/1.1 in plain
//! text, and an echo of the same frames over TLS. Each client has a connection of its own and one request
//! at a time. The contestants take turns within each round.

pub(crate) mod echo;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use orrery_direct::Frame;

use crate::client::Client;
use crate::load::{self, CLIENT_NUMBERS, Until, Work};
use crate::message::{self, Signer, Target};
use crate::process::Process;
use crate::sample::{Sample, Series};
use crate::wire::{Connection, Trust, Wire};
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
    #[arg(long, default_value_t = 1000)]
    ms: u64,
    /// Measure only this operation
    #[arg(long, value_enum)]
    only: Option<Operation>,
}

const CLIENTS: [u64; 2] = [1, 32];
/// Items to read, loaded by 32 clients.
const LOADED_EACH: u64 = 313;
const LOADERS: u64 = 32;
/// A logical partition that is queried, and its items.
const GROUP: u64 = 900_000_000;
const GROUP_ITEMS: u64 = 10;
const PAGE: u32 = 100;
const QUERY: &str = r#"{"query":"SELECT * FROM c WHERE c.name = 'An item like many others' AND c.stock = 12","parameters":[]}"#;

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Operation {
    Read,
    Create,
    Query,
}

impl Operation {
    const ALL: [Self; 3] = [Self::Read, Self::Create, Self::Query];

    fn name(self) -> &'static str {
        match self {
            Self::Read => "point read",
            Self::Create => "durable create",
            Self::Query => "query",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Contestant {
    /// HTTP/1.1 in plain text.
    Plain,
    /// HTTP/1.1 over TLS.
    Tls,
    Http2,
    Direct,
    /// The echo of frames.
    Echo,
}

impl Contestant {
    const ALL: [Self; 5] = [Self::Plain, Self::Tls, Self::Http2, Self::Direct, Self::Echo];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "HTTP/1.1, plain",
            Self::Tls => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::Direct => "Direct",
            Self::Echo => "echo of frames",
        }
    }
}

type Event = (Operation, u64, Contestant);

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let time = Duration::from_millis(options.ms);
    let arena = Arena::open(&options.server, folder.path())?;
    let events = events(options.only);
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

fn events(only: Option<Operation>) -> Vec<Event> {
    let operations = Operation::ALL.into_iter().filter(|one| only.is_none_or(|only| only == *one));
    let each = |operation| {
        CLIENTS.into_iter().flat_map(move |clients| {
            Contestant::ALL.into_iter().map(move |contestant| (operation, clients, contestant))
        })
    };
    operations.flat_map(each).collect()
}

/// All that is measured, ready to run.
struct Arena {
    server: Process,
    echo: Process,
    trust: Trust,
    signer: Signer,
    target: Target,
    /// Over HTTP, and as frames.
    reads: [Arc<[Vec<u8>]>; 2],
}

impl Arena {
    fn open(binary: &Path, folder: &Path) -> Result<Self> {
        let data = folder.join("data");
        let (server, _) = Process::serve(binary, &data)?;
        let (signer, trust) = (Signer::now(), Trust::of_server(&data)?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut client = Client::connect(server.address).await?;
            let group = (0..GROUP_ITEMS).map(|number| signer.create_in(GROUP, number));
            for request in signer.setup().into_iter().chain(group) {
                client.expect(&request, 201).await?;
            }
            anyhow::Ok(())
        })?;
        let work = Work::Creates { create: signer.create(), from: 0 };
        load::run(server.address, LOADERS, &work, Until::Count(LOADED_EACH))?;
        let loaded = || {
            let of_client = |client| (0..LOADED_EACH).map(move |n| client * CLIENT_NUMBERS + n);
            (0..LOADERS).flat_map(of_client)
        };
        let target = runtime.block_on(async {
            Target::find(&mut Client::connect(server.address).await?, &signer).await
        })?;
        let reads = [
            loaded().map(|number| signer.read(number)).collect(),
            loaded().map(|number| signer.read_frame(&target, number)).collect(),
        ];
        let answers = runtime.block_on(answers(&server, &trust, &signer, &target))?;
        let file = |name: &str| std::fs::read(data.join("tls").join(name));
        let input = echo::input(&file("certificate.pem")?, &file("key.pem")?, &answers);
        let echo = Process::sibling("echo", &input)?;
        Ok(Self { server, echo, trust, signer, target, reads })
    }

    fn work(&self, operation: Operation, is_frame: bool, from: u64) -> Work {
        let (signer, target) = (&self.signer, &self.target);
        match operation {
            Operation::Read => Work::Reads(Arc::clone(&self.reads[usize::from(is_frame)])),
            Operation::Create => {
                let create = if is_frame { signer.create_frame(target) } else { signer.create() };
                Work::Creates { create, from }
            }
            Operation::Query => {
                let key = message::partition(GROUP);
                let query = if is_frame {
                    signer.query_frame(target, QUERY, &key, PAGE)
                } else {
                    signer.query(QUERY, Some(&key), PAGE as usize, None)
                };
                Work::Own(Arc::new([query]))
            }
        }
    }

    fn measure(&self, event: Event, from: u64, time: Duration) -> Result<Sample> {
        let (operation, clients, contestant) = event;
        let trust = || self.trust.clone();
        let (process, wire) = match contestant {
            Contestant::Plain => (&self.server, Wire::Http1),
            Contestant::Tls => (&self.server, Wire::Http1Tls(trust())),
            Contestant::Http2 => (&self.server, Wire::Http2(trust())),
            Contestant::Direct => (&self.server, Wire::Direct(trust())),
            Contestant::Echo => (&self.echo, Wire::Direct(trust())),
        };
        let work = self.work(operation, matches!(wire, Wire::Direct(_)), from);
        let mut processor = Duration::ZERO;
        let until = Until::Elapsed(time);
        let mut sample =
            load::run_over(&wire, process.address, clients, &work, until, |is_over| {
                let now = process.processor()?;
                processor = if is_over { now.saturating_sub(processor) } else { now };
                Ok(())
            })?;
        sample.processor = Some(processor);
        Ok(sample)
    }
}

/// What the server answers to each operation, as bytes.
async fn answers(
    server: &Process,
    trust: &Trust,
    signer: &Signer,
    target: &Target,
) -> Result<echo::Answers> {
    let wire = Wire::Direct(trust.clone());
    let Connection::Direct(mut client) = wire.connect(server.address).await? else {
        anyhow::bail!("a connection of another kind")
    };
    let mut create = signer.create_frame(target);
    let key = message::partition(GROUP);
    let query = signer.query_frame(target, QUERY, &key, PAGE);
    Ok([
        frame_bytes(&client.expect(&signer.read_frame(target, 0), 200).await?),
        frame_bytes(&client.expect(create.numbered(CLIENT_NUMBERS - 1), 201).await?),
        frame_bytes(&client.expect(&query, 200).await?),
    ])
}

/// The frame as it came. All of these have a body.
fn frame_bytes(frame: &Frame) -> Vec<u8> {
    let Frame { head, body }: &Frame = frame;
    let length = u32::try_from(Bytes::len(body)).expect("bodies are short").to_le_bytes();
    [head, &length[..], body].concat()
}

fn report(events: &[Event], series: &[Series]) -> Result<()> {
    println!();
    println!(
        "| operation | clients | who | operations/s | p50 µs | p99 µs | processor µs/op | of HTTP/1.1 | of the echo |"
    );
    println!("|---|---:|---|---:|---:|---:|---:|---:|---:|");
    for ((operation, clients, contestant), own) in events.iter().zip(series) {
        let part = |of: Contestant| {
            let at = events.iter().position(|event| *event == (*operation, *clients, of));
            let ratio = at.and_then(|at| own.processor_ratio(&series[at]));
            ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))
        };
        let processor = own.processor_us().map_or(String::new(), |us| format!("{us:.1}"));
        let (p50, p99) = (own.quantile_us(0.5)?, own.quantile_us(0.99)?);
        println!(
            "| {} | {clients} | {} | {:.0} | {p50:.0} | {p99:.0} | {processor} | {} | {} |",
            operation.name(),
            contestant.name(),
            own.rate(),
            part(Contestant::Tls),
            part(Contestant::Echo)
        );
    }
    Ok(())
}
