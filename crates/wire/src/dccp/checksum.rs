//! The header checksum (RFC 4340 section 9).

use std::net::{Ipv4Addr, Ipv6Addr};

/// IP protocol number of DCCP.
pub const PROTOCOL: u8 = 33;

/// The addresses in the IP header around a packet: what the pseudo header is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// Source.
        source: Ipv4Addr,
        /// Destination.
        destination: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// Source.
        source: Ipv6Addr,
        /// Destination.
        destination: Ipv6Addr,
    },
}

/// Where the field is.
const FIELD: std::ops::Range<usize> = 6..8;

/// The checksum of a packet over raw IP: over the pseudo header, the DCCP header with its options, and as much of the
/// data as the packet's CsCov says (all of it for 0). What the checksum field holds is taken as 0, and `padding` zeros
/// follow the stored bytes. `None` when the packet has no whole header, or CsCov goes beyond the data (section 9.2: such
/// a packet is ignored).
///
/// Over UDP the UDP checksum does this work and the field is 0 (RFC 6773 section 3.3).
pub fn checksum(addresses: Addresses, packet: &[u8], padding: u32) -> Option<u16> {
    let length = packet.len() as u64 + u64::from(padding);
    let covered = coverage(packet, length)?;
    let stored = &packet[..packet.len().min(covered as usize)];
    let mut sum = words(stored) - words(&stored[FIELD]);
    sum += match addresses {
        Addresses::V4 { source, destination } => words(&source.octets()) + words(&destination.octets()),
        Addresses::V6 { source, destination } => words(&source.octets()) + words(&destination.octets()),
    };
    sum += u64::from(PROTOCOL) + (length >> 16) + (length & 0xffff);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    Some(!(sum as u16))
}

/// Writes the [`checksum`] into its place; false, and nothing written, when there is none.
pub fn fill_checksum(addresses: Addresses, packet: &mut [u8], padding: u32) -> bool {
    let sum = checksum(addresses, packet, padding);
    if let Some(sum) = sum {
        packet[FIELD].copy_from_slice(&sum.to_be_bytes());
    }
    sum.is_some()
}

/// Does the packet hold the [`checksum`] that it should?
pub fn verify_checksum(addresses: Addresses, packet: &[u8], padding: u32) -> bool {
    checksum(addresses, packet, padding).is_some_and(|sum| packet[FIELD] == sum.to_be_bytes())
}

/// Bytes that are summed: header and options, and of the data everything (0) or 4 × (CsCov − 1) bytes.
pub(super) fn coverage(packet: &[u8], length: u64) -> Option<u64> {
    let header = u64::from(*packet.get(4)?) * 4;
    let cscov = u64::from(packet.get(5)? & 0x0f);
    let covered = if cscov == 0 { length } else { header + (cscov - 1) * 4 };
    (header >= 12 && header <= packet.len() as u64 && covered <= length).then_some(covered)
}

fn words(bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks_exact(2);
    let odd = pairs.remainder().first().map_or(0, |byte| u64::from(*byte) << 8);
    pairs.map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u64>() + odd
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4() -> Addresses {
        Addresses::V4 { source: Ipv4Addr::new(192, 168, 1, 2), destination: Ipv4Addr::new(192, 168, 1, 1) }
    }

    /// A DCCP-Data packet with a header of 16 bytes and 5 bytes of data.
    const DATA: [u8; 21] = [0, 1, 0, 2, 4, 0, 0, 0, 0x05, 0, 0, 0, 0, 0, 0, 3, 0x11, 0x22, 0x33, 0x44, 0x55];

    /// RFC 4340 section 9.1 by hand: pseudo header c0a8 + 0102 + c0a8 + 0101 + 21 + 15 = 18389; header 1 + 2 + 400 +
    /// 500 + 3 = 906 (hexadecimal); data 1122 + 3344 + 5500 = 9966; together 225f5, folded 25f7, complement da08.
    #[test]
    fn checksum_is_the_complement_of_the_sum_of_words() {
        assert_eq!(checksum(v4(), &DATA, 0), Some(0xda08));
        let mut filled = DATA;
        assert!(fill_checksum(v4(), &mut filled, 0) && verify_checksum(v4(), &filled, 0));
        assert_eq!(filled[6..8], [0xda, 0x08]);
        filled[20] ^= 1;
        assert!(!verify_checksum(v4(), &filled, 0));
    }

    #[test]
    fn coverage_leaves_out_the_data_that_it_says() {
        let mut partly = DATA;
        partly[5] = 2; // header and the first four bytes of data
        fill_checksum(v4(), &mut partly, 0);
        partly[20] ^= 0xff;
        assert!(verify_checksum(v4(), &partly, 0));
        partly[19] ^= 0xff;
        assert!(!verify_checksum(v4(), &partly, 0));
        partly[5] = 3; // eight bytes of data, where there are five
        assert_eq!(checksum(v4(), &partly, 0), None);
        assert_eq!(checksum(v4(), &DATA[..15], 0), None);
        assert_eq!(checksum(v4(), &[], 0), None);
    }

    #[test]
    fn zeros_that_are_not_stored_are_summed_as_if_they_were() {
        let short = checksum(v4(), &DATA[..18], 300);
        let long: Vec<u8> = DATA[..18].iter().copied().chain(std::iter::repeat_n(0, 300)).collect();
        assert_eq!(checksum(v4(), &long, 0), short);
    }

    #[test]
    fn ipv6_has_its_own_pseudo_header() {
        let (source, destination) = (Ipv6Addr::LOCALHOST, Ipv6Addr::from(0x2001_0db8_u128 << 96));
        // 1 + 2001 + 0db8 + 21 + 15 = 2df0; 906 + 9966 = a26c; together d05c, complement 2fa3.
        assert_eq!(checksum(Addresses::V6 { source, destination }, &DATA, 0), Some(0x2fa3));
    }
}
