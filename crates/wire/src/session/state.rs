//! Motion and force.

use super::{Error, codes, emit_floats, floats_at, reserved, u32_at, u64_at};

codes! {
    /// How urgent a state is (Clerix 2025): in which of the queues it waits and what it overtakes.
    #[derive(Default)]
    Priority {
        /// At the configured rate.
        #[default]
        Normal = 0 "normal",
        /// Ahead of normal, at most one per half interval of the rate.
        High = 1 "high",
        /// At once, ahead of everything, never held back.
        Emergency = 2 "emergency",
    }
}

/// Pose, velocity and force of one device at one time.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 8–15 | sequence | counts up by one for every state made |
/// | 16–23 | created | ns |
/// | 24–27 | waited | µs between creation and sending; 2³² − 1 for anything longer |
/// | 28–31 | deadline | µs of age at which it is worthless; 0: never |
/// | 32 | flags | bits 0–1 priority, 2–3 stream, 4 locked, 5 enabling, 6–7 zero |
/// | 33 | | zero |
/// | 34–35 | gripper | 0 open … 65535 closed |
/// | 36–47 | position x, y, z | m |
/// | 48–63 | orientation w, x, y, z | unit quaternion |
/// | 64–75 | velocity x, y, z | m/s |
/// | 76–87 | force x, y, z | N |
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Counts up by one for every state made.
    pub sequence: u64,
    /// When it was made, ns.
    pub created_ns: u64,
    /// How long it waited before it was sent, µs; `u32::MAX` for anything longer.
    pub waited_us: u32,
    /// The age at which it is worthless, µs; 0 for never.
    pub deadline_us: u32,
    /// How urgent.
    pub priority: Priority,
    /// The logical stream it was sent on, 0 to 3.
    pub stream: u8,
    /// The device is locked: it may move, and the robot does not.
    pub locked: bool,
    /// The enabling input of the device is held (hold to run).
    pub enabling: bool,
    /// 0 open … 65535 closed.
    pub gripper: u16,
    /// x, y, z in m.
    pub position: [f32; 3],
    /// A quaternion: w, x, y, z.
    pub orientation_wxyz: [f32; 4],
    /// x, y, z in m/s.
    pub velocity: [f32; 3],
    /// x, y, z in N.
    pub force: [f32; 3],
}

mod field {
    pub(super) const SEQUENCE: usize = 8;
    pub(super) const CREATED: usize = 16;
    pub(super) const WAITED: usize = 24;
    pub(super) const DEADLINE: usize = 28;
    pub(super) const FLAGS: usize = 32;
    pub(super) const RESERVED: usize = 33;
    pub(super) const GRIPPER: usize = 34;
    pub(super) const POSITION: usize = 36;
    pub(super) const ORIENTATION: usize = 48;
    pub(super) const VELOCITY: usize = 64;
    pub(super) const FORCE: usize = 76;
    pub(super) const APPLIED: usize = 88;
}

const LOCKED: u8 = 1 << 4;
const ENABLING: u8 = 1 << 5;

impl Default for State {
    /// At rest in the origin, upright, not urgent, without a deadline.
    fn default() -> Self {
        Self {
            sequence: 0,
            created_ns: 0,
            waited_us: 0,
            deadline_us: 0,
            priority: Priority::Normal,
            stream: 0,
            locked: false,
            enabling: false,
            gripper: 0,
            position: [0.0; 3],
            orientation_wxyz: [1.0, 0.0, 0.0, 0.0],
            velocity: [0.0; 3],
            force: [0.0; 3],
        }
    }
}

impl State {
    /// Is every number finite? What is not must never reach a robot, nor a hand.
    pub fn is_finite(&self) -> bool {
        let numbers =
            self.position.iter().chain(&self.orientation_wxyz).chain(&self.velocity).chain(&self.force);
        numbers.copied().all(f32::is_finite)
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let flags = bytes[field::FLAGS];
        let value = Error::Value { at: field::FLAGS, value: flags };
        let priority = Priority::from_code(flags & 3).filter(|_| flags >> 6 == 0).ok_or(value)?;
        reserved(bytes, field::RESERVED..field::GRIPPER)?;
        Ok(Self {
            sequence: u64_at(bytes, field::SEQUENCE),
            created_ns: u64_at(bytes, field::CREATED),
            waited_us: u32_at(bytes, field::WAITED),
            deadline_us: u32_at(bytes, field::DEADLINE),
            priority,
            stream: flags >> 2 & 3,
            locked: flags & LOCKED != 0,
            enabling: flags & ENABLING != 0,
            gripper: u16::from_be_bytes([bytes[field::GRIPPER], bytes[field::GRIPPER + 1]]),
            position: floats_at(bytes, field::POSITION),
            orientation_wxyz: floats_at(bytes, field::ORIENTATION),
            velocity: floats_at(bytes, field::VELOCITY),
            force: floats_at(bytes, field::FORCE),
        })
    }

    /// # Panics
    /// When `stream` is more than 3, which two bits do not hold.
    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        assert!(self.stream <= 3, "a session has four streams");
        buffer.extend_from_slice(&self.sequence.to_be_bytes());
        buffer.extend_from_slice(&self.created_ns.to_be_bytes());
        buffer.extend_from_slice(&self.waited_us.to_be_bytes());
        buffer.extend_from_slice(&self.deadline_us.to_be_bytes());
        let locked = if self.locked { LOCKED } else { 0 };
        let enabling = if self.enabling { ENABLING } else { 0 };
        buffer.extend_from_slice(&[self.priority.code() | self.stream << 2 | locked | enabling, 0]);
        buffer.extend_from_slice(&self.gripper.to_be_bytes());
        emit_floats(&self.position, buffer);
        emit_floats(&self.orientation_wxyz, buffer);
        emit_floats(&self.velocity, buffer);
        emit_floats(&self.force, buffer);
    }
}

/// The robot's own state, for the operator to see and feel: a [`State`], then in bytes 88–95 the sequence of the
/// operator's state that the robot was following, 0 for none. Its sequence and its clock are the robot's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Feedback {
    /// Pose, velocity and force as measured at the robot.
    pub state: State,
    /// The sequence of the last state that the robot applied; 0 for none.
    pub applied: u64,
}

impl Feedback {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Ok(Self { state: State::parse(bytes)?, applied: u64_at(bytes, field::APPLIED) })
    }

    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        self.state.emit(buffer);
        buffer.extend_from_slice(&self.applied.to_be_bytes());
    }
}
