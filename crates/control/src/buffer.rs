//! A virtual mass between the channel and the hand, which a spring and a damper couple to it (Ryu, Artigas, Preusche 2010, section 5).
//!
//! The passivity controller acts on the mass, not on the hand. Of the mass it is known how fast it will be under a force, so that no more
//! is given than is left at the *end* of a period: at rest, with nothing left, the force is what keeps the mass where it is. On the hand,
//! of whose mass nothing is known, it would be all and nothing in turn: at the first motion along the force it is all taken away, and the
//! hand is thrown back by the next period. What the hand was given while a force was held is known when that is over, and is
//! [counted](Buffer::made).

use crate::Motion;
use crate::operator::Port;
use crate::place::Place;
use crate::vector::{Vector, dot, plus, times};

/// kg; N/m and N·s/m to the hand. Of what is turned it is as much at the end of its [lever](Place::LEVER_SQUARED).
const MASS: f64 = 0.02;
const STIFFNESS: f64 = 4_000.0;
const DAMPING: f64 = 20.0;

/// The mass, and what it did to the hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer<P> {
    mass: Motion<P>,
    /// What was stored when the last period began and was given in it, J.
    energy: f64,
    /// The hand when it was last measured, m, and the force on it since, N.
    hand: P,
    force: Vector,
}

impl<P: Place> Buffer<P> {
    const MASS: f64 = MASS * P::LEVER_SQUARED;
    const STIFFNESS: f64 = STIFFNESS * P::LEVER_SQUARED;
    const DAMPING: f64 = DAMPING * P::LEVER_SQUARED;

    /// At rest relative to the hand.
    pub(crate) const fn at(hand: &Motion<P>) -> Self {
        Self { mass: *hand, energy: f64::INFINITY, hand: hand.position, force: [0.0; 3] }
    }

    /// Joules that came from nowhere in the last period, at least 0: what the hand was given and what is stored, beyond what was stored
    /// and given.
    pub(crate) fn made(&self, hand: &Motion<P>) -> f64 {
        let moved = hand.position.way_from(&self.hand);
        (dot(&self.force, &moved) + self.stored(&hand.position) - self.energy).max(0.0)
    }

    /// The mass is pushed for a period with as much of `force` as costs no more than `left`, J.
    pub(crate) fn push(&mut self, hand: &Motion<P>, force: &Vector, left: f64, period: f64) -> Port {
        // At the end of the period a force F gives the mass the velocity (p + F) / m, and costs F · (p + F) period / m.
        let p = plus(&times(Self::MASS / period, &self.mass.velocity), -1.0, &self.coupling(hand, &[0.0; 3]));
        let m = Self::MASS / period + Self::DAMPING + Self::STIFFNESS * period;
        let (lean, square, most) = (dot(force, &p), dot(force, force), m * left / period);
        let share = if lean + square <= most {
            1.0
        } else {
            (((lean * lean + 4.0 * square * most).sqrt() - lean) / (2.0 * square)).clamp(0.0, 1.0)
        };
        let force = times(share, force);
        let velocity = times(m.recip(), &plus(&p, 1.0, &force));
        self.energy = self.stored(&hand.position) + dot(&force, &velocity) * period;
        self.mass = Motion { position: self.mass.position.after(period, &velocity), velocity };
        Port { force, velocity }
    }

    /// On the hand, N.
    pub(crate) fn force(&self, hand: &Motion<P>) -> Vector {
        self.coupling(hand, &self.mass.velocity)
    }

    /// This is what pushes the hand until the next period.
    pub(crate) const fn hold(&mut self, hand: &Motion<P>, force: &Vector) {
        (self.hand, self.force) = (hand.position, *force);
    }

    /// At this velocity of the mass.
    fn coupling(&self, hand: &Motion<P>, velocity: &Vector) -> Vector {
        let apart = self.mass.position.way_from(&hand.position);
        plus(&times(Self::STIFFNESS, &apart), Self::DAMPING, &plus(velocity, -1.0, &hand.velocity))
    }

    /// J, with the hand there.
    fn stored(&self, hand: &P) -> f64 {
        let apart = self.mass.position.way_from(hand);
        let speed = &self.mass.velocity;
        (Self::STIFFNESS * dot(&apart, &apart) + Self::MASS * dot(speed, speed)) / 2.0
    }
}
