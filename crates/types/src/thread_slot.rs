//! Which of a few places a thread uses for what all threads count. Threads that write to the same memory
//! wait for each other, if only for a moment; with a place for each, they do not, and whoever wants
//! the sum adds the places up.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Places. More threads than these share some.
pub const THREAD_SLOTS: usize = 16;

/// The place of this thread, below [`THREAD_SLOTS`].
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

/// Something that has its cache lines to itself.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Apart<T>(pub T);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_place() {
        let own = thread_slot();
        assert!(own < THREAD_SLOTS);
        assert_eq!(thread_slot(), own);
        let other = std::thread::spawn(|| [thread_slot(), thread_slot()]).join();
        let [first, second] = other.expect("a thread");
        assert_eq!(first, second);
    }
}
