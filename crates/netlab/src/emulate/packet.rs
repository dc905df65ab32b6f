//! What a queue may look at in an IP packet, and what it may write into it.

use etherparse::{IpSlice, NetSlice, SlicedPacket, TransportSlice};
use taut_core::{Address, Bytes, Ecn, FlowId, PacketMeta, Protocol, Time};

/// Bytes of the longest packet: a header of IPv6, and what its 16 bits of length can say (RFC 8200 section 3).
pub(super) const LONGEST: usize = 40 + 65_535;

/// What is seen from outside of the IP packet in `bytes`; `None` when it is none.
///
/// `flow` is a hash of addresses, protocol and ports, `source` and `destination` are the last sixteen bits of the
/// addresses. A protocol other than TCP and DCCP counts as [`Protocol::Udp`].
pub(super) fn meta(bytes: &[u8], id: u64, now: Time) -> Option<PacketMeta> {
    let packet = SlicedPacket::from_ip(bytes).ok()?;
    let (class, source, destination, protocol) = match packet.net.as_ref()? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            let class = header.dcp().value() << 2 | header.ecn().value();
            (class, fold(&header.source()), fold(&header.destination()), header.protocol().0)
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            let next = IpSlice::Ipv6(ip.clone()).payload_ip_number().0;
            (header.traffic_class(), fold(&header.source()), fold(&header.destination()), next)
        }
        NetSlice::Arp(_) => return None,
    };
    let (source_port, destination_port, body) = match &packet.transport {
        Some(TransportSlice::Udp(udp)) => (udp.source_port(), udp.destination_port(), udp.payload()),
        Some(TransportSlice::Tcp(tcp)) => (tcp.source_port(), tcp.destination_port(), tcp.slice()),
        _ => (0, 0, packet.ip_payload()?.payload),
    };
    let ports = u64::from(source_port) << 16 | u64::from(destination_port);
    let flow = mix(mix(source, destination), u64::from(protocol) << 32 | ports);
    Some(PacketMeta {
        id,
        sent: now,
        size: Bytes::new(bytes.len() as u64),
        flow: FlowId((flow >> 32) as u32),
        source: Address(source as u16),
        destination: Address(destination as u16),
        source_port,
        destination_port,
        protocol: match protocol {
            6 => Protocol::Tcp,
            33 => Protocol::Dccp,
            _ => Protocol::Udp,
        },
        ecn: Ecn::from_code_point(class),
        dscp: class >> 2,
        headers: (body.as_ptr().addr() - bytes.as_ptr().addr()) as u16,
        ..PacketMeta::default()
    })
}

/// Writes a mark that a queue has set into the header (RFC 3168 section 5), and keeps the IPv4 checksum right (RFC 1624
/// equation 3). Nothing else changes.
pub(super) fn mark(bytes: &mut [u8], ecn: Ecn) {
    if ecn != Ecn::CongestionExperienced {
        return;
    }
    match bytes.first().map(|first| first >> 4) {
        Some(4) if bytes.len() >= 20 => {
            let before = u16::from_be_bytes([bytes[0], bytes[1]]);
            bytes[1] |= 0b11;
            let after = u16::from_be_bytes([bytes[0], bytes[1]]);
            let sum = u16::from_be_bytes([bytes[10], bytes[11]]);
            bytes[10..12].copy_from_slice(&updated(sum, before, after).to_be_bytes());
        }
        // The traffic class lies across the first and second byte (RFC 8200 section 3).
        Some(6) if bytes.len() >= 40 => bytes[1] |= 0b11 << 4,
        _ => {}
    }
}

/// RFC 1624 equation 3: `HC' = ~(~HC + ~m + m')`, in ones' complement.
fn updated(checksum: u16, before: u16, after: u16) -> u16 {
    let mut sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The address as a number, its last bits last.
fn fold(address: &[u8]) -> u64 {
    address.iter().fold(0, |sum: u64, byte| sum.rotate_left(8) ^ u64::from(*byte))
}

/// The finaliser of SplitMix64 over both: good enough to tell flows apart, the same on every machine.
const fn mix(a: u64, b: u64) -> u64 {
    let mut z = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn udp_v4(class: u8) -> Vec<u8> {
        let mut header =
            etherparse::Ipv4Header::new(0, 64, etherparse::IpNumber::UDP, [10, 0, 1, 2], [10, 0, 3, 4])
                .unwrap();
        header.dscp = etherparse::IpDscp::try_new(class >> 2).unwrap();
        header.ecn = etherparse::IpEcn::try_new(class & 3).unwrap();
        let mut bytes = Vec::new();
        let ip = etherparse::IpHeaders::Ipv4(header, etherparse::Ipv4Extensions::default());
        PacketBuilder::ip(ip).udp(1_000, 2_000).write(&mut bytes, &[7; 75]).unwrap();
        bytes
    }

    #[test]
    fn a_udp_packet_is_seen_from_outside() {
        let meta = meta(&udp_v4(46 << 2 | 0b10), 5, Time::from_nanos(9)).unwrap();
        assert_eq!((meta.id, meta.sent, meta.size), (5, Time::from_nanos(9), Bytes::new(103)));
        assert_eq!((meta.source, meta.destination), (Address(0x0102), Address(0x0304)));
        assert_eq!((meta.source_port, meta.destination_port), (1_000, 2_000));
        assert_eq!((meta.protocol, meta.ecn, meta.dscp), (Protocol::Udp, Ecn::Capable0, 46));
        assert_eq!(meta.headers, 28);
    }

    #[test]
    fn flows_differ_by_ports_and_not_by_content() {
        let build = |port, byte| {
            let mut bytes = Vec::new();
            let builder = PacketBuilder::ipv6([1; 16], [2; 16], 64).tcp(port, 80, 1, 100);
            builder.write(&mut bytes, &[byte]).unwrap();
            meta(&bytes, 0, Time::ZERO).unwrap()
        };
        assert_eq!(build(1, 0).flow, build(1, 1).flow);
        assert_ne!(build(1, 0).flow, build(2, 0).flow);
        assert_eq!((build(1, 0).protocol, build(1, 0).headers), (Protocol::Tcp, 40));
    }

    #[test]
    fn a_mark_changes_two_bits_and_leaves_the_header_checksum_right() {
        for class in [0b10, 46 << 2 | 0b01] {
            let mut bytes = udp_v4(class);
            let before = bytes.clone();
            mark(&mut bytes, Ecn::CongestionExperienced);
            assert_eq!(meta(&bytes, 0, Time::ZERO).unwrap().ecn, Ecn::CongestionExperienced);
            let header = etherparse::Ipv4HeaderSlice::from_slice(&bytes).unwrap();
            assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
            assert_eq!(bytes[12..], before[12..]);
            assert_eq!(header.dcp().value(), class >> 2);
        }
    }

    #[test]
    fn a_mark_on_ipv6_leaves_the_flow_label_alone() {
        let mut bytes = Vec::new();
        PacketBuilder::ipv6([1; 16], [2; 16], 64).udp(1, 2).write(&mut bytes, &[0; 4]).unwrap();
        bytes[1] = 0x2a; // ECT(0), and a flow label that begins with a.
        mark(&mut bytes, Ecn::CongestionExperienced);
        assert_eq!(bytes[1], 0x3a);
    }

    #[test]
    fn what_is_no_ip_packet_is_refused() {
        for bytes in [&[][..], &[0x45], &[0; 40], &[0xff; 100]] {
            assert_eq!(meta(bytes, 0, Time::ZERO), None);
            mark(&mut bytes.to_vec(), Ecn::CongestionExperienced);
        }
    }
}
