//! A node that is nothing but a transport: cross traffic, or one end of a test.

use taut_core::{
    Address, Bytes, Datagram, Deadline, DropCause, Event, FlowId, IPV4_HEADER, Node, NodeEvent, Packet,
    PacketMeta, Protocol, Time, Transmit, Transport, UDP_HEADER,
};

/// Whom a node speaks to, and as which flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The other node.
    pub address: Address,
    /// Our port.
    pub source_port: u16,
    /// Its port.
    pub destination_port: u16,
    /// The flow that our packets count for.
    pub flow: FlowId,
    /// What carries the datagrams.
    pub protocol: Protocol,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
}

impl Peer {
    /// The packet that carries `payload` and the zeros after it. The driver fills in the rest.
    pub fn packet(&self, payload: Vec<u8>, transmit: Transmit) -> Packet {
        let header = header_len(self.protocol);
        let size = Bytes::new(header + payload.len() as u64 + u64::from(transmit.padding));
        let meta = PacketMeta {
            size,
            flow: self.flow,
            destination: self.address,
            source_port: self.source_port,
            destination_port: self.destination_port,
            protocol: self.protocol,
            ecn: transmit.ecn,
            dscp: self.dscp,
            path: transmit.path,
            ..PacketMeta::default()
        };
        Packet { meta, payload }
    }

    /// The zeros that follow a received packet's stored payload on the wire.
    pub fn padding(packet: &Packet) -> u32 {
        let header = header_len(packet.meta.protocol);
        packet.meta.size.saturating_sub(Bytes::new(header + packet.payload.len() as u64)).get() as u32
    }
}

/// Bytes of the headers that the driver adds, not the transport.
fn header_len(protocol: Protocol) -> u64 {
    match protocol {
        Protocol::Udp => IPV4_HEADER + UDP_HEADER,
        Protocol::Tcp | Protocol::Dccp => IPV4_HEADER,
    }
}

/// Drives one transport. Messages that arrive are taken and forgotten; gauges and refusals are passed on.
pub struct Endpoint<T> {
    transport: T,
    peer: Peer,
    refused: Option<DropCause>,
    start: Time,
    /// The empty buffer of the packet that arrived last, for the one that leaves next.
    spare: Vec<u8>,
}

impl<T: Transport> Endpoint<T> {
    /// A transport that speaks to `peer`, from the beginning of the run.
    pub fn new(transport: T, peer: Peer) -> Self {
        Self { transport, peer, refused: None, start: Time::ZERO, spare: Vec::new() }
    }

    /// Stays silent until `start`.
    pub fn starting_at(mut self, start: Time) -> Self {
        self.start = start;
        self
    }
}

impl<T: Transport> Node for Endpoint<T> {
    fn handle_input(&mut self, now: Time, packet: Packet) {
        if packet.meta.corrupted {
            self.refused = Some(DropCause::Corrupted);
            return;
        }
        let padding = Peer::padding(&packet);
        let (path, ecn) = (packet.meta.path, packet.meta.ecn);
        self.transport.handle_input(now, Datagram { path, ecn, data: &packet.payload, padding });
        self.spare = packet.payload;
        self.spare.clear();
    }

    fn handle_timeout(&mut self, now: Time) {
        if now >= self.start {
            self.transport.handle_timeout(now);
        }
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        if now < self.start {
            return None;
        }
        let transmit = self.transport.poll_transmit(now, &mut self.spare)?;
        Some(self.peer.packet(std::mem::take(&mut self.spare), transmit))
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        if let Some(cause) = self.refused.take() {
            return Some(NodeEvent::Refused(None, cause));
        }
        loop {
            match self.transport.poll_event()? {
                Event::Gauge { name, value } => return Some(NodeEvent::Gauge { name, value }),
                Event::Refused(cause) => return Some(NodeEvent::Refused(None, cause)),
                _ => {}
            }
        }
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        match self.transport.poll_timeout() {
            Some(deadline) if deadline.at < self.start => Some(Deadline::new(self.start, "start")),
            deadline => deadline,
        }
    }
}
