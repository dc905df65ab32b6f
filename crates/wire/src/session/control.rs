//! Who talks to whom, who may move, and what the clocks read.

use super::channel::{Declaration, MAX_CHANNELS};
use super::law::ControlLaw;
use super::report::{RobotState, StopCause};
use super::{Error, HELLO_LEN, code_at, codes, emit_floats, f32_at, floats_at, reserved, u32_at, u64_at};

codes! {
    /// Which end of a session.
    Role {
        /// Holds the device.
        Operator = 0 "operator",
        /// Is moved.
        Robot = 1 "robot",
    }

    /// What became of a command.
    Answer {
        /// It was done, now or when it came the first time.
        Done = 0 "done",
        /// The robot stopped once more after the stop that the command would release.
        Superseded = 1 "superseded",
        /// The emergency stop at the robot itself was pressed; only there can it be released.
        HeldLocally = 2 "held_locally",
        /// The robot cannot judge the age of motion yet: the clocks have not been compared.
        ClockUnknown = 3 "clock_unknown",
        /// The command is older than commands may be.
        TooLate = 4 "too_late",
        /// The stop was done and holds, but could not be written: it does not survive the robot's process.
        NotKept = 5 "not_kept",
        /// An emergency stop is latched: it has to be reset before a resume.
        Latched = 6 "latched",
        /// Motion takes so long to the robot that it would be too old there: `age` of the answer says how long.
        PathTooSlow = 7 "path_too_slow",
    }

    /// Why a robot does not take a peer for its operator.
    RefusalReason {
        /// Somebody else is.
        Busy = 0 "busy",
        /// This session is not known (any more); say hello.
        UnknownSession = 1 "unknown_session",
        /// The peer's version is not spoken here; the header says which is.
        UnsupportedVersion = 2 "unsupported_version",
        /// The robot tells how things turn, and the peer does not. In a frame of [`TURNING_VERSION`](super::TURNING_VERSION), so that a peer that knows no
        /// such frames gets an error that names both versions.
        Turns = 3 "turns",
    }
}

impl RefusalReason {
    const AT: usize = 8;

    pub(super) fn parse(bytes: &[u8], turns: bool) -> Result<Self, Error> {
        let reason = code_at(bytes, Self::AT, Self::from_code)?;
        let is_its = (reason == Self::Turns) == turns;
        if is_its { Ok(reason) } else { Err(Error::Value { at: Self::AT, value: reason.code() }) }
    }
}

/// An emergency stop, its reset, or a resume.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 8–15 | command | counts up from 1, for stops, resets and resumes together |
/// | 16–19 | epoch | of the stop that a reset or resume releases; 0 in a stop |
/// | 20–27 | created | ns, when the button was pressed |
/// | 28–35 | sent | ns, of this copy |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Counts up from 1, for stops, resets and resumes together; repetitions keep it.
    pub command: u64,
    /// Of the stop that a reset or resume releases, as the robot reported it; 0 in a stop.
    pub epoch: u32,
    /// When the button was pressed, ns.
    pub created_ns: u64,
    /// When this copy was sent, ns.
    pub sent_ns: u64,
}

impl Command {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self {
            command: u64_at(bytes, 8),
            epoch: u32_at(bytes, 16),
            created_ns: u64_at(bytes, 20),
            sent_ns: u64_at(bytes, 28),
        }
    }

    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&self.command.to_be_bytes());
        buffer.extend_from_slice(&self.epoch.to_be_bytes());
        buffer.extend_from_slice(&self.created_ns.to_be_bytes());
        buffer.extend_from_slice(&self.sent_ns.to_be_bytes());
    }
}

/// The acknowledgement of a command: what became of it, and how the robot is now.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 8–15 | command | echoed |
/// | 16–23 | echo | the copy's `sent`, ns of the reader's clock |
/// | 24–31 | received | ns |
/// | 32–35 | epoch | counts the robot's changes of state and stops, from a random number on |
/// | 36 | answer | [`Answer`] |
/// | 37 | state | [`RobotState`] |
/// | 38 | cause | [`StopCause`] |
/// | 39 | | zero |
/// | 40–43 | age | µs between the sending of the copy that is answered and its arrival, and how unsure that is; 0: not known |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandAck {
    /// Which one.
    pub command: u64,
    /// When the copy that is answered was sent, ns of the reader's clock.
    pub echo_ns: u64,
    /// When it arrived, ns; this answer left then.
    pub received_ns: u64,
    /// Counts the robot's changes of state and stops.
    pub epoch: u32,
    /// What became of it.
    pub answer: Answer,
    /// How the robot is now.
    pub state: RobotState,
    /// Why it stopped last.
    pub cause: StopCause,
    /// How long the copy that is answered was on its way, and how unsure that is, µs; 0 when that is not known.
    pub age_us: u32,
}

impl CommandAck {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        reserved(bytes, 39..40)?;
        Ok(Self {
            command: u64_at(bytes, 8),
            echo_ns: u64_at(bytes, 16),
            received_ns: u64_at(bytes, 24),
            epoch: u32_at(bytes, 32),
            answer: code_at(bytes, 36, Answer::from_code)?,
            state: code_at(bytes, 37, RobotState::from_code)?,
            cause: code_at(bytes, 38, StopCause::from_code)?,
            age_us: u32_at(bytes, 40),
        })
    }

    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&self.command.to_be_bytes());
        buffer.extend_from_slice(&self.echo_ns.to_be_bytes());
        buffer.extend_from_slice(&self.received_ns.to_be_bytes());
        buffer.extend_from_slice(&self.epoch.to_be_bytes());
        buffer.extend_from_slice(&[self.answer.code(), self.state.code(), self.cause.code(), 0]);
        buffer.extend_from_slice(&self.age_us.to_be_bytes());
    }
}

/// The first of four timestamps (RFC 5905 section 8), in bytes 8–15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockRequest {
    /// *T1*: when it was sent, ns of its sender's clock.
    pub sent_ns: u64,
}

impl ClockRequest {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self { sent_ns: u64_at(bytes, 8) }
    }

    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&self.sent_ns.to_be_bytes());
    }
}

/// Three of the four timestamps (RFC 5905 section 8): *T1* in bytes 8–15, *T2* in 16–23, *T3* in 24–31. The fourth is
/// the time at which this arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReply {
    /// *T1*: the request's, echoed, ns of the reader's clock.
    pub echo_ns: u64,
    /// *T2*: when the request arrived, ns.
    pub received_ns: u64,
    /// *T3*: when this was sent, ns.
    pub sent_ns: u64,
}

impl ClockReply {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self { echo_ns: u64_at(bytes, 8), received_ns: u64_at(bytes, 16), sent_ns: u64_at(bytes, 24) }
    }

    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        for number in [self.echo_ns, self.received_ns, self.sent_ns] {
            buffer.extend_from_slice(&number.to_be_bytes());
        }
    }
}

/// What a robot lets itself be told; infinite where it does not limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Least x, y, z in m.
    pub position_min: [f32; 3],
    /// Largest x, y, z in m.
    pub position_max: [f32; 3],
    /// Largest speed of the commanded position by the robot's own clock, m/s.
    pub velocity: f32,
    /// Largest change of that velocity, m/s².
    pub acceleration: f32,
    /// Largest force that the arm's controller may make, N.
    pub force: f32,
    /// Longest way between two states applied one after the other, m.
    pub step: f32,
    /// States that are applied in a second, at most.
    pub rate: f32,
}

impl Default for Limits {
    /// None.
    fn default() -> Self {
        Self {
            position_min: [f32::NEG_INFINITY; 3],
            position_max: [f32::INFINITY; 3],
            velocity: f32::INFINITY,
            acceleration: f32::INFINITY,
            force: f32::INFINITY,
            step: f32::INFINITY,
            rate: f32::INFINITY,
        }
    }
}

/// Who somebody is and how they are set. A robot answers an operator's with its own. Of an end that tells how things turn it is a frame of
/// [`TURNING_VERSION`](super::TURNING_VERSION), and of any other none.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 8 | role | [`Role`] |
/// | 9 | state | [`RobotState`]; 0 from an operator |
/// | 10 | cause | [`StopCause`]; 0 from an operator |
/// | 11 | flags | bit 0: the robot demands an enabling input, 1–7 zero |
/// | 12–15 | epoch | counts the robot's changes of state and stops; 0 from an operator |
/// | 16–19 | rate | states (feedback) in 1000 s |
/// | 20–23 | watchdog | µs without fresh motion (feedback) after which the sender of this lets go |
/// | 24–35 | position, least | 3 × m |
/// | 36–47 | position, largest | 3 × m |
/// | 48–51 | velocity | m/s |
/// | 52–55 | acceleration | m/s² |
/// | 56–59 | force | N |
/// | 60–63 | step | m |
/// | 64–67 | rate | states in a second |
/// | 68–71 | largest age | µs of age at which the sender of this uses no motion (feedback) any more; 0: not said |
/// | 72–75 | deadline | µs of age at which states (feedback) of the sender of this are worthless; 0: never |
/// | 76 | channels | how many, up to [`MAX_CHANNELS`] |
/// | 77– | channels | each a [`Declaration`] |
#[derive(Clone, Debug, PartialEq)]
pub struct Hello {
    /// Which end.
    pub role: Role,
    /// How the robot is.
    pub state: RobotState,
    /// Why it stopped last.
    pub cause: StopCause,
    /// Counts the robot's changes of state and stops, from a random number on; 0 from an operator.
    pub epoch: u32,
    /// How often it sends, in mHz.
    pub rate_mhz: u32,
    /// After how long a silence it lets go, µs.
    pub watchdog_us: u32,
    /// The age at which it uses no motion (feedback) any more, µs; 0 when it does not say.
    pub max_age_us: u32,
    /// The age at which states (feedback) that it sends are worthless, µs; 0 for never.
    pub deadline_us: u32,
    /// A robot: it moves only while the operator's enabling input is held.
    pub hold_to_run: bool,
    /// Its states say how things turn, and it needs a peer whose states do.
    pub turns: bool,
    /// What it accepts.
    pub limits: Limits,
    /// By which control law it is coupled, where its peer has to be by the same.
    pub law: Option<ControlLaw>,
    /// The channels that it declares; in all no more than fit into [`MAX_HELLO_LEN`](super::MAX_HELLO_LEN).
    pub channels: Vec<Declaration>,
}

/// Bit 0 of a hello's flags.
const HOLD_TO_RUN: u8 = 1;
/// Bit 1, in a hello that says a control law: what [`TURNING_VERSION`](super::TURNING_VERSION) says of others.
const TURNS: u8 = 2;
/// Where a hello says how many channels follow.
const CHANNELS_AT: usize = HELLO_LEN - 1;

impl Hello {
    /// Of an end whose states say how things turn, as its version says, or the flags of a hello that says a law.
    pub(super) fn parse(bytes: &[u8], turns: bool, has_law: bool) -> Result<Self, Error> {
        let flags = bytes[11];
        let known = if has_law { HOLD_TO_RUN | TURNS } else { HOLD_TO_RUN };
        if flags & !known != 0 {
            return Err(Error::Value { at: 11, value: flags });
        }
        let law = if has_law { Some(ControlLaw::parse_at(bytes, HELLO_LEN)?) } else { None };
        let limits = Limits {
            position_min: floats_at(bytes, 24),
            position_max: floats_at(bytes, 36),
            velocity: f32_at(bytes, 48),
            acceleration: f32_at(bytes, 52),
            force: f32_at(bytes, 56),
            step: f32_at(bytes, 60),
            rate: f32_at(bytes, 64),
        };
        Ok(Self {
            role: code_at(bytes, 8, Role::from_code)?,
            state: code_at(bytes, 9, RobotState::from_code)?,
            cause: code_at(bytes, 10, StopCause::from_code)?,
            epoch: u32_at(bytes, 12),
            rate_mhz: u32_at(bytes, 16),
            watchdog_us: u32_at(bytes, 20),
            max_age_us: u32_at(bytes, 68),
            deadline_us: u32_at(bytes, 72),
            hold_to_run: flags & HOLD_TO_RUN != 0,
            turns: turns || flags & TURNS != 0,
            law,
            limits,
            channels: channels_at(bytes, HELLO_LEN + law.map_or(0, |_| ControlLaw::LEN))?,
        })
    }

    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        let mut flags = if self.hold_to_run { HOLD_TO_RUN } else { 0 };
        if self.law.is_some() && self.turns {
            flags |= TURNS;
        }
        buffer.extend_from_slice(&[self.role.code(), self.state.code(), self.cause.code(), flags]);
        buffer.extend_from_slice(&self.epoch.to_be_bytes());
        buffer.extend_from_slice(&self.rate_mhz.to_be_bytes());
        buffer.extend_from_slice(&self.watchdog_us.to_be_bytes());
        emit_floats(&self.limits.position_min, buffer);
        emit_floats(&self.limits.position_max, buffer);
        let Limits { velocity, acceleration, force, step, rate, .. } = self.limits;
        emit_floats(&[velocity, acceleration, force, step, rate], buffer);
        buffer.extend_from_slice(&self.max_age_us.to_be_bytes());
        buffer.extend_from_slice(&self.deadline_us.to_be_bytes());
        assert!(self.channels.len() <= MAX_CHANNELS, "there are at most {MAX_CHANNELS} channels");
        buffer.push(self.channels.len() as u8);
        self.law.iter().for_each(|law| law.emit(buffer));
        self.channels.iter().for_each(|channel| channel.emit(buffer));
    }

    /// Bytes of its frame.
    pub fn len(&self) -> usize {
        let law = self.law.map_or(0, |_| ControlLaw::LEN);
        HELLO_LEN + self.channels.iter().map(Declaration::len).sum::<usize>() + law
    }

    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }
}

/// The channels at the end of a hello, and nothing after them.
fn channels_at(bytes: &[u8], mut at: usize) -> Result<Vec<Declaration>, Error> {
    let count = usize::from(bytes[CHANNELS_AT]);
    if count > MAX_CHANNELS {
        return Err(Error::Value { at: CHANNELS_AT, value: bytes[CHANNELS_AT] });
    }
    let mut channels = Vec::with_capacity(count);
    for _ in 0..count {
        let (channel, end) = Declaration::parse(bytes, at)?;
        channels.push(channel);
        at = end;
    }
    if at == bytes.len() { Ok(channels) } else { Err(Error::Length { needed: at, found: bytes.len() }) }
}
