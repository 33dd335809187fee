//! The time of a shared store. Nodes whose clocks differ would disagree on what has expired, so all of them go
//! by the store's clock: the time since the start of the process, which setting the machine's clock does not move,
//! plus an offset that every heartbeat renews. It never goes backwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use orrery_storage::{StorageError, Store};
use orrery_types::Clock;

/// The store's clock, as this node knows it.
pub(crate) struct StoreClock {
    own: Arc<dyn Clock>,
    /// What the store's clock is ahead of the time since the start.
    offset_us: AtomicI64,
    /// The latest time that was told.
    last_us: AtomicU64,
}

impl StoreClock {
    /// The clock of a store, if it has one; otherwise the clock of this process is what its nodes share.
    pub(crate) fn of(
        store: &dyn Store,
        own: &Arc<dyn Clock>,
    ) -> Result<Option<Arc<Self>>, StorageError> {
        let (offset_us, last_us) = (AtomicI64::new(0), AtomicU64::new(0));
        let clock = Self { own: own.clone(), offset_us, last_us };
        Ok(clock.adjust(store)?.then(|| Arc::new(clock)))
    }

    /// Asks the store for its time; false if it has none. The answer is taken for that of half the round trip.
    pub(crate) fn adjust(&self, store: &dyn Store) -> Result<bool, StorageError> {
        let before_us = self.own.elapsed_us();
        let Some(store_us) = store.now_us()? else { return Ok(false) };
        let after_us = self.own.elapsed_us();
        let asked_us = before_us + after_us.saturating_sub(before_us) / 2;
        self.offset_us.store(store_us.cast_signed() - asked_us.cast_signed(), Ordering::Relaxed);
        Ok(true)
    }
}

impl Clock for StoreClock {
    fn now_us(&self) -> u64 {
        let offset_us = self.offset_us.load(Ordering::Relaxed);
        let now_us = self.own.elapsed_us().saturating_add_signed(offset_us);
        self.last_us.fetch_max(now_us, Ordering::Relaxed).max(now_us)
    }

    fn elapsed_us(&self) -> u64 {
        self.own.elapsed_us()
    }
}

#[cfg(test)]
mod tests {
    use orrery_storage::MemoryStore;
    use orrery_types::ManualClock;

    use super::*;

    #[test]
    fn it_follows_the_clock_of_the_store_and_never_goes_back() {
        let (ours, theirs) = (Arc::new(ManualClock::at_s(5000)), Arc::new(ManualClock::at_s(1000)));
        let store = MemoryStore::shared_with_clock(theirs.clone());
        let own: Arc<dyn Clock> = ours.clone();
        let clock = StoreClock::of(&store, &own).expect("a time").expect("a clock");
        assert_eq!(clock.now_s(), 1000);
        ours.advance_s(5);
        assert_eq!(clock.now_s(), 1005, "between heartbeats its own clock goes on");
        theirs.advance_s(2);
        clock.adjust(&store).expect("a time");
        assert_eq!(clock.now_s(), 1005, "the store is behind");
        ours.advance_s(2);
        assert_eq!(clock.now_s(), 1005);
        ours.advance_s(2);
        assert_eq!(clock.now_s(), 1006);
    }

    #[test]
    fn a_store_without_a_clock_leaves_the_process_its_own() {
        let own: Arc<dyn Clock> = Arc::new(ManualClock::at_s(1));
        assert!(StoreClock::of(&MemoryStore::shared(), &own).expect("an answer").is_none());
    }
}
