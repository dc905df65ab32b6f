//! What stands between a mass and who reads or pushes it: encoders that step, filters, amplifiers that lag, bearings that rub.

use taut_core::Duration;

use crate::demo::Vector;
use crate::demo::plant::Body;
use crate::hand::norm;
use crate::hold::Transition;

/// Reads where a mass is, once a period. Without steps its velocity is the mass's own; with them it is the difference of two readings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoder {
    /// m; 0: exact.
    step: f64,
    /// Of the low-pass on the velocity, s.
    filter: f64,
    read: Body,
    /// The velocity before the filter, m/s.
    raw: Vector,
}

impl Encoder {
    /// It has read this for ever.
    pub(crate) fn new(step: f64, filter: Duration, body: &Body) -> Self {
        let mut encoder = Self { step, filter: filter.as_secs_f64(), read: *body, raw: body.velocity };
        encoder.read.position = encoder.stepped(&body.position);
        encoder
    }

    fn stepped(&self, position: &Vector) -> Vector {
        if self.step > 0.0 {
            position.map(|part| libm::round(part / self.step) * self.step)
        } else {
            *position
        }
    }

    /// So many seconds after the last reading the mass is here.
    pub(crate) fn read(&mut self, body: &Body, seconds: f64) -> Body {
        let position = self.stepped(&body.position);
        let last = self.read;
        let raw = if self.step > 0.0 {
            std::array::from_fn(|axis| (position[axis] - last.position[axis]) / seconds)
        } else {
            body.velocity
        };
        // Without a filter it is the very number.
        let velocity = if self.filter > 0.0 {
            // Exact for what changes evenly between two readings, so that the filter comes late by its time constant, whatever the period.
            let share = follows(seconds, self.filter);
            let [old, new] =
                [share * self.filter / seconds - (1.0 - share), 1.0 - share * self.filter / seconds];
            std::array::from_fn(|axis| {
                (1.0 - share) * last.velocity[axis] + old * self.raw[axis] + new * raw[axis]
            })
        } else {
            raw
        };
        (self.read, self.raw) = (Body { position, velocity }, raw);
        self.read
    }
}

/// An amplifier and its motor: the force follows what is asked with a time constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amplifier {
    /// s; 0: at once.
    lag: f64,
    force: Vector,
}

impl Amplifier {
    /// It makes no force yet.
    pub(crate) fn new(lag: Duration) -> Self {
        Self { lag: lag.as_secs_f64(), force: [0.0; 3] }
    }

    pub(crate) const fn is_immediate(&self) -> bool {
        self.lag == 0.0
    }

    /// N.
    pub(crate) const fn force(&self) -> Vector {
        self.force
    }

    /// So many seconds pass while this is asked; the mean force in them.
    pub(crate) fn pass(&mut self, asked: &Vector, seconds: f64) -> Vector {
        if self.is_immediate() {
            self.force = *asked;
            return self.force;
        }
        let share = follows(seconds, self.lag);
        let mean = share * self.lag / seconds;
        let before = self.force;
        self.force = std::array::from_fn(|axis| before[axis] + share * (asked[axis] - before[axis]));
        std::array::from_fn(|axis| asked[axis] + mean * (before[axis] - asked[axis]))
    }
}

/// How far a first-order lag comes in so many seconds, 0 to 1.
fn follows(seconds: f64, constant: f64) -> f64 {
    if constant > 0.0 { 1.0 - libm::exp(-seconds / constant) } else { 1.0 }
}

/// The Coulomb friction, N, that is held through a step of a mass, kg: what would bring it to rest at the end of the step, or as much of it as there is. A mass at rest
/// under less than `most`, N, stays where it is.
pub(crate) fn friction(most: f64, mass: f64, held: [&Transition; 3], free: &Vector) -> Vector {
    let mut force: Vector = std::array::from_fn(|axis| -free[axis] * mass / held[axis].per_acceleration());
    let size = norm(&force);
    if size > most {
        force = force.map(|part| part * (most / size));
    }
    force
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(x: f64, v: f64) -> Body {
        Body { position: [x, 0.0, 0.0], velocity: [v, 0.0, 0.0] }
    }

    #[test]
    fn an_encoder_steps_and_tells_the_difference_of_two_readings_as_velocity() {
        let mut exact = Encoder::new(0.0, Duration::ZERO, &at(0.0, 0.0));
        assert_eq!(exact.read(&at(0.123, 0.7), 0.001), at(0.123, 0.7));
        let mut coarse = Encoder::new(1e-4, Duration::ZERO, &at(0.0, 0.0));
        let read = coarse.read(&at(0.000_04, 0.04), 0.001);
        assert_eq!((read.position[0], read.velocity[0]), (0.0, 0.0));
        let read = coarse.read(&at(0.000_08, 0.04), 0.001);
        assert!((read.position[0] - 1e-4).abs() < 1e-15 && (read.velocity[0] - 0.1).abs() < 1e-12);
    }

    #[test]
    fn a_filter_and_an_amplifier_come_to_63_percent_in_their_time_constant() {
        // After the edge, which is a ramp of a period to an encoder.
        let mut filtered = Encoder::new(0.0, MS * 5, &at(0.0, 0.0));
        filtered.raw = [1.0, 0.0, 0.0];
        let mut amplifier = Amplifier::new(MS * 5);
        let mut impulse = 0.0;
        for _ in 0..5 {
            filtered.read(&at(0.0, 1.0), 0.001);
            impulse += 0.001 * amplifier.pass(&[1.0, 0.0, 0.0], 0.001)[0];
        }
        let expected = 1.0 - libm::exp(-1.0);
        assert!((filtered.read.velocity[0] - expected).abs() < 1e-12);
        assert!((amplifier.force()[0] - expected).abs() < 1e-12);
        // ∫ 1 − e^(−t/τ) from 0 to τ is τ/e.
        assert!((impulse - 0.005 * libm::exp(-1.0)).abs() < 1e-12, "{impulse}");
    }

    /// A mass of 0.4 kg on a spring of 100 N/m, pushed with `force` and rubbed by 1 N, for ten seconds; where it is every half millisecond.
    fn pushed(force: f64, from: f64) -> Vec<f64> {
        let (mass, seconds) = (0.4, 5e-4);
        let held = Transition::new(100.0 / mass, 0.0, seconds);
        let [mut x, mut v] = [from, 0.0];
        let step = |_| {
            let [_, free] = held.after(x, v, force / mass);
            let rubs = friction(1.0, mass, [&held; 3], &[free, 0.0, 0.0])[0];
            [x, v] = held.after(x, v, (force + rubs) / mass);
            x
        };
        (0..20_000).map(step).collect()
    }

    #[test]
    fn friction_holds_what_is_pushed_with_less_and_ends_every_motion() {
        assert!(pushed(0.99, 0.0).iter().all(|x| x.abs() < 1e-12), "it sticks");
        let moved = pushed(3.0, 0.0);
        // 2 N of it first, and back by as much less at each turn: 40 mm, 0, … until it sticks within 10 mm of 30.
        let most = moved.iter().fold(0.0f64, |a, b| a.max(*b));
        assert!((most - 0.04).abs() < 1e-4, "{most} m");
        let end = moved[19_999];
        assert!((end - 0.03).abs() <= 0.0101 && (end - moved[15_000]).abs() < 1e-9, "{end} m");
    }
}
