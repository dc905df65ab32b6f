//! How old things were.

use serde_json::{Value, json};
use taut_core::Duration;

/// Ages, in steps of 0.1 ms to 2 s.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    steps: Vec<u32>,
    count: u64,
}

impl Ages {
    const STEPS: usize = 20_000;

    pub(crate) fn add(&mut self, age: Duration) {
        if self.steps.is_empty() {
            self.steps = vec![0; Self::STEPS];
        }
        let step = usize::try_from(age.as_nanos() / 100_000).unwrap_or(usize::MAX);
        self.steps[step.min(Self::STEPS - 1)] += 1;
        self.count += 1;
    }

    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// In ms; `None`: there is none.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let needed = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut sum = 0;
        let step = self.steps.iter().position(|count| {
            sum += u64::from(*count);
            sum >= needed
        })?;
        Some((step + 1) as f64 / 10.0)
    }

    pub(crate) fn as_json(&self) -> Value {
        json!({ "p50": self.quantile(0.5), "p95": self.quantile(0.95), "p99": self.quantile(0.99) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_ends_of_steps() {
        let mut ages = Ages::default();
        assert_eq!(ages.quantile(0.5), None);
        (1..=100).for_each(|ms| ages.add(Duration::from_millis(ms)));
        assert_eq!((ages.count(), ages.quantile(0.5), ages.quantile(1.0)), (100, Some(50.1), Some(100.1)));
    }
}
