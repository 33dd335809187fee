//! Stops one commit of a chosen thread: right before it, so that a test puts another operation between what a
//! writer has read and its commit, or right after it was applied, and then its answer is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use orrery_storage::{StorageError, Store};

use crate::interposed::{Interposed, Step};

/// A test that waits longer than this has stopped for good.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(crate) struct CommitStop {
    /// The thread, and how many of its commits go on before the one that stops.
    thread: Mutex<Option<(ThreadId, usize)>>,
    reached: Mutex<bool>,
    changed: Condvar,
    released: AtomicBool,
}

impl CommitStop {
    /// A store over `inner` whose commits can be stopped before they begin.
    pub(crate) fn over(inner: &Arc<dyn Store>) -> (Arc<dyn Store>, Arc<Self>) {
        let stop = Arc::new(Self::default());
        let hooked = stop.clone();
        let hook = Box::new(move |step: Step| {
            if step == Step::Commit {
                hooked.hold();
            }
            Ok(())
        });
        (Arc::new(Interposed::writes(inner.clone(), hook)), stop)
    }

    /// A store over `inner` whose commits can be stopped when they are applied. The answer to one that was
    /// stopped is lost.
    pub(crate) fn losing_answers(inner: &Arc<dyn Store>) -> (Arc<dyn Store>, Arc<Self>) {
        let stop = Arc::new(Self::default());
        let hooked = stop.clone();
        let hook = Box::new(move |step: Step| {
            if step == Step::Commit && hooked.hold() {
                return Err(StorageError::Unavailable("the test has cut it off".into()));
            }
            Ok(())
        });
        (Arc::new(Interposed::answers(inner.clone(), hook)), stop)
    }

    /// Holds the thread up if it is the chosen one, once.
    fn hold(&self) -> bool {
        let me = std::thread::current().id();
        let is_next = |(thread, before): &mut (ThreadId, usize)| {
            let is_next = *thread == me && *before == 0;
            *before -= usize::from(*thread == me && *before > 0);
            is_next
        };
        if self.thread.lock().expect("sound").take_if(is_next).is_none() {
            return false;
        }
        *self.reached.lock().expect("sound") = true;
        self.changed.notify_all();
        let reached = self.reached.lock().expect("sound");
        let held = |_: &mut bool| !self.released.load(Ordering::SeqCst);
        drop(self.changed.wait_timeout_while(reached, PATIENCE, held).expect("sound"));
        true
    }

    /// The next commit of this thread stops.
    pub(crate) fn stop_me(&self) {
        self.stop_me_after(0);
    }

    /// The commit of this thread stops that comes after so many others.
    pub(crate) fn stop_me_after(&self, commits: usize) {
        *self.thread.lock().expect("sound") = Some((std::thread::current().id(), commits));
    }

    /// Whether it has stopped.
    pub(crate) fn is_reached(&self) -> bool {
        *self.reached.lock().expect("sound")
    }

    pub(crate) fn wait_reached(&self) {
        let reached = self.reached.lock().expect("sound");
        let waited = self.changed.wait_timeout_while(reached, PATIENCE, |reached| !*reached);
        assert!(!waited.expect("sound").1.timed_out(), "no commit came");
    }

    pub(crate) fn release(&self) {
        self.released.store(true, Ordering::SeqCst);
        let _reached = self.reached.lock().expect("sound");
        self.changed.notify_all();
    }
}

/// Gives other threads time to go on as far as they can, without knowing how far that is.
pub(crate) fn let_others_run(done: impl Fn() -> bool) {
    for _ in 0..200_000 {
        if done() {
            return;
        }
        std::thread::yield_now();
    }
}
