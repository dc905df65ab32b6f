//! Waves: u = (b v + f) / √(2b) to the robot, w = (b v − f) / √(2b) back, with f against the hand and on the arm.

use taut_core::Duration;

use crate::vector::{Vector, dot, plus, times};
use crate::{Message, Wave};

impl Wave {
    /// u of what the operator's end says. A message's force is on the hand, hence −f.
    pub(crate) fn of_operator<P>(&self, message: &Message<P>) -> Vector {
        self.of(message, -1.0)
    }

    /// w of what the robot's end says.
    pub(crate) fn of_robot<P>(&self, message: &Message<P>) -> Vector {
        self.of(message, 1.0)
    }

    fn of<P>(&self, message: &Message<P>, sign: f64) -> Vector {
        let sum = plus(&times(self.impedance, &message.velocity), sign, &message.force);
        times((2.0 * self.impedance).sqrt().recip(), &sum)
    }
}

/// The next value of a first-order low-pass.
pub(crate) fn filtered(before: &Vector, now: &Vector, constant: Duration, period: f64) -> Vector {
    let share = period / (period + constant.as_secs_f64());
    plus(&times(1.0 - share, before), share, now)
}

/// ½ |u|² over a period, J.
pub(crate) fn wave_energy(wave: &Vector, period: f64) -> f64 {
    dot(wave, wave) * period / 2.0
}

/// The wave, or as much of it as costs no more than `joules`.
pub(crate) fn affordable(wave: &Vector, joules: f64, period: f64) -> Vector {
    let cost = wave_energy(wave, period);
    if cost > joules { times((joules / cost).sqrt(), wave) } else { *wave }
}
