//! Limits of `taut/Gripper`.

use super::{LimitPolicy, range};

/// Limits of a gripper, applied beside the robot whatever the operator sends. All but the range are off by default.
///
/// ```
/// use taut_session::motion::GripperLimits;
/// let gripper = GripperLimits::new().range(0.0, 0.9).speed(2.0).effort(30.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GripperLimits {
    pub(in crate::motion) least: f32,
    pub(in crate::motion) largest: f32,
    pub(in crate::motion) speed: f32,
    pub(in crate::motion) effort: f32,
    pub(in crate::motion) rate: f32,
    pub(in crate::motion) policy: LimitPolicy,
}

impl Default for GripperLimits {
    fn default() -> Self {
        Self {
            least: 0.0,
            largest: 1.0,
            speed: f32::INFINITY,
            effort: f32::INFINITY,
            rate: super::RATE,
            policy: LimitPolicy::default(),
        }
    }
}

impl GripperLimits {
    /// None, but of the rate, and that positions are from 0 to 1.
    pub fn new() -> Self {
        Self::default()
    }

    /// The range of positions, in 0 open … 1 closed; what is beyond these is brought to them, and `least` ≤ `largest`, or they
    /// change places. Default: 0 to 1.
    pub fn range(mut self, least: f32, largest: f32) -> Self {
        let (least, largest) = range(least, largest);
        (self.least, self.largest) = (least.clamp(0.0, 1.0), largest.clamp(0.0, 1.0));
        self
    }

    at_least_zero! {
        /// The largest speed, 1/s (at 2 it closes in half a second), at least 0: the commanded position moves no further than this times
        /// the time that has passed on the robot's own clock, of a silence 50 ms at most, from where the gripper was when the robot was
        /// resumed. Default: infinite.
        speed => speed;
        /// The largest effort that may be asked for, N, at least 0. Default: infinite.
        effort => effort;
    }

    rate_and_policy!(rate);
}
