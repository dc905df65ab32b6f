//! From an Ethernet frame to what the gate looks at: the twin of `bpf/parse.h`.

use std::fmt;
use std::net::IpAddr;

use taut_link::frame_gate::{Filter, VideoPacket};
use taut_wire::rtp::Codec;

/// Filters that the program has places for.
pub const MAX_FILTERS: usize = 4;
/// Words of a filter in the map: `struct filter`.
pub(crate) const FILTER_WORDS: usize = 6;

const MAX_VLAN_TAGS: usize = 2;
const MAX_IPV6_HEADERS: usize = 4;
const UDP: u8 = 17;

/// Which packets on a device are video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoFilter {
    filter: Filter,
    address: Option<IpAddr>,
}

impl VideoFilter {
    /// RTP that `filter` takes, to any address.
    pub const fn new(filter: Filter) -> Self {
        Self { filter, address: None }
    }

    /// Only to this address. Default: to any.
    pub const fn to(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self
    }

    pub(crate) const fn codec(&self) -> Codec {
        self.filter.video_codec()
    }

    pub(crate) fn words(&self) -> [u64; FILTER_WORDS] {
        let codec = Codec::ALL.iter().position(|codec| *codec == self.filter.video_codec());
        let (family, high, low) = match self.address {
            None => (0, 0, 0),
            Some(IpAddr::V4(address)) => (4, 0, u64::from(u32::from(address))),
            Some(IpAddr::V6(address)) => {
                let bits = u128::from(address);
                (6, (bits >> 64) as u64, bits as u64)
            }
        };
        let payload_type = self.filter.only_type().map_or(0, |only| u64::from(only) + 1);
        [u64::from(self.filter.udp_port()), payload_type, codec.unwrap_or_default() as u64, family, high, low]
    }
}

/// As it is named on the command line: `udp:10.0.0.2:5004,codec=h264,payload-type=97`. What is not said is any address, VP8, any
/// payload type.
impl fmt::Display for VideoFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("udp:")?;
        match self.address {
            None => {}
            Some(IpAddr::V4(address)) => write!(f, "{address}:")?,
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:")?,
        }
        write!(f, "{}", self.filter.udp_port())?;
        match self.filter.video_codec() {
            Codec::Vp8 => {}
            codec => write!(f, ",codec={}", codec.name())?,
        }
        self.filter.only_type().map_or(Ok(()), |only| write!(f, ",payload-type={only}"))
    }
}

/// What an Ethernet frame says to the gate, if it is video: up to two VLAN tags (IEEE 802.1Q, 802.1ad), IPv4 or IPv6 with up
/// to four extension headers, UDP, RTP. Fragments are not looked into.
///
/// ```
/// use taut_link::frame_gate::Filter;
/// use taut_xdp::{VideoFilter, classify};
/// let filters = [VideoFilter::new(Filter::port(5004))];
/// assert_eq!(classify(&filters, &[0; 60]), None);
/// ```
pub fn classify(filters: &[VideoFilter], frame: &[u8]) -> Option<VideoPacket> {
    let (address, size, datagram) = find_udp(frame)?;
    let header = datagram.first_chunk::<8>()?;
    let (port, payload) = (u16::from_be_bytes([header[2], header[3]]), &datagram[8..]);
    let mut filters = (0..).zip(filters).filter(|(_, filter)| filter.filter.udp_port() == port);
    filters.find_map(|(place, filter)| {
        let ours = filter.address.is_none_or(|only| only == address);
        let packet = if ours { filter.filter.read(payload, size) } else { None }?;
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
