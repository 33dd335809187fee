//! Who may write to a logical partition. Writes are optimistic: they come in side by side, and the
//! checks of their commits find out who was faster. A transaction that reads a range, or that has
//! lost too often, closes the gate behind the others and is alone until it has committed.

use std::hash::Hasher;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use orrery_types::limits;
use xxhash_rust::xxh3::Xxh3;

/// How to pass a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// Beside others.
    Shared,
    /// Alone.
    Alone,
}

/// The gates of one physical partition. Each serves a share of the logical partitions, so that
/// their number does not grow with the data.
#[derive(Debug)]
pub(crate) struct Gates(Box<[Arc<Gate>]>);

impl Default for Gates {
    fn default() -> Self {
        Self((0..limits::GATES_PER_PARTITION).map(|_| Arc::default()).collect())
    }
}

impl Gates {
    /// Passes all of them alone: nobody writes to the partition while the passes are held.
    pub(crate) fn close(&self) -> Vec<Pass> {
        self.0.iter().map(|gate| gate.pass(Passage::Alone)).collect()
    }

    /// The gate of a logical partition, named by any bytes that it alone has.
    pub(crate) fn of(&self, logical_partition: &[u8]) -> &Arc<Gate> {
        self.0.get(usize::from(stripe_of(logical_partition))).expect("there is one for each stripe")
    }
}

/// The stripe of a logical partition, named by any bytes that it alone has: what one lock serves,
/// and what `Precondition::StripeUnchanged` is about.
pub(crate) fn stripe_of(logical_partition: &[u8]) -> u8 {
    let mut hasher = Xxh3::new();
    hasher.write(logical_partition);
    let count = u64::try_from(limits::GATES_PER_PARTITION).unwrap_or(1);
    u8::try_from(hasher.finish() % count).unwrap_or_default()
}

#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    inside: usize,
    alone: bool,
    /// How many want to be alone: newcomers queue behind them.
    wanting: usize,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the way is free.
    pub(crate) fn pass(self: &Arc<Self>, passage: Passage) -> Pass {
        let mut state = self.lock();
        match passage {
            Passage::Shared => {
                let closed = |s: &mut State| s.alone || s.wanting > 0;
                state = self.wait_while(state, closed);
            }
            Passage::Alone => {
                state.wanting += 1;
                state = self.wait_while(state, |s| s.inside > 0);
                state.wanting -= 1;
                state.alone = true;
            }
        }
        state.inside += 1;
        Pass { gate: self.clone() }
    }

    /// Passes beside others if nobody is alone inside or wants to be.
    pub(crate) fn try_shared(self: &Arc<Self>) -> Option<Pass> {
        let mut state = self.lock();
        if state.alone || state.wanting > 0 {
            return None;
        }
        state.inside += 1;
        Some(Pass { gate: self.clone() })
    }

    fn wait_while<'g>(
        &'g self,
        state: MutexGuard<'g, State>,
        condition: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'g, State> {
        self.freed.wait_while(state, condition).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Being inside; dropping it leaves.
#[derive(Debug)]
pub(crate) struct Pass {
    gate: Arc<Gate>,
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.inside -= 1;
        state.alone = false;
        if state.inside == 0 {
            drop(state);
            self.gate.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn many_pass_side_by_side_and_one_passes_alone() {
        let gate = Arc::<Gate>::default();
        let (first, second) = (gate.pass(Passage::Shared), gate.pass(Passage::Shared));
        let (entered, alone) = channel();
        let (leave, leaving) = channel::<()>();
        let thread = {
            let gate = gate.clone();
            std::thread::spawn(move || {
                let pass = gate.pass(Passage::Alone);
                entered.send(()).expect("somebody waits");
                leaving.recv().expect("somebody says so");
                drop(pass);
            })
        };
        while gate.lock().wanting == 0 {
            std::thread::yield_now();
        }
        assert!(gate.try_shared().is_none(), "newcomers queue behind who wants to be alone");
        assert!(alone.try_recv().is_err(), "two are inside");
        drop((first, second));
        alone.recv().expect("it is alone now");
        assert!(gate.try_shared().is_none());
        leave.send(()).expect("it waits");
        thread.join().expect("it ends");
        assert!(gate.try_shared().is_some());
    }
}
