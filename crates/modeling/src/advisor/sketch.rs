//! Statistics in bounded memory: quantiles by a histogram whose buckets grow, and a sample of
//! distinct values that every value has the same chance to be in.

use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// Counts by size, with buckets about 3 % wide.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    buckets: BTreeMap<u16, u64>,
    count: u64,
    sum: u64,
    max: u64,
}

/// Buckets for each doubling.
const PER_DOUBLING: f64 = 24.0;

impl Histogram {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a bucket is a rough number"
    )]
    pub(crate) fn add(&mut self, size: usize) {
        let bucket = ((size as f64 + 1.0).log2() * PER_DOUBLING).round() as u16;
        *self.buckets.entry(bucket).or_default() += 1;
        self.count += 1;
        self.sum += size as u64;
        self.max = self.max.max(size as u64);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    pub(crate) fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }

    /// The size that a share of all does not exceed, within the width of a bucket.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a quantile is a rough number"
    )]
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let rank = (share * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += count;
            if seen >= rank {
                return ((f64::from(*bucket) / PER_DOUBLING).exp2() - 1.0).round() as u64;
            }
        }
        0
    }
}

/// What is known of one sampled value.
#[derive(Clone, Debug)]
pub(crate) struct SampledValue {
    /// How often it occurred.
    pub(crate) count: u64,
    /// An item in which it occurred.
    pub(crate) item: Box<str>,
    /// The value as text.
    pub(crate) text: Box<str>,
}

/// The distinct values with the lowest hashes, up to a number: a fair sample of all distinct ones,
/// with exact counts, since a value that is in it now was in it from the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueSample {
    values: HashMap<u64, SampledValue>,
    highest: BinaryHeap<u64>,
    /// Values above this hash are not in the sample.
    limit: Option<u64>,
}

impl ValueSample {
    const SIZE: usize = 2048;

    pub(crate) fn add(&mut self, hash: u64, item: &str, text: impl FnOnce() -> Box<str>) {
        if self.limit.is_some_and(|limit| hash > limit) {
            return;
        }
        if let Some(known) = self.values.get_mut(&hash) {
            known.count += 1;
            return;
        }
        self.values.insert(hash, SampledValue { count: 1, item: item.into(), text: text() });
        self.highest.push(hash);
        if self.values.len() > Self::SIZE
            && let Some(out) = self.highest.pop()
        {
            self.values.remove(&out);
            self.limit = self.highest.peek().copied();
        }
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = (u64, &SampledValue)> {
        self.values.iter().map(|(hash, sampled)| (*hash, sampled))
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}

/// A set of hashes that keeps the lower half when it is full: membership is exact below its limit.
#[derive(Clone, Debug)]
pub(crate) struct HashSample<V> {
    entries: HashMap<u64, V>,
    limit: u64,
    size_max: usize,
}

impl<V> HashSample<V> {
    pub(crate) fn new(size_max: usize) -> Self {
        Self { entries: HashMap::new(), limit: u64::MAX, size_max }
    }

    /// The entry of a hash, made if need be; `None` if the hash is above the limit.
    pub(crate) fn entry(&mut self, hash: u64, make: impl FnOnce() -> V) -> Option<&mut V> {
        if hash > self.limit {
            return None;
        }
        if !self.entries.contains_key(&hash) && self.entries.len() >= self.size_max {
            self.limit /= 2;
            let limit = self.limit;
            self.entries.retain(|hash, _| *hash <= limit);
            if hash > limit {
                return None;
            }
        }
        Some(self.entries.entry(hash).or_insert_with(make))
    }

    pub(crate) fn get(&self, hash: u64) -> Option<&V> {
        self.entries.get(&hash)
    }

    pub(crate) fn covers(&self, hash: u64) -> bool {
        hash <= self.limit
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        self.entries.iter().map(|(hash, value)| (*hash, value))
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_near() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|n| histogram.add(n));
        for (share, expected) in [(0.5, 500_f64), (0.99, 990.0)] {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let found = histogram.quantile(share) as f64;
            assert!((found - expected).abs() < expected * 0.03, "{found} for {expected}");
        }
        assert_eq!((histogram.max(), histogram.mean()), (1000, 500));
    }

    #[test]
    fn samples_are_bounded_and_count_exactly() {
        let mut sample = ValueSample::default();
        let hash = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for round in 0..3 {
            for n in 0..10_000 {
                sample.add(hash(n), &round.to_string(), || n.to_string().into());
            }
        }
        assert_eq!(sample.len(), ValueSample::SIZE);
        assert!(sample.values().all(|(_, s)| s.count == 3));
        let mut set = HashSample::new(1000);
        for n in 0..10_000 {
            set.entry(hash(n), || n);
        }
        assert!(set.len() <= 1000);
        assert!((0..10_000).all(|n| !set.covers(hash(n)) || set.get(hash(n)).is_some()));
    }
}
