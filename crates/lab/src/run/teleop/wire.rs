//! What carries a session, and what can be seen of it from outside: which frames went in and which came out.

use taut_agent::{Conversation, Refused, Trouble};
use taut_core::{
    Bytes, Datagram, Deadline, Duration, Event, IPV4_HEADER, Message, Protocol, Seed, SendError, Time,
    Transmit, Transport, UDP_HEADER,
};
use taut_session::Codec;
use taut_transport::entropy::Entropy;
use taut_transport::identity::{Identity, Trust};
use taut_transport::mtip::ChoiceReport;
use taut_transport::quic::Resumption;
use taut_transport::security::{Sealed, Secured, SecurityConfig};
use taut_wire::omni71;
use taut_wire::session::{Body, Frame, Priority};

use crate::run::flows::{Counted, Counters, Counts};
use crate::run::inputs::RunError;
use crate::run::settings;
use crate::run::transports::{Carrier, Side, session_quic};
use crate::scenario::{Teleop, TransportSpec};

/// A transport, plain or sealed.
pub(super) enum Stack {
    Plain(Carrier),
    Secured(Box<Secured<Carrier>>),
    Sealed(Box<Sealed<Carrier>>),
}

/// Which life of the two ends it is, and what they remember of the one before.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    pub(super) name: String,
    /// QUIC's tickets, of the operator and of the robot.
    pub(super) tickets: [Resumption; 2],
}

impl Stack {
    pub(super) fn new(teleop: &Teleop, side: Side, seed: Seed, life: &Life) -> Result<Self, RunError> {
        let spec = teleop.transport;
        if let TransportSpec::Quic(quic) = &spec {
            let tickets = life.tickets[usize::from(side == Side::Waits)].clone();
            let quic = session_quic(quic, side, seed, &life.name, Some(tickets));
            return Ok(Self::Plain(Carrier::Quic(Box::new(quic))));
        }
        let period = settings::period(teleop);
        let make = move || match &spec {
            TransportSpec::Etp(etp) if etp.tcp.is_none() => Carrier::etp(etp, Some(period)),
            spec => Carrier::new(spec, side, seed),
        };
        let carrier = make()?;
        if !teleop.secure {
            return Ok(Self::Plain(carrier));
        }
        let (own, peer) = side.names();
        let (identity, peer) =
            (Identity::from_seed(seed, own), Identity::from_seed(seed, peer).fingerprint());
        let entropy = Entropy::seeded(seed, &format!("session/{own}/security{}", life.name));
        let config = SecurityConfig::new();
        Ok(match (carrier.protocol(), side) {
            (Protocol::Tcp, Side::Opens) => {
                Self::Sealed(Box::new(Sealed::initiator(config, &identity, peer, entropy, carrier)))
            }
            (Protocol::Tcp, Side::Waits) => {
                let trust = Trust::only(peer);
                Self::Sealed(Box::new(Sealed::responder(config, &identity, trust, entropy, carrier)))
            }
            (_, Side::Opens) => {
                Self::Secured(Box::new(Secured::initiator(config, &identity, peer, entropy, carrier)))
            }
            (_, Side::Waits) => {
                let make = move || make().expect("it could be made before");
                let trust = Trust::only(peer);
                Self::Secured(Box::new(Secured::responder(config, &identity, trust, entropy, make)))
            }
        })
    }

    fn carrier(&self) -> &Carrier {
        match self {
            Self::Plain(carrier) => carrier,
            Self::Secured(secured) => secured.inner(),
            Self::Sealed(sealed) => sealed.inner(),
        }
    }

    pub(super) fn protocol(&self) -> Protocol {
        self.carrier().protocol()
    }

    /// Of the headers that the driver adds to a datagram.
    pub(super) fn headers(&self) -> Bytes {
        match self.protocol() {
            Protocol::Udp => Bytes::new(IPV4_HEADER + UDP_HEADER),
            Protocol::Tcp | Protocol::Dccp => Bytes::new(IPV4_HEADER),
        }
    }
}

impl Counts for Stack {
    fn counts(&self) -> Vec<(&'static str, u64)> {
        let mut counts = self.carrier().counts();
        match self {
            Self::Plain(_) => {}
            Self::Secured(secured) => counts.extend([
                ("sealed", secured.stats().sealed),
                ("opened", secured.stats().opened),
                ("unauthenticated", secured.stats().unauthenticated),
                ("replayed", secured.stats().replayed),
            ]),
            Self::Sealed(sealed) => {
                counts.extend([("sealed", sealed.stats().sealed), ("opened", sealed.stats().opened)]);
            }
        }
        counts
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

/// The tag of what is neither state nor feedback.
const NO_TAG: u64 = u64::MAX;

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

/// What carries a session: as on sockets, but that nobody else asks for the robot.
pub(super) type Wire = Counted<Stack>;

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
        None
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
        let stack = Stack::new(&self.teleop, self.side, self.seed, &self.life)?;
        // Another one has other random numbers.
        self.life.name.push_str("/renewed");
        Ok(Counted::new(stack, self.counters.clone()))
    }
}

/// Calls whichever stack it is.
macro_rules! stacked {
    ($stack:ident, $transport:ident => $call:expr) => {
        match $stack {
            Stack::Plain($transport) => $call,
            Stack::Secured($transport) => $call,
            Stack::Sealed($transport) => $call,
        }
    };
}

impl Transport for Stack {
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        stacked!(self, transport => transport.send(now, message))
    }
    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        stacked!(self, transport => transport.handle_input(now, input));
    }
    fn handle_timeout(&mut self, now: Time) {
        stacked!(self, transport => transport.handle_timeout(now));
    }
    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        stacked!(self, transport => transport.poll_transmit(now, buffer))
    }
    fn poll_event(&mut self) -> Option<Event> {
        stacked!(self, transport => transport.poll_event())
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        stacked!(self, transport => transport.poll_timeout())
    }
    fn close(&mut self, now: Time) {
        stacked!(self, transport => transport.close(now));
    }
    fn round_trip(&self) -> Option<Duration> {
        stacked!(self, transport => transport.round_trip())
    }
}
