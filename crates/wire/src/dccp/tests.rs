use proptest::prelude::*;

use super::*;

const SEQUENCE: Seq = Seq::new(0x0102_0304_0506);
const ACK: Seq = Seq::new(0x0a0b_0c0d_0e0f);

fn repr(packet: Packet) -> Repr {
    Repr { source_port: 0x1234, destination_port: UDP_PORT, sequence: SEQUENCE, packet, ..Repr::default() }
}

fn emitted(repr: Repr, options: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    repr.emit(options, data, &mut bytes);
    bytes
}

/// Ports 0x1234 and 6511, then data offset, CCVal and CsCov, checksum, type and X, the sequence number.
fn golden(offset: u8, type_x: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 0x19, 0x6f, offset, 0, 0, 0, type_x, 0, 1, 2, 3, 4, 5, 6];
    bytes.extend_from_slice(rest);
    bytes
}

/// RFC 4340 sections 5.1 to 5.7.
#[test]
fn golden_bytes_of_every_type_parse_and_are_emitted() {
    let ack = [0, 0, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f];
    let acked = |more: &[u8]| [&ack[..], more].concat();
    let service = u32::from_be_bytes(*b"taut");
    let cases = [
        (Packet::Request { service }, 5, 0x01, b"taut".to_vec()),
        (Packet::Response { ack: ACK, service }, 7, 0x03, acked(b"taut")),
        (Packet::Data, 4, 0x05, vec![]),
        (Packet::Ack { ack: ACK }, 6, 0x07, acked(&[])),
        (Packet::DataAck { ack: ACK }, 6, 0x09, acked(&[])),
        (Packet::CloseReq { ack: ACK }, 6, 0x0b, acked(&[])),
        (Packet::Close { ack: ACK }, 6, 0x0d, acked(&[])),
        (Packet::Reset { ack: ACK, code: 5, data: [41, 1, 2] }, 7, 0x0f, acked(&[5, 41, 1, 2])),
        (Packet::Sync { ack: ACK }, 6, 0x11, acked(&[])),
        (Packet::SyncAck { ack: ACK }, 6, 0x13, acked(&[])),
    ];
    for (packet, offset, type_x, rest) in cases {
        let bytes = golden(offset, type_x, &rest);
        assert_eq!(emitted(repr(packet), &[], &[]), bytes, "{packet:?}");
        assert_eq!(repr(packet).header_len(), bytes.len());
        let view = View::new_checked(&bytes).unwrap();
        assert_eq!((view.repr(), view.options().count(), view.data().len()), (repr(packet), 0, 0));
    }
}

#[test]
fn options_are_padded_and_data_follow_them() {
    let header = Repr { ccval: 0xa, ..repr(Packet::DataAck { ack: ACK }) };
    let mut expected = golden(7, 0x09, &[0, 0, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 37, 3, 1, 0, 0xff]);
    expected[5] = 0xa0;
    assert_eq!(emitted(header, &[37, 3, 1], &[0xff]), expected);
    let view = View::new_checked(&expected).unwrap();
    assert_eq!(view.repr(), header);
    assert!(view.options().eq([DccpOption::NdpCount(1)]));
    assert_eq!(view.data(), [0xff]);
}

/// RFC 4340 section 5.1, X = 0: 24 bits of sequence number; section 5.4: 24 bits of acknowledgement number.
#[test]
fn short_sequence_numbers_are_the_low_24_bits() {
    let low = |seq: Seq| Seq::new(seq.get() & 0xff_ffff);
    let header = |packet| Repr { short: true, sequence: low(SEQUENCE), ..repr(packet) };
    let start = [0x12, 0x34, 0x19, 0x6f];
    let data = [&start[..], &[3, 0, 0, 0, 0x04, 4, 5, 6]].concat();
    let ack = [&start[..], &[4, 0, 0, 0, 0x06, 4, 5, 6, 0, 0x0d, 0x0e, 0x0f]].concat();
    for (packet, bytes) in [(Packet::Data, data), (Packet::Ack { ack: low(ACK) }, ack)] {
        assert_eq!(emitted(header(packet), &[], &[]), bytes);
        assert_eq!(View::new_checked(&bytes).unwrap().repr(), header(packet));
    }
}

/// RFC 4340 section 8.5, step 1.
#[test]
fn what_is_not_a_packet_is_refused_with_its_reason() {
    let changed = |at: usize, to: u8| {
        let mut bytes = emitted(repr(Packet::Ack { ack: ACK }), &[], &[]);
        bytes[at] = to;
        View::new_checked(&bytes).map(|view| view.repr()).unwrap_err()
    };
    assert_eq!(changed(4, 5), Error::BadDataOffset { offset: 20, fixed: 24 });
    assert_eq!(changed(4, 7), Error::Truncated { needed: 28, found: 24 });
    assert_eq!(changed(8, 10 << 1 | 1), Error::UnknownType(10));
    assert_eq!(changed(8, 8 << 1), Error::ShortSequence(8));
    assert_eq!(changed(5, 2), Error::BadCoverage(2));
    let none = View::new_checked(&[0; 11]).map(|view| view.repr());
    assert_eq!(none, Err(Error::Truncated { needed: 12, found: 11 }));
}

#[test]
fn reserved_bits_are_ignored() {
    let mut bytes = emitted(repr(Packet::Ack { ack: ACK }), &[], &[]);
    bytes[8] |= 0xe0;
    bytes[9] = 0xff;
    bytes[16] = 0xff;
    assert_eq!(View::new_checked(&bytes).unwrap().repr(), repr(Packet::Ack { ack: ACK }));
}

fn packet() -> impl Strategy<Value = Packet> {
    let seq = || (0..Seq::MODULUS).prop_map(Seq::new);
    prop_oneof![
        any::<u32>().prop_map(|service| Packet::Request { service }),
        (seq(), any::<u32>()).prop_map(|(ack, service)| Packet::Response { ack, service }),
        Just(Packet::Data),
        seq().prop_map(|ack| Packet::Ack { ack }),
        seq().prop_map(|ack| Packet::DataAck { ack }),
        seq().prop_map(|ack| Packet::CloseReq { ack }),
        seq().prop_map(|ack| Packet::Close { ack }),
        (seq(), any::<u8>(), any::<[u8; 3]>()).prop_map(|(ack, code, data)| Packet::Reset {
            ack,
            code,
            data
        }),
        seq().prop_map(|ack| Packet::Sync { ack }),
        seq().prop_map(|ack| Packet::SyncAck { ack }),
    ]
}

proptest! {
    #[test]
    fn every_packet_reads_back(
        packet in packet(), sequence in 0..Seq::MODULUS, ports in any::<[u16; 2]>(), ccval in 0u8..16,
        checksum in any::<u16>(), ndp in prop::option::of(0..Seq::MODULUS),
        data in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let header = Repr {
            source_port: ports[0],
            destination_port: ports[1],
            ccval,
            cscov: u8::from(data.len() > 4),
            checksum,
            short: false,
            sequence: Seq::new(sequence),
            packet,
        };
        let mut options = Vec::new();
        if let Some(count) = ndp {
            DccpOption::NdpCount(count).emit(&mut options);
        }
        let bytes = emitted(header, &options, &data);
        let view = View::new_checked(&bytes).unwrap();
        prop_assert_eq!(view.repr(), header);
        prop_assert!(view.options().eq(ndp.map(DccpOption::NdpCount)));
        prop_assert_eq!(view.data(), &data[..]);
    }

    #[test]
    fn garbage_is_refused_or_keeps_its_meaning(
        type_x in 0u8..24, offset in 0u8..12, mut bytes in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        if let Some(bytes) = bytes.get_mut(4..9) {
            (bytes[0], bytes[4]) = (offset, type_x);
        }
        let Ok(view) = View::new_checked(&bytes) else { return Ok(()) };
        let mut options = Vec::new();
        view.options().for_each(|option| option.emit(&mut options));
        let again = emitted(view.repr(), &options, view.data());
        let again = View::new_checked(&again).unwrap();
        prop_assert_eq!(again.repr(), view.repr());
        prop_assert!(again.options().eq(view.options()));
        prop_assert_eq!(again.data(), view.data());
    }
}
