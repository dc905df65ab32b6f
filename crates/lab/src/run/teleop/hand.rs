//! The hand on a device.
//!
//! Position goes one way and force the other: the robot's servo follows the device, and the device pushes the hand with the
//! force that the robot met (position–force control). It is transparent, and it is what a delay makes unstable first.

use taut_core::{Duration, Probability, Rng, Seed, Time};
use taut_session::{Priority, State};

use crate::demo::Vector;
use crate::demo::operator::Operator as Person;
use crate::demo::plant::{Body, PlantConfig};
use crate::scenario::Teleop;

/// The operator's hand and the device in it, for whoever asks it on a real clock.
pub struct Device {
    hand: Hand,
    period: Duration,
    high: Probability,
    priorities: Rng,
}

impl Device {
    /// The one of a simulated run with this seed: the same states in the same order, as long as no force comes back.
    pub fn new(teleop: &Teleop, seed: Seed) -> Self {
        Self {
            hand: Hand::of(teleop, seed),
            period: teleop.period,
            high: teleop.high,
            priorities: priorities(seed),
        }
    }

    /// The force that came back, N.
    pub fn feel(&mut self, force: [f32; 3]) {
        self.hand.feel(force);
    }

    /// Where it is, how fast it moves, and what it pushes the hand with: m, m/s, N.
    pub fn body(&self) -> [[f64; 3]; 3] {
        [self.hand.body.position, self.hand.body.velocity, self.hand.force]
    }

    /// One period passes; the state after it. Its time of creation does not matter.
    pub fn step(&mut self) -> State {
        self.hand.state(Time::ZERO, self.period, self.high, &mut self.priorities)
    }
}

/// Who decides which states are urgent.
pub(super) fn priorities(seed: Seed) -> Rng {
    seed.stream("teleop/priorities")
}

/// The operator's hand and the device in it.
pub(super) struct Hand {
    person: Person,
    config: PlantConfig,
    pub(super) body: Body,
    /// What the device pushes the hand with, N; at most `limit`.
    pub(super) force: Vector,
    limit: f64,
}

impl Hand {
    pub(super) fn new(rng: Rng, limit: f64) -> Self {
        let person = Person::new(rng);
        let body = Body { position: person.position(), velocity: [0.0; 3] };
        Self { person, config: PlantConfig::default(), body, force: [0.0; 3], limit }
    }

    pub(super) fn of(teleop: &Teleop, seed: Seed) -> Self {
        Self::new(seed.stream("teleop/hand"), teleop.device_force)
    }

    /// One period passes; the state after it.
    pub(super) fn state(
        &mut self,
        now: Time,
        period: Duration,
        high: Probability,
        priorities: &mut Rng,
    ) -> State {
        self.step(period.as_secs_f64());
        let urgent = high.sample(priorities);
        let single = |vector: [f64; 3]| vector.map(|part| part as f32);
        State {
            priority: if urgent { Priority::High } else { Priority::Normal },
            position: single(self.body.position),
            velocity: single(self.body.velocity),
            force: single(self.force),
            ..State::at(now)
        }
    }

    /// The force that came back.
    pub(super) fn feel(&mut self, force: [f32; 3]) {
        let force = force.map(f64::from);
        let size = norm(&force);
        let scale = if size > self.limit { self.limit / size } else { 1.0 };
        self.force = force.map(|part| part * scale);
    }

    /// One step of semi-implicit Euler, `dt` seconds.
    pub(super) fn step(&mut self, dt: f64) {
        let intent = self.person.step(dt);
        let config = &self.config;
        for axis in 0..3 {
            let pull = config.hand_stiffness * (intent.position[axis] - self.body.position[axis])
                + config.hand_damping * (intent.velocity[axis] - self.body.velocity[axis]);
            let force = pull + intent.tremor[axis] + self.force[axis];
            self.body.accelerate(axis, force, config.leader_mass, dt);
        }
    }
}

pub(super) fn norm(vector: &Vector) -> f64 {
    dot(vector, vector).sqrt()
}

pub(super) fn dot(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_pushes_no_harder_than_it_can() {
        let mut hand = Hand::new(Seed::new(1).stream("hand"), 5.0);
        hand.feel([3.0, 0.0, -4.0]);
        assert!((norm(&hand.force) - 5.0).abs() < 1e-9);
        hand.feel([30.0, 0.0, -40.0]);
        assert!((norm(&hand.force) - 5.0).abs() < 1e-9 && hand.force[2] < 0.0);
    }
}
