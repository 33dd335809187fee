//! The threads that serve connections. Each keeps the connections that it was given until they end: what
//! a connection has in memory stays with one core, and no thread wakes another or waits for it, as
//! threads do that take over each other's work. With two cores and 32 clients that is worth a third
//! of the point reads. What may take long is done by other threads anyway (`execute`).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// How long the end of a thread is waited for: one that is in the middle of something may never come.
const END_TIME: Duration = Duration::from_secs(1);

/// All of them. Dropping them ends what they serve.
#[derive(Debug)]
pub(crate) struct ServingThreads {
    threads: Vec<ServingThread>,
}

#[derive(Debug)]
struct ServingThread {
    handle: Handle,
    connections: Arc<AtomicUsize>,
    /// Dropped to end the thread.
    running: Option<oneshot::Sender<()>>,
    /// Hears when it has ended.
    ended: Receiver<()>,
}

/// A connection's place on a thread.
#[derive(Debug)]
pub(crate) struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ServingThreads {
    /// As many as there are cores.
    pub(crate) fn start() -> io::Result<Self> {
        Self::start_some(std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn start_some(count: usize) -> io::Result<Self> {
        let threads = (0..count).map(|_| ServingThread::start());
        Ok(Self { threads: threads.collect::<io::Result<_>>()? })
    }

    /// A place on the thread that has the fewest connections.
    pub(crate) fn seat(&self) -> (&Handle, Seat) {
        let connections = |thread: &&ServingThread| thread.connections.load(Ordering::Relaxed);
        let thread = self.threads.iter().min_by_key(connections).expect("there is one at least");
        thread.connections.fetch_add(1, Ordering::Relaxed);
        (&thread.handle, Seat(thread.connections.clone()))
    }
}

impl Drop for ServingThreads {
    fn drop(&mut self) {
        for thread in &mut self.threads {
            thread.running.take();
        }
        for thread in &self.threads {
            if thread.ended.recv_timeout(END_TIME) == Err(RecvTimeoutError::Timeout) {
                tracing::warn!("a thread is busy with a request and is left behind");
            }
        }
    }
}

impl ServingThread {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, stopped) = oneshot::channel();
        let (ending, ended) = mpsc::channel();
        let serve = move || {
            let _ = runtime.block_on(stopped);
            drop(runtime);
            drop::<mpsc::Sender<()>>(ending);
        };
        std::thread::Builder::new().name("orrery-serving".into()).spawn(serve)?;
        Ok(Self { handle, connections: Arc::default(), running: Some(running), ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(threads: &ServingThreads) -> Vec<usize> {
        threads.threads.iter().map(|t| t.connections.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn connections_go_where_the_fewest_are() {
        let threads = ServingThreads::start_some(3).expect("threads");
        let mut seats: Vec<Seat> = (0..6).map(|_| threads.seat().1).collect();
        assert_eq!(load(&threads), [2, 2, 2]);
        drop(seats.drain(1..2));
        assert_eq!(load(&threads), [2, 1, 2]);
        seats.push(threads.seat().1);
        assert_eq!(load(&threads), [2, 2, 2]);
        drop(seats);
        assert_eq!(load(&threads), [0, 0, 0]);
    }

    #[test]
    fn a_connection_is_served_by_its_thread_alone_until_the_end() {
        let threads = ServingThreads::start_some(2).expect("threads");
        let (tell, told) = std::sync::mpsc::channel();
        let mut seats = Vec::new();
        for _ in 0..2 {
            let (tell, (thread, seat)) = (tell.clone(), threads.seat());
            seats.push(seat);
            thread.spawn(async move {
                for _ in 0..10 {
                    tell.send(std::thread::current().id()).expect("somebody listens");
                    tokio::task::yield_now().await;
                }
                std::future::pending::<()>().await;
            });
        }
        drop(tell);
        let ids: Vec<_> = (0..20).map(|_| told.recv().expect("twenty")).collect();
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), 2);
        drop(threads);
        assert!(told.recv().is_err(), "tasks end with their threads");
    }
}
