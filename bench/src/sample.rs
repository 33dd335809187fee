//! What a round of measuring gives, and how rounds are put together: rates by their median,
//! because a neighbour on the machine spoils a round, not all; latencies in one histogram.

use anyhow::Result;
use hdrhistogram::Histogram;
use std::time::Duration;

/// One round of one contestant.
pub(crate) struct Sample {
    pub(crate) latencies_ns: Histogram<u64>,
    pub(crate) took: Duration,
    /// Processor time that the contestant's own process took, where it has one.
    pub(crate) processor: Option<Duration>,
}

impl Sample {
    pub(crate) fn histogram() -> Histogram<u64> {
        Histogram::new(3).expect("three digits are allowed")
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    pub(crate) fn rate(&self) -> f64 {
        self.latencies_ns.len() as f64 / self.took.as_secs_f64()
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    pub(crate) fn processor_us(&self) -> Option<f64> {
        Some(self.processor?.as_secs_f64() * 1e6 / self.latencies_ns.len() as f64)
    }
}

/// All rounds of one contestant.
#[derive(Default)]
pub(crate) struct Series(Vec<Sample>);

impl Series {
    pub(crate) fn push(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    pub(crate) fn rate(&self) -> f64 {
        median(self.0.iter().map(Sample::rate))
    }

    /// Processor time for one operation.
    pub(crate) fn processor_us(&self) -> Option<f64> {
        let each: Option<Vec<f64>> = self.0.iter().map(Sample::processor_us).collect();
        each.map(|each| median(each.into_iter()))
    }

    /// Our processor time for an operation as a part of theirs: round by round, then the median.
    pub(crate) fn processor_ratio(&self, theirs: &Self) -> Option<f64> {
        let pairs = self.0.iter().zip(&theirs.0);
        let each: Option<Vec<f64>> =
            pairs.map(|(own, their)| Some(own.processor_us()? / their.processor_us()?)).collect();
        each.map(|each| median(each.into_iter()))
    }

    /// The latency that this part of the operations stays within.
    #[expect(clippy::cast_precision_loss, reason = "latencies are small")]
    pub(crate) fn quantile_us(&self, part: f64) -> Result<f64> {
        let mut all = Sample::histogram();
        for sample in &self.0 {
            all.add(&sample.latencies_ns)?;
        }
        Ok(all.value_at_quantile(part) as f64 / 1e3)
    }

    /// Our rate as a part of theirs: round by round, then the median.
    pub(crate) fn ratio(&self, theirs: &Self) -> f64 {
        median(self.0.iter().zip(&theirs.0).map(|(own, their)| own.rate() / their.rate()))
    }
}

/// The middle one; of an even number the mean of the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_one_spoilt_round() {
        assert!((median([3.0, 1.0, 900.0].into_iter()) - 3.0).abs() < 1e-9);
        assert!((median([4.0, 1.0, 2.0, 9.0].into_iter()) - 3.0).abs() < 1e-9);
        assert!(median(std::iter::empty()).is_nan());
    }

    #[test]
    fn rates_are_compared_round_by_round() {
        let series = |rates: [u64; 3]| {
            let mut series = Series::default();
            for rate in rates {
                let mut latencies_ns = Sample::histogram();
                latencies_ns.record_n(1000, rate).unwrap();
                let took = Duration::from_secs(1);
                series.push(Sample { latencies_ns, took, processor: None });
            }
            series
        };
        let ratio = series([50, 5, 40]).ratio(&series([100, 10, 100]));
        assert!((ratio - 0.5).abs() < 1e-9);
    }
}
