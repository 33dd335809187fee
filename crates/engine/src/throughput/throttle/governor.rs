//! What one offer grants, spent by the requests of its container, or of all containers that share
//! their database's. Every physical partition has its even share and a bucket for it; so has every
//! throughput bucket in every partition.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use orrery_types::{Error, Result, limits};

use super::bucket::{Bucket, Priority, SECOND_NS};
use super::terms::ThroughputTerms;

/// What a request asks to be let in as.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claim {
    /// Who waits first.
    pub priority: Priority,
    /// The throughput bucket, from 1 to 5.
    pub bucket: Option<u8>,
}

/// Who spends, and where.
#[derive(Debug)]
pub(super) struct Governor {
    terms: RwLock<ThroughputTerms>,
    /// By physical partition and throughput bucket; zero is the partition itself.
    buckets: RwLock<HashMap<(u32, u8), Arc<Bucket>>>,
    usage: Mutex<Usage>,
    /// The part of the rate that this process grants, as the bits of a number.
    share: AtomicU64,
}

/// What was spent in the last seconds, which is what autoscale follows.
#[derive(Debug, Default)]
struct Usage {
    second: u64,
    spent: f64,
    spent_before: f64,
    requests: f64,
    refused: f64,
    asked_before: f64,
    /// What a request of an earlier second took.
    usual: f64,
}

impl Usage {
    fn turn_to(&mut self, second: u64) {
        if second > self.second {
            if self.requests > 0.0 {
                self.usual = self.spent / self.requests;
            }
            self.spent_before = if second == self.second + 1 { self.spent } else { 0.0 };
            self.asked_before = if second == self.second + 1 { self.asked() } else { 0.0 };
            (self.second, self.spent) = (second, 0.0);
            (self.requests, self.refused) = (0.0, 0.0);
        }
    }
}

impl Usage {
    /// What was spent in this second, and what refused requests would have taken.
    fn asked(&self) -> f64 {
        let each = if self.requests > 0.0 { self.spent / self.requests } else { self.usual };
        self.spent + self.refused * each
    }
}

impl Governor {
    pub(super) fn new(terms: ThroughputTerms) -> Self {
        let (terms, buckets) = (RwLock::new(terms), RwLock::default());
        Self { terms, buckets, usage: Mutex::default(), share: AtomicU64::new(1.0_f64.to_bits()) }
    }

    pub(super) fn terms(&self) -> ThroughputTerms {
        *self.terms.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_terms(&self, terms: ThroughputTerms) {
        *self.terms.write().unwrap_or_else(PoisonError::into_inner) = terms;
    }

    /// Lets a request into all of the partitions, or says how long to wait.
    pub(super) fn admit(&self, partitions: &[u32], claim: Claim, now_ns: u64) -> Result<()> {
        let share_of = claim.bucket.filter(|id| self.terms().percent_of(*id).is_some());
        let wait = |bucket: u8, priority| {
            let waits = partitions.iter().filter_map(|partition| {
                self.bucket((*partition, bucket)).wait_ms(now_ns, priority)
            });
            waits.max()
        };
        if let Some(bucket) = share_of
            && let Some(retry_after_ms) = wait(bucket, Priority::High)
        {
            return Err(Error::BucketSpent { bucket, retry_after_ms });
        }
        match wait(0, claim.priority) {
            None => Ok(()),
            Some(retry_after_ms) => {
                let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
                usage.turn_to(now_ns / SECOND_NS);
                usage.refused += 1.0;
                Err(Error::RateLimited { retry_after_ms })
            }
        }
    }

    /// Takes what a request cost, evenly from the partitions; `count` is how many there are in all.
    pub(super) fn spend(
        &self,
        partitions: &[u32],
        count: usize,
        bucket: Option<u8>,
        charge: f64,
        now_ns: u64,
    ) {
        let terms = self.terms();
        let share = f64::from_bits(self.share.load(Ordering::Relaxed));
        let rate = terms.rate() * share / at_least_one(count);
        let each = charge / at_least_one(partitions.len());
        for partition in partitions {
            self.bucket((*partition, 0)).spend(now_ns, each, rate);
            if let Some((id, percent)) = bucket.and_then(|id| Some((id, terms.percent_of(id)?))) {
                let share = rate * f64::from(percent) / 100.0;
                self.bucket((*partition, id)).spend(now_ns, each, share);
            }
        }
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        usage.turn_to(now_ns / SECOND_NS);
        usage.spent += charge;
        usage.requests += 1.0;
    }

    /// Request units a second that were used lately.
    pub(super) fn used(&self, now_ns: u64) -> f64 {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        usage.turn_to(now_ns / SECOND_NS);
        usage.spent.max(usage.spent_before)
    }

    /// Request units a second that were asked for lately, with those of requests that were refused.
    pub(super) fn asked(&self, now_ns: u64) -> f64 {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        usage.turn_to(now_ns / SECOND_NS);
        usage.asked().max(usage.asked_before)
    }

    pub(super) fn set_share(&self, share: f64) {
        self.share.store(share.to_bits(), Ordering::Relaxed);
    }

    fn bucket(&self, key: (u32, u8)) -> Arc<Bucket> {
        let known = self.buckets.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        known.unwrap_or_else(|| {
            let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
            // Partitions that were split or merged leave theirs behind. Forgetting them all gives
            // everybody a full second once.
            if buckets.len() >= limits::THROUGHPUT_BUCKETS_KEPT {
                buckets.clear();
            }
            buckets.entry(key).or_default().clone()
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "containers have few partitions")]
fn at_least_one(count: usize) -> f64 {
    count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::offer::Throughput;

    const NOW: u64 = 1_700_000_000 * SECOND_NS;

    fn governor(buckets: [Option<u8>; 5]) -> Governor {
        let throughput = Throughput::Manual(1000);
        Governor::new(ThroughputTerms { throughput, enforced: None, buckets })
    }

    fn claim(bucket: u8) -> Claim {
        Claim { bucket: Some(bucket), ..Claim::default() }
    }

    #[test]
    fn each_partition_has_its_even_share() {
        let governor = governor([None; 5]);
        governor.spend(&[0], 2, None, 500.0, NOW);
        let limited = Err(Error::RateLimited { retry_after_ms: 1 });
        assert_eq!(governor.admit(&[0], Claim::default(), NOW), limited);
        assert_eq!(governor.admit(&[1], Claim::default(), NOW), Ok(()));
        // Who reads both waits for the one that is spent, behind the other.
        let behind = governor.admit(&[0, 1], Claim::default(), NOW);
        assert!(matches!(behind, Err(Error::RateLimited { retry_after_ms }) if retry_after_ms > 1));
        let later = NOW + SECOND_NS;
        governor.spend(&[0, 1], 2, None, 1000.0, later);
        assert_eq!(governor.admit(&[1], Claim::default(), later), limited);
    }

    #[test]
    fn a_bucket_is_confined_to_its_share_and_the_others_are_not() {
        let governor = governor([Some(20), None, None, None, None]);
        governor.spend(&[0], 1, Some(1), 200.0, NOW);
        let spent = Err(Error::BucketSpent { bucket: 1, retry_after_ms: 1 });
        assert_eq!(governor.admit(&[0], claim(1), NOW), spent);
        assert_eq!(governor.admit(&[0], Claim::default(), NOW), Ok(()));
        // A bucket that is not configured is bound by nothing but the whole.
        assert_eq!(governor.admit(&[0], claim(2), NOW), Ok(()));
        governor.spend(&[0], 1, Some(2), 800.0, NOW);
        let limited = Err(Error::RateLimited { retry_after_ms: 1 });
        assert_eq!(governor.admit(&[0], claim(2), NOW), limited);
    }

    #[test]
    fn usage_is_that_of_this_second_or_the_last_one() {
        let governor = governor([None; 5]);
        governor.spend(&[0], 1, None, 700.0, NOW);
        for (seconds, expected) in [(0, 700.0), (1, 700.0), (2, 0.0), (9, 0.0)] {
            let used = governor.used(NOW + seconds * SECOND_NS);
            assert!((used - expected).abs() < 1e-9, "after {seconds} s: {used}");
        }
    }
}
