//! Is it calm what an operator feels who presses and holds still?
//!
//! A loop that gives way to delay oscillates between 2 and 50 Hz: below, a hand moves by intention; above, no loop through a hand
//! follows. While the hand rests, the force is therefore filtered to that band, and the root mean square of what is left in
//! the second half of a rest, when what the hand did before has faded, is held against the mean force.

use std::f64::consts::{FRAC_1_SQRT_2, TAU};

/// Hz.
const BAND: [f64; 2] = [2.0, 50.0];
/// Of the mean force, per cent: from here on it is not calm.
pub(in crate::run) const MOST_RIPPLE_PERCENT: f64 = 7.0;
/// An oscillation that grows by this from the first half of the rests to the second is not calm, however small it is yet.
const MOST_GROWTH: f64 = 1.5;
/// Less than this, per cent, is tremor, which comes and goes.
const TREMOR_PERCENT: f64 = MOST_RIPPLE_PERCENT / 2.0;
/// Less than this says nothing, s.
const SHORTEST: f64 = 0.2;

/// The force at rest.
#[derive(Debug)]
pub(super) struct Calm {
    seconds: f64,
    filter: Option<[Biquad; 2]>,
    /// Of the band, squared: in the first half of each rest, when what the hand did before fades, and in the second; and how many.
    squares: [f64; 2],
    counts: [u64; 2],
    /// Of the force in the second halves, on the arm and on the hand.
    sums: [f64; 2],
}

/// What it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) seconds: f64,
    /// On the arm, and on the hand, N.
    pub(super) mean: f64,
    pub(super) felt: f64,
    pub(super) ripple_percent: f64,
    pub(super) growth: f64,
}

impl Calm {
    /// Told once in so many seconds.
    pub(super) fn new(seconds: f64) -> Self {
        Self { seconds, filter: None, squares: [0.0; 2], counts: [0; 2], sums: [0.0; 2] }
    }

    /// The force on the arm and on the hand, N, and the rest that they belong to: since when, and how long it is, s.
    pub(super) fn record(&mut self, [force, felt]: [f64; 2], rest: Option<[f64; 2]>) {
        let Some([passed, lasts]) = rest else {
            self.filter = None;
            return;
        };
        let filter = self.filter.get_or_insert_with(|| Biquad::band(1.0 / self.seconds, force));
        let ripple = filter.iter_mut().fold(force, |x, stage| stage.filter(x));
        let half = usize::from(passed >= lasts / 2.0);
        self.squares[half] += ripple * ripple;
        self.counts[half] += 1;
        if half == 1 {
            self.sums = [self.sums[0] + force, self.sums[1] + felt];
        }
    }

    /// `None`: the hand did not rest long enough on anything.
    pub(super) fn found(&self) -> Option<Found> {
        let seconds = self.counts[1] as f64 * self.seconds;
        let [mean, felt] = self.sums.map(|sum| sum / self.counts[1].max(1) as f64);
        if seconds < SHORTEST || mean <= 0.0 || self.counts[0] == 0 {
            return None;
        }
        let [first, second] = [0, 1].map(|half| (self.squares[half] / self.counts[half] as f64).sqrt());
        let growth = second / first.max(f64::MIN_POSITIVE);
        Some(Found { seconds, mean, felt, ripple_percent: 100.0 * second / mean, growth })
    }
}

impl Found {
    /// Did most of the force come back, of what the device can push? Without it there is no loop.
    pub(super) fn came_back(&self, device_force: f64) -> bool {
        self.felt >= 0.5 * self.mean.min(device_force)
    }

    pub(super) fn is_calm(&self) -> bool {
        let grows = self.growth > MOST_GROWTH && self.ripple_percent > TREMOR_PERCENT;
        self.ripple_percent < MOST_RIPPLE_PERCENT && !grows
    }
}

/// A filter of the second order, transposed direct form II.
#[derive(Clone, Copy, Debug)]
struct Biquad {
    b: [f64; 3],
    a: [f64; 2],
    z: [f64; 2],
}

impl Biquad {
    /// Butterworth's high-pass and low-pass at the ends of the band, at so many samples per second, having seen `x` for ever. What
    /// is sampled too slowly for the low-pass has nothing above it.
    fn band(rate: f64, x: f64) -> [Self; 2] {
        let [low, high] = BAND.map(|hz| hz.min(0.45 * rate));
        [Self::new(low / rate, -1.0, x), Self::new(high / rate, 1.0, 0.0)]
    }

    /// At this part of the rate; `sign` is −1 of a high-pass, 1 of a low-pass (Bristow-Johnson, *Cookbook formulae for audio
    /// equalizer biquad filter coefficients*).
    fn new(part: f64, sign: f64, x: f64) -> Self {
        let (sin, cos) = libm::sincos(TAU * part);
        let alpha = sin * FRAC_1_SQRT_2;
        let scale = 1.0 / (1.0 + alpha);
        let edge = (1.0 - sign * cos) / 2.0 * scale;
        let b = [edge, 2.0 * sign * edge, edge];
        let a = [-2.0 * cos * scale, (1.0 - alpha) * scale];
        let y = x * b.iter().sum::<f64>() / (1.0 + a[0] + a[1]);
        Self { b, a, z: [y - b[0] * x, b[2] * x - a[1] * y] }
    }

    fn filter(&mut self, x: f64) -> f64 {
        let y = self.b[0] * x + self.z[0];
        self.z = [self.b[1] * x - self.a[0] * y + self.z[1], self.b[2] * x - self.a[1] * y];
        y
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three rests of 2 s in which the force is this.
    fn rests(force: impl Fn(f64) -> f64) -> Found {
        let mut calm = Calm::new(0.001);
        for _ in 0..3 {
            for step in 0..2_000 {
                let passed = f64::from(step) / 1e3;
                calm.record([force(passed); 2], Some([passed, 2.0]));
            }
            calm.record([0.0; 2], None);
        }
        calm.found().expect("it rested")
    }

    fn wave(hz: f64, at: f64) -> f64 {
        libm::sin(TAU * hz * at)
    }

    #[test]
    fn ripple_counts_between_2_and_50_hz_and_slow_changes_do_not() {
        let steady = rests(|_| 4.0);
        assert!(steady.is_calm() && steady.ripple_percent < 1e-9 && (steady.mean - 4.0).abs() < 1e-9);
        assert!(rests(|at| 4.0 + wave(0.3, at)).is_calm(), "a hand that gives way");
        assert!(rests(|at| 4.0 + 0.5 * wave(300.0, at)).is_calm());
        for hz in [4.0, 12.5, 30.0] {
            let found = rests(|at| 4.0 + 0.5 * wave(hz, at));
            // 0.5 N of amplitude are 8.8 % of 4 N.
            assert!(!found.is_calm() && (8.0..9.2).contains(&found.ripple_percent), "{hz} Hz: {found:?}");
            assert!(rests(|at| 4.0 + 0.3 * wave(hz, at)).is_calm(), "{hz} Hz");
        }
    }

    #[test]
    fn an_oscillation_that_grows_is_not_calm_and_one_that_fades_is() {
        let of = |rate: f64| rests(|at| 4.0 + 0.28 * libm::exp(rate * (at - 1.25)) * wave(12.5, at));
        let (grows, fades) = (of(0.8), of(-0.8));
        assert!(grows.ripple_percent < MOST_RIPPLE_PERCENT && !grows.is_calm(), "{grows:?}");
        assert!(fades.is_calm(), "{fades:?}");
    }

    #[test]
    fn what_is_felt_on_the_move_and_for_too_short_a_time_says_nothing() {
        let mut calm = Calm::new(0.001);
        (0..5_000).for_each(|_| calm.record([3.0; 2], None));
        (0..300).for_each(|step| calm.record([3.0; 2], Some([f64::from(step) / 1e3, 0.3])));
        assert_eq!(calm.found(), None);
    }
}
