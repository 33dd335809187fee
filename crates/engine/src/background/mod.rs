//! Background work: backfills after a change of a container, the expiry sweep, erasures, and deferred effects
//! of models. It runs in rounds: each unit that is due does a bounded step, so that no unit waits until
//! another is finished, and none is affected by another's failure (`units`).

pub mod erasure;
pub(crate) mod expiry_sweep;
pub mod index_build;
pub(crate) mod model_expiry;
pub(crate) mod ttl_backfill;
pub(crate) mod units;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use orrery_storage::key::Job;
use orrery_types::{Epoch, Error, Result, ShardId, limits};

use crate::background::units::{UnitFailure, UnitKey, UnitKind};
use crate::{Container, Engine};

pub use units::FailingUnits;

/// Backfills that wait for the background thread.
#[derive(Default)]
pub(crate) struct Tasks {
    ttl_backfill: Queue,
    rebase_history: Queue,
    reindex: Queue,
    /// On a shared store: the layouts and epochs of the containers for which it was queued what they ask for.
    asked_for: Mutex<BTreeMap<Job, Vec<(ShardId, Epoch)>>>,
}

type Queue = Mutex<Vec<Arc<Container>>>;

impl Tasks {
    /// Rewrites expiry entries after a change of the default time to live.
    pub(crate) fn backfill_ttl(&self, container: Arc<Container>) {
        add(&self.ttl_backfill, container);
    }

    pub(crate) fn rebase_history(&self, container: Arc<Container>) {
        add(&self.rebase_history, container);
    }

    /// Queues what the definition of a container asks for, also if another node has changed it.
    pub(crate) fn queue_asked_for(&self, container: &Arc<Container>) {
        if container.ttl_backfill_pending {
            self.backfill_ttl(container.clone());
        }
        if !container.index.is_complete() {
            self.reindex(container.clone());
        }
        if container.definition.versions_kept_s().is_none() {
            // A history that is no longer wanted.
            self.rebase_history(container.clone());
        }
    }

    /// Rebuilds index terms after a change of the indexing policy.
    pub(crate) fn reindex(&self, container: Arc<Container>) {
        add(&self.reindex, container);
    }
}

/// Adds a container, in place of its earlier definition.
fn add(queue: &Queue, container: Arc<Container>) {
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    queue.retain(|other| other.rid() != container.rid());
    queue.push(container);
}

fn take(queue: &Queue) -> Vec<Arc<Container>> {
    std::mem::take(&mut *queue.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The result of one step of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitProgress {
    Done,
    /// There is more to do in the next round.
    Unfinished,
}

/// Commits of one step.
pub(crate) const BATCHES_PER_STEP: usize = 32;

/// Position of a unit that scans key ranges.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnitCursor {
    /// The layout that it scans; under another layout it starts over.
    layout: Vec<(ShardId, Epoch)>,
    /// The number of the range, and the last key of it.
    pub(crate) range: usize,
    pub(crate) last: Option<Vec<u8>>,
    /// Why an entry was skipped.
    pub(crate) left: Option<UnitFailure>,
}

impl UnitCursor {
    /// Goes to the next range.
    pub(crate) fn next_range(&mut self) {
        self.range += 1;
        self.last = None;
    }
}

/// One pass of the background thread: rounds of steps until all units are done.
pub(crate) struct BackgroundPass<'s> {
    pub(crate) stop: &'s dyn Fn() -> bool,
    /// Expired items that were removed.
    pub(crate) removed: usize,
    /// Whether a request waits for it. A request does its own part without the lease.
    is_of_request: bool,
    /// Units that failed in this pass, which are not tried again in it.
    failed: BTreeSet<UnitKey>,
    cursors: BTreeMap<UnitKey, UnitCursor>,
    /// Whether a unit has more to do.
    pub(crate) unfinished: bool,
    error: Option<Error>,
}

impl<'s> BackgroundPass<'s> {
    pub(crate) fn new(stop: &'s dyn Fn() -> bool) -> Self {
        Self {
            stop,
            removed: 0,
            is_of_request: false,
            failed: BTreeSet::new(),
            cursors: BTreeMap::new(),
            unfinished: false,
            error: None,
        }
    }

    /// One of a request: it does a part of the work itself, without the lease. What two nodes do at once
    /// is protected by the preconditions of the work.
    pub(crate) fn of_request() -> BackgroundPass<'static> {
        BackgroundPass { is_of_request: true, ..BackgroundPass::new(&|| false) }
    }

    /// The position of a unit in this pass.
    pub(crate) fn cursor(&mut self, key: &UnitKey, container: &Container) -> &mut UnitCursor {
        let cursor = self.cursors.entry(key.clone()).or_default();
        let layout = container.shards();
        if cursor.layout != layout {
            *cursor = UnitCursor { layout, ..UnitCursor::default() };
        }
        cursor
    }

    /// The value, or the first failure of the pass.
    pub(crate) fn result<T>(self, value: T) -> Result<T> {
        self.error.map_or(Ok(value), Err)
    }
}

/// Work beside requests, unit by unit.
#[derive(Clone, Copy)]
pub struct BackgroundWork<'e> {
    pub(crate) engine: &'e Engine,
}

impl BackgroundWork<'_> {
    /// Runs a step of a unit if it is due and this node holds its lease, and records the outcome; `None` if it was
    /// not run or failed.
    /// `version` identifies the state that it works on.
    pub(crate) fn run_unit(
        self,
        run: &mut BackgroundPass<'_>,
        key: &UnitKey,
        version: u64,
        work: &mut dyn FnMut(
            &mut BackgroundPass<'_>,
        ) -> std::result::Result<UnitProgress, UnitFailure>,
    ) -> Option<UnitProgress> {
        if !run.is_of_request && !self.engine.nodes.holds(key.job()) {
            return None;
        }
        let is_due = self.engine.units.is_due(key, version, self.engine.clock.now_us());
        if !is_due || run.failed.contains(key) {
            return None;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| work(run)));
        let panicked = |_| Err(Error::internal("it panicked; the log says where").into());
        match outcome.unwrap_or_else(panicked) {
            Ok(turn) => {
                match turn {
                    UnitProgress::Unfinished => {
                        run.unfinished = true;
                        self.engine.units.progressed(key);
                    }
                    UnitProgress::Done => {
                        self.engine.units.succeeded(key);
                        run.cursors.remove(key);
                    }
                }
                Some(turn)
            }
            Err(failure) => {
                if failure.error == Error::PartitionGone {
                    self.load_changed();
                }
                self.unit_failed(key, version, &failure);
                run.failed.insert(key.clone());
                run.cursors.remove(key);
                // A concurrent change of the layout is not a failure: the next pass reads the new one.
                // Neither is an item that a model protects.
                if !matches!(failure.error, Error::PartitionGone | Error::StillReferenced(_)) {
                    run.error.get_or_insert(failure.error);
                }
                None
            }
        }
    }

    /// Loads what other processes have changed.
    fn load_changed(self) {
        if let Err(error) = self.engine.erasure().load_all_changed() {
            tracing::warn!(%error, "what other processes have changed cannot be read");
        }
    }

    /// Does all work that is due, deferred effects of models and global secondary indexes included; returns the
    /// number of expired items that were removed, or the first failure. A failure of one unit does not
    /// affect the others.
    pub fn run_tasks(self, stop: &dyn Fn() -> bool) -> Result<usize> {
        let maintained = self.maintain(stop);
        let propagated = self.engine.deferred_effects().propagate(stop);
        let followed = self.engine.secondary_indexes().follow(stop);
        propagated.and(followed).and(maintained)
    }

    /// The same without deferred effects and indexes, which run on threads of their own.
    fn maintain(self, stop: &dyn Fn() -> bool) -> Result<usize> {
        let is_of_pass =
            |kind: UnitKind| kind != UnitKind::ModelEffects && !kind.is_of_secondary_indexes();
        self.load_changed();
        self.engine.nodes().before_pass();
        self.queue_what_is_asked_for();
        self.engine.units.begin_pass(is_of_pass);
        let mut run = BackgroundPass::new(stop);
        loop {
            run.unfinished = false;
            self.run_queue(
                &self.engine.tasks.ttl_backfill,
                UnitKind::ExpiryEntries,
                &mut run,
                |engine, container, run, unit| {
                    engine.ttl_backfill().backfill_ttl(container, run, unit)
                },
            );
            self.run_queue(
                &self.engine.tasks.rebase_history,
                UnitKind::History,
                &mut run,
                |engine, container, run, _| engine.change_feed().rebase_history(container, run),
            );
            self.engine.erasure().run_erasures(&mut run);
            self.run_queue(
                &self.engine.tasks.reindex,
                UnitKind::Index,
                &mut run,
                |engine, container, run, _| engine.index_build().reindex(container, run.stop),
            );
            self.engine.expiry_sweep().sweep(&mut run);
            self.engine.change_feed().trim_histories(&mut run);
            self.engine.layouts().drop_retired(&mut run);
            self.engine.transactions().remove_outcomes(&mut run);
            self.engine.model_builds().build_models(&mut run);
            if !run.unfinished || stop() {
                break;
            }
        }
        if !stop() {
            self.engine.units.end_pass(is_of_pass);
        }
        let removed = run.removed;
        run.result(removed)
    }

    /// Queues what containers ask for whose leases this node has got, or whose definition or layout has changed since
    /// it looked, perhaps on another node. On a store of this process a change queues it itself.
    fn queue_what_is_asked_for(self) {
        if !self.engine.store.is_shared() {
            return;
        }
        let (state, tasks) = (self.engine.catalog.state(), &self.engine.tasks);
        let mut asked_for = tasks.asked_for.lock().unwrap_or_else(PoisonError::into_inner);
        asked_for.retain(|job, _| self.engine.nodes.holds(*job));
        for container in state.containers().filter(|c| self.engine.nodes.holds(c.job())) {
            let layout = container.shards();
            if asked_for.get(&container.job()) != Some(&layout) {
                tasks.queue_asked_for(container);
                asked_for.insert(container.job(), layout);
            }
        }
    }

    /// A step for every container of a queue; those that are not done stay in it. What another node has the lease
    /// of is left to it.
    fn run_queue(
        self,
        queue: &Queue,
        kind: UnitKind,
        run: &mut BackgroundPass<'_>,
        turn: fn(&Engine, &Container, &mut BackgroundPass<'_>, &UnitKey) -> Result<UnitProgress>,
    ) {
        let held = |container: &Arc<Container>| self.engine.nodes.holds(container.job());
        for container in take(queue).into_iter().filter(held) {
            let key = UnitKey::of(&container, kind, b"queued");
            let epoch = container.partitions.first().map_or(0, |partition| partition.epoch.0);
            let done = self.run_unit(run, &key, epoch, &mut |run| {
                Ok(turn(self.engine, &container, run, &key)?)
            });
            if done != Some(UnitProgress::Done) {
                let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                if !queue.iter().any(|newer| newer.rid() == container.rid()) {
                    queue.push(container);
                }
            }
        }
    }
}

/// The background threads: one for backfills and sweeps, one for deferred effects of models, one for global
/// secondary indexes, and one for automatic splits. Dropping it ends them after their current step.
pub struct Background {
    engine: Arc<Engine>,
    stop: Arc<(Mutex<bool>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
}

/// Pause between two passes. Expired items are invisible at once; only their removal waits.
const PAUSE: Duration = Duration::from_secs(1);
/// Pause between two heartbeats.
const HEARTBEAT: Duration = Duration::from_millis(limits::NODE_HEARTBEAT_MS);
/// Pause between two looks at the sources of global secondary indexes.
const INDEX_PAUSE: Duration = Duration::from_millis(100);

impl Background {
    /// Starts the threads.
    pub fn start(engine: Arc<Engine>) -> std::io::Result<Self> {
        let splitting = engine.clone();
        let splits = std::thread::Builder::new().name("orrery-splits".into());
        let splits = splits.spawn(move || split_when_due(&splitting))?;
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let tasks = Self::start_tasks(engine.clone(), stop.clone())?;
        let propagation = Self::start_propagation(engine.clone(), stop.clone())?;
        let indexes = Self::start_indexes(engine.clone(), stop.clone())?;
        let mut threads = vec![tasks, propagation, indexes, splits];
        if engine.is_shared() {
            threads.push(Self::start_catalog_watch(engine.clone(), stop.clone())?);
            threads.push(Self::start_heartbeat(engine.clone(), stop.clone())?);
        }
        Ok(Self { engine, stop, threads })
    }

    /// Changes of the catalog by other processes are shown before requests ask for them.
    fn start_catalog_watch(
        engine: Arc<Engine>,
        signal: Arc<(Mutex<bool>, Condvar)>,
    ) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("orrery-catalog".into()).spawn(move || {
            engine.watch_catalog(&|| *signal.0.lock().unwrap_or_else(PoisonError::into_inner));
        })
    }

    /// The heartbeat of a node has one, so that no long step holds it up.
    fn start_heartbeat(
        engine: Arc<Engine>,
        signal: Arc<(Mutex<bool>, Condvar)>,
    ) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("orrery-node".into()).spawn(move || {
            let mut stopped = signal.0.lock().unwrap_or_else(PoisonError::into_inner);
            while !*stopped {
                drop(stopped);
                if let Err(error) = engine.nodes().beat() {
                    tracing::warn!(%error, "the heartbeat failed; it is retried");
                }
                stopped = signal.0.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = signal.1.wait_timeout_while(stopped, HEARTBEAT, |stopped| !*stopped);
                stopped = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        })
    }

    /// Deferred effects have a thread of their own, so that they do not wait for an index build.
    fn start_propagation(
        engine: Arc<Engine>,
        signal: Arc<(Mutex<bool>, Condvar)>,
    ) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("orrery-model".into()).spawn(move || {
            let stopping = || *signal.0.lock().unwrap_or_else(PoisonError::into_inner);
            while !stopping() {
                engine.model_locks.wait_for_wakeup(PAUSE);
                // Each unit's failure was logged.
                drop(engine.deferred_effects().propagate(&stopping));
            }
        })
    }

    /// Global secondary indexes look for changes of their sources all the time, so they have one too.
    fn start_indexes(
        engine: Arc<Engine>,
        signal: Arc<(Mutex<bool>, Condvar)>,
    ) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("orrery-indexes".into()).spawn(move || {
            let stopping = || *signal.0.lock().unwrap_or_else(PoisonError::into_inner);
            // A look costs little where the store is in this process.
            let pause = if engine.reads_inline() { INDEX_PAUSE } else { PAUSE };
            while !stopping() {
                let is_idle = !engine.secondary_indexes().are_there();
                engine.index_worker.wait(if is_idle { PAUSE } else { pause });
                // Each unit's failure was logged.
                drop(engine.secondary_indexes().follow(&stopping));
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
                drop(engine.background().maintain(&stopping));
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
        if let Err(error) = engine.layouts().run_splits(&|| monitor.is_stopped()) {
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
        self.engine.model_locks.wake();
        self.engine.index_worker.wake();
        self.engine.verifications.stop();
        for thread in self.threads.drain(..) {
            // A panic in there was reported where it happened.
            drop(thread.join());
        }
        if let Err(error) = self.engine.nodes().leave() {
            tracing::warn!(%error, "the leases of this node are free when its heartbeat is over");
        }
    }
}
