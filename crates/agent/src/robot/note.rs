//! What a robot is asked, and what it tells.

use taut_core::{Bitrate, DropCause, Duration, Time};
use taut_session::motion::Motion;
use taut_session::{ChannelId, RobotEvent, RobotLife, SendRefused, Status, StopCause};

use super::DeviceReport;
use crate::{DeviceFailure, Refused};

/// What a robot is asked from outside.
#[derive(Clone, Debug, PartialEq)]
pub enum RobotCommand {
    /// The emergency button beside it is released. Pressing it is an [`Alarm`](crate::Alarm).
    Release,
    /// What was latched as of this number was written, or could not be.
    Kept {
        /// Of [`RobotNote::Keep`].
        number: u64,
        /// It is on the disk.
        ok: bool,
    },
    /// Send a message of a channel. What becomes of it is told by a [`RobotEvent::Channel`]; one that is refused is counted, and told by [`RobotNote::NotSent`].
    Send {
        /// Over which of the channels that this end declared.
        channel: ChannelId,
        /// When it was made, by the session's clock; `None`: now.
        created: Option<Time>,
        /// Its bytes.
        payload: Vec<u8>,
    },
    /// Where the device is, as far as a channel of motion moves it: see [`taut_session::Robot::measure_motion`].
    Measured {
        /// Over which of the channels that this end declared.
        channel: ChannelId,
        /// Of the channel's schema.
        motion: Motion,
    },
    /// Stop, leave this conversation with a goodbye, and wait for the next one over what the host hands in when [`RobotNote::Reconnect`] asks for
    /// it. What is latched stays latched.
    Reconnect,
    /// Say goodbye.
    Close,
}

/// What a robot tells its host. What happens a thousand times a second is summed up.
#[derive(Clone, Debug)]
pub enum RobotNote {
    /// Something happened; not [`RobotEvent::Refused`].
    Event(RobotEvent),
    /// Datagrams or connections were refused: so many since this was told last, at most once a second.
    Refused {
        /// Why.
        cause: DropCause,
        /// How many.
        count: u64,
        /// Of these, from operators that are trusted, while another one has the robot; over QUIC from anybody.
        busy: u64,
        /// The last of them, of those that showed a key if one did.
        who: Option<Refused>,
    },
    /// It stopped.
    Stopped {
        /// Why.
        why: StopCause,
        /// How long after the last state that it applied; `None`: it had applied none since it was resumed.
        silence: Option<Duration>,
        /// Where it stands, m.
        position: [f32; 3],
    },
    /// What moves does not do what it is told; a robot that moved has been stopped.
    DeviceFailed(DeviceFailure),
    /// How fast and how hard it moved: with each report, and when it stopped.
    Device(DeviceReport),
    /// What is latched could not be written: it holds, and does not survive this process.
    NotKept,
    /// A message of [`RobotCommand::Send`] was refused, though its channel is open.
    NotSent {
        /// Over which channel it was to go.
        channel: ChannelId,
        /// Why.
        why: SendRefused,
    },
    /// What is sent over channels that can wait may take so much, together: an encoder's rate. `None`: as much as comes, as far as is known.
    Bitrate(Option<Bitrate>),
    /// It is time for a report.
    Progress(Box<Status>),
    /// To be written where it survives this process; [`RobotCommand::Kept`] says when that is done. An operator's stop is
    /// acknowledged only then.
    Keep {
        /// Counts up.
        number: u64,
        /// What is written.
        life: RobotLife,
    },
    /// The conversation is over: [`Robot::reconnect`](crate::Robot::reconnect) with what waits for the next one.
    Reconnect,
    /// The goodbye is said: nothing more is to come.
    Ended,
}
