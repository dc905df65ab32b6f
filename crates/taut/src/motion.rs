//! What moves robots.

use taut_core::Time;
use taut_session::motion;
pub use taut_session::motion::{Gripper, Joints, Turning, Twist};

use crate::limits::{GripperLimits, JointLimits, StateLimits, TwistLimits};
use crate::message::{Encoding, Failure, Message, Schema};

/// Pose, velocity and force of a hand: the operator's device, or what it moves.
///
/// ```
/// use taut::State;
/// let state = State::at([0.1, 0.0, 0.2]).with_force([0.0, 0.0, -1.5]);
/// assert_eq!((state.orientation_wxyz, state.turning), ([1.0, 0.0, 0.0, 0.0], None));
/// let turned = State::at([0.0; 3]).with_orientation_wxyz([0.0, 1.0, 0.0, 0.0]).with_torque([0.2, 0.0, 0.0]);
/// assert_eq!(turned.turning.map(|turning| turning.torque), Some([0.2, 0.0, 0.0]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct State {
    /// x, y, z in m.
    pub position: [f32; 3],
    /// A unit quaternion: w, x, y, z. Default: upright.
    pub orientation_wxyz: [f32; 4],
    /// x, y, z in m/s.
    pub velocity: [f32; 3],
    /// x, y, z in N.
    pub force: [f32; 3],
    /// Angular velocity, rad/s, and torque, N·m, about the axes of the position, where they are told. What moves and feels a hand has them
    /// [where both ends say so](crate::RobotBuilder::turns).
    pub turning: Option<Turning>,
    /// 0 open … 65535 closed.
    pub gripper: u16,
    /// The operator's device is locked: it may move, and the robot does not.
    pub locked: bool,
    /// The enabling input of the operator's device is held: a robot that is [held to run](crate::RobotBuilder::hold_to_run) stops without.
    pub enabling: bool,
}

impl State {
    /// At rest there, upright, without force.
    pub const fn at(position: [f32; 3]) -> Self {
        Self {
            position,
            orientation_wxyz: [1.0, 0.0, 0.0, 0.0],
            velocity: [0.0; 3],
            force: [0.0; 3],
            turning: None,
            gripper: 0,
            locked: false,
            enabling: false,
        }
    }

    /// And so fast, m/s.
    pub const fn with_velocity(mut self, velocity: [f32; 3]) -> Self {
        self.velocity = velocity;
        self
    }

    /// And turned so: a unit quaternion w, x, y, z.
    pub const fn with_orientation_wxyz(mut self, orientation: [f32; 4]) -> Self {
        self.orientation_wxyz = orientation;
        self
    }

    /// And with this force, N.
    pub const fn with_force(mut self, force: [f32; 3]) -> Self {
        self.force = force;
        self
    }

    /// And turning so fast, rad/s, about x, y, z.
    pub fn with_angular_velocity(mut self, velocity: [f32; 3]) -> Self {
        self.turning.get_or_insert_default().velocity = velocity;
        self
    }

    /// And with this torque, N·m, about x, y, z.
    pub fn with_torque(mut self, torque: [f32; 3]) -> Self {
        self.turning.get_or_insert_default().torque = torque;
        self
    }

    pub(crate) const fn of_session(state: &taut_session::State) -> Self {
        Self {
            position: state.position,
            orientation_wxyz: state.orientation_wxyz,
            velocity: state.velocity,
            force: state.force,
            turning: state.turning,
            gripper: state.gripper,
            locked: state.locked,
            enabling: state.enabling,
        }
    }

    pub(crate) const fn made_at(&self, now: Time) -> taut_session::State {
        taut_session::State {
            position: self.position,
            orientation_wxyz: self.orientation_wxyz,
            velocity: self.velocity,
            force: self.force,
            turning: self.turning,
            gripper: self.gripper,
            locked: self.locked,
            enabling: self.enabling,
            ..taut_session::State::at(now)
        }
    }

    fn to_motion(self) -> motion::State {
        (&self.made_at(Time::ZERO)).into()
    }

    const fn of_motion(state: &motion::State) -> Self {
        Self {
            position: state.position,
            orientation_wxyz: state.orientation_wxyz,
            velocity: state.velocity,
            force: state.force,
            turning: state.turning,
            gripper: state.gripper,
            locked: state.locked,
            enabling: state.enabling,
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self::at([0.0; 3])
    }
}

/// What may move a robot: [`State`], [`Joints`], [`Twist`], [`Gripper`], and nothing else. Each has limits of its own.
pub trait Motion: Message + Clone + sealed::Moves {
    /// Without them no device is moved by it. Of [`Joints`] one for each joint, in their order.
    type Limits: crate::limits::sealed::Checked;
}

pub(crate) mod sealed {
    use super::motion;

    pub trait Moves: Sized {
        fn to_motion(&self) -> motion::Motion;
        fn of_motion(motion: &motion::Motion) -> Option<Self>;
    }
}

/// Both directions between a type and what the session calls it.
macro_rules! moves {
    ($($type:ident: $limits:ty, $to:expr, $of:expr;)*) => {$(
        impl Motion for $type {
            type Limits = $limits;
        }

        impl sealed::Moves for $type {
            fn to_motion(&self) -> motion::Motion {
                motion::Motion::$type($to(self.clone()))
            }
            fn of_motion(motion: &motion::Motion) -> Option<Self> {
                match motion {
                    motion::Motion::$type(known) => Some($of(known)),
                    _ => None,
                }
            }
        }

        impl Message for $type {
            const SCHEMA: Schema = Schema::new(motion::Schema::$type.name(), Encoding::Taut);

            fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), Failure> {
                sealed::Moves::to_motion(self).emit(bytes);
                Ok(())
            }
            fn decode(bytes: &[u8]) -> Result<Self, Failure> {
                let read = motion::Motion::parse(motion::Schema::$type, bytes)?;
                Ok(<Self as sealed::Moves>::of_motion(&read).expect("it was read as one"))
            }
        }
    )*};
}

moves! {
    State: StateLimits, State::to_motion, State::of_motion;
    Joints: Vec<JointLimits>, std::convert::identity, Joints::clone;
    Twist: TwistLimits, std::convert::identity, Twist::clone;
    Gripper: GripperLimits, std::convert::identity, Gripper::clone;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_motion_reads_back() {
        let state =
            State { gripper: 7, enabling: true, ..State::at([1.0, 2.0, 3.0]).with_velocity([0.5; 3]) };
        let mut bytes = Vec::new();
        for state in [state, state.with_angular_velocity([0.5, 0.0, 0.0]).with_torque([0.0, 0.25, 0.0])] {
            bytes.clear();
            state.encode(&mut bytes).unwrap();
            assert_eq!(State::decode(&bytes).unwrap(), state);
            assert_eq!(State::of_session(&state.made_at(Time::ZERO)), state);
        }
        let joints = Joints::new(&[0.1, 0.2]).unwrap();
        bytes.clear();
        joints.encode(&mut bytes).unwrap();
        assert_eq!(Joints::decode(&bytes).unwrap(), joints);
        assert!(Twist::decode(&bytes).is_err());
    }
}
