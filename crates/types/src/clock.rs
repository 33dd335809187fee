//! Time, as a dependency. Everything below the server asks a [`Clock`], so that tests move time by
//! hand and a run can be repeated.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::stopwatch::Stopwatch;

/// Where the time comes from.
pub trait Clock: Send + Sync {
    /// Microseconds since 1970-01-01 UTC.
    fn now_us(&self) -> u64;

    /// Whole seconds since 1970-01-01 UTC; the unit of `_ts`.
    fn now_s(&self) -> u64 {
        self.now_us() / 1_000_000
    }

    /// Microseconds since an instant that stays the same while the process runs: setting the time does not move
    /// it.
    fn elapsed_us(&self) -> u64 {
        self.now_us()
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_us(&self) -> u64 {
        #[expect(clippy::disallowed_methods, reason = "the one place that asks the machine")]
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    fn elapsed_us(&self) -> u64 {
        static START: OnceLock<Stopwatch> = OnceLock::new();
        let elapsed = START.get_or_init(Stopwatch::start).elapsed();
        u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_us: AtomicU64,
}

impl ManualClock {
    /// A clock that shows the given second.
    pub fn at_s(seconds: u64) -> Self {
        Self { now_us: AtomicU64::new(seconds * 1_000_000) }
    }

    /// Moves the clock forward by less than a second.
    pub fn advance_ms(&self, milliseconds: u64) {
        self.now_us.fetch_add(milliseconds * 1000, Ordering::SeqCst);
    }

    /// Moves the clock forward.
    pub fn advance_s(&self, seconds: u64) {
        self.now_us.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> u64 {
        self.now_us.load(Ordering::SeqCst)
    }
}
