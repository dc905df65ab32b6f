//! What the robot reports: of each state that came, and of itself.

use taut_core::DropCause;

use super::{Error, code_at, codes, reserved, u32_at, u64_at};

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
/// | 8–15 | sequence | of the state |
/// | 16–23 | echo | the state's `created`, ns of the reader's clock |
/// | 24–31 | received | ns |
/// | 32–35 | seen | bit *i*: the state *sequence* − 1 − *i* has arrived |
/// | 36–39 | epoch | counts the robot's changes of state and stops |
/// | 40 | verdict | [`Verdict`] |
/// | 41 | state | [`RobotState`] |
/// | 42 | cause | [`StopCause`] |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Of the state.
    pub sequence: u64,
    /// When the state was made, ns of the reader's clock.
    pub echo_ns: u64,
    /// When it arrived, ns; this acknowledgement left then.
    pub received_ns: u64,
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
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Ok(Self {
            sequence: u64_at(bytes, 8),
            echo_ns: u64_at(bytes, 16),
            received_ns: u64_at(bytes, 24),
            seen: u32_at(bytes, 32),
            epoch: u32_at(bytes, 36),
            verdict: code_at(bytes, 40, Verdict::from_code)?,
            state: code_at(bytes, 41, RobotState::from_code)?,
            cause: code_at(bytes, 42, StopCause::from_code)?,
        })
    }

    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        for number in [self.sequence, self.echo_ns, self.received_ns] {
            buffer.extend_from_slice(&number.to_be_bytes());
        }
        buffer.extend_from_slice(&self.seen.to_be_bytes());
        buffer.extend_from_slice(&self.epoch.to_be_bytes());
        buffer.extend_from_slice(&[self.verdict.code(), self.state.code(), self.cause.code()]);
    }
}

/// The causes that [`Status::dropped`] counts, in its order.
pub const STATUS_CAUSES: [DropCause; 10] = [
    DropCause::Malformed,
    DropCause::Unauthenticated,
    DropCause::NotFinite,
    DropCause::TooLate,
    DropCause::Duplicate,
    DropCause::Superseded,
    DropCause::QueueFullPackets,
    DropCause::Stopped,
    DropCause::OutOfLimits,
    DropCause::RateLimited,
];

/// How the robot is, and what it did with all that came in this session.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 8 | state | [`RobotState`] |
/// | 9 | cause | [`StopCause`] |
/// | 10–11 | | zero |
/// | 12–15 | epoch | counts the robot's changes of state and stops |
/// | 16–23 | received | states, each copy |
/// | 24–31 | applied | states |
/// | 32–111 | dropped | 10 × states (frames where they cannot be read), by [`STATUS_CAUSES`] |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// How it is.
    pub state: RobotState,
    /// Why it stopped last.
    pub cause: StopCause,
    /// Counts the robot's changes of state and stops.
    pub epoch: u32,
    /// States that arrived, each copy.
    pub received: u64,
    /// States that were applied.
    pub applied: u64,
    /// What was dropped, in the order of [`STATUS_CAUSES`].
    pub dropped: [u64; STATUS_CAUSES.len()],
}

impl Status {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        reserved(bytes, 10..12)?;
        Ok(Self {
            state: code_at(bytes, 8, RobotState::from_code)?,
            cause: code_at(bytes, 9, StopCause::from_code)?,
            epoch: u32_at(bytes, 12),
            received: u64_at(bytes, 16),
            applied: u64_at(bytes, 24),
            dropped: std::array::from_fn(|i| u64_at(bytes, 32 + 8 * i)),
        })
    }

    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&[self.state.code(), self.cause.code(), 0, 0]);
        buffer.extend_from_slice(&self.epoch.to_be_bytes());
        buffer.extend_from_slice(&self.received.to_be_bytes());
        buffer.extend_from_slice(&self.applied.to_be_bytes());
        self.dropped.iter().for_each(|count| buffer.extend_from_slice(&count.to_be_bytes()));
    }
}
