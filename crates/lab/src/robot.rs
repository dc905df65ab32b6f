//! A simulated robot: a mass whose controller follows the operator, and what it touches. The same one in simulated sessions
//! and beside real ones.
//!
//! The controller is a spring of 3 kN/m and a damper of 45 N·s/m towards the commanded pose (impedance control: Hogan,
//! *Impedance Control*, J. Dyn. Sys. Meas. Control 107, 1985), the mass 0.3 kg: a damping ratio of 0.75. The environment fills
//! x > 0, pushes back as a spring and a damper that never pulls (Kelvin–Voigt), and rubs. Steps are semi-implicit Euler,
//! + − × ÷ √ only.

mod arm;

use taut_core::Duration;

pub use self::arm::SimulatedArm;
use crate::demo::Vector;
use crate::demo::plant::{Body, PlantConfig};
use crate::scenario::Environment;

/// The robot at one instant. Positions in m, velocities in m/s, forces in N.
///
/// ```
/// use taut_core::Duration;
/// use taut_lab::robot::SimulatedRobot;
/// use taut_lab::scenario::{Environment, Surface};
/// let spring = Environment::Spring(Surface { stiffness: Some(1000.0), damping: Some(4.0), ..Surface::default() });
/// let mut robot = SimulatedRobot::new(&spring, SimulatedRobot::REST);
/// for _ in 0..2_000 {
///     robot.follow([0.02, 0.0, 0.0], [0.0; 3]);
///     robot.step(Duration::from_millis(1));
/// }
/// // 3000 N/m of the controller against 1000 N/m of the spring.
/// assert!((robot.position()[0] - 0.015).abs() < 1e-4 && (robot.force()[0] + 15.0).abs() < 0.1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SimulatedRobot {
    config: PlantConfig,
    body: Body,
    /// Of the environment on it.
    force: Vector,
    /// Where it shall be, and how fast it shall move there.
    target: Body,
    /// Of the controller on it.
    servo: Vector,
    /// The largest magnitude of that.
    limit: f64,
}

impl SimulatedRobot {
    /// In free space, 60 mm in front of the environment: where the simulated hand begins.
    pub const REST: [f64; 3] = [-0.06, 0.0, 0.0];

    /// At rest at `position`.
    pub fn new(environment: &Environment, position: [f64; 3]) -> Self {
        let [stiffness, damping, friction] = environment.surface().unwrap_or_default();
        let config = PlantConfig {
            wall_stiffness: stiffness,
            wall_damping: damping,
            friction,
            ..PlantConfig::default()
        };
        let body = Body { position, velocity: [0.0; 3] };
        Self { config, body, force: [0.0; 3], target: body, servo: [0.0; 3], limit: f64::INFINITY }
    }

    /// Of its controller, N/m.
    pub fn stiffness(&self) -> f64 {
        self.config.servo_stiffness
    }

    /// The controller makes no more force than this, N, whatever it is told: what is beyond is shortened in its own
    /// direction. Default: any.
    pub fn limit_force(&mut self, newtons: f64) {
        self.limit = newtons.max(0.0);
    }

    /// Go there.
    pub fn follow(&mut self, position: [f64; 3], velocity: [f64; 3]) {
        self.target = Body { position, velocity };
    }

    /// Stay where you are.
    pub fn hold(&mut self) {
        self.target = Body { position: self.body.position, velocity: [0.0; 3] };
    }

    /// Some time passes, in one step: 1 ms at most, or stiff environments are not computed well.
    pub fn step(&mut self, time: Duration) {
        let (config, dt) = (&self.config, time.as_secs_f64());
        self.servo = std::array::from_fn(|axis| {
            config.servo_stiffness * (self.target.position[axis] - self.body.position[axis])
                + config.servo_damping * (self.target.velocity[axis] - self.body.velocity[axis])
        });
        shorten(&mut self.servo, self.limit);
        for axis in 0..3 {
            self.body.accelerate(axis, self.servo[axis] + self.force[axis], config.follower_mass, dt);
        }
        self.force = config.wall_force(&self.body);
    }

    /// Where it is.
    pub fn position(&self) -> [f64; 3] {
        self.body.position
    }

    /// How fast it moves.
    pub fn velocity(&self) -> [f64; 3] {
        self.body.velocity
    }

    /// Of the environment on the robot: what the operator is to feel.
    pub fn force(&self) -> [f64; 3] {
        self.force
    }

    /// Of its controller on it, during the last step.
    pub fn controller_force(&self) -> [f64; 3] {
        self.servo
    }

    /// The velocity that it was told last.
    pub fn told(&self) -> [f64; 3] {
        self.target.velocity
    }
}

/// Makes `vector` no longer than `longest`.
fn shorten(vector: &mut Vector, longest: f64) {
    let length = vector.iter().map(|part| part * part).sum::<f64>().sqrt();
    if length > longest {
        *vector = vector.map(|part| part * (longest / length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Surface;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn at_rest_controller_and_environment_balance() {
        let default = Surface::default;
        let all = [
            Environment::Free,
            Environment::Foam(default()),
            Environment::Spring(Surface { damping: Some(4.0), ..default() }),
            Environment::Wall(default()),
        ];
        for environment in all {
            let mut robot = SimulatedRobot::new(&environment, SimulatedRobot::REST);
            for _ in 0..4_000 {
                robot.follow([0.01, 0.0, 0.0], [0.0; 3]);
                robot.step(MS);
            }
            let stiffness = environment.surface().map_or(0.0, |[stiffness, ..]| stiffness);
            let expected = 0.01 * 3_000.0 / (3_000.0 + stiffness);
            assert!((robot.position()[0] - expected).abs() < 1e-5, "{environment:?}: {robot:?}");
            assert!((robot.force()[0] + stiffness * expected).abs() < 0.05, "{environment:?}: {robot:?}");
        }
    }

    #[test]
    fn a_held_robot_comes_to_rest_where_it_was_although_it_was_fast() {
        let mut robot = SimulatedRobot::new(&Environment::Free, SimulatedRobot::REST);
        for i in 0..100 {
            robot.follow([-0.06 - 0.0005 * f64::from(i), 0.01, 0.0], [-0.5, 0.0, 0.0]);
            robot.step(MS);
        }
        assert!(robot.velocity()[0] < -0.3);
        robot.hold();
        let before = robot.position();
        (0..2_000).for_each(|_| robot.step(MS));
        let away: f64 = robot.position().iter().zip(before).map(|(a, b)| (a - b).abs()).sum();
        let speed: f64 = robot.velocity().iter().map(|v| v.abs()).sum();
        assert!(away < 1e-3 && speed < 1e-4 && robot.force()[0].abs() < 1e-12, "{robot:?}");
    }

    #[test]
    fn the_controller_makes_no_more_force_than_its_limit_and_arrives_all_the_same() {
        let mut robot = SimulatedRobot::new(&Environment::Free, SimulatedRobot::REST);
        robot.limit_force(5.0);
        let mut largest = 0.0f64;
        for _ in 0..4_000 {
            // 3 kN/m over 200 mm would be 600 N.
            robot.follow([0.1, 0.1, 0.0], [0.0; 3]);
            robot.step(MS);
            let force = robot.controller_force().iter().map(|part| part * part).sum::<f64>().sqrt();
            largest = largest.max(force);
        }
        assert!((4.999..=5.000_001).contains(&largest), "{largest} N");
        assert!((robot.position()[0] - 0.1).abs() < 1e-3, "{robot:?}");
    }

    #[test]
    fn against_a_wall_the_robot_presses_with_its_limit_at_most() {
        let mut robot = SimulatedRobot::new(&Environment::Wall(Surface::default()), SimulatedRobot::REST);
        robot.limit_force(8.0);
        for _ in 0..4_000 {
            robot.follow([0.05, 0.0, 0.0], [0.0; 3]);
            robot.step(MS);
        }
        assert!((robot.force()[0] + 8.0).abs() < 0.01, "75 N without a limit: {robot:?}");
    }
}
