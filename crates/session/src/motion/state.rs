//! `taut/State`: where a hand is, how it moves and what it feels.

use super::Error;
use super::bytes::{Flags, emit_floats, exactly, floats_at, reserved};
pub use crate::state::Turning;

/// Pose, velocity and force of a device or a robot: the fields of a frame's
/// [`State`](taut_wire::session::State) that are the state itself, and how it turns where somebody knows.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 0 | flags | bit 0 locked, 1 enabling, 2 turning, 3–7 zero |
/// | 1 | | zero |
/// | 2–3 | gripper | 0 open … 65535 closed |
/// | 4–15 | position x, y, z | m |
/// | 16–31 | orientation w, x, y, z | unit quaternion |
/// | 32–43 | velocity x, y, z | m/s |
/// | 44–55 | force x, y, z | N |
/// | 56–67 | angular velocity x, y, z | rad/s; where it is turning |
/// | 68–79 | torque x, y, z | N·m; where it is turning |
///
/// 56 bytes, or 80 with the 24 of [`Turning`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// The device is locked: it may move, and the robot does not.
    pub locked: bool,
    /// The enabling input of the device is held (hold to run).
    pub enabling: bool,
    /// 0 open … 65535 closed.
    pub gripper: u16,
    /// x, y, z in m.
    pub position: [f32; 3],
    /// A unit quaternion: w, x, y, z.
    pub orientation_wxyz: [f32; 4],
    /// x, y, z in m/s.
    pub velocity: [f32; 3],
    /// x, y, z in N.
    pub force: [f32; 3],
    /// How it turns, where it is told.
    pub turning: Option<Turning>,
}

mod field {
    pub(super) const RESERVED: usize = 1;
    pub(super) const GRIPPER: usize = 2;
    pub(super) const POSITION: usize = 4;
    pub(super) const ORIENTATION: usize = 16;
    pub(super) const VELOCITY: usize = 32;
    pub(super) const FORCE: usize = 44;
    pub(super) const END: usize = 56;
    pub(super) const TURNING: usize = 56;
    pub(super) const TORQUE: usize = 68;
    pub(super) const TURNING_END: usize = 80;
}

const TURNING: u8 = 1 << 2;

impl Default for State {
    /// At rest in the origin, upright, without force; neither locked nor enabling.
    fn default() -> Self {
        Self {
            locked: false,
            enabling: false,
            gripper: 0,
            position: [0.0; 3],
            orientation_wxyz: [1.0, 0.0, 0.0, 0.0],
            velocity: [0.0; 3],
            force: [0.0; 3],
            turning: None,
        }
    }
}

impl From<&crate::State> for State {
    /// Without when it was made and how urgent it was, which a channel says.
    fn from(state: &crate::State) -> Self {
        Self {
            locked: state.locked,
            enabling: state.enabling,
            gripper: state.gripper,
            position: state.position,
            orientation_wxyz: state.orientation_wxyz,
            velocity: state.velocity,
            force: state.force,
            turning: state.turning,
        }
    }
}

impl State {
    /// Reads a payload. Numbers are not looked at: see [`is_finite`](Self::is_finite).
    ///
    /// # Errors
    /// When the bytes are not exactly a payload of this schema.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let flags = Flags::parse(bytes, TURNING)?;
        let is_turning = flags.has(TURNING);
        exactly(bytes, if is_turning { field::TURNING_END } else { field::END })?;
        reserved(bytes, field::RESERVED..field::GRIPPER)?;
        let turning = is_turning.then(|| Turning {
            velocity: floats_at(bytes, field::TURNING),
            torque: floats_at(bytes, field::TORQUE),
        });
        Ok(Self {
            locked: flags.locked(),
            enabling: flags.enabling(),
            gripper: u16::from_be_bytes([bytes[field::GRIPPER], bytes[field::GRIPPER + 1]]),
            position: floats_at(bytes, field::POSITION),
            orientation_wxyz: floats_at(bytes, field::ORIENTATION),
            velocity: floats_at(bytes, field::VELOCITY),
            force: floats_at(bytes, field::FORCE),
            turning,
        })
    }

    /// Appends the payload.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        let flags = Flags::new(self.locked, self.enabling).with(TURNING, self.turning.is_some());
        buffer.extend_from_slice(&[flags.byte(), 0]);
        buffer.extend_from_slice(&self.gripper.to_be_bytes());
        emit_floats(&self.position, buffer);
        emit_floats(&self.orientation_wxyz, buffer);
        emit_floats(&self.velocity, buffer);
        emit_floats(&self.force, buffer);
        if let Some(turning) = &self.turning {
            emit_floats(&turning.velocity, buffer);
            emit_floats(&turning.torque, buffer);
        }
    }

    /// How many bytes [`emit`](Self::emit) appends.
    pub const fn len(&self) -> usize {
        if self.turning.is_some() { field::TURNING_END } else { field::END }
    }

    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Is every number finite?
    pub fn is_finite(&self) -> bool {
        let Turning { velocity, torque } = self.turning.unwrap_or_default();
        let linear =
            self.position.iter().chain(&self.orientation_wxyz).chain(&self.velocity).chain(&self.force);
        linear.chain(&velocity).chain(&torque).copied().all(f32::is_finite)
    }
}
