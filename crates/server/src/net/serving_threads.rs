//! The threads that serve connections, without work stealing: a connection stays with its thread until
//! it ends, so that its memory stays in one core's cache and no thread wakes another. With two cores and
//! 32 clients that is worth a third of the point reads. Long work runs on other threads (`execute`).

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// How long a thread may take to end: one that runs a request may never end.
const END_TIME: Duration = Duration::from_secs(1);

thread_local! {
    /// The number of connections of this thread, if it is a serving thread.
    static OWN_CONNECTIONS: OnceCell<Arc<AtomicUsize>> = const { OnceCell::new() };
}

/// Whether the calling thread serves one connection and no other, so that a request which waits for the
/// disk holds nobody up. A new connection goes to a thread with more to spare, if there is one.
pub(crate) fn has_one_connection() -> bool {
    OWN_CONNECTIONS.with(|connections| {
        connections.get().is_some_and(|number| number.load(Ordering::Relaxed) == 1)
    })
}

/// All serving threads. Dropping them ends the connections that they serve.
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
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

/// Counts a connection on its thread until dropped.
#[derive(Debug)]
pub(crate) struct LoadGuard(Arc<AtomicUsize>);

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ServingThreads {
    /// Starts one thread per core.
    pub(crate) fn start() -> io::Result<Self> {
        Self::start_some(std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn start_some(count: usize) -> io::Result<Self> {
        let threads = (0..count).map(|_| ServingThread::start());
        Ok(Self { threads: threads.collect::<io::Result<_>>()? })
    }

    /// The thread with the fewest connections.
    pub(crate) fn least_loaded(&self) -> (&Handle, LoadGuard) {
        let connections = |thread: &&ServingThread| thread.connections.load(Ordering::Relaxed);
        let thread = self.threads.iter().min_by_key(connections).expect("there is one at least");
        thread.connections.fetch_add(1, Ordering::Relaxed);
        (&thread.handle, LoadGuard(thread.connections.clone()))
    }
}

impl Drop for ServingThreads {
    fn drop(&mut self) {
        for thread in &mut self.threads {
            thread.running.take();
        }
        for thread in &self.threads {
            if thread.ended.recv_timeout(END_TIME) == Err(RecvTimeoutError::Timeout) {
                tracing::warn!("a serving thread did not end in time: it still runs a request");
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
        let connections = Arc::new(AtomicUsize::new(0));
        let own = connections.clone();
        let serve = move || {
            OWN_CONNECTIONS.with(|connections| drop(connections.set(own)));
            let _ = runtime.block_on(stopped);
            drop(runtime);
            drop::<mpsc::Sender<()>>(ending);
        };
        std::thread::Builder::new().name("orrery-serving".into()).spawn(serve)?;
        Ok(Self { handle, connections, running: Some(running), ended })
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
        let mut guards: Vec<LoadGuard> = (0..6).map(|_| threads.least_loaded().1).collect();
        assert_eq!(load(&threads), [2, 2, 2]);
        drop(guards.drain(1..2));
        assert_eq!(load(&threads), [2, 1, 2]);
        guards.push(threads.least_loaded().1);
        assert_eq!(load(&threads), [2, 2, 2]);
        drop(guards);
        assert_eq!(load(&threads), [0, 0, 0]);
    }

    #[test]
    fn a_thread_knows_whether_it_serves_one_connection() {
        let threads = ServingThreads::start_some(1).expect("threads");
        let ask = || {
            let (tell, told) = std::sync::mpsc::channel();
            threads.threads[0].handle.spawn(async move { tell.send(has_one_connection()) });
            told.recv().expect("an answer")
        };
        assert!(!ask() && !has_one_connection());
        let first = threads.least_loaded().1;
        assert!(ask());
        let second = threads.least_loaded().1;
        assert!(!ask());
        drop(first);
        assert!(ask());
        drop(second);
        assert!(!ask());
    }

    #[test]
    fn a_connection_is_served_by_its_thread_alone_until_the_end() {
        let threads = ServingThreads::start_some(2).expect("threads");
        let (tell, told) = std::sync::mpsc::channel();
        let mut guards = Vec::new();
        for _ in 0..2 {
            let (tell, (thread, load)) = (tell.clone(), threads.least_loaded());
            guards.push(load);
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
