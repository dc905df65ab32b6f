//! What a robot lets itself be told. What is not set is missed at the start: nobody but the robot's builder can know it.

use taut_session::motion::{self, Limits};
use taut_session::{LimitPolicy, MotionLimits};

/// A limit that is a number, and how a user sets it.
type Limit = (Option<f32>, &'static str);

/// All of them, if they are there, finite and not negative.
///
/// # Errors
/// Which are not.
fn all<const N: usize>(limits: [Limit; N]) -> Result<[f32; N], String> {
    let fits = |(limit, _): &Limit| limit.is_some_and(|limit| limit.is_finite() && limit >= 0.0);
    let missing: Vec<&str> = limits.iter().filter(|limit| !fits(limit)).map(|(_, how)| *how).collect();
    if missing.is_empty() {
        return Ok(limits.map(|(limit, _)| limit.unwrap_or_default()));
    }
    Err(format!("set {}, each to a finite number from 0 up", missing.join(", ")))
}

/// Those that may be left out, where they are set.
///
/// # Errors
/// Which are not finite, or negative.
fn optional<const N: usize>(limits: [Limit; N]) -> Result<(), String> {
    limits.into_iter().filter(|(limit, _)| limit.is_some()).try_for_each(|limit| all([limit]).map(|_| ()))
}

/// Declares a setter of a limit.
macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub const fn $name(mut self, largest: f32) -> Self {
            self.$name = Some(largest);
            self
        }
    )*};
}

/// Of a device that a [`State`](crate::State) moves. Position, velocity, angular velocity and force have to be set, and the
/// [stiffness](Self::stiffness) unless the device [limits its force](crate::RobotDevice::limit_force) itself. The gripper of a state is
/// passed on as it is: one with limits moves by [`Gripper`](crate::Gripper).
///
/// ```
/// use taut::StateLimits;
/// let limits = StateLimits::new()
///     .position([-0.3, -0.3, 0.05], [0.3, 0.3, 0.5])
///     .velocity(0.25)
///     .angular_velocity(0.5)
///     .force(20.0)
///     .stiffness(2_000.0);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct StateLimits {
    position: Option<[[f32; 3]; 2]>,
    velocity: Option<f32>,
    force: Option<f32>,
    acceleration: Option<f32>,
    angular_velocity: Option<f32>,
    torque: Option<f32>,
    stiffness: Option<f32>,
    refuses: bool,
}

impl StateLimits {
    /// None is set yet.
    pub const fn new() -> Self {
        Self {
            position: None,
            velocity: None,
            force: None,
            acceleration: None,
            angular_velocity: None,
            torque: None,
            stiffness: None,
            refuses: false,
        }
    }

    /// The box that positions stay in, m: the least corner and the largest.
    pub const fn position(mut self, least: [f32; 3], largest: [f32; 3]) -> Self {
        self.position = Some([least, largest]);
        self
    }

    limits! {
        /// The largest speed, m/s, by the robot's own clock, from where it measures itself: however the commanded position jumps.
        velocity;
        /// The largest force, N, that is commanded and, with the [`stiffness`](Self::stiffness), that a position out of reach makes the
        /// controller press with.
        force;
        /// The largest change of the velocity, m/s². Default: none.
        acceleration;
        /// The largest angular speed, rad/s, by the robot's own clock, from how it measures itself turned; 0 where it does not turn.
        angular_velocity;
        /// The largest torque, N·m, that is commanded. What the controller makes of a commanded orientation is the device's to limit. Default: 0, so that none is.
        torque;
        /// Of the device's position controller, N/m: the commanded position stays within force / stiffness of the measured one.
        stiffness;
    }

    /// Drops what is beyond a limit, so that the watchdog stops the robot, instead of bringing it within. Default: brings it within.
    pub const fn refuse(mut self) -> Self {
        self.refuses = true;
        self
    }

    fn session(&self) -> Result<MotionLimits, String> {
        let known = self.position.filter(|corners| corners.iter().flatten().all(|part| part.is_finite()));
        let place = known.map_or((None, "StateLimits::position"), |_| (Some(0.0), ""));
        let [_, velocity, angular_velocity, force] = all([
            place,
            (self.velocity, "StateLimits::velocity"),
            (self.angular_velocity, "StateLimits::angular_velocity"),
            (self.force, "StateLimits::force"),
        ])?;
        optional([
            (self.torque, "StateLimits::torque"),
            (self.acceleration, "StateLimits::acceleration"),
            (self.stiffness, "StateLimits::stiffness"),
        ])?;
        let [least, largest] = known.unwrap_or_default();
        let mut limits = MotionLimits::new().position(least, largest).velocity(velocity).force(force);
        limits = limits.angular_velocity(angular_velocity).torque(self.torque.unwrap_or_default());
        if let Some(acceleration) = self.acceleration {
            limits = limits.acceleration(acceleration);
        }
        if let Some(stiffness) = self.stiffness {
            limits = limits.stiffness(stiffness);
        }
        Ok(limits.policy(policy(self.refuses)))
    }
}

/// Of one joint. Position, velocity and effort have to be set. Units are those of a joint that turns; of one that slides they are m, m/s, N.
///
/// ```
/// use taut::JointLimits;
/// let elbow = JointLimits::new().position(-2.0, 2.0).velocity(1.0).effort(40.0);
/// let arm = vec![elbow; 6];
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct JointLimits {
    position: Option<[f32; 2]>,
    velocity: Option<f32>,
    effort: Option<f32>,
    acceleration: Option<f32>,
    stiffness: Option<f32>,
}

impl JointLimits {
    /// None is set yet.
    pub const fn new() -> Self {
        Self { position: None, velocity: None, effort: None, acceleration: None, stiffness: None }
    }

    /// The range of positions, rad.
    pub const fn position(mut self, least: f32, largest: f32) -> Self {
        self.position = Some([least, largest]);
        self
    }

    limits! {
        /// The largest speed, rad/s, by the robot's own clock, from where the joint measures itself.
        velocity;
        /// The largest effort, N·m, that is commanded and, with the [`stiffness`](Self::stiffness), that a position out of reach makes
        /// the controller press with.
        effort;
        /// The largest change of the velocity, rad/s². Default: none.
        acceleration;
        /// Of the joint's controller, N·m/rad. Default: unknown; then the device alone keeps to the effort.
        stiffness;
    }

    fn session(&self) -> Result<motion::JointLimits, String> {
        let known = self.position.filter(|range| range.iter().all(|end| end.is_finite()));
        let place = known.map_or((None, "JointLimits::position"), |_| (Some(0.0), ""));
        let [_, velocity, effort] =
            all([place, (self.velocity, "JointLimits::velocity"), (self.effort, "JointLimits::effort")])?;
        optional([
            (self.acceleration, "JointLimits::acceleration"),
            (self.stiffness, "JointLimits::stiffness"),
        ])?;
        let [least, largest] = known.unwrap_or_default();
        let mut limits =
            motion::JointLimits::new().position(least, largest).velocity(velocity).effort(effort);
        if let Some(acceleration) = self.acceleration {
            limits = limits.acceleration(acceleration);
        }
        if let Some(stiffness) = self.stiffness {
            limits = limits.stiffness(stiffness);
        }
        Ok(limits)
    }
}

/// Of what a [`Twist`](crate::Twist) moves: all four have to be set.
///
/// ```
/// use taut::TwistLimits;
/// let base = TwistLimits::new().linear(0.8).linear_acceleration(1.0).angular(1.0).angular_acceleration(2.0);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TwistLimits {
    linear: Option<f32>,
    linear_acceleration: Option<f32>,
    angular: Option<f32>,
    angular_acceleration: Option<f32>,
}

impl TwistLimits {
    /// None is set yet.
    pub const fn new() -> Self {
        Self { linear: None, linear_acceleration: None, angular: None, angular_acceleration: None }
    }

    limits! {
        /// The largest speed, m/s.
        linear;
        /// The largest change of the velocity, m/s²; a stop is rest at once.
        linear_acceleration;
        /// The largest angular speed, rad/s.
        angular;
        /// The largest change of the angular velocity, rad/s²; a stop is rest at once.
        angular_acceleration;
    }
}

/// Of a [`Gripper`](crate::Gripper): both have to be set.
///
/// ```
/// let fingers = taut::GripperLimits::new().speed(1.0).effort(15.0);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct GripperLimits {
    speed: Option<f32>,
    effort: Option<f32>,
}

impl GripperLimits {
    /// None is set yet.
    pub const fn new() -> Self {
        Self { speed: None, effort: None }
    }

    limits! {
        /// The largest speed, 1/s: at 2 it closes in half a second.
        speed;
        /// The largest effort that may be asked for, N.
        effort;
    }
}

const fn policy(refuses: bool) -> LimitPolicy {
    if refuses { LimitPolicy::Refuse } else { LimitPolicy::Clamp }
}

pub(crate) mod sealed {
    use super::Limits;

    /// What a session holds a device to.
    #[derive(Clone, Debug)]
    pub struct Held {
        pub limits: Limits,
        /// A force that the device itself has to keep to.
        pub own_force: Option<f32>,
    }

    pub trait Checked {
        /// # Errors
        /// Which are missing.
        fn checked(&self) -> Result<Held, String>;
    }
}

use sealed::{Checked, Held};

impl Held {
    fn new(limits: impl Into<Limits>) -> Self {
        Self { limits: limits.into(), own_force: None }
    }
}

impl Checked for StateLimits {
    fn checked(&self) -> Result<Held, String> {
        let own_force =
            self.force.filter(|_| !self.stiffness.is_some_and(|known| known > 0.0 && known.is_finite()));
        Ok(Held { own_force, ..Held::new(self.session()?) })
    }
}

impl Checked for Vec<JointLimits> {
    fn checked(&self) -> Result<Held, String> {
        let numbered = self.iter().enumerate();
        let joints = numbered.map(|(n, joint)| joint.session().map_err(|why| format!("joint {n}: {why}")));
        let joints: Vec<_> = joints.collect::<Result<_, _>>()?;
        let limits = motion::JointsLimits::each(joints).map_err(|error| error.to_string())?;
        Ok(Held::new(limits))
    }
}

impl Checked for TwistLimits {
    fn checked(&self) -> Result<Held, String> {
        let [linear, linear_acceleration, angular, angular_acceleration] = all([
            (self.linear, "TwistLimits::linear"),
            (self.linear_acceleration, "TwistLimits::linear_acceleration"),
            (self.angular, "TwistLimits::angular"),
            (self.angular_acceleration, "TwistLimits::angular_acceleration"),
        ])?;
        let limits = motion::TwistLimits::new();
        Ok(Held::new(limits.linear(linear, linear_acceleration).angular(angular, angular_acceleration)))
    }
}

impl Checked for GripperLimits {
    fn checked(&self) -> Result<Held, String> {
        let [speed, effort] =
            all([(self.speed, "GripperLimits::speed"), (self.effort, "GripperLimits::effort")])?;
        Ok(Held::new(motion::GripperLimits::new().speed(speed).effort(effort)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_infinite_negative_or_no_number_is_named() {
        let some = StateLimits::new().position([0.0; 3], [1.0; 3]).velocity(f32::INFINITY);
        let why = some.checked().unwrap_err();
        assert_eq!(
            why,
            "set StateLimits::velocity, StateLimits::angular_velocity, StateLimits::force, each to a finite number from 0 up"
        );
        let why = some.velocity(0.1).angular_velocity(0.1).force(f32::NAN).checked().unwrap_err();
        assert!(why.contains("force") && !why.contains("velocity"), "{why}");
        let some = some.angular_velocity(0.1);
        assert!(some.velocity(0.1).force(-1.0).checked().is_err());
        let endless =
            StateLimits::new().position([0.0; 3], [1.0, f32::INFINITY, 1.0]).velocity(0.1).force(1.0);
        assert!(endless.checked().unwrap_err().contains("StateLimits::position"));
        let whole = some.velocity(0.1).force(1.0);
        assert_eq!(whole.checked().unwrap().own_force, Some(1.0), "the device has to keep to it");
        assert_eq!(whole.stiffness(10.0).checked().unwrap().own_force, None);
        assert!(whole.acceleration(f32::NAN).checked().unwrap_err().contains("StateLimits::acceleration"));
        assert!(whole.stiffness(-1.0).checked().unwrap_err().contains("StateLimits::stiffness"));
        let joint = JointLimits::new().position(-1.0, 1.0).velocity(1.0);
        assert!(
            vec![joint.effort(1.0), joint]
                .checked()
                .unwrap_err()
                .starts_with("joint 1: set JointLimits::effort")
        );
        assert!(vec![joint.effort(1.0).acceleration(-1.0)].checked().is_err());
        assert!(Vec::<JointLimits>::new().checked().is_err());
        assert!(TwistLimits::new().linear(1.0).checked().unwrap_err().contains("linear_acceleration"));
        assert!(GripperLimits::new().checked().is_err());
    }
}
