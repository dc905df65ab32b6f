//! Counts of lengths of time in bounded memory.

/// Bits that tell two neighbouring numbers apart: a bucket is as wide as 1/128 of what is in it.
const BITS: u32 = 7;
/// Everything longer counts as this: 2³⁸ ns, 275 s.
const LONGEST: u64 = (1 << 38) - 1;

/// A histogram whose buckets widen with what is in them, as Gil Tene's HdrHistogram has them. At most 16 kB.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    counts: Vec<u32>,
    total: u64,
}

impl Histogram {
    pub(crate) fn record(&mut self, nanos: u64) {
        let bucket = bucket_of(nanos.min(LONGEST));
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
        self.total += 1;
    }

    /// The largest number of the bucket in which the part `fraction` of all is reached; 0 when nothing was counted.
    pub(crate) fn at(&self, fraction: f64) -> u64 {
        let wanted = ((fraction * self.total as f64).ceil() as u64).max(1);
        let mut reached = 0;
        let bucket = self.counts.iter().position(|count| {
            reached += u64::from(*count);
            reached >= wanted
        });
        bucket.map_or(0, largest_in)
    }
}

fn bucket_of(value: u64) -> usize {
    let shift = (value | 1 << BITS).ilog2() - BITS;
    ((u64::from(shift) << BITS) + (value >> shift)) as usize
}

fn largest_in(bucket: usize) -> u64 {
    let shift = (bucket >> BITS).saturating_sub(1);
    let first = ((bucket - (shift << BITS)) as u64) << shift;
    first + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Seed;

    #[test]
    fn every_number_is_within_a_hundredth_of_its_bucket() {
        let mut rng = Seed::new(1).stream("numbers");
        for i in 0..20_000 {
            let value = (rng.next_u64() >> (26 + i % 38)).min(LONGEST);
            let largest = largest_in(bucket_of(value));
            assert!(largest >= value && largest - value <= value / 100, "{value} in {largest}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_numbers() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|micros| histogram.record(micros * 1_000));
        for (fraction, micros) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = histogram.at(fraction) as f64 / 1_000.0;
            assert!((found / micros - 1.0).abs() < 0.01, "{fraction}: {found}");
        }
        assert_eq!(Histogram::default().at(0.5), 0);
    }

    #[test]
    fn memory_does_not_grow_with_what_is_counted() {
        let mut histogram = Histogram::default();
        histogram.record(u64::MAX);
        assert!(histogram.counts.len() <= 4096);
    }
}
