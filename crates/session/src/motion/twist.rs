//! `taut/Twist`: how fast a base or a hand shall move.

use super::Error;
use super::bytes::{Flags, emit_floats, exactly, floats_at, reserved};

/// A velocity in free space, as `geometry_msgs/Twist`.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 0 | flags | bit 0 locked, 1 enabling, 2–7 zero |
/// | 1–3 | | zero |
/// | 4–15 | linear x, y, z | m/s |
/// | 16–27 | angular x, y, z | rad/s |
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Twist {
    /// The device is locked: it may move, and the robot does not.
    pub locked: bool,
    /// The enabling input of the device is held (hold to run).
    pub enabling: bool,
    /// Along x, y, z in m/s.
    pub linear: [f32; 3],
    /// About x, y, z in rad/s.
    pub angular: [f32; 3],
}

mod field {
    pub(super) const RESERVED: usize = 1;
    pub(super) const LINEAR: usize = 4;
    pub(super) const ANGULAR: usize = 16;
    pub(super) const END: usize = 28;
}

impl Twist {
    /// Reads a payload. Numbers are not looked at: see [`is_finite`](Self::is_finite).
    ///
    /// # Errors
    /// When the bytes are not exactly a payload of this schema.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let flags = Flags::parse(bytes, 0)?;
        exactly(bytes, field::END)?;
        reserved(bytes, field::RESERVED..field::LINEAR)?;
        Ok(Self {
            locked: flags.locked(),
            enabling: flags.enabling(),
            linear: floats_at(bytes, field::LINEAR),
            angular: floats_at(bytes, field::ANGULAR),
        })
    }

    /// Appends the payload.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&[Flags::new(self.locked, self.enabling).byte(), 0, 0, 0]);
        emit_floats(&self.linear, buffer);
        emit_floats(&self.angular, buffer);
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
        self.linear.iter().chain(&self.angular).copied().all(f32::is_finite)
    }
}
