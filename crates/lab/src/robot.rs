//! A simulated robot: a mass whose controller follows the operator, and what it touches.
//!
//! The controller is a spring and a damper towards the commanded pose, its force limited as a motor's is; the environment
//! fills x > 0 and pushes back as a spring and a damper that never pulls (Kelvin–Voigt; Hogan, *Impedance Control*,
//! J. Dyn. Sys. Meas. Control 107, 1985, for the controller). One step is 1 ms of semi-implicit Euler, + − × ÷ √ only.

/// What the robot touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Environment {
    /// Nothing.
    Free,
    /// 150 N/m, 3 N·s/m.
    Foam,
    /// 1000 N/m, 4 N·s/m.
    #[default]
    Spring,
    /// 10 kN/m, 20 N·s/m: rigid, for a step of 1 ms.
    Wall,
}

impl Environment {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Free, Self::Foam, Self::Spring, Self::Wall];

    /// Its name in arguments and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Foam => "foam",
            Self::Spring => "spring",
            Self::Wall => "wall",
        }
    }

    /// N/m and N·s/m.
    pub const fn constants(self) -> (f64, f64) {
        match self {
            Self::Free => (0.0, 0.0),
            Self::Foam => (150.0, 3.0),
            Self::Spring => (1_000.0, 4.0),
            Self::Wall => (10_000.0, 20.0),
        }
    }

    /// N along x on a robot at `x` m that moves at `v` m/s. Never pulls.
    fn force(self, x: f64, v: f64) -> f64 {
        let (stiffness, damping) = self.constants();
        if x <= 0.0 { 0.0 } else { -(stiffness * x + damping * v).max(0.0) }
    }
}

/// A vector in m, m/s or N.
type Vector = [f64; 3];

/// The robot at one instant.
///
/// ```
/// use taut_lab::robot::{Environment, SimulatedRobot};
/// let mut robot = SimulatedRobot::new(Environment::Spring);
/// for _ in 0..2_000 {
///     robot.follow([0.02, 0.0, 0.0], [0.0; 3]);
///     robot.step();
/// }
/// // 3000 N/m of the controller against 1000 N/m of the spring.
/// assert!((robot.position()[0] - 0.015).abs() < 1e-4 && (robot.force()[0] + 15.0).abs() < 0.1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SimulatedRobot {
    environment: Environment,
    position: Vector,
    velocity: Vector,
    /// Where it shall be, and how fast it shall move there.
    target: (Vector, Vector),
    force: Vector,
}

/// kg.
const MASS: f64 = 0.3;
/// N/m.
const STIFFNESS: f64 = 3_000.0;
/// N·s/m: a damping ratio of 0.75.
const DAMPING: f64 = 45.0;
/// N, of the motors.
const STRONGEST: f64 = 60.0;
/// s.
const STEP: f64 = 1e-3;

impl SimulatedRobot {
    /// At rest in free space, 60 mm in front of the environment.
    pub fn new(environment: Environment) -> Self {
        let position = [-0.06, 0.0, 0.0];
        Self { environment, position, velocity: [0.0; 3], target: (position, [0.0; 3]), force: [0.0; 3] }
    }

    /// Go there, m and m/s.
    pub fn follow(&mut self, position: Vector, velocity: Vector) {
        self.target = (position, velocity);
    }

    /// Hold where you are.
    pub fn hold(&mut self) {
        self.target = (self.position, [0.0; 3]);
    }

    /// One millisecond passes.
    pub fn step(&mut self) {
        let (position, velocity) = self.target;
        for axis in 0..3 {
            let servo = STIFFNESS * (position[axis] - self.position[axis])
                + DAMPING * (velocity[axis] - self.velocity[axis]);
            let force = servo.clamp(-STRONGEST, STRONGEST) + self.force[axis];
            self.velocity[axis] += STEP * force / MASS;
            self.position[axis] += STEP * self.velocity[axis];
        }
        self.force = [self.environment.force(self.position[0], self.velocity[0]), 0.0, 0.0];
    }

    /// m.
    pub fn position(&self) -> Vector {
        self.position
    }

    /// m/s.
    pub fn velocity(&self) -> Vector {
        self.velocity
    }

    /// Of the environment on the robot, N: what the operator is to feel.
    pub fn force(&self) -> Vector {
        self.force
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(environment: Environment, x: f64) -> SimulatedRobot {
        let mut robot = SimulatedRobot::new(environment);
        for _ in 0..3_000 {
            robot.follow([x, 0.01, 0.0], [0.0; 3]);
            robot.step();
        }
        robot
    }

    #[test]
    fn at_rest_controller_and_environment_balance() {
        for environment in Environment::ALL {
            let robot = settled(environment, 0.01);
            let (stiffness, _) = environment.constants();
            let expected = 0.01 * STIFFNESS / (STIFFNESS + stiffness);
            assert!((robot.position()[0] - expected).abs() < 1e-5, "{environment:?}: {robot:?}");
            assert!((robot.force()[0] + stiffness * expected).abs() < 0.05, "{environment:?}: {robot:?}");
            assert!((robot.position()[1] - 0.01).abs() < 1e-6, "nothing is there along y");
        }
    }

    #[test]
    fn a_held_robot_stands_still_although_it_was_fast() {
        let mut robot = SimulatedRobot::new(Environment::Free);
        for i in 0..100 {
            robot.follow([-0.06 - 0.0005 * f64::from(i), 0.0, 0.0], [-0.5, 0.0, 0.0]);
            robot.step();
        }
        assert!(robot.velocity()[0] < -0.3);
        robot.hold();
        let before = robot.position()[0];
        (0..500).for_each(|_| robot.step());
        assert!(robot.velocity()[0].abs() < 1e-3 && (robot.position()[0] - before).abs() < 0.01, "{robot:?}");
    }
}
