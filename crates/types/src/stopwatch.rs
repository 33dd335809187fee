//! Elapsed time by the monotonic clock. The wall clock of a [`Clock`](crate::Clock) may be set while
//! something is measured; this one only goes forward.

use std::time::{Duration, Instant};

/// Measures the time since it was started.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts to measure.
    #[expect(clippy::disallowed_methods, reason = "measures a duration, which tests do not move")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
