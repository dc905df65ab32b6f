//! How old things were.

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use taut_core::Duration;

/// Ages, in µs to three digits; what is older than an hour counts as that.
#[derive(Debug)]
pub(crate) struct Ages(Histogram<u32>);

const HOUR_US: u64 = 3_600_000_000;
const DIGITS: u8 = 3;

impl Default for Ages {
    fn default() -> Self {
        Self(Histogram::new_with_max(HOUR_US, DIGITS).expect("three digits of a number above one"))
    }
}

impl Ages {
    pub(crate) fn add(&mut self, age: Duration) {
        self.0.saturating_record(age.as_nanos() / 1_000);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// In ms; `None`: there is none.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(share) as f64 / 1e3)
    }

    pub(crate) fn as_json(&self) -> Value {
        json!({ "p50": self.quantile(0.5), "p95": self.quantile(0.95), "p99": self.quantile(0.99) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_to_three_digits_however_old_things_were() {
        let mut ages = Ages::default();
        assert_eq!(ages.quantile(0.5), None);
        for unit in [1, 10, 1_000] {
            ages = Ages::default();
            (1..=100).for_each(|age| ages.add(Duration::from_millis(age * unit)));
            let ms = [0.5, 0.99].map(|share| ages.quantile(share).unwrap() / unit as f64);
            assert_eq!((ages.count(), ms.map(|ms| (ms * 10.0).round() as u64)), (100, [500, 990]), "{unit}");
        }
    }
}
