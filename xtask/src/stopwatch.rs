//! The one place of xtask that reads the clock: measures elapsed time and time limits, and tells the time.

use anyhow::Result;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Seconds since 1970, by the clock that servers on this machine have too.
#[expect(clippy::disallowed_methods, reason = "a token is valid for a time of the system's clock")]
pub(crate) fn unix_time_s() -> Result<i64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs().cast_signed())
}

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
