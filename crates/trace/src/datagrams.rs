//! UDP datagrams with what is in them.

use std::net::SocketAddrV4;

use etherparse::PacketBuilder;
use taut_core::{Bytes, IPV4_HEADER, Time, UDP_HEADER};

/// A UDP datagram over IPv4, to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// When, after the capture's time zero.
    pub time: Time,
    /// From where.
    pub source: SocketAddrV4,
    /// Where to.
    pub destination: SocketAddrV4,
    /// What it carries, at most 65507 bytes.
    pub payload: Vec<u8>,
}

impl Datagram {
    /// On the wire: with the headers of IPv4 and UDP.
    pub fn size(&self) -> Bytes {
        Bytes::new(IPV4_HEADER + UDP_HEADER + self.payload.len() as u64)
    }
}

/// The magic number of a capture with times in nanoseconds.
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Version 2.4, two numbers of 16 bits.
const VERSION: u32 = 0x0004_0002;
/// Longer than any packet.
const SNAPSHOT: u32 = 65_535;
/// LINKTYPE_IPV4: the packet begins with its IP header.
const LINKTYPE_IPV4: u32 = 228;

/// Datagrams as a pcap file (draft-ietf-opsawg-pcap) with times in nanoseconds. Time zero is the beginning of 1970, up to 2106.
///
/// ```
/// use taut_core::Time;
/// use taut_trace::{Data, Datagram, read_bytes, write_pcap};
/// let (source, destination) = ("10.0.0.1:5000".parse()?, "10.0.0.2:5004".parse()?);
/// let at = |nanos| Datagram { time: Time::from_nanos(nanos), source, destination, payload: vec![7; 100] };
/// let recording = read_bytes("a.pcap", &write_pcap(&[at(5), at(1_000_000_012)]))?;
/// let Data::Packets(packets) = recording.data() else { panic!("a capture has packets") };
/// assert_eq!(packets.rows()[1].time, Time::from_nanos(1_000_000_007));
/// assert_eq!(packets.rows()[1].size.get(), 128);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// With a payload that is too long, or a time after 2106.
pub fn write_pcap(datagrams: &[Datagram]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [NANOSECONDS, VERSION, 0, 0, SNAPSHOT, LINKTYPE_IPV4] {
        file.extend(word.to_le_bytes());
    }
    for Datagram { time, source, destination, payload } in datagrams {
        let packet = PacketBuilder::ipv4(source.ip().octets(), destination.ip().octets(), 64)
            .udp(source.port(), destination.port());
        let size = u32::try_from(packet.size(payload.len())).expect("a payload of at most 65507 bytes");
        let seconds = u32::try_from(time.as_nanos() / 1_000_000_000).expect("a time before 2106");
        let nanos = (time.as_nanos() % 1_000_000_000) as u32;
        for word in [seconds, nanos, size, size] {
            file.extend(word.to_le_bytes());
        }
        packet.write(&mut file, payload).expect("a payload of at most 65507 bytes");
    }
    file
}
