//! Captures made by hand, byte by byte.
#![allow(dead_code, reason = "each test file uses some of it")]

/// An IPv4 UDP packet from 10.0.0.1:5000 to 10.0.0.2:6000 (RFC 791, RFC 768; checksums zero).
pub(crate) fn udp(payload: usize) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend(((28 + payload) as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(5000u16.to_be_bytes());
    packet.extend(6000u16.to_be_bytes());
    packet.extend(((8 + payload) as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.resize(28 + payload, 0xaa);
    packet
}

/// The same in an Ethernet frame.
pub(crate) fn ethernet(packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend(packet);
    frame
}

/// A pcap file, little endian, in microseconds; each packet a time (s, us), its length on the wire and what was
/// captured of it.
pub(crate) fn pcap(linktype: u32, packets: &[(u32, u32, u32, &[u8])]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, linktype] {
        file.extend(u32::to_le_bytes(word));
    }
    for (seconds, micros, wire, data) in packets {
        for word in [*seconds, *micros, data.len() as u32, *wire] {
            file.extend(word.to_le_bytes());
        }
        file.extend(*data);
    }
    file
}

/// A pcapng block of big-endian words and data.
fn block(kind: u32, words: &[u32], data: &[u8]) -> Vec<u8> {
    let padded = data.len().div_ceil(4) * 4;
    let length = (12 + 4 * words.len() + padded) as u32;
    let mut block: Vec<u8> = [kind, length].iter().chain(words).flat_map(|word| word.to_be_bytes()).collect();
    block.extend(data);
    block.resize(length as usize - 4, 0);
    block.extend(length.to_be_bytes());
    block
}

/// A pcapng file, big endian, one interface of raw IP with a clock of 2³² ticks a second that began at 100 s; each
/// packet its ticks and bytes.
pub(crate) fn pcapng(packets: &[(u64, &[u8])]) -> Vec<u8> {
    let packets: Vec<_> = packets.iter().map(|(ticks, data)| (0, *ticks, *data)).collect();
    pcapng_of(1, &packets)
}

/// The same with several such interfaces; each packet the number of its interface, its ticks and bytes.
pub(crate) fn pcapng_of(interfaces: u32, packets: &[(u32, u64, &[u8])]) -> Vec<u8> {
    let mut file = block(0x0a0d_0d0a, &[0x1a2b_3c4d, 0x0001_0000, u32::MAX, u32::MAX], &[]);
    // Options: if_tsresol 0x80|32, if_tsoffset 100, end.
    let options =
        [&[0, 9, 0, 1, 0x80 | 32, 0, 0, 0, 0, 14, 0, 8][..], &100u64.to_be_bytes(), &[0; 4]].concat();
    (0..interfaces).for_each(|_| file.extend(block(1, &[101 << 16, 65_535], &options)));
    for (interface, ticks, data) in packets {
        let words = [*interface, (ticks >> 32) as u32, *ticks as u32, data.len() as u32, data.len() as u32];
        file.extend(block(6, &words, data));
    }
    file
}

/// An MCAP file of our own from a CSV table.
pub(crate) fn mcap_of(csv: &str) -> Vec<u8> {
    let recording = taut_trace::read_bytes("a.csv", csv.as_bytes()).expect("a table");
    taut_trace::write_mcap(&recording).expect("times after 1970")
}
