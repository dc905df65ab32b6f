//! What travels over links.

use crate::{Bytes, Time};

/// Bytes of an IPv4 header without options.
pub const IPV4_HEADER: u64 = 20;
/// Bytes of a UDP header.
pub const UDP_HEADER: u64 = 8;

/// Which flow a packet belongs to, for accounting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// A node's address in a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u16);

/// One of several ways between the same two nodes; 0 where there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u8);

/// Explicit congestion notification (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// The sender does not understand marks: drop instead.
    #[default]
    NotCapable,
    /// ECT(1).
    Capable1,
    /// ECT(0).
    Capable0,
    /// A queue marked it.
    CongestionExperienced,
}

impl Ecn {
    /// The two bits of the IP header (figure 1).
    pub const fn code_point(self) -> u8 {
        match self {
            Self::NotCapable => 0b00,
            Self::Capable1 => 0b01,
            Self::Capable0 => 0b10,
            Self::CongestionExperienced => 0b11,
        }
    }

    /// From the low two bits of a traffic class; the others are not looked at.
    pub const fn from_code_point(class: u8) -> Self {
        match class & 0b11 {
            0b01 => Self::Capable1,
            0b10 => Self::Capable0,
            0b11 => Self::CongestionExperienced,
            _ => Self::NotCapable,
        }
    }
}

/// What the IP header names as the next protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The driver's socket adds the UDP header; a packet's payload follows it.
    #[default]
    Udp,
    /// A packet's payload begins with the TCP header.
    Tcp,
    /// A packet's payload begins with the DCCP header (RFC 4340), IP protocol 33.
    Dccp,
}

/// What a link or a queue may look at without opening the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketMeta {
    /// Unique in a run, but for duplicates, which share it and differ in `copy`. The driver sets it.
    pub id: u64,
    /// When the sender handed it to the network. The driver sets it.
    pub sent: Time,
    /// Length of the IP packet, headers included.
    pub size: Bytes,
    /// Which flow it belongs to.
    pub flow: FlowId,
    /// Where it comes from.
    pub source: Address,
    /// Where it goes.
    pub destination: Address,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// The next protocol.
    pub protocol: Protocol,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Differentiated services code point (RFC 2474), 0 to 63.
    pub dscp: u8,
    /// Which path its sender chose.
    pub path: PathId,
    /// 0 for the original, counting up for duplicates made on the way.
    pub copy: u8,
    /// A bit was flipped on the way. Real hosts find this by checksum; so must whoever receives it here.
    pub corrupted: bool,
    /// Bytes of headers at the front of [`Packet::payload`]: 0 in simulation; an emulator keeps those of real packets there.
    pub headers: u16,
}

/// A packet: what is seen from outside, and its bytes.
///
/// `payload` holds the bytes that matter. Where the wire length (`meta.size`) says that there are more than headers
/// and payload, the rest are zeros that nobody stored: bulk data weighs nothing in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// What is seen from outside.
    pub meta: PacketMeta,
    /// The bytes after the IP header (TCP) or after the UDP header (UDP), without trailing zeros that were never stored.
    /// Before them are [`PacketMeta::headers`].
    pub payload: Vec<u8>,
}

impl Packet {
    /// The payload without headers that a driver keeps before it.
    pub fn body(&self) -> &[u8] {
        self.payload.get(usize::from(self.meta.headers)..).unwrap_or_default()
    }
}
