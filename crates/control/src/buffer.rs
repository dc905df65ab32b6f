//! A virtual mass between the channel and the hand, which a spring and a damper couple to it (Ryu, Artigas, Preusche 2010, section 5).
//!
//! The passivity controller acts on the mass, not on the hand. Of the mass it is known how fast it will be under a force, so that no more
//! is given than is left at the *end* of a period: at rest, with nothing left, the force is what keeps the mass where it is. On the hand,
//! of whose mass nothing is known, it would be all and nothing in turn: at the first motion along the force it is all taken away, and the
//! hand is thrown back by the next period. What the hand was given while a force was held is known when that is over, and is
//! [counted](Buffer::made).

use crate::Motion;
use crate::operator::Port;
use crate::vector::{Vector, dot, plus, times};

/// kg; N/m and N·s/m to the hand.
const MASS: f64 = 0.02;
const STIFFNESS: f64 = 4_000.0;
const DAMPING: f64 = 20.0;

/// The mass, and what it did to the hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    mass: Motion,
    /// What was stored when the last period began and was given in it, J.
    energy: f64,
    /// The hand when it was last measured, m, and the force on it since, N.
    hand: Vector,
    force: Vector,
}

impl Buffer {
    /// At rest relative to the hand.
    pub(crate) const fn at(hand: &Motion) -> Self {
        Self { mass: *hand, energy: f64::INFINITY, hand: hand.position, force: [0.0; 3] }
    }

    /// Joules that came from nowhere in the last period, at least 0: what the hand was given and what is stored, beyond what was stored
    /// and given.
    pub(crate) fn made(&self, hand: &Motion) -> f64 {
        let moved = plus(&hand.position, -1.0, &self.hand);
        (dot(&self.force, &moved) + self.stored(&hand.position) - self.energy).max(0.0)
    }

    /// The mass is pushed for a period with as much of `force` as costs no more than `left`, J.
    pub(crate) fn push(&mut self, hand: &Motion, force: &Vector, left: f64, period: f64) -> Port {
        // At the end of the period a force F gives the mass the velocity (p + F) / m, and costs F · (p + F) period / m.
        let p = plus(&times(MASS / period, &self.mass.velocity), -1.0, &self.coupling(hand, &[0.0; 3]));
        let m = MASS / period + DAMPING + STIFFNESS * period;
        let (lean, square, most) = (dot(force, &p), dot(force, force), m * left / period);
        let share = if lean + square <= most {
            1.0
        } else {
            (((lean * lean + 4.0 * square * most).sqrt() - lean) / (2.0 * square)).clamp(0.0, 1.0)
        };
        let force = times(share, force);
        let velocity = times(m.recip(), &plus(&p, 1.0, &force));
        self.energy = self.stored(&hand.position) + dot(&force, &velocity) * period;
        self.mass = Motion { position: plus(&self.mass.position, period, &velocity), velocity };
        Port { force, velocity }
    }

    /// On the hand, N.
    pub(crate) fn force(&self, hand: &Motion) -> Vector {
        self.coupling(hand, &self.mass.velocity)
    }

    /// This is what pushes the hand until the next period.
    pub(crate) const fn hold(&mut self, hand: &Motion, force: &Vector) {
        (self.hand, self.force) = (hand.position, *force);
    }

    /// At this velocity of the mass.
    fn coupling(&self, hand: &Motion, velocity: &Vector) -> Vector {
        let apart = plus(&self.mass.position, -1.0, &hand.position);
        plus(&times(STIFFNESS, &apart), DAMPING, &plus(velocity, -1.0, &hand.velocity))
    }

    /// J, with the hand there.
    fn stored(&self, hand: &Vector) -> f64 {
        let apart = plus(&self.mass.position, -1.0, hand);
        let speed = &self.mass.velocity;
        (STIFFNESS * dot(&apart, &apart) + MASS * dot(speed, speed)) / 2.0
    }
}
