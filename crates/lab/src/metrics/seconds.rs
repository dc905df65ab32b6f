//! Means per second of a quantity, in memory that does not grow with the run.

use taut_core::Time;

use super::distribution::Moments;
use taut_report::result::BucketMeans;

/// Seconds that are open at once. Values come by the time of what they are about, which may be a little out of order: by as
/// much as delays differ.
const OPEN: u64 = 32;

/// The means of one-second buckets, summed up: each second is kept until a value comes that is `OPEN` seconds newer, then
/// only its mean counts. A value that comes later than that is left out, and counted.
#[derive(Clone, Debug)]
pub(super) struct Seconds {
    start: Time,
    /// Sum and count of second `i` at `i % OPEN`, for the seconds from `oldest` on.
    open: [(f64, f64); OPEN as usize],
    oldest: u64,
    closed: Moments,
    left_out: u64,
}

impl Seconds {
    /// Counted from `start`; what is before it belongs to no second.
    pub(super) fn new(start: Time) -> Self {
        Self { start, open: [(0.0, 0.0); OPEN as usize], oldest: 0, closed: Moments::default(), left_out: 0 }
    }

    /// Adds a value at a time.
    pub(super) fn record(&mut self, at: Time, value: f64) {
        let Some(since) = at.as_nanos().checked_sub(self.start.as_nanos()) else { return };
        let second = since / 1_000_000_000;
        if second < self.oldest {
            self.left_out += 1;
            return;
        }
        if second >= self.oldest + OPEN {
            self.close_before(second + 1 - OPEN);
        }
        let (sum, count) = &mut self.open[(second % OPEN) as usize];
        *sum += value;
        *count += 1.0;
    }

    /// Closes the seconds before this one, in their order.
    #[cold]
    fn close_before(&mut self, oldest: u64) {
        // After so many all are empty, however long the silence was.
        for second in self.oldest..oldest.min(self.oldest + OPEN) {
            let (sum, count) = std::mem::take(&mut self.open[(second % OPEN) as usize]);
            if count > 0.0 {
                self.closed.record(sum / count);
            }
        }
        self.oldest = oldest;
    }

    /// `None` when nothing was recorded.
    pub(super) fn to_result(&self) -> Option<BucketMeans> {
        let mut all = self.clone();
        all.close_before(self.oldest + OPEN);
        let Moments { count, min, max, .. } = all.closed;
        let sd = all.closed.sd();
        all.closed.mean().map(|mean| BucketMeans { count, mean, sd, min, max, left_out: self.left_out })
    }
}

#[cfg(test)]
mod tests {
    use taut_core::Duration;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn values_out_of_order_fall_into_the_seconds_where_they_belong() {
        let values: Vec<(u64, f64)> = (0..400_000).map(|i| (i ^ 0x3fff, (i % 977) as f64)).collect();
        let mut seconds = Seconds::new(at(10_000));
        let mut buckets = vec![(0.0, 0.0); 400];
        for (ms, value) in values {
            seconds.record(at(ms), value);
            if ms >= 10_000 {
                let (sum, count) = &mut buckets[(ms as usize - 10_000) / 1000];
                *sum += value;
                *count += 1.0;
            }
        }
        let mut moments = Moments::default();
        buckets.iter().filter(|(_, count)| *count > 0.0).for_each(|(sum, count)| moments.record(sum / count));
        let result = seconds.to_result().unwrap();
        assert_eq!((result.count, result.left_out), (moments.count, 0));
        // To the bit: in the same order.
        assert_eq!((Some(result.mean), result.sd), (moments.mean(), moments.sd()));
        assert_eq!((result.min, result.max), (moments.min, moments.max));
    }

    #[test]
    fn a_value_for_a_second_that_is_closed_is_left_out_and_counted() {
        let mut seconds = Seconds::new(at(0));
        seconds.record(at(500), 1.0);
        seconds.record(at(31_999), 3.0);
        seconds.record(at(600), 5.0);
        assert_eq!(seconds.to_result().map(|r| (r.count, r.mean, r.left_out)), Some((2, 3.0, 0)));
        seconds.record(at(32_000), 3.0);
        seconds.record(at(999), 1e9);
        assert_eq!(seconds.to_result().map(|r| (r.count, r.mean, r.left_out)), Some((3, 3.0, 1)));
    }

    #[test]
    fn a_silence_of_a_year_is_passed_over() {
        let mut seconds = Seconds::new(at(0));
        seconds.record(at(500), 1.0);
        seconds.record(at(31_536_000_000), 2.0);
        assert_eq!(seconds.to_result().map(|r| (r.count, r.min, r.max)), Some((2, 1.0, 2.0)));
        assert_eq!(Seconds::new(at(0)).to_result(), None);
    }
}
