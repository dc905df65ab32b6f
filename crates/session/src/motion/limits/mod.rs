//! What a robot lets itself be told, for each schema.

/// Declares setters of limits that are at least 0.
macro_rules! at_least_zero {
    ($($(#[$doc:meta])* $name:ident => $($field:ident).+;)+) => {$(
        $(#[$doc])*
        pub fn $name(mut self, largest: f32) -> Self {
            self.$($field).+ = super::at_least_zero(largest);
            self
        }
    )+};
}

/// Declares what the limits of every schema have: a rate, and what happens beyond them.
macro_rules! rate_and_policy {
    ($($rate:ident).+) => {
        /// Messages that are taken in a second, at least 1, whatever the operator's rate; a tenth of a second's may come at once, as jitter
        /// brings them. Those beyond are dropped ([`RateLimited`](taut_core::DropCause::RateLimited)). Default: 4000.
        pub fn rate(mut self, hz: f32) -> Self {
            self.$($rate).+ = super::rate(hz);
            self
        }

        /// What happens to messages out of the limits: clamped, joint by joint where it has joints, or refused whole. Default: clamp.
        pub fn policy(mut self, policy: super::LimitPolicy) -> Self {
            self.policy = policy;
            self
        }
    };
}

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
        schema_of!(self)
    }
}

macro_rules! from {
    ($($schema:ident($limits:ident)),+) => {$(
        impl From<$limits> for Limits {
            fn from(limits: $limits) -> Self {
                Self::$schema(limits)
            }
        }
    )+};
}

from!(State(MotionLimits), Joints(JointsLimits), Twist(TwistLimits), Gripper(GripperLimits));

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
