//! Packets that anybody can forge who overhears a client's first one.

use rustls::Side;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{Keys, Version};

/// What a terminal must not be told.
pub(crate) const REASON: &str = "\u{1b}]0;yours\u{7}\u{202e}bye";

/// The connection IDs in a long header: the receiver's and the sender's (RFC 9000 section 17.2).
fn ids(packet: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = packet[5..].split_first().expect("a long header");
    let (receiver, rest) = rest.split_at(usize::from(*length));
    let (length, rest) = rest.split_first().expect("two of them");
    (receiver, &rest[..usize::from(*length)])
}

/// A CONNECTION_CLOSE (RFC 9000 section 19.19) of the transport in an Initial packet, whose keys come from the client's `hello`
/// (RFC 9001 section 5.2), to the client or to the server.
pub(crate) fn initial_close(hello: &[u8], to_client: bool) -> Vec<u8> {
    let (server, client) = ids(hello);
    let suite = TLS13_AES_128_GCM_SHA256.tls13().expect("it is of TLS 1.3");
    let side = if to_client { Side::Server } else { Side::Client };
    let keys = Keys::initial(Version::V1, suite, suite.quic.expect("QUIC uses it"), server, side);
    let (to, from) = if to_client { (client, &[9; 8][..]) } else { (server, client) };
    let mut payload = vec![0x1c, 0x0a, 0, REASON.len() as u8];
    payload.extend(REASON.as_bytes());
    payload.resize(1_140, 0);
    let mut packet = vec![0xc3, 0, 0, 0, 1, to.len() as u8];
    packet.extend(to);
    packet.push(from.len() as u8);
    packet.extend(from);
    packet.push(0);
    packet.extend((0x4000 | (4 + payload.len() + 16) as u16).to_be_bytes());
    let (number, start) = (700_u32, packet.len());
    packet.extend(number.to_be_bytes());
    let tag = keys.local.packet.encrypt_in_place(u64::from(number), &packet, &mut payload);
    payload.extend(tag.expect("a new key").as_ref());
    packet.extend(&payload);
    let (header, sample) = packet.split_at_mut(start + 4);
    let (first, rest) = header.split_first_mut().expect("it is long");
    let number = &mut rest[start - 1..];
    keys.local.header.encrypt_in_place(&sample[..16], first, number).expect("a sample of 16 bytes");
    packet
}

/// A Version Negotiation packet (RFC 9000 section 17.2.1) that offers the client a version that nobody speaks.
pub(crate) fn version_negotiation(hello: &[u8]) -> Vec<u8> {
    let (server, client) = ids(hello);
    let mut packet = vec![0xc0, 0, 0, 0, 0, client.len() as u8];
    packet.extend(client);
    packet.push(server.len() as u8);
    packet.extend(server);
    packet.extend([0xde, 0xad, 0xbe, 0xef]);
    packet
}

/// What asks a server for the token by which it resets the connection with this ID (RFC 9000 section 10.3).
pub(crate) fn of_no_connection(id: [u8; 8]) -> Vec<u8> {
    let mut packet = vec![0x40];
    packet.extend(id);
    packet.resize(60, 7);
    packet
}
