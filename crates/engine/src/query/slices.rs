//! Slices of processor time for long queries. Any number of queries may be under way, each on a thread of its
//! own, but only so many run at once that one core is left for short requests; the others wait. At the
//! end of a slice a query yields to queries that have used less time, so a short query waits for a long one
//! for at most one slice.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Slices after which all queries count as equally long, and take turns.
const SHORT_SLICES: u64 = 8;
/// Later arrivals that go before a query, for each slice that it has used.
const ARRIVALS_AHEAD: u64 = 64;

/// The queries that run, and those that wait.
#[derive(Debug)]
pub(crate) struct Slices {
    running_max: usize,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    running: usize,
    /// By slices used, and then in the order in which they came.
    waiting: BinaryHeap<Reverse<Waiting>>,
    tickets: u64,
}

/// A query that waits for its next slice.
#[derive(Debug)]
struct Waiting {
    rank: (u64, u64),
    turn: Arc<Turn>,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

#[derive(Debug, Default)]
struct Turn {
    has_come: Mutex<bool>,
    changed: Condvar,
}

impl Turn {
    fn give(&self) {
        *locked(&self.has_come) = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut has_come = locked(&self.has_come);
        while !*has_come {
            has_come = self.changed.wait(has_come).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A thread that panicked has left the counters consistent.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Slices {
    /// One core is left to short requests, if there are several.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::new(cores.saturating_sub(1).max(1))
    }
}

impl Slices {
    fn new(running_max: usize) -> Self {
        Self { running_max, queue: Mutex::default() }
    }

    /// Waits for the first slice of a query.
    pub(crate) fn enter(&self) -> Slice<'_> {
        let turn = {
            let mut queue = locked(&self.queue);
            if queue.running < self.running_max {
                queue.running += 1;
                None
            } else {
                Some(queue.enqueue(0))
            }
        };
        if let Some(turn) = turn {
            turn.wait();
        }
        Slice { slices: self, used: Cell::new(0) }
    }
}

/// How many later arrivals go before a query that has used so many slices. It is bounded, so that a
/// stream of short queries does not hold up a long one for ever.
fn handicap(used: u64) -> u64 {
    used.min(SHORT_SLICES) * ARRIVALS_AHEAD
}

impl Queue {
    fn enqueue(&mut self, used: u64) -> Arc<Turn> {
        self.tickets += 1;
        let turn = Arc::<Turn>::default();
        let rank = (self.tickets + handicap(used), self.tickets);
        self.waiting.push(Reverse(Waiting { rank, turn: turn.clone() }));
        turn
    }
}

/// The right to run, of one query.
#[derive(Debug)]
pub(crate) struct Slice<'s> {
    slices: &'s Slices,
    used: Cell<u64>,
}

impl Slice<'_> {
    /// Ends a slice, and waits for the next one if others have used less.
    pub(crate) fn end(&self) {
        let used = self.used.get() + 1;
        self.used.set(used);
        let own = {
            let mut queue = locked(&self.slices.queue);
            let Some(Reverse(next)) = queue.waiting.peek() else { return };
            // Of two queries with the same use the waiting one runs first.
            if next.rank.0 > queue.tickets + 1 + handicap(used) {
                return;
            }
            let own = queue.enqueue(used);
            if let Some(Reverse(next)) = queue.waiting.pop() {
                next.turn.give();
            }
            own
        };
        own.wait();
    }
}

impl Drop for Slice<'_> {
    fn drop(&mut self) {
        let mut queue = locked(&self.slices.queue);
        match queue.waiting.pop() {
            Some(Reverse(next)) => next.turn.give(),
            None => queue.running -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_short_query_ends_while_all_long_ones_are_under_way() {
        for running_max in [1, 2] {
            let slices = Slices::new(running_max);
            let (stop, begun, ended) =
                (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for _ in 0..12 {
                    scope.spawn(|| {
                        let slice = slices.enter();
                        begun.fetch_add(1, Ordering::SeqCst);
                        while !stop.load(Ordering::SeqCst) {
                            slice.end();
                        }
                        ended.fetch_add(1, Ordering::SeqCst);
                    });
                }
                // Each of them has had a slice.
                while begun.load(Ordering::SeqCst) < 12 {
                    std::thread::yield_now();
                }
                for _ in 0..50 {
                    let short = slices.enter();
                    short.end();
                    drop(short);
                    assert_eq!(ended.load(Ordering::SeqCst), 0);
                }
                stop.store(true, Ordering::SeqCst);
            });
            assert_eq!(ended.load(Ordering::SeqCst), 12);
            assert_eq!(locked(&slices.queue).running, 0);
        }
    }

    #[test]
    fn no_more_run_at_once_than_are_allowed() {
        let slices = Slices::new(3);
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let slice = slices.enter();
                    for _ in 0..200 {
                        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        running.fetch_sub(1, Ordering::SeqCst);
                        slice.end();
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 3);
    }
}
