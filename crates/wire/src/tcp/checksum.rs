//! The checksum, which whoever writes a capture fills in.

use std::net::Ipv4Addr;

use super::field::{self, put_u16};

/// The checksum over the IPv4 pseudo header (RFC 9293 section 3.1), `segment` (header and data, its checksum field
/// taken as 0) and `padding` zeros that follow it and were not stored.
pub fn checksum(source: Ipv4Addr, destination: Ipv4Addr, segment: &[u8], padding: u32) -> u16 {
    let length = segment.len() as u32 + padding;
    let mut sum =
        words(&source.octets()) + words(&destination.octets()) + u64::from(PROTOCOL) + u64::from(length);
    sum += words(segment);
    if let Some(old) = segment.get(field::CHECKSUM..field::CHECKSUM + 2) {
        sum -= words(old);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Writes the [`checksum`] into its place in `segment`.
///
/// # Panics
/// When `segment` is shorter than a header: it was not emitted here.
pub fn fill_checksum(source: Ipv4Addr, destination: Ipv4Addr, segment: &mut [u8], padding: u32) {
    let sum = checksum(source, destination, segment, padding);
    put_u16(segment, field::CHECKSUM, sum);
}

const PROTOCOL: u8 = 6;

fn words(bytes: &[u8]) -> u64 {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let sum: u64 = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum();
    sum + odd.first().map_or(0, |last| u64::from(*last) << 8)
}
