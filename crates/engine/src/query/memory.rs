//! The memory that all queries of the process share.

use std::sync::atomic::{AtomicUsize, Ordering};

use orrery_query::MemoryPool;
use orrery_types::{Error, Result, limits};

/// How much there is, and how much of it is taken.
#[derive(Debug)]
pub(crate) struct QueryMemory {
    bytes_max: usize,
    used: AtomicUsize,
}

impl QueryMemory {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, used: AtomicUsize::new(0) }
    }
}

impl Default for QueryMemory {
    fn default() -> Self {
        Self::new(limits::QUERY_MEMORY_TOTAL_BYTES_DEFAULT)
    }
}

/// What one part of a query has taken, given back when it ends.
#[derive(Debug)]
pub(crate) struct Reservation<'m> {
    memory: &'m QueryMemory,
    bytes: usize,
}

impl<'m> Reservation<'m> {
    pub(crate) fn of(memory: &'m QueryMemory) -> Self {
        Self { memory, bytes: 0 }
    }

    /// Takes as much as makes so many bytes of it.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<()> {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 && !self.memory.reserve(more) {
            return Err(Error::RateLimited { retry_after_ms: limits::QUERY_MEMORY_RETRY_MS });
        }
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.memory.release(self.bytes);
    }
}

impl MemoryPool for QueryMemory {
    fn reserve(&self, bytes: usize) -> bool {
        let more = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let memory = QueryMemory::new(10);
        assert!(memory.reserve(6) && !memory.reserve(5) && memory.reserve(4));
        memory.release(6);
        assert!(!memory.reserve(usize::MAX) && memory.reserve(6) && !memory.reserve(1));
        memory.release(10);
        let mut reservation = Reservation::of(&memory);
        reservation.grow_to(8).expect("there is room");
        assert!(reservation.grow_to(11).is_err() && !memory.reserve(3));
        drop(reservation);
        assert!(memory.reserve(10));
    }
}
