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
        (self.count > 0).then(|| {
            let ms = |nanos: u64| nanos as f64 / 1e6;
            let variance = self.squares / self.count as f64 / 1e12;
            let moments = (self.mean / 1e6, variance);
            summed_up(self.count, moments, [ms(self.min), ms(self.max)], |fractions| {
                self.values_at(fractions)
            })
        })
    }

    /// In milliseconds, at ascending fractions.
    fn values_at(&self, fractions: &[f64]) -> Vec<f64> {
        let nanos = self.histogram.value_at_quantiles(fractions.iter().copied());
        nanos.map(|nanos| nanos.clamp(self.min, self.max) as f64 / 1e6).collect()
    }
}

/// A distribution of differences: those from 0 on and those below have a histogram each, so that small ones have three digits, too.
#[derive(Clone, Debug, Default)]
pub(super) struct Signed {
    above: Summary,
    below: Summary,
}

impl Signed {
    /// Adds `a − b`.
    pub(super) fn record(&mut self, a: Duration, b: Duration) {
        let part = if a >= b { &mut self.above } else { &mut self.below };
        part.record(a.abs_diff(b));
    }

    /// In milliseconds. `None` when nothing was recorded.
    pub(super) fn to_result(&self) -> Option<Distribution> {
        let (above, below) = (self.above.to_result(), self.below.to_result());
        let (Some(above), Some(below)) = (&above, &below) else {
            return above.or_else(|| below.map(negated));
        };
        let [n, m] = [above.count as f64, below.count as f64];
        let mean = (n * above.mean - m * below.mean) / (n + m);
        let spread = |part: &Distribution, sign: f64| {
            let apart = sign * part.mean - mean;
            part.count as f64 * (part.sd * part.sd + apart * apart)
        };
        let variance = (spread(above, 1.0) + spread(below, -1.0)) / (n + m);
        let ends = [-below.max, above.max];
        Some(summed_up(above.count + below.count, (mean, variance), ends, |fractions| {
            let split = fractions.partition_point(|q| q * (n + m) <= m);
            let (negative, positive) = fractions.split_at(split);
            let negative: Vec<f64> = negative.iter().rev().map(|q| 1.0 - q * (n + m) / m).collect();
            let positive: Vec<f64> = positive.iter().map(|q| (q * (n + m) - m) / n).collect();
            let values = self.below.values_at(&negative).into_iter().rev().map(|value| -value);
            values.chain(self.above.values_at(&positive)).collect()
        }))
    }
}

/// That of the same values with the other sign.
fn negated(of: Distribution) -> Distribution {
    let points = of.cdf.clone();
    // The share of values not above −x is that of values not below x.
    let at = |q: f64| -points.iter().find(|(_, share)| *share >= 1.0 - q).map_or(of.max, |(value, _)| *value);
    summed_up(of.count, (-of.mean, of.sd * of.sd), [-of.max, -of.min], |fractions| {
        fractions.iter().map(|q| at(*q)).collect()
    })
}

/// All values in milliseconds: mean and variance, the ends, and `values_at` ascending fractions.
fn summed_up(
    count: u64,
    (mean, variance): (f64, f64),
    [min, max]: [f64; 2],
    values_at: impl Fn(&[f64]) -> Vec<f64>,
) -> Distribution {
    let quantiles = values_at(&[0.5, 0.9, 0.95, 0.99, 0.999]);
    let quantile = |place: usize| quantiles.get(place).copied().unwrap_or_default();
    Distribution {
        count,
        mean,
        sd: variance.sqrt(),
        min,
        p50: quantile(0),
        p90: quantile(1),
        p95: quantile(2),
        p99: quantile(3),
        p999: quantile(4),
        max,
        cdf: cdf(values_at),
    }
}

/// Points at even steps of the fraction, finer towards the tail.
fn cdf(values_at: impl Fn(&[f64]) -> Vec<f64>) -> Vec<(f64, f64)> {
    let body = (0..=140).map(|i| f64::from(i) / 140.0 * 0.99);
    // The tail in steps of the distance from one: 1e-2 … 1e-6.
    let tail = (1..=50).map(|i| 1.0 - 1e-2 * libm::pow(10.0, -f64::from(i) / 12.5));
    let fractions: Vec<f64> = body.chain(tail).chain([1.0]).collect();
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(CDF_POINTS);
    for (value, q) in values_at(&fractions).into_iter().zip(fractions) {
        match points.last_mut() {
            Some(last) if last.0 >= value => last.1 = q,
            _ => points.push((value, q)),
        }
    }
    points
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
    fn small_differences_of_either_sign_have_three_digits_beside_large_ones() {
        let ms = |x: u64| Duration::from_micros(1_000 * x);
        let mut signed = Signed::default();
        assert_eq!(signed.to_result(), None);
        (1..=100).for_each(|i| signed.record(ms(0), ms(i)));
        let below = signed.to_result().unwrap();
        assert_eq!((below.min, below.max, below.mean), (-100.0, -1.0, -50.5));
        assert!((below.p90 + 11.0).abs() <= 1.1 && below.p50 < below.p90, "{below:?}");
        (1..=300).for_each(|i| signed.record(ms(9_000) + Duration::from_micros(i), ms(9_000)));
        let result = signed.to_result().unwrap();
        assert_eq!((result.count, result.min, result.max), (400, -100.0, 0.3));
        let mean = (300.0 * 0.1505 - 100.0 * 50.5) / 400.0;
        assert!((result.mean - mean).abs() < 1e-9 && (result.p50 - 0.1).abs() < 0.002, "{result:?}");
        assert!(
            result.cdf.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1),
            "{result:?}"
        );
        let median_below = result.cdf.iter().find(|(_, share)| *share >= 0.125).unwrap().0;
        assert!((median_below + 50.0).abs() < 4.0, "{median_below}");
    }

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
