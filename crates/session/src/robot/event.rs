//! What a robot is told.

use taut_core::{DropCause, Duration, PathId};
use taut_wire::session::{Error, StopCause};

use crate::state::State;

/// What a [`Robot`](super::Robot) has to tell the device that it stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RobotEvent {
    /// An operator said hello. Nothing moves yet.
    Connected {
        /// The number of its session.
        session: u32,
    },
    /// The operator resumed: states follow.
    Enabled,
    /// Go there: fresh, in order, finite, within the limits.
    Apply {
        /// The operator's number for it.
        sequence: u64,
        /// Where to, how fast, how hard; made at `created` on this end's clock.
        state: State,
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
    /// A datagram or frame that arrived was of no use.
    Refused(DropCause),
    /// The peer speaks another version.
    Incompatible(Error),
    /// A path can be used.
    PathUp(PathId),
    /// A path cannot be used any more.
    PathDown(PathId),
    /// Nothing flows any more.
    Closed,
}
