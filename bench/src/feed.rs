//! `feed`: how fast the change feed is read, and how far a reader that follows it is behind writers.
//! Lag is the time from the answer to a create until the item has come out of the feed; a reader
//! that has it before the writer got its answer counts as zero. At the end a container of many items is
//! split while others write to it (`split`).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hdrhistogram::Histogram;
use memchr::memmem;

use crate::client::{Answer, Client};
use crate::load::{self, CLIENT_NUMBERS, Until, Work};
use crate::machine;
use crate::message::{ID_PREFIX, Signer};
use crate::process::Process;
use crate::sample::{Sample, median};
use crate::split;
use crate::stopwatch::Stopwatch;

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
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of each measurement of lag in milliseconds
    #[arg(long, default_value_t = 3000)]
    ms: u64,
    /// Items in the feed that is read
    #[arg(long, default_value_t = 20_000)]
    items: u64,
    /// Items in the container that is split; none leaves that out
    #[arg(long, default_value_t = 1_000_000)]
    split_items: u64,
}

const LOADERS: u64 = 32;
const PAGES: [usize; 3] = [10, 100, 1000];
const WRITERS: [u64; 3] = [1, 8, 32];

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let (server, _) = Process::serve(&options.server, &folder.path().join("data"))?;
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
    load::run(server.address, LOADERS, &work, Until::Count(options.items.div_ceil(LOADERS)))?;
    machine::describe(&options.root);
    println!("- {} rounds; rates are medians; {} items of 1 KB", options.rounds, options.items);
    println!("\n| page | changes/s |\n|---:|---:|");
    for page in PAGES {
        let mut rates = Vec::new();
        for _ in 0..options.rounds {
            rates.push(runtime.block_on(drain(server.address, &signer, page))?);
        }
        println!("| {page} | {:.0} |", median(rates.into_iter()));
    }
    println!("\n| writers | creates/s | lag p50 ms | lag p99 ms | lag max ms |");
    println!("|---:|---:|---:|---:|---:|");
    let time = Duration::from_millis(options.ms);
    let mut from = LOADERS * CLIENT_NUMBERS;
    for writers in WRITERS {
        let (written, lag_ns) =
            runtime.block_on(follow(server.address, &signer, writers, from, time))?;
        from += writers * CLIENT_NUMBERS;
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let (rate, ms) = (written as f64 / time.as_secs_f64(), |ns: u64| ns as f64 / 1e6);
        println!(
            "| {writers} | {rate:.0} | {:.2} | {:.2} | {:.2} |",
            ms(lag_ns.value_at_quantile(0.5)),
            ms(lag_ns.value_at_quantile(0.99)),
            ms(lag_ns.max())
        );
    }
    if options.split_items > 0 {
        split::run(server.address, options.split_items, from, time)?;
    }
    Ok(())
}

/// Reads the feed from its beginning to its end; changes a second.
async fn drain(address: SocketAddr, signer: &Signer, page: usize) -> Result<f64> {
    let mut client = Client::connect(address).await?;
    let (mut etag, mut changes) = (None, 0);
    let watch = Stopwatch::start();
    loop {
        let request = signer.changes(page, etag.as_deref());
        let answer = client.call(&request).await?;
        if answer.status == 304 {
            break;
        }
        ensure!(answer.status == 200, "answered with {}", answer.status);
        changes += memmem::find_iter(answer.body, ID_PREFIX).count();
        etag = Some(position(&answer)?);
    }
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let rate = changes as f64 / watch.elapsed().as_secs_f64();
    Ok(rate)
}

/// When each item was acknowledged or seen, whichever came first.
type Moments = Arc<Mutex<HashMap<u64, u64>>>;

/// Follows the feed while others write; how many were written, and how late each came.
async fn follow(
    address: SocketAddr,
    signer: &Signer,
    writers: u64,
    from: u64,
    time: Duration,
) -> Result<(u64, Histogram<u64>)> {
    let moments = Moments::default();
    let (watch, done) = (Stopwatch::start(), Arc::new(AtomicBool::new(false)));
    let mut reader = Client::connect(address).await?;
    let now = signer.changes(100, Some("*"));
    let mut etag = position(&reader.call(&now).await?)?;
    let mut tasks = Vec::new();
    for writer in 0..writers {
        let mut client = Client::connect(address).await?;
        let (mut create, moments) = (signer.create(), moments.clone());
        tasks.push(tokio::spawn(async move {
            let mut next = from + writer * CLIENT_NUMBERS;
            while watch.elapsed() < time {
                client.expect(create.numbered(next), 201).await?;
                let answered_ns = watch.nanoseconds();
                lock(&moments).entry(next).or_insert(answered_ns);
                next += 1;
            }
            anyhow::Ok(next - from - writer * CLIENT_NUMBERS)
        }));
    }
    let mut lag_ns = Sample::histogram();
    let stop = done.clone();
    let reading = async {
        loop {
            let last = stop.load(Ordering::SeqCst);
            let answer = reader.call(&signer.changes(1000, Some(&etag))).await?;
            let seen_ns = watch.nanoseconds();
            for number in numbers(answer.body) {
                let acknowledged_ns = *lock(&moments).entry(number).or_insert(seen_ns);
                lag_ns.record(seen_ns.saturating_sub(acknowledged_ns))?;
            }
            let at_end = answer.status == 304;
            etag = position(&answer)?;
            if at_end && last {
                return anyhow::Ok(());
            }
            if at_end {
                tokio::time::sleep(POLL_PAUSE).await;
            }
        }
    };
    let writing = async {
        let mut written = 0;
        for task in tasks {
            written += task.await.context("a writer panicked")??;
        }
        done.store(true, Ordering::SeqCst);
        anyhow::Ok(written)
    };
    let (written, ()) = tokio::try_join!(writing, reading)?;
    ensure!(lag_ns.len() == written, "{written} were written and {} came", lag_ns.len());
    Ok((written, lag_ns))
}

/// How long a reader waits after it has found nothing new.
const POLL_PAUSE: Duration = Duration::from_millis(1);

fn lock(moments: &Moments) -> std::sync::MutexGuard<'_, HashMap<u64, u64>> {
    moments.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The numbers of the items on a page.
fn numbers(body: &[u8]) -> impl Iterator<Item = u64> {
    memmem::find_iter(body, ID_PREFIX).map(|at| {
        let digits = body[at + ID_PREFIX.len()..].iter().take_while(|b| b.is_ascii_digit());
        digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
    })
}

/// The position in an answer.
fn position(answer: &Answer<'_>) -> Result<String> {
    const NAME: &[u8] = b"\r\netag: ";
    let at = memmem::find(answer.head, NAME).context("an answer without etag")? + NAME.len();
    let value = answer.head[at..].split(|b| *b == b'\r').next().unwrap_or_default();
    Ok(String::from_utf8(value.to_vec())?)
}
