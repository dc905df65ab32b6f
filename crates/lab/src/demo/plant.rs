//! Leader, follower and wall: three springs, two masses.

use taut_qos::touch::Touch;

use super::Vector;
use super::operator::Intent;

/// The constants of the model, SI units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlantConfig {
    /// Leader with the hand, kg.
    pub(crate) leader_mass: f64,
    /// Follower, kg.
    pub(crate) follower_mass: f64,
    /// How firmly the hand keeps to what it means, N/m.
    pub(crate) hand_stiffness: f64,
    /// N·s/m.
    pub(crate) hand_damping: f64,
    /// How firmly the follower's controller keeps to the leader, N/m.
    pub(crate) servo_stiffness: f64,
    /// N·s/m.
    pub(crate) servo_damping: f64,
    /// N/m.
    pub(crate) wall_stiffness: f64,
    /// N·s/m, while the follower moves in; the wall never pulls.
    pub(crate) wall_damping: f64,
    /// Coulomb friction per normal force.
    pub(crate) friction: f64,
    /// Speed at which friction has most of its value, m/s: below it behaves like a viscous one, which keeps a step of 1 ms
    /// stable.
    pub(crate) friction_speed: f64,
}

impl Default for PlantConfig {
    fn default() -> Self {
        Self {
            leader_mass: Touch::HAND.mass,
            follower_mass: Touch::ARM.mass,
            hand_stiffness: Touch::HAND.stiffness,
            hand_damping: Touch::HAND.damping,
            servo_stiffness: Touch::ARM.stiffness,
            servo_damping: Touch::ARM.damping,
            wall_stiffness: 1_000.0,
            wall_damping: 4.0,
            friction: 0.3,
            friction_speed: 0.01,
        }
    }
}

/// A point mass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Body {
    pub(crate) position: Vector,
    pub(crate) velocity: Vector,
}

/// Both devices, and the force between follower and wall.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plant {
    pub(crate) leader: Body,
    pub(crate) follower: Body,
    /// On the follower, N.
    pub(crate) force: Vector,
    config: PlantConfig,
}

impl Plant {
    /// Both at rest at the same place in free space.
    pub(crate) fn at(position: Vector, config: PlantConfig) -> Self {
        let body = Body { position, velocity: [0.0; 3] };
        let force = config.wall_force(&body);
        Self { leader: body, follower: body, force, config }
    }

    /// One step of semi-implicit Euler: velocities first, positions with the new velocities.
    pub(crate) fn step(&mut self, intent: &Intent, dt: f64) {
        let config = &self.config;
        for axis in 0..3 {
            let (leader, follower) = (&mut self.leader, &mut self.follower);
            let servo = config.servo_stiffness * (leader.position[axis] - follower.position[axis])
                + config.servo_damping * (leader.velocity[axis] - follower.velocity[axis]);
            let hand = config.hand_stiffness * (intent.position[axis] - leader.position[axis])
                + config.hand_damping * (intent.velocity[axis] - leader.velocity[axis]);
            leader.accelerate(axis, hand + intent.tremor[axis] + self.force[axis], config.leader_mass, dt);
            follower.accelerate(axis, servo + self.force[axis], config.follower_mass, dt);
        }
        self.force = config.wall_force(&self.follower);
    }
}

impl Body {
    pub(crate) fn accelerate(&mut self, axis: usize, force: f64, mass: f64, dt: f64) {
        self.velocity[axis] += dt * force / mass;
        self.position[axis] += dt * self.velocity[axis];
    }
}

impl PlantConfig {
    /// What the wall pushes along x: a spring and a damper. Zero outside.
    pub(crate) fn normal_force(&self, depth: f64, speed: f64) -> f64 {
        if depth <= 0.0 { 0.0 } else { (self.wall_stiffness * depth + self.wall_damping * speed).max(0.0) }
    }

    /// Friction across per speed, N·s/m, while the wall pushes with `normal`.
    pub(crate) fn drag(&self, normal: f64, body: &Body) -> f64 {
        let [_, vy, vz] = body.velocity;
        self.friction * normal / (vy * vy + vz * vz + self.friction_speed * self.friction_speed).sqrt()
    }

    /// Spring and damper along x, friction across. Zero outside the wall.
    pub(crate) fn wall_force(&self, body: &Body) -> Vector {
        let normal = self.normal_force(body.position[0], body.velocity[0]);
        let drag = self.drag(normal, body);
        let [_, vy, vz] = body.velocity;
        // Adding zero turns a negative zero into zero.
        [-normal + 0.0, -drag * vy + 0.0, -drag * vz + 0.0]
    }
}
