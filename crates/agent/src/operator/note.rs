//! What an operator is asked, and what it tells.

use taut_core::{Duration, Time};
use taut_session::motion::Motion;
use taut_session::{ChannelId, OperatorEvent, OperatorLife, ResumeError, Status};
use taut_transport::mtip::ChoiceReport;

use super::silence::Standing;
use crate::Trouble;

/// What an operator is asked from outside.
#[derive(Clone, Debug, PartialEq)]
pub enum OperatorCommand {
    /// Let go of the stop that is latched at the robot. Nothing moves by it.
    Reset,
    /// Let the robot move again. The emergency button is an [`Alarm`](crate::Alarm).
    Resume,
    /// The enabling input is held: for [`OperatorSettings::holds_to_run`](crate::OperatorSettings::holds_to_run), or until the next
    /// of these.
    Hold,
    /// It is let go.
    LetGo,
    /// Send a message of a channel. What becomes of it is told by an [`OperatorEvent::Channel`]; one that is refused is counted.
    Send {
        /// Over which of the channels that this end declared.
        channel: ChannelId,
        /// When it was made, by the session's clock; `None`: now.
        created: Option<Time>,
        /// Its bytes.
        payload: Vec<u8>,
    },
    /// Send motion over a channel of its schema, made now, in the same way.
    Move {
        /// Over which of the channels that this end declared.
        channel: ChannelId,
        /// Where to, or how fast.
        motion: Motion,
    },
    /// Leave this conversation with a goodbye, on which the robot stops, for another one: over what the host hands in when
    /// [`OperatorNote::Reconnect`] asks for it. A stop that is not acknowledged yet is sent there.
    Reconnect,
    /// Say goodbye.
    Close,
}

/// How a session goes.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Since it began.
    pub status: Status,
    /// How the robot is, as far as is known here.
    pub standing: Standing,
    /// Since the robot said something last; `None`: it has not yet.
    pub silence: Option<Duration>,
    /// Round trips since the last such report.
    pub round_trips: RoundTrips,
    /// Samples that the device made, whether or not they could be sent.
    pub made: u64,
    /// Samples that the device should have made while this host was too late to ask it.
    pub missed: u64,
    /// Samples of a device that had read nothing new: these are not sent.
    pub stale: u64,
    /// Where the robot says it is, m.
    pub robot_position: [f32; 3],
    /// What the robot feels, N; `None` while nothing fresh is known of it: the hand is given none.
    pub robot_force: Option<[f32; 3]>,
    /// What turns it, N·m, where that is told; `None` as of the force.
    pub robot_torque: Option<[f32; 3]>,
    /// How messages were spread over paths, and why: [`Conversation::choices`](crate::Conversation::choices).
    pub choices: Option<ChoiceReport>,
    /// Messages, and copies of them that were sent: [`Conversation::copies`](crate::Conversation::copies).
    pub copies: Option<(u64, u64)>,
}

/// Round trips of some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoundTrips {
    /// How many.
    pub count: u64,
    /// Their mean, ms; 0 when there were none.
    pub mean_ms: f64,
    /// The longest, ms.
    pub max_ms: f64,
}

/// What an operator tells its host. What happens a thousand times a second is summed up.
#[derive(Clone, Debug)]
pub enum OperatorNote {
    /// Something happened.
    Event(OperatorEvent),
    /// The robot has said nothing for longer than its watchdog and a round trip: if it hears as little, it stops.
    NoAnswer {
        /// For so long.
        silence: Duration,
    },
    /// The robot answers again.
    AnswersAgain {
        /// After so long.
        silence: Duration,
    },
    /// It is time for a report.
    Progress(Box<Progress>),
    /// A person resumed, which is not possible at present.
    NotResumed(ResumeError),
    /// A person let go of a stop, which is not possible at present.
    NotReset(ResumeError),
    /// All samples were made, and it is known what became of them. It says goodbye, unless it [stays](crate::OperatorSettings::stays).
    Done,
    /// To be written where it survives this process: what a next life has to know. Nobody waits for it.
    Keep {
        /// Counts up.
        number: u64,
        /// What is written.
        life: OperatorLife,
    },
    /// The transport is of no use any more: [`Operator::reconnect`](crate::Operator::reconnect) with a new one, now.
    Reconnect,
    /// It has ended: nothing more is to come, and nothing is asked of it any more.
    Ended(Box<Ending>),
}

/// How an operator ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Why.
    pub why: EndedBy,
    /// Everything that was measured. The goodbye is not part of it.
    pub progress: Progress,
}

/// Why an operator ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// Everything was sent, or somebody closed it.
    Goodbye,
    /// There was no session within [`PATIENCE`](crate::PATIENCE), or it was refused.
    NotConnected(Trouble),
    /// It was lost, and did not come back within that time.
    Lost(Trouble),
}
