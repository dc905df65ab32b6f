//! What a robot lets itself be told, for each schema.

mod gripper;
mod joints;
mod state;
mod twist;

pub use gripper::GripperLimits;
pub use joints::{JointLimits, JointsLimits};
pub use state::MotionLimits;
pub use twist::TwistLimits;
pub(super) use twist::VelocityLimits;

use super::Schema;

/// What happens to motion that is out of the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitPolicy {
    /// It is brought within them: positions to the nearest face of the box, ways shortened towards their end, velocity and
    /// force in their own direction.
    #[default]
    Clamp,
    /// It is dropped ([`OutOfLimits`](taut_core::DropCause::OutOfLimits)), and the watchdog goes on waiting.
    Refuse,
}

/// The limits of one channel of motion: those of its schema.
#[derive(Clone, Debug, PartialEq)]
pub enum Limits {
    /// Of `taut/State`.
    State(MotionLimits),
    /// Of `taut/Joints`.
    Joints(JointsLimits),
    /// Of `taut/Twist`.
    Twist(TwistLimits),
    /// Of `taut/Gripper`.
    Gripper(GripperLimits),
}

impl Limits {
    /// The schema that they are for.
    pub const fn schema(&self) -> Schema {
        match self {
            Self::State(_) => Schema::State,
            Self::Joints(_) => Schema::Joints,
            Self::Twist(_) => Schema::Twist,
            Self::Gripper(_) => Schema::Gripper,
        }
    }
}

impl From<MotionLimits> for Limits {
    fn from(limits: MotionLimits) -> Self {
        Self::State(limits)
    }
}

impl From<JointsLimits> for Limits {
    fn from(limits: JointsLimits) -> Self {
        Self::Joints(limits)
    }
}

impl From<TwistLimits> for Limits {
    fn from(limits: TwistLimits) -> Self {
        Self::Twist(limits)
    }
}

impl From<GripperLimits> for Limits {
    fn from(limits: GripperLimits) -> Self {
        Self::Gripper(limits)
    }
}

/// Messages in a second that every robot takes: a device at 1 kHz, and urgent ones beside it, with room.
const RATE: f32 = 4_000.0;

/// What is no number lets nothing through.
const fn rate(hz: f32) -> f32 {
    hz.max(1.0)
}

/// What is no number lets nothing through.
const fn at_least_zero(largest: f32) -> f32 {
    largest.max(0.0)
}

/// In this order, or they change places. A position that is no number limits nothing.
fn range(least: f32, largest: f32) -> (f32, f32) {
    let or = |number: f32, other: f32| if number.is_nan() { other } else { number };
    (or(least.min(largest), f32::NEG_INFINITY), or(least.max(largest), f32::INFINITY))
}
