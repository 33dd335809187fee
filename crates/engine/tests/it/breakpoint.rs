//! Stops a thread right after a chosen read, so that a test puts another operation between what the
//! thread has read and what it does with it.
//!
//! ```text
//! test thread          worker thread
//! arm(predicate)
//!                      reads the key, stops
//! wait_reached()
//! the other operation
//! release()
//!                      goes on
//! ```

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use orrery_storage::{Commit, Part, Put, Space, Store};
use orrery_types::{Epoch, ShardId};

use crate::interposed::{Interposed, Read};
use crate::stores::new_store;

type Predicate = Box<dyn Fn(&Read<'_>) -> bool + Send>;

/// A test that waits longer than this has stopped for good.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
enum State {
    #[default]
    Off,
    Armed(Predicate),
    Reached,
    Released,
}

/// Stops the first thread whose read matches, once for each time it is armed.
#[derive(Default)]
pub(crate) struct Breakpoint {
    state: Mutex<State>,
    changed: Condvar,
}

impl Breakpoint {
    /// A store over `inner` whose reads stop here, and the breakpoint, which is not armed yet.
    pub(crate) fn over(inner: &Arc<dyn Store>) -> (Arc<dyn Store>, Arc<Self>) {
        let breakpoint = Arc::new(Self::default());
        let hooked = breakpoint.clone();
        let hook = Box::new(move |read: Read<'_>| hooked.after(&read));
        (Arc::new(Interposed::reads(inner.clone(), hook)), breakpoint)
    }

    /// From now on, the next read that matches stops its thread.
    pub(crate) fn arm(&self, matches: impl Fn(&Read<'_>) -> bool + Send + 'static) {
        *self.state.lock().expect("no panic under the lock") = State::Armed(Box::new(matches));
    }

    /// Returns when a thread has stopped.
    pub(crate) fn wait_reached(&self) {
        self.wait("no read matched", |state| matches!(state, State::Reached));
    }

    /// Lets the stopped thread go on.
    pub(crate) fn release(&self) {
        *self.state.lock().expect("no panic under the lock") = State::Released;
        self.changed.notify_all();
    }

    fn after(&self, read: &Read<'_>) {
        let mut state = self.state.lock().expect("no panic under the lock");
        let State::Armed(matches) = &*state else { return };
        if matches(read) {
            *state = State::Reached;
            drop(state);
            self.changed.notify_all();
            self.wait("never released", |state| !matches!(state, State::Reached));
        }
    }

    fn wait(&self, complaint: &str, done: impl Fn(&State) -> bool) {
        let state = self.state.lock().expect("no panic under the lock");
        let (_state, waited) = self
            .changed
            .wait_timeout_while(state, PATIENCE, |state| !done(state))
            .expect("no panic under the lock");
        assert!(!waited.timed_out(), "{complaint}");
    }
}

#[test]
fn a_write_fits_between_a_read_and_its_reader() {
    let inner = new_store();
    let (shard, epoch) = (ShardId(1), Epoch(1));
    inner.create_open_shard(shard, epoch).expect("a new shard");
    let (store, breakpoint) = Breakpoint::over(&inner);
    breakpoint.arm(|read| matches!(read, Read::Key { key, .. } if *key == b"k"));
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| store.get(shard, Space::Meta, b"k").expect("it reads").1);
        breakpoint.wait_reached();
        let mut part = Part::new(shard, epoch);
        part.puts.push(Put { space: Space::Meta, key: b"k".to_vec(), value: b"v".to_vec() });
        store.commit(Commit::new(vec![part])).expect("it commits");
        breakpoint.release();
        assert_eq!(reader.join().expect("no panic"), None, "read before the commit");
    });
    assert!(store.get(shard, Space::Meta, b"k").expect("it reads").1.is_some());
}
