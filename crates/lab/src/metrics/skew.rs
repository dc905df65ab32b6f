//! How far two media of one direction are apart.

use taut_core::{Duration, Medium};

use super::distribution::Summary;
use taut_report::result::{Distribution, SkewResult};

/// Delay of the second medium less the latest delay of the first, at each delivery of the second.
#[derive(Clone, Debug, Default)]
pub(super) struct Skews {
    latest: [Option<Duration>; Medium::ALL.len()],
    pairs: [Signed; PAIRS.len()],
}

const PAIRS: [(Medium, Medium); 3] =
    [(Medium::Haptic, Medium::Audio), (Medium::Haptic, Medium::Video), (Medium::Audio, Medium::Video)];

/// A distribution of differences: the histogram holds them shifted, to be positive.
#[derive(Clone, Debug, Default)]
pub(super) struct Signed {
    shifted: Summary,
}

/// More than any delay that is measured.
const SHIFT: Duration = Duration::from_secs(10);

impl Signed {
    /// Adds `a − b`.
    pub(super) fn record(&mut self, a: Duration, b: Duration) {
        self.shifted.record((SHIFT + a).saturating_sub(b));
    }

    /// In milliseconds. `None` when nothing was recorded.
    pub(super) fn to_result(&self) -> Option<Distribution> {
        self.shifted.to_result().map(shift_back)
    }
}

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

fn shift_back(mut result: Distribution) -> Distribution {
    let shift = SHIFT.as_millis_f64();
    for value in [
        &mut result.mean,
        &mut result.min,
        &mut result.p50,
        &mut result.p90,
        &mut result.p95,
        &mut result.p99,
        &mut result.p999,
        &mut result.max,
    ] {
        *value -= shift;
    }
    result.cdf.iter_mut().for_each(|(value, _)| *value -= shift);
    result
}
