//! A quantity over time in a fixed number of equal buckets.

use taut_core::{Duration, Time};

use taut_report::result::Series;

/// What fell into one bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    min: f64,
    max: f64,
    sum: f64,
    weight: f64,
}

pub(super) const EMPTY: Bucket = Bucket { min: f64::INFINITY, max: f64::NEG_INFINITY, sum: 0.0, weight: 0.0 };

impl Bucket {
    /// Nothing that is recorded is not a number: plain comparisons do.
    pub(super) fn add(&mut self, value: f64, weight: f64) {
        self.min = if value < self.min { value } else { self.min };
        self.max = if value > self.max { value } else { self.max };
        self.sum += value * weight;
        self.weight += weight;
    }
}

/// Smallest, mean and largest value per bucket.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    start: Time,
    end: Time,
    width: Duration,
    buckets: Vec<Bucket>,
    /// The bucket of the value before, and where it ends: most values fall into the same one.
    current: usize,
    current_end: Time,
}

impl Buckets {
    /// `count` buckets that cover `length` from `start` on.
    pub(crate) fn new(start: Time, length: Duration, count: usize) -> Self {
        let width = Duration::from_nanos(length.as_nanos().div_ceil(count.max(1) as u64).max(1));
        let buckets = vec![EMPTY; count.max(1)];
        let end = start + width.saturating_mul(buckets.len() as u64);
        Self { start, end, width, buckets, current: 0, current_end: start + width }
    }

    /// Adds a value at a time. Values outside the time that is covered are not kept.
    pub(crate) fn record(&mut self, at: Time, value: f64) {
        self.record_weighted(at, value, 1.0);
    }

    /// Adds a value that counts for `weight` in the mean.
    fn record_weighted(&mut self, at: Time, value: f64, weight: f64) {
        if at < self.start || at >= self.end {
            return;
        }
        if at >= self.current_end || at + self.width < self.current_end {
            self.current = (at.saturating_since(self.start) / self.width) as usize;
            self.current_end = self.start + self.width.saturating_mul(self.current as u64 + 1);
        }
        if let Some(bucket) = self.buckets.get_mut(self.current) {
            bucket.add(value, weight);
        }
    }

    /// Adds a value that held from `since` until `now`: in each bucket it counts for the seconds that it held there.
    pub(crate) fn record_held(&mut self, since: Time, now: Time, value: f64) {
        for (at, seconds) in parts(since, now, self.start, self.width) {
            self.record_weighted(at, value, seconds);
        }
    }

    /// The sum of each bucket over its length: a rate from amounts.
    pub(crate) fn sums_per_second(&self, plot: &str, name: &str, unit: &str) -> Option<Series> {
        let mut series = self.to_result(plot, name, unit)?;
        let rate = |bucket: &Bucket| Some(round(bucket.sum / self.width.as_secs_f64()));
        series.mean = self.buckets.iter().map(rate).collect();
        series.min.clone_from(&series.mean);
        series.max.clone_from(&series.mean);
        Some(series)
    }

    /// As plain data; `None` when nothing was recorded.
    pub(crate) fn to_result(&self, plot: &str, name: &str, unit: &str) -> Option<Series> {
        to_series(&self.buckets, self.start, self.width, plot, name, unit)
    }
}

/// The time from `since` until `now`, cut at the borders of buckets of `width` from `start` on: when each part begins, and its seconds.
pub(super) fn parts(
    since: Time,
    now: Time,
    start: Time,
    width: Duration,
) -> impl Iterator<Item = (Time, f64)> {
    let mut next = (now >= start).then_some(since.max(start));
    std::iter::from_fn(move || {
        let from = next?;
        let border = start + width.saturating_mul(from.saturating_since(start) / width + 1);
        let end = border.min(now);
        next = (end < now).then_some(end);
        Some((from, end.saturating_since(from).as_secs_f64()))
    })
}

/// Buckets of this width as plain data, rounded to four decimals to keep files small; `None` when nothing was recorded.
pub(super) fn to_series(
    buckets: &[Bucket],
    start: Time,
    width: Duration,
    plot: &str,
    name: &str,
    unit: &str,
) -> Option<Series> {
    if buckets.iter().all(|bucket| bucket.min > bucket.max) {
        return None;
    }
    let column = |of: fn(&Bucket) -> f64| {
        let value = |bucket: &Bucket| (bucket.min <= bucket.max).then(|| round(of(bucket)));
        buckets.iter().map(value).collect()
    };
    Some(Series {
        plot: plot.to_owned(),
        name: name.to_owned(),
        unit: unit.to_owned(),
        start_s: start.as_secs_f64(),
        bucket_s: width.as_secs_f64(),
        min: column(|bucket| bucket.min),
        mean: column(|bucket| if bucket.weight > 0.0 { bucket.sum / bucket.weight } else { bucket.min }),
        max: column(|bucket| bucket.max),
    })
}

fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_into_their_buckets() {
        let mut buckets = Buckets::new(Time::ZERO, Duration::from_secs(4), 4);
        for (ms, value) in [(100, 1.0), (900, 3.0), (3_999, 7.0), (1_000, 5.0), (4_000, 99.0)] {
            buckets.record(Time::ZERO + Duration::from_millis(ms), value);
        }
        let series = buckets.to_result("delay", "x", "ms").unwrap();
        assert_eq!(series.mean, [Some(2.0), Some(5.0), None, Some(7.0)]);
        assert_eq!(series.min[0], Some(1.0));
        assert_eq!(series.max[0], Some(3.0));
    }

    #[test]
    fn a_value_counts_in_each_bucket_for_as_long_as_it_held_there() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let mut buckets = Buckets::new(at(1_000), Duration::from_secs(4), 4);
        for (since, now, value) in
            [(0, 1_500, 2.0), (1_500, 4_500, 4.0), (4_500, 4_500, 9.0), (4_500, 9_000, 0.0)]
        {
            buckets.record_held(at(since), at(now), value);
        }
        let series = buckets.to_result("queue", "x", "bytes").unwrap();
        assert_eq!(series.mean, [Some(3.0), Some(4.0), Some(4.0), Some(2.0)]);
        assert_eq!(series.max, [Some(4.0), Some(4.0), Some(4.0), Some(9.0)]);
    }

    #[test]
    fn nothing_recorded_is_no_series() {
        assert!(Buckets::new(Time::ZERO, Duration::from_secs(1), 10).to_result("delay", "x", "ms").is_none());
    }
}
