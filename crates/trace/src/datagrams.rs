//! UDP datagrams with what is in them.

use std::net::SocketAddrV4;

use etherparse::PacketBuilder;
use taut_core::{Bytes, IPV4_HEADER, Time, UDP_HEADER};

use crate::error::{Fault, Problem};
use crate::{FiveTuple, Format, Limits, TraceError, file, pcap};

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

/// A UDP datagram as it was found in a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedDatagram {
    /// When, since the first packet of the capture.
    pub time: Time,
    /// Protocol, addresses and ports.
    pub flow: FiveTuple,
    /// How long its payload was on the wire.
    pub length: Bytes,
    /// What was captured of its payload: not all of it, perhaps.
    pub payload: Vec<u8>,
}

/// The UDP datagrams of a pcap or pcapng file, in the order of time. `name` is for errors. Fragments of IP packets are left out.
///
/// ```
/// use taut_core::{Bytes, Time};
/// use taut_trace::{Datagram, datagrams, write_pcap};
/// let (source, destination) = ("10.0.0.1:5000".parse()?, "10.0.0.2:5004".parse()?);
/// let time = Time::from_nanos(1_000_000_007);
/// let file = write_pcap(&[Datagram { time, source, destination, payload: vec![7; 100] }]);
/// let found = datagrams("a.pcap", &file)?;
/// assert_eq!((found[0].time, found[0].length, &found[0].payload), (Time::ZERO, Bytes::new(100), &vec![7; 100]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When it is no capture, or is cut short.
pub fn datagrams(name: &str, data: &[u8]) -> Result<Vec<CapturedDatagram>, TraceError> {
    let limits = Limits::default();
    let read = || {
        limits.check_bytes(data.len() as u64).map_err(Fault::file)?;
        match file::detect(name, data).map_err(Fault::file)? {
            format @ (Format::Pcap | Format::Pcapng) => pcap::datagrams(format, data, &limits),
            _ => Err(Fault::file(Problem::NoCapture)),
        }
    };
    read().map_err(|fault| TraceError::new(name, fault))
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
