//! What an operator is told, and why it may not send.

use taut_core::{DropCause, Duration, PathId};
use taut_wire::session::{Answer, Error, Limits, RefusalReason, RobotState, StopCause, Verdict};

use crate::channel::ChannelEvent;
use crate::state::State;

/// What an [`Operator`](super::Operator) has to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum OperatorEvent {
    /// The robot answered. It does not move yet: resume.
    Connected {
        /// What it lets itself be told; nothing is known from `Omni71`.
        limits: Limits,
        /// After how long a silence it stops.
        watchdog: Duration,
        /// The age at which it takes no motion; zero when it does not say.
        max_age: Duration,
        /// It moves only while the enabling input is held ([`State::enabling`]).
        hold_to_run: bool,
    },
    /// The robot's state changed.
    Robot {
        /// How it is.
        state: RobotState,
        /// Why it stopped last.
        cause: StopCause,
    },
    /// The emergency stop was acknowledged: the robot stands.
    EmergencyStopped {
        /// Since the button was pressed.
        after: Duration,
        /// It is written down beside the robot, and survives a restart there.
        kept: bool,
    },
    /// The emergency stop was sent many times and not acknowledged. It goes on being sent.
    EmergencyStopUnanswered,
    /// The latched stop is let go. The robot does not move by that: resume.
    WasReset,
    /// The robot does not let go of its latched stop.
    ResetRefused {
        /// Why not; `None` when there was no answer.
        answer: Option<Answer>,
    },
    /// The robot moves again.
    Resumed,
    /// The robot does not resume.
    ResumeRefused {
        /// Why not; `None` when there was no answer.
        answer: Option<Answer>,
        /// How long the command took to the robot, and how unsure that is, together; zero when that is not known. Where the
        /// answer is [`PathTooSlow`](Answer::PathTooSlow), the robot would have to be started with [`patience`](crate::patience)
        /// for it.
        age: Duration,
    },
    /// A state arrived at the robot.
    Acknowledged {
        /// Which.
        sequence: u64,
        /// From its sending to here.
        rtt: Duration,
        /// What became of it there.
        verdict: Verdict,
    },
    /// A state will not arrive: it was dropped here.
    Dropped {
        /// Which.
        sequence: u64,
        /// Why.
        cause: DropCause,
    },
    /// What the robot feels.
    Feedback {
        /// The robot's number for it.
        sequence: u64,
        /// The last of this operator's states that the robot had applied; 0 for none, or unknown.
        applied: u64,
        /// Pose, velocity and force at the robot; the force within the device's limit.
        state: State,
        /// How old it is.
        age: Duration,
    },
    /// No fresh feedback for too long: let go of the last force.
    FeedbackLost,
    /// The rate was stepped down or up.
    Rate {
        /// States per second.
        hz: f64,
    },
    /// Of a channel.
    Channel(ChannelEvent),
    /// A datagram that arrived was of no use.
    Refused(DropCause),
    /// The robot does not take this operator. It is asked again.
    RefusedByRobot(RefusalReason),
    /// The robot speaks another version, or one of both ends tells how things turn and the other does not. Told once a second at most.
    Incompatible(Error),
    /// A path can be used.
    PathUp(PathId),
    /// A path cannot be used any more.
    PathDown(PathId),
    /// The robot said goodbye; [`Closed`](Self::Closed) follows.
    RobotLeft,
    /// Nothing flows any more.
    Closed,
}

/// Why a state was not taken. Each is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// There is no session (any more), or not yet.
    #[error("not connected")]
    NotConnected,
    /// The operator's emergency stop is latched.
    #[error("the emergency stop is latched; resume first")]
    Stopped,
    /// A number in it is not finite.
    #[error("a number is not finite")]
    NotFinite,
    /// It is older than its deadline already.
    #[error("older than its deadline")]
    TooLate,
    /// In this codec a sample of priority emergency is a command, not a motion.
    #[error("this codec has no motion of priority emergency")]
    Codec,
}

impl StateError {
    /// Under which cause it is counted.
    pub const fn cause(self) -> DropCause {
        match self {
            Self::NotConnected => DropCause::Abandoned,
            Self::Stopped => DropCause::Stopped,
            Self::NotFinite => DropCause::NotFinite,
            Self::TooLate => DropCause::TooLate,
            Self::Codec => DropCause::Malformed,
        }
    }
}

/// Why a reset or a resume was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// There is no session (any more), or not yet.
    #[error("not connected")]
    NotConnected,
    /// The robot has not acknowledged the emergency stop yet.
    #[error("the robot has not acknowledged the emergency stop yet")]
    StopPending,
    /// The robot's emergency stop is latched: reset it first. These are two acts.
    #[error("an emergency stop is latched; reset it first")]
    Latched,
    /// The robot's own emergency stop is pressed: only there it can be let go.
    #[error("the emergency stop at the robot itself is pressed; let go of it there first")]
    HeldLocally,
}
