//! Background work: what a change of a container leaves behind, and the sweep of expired items.
//! One thread does it, a little every second; nothing depends on how soon.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use orrery_types::{Error, Result};

use crate::reindex::Turn;
use crate::{Container, Engine};

/// Work that waits for the background thread.
#[derive(Default)]
pub(crate) struct Tasks {
    retime: Queue,
    rebase_history: Queue,
    reindex: Queue,
}

type Queue = Mutex<Vec<Arc<Container>>>;

impl Tasks {
    /// Expiry entries are to follow a new default time to live.
    pub(crate) fn retime(&self, container: Arc<Container>) {
        add(&self.retime, container);
    }

    pub(crate) fn rebase_history(&self, container: Arc<Container>) {
        add(&self.rebase_history, container);
    }

    /// Index terms are to follow a new policy.
    pub(crate) fn reindex(&self, container: Arc<Container>) {
        add(&self.reindex, container);
    }
}

fn add(queue: &Queue, container: Arc<Container>) {
    queue.lock().unwrap_or_else(PoisonError::into_inner).push(container);
}

/// A layout that changed meanwhile is no failure: the work finds the new one in the next round.
fn failure(error: Error) -> Option<Error> {
    (error != Error::PartitionGone).then_some(error)
}

fn take(queue: &Queue) -> Vec<Arc<Container>> {
    std::mem::take(&mut *queue.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Engine {
    /// Does all work that waits now; returns how many expired items it removed. One container's
    /// failure, which is tried again the next time, keeps no other from its turn.
    pub fn run_tasks(&self, stop: &dyn Fn() -> bool) -> Result<usize> {
        let mut failed = None;
        for container in take(&self.tasks.retime) {
            if let Err(error) = self.retime(&container) {
                self.tasks.retime(container);
                failed = failed.or(failure(error));
            }
        }
        for container in take(&self.tasks.rebase_history) {
            if let Err(error) = self.rebase_history(&container, stop) {
                self.tasks.rebase_history(container);
                failed = failed.or(failure(error));
            }
        }
        self.run_erasures(stop)?;
        let mut removed = 0;
        // A large index takes many turns, between which expired items are removed.
        loop {
            let unfinished = self.reindex_turns(stop, &mut failed);
            removed += self.sweep(stop)?;
            if !unfinished || failed.is_some() || stop() {
                break;
            }
        }
        self.trim_histories(stop)?;
        self.drop_retired()?;
        self.build_models(stop, None)?;
        self.propagate(stop)?;
        failed.map_or(Ok(removed), Err)
    }

    /// A turn for every container whose index is to be built; whether one needs more.
    fn reindex_turns(&self, stop: &dyn Fn() -> bool, failed: &mut Option<Error>) -> bool {
        let mut unfinished = false;
        for container in take(&self.tasks.reindex) {
            match self.reindex(&container, stop) {
                Ok(Turn::Done) => continue,
                Ok(Turn::Unfinished) => unfinished = true,
                // The policy has changed again; the next round takes it up.
                Err(Error::PartitionGone) => {}
                Err(error) => *failed = Some(error),
            }
            self.tasks.reindex(container);
        }
        unfinished
    }
}

/// The background threads: one for everything, one for what follows from writes, and one for splits,
/// which take long. Dropping it ends them between two pieces of work.
pub struct Background {
    engine: Arc<Engine>,
    stop: Arc<(Mutex<bool>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
}

/// Pause between two rounds. Hiding does not wait for it, only the space does.
const PAUSE: Duration = Duration::from_secs(1);

impl Background {
    /// Starts the threads.
    pub fn start(engine: Arc<Engine>) -> std::io::Result<Self> {
        let splitting = engine.clone();
        let splits = std::thread::Builder::new().name("orrery-splits".into());
        let splits = splits.spawn(move || split_when_due(&splitting))?;
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let tasks = Self::start_tasks(engine.clone(), stop.clone())?;
        let propagation = Self::start_propagation(engine.clone(), stop.clone())?;
        Ok(Self { engine, stop, threads: vec![tasks, propagation, splits] })
    }

    /// What follows from writes later has a thread of its own: it should not wait for an index.
    fn start_propagation(
        engine: Arc<Engine>,
        signal: Arc<(Mutex<bool>, Condvar)>,
    ) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("orrery-model".into()).spawn(move || {
            let stopping = || *signal.0.lock().unwrap_or_else(PoisonError::into_inner);
            while !stopping() {
                engine.models.wait_for_news(PAUSE);
                if let Err(error) = engine.propagate(&stopping) {
                    tracing::warn!(%error, "what follows from writes failed; it is tried again");
                }
            }
        })
    }

    fn start_tasks(
        engine: Arc<Engine>,
        signal: Arc<(Mutex<bool>, Condvar)>,
    ) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("orrery-tasks".into()).spawn(move || {
            let stopping = || *signal.0.lock().unwrap_or_else(PoisonError::into_inner);
            while !stopping() {
                if let Err(error) = engine.run_tasks(&stopping) {
                    tracing::warn!(%error, "background work failed; it is tried again");
                }
                let stopped = signal.0.lock().unwrap_or_else(PoisonError::into_inner);
                // Woken early or late makes no difference: the loop asks again.
                drop(signal.1.wait_timeout_while(stopped, PAUSE, |stopped| !*stopped));
            }
        })
    }
}

/// Splits partitions when they are due, until it is told to stop.
fn split_when_due(engine: &Engine) {
    let watch = &engine.reshapes.watch;
    while !watch.is_stopped() {
        if let Err(error) = engine.run_splits(&|| watch.is_stopped()) {
            tracing::warn!(%error, "a partition is not split; it is tried again");
        }
        watch.wait();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        self.engine.reshapes.watch.stop();
        self.engine.models.wake();
        self.engine.verifications.stop();
        for thread in self.threads.drain(..) {
            // A panic in there was reported where it happened.
            drop(thread.join());
        }
    }
}
