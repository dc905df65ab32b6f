//! From an Ethernet frame to what the gate looks at: the twin of `bpf/parse.h`.

use std::net::IpAddr;

use taut_link::frame_gate::{Filter, VideoPacket};

const MAX_VLAN_TAGS: usize = 2;
const MAX_IPV6_HEADERS: usize = 4;
const UDP: u8 = 17;

/// What an Ethernet frame says to the gate, if it is video: up to two VLAN tags (IEEE 802.1Q, 802.1ad), IPv4 or IPv6 with up
/// to four extension headers, UDP, RTP. Fragments are not looked into.
pub(crate) fn classify(filters: &[(Filter, Option<IpAddr>)], frame: &[u8]) -> Option<VideoPacket> {
    let (address, size, datagram) = find_udp(frame)?;
    let header = datagram.first_chunk::<8>()?;
    let (port, payload) = (u16::from_be_bytes([header[2], header[3]]), &datagram[8..]);
    let mut filters = (0..).zip(filters).filter(|(_, (filter, _))| filter.udp_port() == port);
    filters.find_map(|(place, (filter, only))| {
        let ours = only.is_none_or(|only| only == address);
        let packet = if ours { filter.read(payload, size) } else { None }?;
        Some(VideoPacket { filter: place, ..packet })
    })
}

/// Destination, length of the IP packet, and what begins with the UDP header.
fn find_udp(frame: &[u8]) -> Option<(IpAddr, u32, &[u8])> {
    let mut kind = u16_at(frame, 12)?;
    let mut at = 14;
    for _ in 0..MAX_VLAN_TAGS {
        if kind != 0x8100 && kind != 0x88a8 {
            break;
        }
        kind = u16_at(frame, at + 2)?;
        at += 4;
    }
    match kind {
        0x0800 => udp_in_ipv4(frame.get(at..)?),
        0x86dd => udp_in_ipv6(frame.get(at..)?),
        _ => None,
    }
}

fn udp_in_ipv4(packet: &[u8]) -> Option<(IpAddr, u32, &[u8])> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let words = usize::from(header[0] & 0x0f);
    // More fragments, or not the first one.
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    if header[0] >> 4 != 4 || words < 5 || header[9] != UDP || fragment {
        return None;
    }
    let destination = [header[16], header[17], header[18], header[19]];
    let size = u16::from_be_bytes([header[2], header[3]]);
    Some((IpAddr::from(destination), size.into(), packet.get(words * 4..)?))
}

fn udp_in_ipv6(packet: &[u8]) -> Option<(IpAddr, u32, &[u8])> {
    let header: &[u8; 40] = packet.first_chunk()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let mut destination = [0; 16];
    destination.copy_from_slice(&header[24..]);
    let size = u32::from(u16::from_be_bytes([header[4], header[5]])) + 40;
    let (mut next, mut at) = (header[6], 40);
    for _ in 0..MAX_IPV6_HEADERS {
        // Hop-by-hop options, routing, destination options (RFC 8200 section 4).
        if !matches!(next, 0 | 43 | 60) {
            break;
        }
        let [following, length] = packet.get(at..)?.first_chunk::<2>()?;
        next = *following;
        at += 8 + 8 * usize::from(*length);
    }
    if next == UDP { Some((IpAddr::from(destination), size, packet.get(at..)?)) } else { None }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*bytes))
}
