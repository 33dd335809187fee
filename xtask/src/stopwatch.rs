//! The one place of xtask that reads the clock: measures elapsed time and time limits.

use std::time::{Duration, Instant};

/// Time since it was started.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "xtask measures real processes")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}
