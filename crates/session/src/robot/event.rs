//! What a robot is told.

use taut_core::{DropCause, Duration, PathId};
use taut_wire::session::{Error, StopCause};

use crate::channel::{ChannelEvent, ChannelId};
use crate::motion::Motion;
use crate::safety::Latch;
use crate::state::State;

/// What a [`Robot`](super::Robot) has to tell the device that it stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum RobotEvent {
    /// An operator said hello. Nothing moves yet.
    Connected {
        /// The number of its session.
        session: u32,
    },
    /// A latched emergency stop was let go. Nothing moves by that.
    LetGo {
        /// By [`Robot::release`](super::Robot::release), beside the robot; else by the operator.
        here: bool,
    },
    /// The operator resumed: states follow. It is answered when the device has taken it, by [`Robot::enabled`](crate::Robot::enabled), or has not, by
    /// [`Robot::stop`](crate::Robot::stop). Until then nothing moves the device, and after the watchdog's time the robot stops.
    Enabled {
        /// Begins with it: no other enabling of this robot has the same.
        epoch: u32,
    },
    /// Go there: fresh, in order, finite, within the limits.
    Apply {
        /// The operator's number for it.
        sequence: u64,
        /// Where to, how fast, how hard; made at `created` on this end's clock.
        state: State,
        /// How old it is, by the estimate of the operator's clock.
        age: Duration,
        /// For so much longer it may be used: until the operator's deadline, and until it may be of the robot's largest age.
        left: Duration,
    },
    /// Move so: fresh, in order, finite, within the limits of its channel's guard.
    Move {
        /// Over which channel.
        channel: ChannelId,
        /// The operator's number for it.
        sequence: u64,
        /// What to do.
        motion: Motion,
        /// How old it is, by the estimate of the operator's clock.
        age: Duration,
    },
    /// Stop now, and stay.
    Stop {
        /// Why.
        why: StopCause,
    },
    /// A state that arrived is not applied.
    Dropped {
        /// Which.
        sequence: u64,
        /// Why not.
        cause: DropCause,
    },
    /// Feedback that was made here is not sent.
    FeedbackDropped {
        /// Which.
        sequence: u64,
        /// Why not.
        cause: DropCause,
    },
    /// Of a channel.
    Channel(ChannelEvent),
    /// A datagram or frame that arrived was of no use.
    Refused(DropCause),
    /// The peer speaks another version, or one of both ends tells how things turn and the other does not. Told once a second at most.
    Incompatible(Error),
    /// What is latched has changed, and has to survive this process ([`RobotConfig::keeps_latch`](crate::RobotConfig::keeps_latch)).
    /// [`Robot::kept`](super::Robot::kept) is told when it was written.
    Keep {
        /// Counts up.
        number: u64,
        /// What is latched; `None`: nothing any more.
        latch: Option<Latch>,
    },
    /// A resume was refused, for motion takes so long to here that it would be too old: the largest age and the watchdog would
    /// have to be [`patience`](crate::patience) for it.
    PathTooSlow {
        /// How long it takes, and how unsure that is, together.
        age: Duration,
    },
    /// A path can be used.
    PathUp(PathId),
    /// A path cannot be used any more.
    PathDown(PathId),
    /// Nothing flows any more.
    Closed,
}
