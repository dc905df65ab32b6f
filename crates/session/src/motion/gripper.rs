//! `taut/Gripper`: how far a gripper shall close, and how hard.

use super::Error;
use super::bytes::{Flags, emit_floats, exactly, float_at, reserved};

/// What a gripper shall do, as `control_msgs/GripperCommand`, but for the unit of the position: 0 is open and 1 closed, as in
/// [`State`](super::State), so that an operator's trigger means the same on every gripper. How many metres or radians that is only
/// the gripper's own driver knows.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 0 | flags | bit 0 locked, 1 enabling, 2–7 zero |
/// | 1–3 | | zero |
/// | 4–7 | position | 0 open … 1 closed |
/// | 8–11 | max effort | N, at least 0; 0 is no force, and not the gripper's own choice |
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gripper {
    /// The device is locked: it may move, and the robot does not.
    pub locked: bool,
    /// The enabling input of the device is held (hold to run).
    pub enabling: bool,
    /// 0 open … 1 closed.
    pub position: f32,
    /// The largest force on the way there and at the end, N, at least 0.
    pub max_effort: f32,
}

mod field {
    pub(super) const RESERVED: usize = 1;
    pub(super) const POSITION: usize = 4;
    pub(super) const MAX_EFFORT: usize = 8;
    pub(super) const END: usize = 12;
}

impl Gripper {
    /// Reads a payload. Numbers are not looked at: see [`is_finite`](Self::is_finite).
    ///
    /// # Errors
    /// When the bytes are not exactly a payload of this schema.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let flags = Flags::parse(bytes, 0)?;
        exactly(bytes, field::END)?;
        reserved(bytes, field::RESERVED..field::POSITION)?;
        Ok(Self {
            locked: flags.locked(),
            enabling: flags.enabling(),
            position: float_at(bytes, field::POSITION),
            max_effort: float_at(bytes, field::MAX_EFFORT),
        })
    }

    /// Appends the payload.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&[Flags::new(self.locked, self.enabling).byte(), 0, 0, 0]);
        emit_floats(&[self.position, self.max_effort], buffer);
    }

    /// How many bytes [`emit`](Self::emit) appends.
    pub const fn len(&self) -> usize {
        field::END
    }

    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Is every number finite?
    pub fn is_finite(&self) -> bool {
        self.position.is_finite() && self.max_effort.is_finite()
    }
}
