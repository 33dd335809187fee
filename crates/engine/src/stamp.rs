//! What every write gives a resource: a new etag and the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orrery_types::{Clock, Etag};

/// The version of a resource: its etag and the second it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct Stamp {
    pub etag: Etag,
    pub ts: u64,
}

/// Makes stamps. Etags rise with the clock, so that a restart never repeats one.
pub(crate) struct Stamper {
    clock: Arc<dyn Clock>,
    node: u32,
    last: AtomicU64,
}

/// Etags that one microsecond has room for.
const PER_MICROSECOND: u64 = 16;

impl Stamper {
    pub(crate) fn new(clock: Arc<dyn Clock>, node: u32) -> Self {
        Self { clock, node, last: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> Stamp {
        let now_us = self.clock.now_us();
        let least = now_us.wrapping_mul(PER_MICROSECOND);
        let raise = |last: u64| Some(least.max(last.wrapping_add(1)));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise);
        let stamp = last.map_or(least, |last| least.max(last.wrapping_add(1)));
        Stamp { etag: Etag { node: self.node, stamp }, ts: now_us / 1_000_000 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_types::ManualClock;

    #[test]
    fn no_two_stamps_have_the_same_etag() {
        let stamper = Stamper::new(Arc::new(ManualClock::at_s(5)), 7);
        let (a, b) = (stamper.next(), stamper.next());
        assert_ne!(a.etag, b.etag);
        assert_eq!((a.ts, b.ts), (5, 5));
    }
}
