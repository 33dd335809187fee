//! How long a script may run. This is the machine's own time, not the injected clock: a clock that
//! stands still in a test must not let a script run for ever.

use std::time::{Duration, Instant};

use orrery_types::limits;

/// The end of a request's script time. One request has one, however often its work starts over.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    started: Instant,
    limit: Duration,
}

impl Deadline {
    /// So much time from now on.
    pub fn after_ms(limit_ms: u64) -> Self {
        #[expect(clippy::disallowed_methods, reason = "see the head of the file")]
        let started = Instant::now();
        Self { started, limit: Duration::from_millis(limit_ms) }
    }

    /// Whether the time is used up.
    pub fn is_over(&self) -> bool {
        self.started.elapsed() >= self.limit
    }

    /// Whether so much of it is used up that nothing new should be begun.
    pub(crate) fn is_near(&self) -> bool {
        let percent = u32::try_from(limits::SCRIPT_ACCEPT_PERCENT).unwrap_or(100);
        self.started.elapsed() * 100 >= self.limit * percent
    }

    /// The whole time there was.
    pub fn limit_ms(&self) -> u128 {
        self.limit.as_millis()
    }
}
