//! A token bucket. Requests are admitted while it is not empty and are charged when their cost is known, so it
//! may be overdrawn; further requests are then throttled until it is balanced.
//!
//! The state is a time: the instant at which the bucket would be full again. A bucket holds one second's
//! worth, so it is empty when that instant is a second away.
//!
//! Throttled requests get different retry times, one request's cost apart. With the same time all of them
//! would return together, and most would be throttled again.

use std::sync::atomic::{AtomicU64, Ordering};

use orrery_types::limits;

pub(super) const SECOND_NS: u64 = 1_000_000_000;
/// What only requests of high priority may use: half of what the bucket holds. It bounds nobody's
/// rate, since whoever is alone finds the bucket above this mark as fast as it refills.
const KEPT_FOR_HIGH_NS: u64 = SECOND_NS / 2;

/// How a request stands when there is not enough for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Priority {
    #[default]
    High,
    Low,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_field_names, reason = "units belong to names")]
pub(super) struct Bucket {
    full_at_ns: AtomicU64,
    /// The moment that nobody was told to come back at yet.
    turn_ns: AtomicU64,
    /// What a request takes of late.
    cost_ns: AtomicU64,
}

impl Bucket {
    /// How long a request has to wait; nothing if it may come in.
    pub(super) fn wait_ms(&self, now_ns: u64, priority: Priority) -> Option<u64> {
        let usable_ns = match priority {
            Priority::High => SECOND_NS,
            Priority::Low => SECOND_NS - KEPT_FOR_HIGH_NS,
        };
        let full_at_ns = self.full_at_ns.load(Ordering::Relaxed);
        let wait_ns = full_at_ns.checked_sub(now_ns + usable_ns)?;
        let turn_ns = self.take_turn(now_ns + wait_ns, now_ns);
        // One more than whole milliseconds: at the very moment it is still empty.
        Some((turn_ns - now_ns) / 1_000_000 + 1)
    }

    /// The first moment from this one on that nobody else was told.
    fn take_turn(&self, from_ns: u64, now_ns: u64) -> u64 {
        let cost_ns = self.cost_ns.load(Ordering::Relaxed);
        let last_ns = now_ns + limits::THROUGHPUT_DEBT_S_MAX * SECOND_NS;
        let own = |turn_ns: u64| turn_ns.max(from_ns).min(last_ns.max(from_ns));
        let next = |turn_ns: u64| Some(own(turn_ns) + cost_ns);
        let taken = self.turn_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        own(taken.unwrap_or_default())
    }

    /// Takes what a request cost, at a rate of request units a second.
    pub(super) fn spend(&self, now_ns: u64, charge: f64, rate: f64) {
        #[expect(clippy::cast_precision_loss, reason = "a second has few nanoseconds")]
        let cost_ns = charge / rate.max(f64::MIN_POSITIVE) * SECOND_NS as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "what is out of range saturates, and the debt is bounded"
        )]
        let cost_ns = cost_ns.max(0.0) as u64;
        let usual_ns = self.cost_ns.load(Ordering::Relaxed);
        self.cost_ns.store(usual_ns - usual_ns / 4 + cost_ns / 4, Ordering::Relaxed);
        let debt_max = now_ns + (limits::THROUGHPUT_DEBT_S_MAX + 1) * SECOND_NS;
        let _ = self.full_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            // What others owe is theirs: a late clock does not forgive it.
            Some(full_at.max(now_ns).saturating_add(cost_ns).min(debt_max.max(full_at)))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const NOW: u64 = 1_700_000_000 * SECOND_NS;

    #[test]
    fn those_who_wait_come_back_one_after_the_other() {
        let bucket = Bucket::default();
        for _ in 0..100 {
            bucket.spend(NOW, 10.0, 400.0);
        }
        let waits: Vec<u64> = (0..40).filter_map(|_| bucket.wait_ms(NOW, Priority::High)).collect();
        assert_eq!(waits.len(), 40);
        assert!(waits.is_sorted_by(|a, b| a < b), "{waits:?}");
        // Forty requests of 25 ms each.
        assert!((900..=1100).contains(&(waits[39] - waits[0])), "{waits:?}");
        assert!((0..1000).all(|_| bucket.wait_ms(NOW, Priority::High) <= Some(10_001)));
    }

    #[test]
    fn a_second_is_spent_and_comes_back_evenly() {
        let bucket = Bucket::default();
        for _ in 0..40 {
            assert_eq!(bucket.wait_ms(NOW, Priority::High), None);
            bucket.spend(NOW, 10.0, 400.0);
        }
        assert_eq!(bucket.wait_ms(NOW, Priority::High), Some(1));
        assert_eq!(bucket.wait_ms(NOW + MS, Priority::High), None);
        bucket.spend(NOW + MS, 10.0, 400.0);
        // Ten units are 25 ms, of which one has passed.
        assert_eq!(bucket.wait_ms(NOW + MS, Priority::High), Some(25));
        // The turn of this moment is the other's.
        assert!(bucket.wait_ms(NOW + 25 * MS, Priority::High) > Some(1));
        assert_eq!(bucket.wait_ms(NOW + 26 * MS, Priority::High), None);
    }

    #[test]
    fn an_idle_bucket_holds_one_second_and_no_more() {
        let bucket = Bucket::default();
        bucket.spend(NOW, 400.0, 400.0);
        let later = NOW + 3600 * SECOND_NS;
        bucket.spend(later, 400.0, 400.0);
        assert_eq!(bucket.wait_ms(later, Priority::High), Some(1));
    }

    #[test]
    fn debt_is_bounded() {
        let bucket = Bucket::default();
        bucket.spend(NOW, 1e12, 400.0);
        let wait_ms = bucket.wait_ms(NOW, Priority::High);
        assert_eq!(wait_ms, Some(limits::THROUGHPUT_DEBT_S_MAX * 1000 + 1));
        bucket.spend(NOW, f64::NAN, 400.0);
        assert_eq!(bucket.wait_ms(NOW, Priority::High), wait_ms);
    }

    #[test]
    fn low_priority_waits_first_and_has_the_whole_rate_when_it_is_alone() {
        let bucket = Bucket::default();
        bucket.spend(NOW, 200.0, 400.0);
        assert_eq!(bucket.wait_ms(NOW, Priority::Low), Some(1));
        assert_eq!(bucket.wait_ms(NOW, Priority::High), None);
        let (mut now_ns, mut spent) = (NOW, 0.0);
        while now_ns < NOW + 10 * SECOND_NS {
            if let Some(wait_ms) = bucket.wait_ms(now_ns, Priority::Low) {
                now_ns += wait_ms * MS;
            } else {
                bucket.spend(now_ns, 2.0, 400.0);
                spent += 2.0;
            }
        }
        assert!((3900.0..=4100.0).contains(&spent), "{spent}");
    }
}
