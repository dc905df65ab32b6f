//! Captures of packets: pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng).

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::nom::{self, IResult};
use pcap_parser::{
    Block, InterfaceDescriptionBlock, Linktype, PcapError, PcapHeader, parse_block_be, parse_block_le,
    parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified, parse_pcap_header,
};

use crate::error::{Fault, Problem};
use crate::file::Limits;
use crate::packets::{Captured, Identity};
use crate::{CapturedDatagram, Data, FiveTuple, Flow, Format, Packets, Recording};

/// Nanoseconds in a second.
const SECOND: i128 = 1_000_000_000;

/// The type of a section header block, the same in both byte orders.
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Reads a capture in the format of libpcap.
pub(crate) fn read(data: &[u8], limits: &Limits) -> Result<Recording, Fault> {
    let mut captured = Captured::default();
    walk(data, limits, &mut captured)?;
    finish(Format::Pcap, captured, Vec::new())
}

/// Reads a capture in the next-generation format.
pub(crate) fn read_ng(data: &[u8], limits: &Limits) -> Result<Recording, Fault> {
    let mut captured = Captured::default();
    let untimed = walk_ng(data, limits, &mut captured)?;
    let note =
        (untimed > 0).then(|| format!("packets without a time, given that of the one before: {untimed}"));
    finish(Format::Pcapng, captured, note.into_iter().collect())
}

/// The UDP datagrams of a capture in either format.
pub(crate) fn datagrams(
    format: Format,
    data: &[u8],
    limits: &Limits,
) -> Result<Vec<CapturedDatagram>, Fault> {
    let mut captured = Captured::with_datagrams();
    match format {
        Format::Pcapng => _ = walk_ng(data, limits, &mut captured)?,
        _ => walk(data, limits, &mut captured)?,
    }
    Ok(captured.into_datagrams())
}

fn walk(data: &[u8], limits: &Limits, captured: &mut Captured) -> Result<(), Fault> {
    let (mut rest, header) = step(data, data, "the capture's header", parse_pcap_header)?;
    let frame = match &header {
        header if header.is_modified_format() => parse_pcap_frame_modified,
        header if is_big_endian(header) => parse_pcap_frame_be,
        _ => parse_pcap_frame,
    };
    let unit = if header.is_nanosecond_precision() { 1 } else { 1_000 };
    while !rest.is_empty() {
        let at = data.len() - rest.len();
        let (next, packet) = step(data, rest, "a packet", frame)?;
        let time_ns = i64::from(packet.ts_sec) * SECOND as i64 + i64::from(packet.ts_usec) * unit;
        push(captured, time_ns, packet.origlen, header.network, sliced(header.network, packet.data).as_ref());
        limits.check_rows(captured.len()).map_err(|problem| Fault::byte(at, problem))?;
        rest = next;
    }
    Ok(())
}

/// The magic number is as read in little endian.
fn is_big_endian(header: &PcapHeader) -> bool {
    matches!(header.magic_number, 0xd4c3_b2a1 | 0x4d3c_b2a1)
}

/// Returns how many packets had no time.
fn walk_ng(data: &[u8], limits: &Limits, captured: &mut Captured) -> Result<u64, Fault> {
    let mut rest = data;
    let mut section = Section::default();
    let mut untimed: u64 = 0;
    while !rest.is_empty() {
        let at = data.len() - rest.len();
        let parse = if section.big_endian { parse_block_be } else { parse_block_le };
        if section.declares_less_than_a_block(rest) {
            return Err(Fault::byte(at, Problem::Malformed("this is not a block".to_owned())));
        }
        let (next, block) = step(data, rest, "a block", parse)?;
        match block {
            Block::SectionHeader(header) => {
                section = Section { big_endian: header.big_endian(), interfaces: Vec::new() };
            }
            Block::InterfaceDescription(block) => {
                section.interfaces.push(Interface::new(&block, section.big_endian, at)?);
            }
            Block::EnhancedPacket(block) => {
                let interface = section.interface(block.if_id, at)?;
                let ticks = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
                // What the block says was captured; its data may be longer by padding.
                let bytes = &block.data[..block.data.len().min(block.caplen as usize)];
                let (time_ns, packet) = (interface.time_ns(ticks, at)?, sliced(interface.linktype, bytes));
                // Both ends of a simulated network are in its capture, and both sides of a router in that of one.
                let again = packet.as_ref().and_then(identity).is_some_and(|identity| {
                    section.interfaces.len() > 1 && captured.seen_elsewhere(identity, block.if_id, time_ns)
                });
                if !again {
                    push(captured, time_ns, block.origlen, interface.linktype, packet.as_ref());
                }
            }
            Block::SimplePacket(block) => {
                let interface = section.interface(0, at)?;
                untimed += 1;
                let time_ns = captured.last_ns().unwrap_or(0);
                let packet = sliced(interface.linktype, block.data);
                push(captured, time_ns, block.origlen, interface.linktype, packet.as_ref());
            }
            _ => {}
        }
        limits.check_rows(captured.len()).map_err(|problem| Fault::byte(at, problem))?;
        rest = next;
    }
    Ok(untimed)
}

fn push(
    captured: &mut Captured,
    time_ns: i64,
    wire_len: u32,
    linktype: Linktype,
    packet: Option<&LaxSlicedPacket<'_>>,
) {
    let flow = flow(packet);
    if let (Flow::Tuple(tuple), Some(TransportSlice::Udp(udp))) =
        (&flow, packet.and_then(|packet| packet.transport.as_ref()))
    {
        captured.push_datagram(time_ns, *tuple, usize::from(udp.length()), udp.payload());
    }
    let behind_link = wire_len.saturating_sub(link_header(linktype) as u32);
    captured
        .push(time_ns, u64::from(packet.and_then(ip_length).unwrap_or(behind_link).min(behind_link)), flow)
        .expect("a capture has a few names");
}

/// What its header says, which may be damaged: a link may have tags before it, and padding behind. `None` where the sender left it to its network card, and of what is not IP.
fn ip_length(packet: &LaxSlicedPacket<'_>) -> Option<u32> {
    const IPV6_HEADER: u32 = 40;
    match packet.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => Some(u32::from(ip.header().total_len())),
        LaxNetSlice::Ipv6(ip) => Some(u32::from(ip.header().payload_length()))
            .filter(|length| *length > 0)
            .map(|length| IPV6_HEADER + length),
        LaxNetSlice::Arp(_) => None,
    }
    .filter(|length| *length > 0)
}

/// Bytes before the packet itself.
const fn link_header(linktype: Linktype) -> usize {
    match linktype {
        Linktype::ETHERNET => 14,
        Linktype::LINUX_SLL => 16,
        LINUX_SLL2 => 20,
        Linktype::NULL | Linktype::LOOP => 4,
        _ => 0,
    }
}

fn finish(format: Format, captured: Captured, mut notes: Vec<String>) -> Result<Recording, Fault> {
    if captured.len() == 0 {
        return Err(Fault::file(Problem::Nothing("packets")));
    }
    notes.extend(captured.notes());
    Ok(Recording::new(format, Data::Packets(Packets::new(captured))).with_notes(notes))
}

/// Parses what `rest`, the end of `data`, begins with.
fn step<'a, T>(
    data: &'a [u8],
    rest: &'a [u8],
    what: &'static str,
    parse: impl FnOnce(&'a [u8]) -> IResult<&'a [u8], T, PcapError<&'a [u8]>>,
) -> Result<(&'a [u8], T), Fault> {
    let at = data.len() - rest.len();
    match parse(rest) {
        Ok((next, item)) if next.len() < rest.len() => Ok((next, item)),
        Err(nom::Err::Incomplete(_)) => Err(Fault::byte(at, Problem::Truncated(what))),
        Ok(_) | Err(_) => Err(Fault::byte(at, Problem::Malformed(format!("this is not {what}")))),
    }
}

/// Blocks up to the next section header share a byte order and number their interfaces from 0.
#[derive(Default)]
struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

impl Section {
    /// The total length of a block is at least that of its type and its two lengths (draft-ietf-opsawg-pcapng section
    /// 3.1); the parser subtracts before it looks. A section header, which may change the byte order, is its own affair.
    fn declares_less_than_a_block(&self, block: &[u8]) -> bool {
        const LEAST: u32 = 12;
        let Some((kind, rest)) = block.split_first_chunk::<4>() else { return false };
        let Some(length) = rest.first_chunk::<4>() else { return false };
        let length = if self.big_endian { u32::from_be_bytes(*length) } else { u32::from_le_bytes(*length) };
        *kind != SECTION_HEADER && length < LEAST
    }

    fn interface(&self, id: u32, at: usize) -> Result<&Interface, Fault> {
        self.interfaces.get(id as usize).ok_or_else(|| {
            let problem = format!("a packet of interface {id}, which no block describes");
            Fault::byte(at, Problem::Malformed(problem))
        })
    }
}

struct Interface {
    linktype: Linktype,
    /// Ticks in a second.
    resolution: u64,
    /// Seconds to add.
    offset: i64,
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock<'_>, big_endian: bool, at: usize) -> Result<Self, Fault> {
        // draft-ietf-opsawg-pcapng, if_tsresol: the highest bit tells powers of 2 from powers of 10.
        let exponent = u32::from(block.if_tsresol & 0x7f);
        let base = if block.if_tsresol & 0x80 == 0 { 10u64 } else { 2 };
        let resolution = base.checked_pow(exponent).ok_or_else(|| {
            Fault::byte(at, Problem::Malformed(format!("a clock of {base}^{exponent} ticks a second")))
        })?;
        // The parser takes it as little endian in every section.
        let offset = if big_endian { block.if_tsoffset.swap_bytes() } else { block.if_tsoffset };
        Ok(Self { linktype: block.linktype, resolution, offset })
    }

    fn time_ns(&self, ticks: u64, at: usize) -> Result<i64, Fault> {
        let nanos =
            i128::from(ticks) * SECOND / i128::from(self.resolution) + i128::from(self.offset) * SECOND;
        let beyond = || Fault::byte(at, Problem::Malformed("a packet's time is beyond the year 2262".into()));
        i64::try_from(nanos).map_err(|_| beyond())
    }
}

/// Which flow a packet belongs to.
fn flow(packet: Option<&LaxSlicedPacket<'_>>) -> Flow {
    let named = |name: &str| Flow::Named(name.to_owned());
    match packet {
        Some(packet) => match &packet.net {
            Some(LaxNetSlice::Arp(_)) => named("arp"),
            Some(net) => {
                five_tuple(net, packet.transport.as_ref()).map_or_else(|| named("not ip"), Flow::Tuple)
            }
            None => named("not ip"),
        },
        None => named("not ip"),
    }
}

/// Of an IPv4 packet whose sender identifies it; zero is what senders of atomic datagrams write (RFC 6864 section 4.1).
fn identity(packet: &LaxSlicedPacket<'_>) -> Option<Identity> {
    let Some(LaxNetSlice::Ipv4(ip)) = &packet.net else { return None };
    let header = ip.header();
    (header.identification() != 0).then(|| Identity {
        source: header.source(),
        destination: header.destination(),
        protocol: header.protocol().0,
        identification: header.identification(),
        length: header.total_len(),
    })
}

/// Finds the IP header behind the link's.
fn sliced(linktype: Linktype, frame: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    let packet = frame.get(link_header(linktype)..)?;
    let ether_type = |at: usize| {
        let number = u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]);
        Some(LaxSlicedPacket::from_ether_type(EtherType(number), packet))
    };
    match linktype {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(frame).ok(),
        Linktype::LINUX_SLL => ether_type(14),
        LINUX_SLL2 => ether_type(0),
        // Of four bytes of address family in the byte order of the host that captured the IP version says the same.
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 | Linktype::NULL | Linktype::LOOP => {
            LaxSlicedPacket::from_ip(packet).ok()
        }
        _ => None,
    }
}

const LINUX_SLL2: Linktype = Linktype(276);

fn five_tuple(net: &LaxNetSlice<'_>, transport: Option<&TransportSlice<'_>>) -> Option<FiveTuple> {
    let (source, destination, payload) = match net {
        LaxNetSlice::Ipv4(ip) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into(), ip.payload())
        }
        LaxNetSlice::Ipv6(ip) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into(), ip.payload())
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let protocol = payload.ip_number.0;
    let ports = match (transport, payload.payload) {
        (Some(TransportSlice::Udp(udp)), _) => (udp.source_port(), udp.destination_port()),
        (Some(TransportSlice::Tcp(tcp)), _) => (tcp.source_port(), tcp.destination_port()),
        // DCCP (RFC 4340 section 5.1) and SCTP (RFC 9260 section 3.1) begin with their ports, as do TCP and UDP of
        // which too little was captured to be sliced.
        (None, [a, b, c, d, ..]) if matches!(protocol, 6 | 17 | 33 | 132) && !payload.fragmented => {
            (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))
        }
        _ => (0, 0),
    };
    Some(FiveTuple {
        protocol,
        source: std::net::SocketAddr::new(source, ports.0),
        destination: std::net::SocketAddr::new(destination, ports.1),
    })
}
