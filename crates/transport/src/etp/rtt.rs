//! The round-trip time: smoothed, and its minimum over a sliding window.

use taut_core::{Duration, RttEstimator, Time};

const BUCKETS: usize = 10;
const SAMPLES: usize = 4;

/// Smoothed as by RFC 6298 section 2 (α = 1/8, β = 1/4), with the minimum of late and that of long, which the adaptive gap compares.
#[derive(Debug)]
pub(super) struct Rtt {
    estimator: RttEstimator,
    /// The latest samples, whatever the time between two reports.
    last: [Duration; SAMPLES],
    next: usize,
    recent: Least,
    long: Least,
}

impl Rtt {
    /// The minima reach back by `recent` and `long`, give or take a tenth.
    pub(super) fn new(recent: Duration, long: Duration) -> Self {
        Self {
            estimator: RttEstimator::default(),
            last: [Duration::MAX; SAMPLES],
            next: 0,
            recent: Least::of(recent),
            long: Least::of(long),
        }
    }

    pub(super) fn sample(&mut self, now: Time, rtt: Duration) {
        self.estimator.record(rtt);
        self.last[self.next] = rtt;
        self.next = (self.next + 1) % SAMPLES;
        self.recent.sample(now, rtt);
        self.long.sample(now, rtt);
    }

    /// `None` before the first sample.
    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.estimator.srtt()
    }

    /// Is the latest sample below the smoothed value?
    pub(super) fn is_falling(&self) -> bool {
        self.smoothed().is_some_and(|smoothed| self.estimator.latest() < smoothed)
    }

    /// `None` before the first sample.
    pub(super) fn min(&self) -> Option<Duration> {
        self.smoothed().map(|_| self.long.get())
    }

    /// By how much the least RTT of late is above the least of long: what stands in queues. What jitter adds comes and goes.
    pub(super) fn rise(&self) -> Duration {
        self.smoothed().map_or(Duration::ZERO, |_| self.of_late().saturating_sub(self.long.get()))
    }

    /// Mean deviation from the smoothed value.
    pub(super) fn variation(&self) -> Duration {
        self.estimator.rttvar()
    }

    fn of_late(&self) -> Duration {
        self.last.into_iter().min().unwrap_or(Duration::MAX).min(self.recent.get())
    }
}

/// The least over a sliding window.
#[derive(Debug)]
struct Least {
    buckets: [Duration; BUCKETS],
    width: Duration,
    /// Which bucket is filled now, and since when.
    current: usize,
    began: Time,
}

impl Least {
    fn of(window: Duration) -> Self {
        Self {
            buckets: [Duration::MAX; BUCKETS],
            width: (window / BUCKETS as u64).max(Duration::from_nanos(1)),
            current: 0,
            began: Time::ZERO,
        }
    }

    fn sample(&mut self, now: Time, value: Duration) {
        let passed = now.saturating_since(self.began) / self.width;
        for _ in 0..passed.min(BUCKETS as u64) {
            self.current = (self.current + 1) % BUCKETS;
            self.buckets[self.current] = Duration::MAX;
        }
        self.began += self.width.saturating_mul(passed);
        let bucket = &mut self.buckets[self.current];
        *bucket = value.min(*bucket);
    }

    /// [`Duration::MAX`] before the first sample.
    fn get(&self) -> Duration {
        self.buckets.into_iter().min().unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn an_eighth_of_each_sample_enters_the_smoothed_value() {
        let mut rtt = Rtt::new(MS * 75, Duration::from_secs(10));
        assert_eq!((rtt.smoothed(), rtt.min()), (None, None));
        rtt.sample(Time::ZERO, MS * 80);
        rtt.sample(Time::ZERO, MS * 160);
        assert_eq!((rtt.smoothed(), rtt.min()), (Some(MS * 90), Some(MS * 80)));
    }

    #[test]
    fn the_minimum_forgets_what_is_older_than_its_window() {
        let mut rtt = Rtt::new(MS * 75, Duration::from_secs(10));
        rtt.sample(Time::ZERO, MS * 10);
        for second in 1..=9 {
            rtt.sample(Time::ZERO + Duration::from_secs(second), MS * 50);
            assert_eq!(rtt.min(), Some(MS * 10));
        }
        rtt.sample(Time::ZERO + Duration::from_secs(10), MS * 50);
        assert_eq!(rtt.min(), Some(MS * 50));
        rtt.sample(Time::ZERO + Duration::from_secs(1_000_000), MS * 70);
        assert_eq!(rtt.min(), Some(MS * 70));
    }
}
