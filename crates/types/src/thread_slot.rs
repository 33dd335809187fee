//! Slots for counters that all threads write. Threads that write to the same cache line wait for each other; with
//! a slot for each they do not, and a reader of the count adds up the slots.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Slots. More threads than these share some.
pub const THREAD_SLOTS: usize = 16;

/// The slot of this thread, below [`THREAD_SLOTS`].
pub fn thread_slot() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        let slot = own.get().unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed) % THREAD_SLOTS);
        own.set(Some(slot));
        slot
    })
}

/// A value that shares its cache lines with nothing else.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_slot() {
        let own = thread_slot();
        assert!(own < THREAD_SLOTS);
        assert_eq!(thread_slot(), own);
        let other = std::thread::spawn(|| [thread_slot(), thread_slot()]).join();
        let [first, second] = other.expect("a thread");
        assert_eq!(first, second);
    }
}
