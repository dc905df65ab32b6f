//! Counts of whole numbers to three significant digits, in bounded memory.

/// Bits that tell two neighbouring numbers apart: 2¹⁰ ≥ 10³ steps from each power of two to the next.
const BITS: u32 = 10;

/// A histogram with buckets as wide as a thousandth of what is in them, as Gil Tene's HdrHistogram has them: numbers up to
/// 2047 are counted exactly, and from each further power of two to the next there are 1024 equal buckets.
///
/// It grows with the distance of the smallest and the largest number, to 220 kB for any that 64 bits hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    /// From bucket `first` on.
    counts: Vec<u32>,
    first: usize,
    total: u64,
}

impl Histogram {
    /// Counts a number.
    #[inline]
    pub(super) fn record(&mut self, value: u64) {
        let bucket = bucket_of(value);
        if bucket.wrapping_sub(self.first) >= self.counts.len() {
            self.reach(bucket);
        }
        let count = &mut self.counts[bucket - self.first];
        *count = count.saturating_add(1);
        self.total += 1;
    }

    /// For each of the ascending fractions in [0, 1], the largest number of the bucket in which that part of all numbers is
    /// reached; the smallest of the first bucket for 0. All zero when nothing was counted.
    pub(super) fn values_at(&self, fractions: impl IntoIterator<Item = f64>) -> impl Iterator<Item = u64> {
        let (mut bucket, mut reached) = (0, self.counts.first().map_or(0, |count| u64::from(*count)));
        fractions.into_iter().map(move |fraction| {
            let wanted = ((fraction * self.total as f64).ceil() as u64).max(1);
            while reached < wanted && bucket + 1 < self.counts.len() {
                bucket += 1;
                reached += u64::from(self.counts[bucket]);
            }
            let (least, largest) = range_of(self.first + bucket);
            if fraction > 0.0 { largest } else { least }
        })
    }

    /// Grows by whole blocks, at either end.
    #[cold]
    fn reach(&mut self, bucket: usize) {
        const BLOCK: usize = 1 << 8;
        let below = if self.counts.is_empty() { bucket } else { bucket.min(self.first) } / BLOCK * BLOCK;
        let end = (bucket + 1).max(self.first + self.counts.len()).next_multiple_of(BLOCK);
        let grown = if self.counts.is_empty() { 0 } else { self.first - below };
        self.counts.splice(..0, std::iter::repeat_n(0, grown));
        self.counts.resize(end - below, 0);
        self.first = below;
    }
}

fn bucket_of(value: u64) -> usize {
    let shift = (value | 1 << BITS).ilog2() - BITS;
    ((u64::from(shift) << BITS) + (value >> shift)) as usize
}

/// The smallest and the largest number in a bucket.
fn range_of(bucket: usize) -> (u64, u64) {
    let shift = (bucket >> BITS).saturating_sub(1);
    let first = ((bucket - (shift << BITS)) as u64) << shift;
    (first, first + ((1 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Seed;

    #[test]
    fn every_number_is_in_the_range_of_its_bucket_and_the_ranges_are_narrow() {
        let mut rng = Seed::new(1).stream("numbers");
        let ends = [0, 1, 1023, 1024, 2047, 2048, 2049, u64::MAX];
        let random = (0..10_000).map(|i| rng.next_u64() >> (i % 64));
        for value in ends.into_iter().chain(random) {
            let (first, last) = range_of(bucket_of(value));
            assert!(first <= value && value <= last, "{value} is not in {first}..={last}");
            assert!(last - first <= value / 1_000, "{first}..={last}");
        }
    }

    #[test]
    fn buckets_follow_one_another_without_a_gap() {
        for bucket in 0..bucket_of(u64::MAX) {
            assert_eq!(range_of(bucket).1 + 1, range_of(bucket + 1).0);
        }
    }

    #[test]
    fn fractions_are_reached_where_a_sorted_list_reaches_them() {
        let mut rng = Seed::new(2).stream("numbers");
        let mut numbers: Vec<u64> = (0..5_000).map(|_| rng.next_u64() >> (30 + rng.below(30))).collect();
        let mut histogram = Histogram::default();
        numbers.iter().for_each(|number| histogram.record(*number));
        numbers.sort_unstable();
        let fractions = [0.0001, 0.25, 0.5, 0.5, 0.999, 1.0];
        for (value, fraction) in histogram.values_at(fractions).zip(fractions) {
            let exact = numbers[(fraction * 5_000.0_f64).ceil() as usize - 1];
            assert_eq!(value, range_of(bucket_of(exact)).1, "at {fraction}");
        }
        assert_eq!(histogram.values_at([0.0]).next(), Some(range_of(bucket_of(numbers[0])).0));
        assert_eq!(Histogram::default().values_at([0.0, 0.5, 1.0]).collect::<Vec<_>>(), [0; 3]);
    }
}
