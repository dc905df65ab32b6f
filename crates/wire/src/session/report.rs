//! What the robot reports: of each state that came, and of itself.

use taut_core::DropCause;

use super::{Error, code_at, codes, u16_at, u32_at};

codes! {
    /// How a robot is, by the names of CRTK's operating states.
    RobotState {
        /// No operator.
        Disabled = 0 "DISABLED",
        /// Takes motion.
        Enabled = 1 "ENABLED",
        /// Stopped; moves again when the operator resumes.
        Paused = 2 "PAUSED",
        /// Stopped by an emergency stop, which is latched.
        Fault = 3 "FAULT",
    }

    /// Why a robot stopped last.
    #[non_exhaustive]
    StopCause {
        /// It has not been told to move yet.
        Start = 0 "start",
        /// No fresh motion for as long as the watchdog waits.
        Watchdog = 1 "watchdog",
        /// The operator's emergency stop.
        Emergency = 2 "emergency",
        /// The emergency stop at the robot itself.
        LocalEmergency = 3 "local_emergency",
        /// The operator said goodbye, or was silent for too long.
        OperatorLeft = 4 "operator_left",
        /// The transport closed.
        LinkClosed = 5 "link_closed",
        /// A clock was set or stood still: nobody knows how old motion is.
        ClockStepped = 6 "clock_stepped",
        /// The line of an emergency button was lost: end of file, an error, a word that is none, or silence.
        ButtonLost = 7 "button_lost",
        /// The enabling input of the operator's device was let go, or its readings stood still.
        Released = 8 "released",
        /// The device failed, or did not take what it was told in time.
        Device = 9 "device",
        /// The robot's process ended: a signal, an error or a panic.
        Host = 10 "host",
        /// The robot's process ended without saying so, and began again.
        Restart = 11 "restart",
        /// Hand and arm were more than a quarter turn apart, on the way to where the shorter turn between them is the other one.
        TurnedApart = 12 "turned_apart",
    }

    /// What became of a state on its arrival.
    Verdict {
        /// It goes to the robot.
        Taken = 0 "taken",
        /// It holds a number that is not finite, or an orientation that is none.
        NotFinite = 1 "not_finite",
        /// Older than its deadline.
        TooLate = 2 "too_late",
        /// The robot is stopped.
        Stopped = 3 "stopped",
        /// It came before.
        Duplicate = 4 "duplicate",
        /// A newer one came before.
        Superseded = 5 "superseded",
        /// Beyond the robot's limits, and it refuses what is.
        OutOfLimits = 6 "out_of_limits",
        /// More states in a second than the robot takes.
        RateLimited = 7 "rate_limited",
    }
}

impl StopCause {
    /// An emergency stop, wherever it was pressed, or what counts as one: it is latched, and only a person lets the robot
    /// move again.
    pub const fn is_emergency(self) -> bool {
        matches!(self, Self::Emergency | Self::LocalEmergency | Self::ButtonLost | Self::Restart)
    }
}

impl Verdict {
    /// The cause of the drop, unless it was taken.
    pub const fn cause(self) -> Option<DropCause> {
        match self {
            Self::Taken => None,
            Self::NotFinite => Some(DropCause::NotFinite),
            Self::TooLate => Some(DropCause::TooLate),
            Self::Stopped => Some(DropCause::Stopped),
            Self::Duplicate => Some(DropCause::Duplicate),
            Self::Superseded => Some(DropCause::Superseded),
            Self::OutOfLimits => Some(DropCause::OutOfLimits),
            Self::RateLimited => Some(DropCause::RateLimited),
        }
    }
}

/// The acknowledgement of a state: it arrived, when, and what became of it.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 0–3 | sequence | of the state, modulo 2³² |
/// | 4–5 | echo | the state's `created`, µs of the reader's clock modulo 2¹⁶ |
/// | 6–9 | received | µs modulo 2³² |
/// | 10–11 | held | µs from then until this left; 65 535 for anything longer |
/// | 12–15 | seen | bit *i*: the state *sequence* − 1 − *i* has arrived |
/// | 16–19 | epoch | counts the robot's changes of state and stops |
/// | 20 | verdict | [`Verdict`] |
/// | 21 | state and cause | bits 4–7 [`RobotState`], 0–3 [`StopCause`] |
///
/// These 22 bytes are the body of a frame of their own, or come at the end of [`Feedback`](super::Feedback). What is read has the low
/// bits of sequence, echo and time, as of a [`State`](super::State).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Of the state.
    pub sequence: u64,
    /// When the state was made, ns of the reader's clock.
    pub echo_ns: u64,
    /// When it arrived, ns.
    pub received_ns: u64,
    /// How long after that this acknowledgement left, µs.
    pub held_us: u16,
    /// Bit *i*: the state `sequence` − 1 − *i* has arrived too.
    pub seen: u32,
    /// Counts the robot's changes of state and stops.
    pub epoch: u32,
    /// What became of it.
    pub verdict: Verdict,
    /// How the robot is now.
    pub state: RobotState,
    /// Why it stopped last.
    pub cause: StopCause,
}

impl Ack {
    pub(super) fn parse_at(bytes: &[u8], at: usize) -> Result<Self, Error> {
        let standing = bytes[at + 21];
        let meaningless = Error::Value { at: at + 21, value: standing };
        Ok(Self {
            sequence: u32_at(bytes, at).into(),
            echo_ns: u64::from(u16_at(bytes, at + 4)) * 1_000,
            received_ns: u64::from(u32_at(bytes, at + 6)) * 1_000,
            held_us: u16_at(bytes, at + 10),
            seen: u32_at(bytes, at + 12),
            epoch: u32_at(bytes, at + 16),
            verdict: code_at(bytes, at + 20, Verdict::from_code)?,
            state: RobotState::from_code(standing >> 4).ok_or(meaningless)?,
            cause: StopCause::from_code(standing & 15).ok_or(meaningless)?,
        })
    }

    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        let micros = |nanos: u64| nanos / 1_000;
        buffer.extend_from_slice(&(self.sequence as u32).to_be_bytes());
        buffer.extend_from_slice(&(micros(self.echo_ns) as u16).to_be_bytes());
        buffer.extend_from_slice(&(micros(self.received_ns) as u32).to_be_bytes());
        buffer.extend_from_slice(&self.held_us.to_be_bytes());
        buffer.extend_from_slice(&self.seen.to_be_bytes());
        buffer.extend_from_slice(&self.epoch.to_be_bytes());
        buffer.extend_from_slice(&[self.verdict.code(), self.state.code() << 4 | self.cause.code()]);
    }
}

/// Which of the robot's feedback arrived.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 0–1 | sequence | the highest that arrived, modulo 2¹⁶ |
/// | 2–5 | received | µs modulo 2³² |
/// | 6–7 | held | µs from then until this left; 65 535 for anything longer |
/// | 8–11 | seen | bit *i*: the feedback *sequence* − 1 − *i* has arrived |
///
/// These 12 bytes come at the end of a [`State`](super::State), or are the body of a frame of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// The highest that arrived, its low 16 bits.
    pub sequence: u16,
    /// When it did, µs modulo 2³².
    pub received_us: u32,
    /// How long after that this left, µs.
    pub held_us: u16,
    /// Bit *i*: the feedback `sequence` − 1 − *i* has arrived too.
    pub seen: u32,
}

impl Arrivals {
    pub(super) fn parse_at(bytes: &[u8], at: usize) -> Self {
        Self {
            sequence: u16_at(bytes, at),
            received_us: u32_at(bytes, at + 2),
            held_us: u16_at(bytes, at + 6),
            seen: u32_at(bytes, at + 8),
        }
    }

    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&self.sequence.to_be_bytes());
        buffer.extend_from_slice(&self.received_us.to_be_bytes());
        buffer.extend_from_slice(&self.held_us.to_be_bytes());
        buffer.extend_from_slice(&self.seen.to_be_bytes());
    }
}

const _: () = assert!(StopCause::ALL.len() <= 16 && RobotState::ALL.len() <= 16);

/// How the robot is. What it did with all that came, acknowledgements tell.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 8 | state | [`RobotState`] |
/// | 9 | cause | [`StopCause`] |
/// | 10–13 | epoch | counts the robot's changes of state and stops |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// How it is.
    pub state: RobotState,
    /// Why it stopped last.
    pub cause: StopCause,
    /// Counts the robot's changes of state and stops.
    pub epoch: u32,
}

impl Status {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Ok(Self {
            state: code_at(bytes, 8, RobotState::from_code)?,
            cause: code_at(bytes, 9, StopCause::from_code)?,
            epoch: u32_at(bytes, 10),
        })
    }

    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&[self.state.code(), self.cause.code()]);
        buffer.extend_from_slice(&self.epoch.to_be_bytes());
    }
}
