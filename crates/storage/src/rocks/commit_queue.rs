//! The queue of group commit. While the committer syncs one group, the next one collects here. Before
//! it takes that group it waits for a short *group-commit window*: the writers it has just answered
//! are about to send their next commits, and a group of all of them costs the same sync as a group of
//! the fastest few. A commit that finds no other under way does not come here at all: its own thread
//! writes it (`committer::try_commit`).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orrery_types::{Epoch, Lsn, ShardId};

use crate::{Commit, StorageError};
use orrery_types::limits::COMMIT_BYTES_MAX;

/// The group-commit window is at most this fraction of the time of the last group, and never longer
/// than the maximum.
const WINDOW_FRACTION: u32 = 4;
const WINDOW_MAX: Duration = Duration::from_millis(1);
/// At most so many groups go without a window before another one is tried.
const BACKOFF_GROUPS_MAX: u32 = 64;

/// A unit of work for the committer.
#[derive(Debug)]
pub(super) enum Work {
    Commit(Commit),
    Create(ShardId, Epoch),
    Drop(ShardId),
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
        let commit = match &self.work {
            Work::Commit(commit) => Some(commit.id),
            _ => None,
        };
        self.complete(Err(StorageError::unknown(commit, "the committer ended")));
    }
}

/// The group-commit window: how long to wait for a group to fill up, estimated from the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupWindow {
    /// How many writers are expected.
    pub(super) writers: usize,
    /// How long to wait for them at most.
    pub(super) wait_max: Duration,
    backoff: Backoff,
}

/// Groups that are taken without a window, because the last window ended before the expected writers came: to
/// wait for them then costs more than a second sync. While one group is written the other half of the writers
/// prepares the next, so disk and processor are both busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Backoff {
    /// Groups until the next window.
    left: u32,
    /// Groups between the last two windows.
    groups: u32,
}

/// What became of the window of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowEnd {
    /// There was none, or all expected writers had come before it.
    NotOpened,
    Filled,
    Expired,
}

impl GroupWindow {
    /// The window after a group that took some time; so many writers wait or were just answered. To
    /// wait may cost a fraction of what the next group takes.
    pub(super) fn after(self, end: WindowEnd, writers: usize, took: Duration) -> Self {
        let backoff = match end {
            WindowEnd::Filled => Backoff::default(),
            WindowEnd::Expired => {
                let groups = (self.backoff.groups * 2).clamp(1, BACKOFF_GROUPS_MAX);
                Backoff { left: groups, groups }
            }
            WindowEnd::NotOpened => {
                Backoff { left: self.backoff.left.saturating_sub(1), ..self.backoff }
            }
        };
        let wait_max = match backoff.left {
            0 => (took / WINDOW_FRACTION).min(WINDOW_MAX),
            _ => Duration::ZERO,
        };
        Self { writers, wait_max, backoff }
    }
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

    /// Waits until there is work; `false` when the queue is closed and empty.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.lock();
        state.wake_at = 1;
        while state.waiting.is_empty() && !state.closed {
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.waiting.is_empty()
    }

    /// The next group, in the order of arrival, once its window is over.
    pub(super) fn take(&self, window: GroupWindow) -> (Vec<Request>, WindowEnd) {
        let (mut state, mut end) = (self.lock(), WindowEnd::NotOpened);
        if state.waiting.len() < window.writers && !window.wait_max.is_zero() {
            state.wake_at = window.writers;
            let waiting = |s: &mut State| s.waiting.len() < window.writers && !s.closed;
            let waited = self.arrived.wait_timeout_while(state, window.wait_max, waiting);
            let timeout;
            (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            end = if timeout.timed_out() { WindowEnd::Expired } else { WindowEnd::Filled };
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
        (group, end)
    }

    /// Whether nothing waits and work is accepted.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.lock();
        state.waiting.is_empty() && !state.closed
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
        self.arrived.notify_all();
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use orrery_types::Epoch;

    use super::*;
    use crate::Part;

    /// Queues a commit of a size; the answer comes through the channel.
    fn enqueue(queue: &CommitQueue, size_bytes: usize) -> Receiver<Answer> {
        let (sender, answer) = channel();
        let commit = Commit::new(vec![Part::new(ShardId(1), Epoch(1))]);
        let done = Box::new(move |answer| sender.send(answer).expect("the test listens"));
        queue.enqueue(Work::Commit(commit), size_bytes, done);
        answer
    }

    fn take(queue: &CommitQueue, window: GroupWindow) -> Vec<usize> {
        assert!(queue.wait(), "a group");
        let (group, _) = queue.take(window);
        group.iter().map(Request::size_bytes).collect()
    }

    #[test]
    fn a_group_is_all_that_waits_in_the_order_of_arrival_up_to_a_size() {
        let queue = CommitQueue::default();
        let sizes = [1, COMMIT_BYTES_MAX, 2, 3, COMMIT_BYTES_MAX - 5, 1];
        let answers: Vec<_> = sizes.iter().map(|size| enqueue(&queue, *size)).collect();
        let none = GroupWindow::default();
        assert_eq!(take(&queue, none), [1], "the next one does not fit");
        assert_eq!(take(&queue, none), [COMMIT_BYTES_MAX]);
        assert_eq!(take(&queue, none), [2, 3, COMMIT_BYTES_MAX - 5]);
        assert_eq!((take(&queue, none), queue.len()), (vec![1], 0));
        // The groups were dropped without an answer.
        for answer in answers {
            assert!(matches!(answer.recv(), Ok(Err(StorageError::Unknown(_)))));
        }
    }

    #[test]
    fn the_window_ends_when_the_expected_writers_have_come() {
        let queue = CommitQueue::default();
        let wait_max = Duration::from_secs(3600);
        let window = GroupWindow { writers: 3, wait_max, ..GroupWindow::default() };
        std::thread::scope(|scope| {
            let group = scope.spawn(|| take(&queue, window));
            let answers = [1, 2, 3].map(|size| enqueue(&queue, size));
            assert_eq!(group.join().expect("a group"), [1, 2, 3]);
            drop(answers);
        });
    }

    #[test]
    fn a_window_that_nobody_fills_ends_by_itself() {
        let queue = CommitQueue::default();
        let answer = enqueue(&queue, 1);
        let wait_max = Duration::from_micros(1);
        let window = GroupWindow { writers: 2, wait_max, ..GroupWindow::default() };
        assert_eq!(take(&queue, window), [1]);
        drop(answer);
    }

    #[test]
    fn the_window_is_a_fraction_of_the_last_group_and_bounded() {
        let window = |took| {
            let none = GroupWindow::default();
            none.after(WindowEnd::NotOpened, 5, Duration::from_micros(took))
        };
        assert_eq!(window(400).writers, 5);
        assert_eq!(window(400).wait_max, Duration::from_micros(100));
        assert_eq!(window(1 << 40).wait_max, WINDOW_MAX);
    }

    #[test]
    fn a_window_that_expires_is_tried_again_after_twice_as_many_groups() {
        let took = Duration::from_micros(400);
        let mut window = GroupWindow::default().after(WindowEnd::NotOpened, 5, took);
        for groups in [1, 2, 4, 8, 16, 32, 64, 64] {
            window = window.after(WindowEnd::Expired, 5, took);
            for _ in 0..groups {
                assert_eq!(window.wait_max, Duration::ZERO, "of {groups} groups");
                window = window.after(WindowEnd::NotOpened, 5, took);
            }
            assert_eq!(window.wait_max, Duration::from_micros(100), "after {groups} groups");
        }
        window = window.after(WindowEnd::Filled, 5, took);
        assert_eq!(window.wait_max, Duration::from_micros(100), "it was worth the wait");
        window = window.after(WindowEnd::Expired, 5, took).after(WindowEnd::NotOpened, 5, took);
        assert_eq!(window.wait_max, Duration::from_micros(100), "the backoff begins anew");
    }

    #[test]
    fn a_taken_group_says_how_its_window_ended() {
        let queue = CommitQueue::default();
        let answers = [1, 2].map(|size| enqueue(&queue, size));
        let window = |writers| GroupWindow {
            writers,
            wait_max: Duration::from_micros(1),
            ..GroupWindow::default()
        };
        assert_eq!(queue.take(window(2)).1, WindowEnd::NotOpened, "all had come before");
        assert_eq!(queue.take(window(1)).1, WindowEnd::Expired);
        drop(answers);
    }

    #[test]
    fn a_closed_queue_does_what_waits_and_refuses_the_rest() {
        let queue = CommitQueue::default();
        let before = enqueue(&queue, 1);
        queue.close();
        let after = enqueue(&queue, 2);
        assert!(matches!(after.recv(), Ok(Err(StorageError::ReadOnly(_)))));
        assert!(queue.wait() && !queue.is_idle());
        for request in queue.take(GroupWindow::default()).0 {
            request.answer(Ok(vec![Lsn(7)]));
        }
        assert_eq!(before.recv(), Ok(Ok(vec![Lsn(7)])));
        assert!(!queue.wait() && !queue.is_idle());
    }

    #[test]
    fn an_abandoned_queue_answers_that_the_outcome_is_unknown() {
        let queue = CommitQueue::default();
        let waiting = enqueue(&queue, 1);
        queue.abandon();
        assert!(matches!(waiting.recv(), Ok(Err(StorageError::Unknown(_)))));
        assert!(matches!(enqueue(&queue, 1).recv(), Ok(Err(StorageError::ReadOnly(_)))));
    }
}
