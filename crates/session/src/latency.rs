//! Latencies, and the round trip that timers are set by.

use hdrhistogram::Histogram;
use serde::Serialize;
use taut_core::{Duration, RttEstimator};

/// Everything longer counts as this in percentiles: 2³⁸ ns, 275 s.
const LONGEST: u64 = (1 << 38) - 1;
/// Significant digits of percentiles.
const DIGITS: u8 = 2;

/// A series of latencies, in bounded memory.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    histogram: Histogram<u32>,
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    last_ns: u64,
    /// Sum of |Lᵢ − Lᵢ₋₁|.
    differences_ns: u128,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_max(LONGEST, DIGITS).expect("two digits of a number above one");
        Self { histogram, count: 0, sum_ns: 0, min_ns: 0, max_ns: 0, last_ns: 0, differences_ns: 0 }
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        let nanos = latency.as_nanos();
        if self.count == 0 {
            self.min_ns = nanos;
        } else {
            self.differences_ns += u128::from(nanos.abs_diff(self.last_ns));
        }
        self.histogram.saturating_record(nanos);
        self.min_ns = self.min_ns.min(nanos);
        self.max_ns = self.max_ns.max(nanos);
        self.sum_ns += u128::from(nanos);
        self.last_ns = nanos;
        self.count += 1;
    }

    pub(crate) fn summary(&self) -> LatencySummary {
        if self.count == 0 {
            return LatencySummary::default();
        }
        let ms = |nanos: u64| nanos as f64 / 1e6;
        // Buckets are not exact; no percentile may lie outside what was seen.
        let at =
            |fraction: f64| ms(self.histogram.value_at_quantile(fraction).clamp(self.min_ns, self.max_ns));
        LatencySummary {
            count: self.count,
            min_ms: ms(self.min_ns),
            mean_ms: self.sum_ns as f64 / self.count as f64 / 1e6,
            max_ms: ms(self.max_ns),
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            jitter_ms: self.differences_ns as f64 / (self.count.max(2) - 1) as f64 / 1e6,
        }
    }
}

/// What a series of latencies was like. All zero when `count` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencySummary {
    /// How many.
    pub count: u64,
    /// The least, ms.
    pub min_ms: f64,
    /// The mean, ms.
    pub mean_ms: f64,
    /// The largest, ms.
    pub max_ms: f64,
    /// The median, ms; percentiles are within 1 %.
    pub p50_ms: f64,
    /// The 95th percentile, ms.
    pub p95_ms: f64,
    /// The 99th percentile, ms.
    pub p99_ms: f64,
    /// The 99.9th percentile, ms.
    pub p999_ms: f64,
    /// The mean absolute difference of consecutive latencies, ms.
    pub jitter_ms: f64,
}

/// The smoothed round trip and the time to wait for an answer (RFC 6298 section 2), with bounds for teleoperation: an
/// answer that does not come is asked for again within milliseconds, not after the second that the RFC demands of bulk
/// transfers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrip {
    estimator: RttEstimator,
    /// What was made of it: it is asked for more often than it changes.
    timeout: Option<Duration>,
}

impl RoundTrip {
    /// Before the first measurement.
    const INITIAL: Duration = Duration::from_millis(100);
    const LEAST: Duration = Duration::from_millis(5);
    const LONGEST: Duration = Duration::from_secs(2);
    /// The granularity of clocks and schedulers, *G*.
    const GRANULARITY: Duration = Duration::from_millis(1);

    pub(crate) fn record(&mut self, rtt: Duration) {
        self.estimator.record(rtt);
        let timeout = self.estimator.timeout(Self::GRANULARITY);
        self.timeout = timeout.map(|timeout| timeout.clamp(Self::LEAST, Self::LONGEST));
    }

    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.estimator.srtt()
    }

    /// What one may take now, at best: the last, or the smoothed one where that is less. After a stall the smoothed one remembers it
    /// for long, and whoever sends nothing for that reason measures nothing better.
    pub(crate) fn at_best(&self) -> Option<Duration> {
        self.estimator.srtt().map(|srtt| srtt.min(self.estimator.latest()))
    }

    /// SRTT + max(G, 4·RTTVAR).
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Self::INITIAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn jitter_is_the_mean_difference_of_neighbours() {
        let mut latencies = Latencies::default();
        [2, 5, 3, 3].iter().for_each(|ms| latencies.record(MS * *ms));
        let summary = latencies.summary();
        assert!((summary.jitter_ms - (3.0 + 2.0) / 3.0).abs() < 1e-9);
        assert!((summary.mean_ms - 3.25).abs() < 1e-9);
        assert!((summary.min_ms - 2.0).abs() < 1e-9 && (summary.max_ms - 5.0).abs() < 1e-9);
        assert!((summary.p50_ms / 3.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_series_of_none_is_all_zero() {
        assert_eq!(Latencies::default().summary(), LatencySummary::default());
    }

    #[test]
    fn after_a_stall_the_next_round_trip_says_what_one_takes_at_best() {
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.at_best(), None);
        [8, 900].iter().for_each(|ms| round_trip.record(MS * *ms));
        assert!(round_trip.at_best() > Some(MS * 100));
        round_trip.record(MS * 8);
        assert_eq!(round_trip.at_best(), Some(MS * 8));
        round_trip.record(MS * 500);
        assert_eq!(
            round_trip.at_best(),
            round_trip.smoothed(),
            "one that is held up says nothing of the best"
        );
    }

    #[test]
    fn the_timeout_follows_the_round_trip_and_its_variation() {
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.timeout(), MS * 100);
        round_trip.record(MS * 40);
        assert_eq!(round_trip.timeout(), MS * (40 + 4 * 20));
        (0..200).for_each(|_| round_trip.record(MS * 40));
        assert!(round_trip.timeout() <= MS * 41, "{}", round_trip.timeout());
        (0..200).for_each(|_| round_trip.record(Duration::ZERO));
        assert_eq!(round_trip.timeout(), MS * 5);
        round_trip.record(Duration::from_secs(10_000_000_000));
        assert_eq!(round_trip.timeout(), Duration::from_secs(2));
    }
}
