//! `taut/Joints`: where the joints of a robot are or shall be, how fast they move and how hard.

use super::Error;
use super::bytes::{Flags, emit_floats, exactly, float_at, reserved};

/// Joints, as `sensor_msgs/JointState`, in an order that both ends have agreed on.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 0 | flags | bit 0 locked, 1 enabling, 2 velocities, 3 efforts, 4–7 zero |
/// | 1 | joints *n* | 1 to 64 |
/// | 2–3 | | zero |
/// | *n* × 4 | positions | rad |
/// | *n* × 4 | velocities | rad/s; where the flag is set |
/// | *n* × 4 | efforts | N·m; where the flag is set |
///
/// Of a joint that slides these are m, m/s and N. 8 to 772 bytes.
///
/// ```
/// use taut_session::motion::{Error, Joints};
/// let joints = Joints::new(&[0.1, -0.2])?.with_velocity(&[0.0, 0.5])?;
/// assert_eq!((joints.position(), joints.velocity(), joints.effort()), (&[0.1, -0.2][..], &[0.0, 0.5][..], &[][..]));
///
/// let mut bytes = Vec::new();
/// joints.emit(&mut bytes);
/// assert_eq!(Joints::parse(&bytes)?, joints);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Joints {
    /// The device is locked: it may move, and the robot does not.
    pub locked: bool,
    /// The enabling input of the device is held (hold to run).
    pub enabling: bool,
    pub(super) position: Vec<f32>,
    /// As many as positions, or none; efforts too.
    pub(super) velocity: Vec<f32>,
    pub(super) effort: Vec<f32>,
}

/// The most joints that a payload has.
pub const MAX_JOINTS: usize = 64;

mod field {
    pub(super) const COUNT: usize = 1;
    pub(super) const RESERVED: usize = 2;
    pub(super) const POSITION: usize = 4;
}

const VELOCITY: u8 = 1 << 2;
const EFFORT: u8 = 1 << 3;

impl Joints {
    /// Joints at these positions, rad; neither locked nor enabling.
    ///
    /// # Errors
    /// [`Error::Joints`] unless there are 1 to [`MAX_JOINTS`].
    pub fn new(position: &[f32]) -> Result<Self, Error> {
        if !(1..=MAX_JOINTS).contains(&position.len()) {
            return Err(Error::Joints(position.len()));
        }
        Ok(Self {
            locked: false,
            enabling: false,
            position: position.to_vec(),
            velocity: Vec::new(),
            effort: Vec::new(),
        })
    }

    /// And how fast they move, rad/s.
    ///
    /// # Errors
    /// [`Error::Joints`] unless there are as many as positions.
    pub fn with_velocity(mut self, velocity: &[f32]) -> Result<Self, Error> {
        self.velocity = self.as_many(velocity)?;
        Ok(self)
    }

    /// And how hard, N·m.
    ///
    /// # Errors
    /// [`Error::Joints`] unless there are as many as positions.
    pub fn with_effort(mut self, effort: &[f32]) -> Result<Self, Error> {
        self.effort = self.as_many(effort)?;
        Ok(self)
    }

    fn as_many(&self, numbers: &[f32]) -> Result<Vec<f32>, Error> {
        if numbers.len() == self.position.len() {
            Ok(numbers.to_vec())
        } else {
            Err(Error::Joints(numbers.len()))
        }
    }

    /// rad, one for each joint.
    pub fn position(&self) -> &[f32] {
        &self.position
    }

    /// rad/s, one for each joint, or none where they are not told.
    pub fn velocity(&self) -> &[f32] {
        &self.velocity
    }

    /// N·m, one for each joint, or none where they are not told.
    pub fn effort(&self) -> &[f32] {
        &self.effort
    }

    /// Reads a payload. Numbers are not looked at: see [`is_finite`](Self::is_finite).
    ///
    /// # Errors
    /// When the bytes are not exactly a payload of this schema.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let flags = Flags::parse(bytes, VELOCITY | EFFORT)?;
        let count = bytes.get(field::COUNT).copied();
        let count = usize::from(count.ok_or(Error::Length { needed: field::POSITION, found: bytes.len() })?);
        if !(1..=MAX_JOINTS).contains(&count) {
            return Err(Error::Joints(count));
        }
        let rows = 1 + usize::from(flags.has(VELOCITY)) + usize::from(flags.has(EFFORT));
        exactly(bytes, field::POSITION + 4 * count * rows)?;
        reserved(bytes, field::RESERVED..field::POSITION)?;
        let row = |row: usize| -> Vec<f32> {
            (0..count).map(|i| float_at(bytes, field::POSITION + 4 * (row * count + i))).collect()
        };
        Ok(Self {
            locked: flags.locked(),
            enabling: flags.enabling(),
            position: row(0),
            velocity: if flags.has(VELOCITY) { row(1) } else { Vec::new() },
            effort: if flags.has(EFFORT) { row(rows - 1) } else { Vec::new() },
        })
    }

    /// Appends the payload.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        let flags = Flags::new(self.locked, self.enabling)
            .with(VELOCITY, !self.velocity.is_empty())
            .with(EFFORT, !self.effort.is_empty());
        buffer.extend_from_slice(&[flags.byte(), self.position.len() as u8, 0, 0]);
        emit_floats(&self.position, buffer);
        emit_floats(&self.velocity, buffer);
        emit_floats(&self.effort, buffer);
    }

    /// How many bytes [`emit`](Self::emit) appends.
    pub fn len(&self) -> usize {
        field::POSITION + 4 * (self.position.len() + self.velocity.len() + self.effort.len())
    }

    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Is every number finite?
    pub fn is_finite(&self) -> bool {
        self.position.iter().chain(&self.velocity).chain(&self.effort).copied().all(f32::is_finite)
    }
}
