//! How far two media of one direction are apart.

use taut_core::{Duration, Medium};

use super::distribution::Signed;
use taut_report::result::SkewResult;

/// Delay of the second medium less the latest delay of the first, at each delivery of the second.
#[derive(Clone, Debug, Default)]
pub(super) struct Skews {
    latest: [Option<Duration>; Medium::ALL.len()],
    pairs: [Signed; PAIRS.len()],
}

const PAIRS: [(Medium, Medium); 3] =
    [(Medium::Haptic, Medium::Audio), (Medium::Haptic, Medium::Video), (Medium::Audio, Medium::Video)];

impl Skews {
    pub(super) fn delivered(&mut self, medium: Medium, delay: Duration) {
        self.latest[medium as usize] = Some(delay);
        for (signed, (first, second)) in self.pairs.iter_mut().zip(PAIRS) {
            if second == medium
                && let Some(reference) = self.latest[first as usize]
            {
                signed.record(delay, reference);
            }
        }
    }

    pub(super) fn to_results(&self, direction: &str) -> Vec<SkewResult> {
        let result = |(signed, (first, second)): (&Signed, (Medium, Medium))| {
            Some(SkewResult {
                pair: format!("{direction} {}–{}", first.name(), second.name()),
                skew_ms: signed.to_result()?,
            })
        };
        self.pairs.iter().zip(PAIRS).filter_map(result).collect()
    }
}
