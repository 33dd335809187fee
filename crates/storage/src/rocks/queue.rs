//! Where commits wait for the committer. While it syncs one group, the next gathers here; and when
//! it comes back it waits a moment for the writers it has just answered, because a group of all of
//! them costs the same sync as a group of the fastest few.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orrery_types::{Epoch, Lsn, ShardId};

use crate::{Commit, StorageError};
use orrery_types::limits::COMMIT_BYTES_MAX;

/// What the committer is asked to do.
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

/// Who takes the answer; called on the committer's thread, so it must be quick.
pub(super) type Done = Box<dyn FnOnce(Answer) + Send>;

/// Where a caller that blocks waits for its answer.
#[derive(Debug, Default)]
struct Ticket {
    answer: Mutex<Option<Answer>>,
    answered: Condvar,
}

impl Ticket {
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

/// One caller's work. Dropped without an answer, as when the committer panics, it answers that
/// nobody knows: no caller waits for ever.
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
        self.settle(answer);
    }

    fn settle(&mut self, answer: Answer) {
        if let Some(done) = self.done.take() {
            done(answer);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.settle(Err(StorageError::Unknown("the committer ended".into())));
    }
}

/// How long to gather a group, learnt from the last one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// How many writers there seem to be.
    pub(super) writers: usize,
    /// How long waiting for them pays.
    pub(super) patience: Duration,
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Request>,
    /// The committer sleeps until so many wait; nobody wakes it for less.
    wanted: usize,
    closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands work to the committer and waits for the answer.
    pub(super) fn submit(&self, work: Work, size_bytes: usize) -> Answer {
        let ticket = Arc::new(Ticket::default());
        let answered = ticket.clone();
        self.enqueue(work, size_bytes, Box::new(move |answer| answered.put(answer)));
        ticket.wait()
    }

    /// Hands work to the committer, which will call `done` with the answer.
    pub(super) fn enqueue(&self, work: Work, size_bytes: usize, done: Done) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return done(Err(StorageError::ReadOnly("the store is closed".into())));
        }
        state.waiting.push_back(Request { work, size_bytes, done: Some(done) });
        let wake = state.waiting.len() >= state.wanted;
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
    }

    /// The next group, in the order of arrival; `None` when the queue is closed and empty.
    pub(super) fn take(&self, pace: Pace) -> Option<Vec<Request>> {
        let mut state = self.lock();
        state.wanted = 1;
        while state.waiting.is_empty() && !state.closed {
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.waiting.len() < pace.writers && !pace.patience.is_zero() {
            state.wanted = pace.writers;
            let waiting = |s: &mut State| s.waiting.len() < pace.writers && !s.closed;
            let waited = self.arrived.wait_timeout_while(state, pace.patience, waiting);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.wanted = usize::MAX;
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

    /// How many wait now.
    pub(super) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Whether the store is closing.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes no more work; what waits is still done.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// Takes no more work, and answers what waits that nobody knows.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }
}
