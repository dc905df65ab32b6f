//! Limits of `taut/Twist`.

use super::{LimitPolicy, at_least_zero};

/// Limits of a commanded velocity, applied beside the robot whatever the operator sends. All are off by default.
///
/// ```
/// use taut_session::motion::TwistLimits;
/// // A base with two driven wheels: it goes ahead and back, and turns.
/// let base = TwistLimits::new()
///     .linear(1.0, 2.0)
///     .angular(1.5, 4.0)
///     .axes([true, false, false], [false, false, true]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwistLimits {
    pub(in crate::motion) linear: VelocityLimits,
    pub(in crate::motion) angular: VelocityLimits,
    pub(in crate::motion) rate: f32,
    pub(in crate::motion) policy: LimitPolicy,
}

/// Of one vector: how long it may be, how fast it may change, and the axes that it has at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::motion) struct VelocityLimits {
    pub(in crate::motion) speed: f32,
    pub(in crate::motion) acceleration: f32,
    pub(in crate::motion) axes: [bool; 3],
}

impl Default for TwistLimits {
    fn default() -> Self {
        let none = VelocityLimits { speed: f32::INFINITY, acceleration: f32::INFINITY, axes: [true; 3] };
        Self { linear: none, angular: none, rate: super::RATE, policy: LimitPolicy::default() }
    }
}

impl TwistLimits {
    /// None, but of the rate.
    pub fn new() -> Self {
        Self::default()
    }

    /// The largest speed, m/s, and the largest change of the velocity by the robot's own clock, m/s²; both at least 0, of the whole
    /// vector. The change counts from rest when the robot is resumed, and from what it was told last after that, over the time
    /// between, of a silence 50 ms at most. Default: infinite.
    ///
    /// The acceleration bounds braking too, but for a stop and for a device that is locked, which are rest at once. Under
    /// [`LimitPolicy::Refuse`] a message that brakes harder is refused as any other.
    pub fn linear(mut self, speed: f32, acceleration: f32) -> Self {
        self.linear.speed = at_least_zero(speed);
        self.linear.acceleration = at_least_zero(acceleration);
        self
    }

    /// As [`linear`](Self::linear), of turning: rad/s and rad/s². Default: infinite.
    pub fn angular(mut self, speed: f32, acceleration: f32) -> Self {
        self.angular.speed = at_least_zero(speed);
        self.angular.acceleration = at_least_zero(acceleration);
        self
    }

    /// Along which of x, y, z it moves, and about which it turns; the others are 0, whatever is asked. Default: all.
    pub fn axes(mut self, linear: [bool; 3], angular: [bool; 3]) -> Self {
        self.linear.axes = linear;
        self.angular.axes = angular;
        self
    }

    rate_and_policy!(rate);
}
