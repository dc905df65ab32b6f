//! What carries a session, and what can be seen of it from outside: which frames went in and which came out.

use taut_core::{Duration, Event};
use taut_session::Codec;
use taut_transport::quic::Resumption;
use taut_transport::stack::{Side, StackSpec};
use taut_wire::omni71;
use taut_wire::session::{Body, Frame, Priority};

use crate::run::settings;
use crate::scenario::Teleop;

/// Which life of the two ends it is, and what they remember of the one before.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    pub(super) name: String,
    /// QUIC's tickets, of the operator and of the robot.
    pub(super) tickets: [Resumption; 2],
    /// By how much their clocks read more than in their first.
    pub(super) later: Duration,
}

/// How the stack of one end is set.
pub(super) fn spec(teleop: &Teleop, side: Side, life: &Life) -> StackSpec {
    match settings::session(teleop) {
        StackSpec::Quic(config) => StackSpec::Quic(config.resumption(life.tickets[side as usize].clone())),
        other => other,
    }
}

/// What went by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Seen {
    /// The transport is connected.
    Connected,
    /// A state, or feedback, was given to the transport.
    Sent { sequence: u64, stream: u8 },
    /// A state arrived, each copy.
    State { sequence: u64, stream: u8, bytes: usize },
    /// Feedback arrived, each copy.
    Feedback { sequence: u64, bytes: usize },
    /// An emergency stop arrived.
    Stop,
    /// The acknowledgement of one arrived.
    StopAck,
    /// A number of the transport's moved.
    Gauge { name: &'static str, value: f64 },
}

/// In the tag of what is neither state nor feedback.
pub(in crate::run) const NO_STATE: u64 = 1 << 63;

/// Reads a frame that arrived at this side by itself: whoever judges the session does not ask it.
pub(super) fn read(codec: Codec, side: Side, data: &[u8], stream: u16) -> Option<Seen> {
    let bytes = data.len();
    if codec == Codec::Native {
        return Some(match Frame::parse(data).ok()?.body {
            Body::State(state) | Body::AcknowledgingState(state, _) => {
                Seen::State { sequence: state.sequence, stream: state.stream, bytes }
            }
            Body::Feedback(feedback) => Seen::Feedback { sequence: feedback.state.sequence, bytes },
            Body::EmergencyStop(_) => Seen::Stop,
            Body::EmergencyStopAck(_) => Seen::StopAck,
            _ => return None,
        });
    }
    if bytes == omni71::ACK_LEN {
        // Numbers of commands have the highest bit.
        let ack = omni71::Ack::parse(data).ok()?;
        return (ack.sequence >> 63 != 0).then_some(Seen::StopAck);
    }
    let sample = omni71::Repr::parse(data).ok()?;
    let sequence = sample.sequence;
    Some(match (sample.priority, side) {
        (Priority::Emergency, _) if sample.locked => Seen::Stop,
        (Priority::Emergency, _) => return None,
        (_, Side::Opens) => Seen::Feedback { sequence, bytes },
        (_, Side::Waits) => Seen::State { sequence, stream: stream as u8, bytes },
    })
}

/// What an event of the transport's says to whoever looks on.
pub(super) fn seen(codec: Codec, side: Side, event: &Event) -> Option<Seen> {
    match event {
        Event::Connected => Some(Seen::Connected),
        Event::Received { data, stream, .. } => read(codec, side, data, stream.0),
        Event::Gauge { name, value } => Some(Seen::Gauge { name, value: *value }),
        _ => None,
    }
}

/// What a message's number says: that of what is neither state nor feedback has the highest bit.
pub(super) fn sent(tag: u64, stream: u16) -> Option<Seen> {
    (tag & NO_STATE == 0).then_some(Seen::Sent { sequence: tag, stream: stream as u8 })
}
