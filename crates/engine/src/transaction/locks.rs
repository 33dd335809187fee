//! The striped partition lock: 256 stripes for each physical partition, of which a logical partition has
//! one, by the hash of its key. Writers are optimistic: they hold their stripe shared, and the
//! preconditions of their commits decide between them. A transaction that reads a range, or that has
//! lost several times, takes its stripe exclusively until it has committed.

use std::hash::Hasher;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use orrery_types::limits;
use xxhash_rust::xxh3::Xxh3;

/// How a stripe is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// Beside other shared holders.
    Shared,
    /// Without any other holder.
    Exclusive,
}

impl LockMode {
    /// The mode of an attempt: after several conflicts a writer takes its stripe exclusively, so that
    /// it cannot starve.
    pub(crate) fn of_attempt(attempt: usize) -> Self {
        if attempt < limits::COMMIT_ATTEMPTS_SHARED { Self::Shared } else { Self::Exclusive }
    }
}

/// The stripes of one physical partition. Each serves a share of the logical partitions, so that
/// their number does not grow with the data.
#[derive(Debug)]
pub(crate) struct PartitionLocks(Box<[Arc<StripeLock>]>);

impl Default for PartitionLocks {
    fn default() -> Self {
        Self((0..limits::LOCK_STRIPES_PER_PARTITION).map(|_| Arc::default()).collect())
    }
}

impl PartitionLocks {
    /// Takes all stripes exclusively: nobody else writes to the partition while the guards are held.
    pub(crate) fn lock_all(&self) -> Vec<LockGuard> {
        self.0.iter().map(|stripe| stripe.acquire(LockMode::Exclusive)).collect()
    }

    /// The stripe of a logical partition, named by any bytes that it alone has.
    pub(crate) fn stripe(&self, logical_partition: &[u8]) -> &Arc<StripeLock> {
        self.0.get(usize::from(stripe_of(logical_partition))).expect("there is one for each stripe")
    }
}

/// The number of the stripe of a logical partition, named by any bytes that it alone has: what one
/// lock serves, and what `Check::StripeUnchanged` is about.
pub(crate) fn stripe_of(logical_partition: &[u8]) -> u8 {
    let mut hasher = Xxh3::new();
    hasher.write(logical_partition);
    let count = u64::try_from(limits::LOCK_STRIPES_PER_PARTITION).unwrap_or(1);
    u8::try_from(hasher.finish() % count).unwrap_or_default()
}

/// The lock of one stripe. An exclusive waiter holds back new shared holders, so that it cannot
/// starve.
#[derive(Debug, Default)]
pub(crate) struct StripeLock {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct State {
    holders: usize,
    exclusive: bool,
    /// How many wait for the exclusive mode.
    exclusive_waiters: usize,
}

impl StripeLock {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the stripe can be held in this mode.
    pub(crate) fn acquire(self: &Arc<Self>, mode: LockMode) -> LockGuard {
        let mut state = self.state();
        match mode {
            LockMode::Shared => {
                let blocked = |s: &mut State| s.exclusive || s.exclusive_waiters > 0;
                state = self.wait_while(state, blocked);
            }
            LockMode::Exclusive => {
                state.exclusive_waiters += 1;
                state = self.wait_while(state, |s| s.holders > 0);
                state.exclusive_waiters -= 1;
                state.exclusive = true;
            }
        }
        state.holders += 1;
        LockGuard { stripe: self.clone() }
    }

    /// Takes the stripe shared if that needs no waiting.
    pub(crate) fn try_shared(self: &Arc<Self>) -> Option<LockGuard> {
        let mut state = self.state();
        if state.exclusive || state.exclusive_waiters > 0 {
            return None;
        }
        state.holders += 1;
        Some(LockGuard { stripe: self.clone() })
    }

    fn wait_while<'g>(
        &'g self,
        state: MutexGuard<'g, State>,
        condition: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'g, State> {
        self.released.wait_while(state, condition).unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stripe that is held; dropping it releases the stripe.
#[derive(Debug)]
pub(crate) struct LockGuard {
    stripe: Arc<StripeLock>,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let mut state = self.stripe.state();
        state.holders -= 1;
        state.exclusive = false;
        if state.holders == 0 {
            drop(state);
            self.stripe.released.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn many_hold_a_stripe_shared_and_one_holds_it_exclusively() {
        let stripe = Arc::<StripeLock>::default();
        let (first, second) = (stripe.acquire(LockMode::Shared), stripe.acquire(LockMode::Shared));
        let (acquired, exclusive) = channel();
        let (release, released) = channel::<()>();
        let thread = {
            let stripe = stripe.clone();
            std::thread::spawn(move || {
                let guard = stripe.acquire(LockMode::Exclusive);
                acquired.send(()).expect("somebody waits");
                released.recv().expect("somebody says so");
                drop(guard);
            })
        };
        while stripe.state().exclusive_waiters == 0 {
            std::thread::yield_now();
        }
        assert!(stripe.try_shared().is_none(), "an exclusive waiter holds back new holders");
        assert!(exclusive.try_recv().is_err(), "there are two shared holders");
        drop((first, second));
        exclusive.recv().expect("it holds the stripe now");
        assert!(stripe.try_shared().is_none());
        release.send(()).expect("it waits");
        thread.join().expect("it ends");
        assert!(stripe.try_shared().is_some());
    }
}
