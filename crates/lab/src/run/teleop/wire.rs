//! What carries a session, and what can be seen of it from outside: which frames went in and which came out.

use std::collections::VecDeque;

use taut_core::{
    Datagram, Deadline, Duration, Event, Message, Origin, PathId, Seed, SendError, Time, Transmit, Transport,
};
use taut_session::Codec;
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
    pub(super) name: &'static str,
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
    let end =
        End { carries: Carries::Session, side, secure: teleop.secure, life: life.name, paths: teleop.paths };
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

/// A transport that is watched. It is not asked anything that the session was not told.
pub(super) struct Wire {
    stack: Counted,
    codec: Codec,
    side: Side,
    seen: VecDeque<Seen>,
}

/// The tag of what is neither state nor feedback.
const NO_TAG: u64 = u64::MAX;

impl Wire {
    pub(super) fn new(stack: Stack, codec: Codec, side: Side, counters: Counters) -> Self {
        Self { stack: Counted::new(stack, counters), codec, side, seen: VecDeque::new() }
    }

    pub(super) fn take_seen(&mut self) -> Option<Seen> {
        self.seen.pop_front()
    }
}

/// Reads a frame that arrived at this side by itself: whoever judges the session does not ask it.
pub(super) fn read(codec: Codec, side: Side, data: &[u8], stream: u16) -> Option<Seen> {
    let bytes = data.len();
    if codec == Codec::Native {
        return Some(match Frame::parse(data).ok()?.body {
            Body::State(state) => Seen::State { sequence: state.sequence, stream: state.stream, bytes },
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

/// What a message's number says: those of what is neither state nor feedback are all the same.
pub(super) fn sent(tag: u64, stream: u16) -> Option<Seen> {
    (tag != NO_TAG).then_some(Seen::Sent { sequence: tag, stream: stream as u8 })
}

impl Transport for Wire {
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        let seen = sent(message.tag, message.stream.0);
        self.stack.send(now, message)?;
        self.seen.extend(seen);
        Ok(())
    }
    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.stack.handle_input(now, input);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.stack.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.stack.poll_transmit(now, buffer)
    }
    fn poll_event(&mut self) -> Option<Event> {
        let event = self.stack.poll_event()?;
        let seen = seen(self.codec, self.side, &event);
        self.seen.extend(seen);
        Some(event)
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        self.stack.poll_timeout()
    }
    fn close(&mut self, now: Time) {
        self.stack.close(now);
    }
    fn add_path(&mut self, now: Time, path: PathId) -> bool {
        self.stack.add_path(now, path)
    }
    fn remove_path(&mut self, now: Time, path: PathId) {
        self.stack.remove_path(now, path);
    }
    fn set_origin(&mut self, path: PathId, origin: Origin) {
        self.stack.set_origin(path, origin);
    }
    fn uses_path(&self, path: PathId) -> bool {
        self.stack.uses_path(path)
    }
    fn round_trip(&self) -> Option<Duration> {
        self.stack.round_trip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_transport::stack::{Bare, EveryPath};
    use taut_transport::udp::UdpConfig;

    #[test]
    fn what_is_watched_and_counted_has_its_paths_all_the_same() {
        let (counters, path) = (Counters::default(), PathId(4));
        let stack = Bare::EveryPath(EveryPath::new(UdpConfig::new())).into();
        let mut wire = Wire::new(stack, Codec::Native, Side::Opens, counters.clone());
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
