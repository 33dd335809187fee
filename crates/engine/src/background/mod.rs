//! Background work: what a change of a container leaves behind, the sweep of expired items, and what
//! models ask for. It is done in *rounds*: each unit that is due has a bounded turn, so that no unit
//! waits for the end of another's work, and none for another's failure (`units`).

pub mod erasure;
pub(crate) mod expiry_sweep;
mod index_build;
pub(crate) mod model_expiry;
mod ttl_backfill;
pub(crate) mod units;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use orrery_types::{Epoch, Error, Result, ShardId};

use crate::background::units::{Failure, UnitKey, Work};
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

/// Adds a container; what is there of it under an earlier definition goes.
fn add(queue: &Queue, container: Arc<Container>) {
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    queue.retain(|other| other.rid() != container.rid());
    queue.push(container);
}

fn take(queue: &Queue) -> Vec<Arc<Container>> {
    std::mem::take(&mut *queue.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What a turn at a unit came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Done,
    /// There is more to do; others come first.
    Unfinished,
}

/// Commits of one turn.
pub(crate) const TURN_BATCHES: usize = 32;

/// How far a unit is that goes over ranges of keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    /// The layout that it goes over: under another one it starts over.
    layout: Vec<(ShardId, Epoch)>,
    /// The number of the range, and the last key of it.
    pub(crate) range: usize,
    pub(crate) last: Option<Vec<u8>>,
    /// Why something on the way was left.
    pub(crate) left: Option<Failure>,
}

impl Cursor {
    /// Goes to the next range.
    pub(crate) fn next_range(&mut self) {
        self.range += 1;
        self.last = None;
    }
}

/// One run of the background thread: turns for all units until they are done.
pub(crate) struct Run<'s> {
    pub(crate) stop: &'s dyn Fn() -> bool,
    /// Expired items that were removed.
    pub(crate) removed: usize,
    /// Units that have failed in this run: one attempt is enough.
    failed: BTreeSet<UnitKey>,
    cursors: BTreeMap<UnitKey, Cursor>,
    /// Whether a unit got on and has more to do.
    pub(crate) unfinished: bool,
    error: Option<Error>,
}

impl<'s> Run<'s> {
    pub(crate) fn new(stop: &'s dyn Fn() -> bool) -> Self {
        Self {
            stop,
            removed: 0,
            failed: BTreeSet::new(),
            cursors: BTreeMap::new(),
            unfinished: false,
            error: None,
        }
    }

    /// How far a unit is in this run, over the layout of its container.
    pub(crate) fn cursor(&mut self, key: &UnitKey, container: &Container) -> &mut Cursor {
        let cursor = self.cursors.entry(key.clone()).or_default();
        let layout = container.shards();
        if cursor.layout != layout {
            *cursor = Cursor { layout, ..Cursor::default() };
        }
        cursor
    }

    /// The first failure of the run that was one.
    pub(crate) fn result<T>(self, value: T) -> Result<T> {
        self.error.map_or(Ok(value), Err)
    }
}

impl Engine {
    /// Gives a unit a turn, if it is due, and notes what came of it; `None` if it was not, or failed.
    /// `version` is that of what it works on.
    pub(crate) fn run_unit(
        &self,
        run: &mut Run<'_>,
        key: &UnitKey,
        version: u64,
        work: &mut dyn FnMut(&mut Run<'_>) -> std::result::Result<Turn, Failure>,
    ) -> Option<Turn> {
        let is_due = self.units.is_due(key, version, self.clock.now_us());
        if !is_due || run.failed.contains(key) {
            return None;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| work(run)));
        let panicked = |_| Err(Error::internal("it panicked; the log says where").into());
        match outcome.unwrap_or_else(panicked) {
            Ok(turn) => {
                run.unfinished |= turn == Turn::Unfinished;
                if turn == Turn::Done {
                    self.units.succeeded(key);
                    run.cursors.remove(key);
                }
                Some(turn)
            }
            Err(failure) => {
                self.unit_failed(key, version, &failure);
                run.failed.insert(key.clone());
                run.cursors.remove(key);
                // A layout that changed meanwhile is no failure: the next run finds the new one. Nor
                // is an item that a model protects.
                if !matches!(failure.error, Error::PartitionGone | Error::StillReferenced(_)) {
                    run.error.get_or_insert(failure.error);
                }
                None
            }
        }
    }

    /// Does all work that is due now, what follows from writes included; returns how many expired
    /// items it removed, or the first failure. One unit's failure keeps no other from its turn.
    pub fn run_tasks(&self, stop: &dyn Fn() -> bool) -> Result<usize> {
        let maintained = self.maintain(stop);
        self.propagate(stop)?;
        maintained
    }

    /// The same without what follows from writes, which has a thread of its own.
    fn maintain(&self, stop: &dyn Fn() -> bool) -> Result<usize> {
        let is_of_pass = |work: Work| work != Work::ModelEffects;
        self.units.begin_pass(is_of_pass);
        let mut run = Run::new(stop);
        loop {
            run.unfinished = false;
            self.run_queue(&self.tasks.retime, Work::ExpiryEntries, &mut run, Self::retime);
            self.run_queue(
                &self.tasks.rebase_history,
                Work::History,
                &mut run,
                Self::rebase_history,
            );
            self.run_erasures(&mut run);
            self.run_queue(
                &self.tasks.reindex,
                Work::Index,
                &mut run,
                |engine, container, run, _| engine.reindex(container, run.stop),
            );
            self.sweep(&mut run);
            self.trim_histories(&mut run);
            self.drop_retired(&mut run);
            self.build_models(&mut run);
            if !run.unfinished || stop() {
                break;
            }
        }
        if !stop() {
            self.units.end_pass(is_of_pass);
        }
        let removed = run.removed;
        run.result(removed)
    }

    /// A turn for every container of a queue; those that are not done stay in it.
    fn run_queue(
        &self,
        queue: &Queue,
        work: Work,
        run: &mut Run<'_>,
        turn: fn(&Self, &Container, &mut Run<'_>, &UnitKey) -> Result<Turn>,
    ) {
        for container in take(queue) {
            let key = UnitKey::of(&container, work, b"queued");
            let epoch = container.partitions.first().map_or(0, |partition| partition.epoch.0);
            let done =
                self.run_unit(run, &key, epoch, &mut |run| Ok(turn(self, &container, run, &key)?));
            if done != Some(Turn::Done) {
                let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                if !queue.iter().any(|newer| newer.rid() == container.rid()) {
                    queue.push(container);
                }
            }
        }
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
                // Each unit's failure was logged.
                drop(engine.propagate(&stopping));
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
                // Each unit's failure was logged.
                drop(engine.maintain(&stopping));
                let stopped = signal.0.lock().unwrap_or_else(PoisonError::into_inner);
                // Woken early or late makes no difference: the loop asks again.
                drop(signal.1.wait_timeout_while(stopped, PAUSE, |stopped| !*stopped));
            }
        })
    }
}

/// Runs automatic splits until it is stopped.
fn split_when_due(engine: &Engine) {
    let monitor = &engine.layout_changes.monitor;
    while !monitor.is_stopped() {
        if let Err(error) = engine.run_splits(&|| monitor.is_stopped()) {
            tracing::warn!(%error, "automatic split failed; it is retried");
        }
        monitor.wait();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        self.engine.layout_changes.monitor.stop();
        self.engine.models.wake();
        self.engine.verifications.stop();
        for thread in self.threads.drain(..) {
            // A panic in there was reported where it happened.
            drop(thread.join());
        }
    }
}
