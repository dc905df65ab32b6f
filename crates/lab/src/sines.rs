//! A hand that is led by sines, and what it feels by frequency.
//!
//! It presses by 8 mm and moves there by a sum of sines between 0.5 and 10 Hz, each with a whole number of periods
//! in 10 s, with Schroeder's phases (*Synthesis of low-peak-factor signals*, IEEE Trans. Information Theory 16(1), 1970). The force on
//! it at each frequency by its motion there, −F/X, is what it feels (transmitted impedance: Lawrence, *Stability and transparency in
//! bilateral teleoperation*, IEEE Trans. Robotics and Automation 9(5), 1993, times jω); k + jωb − ω²m is fitted to it by least squares. No
//! loop is closed through a led hand, so that it says what a law shows even where a hand of flesh would rattle.

use std::f64::consts::{PI, TAU};

use taut_agent::control::Motion;
use taut_qos::touch::Touch;
use taut_report::result::FeltResult;

/// Hz.
pub(crate) const FREQUENCIES: [f64; 10] = [0.5, 0.7, 1.1, 1.7, 2.3, 3.1, 4.3, 5.9, 7.9, 9.7];
/// s, in which all of them have whole periods.
pub(crate) const BASE: f64 = 10.0;
/// Before anything is measured, in bases.
pub(crate) const WARM: u64 = 1;
/// How far the hand is in the thing, m, in the middle of its motion; and its amplitude below 2 Hz, which falls with the frequency above.
const PRESSED: f64 = 0.008;
const AMPLITUDE: f64 = 0.000_6;

/// What a hand is led by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sines {
    amplitudes: [f64; FREQUENCIES.len()],
    phases: [f64; FREQUENCIES.len()],
}

impl Sines {
    pub(crate) fn new() -> Self {
        Self {
            amplitudes: FREQUENCIES.map(|hz| AMPLITUDE * (2.0 / hz).min(1.0)),
            phases: std::array::from_fn(|k| -PI * (k * (k + 1)) as f64 / FREQUENCIES.len() as f64),
        }
    }

    /// It goes in during the first second.
    pub(crate) fn at(&self, seconds: f64) -> Motion {
        let share = seconds.clamp(0.0, 1.0);
        let (mut x, mut v) = (PRESSED, 0.0);
        for ((amplitude, phase), hz) in self.amplitudes.iter().zip(self.phases).zip(FREQUENCIES) {
            let (sin, cos) = libm::sincos(TAU * hz * seconds + phase);
            x += amplitude * sin;
            v += amplitude * TAU * hz * cos;
        }
        let rises = if share < 1.0 { x } else { 0.0 };
        Motion { position: [share * x, 0.0, 0.0], velocity: [share * v + rises, 0.0, 0.0] }
    }
}

/// −F/X at each frequency, N/m.
pub(crate) type Impedance = [[f64; 2]; FREQUENCIES.len()];

/// sin and cos of each frequency at so many seconds.
pub(crate) fn turns(seconds: f64) -> Impedance {
    FREQUENCIES.map(|hz| {
        let (sin, cos) = libm::sincos(TAU * hz * seconds);
        [sin, cos]
    })
}

/// What arm and surface show without delay.
pub(crate) fn truth(touch: &Touch) -> Impedance {
    FREQUENCIES.map(|hz| touch.shown(TAU * hz))
}

/// One signal, correlated with each frequency.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spectrum {
    sums: Impedance,
    sum: f64,
    squares: f64,
    count: f64,
}

impl Spectrum {
    pub(crate) fn add(&mut self, turns: &Impedance, value: f64, weight: f64) {
        let weighted = weight * value;
        for (sum, [sin, cos]) in self.sums.iter_mut().zip(turns) {
            *sum = [sum[0] + weighted * cos, sum[1] - weighted * sin];
        }
        (self.sum, self.squares, self.count) =
            (self.sum + weighted, self.squares + weighted * value, self.count + weight);
    }

    fn mean(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    fn square_around_mean(&self) -> f64 {
        (self.squares / self.count.max(1.0) - self.mean() * self.mean()).max(0.0)
    }

    /// Of what is not the mean, the share that is at none of the frequencies.
    fn other_share(&self) -> f64 {
        let at: f64 = self.sums.iter().map(|[re, im]| 2.0 * (re * re + im * im)).sum();
        let all = self.square_around_mean();
        if all < 1e-12 { 0.0 } else { (1.0 - at / (self.count * self.count) / all).max(0.0) }
    }

    fn plus(&mut self, other: &Self) {
        for (sum, more) in self.sums.iter_mut().zip(other.sums) {
            *sum = [sum[0] + more[0], sum[1] + more[1]];
        }
        self.sum += other.sum;
        self.squares += other.squares;
        self.count += other.count;
    }
}

/// What the hand was pushed with, how it and the arm moved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Felt {
    force: Spectrum,
    hand: Spectrum,
    apart: Spectrum,
    missed: f64,
    /// Periods that were measured, one by one, and those in between.
    measured: f64,
    skipped: f64,
}

/// At one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// In the middle of the time in which the force is held, s: the force, N, and where the hand is then, m, along x.
    pub(crate) middle: f64,
    pub(crate) felt: f64,
    pub(crate) hand: f64,
    /// How far the arm is from the hand, m, and what it meets, N.
    pub(crate) apart: f64,
    pub(crate) met: f64,
    /// How many periods it stands for.
    pub(crate) periods: f64,
}

impl Felt {
    pub(crate) fn add(&mut self, moment: &Moment) {
        let turns = turns(moment.middle);
        self.force.add(&turns, moment.felt, moment.periods);
        self.hand.add(&turns, moment.hand, moment.periods);
        self.apart.add(&turns, moment.apart, moment.periods);
        let error = moment.felt - moment.met;
        self.missed += error * error * moment.periods;
        self.measured += 1.0;
        self.skipped += (libm::round(moment.periods) - 1.0).max(0.0);
    }

    /// Of the periods, those that were not measured by themselves, per cent.
    pub(crate) fn skipped_percent(&self) -> f64 {
        100.0 * self.skipped / (self.measured + self.skipped).max(1.0)
    }

    pub(crate) fn plus(&mut self, other: &Self) {
        self.force.plus(&other.force);
        self.hand.plus(&other.hand);
        self.apart.plus(&other.apart);
        self.missed += other.missed;
        self.measured += other.measured;
        self.skipped += other.skipped;
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.force.count == 0.0
    }

    pub(crate) fn impedance(&self) -> Impedance {
        std::array::from_fn(|k| {
            let ([a, b], [c, d]) = (self.force.sums[k], self.hand.sums[k]);
            let size = c * c + d * d;
            [-(a * c + b * d) / size, -(b * c - a * d) / size]
        })
    }

    /// Beside the truth, where there is one.
    pub(crate) fn result(&self, truth: Option<&Impedance>) -> FeltResult {
        let impedance = self.impedance();
        let [stiffness, damping, inertia, unfitted] = fitted(&impedance);
        FeltResult {
            slow_n_m: impedance[0][0],
            stiffness_n_m: stiffness,
            damping_ns_m: damping,
            inertia_kg: inertia,
            unfitted_percent: 100.0 * unfitted,
            other_percent: 100.0 * self.force.other_share().sqrt(),
            error_percent: truth.map(|truth| error_percent(&impedance, truth)),
            tracking_rms_mm: 1e3 * self.apart.square_around_mean().sqrt(),
            drift_mm: 1e3 * self.apart.mean(),
            force_error_rms_n: (self.missed / self.force.count.max(1.0)).sqrt(),
            skipped_percent: self.skipped_percent(),
        }
    }
}

/// k, b and m of k + jωb − ω²m by least squares, and the root mean square of what is left by that of the impedance.
fn fitted(impedance: &Impedance) -> [f64; 4] {
    let omegas = FREQUENCIES.map(|hz| TAU * hz);
    let over = |of: &dyn Fn(f64, [f64; 2]) -> f64| -> f64 {
        omegas.iter().zip(impedance).map(|(omega, z)| of(*omega, *z)).sum()
    };
    let [n, two, four] = [0, 2, 4].map(|power| over(&|omega, _| omega.powi(power)));
    let (re, bent) = (over(&|_, [re, _]| re), over(&|omega, [re, _]| omega * omega * re));
    let determinant = n * four - two * two;
    let stiffness = (re * four - bent * two) / determinant;
    let inertia = (re * two - bent * n) / determinant;
    let damping = over(&|omega, [_, im]| omega * im) / two;
    let left = over(&|omega, [re, im]| {
        let (a, b) = (re - stiffness + inertia * omega * omega, im - damping * omega);
        a * a + b * b
    });
    let all = over(&|_, [re, im]| re * re + im * im);
    [stiffness, damping, inertia, (left / all.max(f64::MIN_POSITIVE)).sqrt()]
}

/// Root mean square over the frequencies of how far it is from the truth, by the truth, per cent.
pub(crate) fn error_percent(impedance: &Impedance, truth: &Impedance) -> f64 {
    let squares = impedance.iter().zip(truth).map(|(z, t)| {
        let (a, b) = (z[0] - t[0], z[1] - t[1]);
        (a * a + b * b) / (t[0] * t[0] + t[1] * t[1])
    });
    100.0 * (squares.sum::<f64>() / FREQUENCIES.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fitted_is_what_it_was_made_of() {
        let made = FREQUENCIES.map(|hz| {
            let omega = TAU * hz;
            [1_200.0 - 0.3 * omega * omega, 7.0 * omega]
        });
        let [stiffness, damping, inertia, left] = fitted(&made);
        assert!((stiffness - 1_200.0).abs() < 1e-6 && (damping - 7.0).abs() < 1e-9, "{stiffness} {damping}");
        assert!((inertia - 0.3).abs() < 1e-9 && left < 1e-9, "{inertia} {left}");
    }
}
