//! A distribution of durations in bounded memory: exact count, mean, deviation and ends; percentiles to three digits.

use hdrhistogram::Histogram;
use taut_core::Duration;

use taut_report::result::Distribution;

/// Most points of a cumulative distribution in a result.
const CDF_POINTS: usize = 200;

/// Significant digits of percentiles.
const DIGITS: u8 = 3;

/// Durations, summed up.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    histogram: Histogram<u32>,
    count: u64,
    mean: f64,
    /// Sum of squared differences from the mean (Welford 1962).
    squares: f64,
    min: u64,
    max: u64,
}

impl Default for Summary {
    fn default() -> Self {
        let histogram = Histogram::new(DIGITS).expect("three digits");
        Self { histogram, count: 0, mean: 0.0, squares: 0.0, min: u64::MAX, max: 0 }
    }
}

impl Summary {
    /// Adds one value.
    pub(crate) fn record(&mut self, value: Duration) {
        let nanos = value.as_nanos();
        self.count += 1;
        let difference = nanos as f64 - self.mean;
        self.mean += difference / self.count as f64;
        self.squares += difference * (nanos as f64 - self.mean);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
        self.histogram.record(nanos).expect("it grows to whatever 64 bits hold");
    }

    /// In milliseconds. `None` when nothing was recorded.
    pub(crate) fn to_result(&self) -> Option<Distribution> {
        if self.count == 0 {
            return None;
        }
        let ms = |nanos: u64| nanos as f64 / 1e6;
        let mut quantiles = self.values_at([0.5, 0.9, 0.95, 0.99, 0.999]);
        let mut next = || quantiles.next().unwrap_or_default();
        Some(Distribution {
            count: self.count,
            mean: self.mean / 1e6,
            sd: (self.squares / self.count as f64).sqrt() / 1e6,
            min: ms(self.min),
            p50: next(),
            p90: next(),
            p95: next(),
            p99: next(),
            p999: next(),
            max: ms(self.max),
            cdf: self.cdf(),
        })
    }

    /// Points at even steps of the fraction, finer towards the tail.
    fn cdf(&self) -> Vec<(f64, f64)> {
        let body = (0..=140).map(|i| f64::from(i) / 140.0 * 0.99);
        // The tail in steps of the distance from one: 1e-2 … 1e-6.
        let tail = (1..=50).map(|i| 1.0 - 1e-2 * libm::pow(10.0, -f64::from(i) / 12.5));
        let fractions = body.chain(tail).chain([1.0]);
        let mut points: Vec<(f64, f64)> = Vec::with_capacity(CDF_POINTS);
        for (value, q) in self.values_at(fractions.clone()).zip(fractions) {
            match points.last_mut() {
                Some(last) if last.0 >= value => last.1 = q,
                _ => points.push((value, q)),
            }
        }
        points
    }

    /// In milliseconds, at ascending fractions.
    fn values_at(&self, fractions: impl IntoIterator<Item = f64>) -> impl Iterator<Item = f64> {
        self.histogram.value_at_quantiles(fractions).map(|nanos| nanos.clamp(self.min, self.max) as f64 / 1e6)
    }
}

/// Mean and spread of plain numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moments {
    pub(crate) count: u64,
    mean: f64,
    squares: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Moments {
    pub(crate) fn record(&mut self, value: f64) {
        self.count += 1;
        let difference = value - self.mean;
        self.mean += difference / self.count as f64;
        self.squares += difference * (value - self.mean);
        (self.min, self.max) =
            if self.count == 1 { (value, value) } else { (self.min.min(value), self.max.max(value)) };
    }

    /// Population standard deviation.
    pub(crate) fn sd(&self) -> f64 {
        if self.count == 0 { 0.0 } else { (self.squares / self.count as f64).sqrt() }
    }

    /// Standard deviation of a sample: divides by n − 1.
    pub(crate) fn sample_sd(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt())
    }

    /// The mean; `None` when nothing was recorded.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uniform_distribution_is_summed_up() {
        let mut summary = Summary::default();
        (1..=10_000).for_each(|i| summary.record(Duration::from_micros(i)));
        let result = summary.to_result().unwrap();
        assert_eq!((result.count, result.min, result.max), (10_000, 0.001, 10.0));
        assert!((result.mean - 5.0005).abs() < 1e-9);
        assert!((result.sd - 10.0 / 12f64.sqrt()).abs() < 1e-3);
        assert!((result.p99 - 9.9).abs() < 0.01);
        assert!(result.cdf.len() <= CDF_POINTS);
        summary.record(Duration::MAX);
        assert!(summary.to_result().unwrap().max > 1e12);
        assert!(result.cdf.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    }

    #[test]
    fn of_nothing_there_is_no_summary() {
        assert_eq!(Summary::default().to_result(), None);
        assert_eq!(Moments::default().mean(), None);
    }
}
