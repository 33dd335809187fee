//! The load generator: many clients on one thread, in a closed loop or in an open one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hdrhistogram::Histogram;

use super::operation::{LOADED_ITEMS, Numbers, Operation};
use super::session::Session;
use super::system::System;
use crate::sample::Sample;
use crate::stopwatch::Stopwatch;

/// Clients that load.
const LOADERS: usize = 16;

/// When a client begins its next operation.
#[derive(Clone, Copy)]
pub(super) enum Pace {
    /// When the one before is answered.
    Closed { time: Duration },
    /// When it is due: all clients together begin so many in a second, even if earlier ones have not completed.
    /// Latencies count from then on.
    Open { time: Duration, rate: f64 },
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Creates the items.
pub(super) fn load(system: &System) -> Result<()> {
    runtime()?.block_on(async {
        system.connect().await?.set_up().await?;
        let next = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for _ in 0..LOADERS {
            let (mut session, next) = (system.connect().await?, Arc::clone(&next));
            tasks.push(tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= LOADED_ITEMS {
                        return anyhow::Ok(());
                    }
                    session.call(Operation::Create, number).await?;
                }
            }));
        }
        for task in tasks {
            task.await.context("a client panicked")??;
        }
        Ok(())
    })
}

/// Fails unless every query finds as many rows as it should.
pub(super) fn check(system: &System, operations: &[Operation]) -> Result<()> {
    runtime()?.block_on(async {
        let mut session = system.connect().await?;
        for operation in operations {
            let Some((_, expected)) = operation.query() else { continue };
            let found = session.call(*operation, 4321).await?;
            let (name, what) = (system.name(), operation.name());
            ensure!(found == expected, "{name}, {what}: {found} rows, not {expected}");
        }
        Ok(())
    })
}

/// What so many clients do over and over, in a container with so many items.
#[derive(Clone, Copy)]
pub(super) struct Workload {
    pub(super) operation: Operation,
    pub(super) clients: usize,
    pub(super) items: u64,
}

/// Runs one operation over and over.
pub(super) fn run(system: &System, workload: Workload, pace: Pace) -> Result<Sample> {
    let clients = workload.clients;
    runtime()?.block_on(async {
        let mut sessions = Vec::new();
        for _ in 0..clients {
            sessions.push(system.connect().await?);
        }
        let watch = Stopwatch::start();
        let tasks: Vec<_> = sessions
            .into_iter()
            .enumerate()
            .map(|(client, session)| {
                let schedule = Schedule { pace, clients, client, watch };
                tokio::spawn(drive(session, workload, schedule))
            })
            .collect();
        let mut latencies_ns = Sample::histogram();
        for task in tasks {
            latencies_ns.add(task.await.context("a client panicked")??)?;
        }
        Ok(Sample { latencies_ns, took: watch.elapsed(), processor: None })
    })
}

/// When one client's operations are due.
struct Schedule {
    pace: Pace,
    clients: usize,
    client: usize,
    watch: Stopwatch,
}

impl Schedule {
    /// Waits until the n-th operation is due; when that was, or `None` after the last one.
    async fn due(&self, nth: u32) -> Option<Duration> {
        let (due, time) = match self.pace {
            Pace::Closed { time } => (self.watch.elapsed(), time),
            Pace::Open { time, rate } => (due(nth, self.client, self.clients, rate), time),
        };
        if due >= time {
            return None;
        }
        let early = due.saturating_sub(self.watch.elapsed());
        if !early.is_zero() {
            tokio::time::sleep(early).await;
        }
        Some(due)
    }
}

/// The clients take turns, evenly spaced.
fn due(nth: u32, client: usize, clients: usize, rate: f64) -> Duration {
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let place = f64::from(nth) * clients as f64 + client as f64;
    Duration::from_secs_f64(place / rate)
}

async fn drive(
    mut session: Session,
    workload: Workload,
    schedule: Schedule,
) -> Result<Histogram<u64>> {
    let mut latencies_ns = Sample::histogram();
    for (nth, number) in (0..).zip(Numbers::new(workload.operation, workload.items)) {
        let Some(due) = schedule.due(nth).await else { break };
        session.call(workload.operation, number).await?;
        let took = schedule.watch.elapsed().saturating_sub(due);
        latencies_ns.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX))?;
    }
    Ok(latencies_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_an_open_loop_are_due_in_even_steps() {
        let of = |nth, client| due(nth, client, 4, 1000.0).as_micros();
        assert_eq!(
            [of(0, 0), of(0, 1), of(0, 3), of(1, 0), of(2, 2)],
            [0, 1000, 3000, 4000, 10000]
        );
    }

    #[test]
    fn a_late_operation_counts_from_when_it_was_due() {
        runtime().unwrap().block_on(async {
            let pace = Pace::Open { time: Duration::from_secs(1), rate: 1000.0 };
            let watch = Stopwatch::start();
            let schedule = Schedule { pace, clients: 1, client: 0, watch };
            // A stall of twenty milliseconds delays all that was due within it.
            std::thread::sleep(Duration::from_millis(20));
            let due = schedule.due(1).await.unwrap();
            assert_eq!(due, Duration::from_millis(1));
            assert!(watch.elapsed() >= due + Duration::from_millis(19));
            assert!(schedule.due(1000).await.is_none(), "the time is over");
        });
    }
}
