//! What moves a robot: the payloads of channels of kind `motion`, limits on them, and the guards that hold these.
//!
//! A channel of this kind is taken only by a robot that has a [`Guard`] for its schema. The encoding is `"taut"`: numbers are
//! big-endian, reserved bits are zero, lengths are exact, so that every payload has exactly one form. When it was made, and
//! how urgent it is, the channel says.
//!
//! | schema | what | bytes | limits |
//! | --- | --- | --- | --- |
//! | `taut/State` | [`State`]: pose, velocity, force, gripper; how it turns | 56 or 80 | [`MotionLimits`] |
//! | `taut/Joints` | [`Joints`]: positions, velocities, efforts | 8 to 772 | [`JointsLimits`] |
//! | `taut/Twist` | [`Twist`]: linear and angular velocity | 28 | [`TwistLimits`] |
//! | `taut/Gripper` | [`Gripper`]: position, largest effort | 12 | [`GripperLimits`] |
//!
//! Byte 0 of each has the flags; bit 0 is *locked* (the device may move, and the robot does not) and bit 1 *enabling* (the
//! enabling input is held, hold to run).
//!
//! ```
//! use taut_core::{Duration, Time};
//! use taut_session::motion::{Guard, Motion, Schema, Twist, TwistLimits};
//!
//! let mut guard = Guard::new(TwistLimits::new().linear(0.5, 1.0), Duration::from_millis(100));
//! guard.enable(Time::ZERO);
//! let asked = Motion::Twist(Twist { linear: [2.0, 0.0, 0.0], ..Twist::default() });
//! let mut bytes = Vec::new();
//! asked.emit(&mut bytes);
//!
//! let now = Time::ZERO + Duration::from_millis(10);
//! let schema = Schema::from_name("taut/Twist").expect("a schema of motion");
//! let motion = Motion::parse(schema, &bytes)?;
//! assert!(guard.admits(now));
//! let told = guard.bound(now, &motion).expect("it is brought within the limits");
//! assert_eq!(told, Motion::Twist(Twist { linear: [0.01, 0.0, 0.0], ..Twist::default() }));
//! # Ok::<(), taut_session::motion::Error>(())
//! ```

/// Does the same with whichever kind it is.
macro_rules! whichever {
    ($of:expr, $one:ident => $do:expr) => {
        match $of {
            Self::State($one) => $do,
            Self::Joints($one) => $do,
            Self::Twist($one) => $do,
            Self::Gripper($one) => $do,
        }
    };
}

/// The schema of whichever kind it is.
macro_rules! schema_of {
    ($of:expr) => {
        match $of {
            Self::State(_) => $crate::motion::Schema::State,
            Self::Joints(_) => $crate::motion::Schema::Joints,
            Self::Twist(_) => $crate::motion::Schema::Twist,
            Self::Gripper(_) => $crate::motion::Schema::Gripper,
        }
    };
}

mod bytes;
mod gripper;
mod guard;
mod joints;
mod limits;
mod state;
#[cfg(test)]
mod tests;
mod twist;

pub use gripper::Gripper;
pub(crate) use guard::shorten;
pub use guard::{GripperGuard, Guard, JointsGuard, StateGuard, TwistGuard};
pub use joints::{Joints, MAX_JOINTS};
pub use limits::{GripperLimits, JointLimits, JointsLimits, LimitPolicy, Limits, MotionLimits, TwistLimits};
pub use state::{State, Turning};
pub use twist::Twist;

/// Bytes of the longest payload.
pub const MAX_LEN: usize = 4 + 3 * 4 * MAX_JOINTS;

taut_core::named! {
    /// What the bytes of a channel of motion mean.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Schema {
        /// [`State`].
        State = "taut/State",
        /// [`Joints`].
        Joints = "taut/Joints",
        /// [`Twist`].
        Twist = "taut/Twist",
        /// [`Gripper`].
        Gripper = "taut/Gripper",
    }
}

impl Schema {
    /// From its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|schema| schema.name() == name)
    }
}

/// A message that moves a robot, or says where it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Motion {
    /// Where a hand shall be.
    State(State),
    /// Where joints shall be.
    Joints(Joints),
    /// How fast something shall move.
    Twist(Twist),
    /// How far a gripper shall close.
    Gripper(Gripper),
}

impl Motion {
    /// What its bytes mean.
    pub const fn schema(&self) -> Schema {
        schema_of!(self)
    }

    /// Reads a payload of `schema`. Numbers are not looked at: see [`is_finite`](Self::is_finite).
    ///
    /// # Errors
    /// When the bytes are not exactly a payload of it.
    pub fn parse(schema: Schema, bytes: &[u8]) -> Result<Self, Error> {
        Ok(match schema {
            Schema::State => Self::State(State::parse(bytes)?),
            Schema::Joints => Self::Joints(Joints::parse(bytes)?),
            Schema::Twist => Self::Twist(Twist::parse(bytes)?),
            Schema::Gripper => Self::Gripper(Gripper::parse(bytes)?),
        })
    }

    /// Appends the payload.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        whichever!(self, motion => motion.emit(buffer))
    }

    /// How many bytes [`emit`](Self::emit) appends.
    pub fn len(&self) -> usize {
        whichever!(self, motion => motion.len())
    }

    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Is every number finite? What is not must never reach a robot, nor a hand.
    pub fn is_finite(&self) -> bool {
        whichever!(self, motion => motion.is_finite())
    }

    /// The same, of a device whose enabling input is held or not.
    pub fn with_enabling(&self, enabling: bool) -> Self {
        let mut motion = self.clone();
        whichever!(&mut motion, one => one.enabling = enabling);
        motion
    }

    /// The device is locked: it may move, and the robot does not.
    pub const fn locked(&self) -> bool {
        whichever!(self, motion => motion.locked)
    }

    /// The enabling input of the device is held (hold to run).
    pub const fn enabling(&self) -> bool {
        whichever!(self, motion => motion.enabling)
    }
}

/// Why bytes or numbers are not a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No payload has no bytes.
    #[error("no bytes where a payload begins with its flags")]
    Empty,
    /// Not the length that its beginning says.
    #[error("{found} bytes where exactly {needed} are needed")]
    Length {
        /// What it needs.
        needed: usize,
        /// What there is.
        found: usize,
    },
    /// A field with a value that has no meaning.
    #[error("{value} at byte {at} has no meaning")]
    Value {
        /// Which byte.
        at: usize,
        /// What it holds.
        value: u8,
    },
    /// So many numbers of joints where there are 1 to [`MAX_JOINTS`] joints, and each has one.
    #[error("{0} joints, where there are 1 to {MAX_JOINTS}, and as many velocities and efforts")]
    Joints(usize),
}
