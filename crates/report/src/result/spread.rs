//! How one quantity is spread over the runs of a variant.

use serde::{Deserialize, Serialize};

/// The values of one quantity in all runs of a variant together, for boxes and cumulative distributions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// `"video frame latency"`.
    pub name: String,
    /// `"ms"`.
    pub unit: String,
    /// How many values.
    pub count: u64,
    /// (Share of the values, what these do not exceed), both ascending, from 0 to 1.
    pub quantiles: Vec<(f64, f64)>,
}

impl Spread {
    /// Shares at which it is kept.
    const SHARES: [f64; 25] = [
        0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75,
        0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1.0,
    ];

    /// Of the runs' values together: of each run how many there are, and points (value, share of values not above it), ascending.
    /// `None` when there are none.
    pub fn pooled<'a>(
        name: &str,
        unit: &str,
        runs: impl IntoIterator<Item = (u64, &'a [(f64, f64)])>,
    ) -> Option<Self> {
        let (mut steps, mut count) = (Vec::new(), 0);
        for (values, cdf) in runs {
            count += values;
            let mut below = 0.0;
            for (value, share) in cdf {
                steps.push((*value, (share - below) * values as f64));
                below = *share;
            }
        }
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (last, _) = *steps.last()?;
        let all: f64 = steps.iter().map(|(_, weight)| weight).sum();
        let (mut place, mut below) = (0, 0.0);
        let mut at = |share: f64| {
            // A hair of tolerance for sums that should be whole.
            while place < steps.len() && below + steps[place].1 < share * all * (1.0 - 1e-9) {
                below += steps[place].1;
                place += 1;
            }
            steps.get(place).map_or(last, |(value, _)| *value)
        };
        let quantiles = Self::SHARES.iter().map(|share| (*share, at(*share))).collect();
        Some(Self { name: name.to_owned(), unit: unit.to_owned(), count, quantiles })
    }

    /// What this share of the values does not exceed.
    pub fn at(&self, share: f64) -> f64 {
        let found = self.quantiles.iter().find(|(known, _)| *known >= share).or(self.quantiles.last());
        found.map_or(f64::NAN, |(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_count_by_their_numbers_of_values() {
        let three: &[(f64, f64)] = &[(1.0, 1.0 / 3.0), (2.0, 2.0 / 3.0), (3.0, 1.0)];
        let one: &[(f64, f64)] = &[(9.0, 1.0)];
        let spread = Spread::pooled("x", "ms", [(3, three), (1, one)]).unwrap();
        assert_eq!(spread.count, 4);
        let at = |share: f64| spread.at(share).to_string();
        assert_eq!([0.0, 0.25, 0.5, 0.75, 0.95].map(at), ["1", "1", "2", "3", "9"]);
        assert!(Spread::pooled("x", "ms", []).is_none());
    }
}
