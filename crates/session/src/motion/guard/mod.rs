//! What stands between motion that was taken and the device: what it is told never leaves the limits, whatever is asked.

mod gripper;
mod joints;
mod moment;
mod set_point;
mod state;
mod turn;
mod twist;
mod vector;

pub use gripper::GripperGuard;
pub use joints::JointsGuard;
pub use state::StateGuard;
pub use twist::TwistGuard;
pub(crate) use vector::shorten;

use taut_core::{Duration, LeakyBucket, Time};
use taut_wire::session::Verdict;

use super::{Limits, Motion, Schema};

/// Holds what a device is told within [`Limits`], by the robot's own clock and by where the robot measures itself; one for each
/// channel of motion. Sans-IO: it knows no clock but the `now` that it is handed.
///
/// Where limits contradict each other, the acceleration gives way first, then the reach of the effort (where the robot was pushed
/// away), never the speed or the step, and never the range: a set point that is outside of it already, because the robot was measured
/// there, only comes nearer.
#[derive(Clone, Debug)]
pub enum Guard {
    /// Of `taut/State`.
    State(Box<StateGuard>),
    /// Of `taut/Joints`.
    Joints(JointsGuard),
    /// Of `taut/Twist`.
    Twist(TwistGuard),
    /// Of `taut/Gripper`.
    Gripper(GripperGuard),
}

impl Guard {
    /// What the robot measured counts for `measured_for`; the watchdog's time is a good choice.
    pub fn new(limits: impl Into<Limits>, measured_for: Duration) -> Self {
        match limits.into() {
            Limits::State(limits) => Self::State(Box::new(StateGuard::new(limits, measured_for))),
            Limits::Joints(limits) => Self::Joints(JointsGuard::new(&limits, measured_for)),
            Limits::Twist(limits) => Self::Twist(TwistGuard::new(limits)),
            Limits::Gripper(limits) => Self::Gripper(GripperGuard::new(limits, measured_for)),
        }
    }

    /// The schema that it takes.
    pub const fn schema(&self) -> Schema {
        schema_of!(self)
    }

    /// Where the robot measured itself at `now`: of a state the position, orientation and gripper count, of joints and a gripper the
    /// position, of a twist nothing. What is of another schema or another number of joints, or is not finite, changes nothing.
    pub fn measure(&mut self, now: Time, measured: &Motion) {
        match (self, measured) {
            (Self::State(guard), Motion::State(state)) => guard.measure_motion(now, state),
            (Self::Joints(guard), Motion::Joints(joints)) => guard.measure(now, joints),
            (Self::Gripper(guard), Motion::Gripper(gripper)) => guard.measure(now, gripper),
            _ => {}
        }
    }

    /// It was resumed: motion begins where the robot is, at rest.
    pub fn enable(&mut self, now: Time) {
        whichever!(self, guard => guard.enable(now))
    }

    /// Motion that is asked for since then, and has not been let through, begins where the robot is now, with the time that it has waited.
    pub fn begin(&mut self, now: Time, since: Time) {
        self.enable(since.max(now - set_point::LONGEST_STEP));
    }

    /// May one more message come? Then it counts.
    pub fn admits(&mut self, now: Time) -> bool {
        whichever!(self, guard => guard.admission.admits(now))
    }

    /// Could `asked` be taken if it were applied at `now`? Nothing changes.
    ///
    /// # Errors
    /// As [`bound`](Self::bound).
    pub fn check(&self, now: Time, asked: &Motion) -> Result<(), Verdict> {
        if !asked.is_finite() {
            return Err(Verdict::NotFinite);
        }
        match (self, asked) {
            (Self::State(guard), Motion::State(state)) => guard.check_motion(now, state),
            (Self::Joints(guard), Motion::Joints(joints)) => guard.check(now, joints),
            (Self::Twist(guard), Motion::Twist(twist)) => guard.check(now, twist),
            (Self::Gripper(guard), Motion::Gripper(gripper)) => guard.check(now, gripper),
            _ => Err(Verdict::OutOfLimits),
        }
    }

    /// `asked` within the limits: what the device shall be told at `now`, and what it was told from then on. It is finite; an
    /// orientation is a unit quaternion. A device that is locked moves nothing: places stay, and what moves or pushes is 0; a gripper
    /// holds on as it does.
    ///
    /// # Errors
    /// [`Verdict::NotFinite`] where a number is not finite, or an orientation none. [`Verdict::OutOfLimits`] under
    /// [`LimitPolicy::Refuse`](super::LimitPolicy::Refuse) for everything that is not within the limits as it is; where a limit begins
    /// at a place that nobody knows; for another number of joints; and for another schema. Then nothing changes.
    pub fn bound(&mut self, now: Time, asked: &Motion) -> Result<Motion, Verdict> {
        if !asked.is_finite() {
            return Err(Verdict::NotFinite);
        }
        match (self, asked) {
            (Self::State(guard), Motion::State(state)) => guard.bound_motion(now, state).map(Motion::State),
            (Self::Joints(guard), Motion::Joints(joints)) => guard.bound(now, joints).map(Motion::Joints),
            (Self::Twist(guard), Motion::Twist(twist)) => guard.bound(now, twist).map(Motion::Twist),
            (Self::Gripper(guard), Motion::Gripper(gripper)) => {
                guard.bound(now, gripper).map(Motion::Gripper)
            }
            _ => Err(Verdict::OutOfLimits),
        }
    }
}

/// This part of a second's messages may come at once.
const BURST: f64 = 0.1;

/// How many messages are taken in a second.
#[derive(Clone, Debug)]
struct Admission(Option<LeakyBucket>);

impl Admission {
    fn new(rate: f32) -> Self {
        let hz = f64::from(rate).min(1e9);
        let bucket =
            || LeakyBucket::new(Duration::from_nanos((1e9 / hz) as u64), (hz * BURST).max(1.0) as u64);
        Self(rate.is_finite().then(bucket))
    }

    fn admits(&mut self, now: Time) -> bool {
        self.0.as_mut().is_none_or(|bucket| bucket.take(now))
    }
}

#[cfg(test)]
mod tests;
