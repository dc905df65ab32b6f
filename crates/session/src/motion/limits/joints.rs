//! Limits of `taut/Joints`.

use super::{LimitPolicy, range};
use crate::motion::{Error, MAX_JOINTS};

/// Limits of one joint, applied beside the robot whatever the operator sends. All are off by default.
///
/// Units are those of a joint that turns; of one that slides they are m, m/s, m/s², N and N/m.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JointLimits {
    pub(in crate::motion) least: f32,
    pub(in crate::motion) largest: f32,
    pub(in crate::motion) velocity: f32,
    pub(in crate::motion) acceleration: f32,
    pub(in crate::motion) step: f32,
    pub(in crate::motion) effort: f32,
    pub(in crate::motion) stiffness: Option<f32>,
}

impl Default for JointLimits {
    fn default() -> Self {
        Self {
            least: f32::NEG_INFINITY,
            largest: f32::INFINITY,
            velocity: f32::INFINITY,
            acceleration: f32::INFINITY,
            step: f32::INFINITY,
            effort: f32::INFINITY,
            stiffness: None,
        }
    }
}

impl JointLimits {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// The range of positions, rad; `least` ≤ `largest`, or they change places. At its ends no commanded velocity leads out of
    /// it. Default: everywhere.
    pub fn position(mut self, least: f32, largest: f32) -> Self {
        (self.least, self.largest) = range(least, largest);
        self
    }

    at_least_zero! {
        /// The largest speed, rad/s, at least 0: the commanded position moves no further than this times the time that has passed on
        /// the robot's own clock, of a silence 50 ms at most, from where the joint was when the robot was resumed; and the commanded
        /// velocity is no larger. Default: infinite.
        velocity => velocity;
        /// The largest change of the commanded position's velocity, rad/s², at least 0. A target that jumps is approached so that the
        /// way is left to brake; one that moves is followed without lag when its velocity is sent too. The range, the step, the reach
        /// of the effort and the largest speed hold even where that needs a larger change. Default: infinite.
        acceleration => acceleration;
        /// The longest way from one applied message to the next, rad; at least 0. Default: infinite.
        step => step;
        /// The largest effort that the joint's controller may make, N·m, at least 0; the commanded effort is no larger. With a
        /// [`stiffness`](Self::stiffness), the commanded position stays within effort / stiffness of the measured one, but where that
        /// was pushed away: then it comes back no faster than the largest speed. Only the device itself can limit all of the effort: this
        /// is the guard's part. Default: infinite.
        effort => effort;
    }

    /// The least and the largest position, the largest speed and the largest effort; what is not limited is infinite.
    pub fn bounds(&self) -> [f32; 4] {
        [self.least, self.largest, self.velocity, self.effort]
    }

    /// The stiffness with which the joint's controller pulls towards the commanded position, N·m/rad, more than 0. Default:
    /// unknown.
    pub fn stiffness(mut self, stiffness: f32) -> Self {
        self.stiffness = (stiffness > 0.0).then_some(stiffness);
        self
    }
}

/// Limits of all joints of a robot, in the order of the messages. A message with another number of joints is refused.
///
/// ```
/// use taut_session::LimitPolicy;
/// use taut_session::motion::{Error, JointLimits, JointsLimits};
/// let shoulder = JointLimits::new().position(-2.9, 2.9).velocity(2.1).acceleration(15.0).effort(87.0);
/// let wrist = shoulder.velocity(2.6).effort(12.0);
/// let arm = JointsLimits::each([shoulder, shoulder, wrist])?.rate(1_000.0).policy(LimitPolicy::Refuse);
/// assert_eq!(arm.joints().len(), 3);
/// assert_eq!(JointsLimits::all(0, wrist), Err(Error::Joints(0)));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct JointsLimits {
    pub(in crate::motion) joints: Vec<JointLimits>,
    pub(in crate::motion) rate: f32,
    pub(in crate::motion) policy: LimitPolicy,
}

impl JointsLimits {
    /// The same for each of so many joints.
    ///
    /// # Errors
    /// [`Error::Joints`] unless there are 1 to [`MAX_JOINTS`].
    pub fn all(joints: usize, limits: JointLimits) -> Result<Self, Error> {
        if joints > MAX_JOINTS {
            return Err(Error::Joints(joints));
        }
        Self::each(std::iter::repeat_n(limits, joints))
    }

    /// For each joint its own.
    ///
    /// # Errors
    /// [`Error::Joints`] unless there are 1 to [`MAX_JOINTS`].
    pub fn each(limits: impl IntoIterator<Item = JointLimits>) -> Result<Self, Error> {
        // One more than there may be is enough to know that there are too many.
        let joints: Vec<_> = limits.into_iter().take(MAX_JOINTS + 1).collect();
        if !(1..=MAX_JOINTS).contains(&joints.len()) {
            return Err(Error::Joints(joints.len()));
        }
        Ok(Self { joints, rate: super::RATE, policy: LimitPolicy::default() })
    }

    /// Those of each joint.
    pub fn joints(&self) -> &[JointLimits] {
        &self.joints
    }

    rate_and_policy!(rate);
}
