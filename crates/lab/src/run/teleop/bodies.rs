//! What the session connects: a hand on a device, and an arm that touches something.
//!
//! Position goes one way and force the other: the arm's servo follows the device, and the device pushes the hand with the
//! force that the arm met (position–force control). It is transparent, and it is what a delay makes unstable first.

use taut_core::Rng;

use crate::demo::Vector;
use crate::demo::operator::Operator as Person;
use crate::demo::plant::{Body, PlantConfig};
use crate::scenario::Environment;

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

/// The robot's arm, its servo, and what it touches.
pub(super) struct Arm {
    config: PlantConfig,
    pub(super) body: Body,
    /// Of the environment on the arm, N.
    pub(super) force: Vector,
    /// Where the servo pulls to, and how fast that moves.
    target: Body,
}

impl Arm {
    /// At rest where the hand begins.
    pub(super) fn new(environment: &Environment, position: Vector) -> Self {
        let [stiffness, damping, friction] = environment.surface().unwrap_or_default();
        let config = PlantConfig {
            wall_stiffness: stiffness,
            wall_damping: damping,
            friction,
            ..PlantConfig::default()
        };
        let body = Body { position, velocity: [0.0; 3] };
        Self { config, body, force: [0.0; 3], target: body }
    }

    /// Goes there.
    pub(super) fn go(&mut self, position: [f32; 3], velocity: [f32; 3]) {
        self.target = Body { position: position.map(f64::from), velocity: velocity.map(f64::from) };
    }

    /// Stays where it is.
    pub(super) fn stop(&mut self) {
        self.target = Body { position: self.body.position, velocity: [0.0; 3] };
    }

    /// The velocity that it is told, m/s.
    pub(super) fn told(&self) -> Vector {
        self.target.velocity
    }

    /// One step of semi-implicit Euler, `dt` seconds.
    pub(super) fn step(&mut self, dt: f64) {
        let config = &self.config;
        for axis in 0..3 {
            let servo = config.servo_stiffness * (self.target.position[axis] - self.body.position[axis])
                + config.servo_damping * (self.target.velocity[axis] - self.body.velocity[axis]);
            self.body.accelerate(axis, servo + self.force[axis], config.follower_mass, dt);
        }
        self.force = config.wall_force(&self.body);
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
    use taut_core::Seed;

    #[test]
    fn a_device_pushes_no_harder_than_it_can() {
        let mut hand = Hand::new(Seed::new(1).stream("hand"), 5.0);
        hand.feel([3.0, 0.0, -4.0]);
        assert!((norm(&hand.force) - 5.0).abs() < 1e-9);
        hand.feel([30.0, 0.0, -40.0]);
        assert!((norm(&hand.force) - 5.0).abs() < 1e-9 && hand.force[2] < 0.0);
    }

    #[test]
    fn a_stopped_arm_comes_to_rest_where_it_was_stopped() {
        let mut arm = Arm::new(&Environment::Free, [-0.05, 0.0, 0.0]);
        arm.go([-0.02, 0.01, 0.0], [0.0; 3]);
        (0..20).for_each(|_| arm.step(0.001));
        let stopped = arm.body.position;
        arm.stop();
        (0..2_000).for_each(|_| arm.step(0.001));
        let away: f64 = arm.body.position.iter().zip(stopped).map(|(a, b)| (a - b).abs()).sum();
        assert!(away < 1e-3 && norm(&arm.body.velocity) < 1e-4, "{away}");
        assert!(norm(&arm.force) == 0.0);
    }
}
