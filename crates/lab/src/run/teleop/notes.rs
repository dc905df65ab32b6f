//! What an end of a session did, note by note: each end's observer takes them, in a simulation to be written into the books at
//! once, on real sockets when the run is over.

use taut_agent::{Observed, SessionObserver};
use taut_core::Time;
use taut_session::{ChannelId, ClockEstimate, Codec, OperatorEvent, RobotEvent, State, StateError};

use taut_transport::stack::Side;

use super::channels::{Happened, happened};
use super::wire::{self, Seen};
use crate::demo::Vector;
use crate::lever;
use crate::scenario::Teleop;

/// One thing that an end did.
pub(super) enum Note {
    Made {
        state: State,
        taken: Result<u64, StateError>,
    },
    Finished,
    ResumePressed,
    StopPressed(usize),
    Seen(Seen),
    Operator(OperatorEvent),
    /// The arm made a step: its position, and the force on it.
    Arm([Vector; 2]),
    Feedback(Result<u64, StateError>),
    Robot(RobotEvent, Option<ClockEstimate>),
    Channel(ChannelId, Happened),
}

/// Whose notes, and in what bytes its frames are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scribe {
    pub(super) side: Side,
    codec: Codec,
}

impl Scribe {
    pub(super) fn new(teleop: &Teleop, side: Side) -> Self {
        Self { side, codec: teleop.codec }
    }

    /// What is worth a note.
    pub(super) fn note(self, event: Observed<'_>) -> Option<Note> {
        Some(match event {
            Observed::Made(state, taken) => Note::Made { state: *state, taken },
            // A session of states says nothing else.
            Observed::DeviceDone => Note::Finished,
            Observed::ResumePressed => Note::ResumePressed,
            Observed::StopPressed { waiting } => Note::StopPressed(waiting),
            Observed::Sent { tag, stream } => Note::Seen(wire::sent(tag, stream.0)?),
            Observed::Transport(event) => Note::Seen(wire::seen(self.codec, self.side, event)?),
            // It has been seen as a frame.
            Observed::Operator(OperatorEvent::Feedback { .. }) => return None,
            Observed::Message { channel, taken, .. } => Note::Channel(channel, Happened::Made(taken)),
            Observed::Operator(OperatorEvent::Channel(event))
            | Observed::Robot(RobotEvent::Channel(event), _) => {
                let (channel, happened) = happened(event)?;
                Note::Channel(channel, happened)
            }
            Observed::Operator(event) => Note::Operator(event.clone()),
            Observed::Robot(event, clock) => Note::Robot(event.clone(), clock),
            Observed::Measured(measured) => {
                let [position, _, force] = lever::at_lever(&measured.state);
                Note::Arm([position, force])
            }
            Observed::Feedback(_, taken) => Note::Feedback(taken),
        })
    }
}

/// What one end of a session over real sockets did, each with the time of the one clock that both ends read.
///
/// Some 150 bytes a note, some five notes a state at each end.
pub struct Notes {
    pub(super) scribe: Scribe,
    pub(super) notes: Vec<(Time, Note)>,
}

/// Notes of so many are taken without asking for memory.
const MOST_EXPECTED: u64 = 1 << 20;

impl Notes {
    /// The operator's.
    pub fn of_operator(teleop: &Teleop) -> Self {
        Self::new(teleop, Side::Opens)
    }

    /// The robot's.
    pub fn of_robot(teleop: &Teleop) -> Self {
        Self::new(teleop, Side::Waits)
    }

    fn new(teleop: &Teleop, side: Side) -> Self {
        // Growing copies everything, which a session would wait for.
        let expected = teleop.messages.unwrap_or(0).saturating_mul(6).min(MOST_EXPECTED) + 10_000;
        Self { scribe: Scribe::new(teleop, side), notes: Vec::with_capacity(expected as usize) }
    }
}

impl SessionObserver for Notes {
    fn on_event(&mut self, now: Time, event: Observed<'_>) {
        self.notes.extend(self.scribe.note(event).map(|note| (now, note)));
    }
    fn reads_messages(&self) -> bool {
        true
    }
}
