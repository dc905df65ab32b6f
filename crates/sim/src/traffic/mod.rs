//! Cross traffic that does not react: patterns of packets, and a sink that takes them.
//!
//! | pattern | what it is |
//! | --- | --- |
//! | [`Cbr`] | packets of one size at equal distances |
//! | [`Poisson`] | packets of one size, exponential distances |
//! | [`Voice`] | G.711 with silence suppression: exponential talk spurts and pauses |
//! | [`Video`] | frames of given sizes at a frame rate, each cut into packets that leave back to back |
//! | [`Replay`] | packets at recorded times with recorded sizes |
//!
//! Traffic that reacts (TCP) is a transport in an [`crate::Endpoint`].

mod patterns;

use taut_core::{
    Address, Bytes, Deadline, DropCause, FlowId, IPV4_HEADER, Node, NodeEvent, Packet, PacketMeta,
};
use taut_core::{Time, UDP_HEADER};

pub use patterns::{Cbr, Poisson, Replay, Video, Voice};

/// When the next packet leaves, and its length on the wire.
pub trait Pattern {
    /// The next packet after the one before; times never go back. `None`: that was all.
    fn next_packet(&mut self) -> Option<(Time, Bytes)>;
}

/// Sends a pattern of UDP packets without content to one node.
pub struct Source {
    destination: Address,
    flow: FlowId,
    pattern: Box<dyn Pattern + Send>,
    next: Option<(Time, Bytes)>,
    start: Time,
    stop: Time,
    dscp: u8,
}

impl Source {
    /// A source of `pattern` towards `destination`, from the beginning of the run to its end.
    pub fn new(destination: Address, flow: FlowId, mut pattern: Box<dyn Pattern + Send>) -> Self {
        let next = pattern.next_packet();
        Self { destination, flow, pattern, next, start: Time::ZERO, stop: Time::MAX, dscp: 0 }
    }

    /// Shifts the whole pattern to begin at `start`, and ends it before `stop`.
    pub fn between(mut self, start: Time, stop: Time) -> Self {
        (self.start, self.stop) = (start, stop);
        self
    }

    /// Differentiated services code point of every packet, 0 to 63. Default: 0.
    pub fn dscp(mut self, dscp: u8) -> Self {
        self.dscp = dscp;
        self
    }

    fn due(&self) -> Option<Time> {
        let (at, _) = self.next?;
        let at = self.start + at.saturating_since(Time::ZERO);
        (at < self.stop).then_some(at)
    }
}

impl Node for Source {
    fn handle_input(&mut self, _now: Time, _packet: Packet) {}

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        if self.due()? > now {
            return None;
        }
        let (_, size) = self.next?;
        self.next = self.pattern.next_packet();
        let size = size.max(Bytes::new(IPV4_HEADER + UDP_HEADER));
        let meta = PacketMeta {
            size,
            flow: self.flow,
            destination: self.destination,
            source_port: DISCARD,
            destination_port: DISCARD,
            dscp: self.dscp,
            ..PacketMeta::default()
        };
        Some(Packet { meta, payload: Vec::new() })
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        None
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.due().map(|at| Deadline::new(at, "next packet"))
    }
}

/// The port of what nobody reads, the discard service (RFC 863).
pub const DISCARD: u16 = 9;

/// Takes packets and says nothing, but for those with a flipped bit.
#[derive(Debug, Default)]
pub struct Sink {
    refused: u64,
}

impl Node for Sink {
    fn handle_input(&mut self, _now: Time, packet: Packet) {
        self.refused += u64::from(packet.meta.corrupted);
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, _now: Time) -> Option<Packet> {
        None
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        self.refused = self.refused.checked_sub(1)?;
        Some(NodeEvent::Refused(None, DropCause::Corrupted))
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
}
