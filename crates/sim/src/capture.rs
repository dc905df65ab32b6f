//! Packets as pcapng (draft-ietf-opsawg-pcapng), one interface a node, so that Wireshark opens a simulated run.

use std::io::{self, Write};

use etherparse::checksum::Sum16BitWords;
use etherparse::{IpNumber, Ipv4Header, UdpHeader};
use taut_core::{Address, Packet, PacketMeta, Protocol, Time};

use crate::observer::Observer;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// LINKTYPE_IPV4: the packet begins with its IP header.
const LINKTYPE_IPV4: u16 = 228;

/// Writes what each node sends and receives, as `tcpdump` on that host would see it, with a snapshot length: the zeros
/// that a packet has on the wire but nobody stored are left out, and so is what follows a TCP header, for Wireshark
/// guesses at protocols in streams that it does not know, and calls malformed what it guessed wrong. Checksums and the
/// original length are right; a packet in which a bit was flipped has a wrong checksum.
pub struct Capture<W> {
    out: W,
    error: Option<io::Error>,
    frame: Vec<u8>,
}

impl<W: Write> Capture<W> {
    /// Begins a capture; `nodes` are the names of the nodes by address.
    ///
    /// # Errors
    /// When the header cannot be written.
    pub fn new(mut out: W, nodes: &[String]) -> io::Result<Self> {
        let mut section = Vec::new();
        section.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        section.extend_from_slice(&[1, 0, 0, 0]);
        section.extend_from_slice(&u64::MAX.to_le_bytes());
        write_block(&mut out, SECTION_HEADER, &section)?;
        for name in nodes {
            let mut body = Vec::new();
            body.extend_from_slice(&LINKTYPE_IPV4.to_le_bytes());
            body.extend_from_slice(&[0; 6]);
            write_option(&mut body, 2, name.as_bytes());
            write_option(&mut body, 9, &[9]); // if_tsresol: nanoseconds
            write_option(&mut body, 0, &[]);
            write_block(&mut out, INTERFACE_DESCRIPTION, &body)?;
        }
        Ok(Self { out, error: None, frame: Vec::new() })
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// The first error that writing met.
    pub fn finish(mut self) -> io::Result<W> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }

    fn record(&mut self, now: Time, interface: Address, packet: &Packet) {
        if self.error.is_some() {
            return;
        }
        self.frame.clear();
        self.frame.extend_from_slice(&u32::from(interface.0).to_le_bytes());
        self.frame.extend_from_slice(&((now.as_nanos() >> 32) as u32).to_le_bytes());
        self.frame.extend_from_slice(&(now.as_nanos() as u32).to_le_bytes());
        self.frame.extend_from_slice(&[0; 4]);
        self.frame.extend_from_slice(&(packet.meta.size.get() as u32).to_le_bytes());
        let start = self.frame.len();
        let written = write_headers(&mut self.frame, packet);
        let stored = (self.frame.len() - start) as u32;
        self.frame[12..16].copy_from_slice(&stored.to_le_bytes());
        self.frame.resize(self.frame.len().next_multiple_of(4), 0);
        if let Err(error) = written.and_then(|()| write_block(&mut self.out, ENHANCED_PACKET, &self.frame)) {
            self.error = Some(error);
        }
    }
}

impl<W: Write> Observer for Capture<W> {
    fn sent(&mut self, now: Time, packet: &Packet) {
        self.record(now, packet.meta.source, packet);
    }
    fn delivered(&mut self, now: Time, node: Address, packet: &Packet) {
        self.record(now, node, packet);
    }
}

/// Nodes live in 10.0.0.0/8, by address.
fn ipv4(address: Address) -> [u8; 4] {
    let [high, low] = (address.0 + 1).to_be_bytes();
    [10, 0, high, low]
}

fn write_headers(frame: &mut Vec<u8>, packet: &Packet) -> io::Result<()> {
    let ip = ipv4_header(&packet.meta)?;
    ip.write(frame)?;
    match packet.meta.protocol {
        Protocol::Udp => write_udp(frame, packet, &ip),
        Protocol::Tcp => write_tcp(frame, packet, &ip),
        Protocol::Dccp => write_dccp(frame, packet, &ip),
    }
    Ok(())
}

/// RFC 768.
fn write_udp(frame: &mut Vec<u8>, packet: &Packet, ip: &Ipv4Header) {
    let meta = &packet.meta;
    let length = (meta.size.get() as u16).saturating_sub(Ipv4Header::MIN_LEN as u16);
    let mut udp = UdpHeader {
        source_port: meta.source_port,
        destination_port: meta.destination_port,
        length,
        checksum: 0,
    };
    let sum = pseudo_header(ip, IpNumber::UDP, length).add_slice(&udp.to_bytes()).add_slice(&packet.payload);
    // A checksum of zero would say that there is none.
    udp.checksum = flawed(sum.to_ones_complement_with_no_zero().to_be(), meta.corrupted);
    frame.extend_from_slice(&udp.to_bytes());
    frame.extend_from_slice(&packet.payload);
}

/// RFC 9293 section 3.1.
fn write_tcp(frame: &mut Vec<u8>, packet: &Packet, ip: &Ipv4Header) {
    let start = frame.len();
    frame.extend_from_slice(&packet.payload);
    let segment = &mut frame[start..];
    if segment.len() < TCP_MIN_HEADER {
        return;
    }
    segment[16..18].fill(0);
    let length = (packet.meta.size.get() as u16).saturating_sub(Ipv4Header::MIN_LEN as u16);
    let checksum = pseudo_header(ip, IpNumber::TCP, length).add_slice(segment).ones_complement().to_be();
    segment[16..18].copy_from_slice(&flawed(checksum, packet.meta.corrupted).to_be_bytes());
    // Where a bit was flipped, perhaps in this length, only what every header has is sure.
    let header = if packet.meta.corrupted { TCP_MIN_HEADER } else { usize::from(segment[12] >> 4) * 4 };
    frame.truncate(start + header.clamp(TCP_MIN_HEADER, packet.payload.len()));
}

const TCP_MIN_HEADER: usize = 20;

/// RFC 4340 section 9: the checksum, bytes 6 and 7, covers the whole packet (CsCov 0).
fn write_dccp(frame: &mut Vec<u8>, packet: &Packet, ip: &Ipv4Header) {
    let start = frame.len();
    frame.extend_from_slice(&packet.payload);
    let segment = &mut frame[start..];
    let Some(field) = segment.get_mut(6..8) else { return };
    field.fill(0);
    let length = (packet.meta.size.get() as u16).saturating_sub(Ipv4Header::MIN_LEN as u16);
    let checksum = pseudo_header(ip, IpNumber::DCCP, length).add_slice(segment).ones_complement().to_be();
    segment[6..8].copy_from_slice(&flawed(checksum, packet.meta.corrupted).to_be_bytes());
}

/// The zeros that were not stored add nothing to a sum.
fn pseudo_header(ip: &Ipv4Header, protocol: IpNumber, length: u16) -> Sum16BitWords {
    Sum16BitWords::new()
        .add_4bytes(ip.source)
        .add_4bytes(ip.destination)
        .add_2bytes([0, protocol.0])
        .add_2bytes(length.to_be_bytes())
}

/// The bytes of a packet with a flipped bit were stored after the flip: a right checksum over them would hide it.
fn flawed(checksum: u16, corrupted: bool) -> u16 {
    if corrupted { checksum ^ 1 } else { checksum }
}

fn ipv4_header(meta: &PacketMeta) -> io::Result<Ipv4Header> {
    let protocol = match meta.protocol {
        Protocol::Udp => IpNumber::UDP,
        Protocol::Tcp => IpNumber::TCP,
        Protocol::Dccp => IpNumber::DCCP,
    };
    let payload = u16::try_from(meta.size.get().saturating_sub(Ipv4Header::MIN_LEN as u64))
        .map_err(io::Error::other)?;
    let mut ip = Ipv4Header::new(payload, 64, protocol, ipv4(meta.source), ipv4(meta.destination))
        .map_err(io::Error::other)?;
    // Never zero, which is what a sender writes that identifies nothing (RFC 6864 section 4.1).
    ip.identification = (meta.id % u64::from(u16::MAX)) as u16 + 1;
    ip.dscp = meta.dscp.try_into().map_err(io::Error::other)?;
    ip.ecn = meta.ecn.code_point().try_into().map_err(io::Error::other)?;
    ip.header_checksum = ip.calc_header_checksum();
    Ok(ip)
}

fn write_option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend_from_slice(&code.to_le_bytes());
    body.extend_from_slice(&(value.len() as u16).to_le_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

fn write_block(out: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let length = (body.len() as u32 + 12).to_le_bytes();
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&length)?;
    out.write_all(body)?;
    out.write_all(&length)
}
