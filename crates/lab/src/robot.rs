//! A simulated robot: a mass whose controller follows the operator, and what it touches. The same one in simulated sessions
//! and beside real ones.
//!
//! The controller is a spring of 3 kN/m and a damper of 45 N·s/m towards the commanded pose (impedance control: Hogan,
//! *Impedance Control*, J. Dyn. Sys. Meas. Control 107, 1985), the mass 0.3 kg: a damping ratio of 0.75. The environment fills
//! x > 0, pushes back as a spring and a damper that never pulls (Kelvin–Voigt), and rubs. While it touches, and while it does not,
//! it moves as its equations say, whatever its period (the exact zero-order hold); friction, hysteresis and a controller that lags are held for half a millisecond.

mod arm;
mod hysteresis;

use taut_agent::control::Servo;
use taut_core::Duration;
use taut_qos::touch::Touch;

pub use self::arm::SimulatedArm;
use self::hysteresis::Hysteresis;
use crate::demo::Vector;
use crate::demo::plant::{Body, PlantConfig};
use crate::hand::norm;
use crate::hold::{self, Transition};
use crate::mechanism::{self, Amplifier};
use crate::scenario::{ArmSpec, Environment};

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
    /// The largest magnitude of that: as it is made, and as it is told to be.
    strength: f64,
    limit: f64,
    amplifier: Amplifier,
    /// Coulomb, of its bearings, N.
    friction: f64,
    hysteresis: Hysteresis,
    /// Of the last step: mostly they are all as long.
    modes: Option<[Modes; 2]>,
}

impl SimulatedRobot {
    /// In free space, 60 mm in front of the environment: where the simulated hand begins.
    pub const REST: [f64; 3] = [-0.06, 0.0, 0.0];
    /// What leads it.
    pub const SERVO: Servo = Servo { stiffness: Touch::ARM.stiffness, damping: Touch::ARM.damping };

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
        Self {
            config,
            body,
            force: [0.0; 3],
            target: body,
            servo: [0.0; 3],
            strength: f64::INFINITY,
            limit: f64::INFINITY,
            amplifier: Amplifier::new(Duration::ZERO),
            friction: 0.0,
            hysteresis: Hysteresis::new(stiffness, environment.hysteresis()),
            modes: None,
        }
    }

    /// Made as this says, but for what it tells. Default: as [`ArmSpec::default`].
    pub fn made(self, spec: &ArmSpec) -> Self {
        let ArmSpec { friction, lag, force, .. } = *spec;
        let strength = force.unwrap_or(f64::INFINITY);
        Self { friction, strength, amplifier: Amplifier::new(lag), ..self }
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

    /// Some time passes.
    pub fn step(&mut self, time: Duration) {
        let (steps, seconds) = hold::steps(time);
        let known = self.modes.filter(|[modes, _]| modes.seconds.to_bits() == seconds.to_bits());
        let pulls = known.unwrap_or_else(|| [false, true].map(|limited| self.modes(limited, seconds)));
        self.modes = Some(pulls);
        let most = self.limit.min(self.strength);
        for _ in 0..steps {
            self.servo = self.pull();
            let limited = norm(&self.servo) > most;
            shorten(&mut self.servo, most);
            let is_held = limited || !self.amplifier.is_immediate();
            self.servo = self.amplifier.pass(&self.servo, seconds);
            // What it is told it never exceeds, on its way there neither.
            shorten(&mut self.servo, most);
            let modes = &pulls[usize::from(is_held)];
            let rubs = self.rubs(modes);
            let before = self.normal();
            let free = self.body;
            self.move_normal(modes, rubs[0]);
            let drag = self.config.drag((before + self.normal()) / 2.0, &free);
            self.move_across(modes, drag, &rubs);
            self.hysteresis.follow(self.body.position[0]);
        }
        self.force = self.config.wall_force(&self.body);
        self.force[0] += self.hysteresis.force(-self.force[0]);
    }

    /// Of the bearings, for a step.
    fn rubs(&self, modes: &Modes) -> Vector {
        if self.friction == 0.0 {
            return [0.0; 3];
        }
        let held = [&modes.held[usize::from(self.normal() > 0.0)], &modes.held[0], &modes.held[0]];
        let mass = self.config.follower_mass;
        let extra = [self.hysteresis.force(self.normal()), 0.0, 0.0];
        let free = std::array::from_fn(|axis| {
            let drive = self.drive(axis, modes) + extra[axis] / mass;
            held[axis].after(self.body.position[axis], self.body.velocity[axis], drive)[1]
        });
        mechanism::friction(self.friction, mass, held, &free)
    }

    /// Of the controller, if nothing limits it.
    fn pull(&self) -> Vector {
        let (config, body, target) = (&self.config, &self.body, &self.target);
        std::array::from_fn(|axis| {
            config.servo_stiffness * (target.position[axis] - body.position[axis])
                + config.servo_damping * (target.velocity[axis] - body.velocity[axis])
        })
    }

    /// What moves the arm in a step of so many seconds: its servo, or no more than its limit.
    fn modes(&self, limited: bool, seconds: f64) -> Modes {
        let config = &self.config;
        let servo = if limited { [0.0; 2] } else { [config.servo_stiffness, config.servo_damping] };
        let both = [servo[0] + config.wall_stiffness, servo[1] + config.wall_damping];
        let [free, touching] = [servo, both].map(|spring| Spring { spring, mass: config.follower_mass });
        Modes { seconds, springs: [free, touching], held: [free.held(seconds), touching.held(seconds)] }
    }

    /// Of the servo along an axis, per mass, where the mass would be at 0 and at rest.
    fn drive(&self, axis: usize, modes: &Modes) -> f64 {
        let [stiffness, damping] = modes.springs[0].spring;
        let at_rest =
            stiffness * self.body.position[axis] + damping * self.body.velocity[axis] + self.servo[axis];
        at_rest / self.config.follower_mass
    }

    fn normal(&self) -> f64 {
        self.config.normal_force(self.body.position[0], self.body.velocity[0])
    }

    /// Along x, piece by piece from touch to release and back.
    fn move_normal(&mut self, modes: &Modes, rubs: f64) {
        /// A step of half a millisecond does not need more.
        const MOST_PIECES: usize = 4;
        /// Halvings of a piece: to a part in 10⁹ of a step.
        const HALVINGS: usize = 30;
        let extra = rubs + self.hysteresis.force(self.normal());
        let drive = self.drive(0, modes) + extra / self.config.follower_mass;
        let touches = |[x, v]: [f64; 2]| self.config.normal_force(x, v) > 0.0;
        let (mut at, mut left) = ([self.body.position[0], self.body.velocity[0]], modes.seconds);
        for piece in 1..=MOST_PIECES {
            let began = touches(at);
            let mode = usize::from(began);
            let held = if piece == 1 { modes.held[mode] } else { modes.springs[mode].held(left) };
            let end = held.after(at[0], at[1], drive);
            if touches(end) == began || piece == MOST_PIECES {
                at = end;
                break;
            }
            let after = |seconds| modes.springs[mode].held(seconds).after(at[0], at[1], drive);
            let [mut low, mut high] = [0.0, left];
            for _ in 0..HALVINGS {
                let middle = (low + high) / 2.0;
                *(if touches(after(middle)) == began { &mut low } else { &mut high }) = middle;
            }
            (at, left) = (after(high), left - high);
        }
        [self.body.position[0], self.body.velocity[0]] = at;
    }

    /// Along y and z, with so much friction per speed.
    fn move_across(&mut self, modes: &Modes, drag: f64, rubs: &Vector) {
        let Spring { spring: [stiffness, damping], mass } = modes.springs[0];
        let rubbing = Spring { spring: [stiffness, damping + drag], mass };
        let held = if drag > 0.0 { rubbing.held(modes.seconds) } else { modes.held[0] };
        for (axis, rubs) in rubs.iter().enumerate().skip(1) {
            let drive = self.drive(axis, modes) + rubs / mass;
            let body = &mut self.body;
            [body.position[axis], body.velocity[axis]] =
                held.after(body.position[axis], body.velocity[axis], drive);
        }
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

/// What moves the arm during a step of so many seconds: free, and touching.
#[derive(Clone, Copy, Debug)]
struct Modes {
    seconds: f64,
    springs: [Spring; 2],
    held: [Transition; 2],
}

/// A spring, N/m, and a damper, N·s/m, on a mass.
#[derive(Clone, Copy, Debug)]
struct Spring {
    spring: [f64; 2],
    mass: f64,
}

impl Spring {
    fn held(&self, seconds: f64) -> Transition {
        let [stiffness, damping] = self.spring;
        Transition::new(stiffness / self.mass, damping / self.mass, seconds)
    }
}

/// Makes `vector` no longer than `longest`.
fn shorten(vector: &mut Vector, longest: f64) {
    let length = norm(vector);
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

    /// Into the wall, along it, and out again: the target changes every 12 ms.
    fn touched(period: Duration) -> SimulatedRobot {
        let mut robot = SimulatedRobot::new(&Environment::Wall(Surface::default()), SimulatedRobot::REST);
        for tick in 0..200u32 {
            let target = if (50..130).contains(&tick) { 0.01 } else { -0.02 };
            robot.follow([target, 0.0005 * f64::from(tick), 0.0], [0.0; 3]);
            let steps = (Duration::from_millis(12).as_nanos()).div_ceil(period.as_nanos());
            (0..steps).for_each(|_| robot.step(period));
        }
        robot
    }

    #[test]
    fn the_arm_moves_alike_whatever_its_period() {
        let [long, short] = [12, 1].map(|ms| touched(MS * ms));
        assert_eq!(long.body, short.body, "the same steps");
        let other = touched(Duration::from_micros(300));
        for axis in 0..3 {
            let apart = (long.body.position[axis] - other.body.position[axis]).abs();
            assert!(apart < 1e-5, "{apart} m: {long:?} {other:?}");
        }
    }

    #[test]
    fn an_undamped_spring_gives_back_the_energy_that_it_took() {
        let spring = Environment::Spring(Surface { stiffness: Some(20_000.0), ..Surface::default() });
        let mut robot = SimulatedRobot::new(&spring, [-0.001, 0.0, 0.0]);
        // A servo that makes no force: a free mass against the spring.
        robot.limit_force(0.0);
        robot.body.velocity = [0.5, 0.0, 0.0];
        (0..10).for_each(|_| robot.step(MS * 12));
        assert!((robot.velocity()[0] + 0.5).abs() < 1e-6 && robot.position()[0] < 0.0, "{robot:?}");
    }

    #[test]
    fn bearings_that_rub_bring_an_arm_to_rest_across_the_wall_that_it_presses() {
        let smooth =
            Environment::Wall(Surface { damping: Some(100.0), friction: Some(0.0), ..Surface::default() });
        let spec = ArmSpec { friction: 5.0, ..ArmSpec::default() };
        let mut robot = SimulatedRobot::new(&smooth, SimulatedRobot::REST).made(&spec);
        for tick in 0..1_000u32 {
            robot.follow([0.01, 1e-5 * f64::from(tick.min(500)), 0.0], [0.0; 3]);
            robot.step(MS);
        }
        let [x, y, z] = robot.velocity();
        assert!(robot.force()[0] < -5.0 && x.abs() < 1e-12 && y.abs() < 1e-12 && z == 0.0, "{robot:?}");
        assert!(robot.position()[1] > 1e-3 && robot.position()[1] < 5e-3, "it sticks on its way: {robot:?}");
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

    #[test]
    fn an_arm_that_lags_and_rubs_keeps_its_limit_and_stands_where_it_is_held() {
        let spec = ArmSpec { friction: 1.0, lag: MS * 2, force: Some(20.0), ..ArmSpec::default() };
        let mut robot = SimulatedRobot::new(&Environment::Free, SimulatedRobot::REST).made(&spec);
        for limit in [f64::INFINITY, 5.0] {
            robot.limit_force(limit);
            let most = limit.min(20.0);
            for _ in 0..300 {
                robot.follow([0.1, 0.1, 0.0], [0.0; 3]);
                robot.step(MS);
                assert!(norm(&robot.controller_force()) <= most * (1.0 + 1e-9), "{robot:?}");
            }
        }
        robot.hold();
        (0..2_000).for_each(|_| robot.step(MS));
        let stands = robot.position();
        (0..1_000).for_each(|_| robot.step(MS));
        assert!(robot.position().iter().zip(stands).all(|(a, b)| (a - b).abs() < 1e-9), "{robot:?}");
        // A pull of less than its friction does not move it.
        robot.follow([stands[0] + 0.000_3, stands[1], stands[2]], [0.0; 3]);
        (0..1_000).for_each(|_| robot.step(MS));
        assert!((robot.position()[0] - stands[0]).abs() < 1e-9, "{robot:?}");
    }
}
