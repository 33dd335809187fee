//! Names of commits. If the answer to a commit is lost, its name is what the store is asked about.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use orrery_types::{Clock as _, SystemClock};

/// The name of a commit: a UUID of version 7. No two commits of any process have the same, and of one
/// process each is greater than those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(u128);

/// Milliseconds and a count of the last id of this process: 48 and 16 bits. A clock that is set back
/// does not take it back, and more than 65,536 ids in a millisecond borrow from the next.
static LAST: AtomicU64 = AtomicU64::new(0);
/// Microseconds that are added to the clock of this process.
static OFFSET_US: AtomicI64 = AtomicI64::new(0);
/// Tells the ids of this process from those of others.
static PROCESS: OnceLock<u64> = OnceLock::new();

const COUNT_BITS: u32 = 16;
const VERSION: u128 = 7 << 76;
const VARIANT: u128 = 2 << 62;

impl CommitId {
    /// Less than every other id.
    pub const NONE: Self = Self(0);

    /// An id that no commit has.
    #[expect(clippy::new_without_default, reason = "a default would be the same each time")]
    pub fn new() -> Self {
        let now_us = SystemClock.now_us().saturating_add_signed(OFFSET_US.load(Relaxed));
        let now = (now_us / 1000) << COUNT_BITS;
        let after = |last: u64| Some((last + 1).max(now));
        let last = LAST.fetch_update(Relaxed, Relaxed, after).unwrap_or_default();
        let place = (last + 1).max(now);
        let process = *PROCESS.get_or_init(|| RandomState::new().hash_one(0));
        let (time_ms, count) = (place >> COUNT_BITS, place & ((1 << COUNT_BITS) - 1));
        // The count lies where ids of one millisecond are still ordered by it.
        let high = (u128::from(time_ms) << 80) | VERSION | (u128::from(count >> 4) << 64);
        let low = (u128::from(count & 0xf) << 58) | u128::from(process >> 6);
        Self(high | VARIANT | low)
    }

    /// From now on ids are made from the clock of a store, which shows this time now: those of several processes
    /// are in one order then, roughly.
    pub fn follow(now_us: u64) {
        let offset = i128::from(now_us) - i128::from(SystemClock.now_us());
        OFFSET_US.store(i64::try_from(offset).unwrap_or_default(), Relaxed);
    }

    /// From now on the ids of this process are greater than this one, whatever the clock says.
    pub fn raise(above: Self) {
        let time_ms = u64::try_from(above.0 >> 80).expect("48 bits");
        LAST.fetch_max((time_ms + 1) << COUNT_BITS, Relaxed);
    }

    /// The id as 16 bytes, which have the same order.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id that [`CommitId::to_bytes`] wrote.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl fmt::Debug for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, byte) in self.0.to_be_bytes().into_iter().enumerate() {
            let dash = if matches!(nth, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_and_are_uuids() {
        let mut last = CommitId::NONE;
        for _ in 0..200_000 {
            let next = CommitId::new();
            assert!(next > last, "{next} after {last}");
            last = next;
        }
        assert_eq!(CommitId::from_bytes(last.to_bytes()), last);
        let text = last.to_string();
        assert_eq!((text.len(), &text[14..15]), (36, "7"), "{text}");
        assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"), "{text}");
    }

    #[test]
    fn ids_are_above_what_they_were_raised_to() {
        let later = CommitId(CommitId::new().0 + (3_600_000 << 80));
        CommitId::raise(later);
        assert!(CommitId::new() > later);
    }
}
