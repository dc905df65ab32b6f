//! Limits of a `taut/State`.

use taut_wire::session::Limits as Wire;

use super::{LimitPolicy, range};

/// Limits on motion and force, applied beside the robot whatever the operator sends. All are off by default: they belong
/// to the robot, and nobody else can know them.
///
/// ```
/// use taut_session::{LimitPolicy, MotionLimits};
/// let limits = MotionLimits::new()
///     .position([-0.2, -0.2, 0.0], [0.2, 0.2, 0.3])
///     .velocity(0.5)
///     .acceleration(5.0)
///     .force(20.0)
///     .stiffness(3000.0)
///     .policy(LimitPolicy::Clamp);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MotionLimits {
    pub(crate) wire: Wire,
    pub(in crate::motion) angular_velocity: f32,
    pub(in crate::motion) torque: f32,
    pub(in crate::motion) stiffness: Option<f32>,
    pub(in crate::motion) policy: LimitPolicy,
}

impl Default for MotionLimits {
    fn default() -> Self {
        Self {
            wire: Wire { rate: super::RATE, ..Wire::default() },
            angular_velocity: f32::INFINITY,
            torque: f32::INFINITY,
            stiffness: None,
            policy: LimitPolicy::default(),
        }
    }
}

impl MotionLimits {
    /// None, but of the rate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Those on what turns, without those on where it is.
    pub fn of_turns(&self) -> Self {
        let Self { angular_velocity, torque, policy, .. } = *self;
        Self { angular_velocity, torque, policy, ..Self::new() }.rate(f32::INFINITY)
    }

    /// The box that positions stay in, m; on each axis `least` ≤ `largest`, or they change places. Default: everywhere.
    pub fn position(mut self, least: [f32; 3], largest: [f32; 3]) -> Self {
        for i in 0..3 {
            (self.wire.position_min[i], self.wire.position_max[i]) = range(least[i], largest[i]);
        }
        self
    }

    at_least_zero! {
        /// The largest speed, m/s, at least 0: the commanded position moves no further than this times the time that has passed on
        /// the robot's own clock, from where the robot was when it was resumed, and the commanded velocity is no larger. Default:
        /// infinite.
        velocity => wire.velocity;
        /// The largest change of the commanded position's velocity, m/s², at least 0. A target that jumps is approached so that the
        /// way is left to brake; one that moves is followed without lag when its velocity is sent too. The box and the largest speed
        /// hold even where it would need a larger change. Default: infinite.
        acceleration => wire.acceleration;
        /// The largest angular speed, rad/s, at least 0: the commanded orientation turns no further than this times the time that has
        /// passed on the robot's own clock, the shorter way, from how the robot was turned when it was resumed, and the commanded
        /// angular velocity is no larger. It is for robots that measure their orientation: until then nothing is taken. Default: infinite.
        angular_velocity => angular_velocity;
        /// The largest commanded torque, N·m, at least 0. What the arm's controller makes of a commanded orientation it does not
        /// limit. Default: infinite.
        torque => torque;
        /// The largest force that the arm's controller may make, N, at least 0; the commanded force is no larger. With a
        /// [`stiffness`](Self::stiffness), the commanded position stays within force / stiffness of the measured one; of an arm that was
        /// pushed away it comes back no faster than the largest speed. Only the device itself can limit all of the force: this is the
        /// guard's part. Default: infinite.
        force => wire.force;
    }

    /// The stiffness with which the arm's controller pulls towards the commanded position, N/m, more than 0. Default: unknown.
    pub fn stiffness(mut self, stiffness: f32) -> Self {
        self.stiffness = (stiffness > 0.0).then_some(stiffness);
        self
    }

    at_least_zero! {
        /// The longest way from one applied state to the next, m; at least 0: with a known rate of states, besides the speed.
        /// Default: infinite.
        step => wire.step;
    }

    rate_and_policy!(wire.rate);
}
