//! Where the time of a page went, for the metrics of a query. It is measured by the machine's monotonic
//! clock and not by the engine's: nothing is decided by it.

use std::cell::Cell;
use std::time::Duration;

use orrery_types::stopwatch::Stopwatch;

/// The time that each part of a query took.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueryTimes {
    /// Resolving names, parameters and computed properties.
    pub bind: Duration,
    /// Choosing the access path.
    pub plan: Duration,
    /// Opening the partitions and the access path.
    pub open: Duration,
    /// Finding items in the index, or the answer itself.
    pub index: Duration,
    /// Loading items.
    pub load: Duration,
}

/// Calls and times what it calls.
pub(crate) fn timed<T>(call: impl FnOnce() -> T) -> (T, Duration) {
    let began = Stopwatch::start();
    let done = call();
    (done, began.elapsed())
}

/// Calls and adds the time to what is there.
pub(crate) fn add_time<T>(to: &Cell<Duration>, call: impl FnOnce() -> T) -> T {
    let (done, time) = timed(call);
    to.set(to.get() + time);
    done
}
