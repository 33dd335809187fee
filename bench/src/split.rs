//! How writes go on while the range that they go to is split: their rate before, meanwhile and after,
//! and the longest that one of them waited.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hdrhistogram::Histogram;

use crate::client::Client;
use crate::load::{self, CLIENT_NUMBERS, Until, Work};
use crate::message::Signer;
use crate::sample::Sample;
use crate::stopwatch::Stopwatch;

const LOADERS: u64 = 32;
/// Items of one signature: it is good for a quarter of an hour.
const LOADED_AT_ONCE: u64 = 50_000;
const WRITERS: u64 = 8;
/// Numbers set aside for one writer while something takes its time.
const WRITER_NUMBERS: u64 = 5_000_000;

/// Fills the container, splits its range among writers, and prints. Items are numbered from `from`.
pub(crate) fn run(address: SocketAddr, items: u64, mut from: u64, time: Duration) -> Result<()> {
    let mut missing = items;
    while missing > 0 {
        let count = missing.min(LOADED_AT_ONCE).div_ceil(LOADERS);
        let work = Work::Creates { create: Signer::now().create(), from };
        load::run(address, LOADERS, &work, Until::Count(count))?;
        from += LOADERS * CLIENT_NUMBERS;
        missing = missing.saturating_sub(count * LOADERS);
    }
    println!("\n{items} items, {WRITERS} writers:\n");
    println!("| | creates/s | p50 ms | p99 ms | max ms | s |\n|---|---:|---:|---:|---:|---:|");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let pause = async {
        tokio::time::sleep(time).await;
        anyhow::Ok(())
    };
    let before = runtime.block_on(writes_during(address, from, pause))?;
    from += WRITERS * WRITER_NUMBERS;
    row("before", &before);
    let mut client = runtime.block_on(Client::connect(address))?;
    let request = Signer::now().split();
    let split = async {
        let answer = client.call(&request).await?;
        ensure!(answer.status == 200, "the split answered with {}", answer.status);
        anyhow::Ok(())
    };
    let meanwhile = runtime.block_on(writes_during(address, from, split))?;
    from += WRITERS * WRITER_NUMBERS;
    row("while it splits", &meanwhile);
    let pause = async {
        tokio::time::sleep(time).await;
        anyhow::Ok(())
    };
    row("after", &runtime.block_on(writes_during(address, from, pause))?);
    println!("\nRate while it splits: {:.2} of that before.", meanwhile.rate() / before.rate());
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "latencies are small")]
fn row(name: &str, sample: &Sample) {
    let ms = |ns: u64| ns as f64 / 1e6;
    let at = |part| ms(sample.latencies_ns.value_at_quantile(part));
    println!(
        "| {name} | {:.0} | {:.2} | {:.2} | {:.2} | {:.1} |",
        sample.rate(),
        at(0.5),
        at(0.99),
        ms(sample.latencies_ns.max()),
        sample.took.as_secs_f64()
    );
}

/// Lets the writers write for as long as something takes.
async fn writes_during(
    address: SocketAddr,
    from: u64,
    what: impl Future<Output = Result<()>>,
) -> Result<Sample> {
    let done = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let client = Client::connect(address).await?;
        let from = from + writer * WRITER_NUMBERS;
        tasks.push(tokio::spawn(write(client, from, done.clone())));
    }
    let watch = Stopwatch::start();
    let outcome = what.await;
    done.store(true, Ordering::SeqCst);
    let took = watch.elapsed();
    let mut latencies_ns = Sample::histogram();
    for task in tasks {
        latencies_ns.add(task.await.context("a writer panicked")??)?;
    }
    outcome?;
    Ok(Sample { latencies_ns, took, processor: None })
}

async fn write(mut client: Client, from: u64, done: Arc<AtomicBool>) -> Result<Histogram<u64>> {
    let mut create = Signer::now().create();
    let mut latencies_ns = Sample::histogram();
    let mut next = from;
    while !done.load(Ordering::SeqCst) {
        let call = Stopwatch::start();
        client.expect(create.numbered(next), 201).await?;
        latencies_ns.record(call.nanoseconds())?;
        next += 1;
        ensure!(next < from + WRITER_NUMBERS, "a writer has used up its numbers");
    }
    Ok(latencies_ns)
}
