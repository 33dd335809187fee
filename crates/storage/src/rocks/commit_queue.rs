//! The queue of group commit. While the committer syncs one group, the next one collects here. Before
//! it takes that group it waits for a short *group-commit window*: the writers it has just answered
//! are about to send their next commits, and a group of all of them costs the same sync as a group of
//! the fastest few.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orrery_types::{Epoch, Lsn, ShardId};

use crate::{Commit, StorageError};
use orrery_types::limits::COMMIT_BYTES_MAX;

/// A unit of work for the committer.
#[derive(Debug)]
pub(super) enum Work {
    Commit(Commit),
    Create(ShardId, Epoch),
    Fence(ShardId, Epoch),
    Drop(ShardId),
    Freeze(ShardId, bool),
    /// The shard is at this LSN from now on.
    Advance(ShardId, Lsn),
    /// A bulk load is on disk; the shard is at this LSN.
    Loaded(ShardId, Lsn),
}

pub(super) type Answer = Result<Vec<Lsn>, StorageError>;

/// Receives the answer; called on the committer's thread, so it must be quick.
pub(super) type Done = Box<dyn FnOnce(Answer) + Send>;

/// Where a blocking caller waits for its answer.
#[derive(Debug, Default)]
struct Waiter {
    answer: Mutex<Option<Answer>>,
    answered: Condvar,
}

impl Waiter {
    fn put(&self, answer: Answer) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        self.answered.notify_one();
    }

    fn wait(&self) -> Answer {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(answer) = answer.take() {
                return answer;
            }
            answer = self.answered.wait(answer).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// One caller's work. If it is dropped without an answer, as when the committer panics, the caller
/// gets [`StorageError::Unknown`] and does not wait for ever.
pub(super) struct Request {
    pub(super) work: Work,
    size_bytes: usize,
    done: Option<Done>,
}

impl Request {
    pub(super) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    pub(super) fn answer(mut self, answer: Answer) {
        self.complete(answer);
    }

    fn complete(&mut self, answer: Answer) {
        if let Some(done) = self.done.take() {
            done(answer);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.complete(Err(StorageError::Unknown("the committer ended".into())));
    }
}

/// The group-commit window: how long to wait for a group to fill up, estimated from the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupWindow {
    /// How many writers are expected.
    pub(super) writers: usize,
    /// How long to wait for them at most.
    pub(super) wait_max: Duration,
}

#[derive(Default)]
pub(super) struct CommitQueue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Request>,
    /// The committer sleeps until this many requests wait; fewer do not wake it.
    wake_at: usize,
    closed: bool,
}

impl CommitQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues work and waits for the answer.
    pub(super) fn submit(&self, work: Work, size_bytes: usize) -> Answer {
        let waiter = Arc::new(Waiter::default());
        let answered = waiter.clone();
        self.enqueue(work, size_bytes, Box::new(move |answer| answered.put(answer)));
        waiter.wait()
    }

    /// Queues work; the committer calls `done` with the answer.
    pub(super) fn enqueue(&self, work: Work, size_bytes: usize, done: Done) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return done(Err(StorageError::ReadOnly("the store is closed".into())));
        }
        state.waiting.push_back(Request { work, size_bytes, done: Some(done) });
        let wake = state.waiting.len() >= state.wake_at;
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
    }

    /// The next group, in the order of arrival; `None` when the queue is closed and empty.
    pub(super) fn take(&self, window: GroupWindow) -> Option<Vec<Request>> {
        let mut state = self.lock();
        state.wake_at = 1;
        while state.waiting.is_empty() && !state.closed {
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.waiting.len() < window.writers && !window.wait_max.is_zero() {
            state.wake_at = window.writers;
            let waiting = |s: &mut State| s.waiting.len() < window.writers && !s.closed;
            let waited = self.arrived.wait_timeout_while(state, window.wait_max, waiting);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.wake_at = usize::MAX;
        let mut size_bytes = 0;
        let mut group = Vec::with_capacity(state.waiting.len());
        while let Some(request) = state.waiting.front()
            && (group.is_empty() || size_bytes + request.size_bytes <= COMMIT_BYTES_MAX)
        {
            size_bytes += request.size_bytes;
            group.extend(state.waiting.pop_front());
        }
        if group.is_empty() { None } else { Some(group) }
    }

    /// How many requests wait now.
    pub(super) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Whether the store is closing.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Refuses new work; what waits is still done.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// Refuses new work, and answers what waits with [`StorageError::Unknown`].
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }
}
