//! Motion and force.

use super::report::Ack;
use super::{Error, HEADER_LEN, TURNING_VERSION, array, codes, field as header, floats_at, u16_at, u32_at};

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
/// | 8–11 | sequence | counts up by one for every state made, modulo 2³² |
/// | 12–15 | created | µs, modulo 2³² |
/// | 16–17 | waited | 16 µs between creation and sending; 65 535 for anything longer |
/// | 18 | flags | bits 0–1 priority, 2–3 stream, 4 locked, 5 enabling, 6 energy, 7 turning |
/// | 19–20 | gripper | 0 open … 65535 closed |
/// | 21–32 | position x, y, z | m |
/// | 33–48 | orientation w, x, y, z | unit quaternion |
/// | 49–60 | velocity x, y, z | m/s |
/// | 61–72 | force x, y, z | N |
/// | 24 after the frame's own, with bit 7 | angular velocity x, y, z; torque x, y, z | rad/s; N·m |
/// | 8 after these, with bit 6 | energy | J |
/// | 8 after these, with bits 6 and 7 | energy of turns | J |
///
/// A frame with bit 7 is of [`TURNING_VERSION`], so that whoever knows no turning says so; every other one is of [`VERSION`](super::VERSION).
///
/// How long states are of use both ends know from the hello. What is read of a frame has the low bits of the sequence and of the time,
/// and no deadline: the reader, who knows the sequence before and the sender's clock, completes them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Counts up by one for every state made.
    pub sequence: u64,
    /// When it was made, ns; on the wire whole µs.
    pub created_ns: u64,
    /// How long it waited before it was sent, µs; on the wire in units of 16, up to 1.05 s.
    pub waited_us: u32,
    /// The age at which it is worthless, µs; 0 for never. Not on the wire: see [`Hello::deadline_us`](super::Hello::deadline_us).
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
    /// What a control law has put into the channel so far, J.
    pub energy: Option<f64>,
    /// How it turns, where it is told.
    pub turning: Option<Turning>,
    /// What a control law has put into the channel of turns so far, J; told where both `energy` and `turning` are.
    pub turning_energy: f64,
}

/// How something turns, and what turns it, about the axes that positions have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turning {
    /// About x, y, z in rad/s.
    pub velocity: [f32; 3],
    /// About x, y, z in N·m.
    pub torque: [f32; 3],
}

/// Bytes of a frame that is a state alone.
pub(super) const LEN: usize = 73;
/// The unit in which a state says how long it waited, µs.
const WAITED_UNIT_US: u32 = 16;

mod field {
    pub(super) const SEQUENCE: usize = 8;
    pub(super) const CREATED: usize = 12;
    pub(super) const WAITED: usize = 16;
    pub(super) const FLAGS: usize = 18;
    pub(super) const GRIPPER: usize = 19;
    pub(super) const POSITION: usize = 21;
    pub(super) const ORIENTATION: usize = 33;
    pub(super) const VELOCITY: usize = 49;
    pub(super) const FORCE: usize = 61;
    pub(super) const APPLIED: usize = super::LEN;
    pub(super) const ACK: usize = 77;
}

const LOCKED: u8 = 1 << 4;
const ENABLING: u8 = 1 << 5;
const ENERGY: u8 = 1 << 6;
const TURNING: u8 = 1 << 7;
/// Bytes of an energy, and of a turning.
const ENERGY_LEN: usize = 8;
const TURNING_LEN: usize = 24;
/// The most that the frame of a state ends with.
pub(super) const TAIL_MAX: usize = TURNING_LEN + 2 * ENERGY_LEN;

/// Does the frame of a state say how it turns? One that is too short to say so may.
pub(super) fn is_turning(bytes: &[u8]) -> bool {
    bytes.get(header::VERSION) == Some(&TURNING_VERSION)
        && bytes.get(field::FLAGS).is_none_or(|flags| flags & TURNING != 0)
}

/// Bytes with which the frame of a state ends, by its flags.
pub(super) fn tail_len(bytes: &[u8]) -> usize {
    let energy = usize::from(bytes.get(field::FLAGS).is_some_and(|flags| flags & ENERGY != 0));
    let turning = usize::from(is_turning(bytes));
    energy * ENERGY_LEN + turning * (TURNING_LEN + energy * ENERGY_LEN)
}

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
            energy: None,
            turning: None,
            turning_energy: 0.0,
        }
    }
}

impl State {
    /// Is every number finite? What is not must never reach a robot, nor a hand.
    pub fn is_finite(&self) -> bool {
        let numbers =
            self.position.iter().chain(&self.orientation_wxyz).chain(&self.velocity).chain(&self.force);
        let Turning { velocity, torque } = self.turning.unwrap_or_default();
        let energies = [self.energy.unwrap_or_default(), self.turning_energy];
        numbers.chain(&velocity).chain(&torque).copied().all(f32::is_finite)
            && energies.into_iter().all(f64::is_finite)
    }

    /// Of a frame, and what is [behind](tail_len) it.
    pub(super) fn parse(bytes: &[u8], tail: &[u8]) -> Result<Self, Error> {
        let flags = bytes[field::FLAGS];
        let value = Error::Value { at: field::FLAGS, value: flags };
        let priority = Priority::from_code(flags & 3)
            .filter(|_| is_turning(bytes) == (flags & TURNING != 0))
            .ok_or(value)?;
        let energies = &tail[if is_turning(bytes) { TURNING_LEN } else { 0 }..];
        let mut energies =
            energies.chunks_exact(ENERGY_LEN).map(|energy| f64::from_be_bytes(array(energy, 0)));
        Ok(Self {
            sequence: u32_at(bytes, field::SEQUENCE).into(),
            created_ns: u64::from(u32_at(bytes, field::CREATED)) * 1_000,
            waited_us: u32::from(u16_at(bytes, field::WAITED)) * WAITED_UNIT_US,
            deadline_us: 0,
            priority,
            stream: flags >> 2 & 3,
            locked: flags & LOCKED != 0,
            enabling: flags & ENABLING != 0,
            gripper: u16_at(bytes, field::GRIPPER),
            position: floats_at(bytes, field::POSITION),
            orientation_wxyz: floats_at(bytes, field::ORIENTATION),
            velocity: floats_at(bytes, field::VELOCITY),
            force: floats_at(bytes, field::FORCE),
            energy: energies.next(),
            turning: is_turning(bytes)
                .then(|| Turning { velocity: floats_at(tail, 0), torque: floats_at(tail, 12) }),
            turning_energy: energies.next().unwrap_or_default(),
        })
    }

    /// # Panics
    /// When `stream` is more than 3, which two bits do not hold.
    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        assert!(self.stream <= 3, "a session has four streams");
        let locked = if self.locked { LOCKED } else { 0 };
        let enabling = if self.enabling { ENABLING } else { 0 };
        let energy = if self.energy.is_some() { ENERGY } else { 0 };
        let turning = if self.turning.is_some() { TURNING } else { 0 };
        let waited = (self.waited_us / WAITED_UNIT_US).min(u16::MAX.into()) as u16;
        let mut bytes = [0; LEN];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(field::SEQUENCE, &(self.sequence as u32).to_be_bytes());
        put(field::CREATED, &((self.created_ns / 1_000) as u32).to_be_bytes());
        put(field::WAITED, &waited.to_be_bytes());
        put(field::FLAGS, &[self.priority.code() | self.stream << 2 | locked | enabling | energy | turning]);
        put(field::GRIPPER, &self.gripper.to_be_bytes());
        put(field::POSITION, self.position.map(f32::to_be_bytes).as_flattened());
        put(field::ORIENTATION, self.orientation_wxyz.map(f32::to_be_bytes).as_flattened());
        put(field::VELOCITY, self.velocity.map(f32::to_be_bytes).as_flattened());
        put(field::FORCE, self.force.map(f32::to_be_bytes).as_flattened());
        buffer.extend_from_slice(&bytes[HEADER_LEN..]);
    }

    /// Appends what the frame ends with.
    pub(super) fn emit_tail(&self, buffer: &mut Vec<u8>) {
        if let Some(Turning { velocity, torque }) = self.turning {
            buffer.extend_from_slice(velocity.map(f32::to_be_bytes).as_flattened());
            buffer.extend_from_slice(torque.map(f32::to_be_bytes).as_flattened());
        }
        if let Some(energy) = self.energy {
            buffer.extend_from_slice(&energy.to_be_bytes());
            self.turning.iter().for_each(|_| buffer.extend_from_slice(&self.turning_energy.to_be_bytes()));
        }
    }

    /// How many bytes [`emit_tail`](Self::emit_tail) appends.
    pub(super) fn tail_len(&self) -> usize {
        let energy = self.energy.map_or(0, |_| ENERGY_LEN);
        energy + self.turning.map_or(0, |_| TURNING_LEN + energy)
    }
}

/// The robot's own state, for the operator to see and feel: a [`State`], then in bytes 73–76 the low 32 bits of the sequence of the
/// operator's state that the robot was following, 0 for none. Its sequence and its clock are the robot's. In a frame of kind 17 the
/// robot's [acknowledgement](Ack) follows, without a frame of its own, in bytes 77–98.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Feedback {
    /// Pose, velocity and force as measured at the robot.
    pub state: State,
    /// The sequence of the last state that the robot applied; 0 for none.
    pub applied: u64,
    /// Of the operator's states.
    pub ack: Option<Ack>,
}

impl Feedback {
    pub(super) fn parse(bytes: &[u8], tail: &[u8]) -> Result<Self, Error> {
        let ack = (bytes.len() > field::ACK).then(|| Ack::parse_at(bytes, field::ACK)).transpose()?;
        Ok(Self { state: State::parse(bytes, tail)?, applied: u32_at(bytes, field::APPLIED).into(), ack })
    }

    /// What follows the state.
    pub(super) fn emit_rest(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&(self.applied as u32).to_be_bytes());
        self.ack.iter().for_each(|ack| ack.emit(buffer));
    }
}
