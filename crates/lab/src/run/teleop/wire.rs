//! What carries a session, and what can be seen of it from outside: which frames went in and which came out.

use taut_agent::{Conversation, Refused, Trouble};
use taut_core::{Event, Seed};
use taut_session::Codec;
use taut_transport::mtip::ChoiceReport;
use taut_transport::quic::Resumption;
use taut_transport::stack::{Side, Stack, StackSpec};
use taut_wire::omni71;
use taut_wire::session::{Body, Frame, Priority};

use crate::run::flows::{Counted, Counters};
use crate::run::inputs::RunError;
use crate::run::settings;
use crate::run::transports::{Carries, End};
use crate::scenario::Teleop;

/// Which life of the two ends it is, and what they remember of the one before.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    pub(super) name: String,
    /// QUIC's tickets, of the operator and of the robot.
    pub(super) tickets: [Resumption; 2],
}

/// The stack of one end.
pub(super) fn stack(teleop: &Teleop, side: Side, seed: Seed, life: &Life) -> Result<Stack, RunError> {
    let spec = match settings::session(teleop) {
        StackSpec::Quic(config) => {
            let tickets = life.tickets[usize::from(side == Side::Waits)].clone();
            StackSpec::Quic(config.resumption(tickets))
        }
        other => other,
    };
    let end = End {
        carries: Carries::Session,
        side,
        secure: teleop.secure,
        life: life.name.clone(),
        paths: teleop.paths,
    };
    end.stack(spec, seed)
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
const NO_STATE: u64 = 1 << 63;

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
    let sample = omni71::View::new_checked(data).ok()?;
    let sequence = sample.sequence();
    Some(match (sample.priority(), side) {
        (Priority::Emergency, _) if sample.locked() => Seen::Stop,
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

/// What carries a session: as on sockets, but that nobody else asks for the robot.
pub(super) type Wire = Counted;

impl Conversation for Wire {
    fn trouble(&self) -> Trouble {
        Trouble::NoAnswer
    }
    fn wakes_early(&self) -> bool {
        false
    }
    fn lingers(&self) -> bool {
        false
    }
    fn busy(&self) -> u64 {
        0
    }
    fn take_stranger(&mut self) -> Option<Refused> {
        None
    }
    fn choices(&self) -> Option<ChoiceReport> {
        self.stack().choices()
    }
    fn copies(&self) -> Option<(u64, u64)> {
        self.stack().copies()
    }
    fn stream_bytes(&self) -> Option<(u64, u64)> {
        None
    }
}

/// Makes what carries a session at one end, and again when that is of no use any more.
pub(super) struct Wires {
    pub(super) teleop: Teleop,
    pub(super) side: Side,
    pub(super) seed: Seed,
    pub(super) life: Life,
    pub(super) counters: Counters,
}

impl Wires {
    pub(super) fn next(&mut self) -> Result<Wire, RunError> {
        let stack = stack(&self.teleop, self.side, self.seed, &self.life)?;
        // Another one has other random numbers.
        self.life.name.push_str("/renewed");
        Ok(Counted::new(stack, self.counters.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::{Message, PathId, Time, Transport};
    use taut_transport::stack::{Bare, EveryPath};
    use taut_transport::udp::UdpConfig;

    #[test]
    fn what_is_watched_and_counted_has_its_paths_all_the_same() {
        let (counters, path) = (Counters::default(), PathId(4));
        let stack = Bare::EveryPath(EveryPath::new(UdpConfig::new())).into();
        let mut wire = Wire::new(stack, counters.clone());
        assert!(!wire.uses_path(path) && wire.add_path(Time::ZERO, path) && wire.uses_path(path));
        assert!(!wire.add_path(Time::ZERO, path), "it is known");
        wire.send(Time::ZERO, Message::default()).unwrap();
        assert_eq!(wire.poll_transmit(Time::ZERO, &mut Vec::new()).map(|sent| sent.path), Some(path));
        wire.remove_path(Time::ZERO, path);
        assert!(!wire.uses_path(path));
        drop(wire);
        assert_eq!(counters.take().get("offered"), Some(&1));
    }
}
