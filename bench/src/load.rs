//! Drives a server with many clients at once, all on one thread: the client must not take the
//! core that the server would use.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hdrhistogram::Histogram;

use crate::message::Numbered;
use crate::sample::Sample;
use crate::stopwatch::Stopwatch;
use crate::wire::{Connection, Wire};

/// What the clients ask for.
#[derive(Clone)]
pub(crate) enum Work {
    /// Reads, in an order that jumps about.
    Reads(Arc<[Vec<u8>]>),
    /// One request for each client, sent over and over.
    Own(Arc<[Vec<u8>]>),
    /// One request for each client, which changes what it is about each time.
    Changes(Arc<[Numbered]>),
    /// Creates; each client numbers its own from here on.
    Creates { create: Numbered, from: u64 },
    /// A request for each client, which it numbers from here on.
    Numbered { requests: Arc<[Numbered]>, from: u64, status: u16 },
}

/// When a client stops.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    Elapsed(Duration),
    /// Each client so many.
    Count(u64),
}

/// Numbers set aside for one client in one run.
pub(crate) const CLIENT_NUMBERS: u64 = 100_000;

/// The first number that a change writes: it has as many digits as the last.
const CHANGES_FROM: u64 = 100_000_000;

/// A step that visits every one of up to this prime many requests.
const STRIDE: usize = 7919;

/// Runs so many clients and measures every call.
pub(crate) fn run(address: SocketAddr, clients: u64, work: &Work, until: Until) -> Result<Sample> {
    run_over(&Wire::Http1, address, clients, work, until, |_| Ok(()))
}

/// The same with clients that are spread over several servers.
pub(crate) fn run_spread(
    addresses: &[SocketAddr],
    clients: u64,
    work: &Work,
    until: Until,
) -> Result<Sample> {
    run_at(&Wire::Http1, addresses, clients, work, until, |_| Ok(()))
}

/// The same over a wire. `mark` is called when all clients are connected, and with `true` when all have
/// ended.
pub(crate) fn run_over(
    wire: &Wire,
    address: SocketAddr,
    clients: u64,
    work: &Work,
    until: Until,
    mark: impl FnMut(bool) -> Result<()>,
) -> Result<Sample> {
    run_at(wire, &[address], clients, work, until, mark)
}

fn run_at(
    wire: &Wire,
    addresses: &[SocketAddr],
    clients: u64,
    work: &Work,
    until: Until,
    mut mark: impl FnMut(bool) -> Result<()>,
) -> Result<Sample> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connected = Vec::new();
        for (_, address) in (0..clients).zip(addresses.iter().cycle()) {
            connected.push(wire.connect(*address).await?);
        }
        mark(false)?;
        let watch = Stopwatch::start();
        let tasks: Vec<_> = (0..clients)
            .zip(connected)
            .map(|(number, client)| tokio::spawn(drive(client, number, work.clone(), until)))
            .collect();
        let mut latencies_ns = Sample::histogram();
        for task in tasks {
            latencies_ns.add(task.await.context("a client panicked")??)?;
        }
        let took = watch.elapsed();
        mark(true)?;
        Ok(Sample { latencies_ns, took, processor: None })
    })
}

async fn drive_numbered(
    mut client: Connection,
    mut request: Numbered,
    mut next: u64,
    status: u16,
    goes_on: impl Fn(u64) -> bool,
) -> Result<Histogram<u64>> {
    let mut latencies_ns = Sample::histogram();
    while goes_on(latencies_ns.len()) {
        let request = request.numbered(next);
        next += 1;
        let call = Stopwatch::start();
        client.expect(request, status).await?;
        latencies_ns.record(call.nanoseconds())?;
    }
    Ok(latencies_ns)
}

async fn drive(
    mut client: Connection,
    number: u64,
    work: Work,
    until: Until,
) -> Result<Histogram<u64>> {
    let mut latencies_ns = Sample::histogram();
    let watch = Stopwatch::start();
    let goes_on = |done: u64| match until {
        Until::Elapsed(time) => watch.elapsed() < time,
        Until::Count(count) => done < count,
    };
    match work {
        Work::Reads(requests) => {
            let mut at = usize::try_from(number)? * STRIDE;
            while goes_on(latencies_ns.len()) {
                at = (at + STRIDE) % requests.len();
                let call = Stopwatch::start();
                client.expect(&requests[at], 200).await?;
                latencies_ns.record(call.nanoseconds())?;
            }
        }
        Work::Own(requests) => {
            let request = &requests[usize::try_from(number)? % requests.len()];
            while goes_on(latencies_ns.len()) {
                let call = Stopwatch::start();
                client.expect(request, 200).await?;
                latencies_ns.record(call.nanoseconds())?;
            }
        }
        Work::Changes(changes) => {
            let mut change = changes[usize::try_from(number)? % changes.len()].clone();
            while goes_on(latencies_ns.len()) {
                let request = change.numbered(CHANGES_FROM + latencies_ns.len());
                let call = Stopwatch::start();
                client.expect(request, 200).await?;
                latencies_ns.record(call.nanoseconds())?;
            }
        }
        Work::Creates { create, from } => {
            let (request, next) = (create, from + number * CLIENT_NUMBERS);
            return drive_numbered(client, request, next, 201, goes_on).await;
        }
        Work::Numbered { requests, from, status } => {
            let request = requests[usize::try_from(number)? % requests.len()].clone();
            let next = from + number * CLIENT_NUMBERS;
            return drive_numbered(client, request, next, status, goes_on).await;
        }
    }
    Ok(latencies_ns)
}
