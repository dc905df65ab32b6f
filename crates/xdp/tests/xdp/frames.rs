//! Random Ethernet frames: mostly video, in every wrapping that the gate knows, some broken.

use std::collections::VecDeque;

use taut_core::Rng;
use taut_wire::rtp::h264::nal_type;

/// One video stream: what of it is still to come.
#[derive(Clone, Default)]
struct Stream {
    packets: VecDeque<Vec<u8>>,
    /// Frames that were made.
    made: u32,
    /// What the timestamp of its next group of three counts from.
    timestamp: u32,
    sequence: u16,
}

/// Makes frames, each with the RTP header of one of several streams. Two of them have the same SSRC, at two ports.
pub(crate) struct Frames {
    rng: Rng,
    streams: Vec<Stream>,
}

/// Packets that can be overtaken.
const AHEAD: usize = 40;

impl Frames {
    pub(crate) fn new(streams: usize, rng: Rng) -> Self {
        Self { rng, streams: vec![Stream::default(); streams] }
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.rng.below(one_in) == 0
    }

    fn byte(&mut self) -> u8 {
        self.rng.next_u64() as u8
    }

    /// An Ethernet frame of at least 14 bytes.
    pub(crate) fn next_frame(&mut self) -> Vec<u8> {
        let index = self.rng.below(self.streams.len() as u64) as usize;
        let payload = match self.rng.below(40) {
            0 => self.noise(40),
            1 => self.rtcp(index),
            _ => self.rtp(index),
        };
        let strange = self.chance(12);
        let port = [5004, 5006, 5008, 9][if strange { self.rng.below(4) as usize } else { index % 3 }];
        let mut frame: Vec<u8> = (0..12).map(|_| self.byte()).collect();
        for _ in 0..[0, 0, 0, 1, 1, 2, 3][self.rng.below(7) as usize] {
            frame.extend(if self.chance(2) { [0x81, 0x00] } else { [0x88, 0xa8] });
            frame.extend([self.byte(), self.byte()]);
        }
        let mut udp = Vec::new();
        udp.extend(1234u16.to_be_bytes());
        udp.extend((port as u16).to_be_bytes());
        udp.extend((8 + payload.len() as u16).to_be_bytes());
        udp.extend([0, 0]);
        udp.extend(payload);
        if (index % 4 == 3) ^ self.chance(12) {
            self.ipv6(udp, &mut frame)
        } else {
            self.ipv4(udp, &mut frame)
        }
        if self.chance(60) {
            let keep = 14 + self.rng.below(frame.len() as u64 - 14) as usize;
            frame.truncate(keep);
        }
        if self.chance(60) {
            let at = self.rng.below(frame.len() as u64) as usize;
            frame[at] ^= 1 << self.rng.below(8);
        }
        frame
    }

    fn noise(&mut self, most: u64) -> Vec<u8> {
        (0..self.rng.below(most)).map(|_| self.byte()).collect()
    }

    fn ipv4(&mut self, udp: Vec<u8>, frame: &mut Vec<u8>) {
        frame.extend([0x08, 0x00]);
        let words = if self.chance(10) { 5 + self.rng.below(11) as u8 } else { 5 };
        let options: Vec<u8> = (20..usize::from(words) * 4).map(|_| self.byte()).collect();
        let length = (usize::from(words) * 4 + udp.len() + self.extra()) as u16;
        let fragment: u16 = if self.chance(60) { 0x2000 } else { 0x4000 };
        let protocol = if self.chance(60) { 6 } else { 17 };
        frame.extend([0x40 | words, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(fragment.to_be_bytes());
        frame.extend([64, protocol, 0, 0]);
        frame.extend([10, 0, 0, 1]);
        frame.extend([10, 0, 0, if self.chance(4) { 3 } else { 2 }]);
        frame.extend(options);
        frame.extend(udp);
    }

    fn ipv6(&mut self, udp: Vec<u8>, frame: &mut Vec<u8>) {
        frame.extend([0x86, 0xdd]);
        let mut headers = Vec::new();
        let count = if self.chance(4) { self.rng.below(6) } else { 0 };
        let kinds: Vec<u8> =
            (0..count).map(|_| [0, 43, 60, 60, 44][self.rng.below(5) as usize]).chain([17]).collect();
        for next in &kinds[1..] {
            let length = self.rng.below(3) as u8;
            headers.extend([*next, length]);
            headers.resize(headers.len() + 6 + 8 * usize::from(length), 0);
        }
        let length = (headers.len() + udp.len() + self.extra()) as u16;
        frame.extend([0x60, 0, 0, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend([kinds[0], 64]);
        frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, if self.chance(4) { 3 } else { 2 }]);
        frame.extend(headers);
        frame.extend(udp);
    }

    /// What the header counts beyond the bytes that are there: the gate goes by the header.
    fn extra(&mut self) -> usize {
        self.rng.below(1_200) as usize
    }

    /// A sender or receiver report (RFC 3550 section 6.4), or what else has such a payload type.
    fn rtcp(&mut self, index: usize) -> Vec<u8> {
        let second = if self.chance(2) { 200 + self.rng.below(2) } else { 192 + self.rng.below(32) };
        let mut packet = vec![0x81, second as u8, 0, 12];
        packet.extend((index as u32 / 2).to_be_bytes());
        packet.extend(self.noise(60));
        packet
    }

    /// The next packet of a stream; now and then one that overtakes others.
    fn rtp(&mut self, index: usize) -> Vec<u8> {
        while self.streams[index].packets.len() < AHEAD {
            self.make(index);
        }
        if self.chance(40) {
            self.streams[index].packets.pop_front(); // lost before the gate
        }
        let place = if self.chance(15) { self.rng.below(AHEAD as u64 - 1) as usize } else { 0 };
        let copy = self.chance(60);
        let packets = &mut self.streams[index].packets;
        let packet = packets[place].clone();
        if !copy {
            packets.remove(place);
        }
        packet
    }

    /// The packets of the next frame in decoding order: every third stream has B-frames, shown before what they refer to.
    fn make(&mut self, index: usize) {
        let mut stream = self.streams[index].clone();
        let place = stream.made % 3;
        if place == 0 {
            let jump = match self.rng.below(60) {
                0 => 1 << 30,
                1 => 1_000_000_000u32.wrapping_neg(),
                2 => 1 << 31,
                3 => 4_500u32.wrapping_neg(),
                _ => 4_500,
            };
            stream.timestamp = stream.timestamp.wrapping_add(jump);
        }
        let shown = if index % 3 == 1 { [2, 0, 1] } else { [0, 1, 2] }[place as usize];
        // The clock of some stands still.
        let timestamp = if index % 7 == 6 { 77 } else { stream.timestamp.wrapping_add(1_500 * shown) };
        stream.made += 1;
        let (count, key) = (1 + self.rng.below(9), self.rng.below(3) as u8);
        for part in 0..count {
            stream.sequence = stream.sequence.wrapping_add(1);
            let marker = part + 1 == count && !self.chance(50);
            let packet = self.packet(index, (stream.sequence, timestamp, marker), part == 0, key);
            stream.packets.push_back(packet);
        }
        self.streams[index] = stream;
    }

    fn packet(
        &mut self,
        index: usize,
        (sequence, timestamp, marker): (u16, u32, bool),
        first: bool,
        key: u8,
    ) -> Vec<u8> {
        let (csrc, extended) = (if self.chance(10) { self.rng.below(16) as u8 } else { 0 }, self.chance(10));
        let mut packet = vec![
            0x80 | u8::from(extended) << 4 | csrc,
            (u8::from(marker) << 7) | (96 + (index % 3) as u8 % 2),
        ];
        packet.extend(sequence.to_be_bytes());
        packet.extend(timestamp.to_be_bytes());
        packet.extend((index as u32 / 2).to_be_bytes());
        packet.resize(packet.len() + 4 * usize::from(csrc), 7);
        if extended {
            let words = [0, 1, 2, 9, 255, 256][self.rng.below(6) as usize];
            packet.extend([0xbe, 0xde, (words >> 8) as u8, words as u8]);
            packet.resize(packet.len() + 4 * words, 0);
        }
        match (index % 3 == 1) ^ self.chance(12) {
            true => self.h264(first, key, &mut packet),
            false => self.vp8(first, key, &mut packet),
        }
        packet
    }

    fn vp8(&mut self, first: bool, key: u8, packet: &mut Vec<u8>) {
        let extended = self.chance(2);
        let flags = if extended { self.byte() } else { 0 };
        packet.push(u8::from(extended) << 7 | u8::from(key == 0) << 5 | u8::from(first) << 4);
        if extended {
            packet.push(flags);
        }
        let ids: Vec<u8> = (0..self.rng.below(7)).map(|_| self.byte()).collect();
        packet.extend(ids);
        packet.push(u8::from(key != 2));
    }

    /// A frame may begin with a delimiter, information or parameters, alone or in a STAP-A; slices, whole or in pieces, follow.
    fn h264(&mut self, first: bool, key: u8, packet: &mut Vec<u8>) {
        let slice = if key == 2 { nal_type::IDR } else { nal_type::SLICE } | key.min(1) << 5;
        let before = [9, 6, nal_type::PPS, nal_type::SPS, 14];
        match self.rng.below(if first { 6 } else { 3 }) {
            0 => packet.extend([slice, 0, 0]),
            1 => packet.extend([nal_type::FU_A | slice & 0x60, 0x80 | slice & 0x1f, 0]),
            2 => {
                // Anything, cut anywhere.
                let kinds = [slice, nal_type::STAP_A, nal_type::FU_A, 6, 9, self.byte()];
                let bytes: Vec<u8> =
                    (0..self.rng.below(9)).map(|_| kinds[self.rng.below(6) as usize]).collect();
                packet.extend(bytes);
            }
            3 => packet.extend([before[self.rng.below(5) as usize], 0xf0]),
            _ => {
                packet.push(nal_type::STAP_A | 0x60);
                for _ in 0..self.rng.below(10) {
                    // All must be in one page.
                    let longest = if packet.len() < 1_000 { 6 } else { 4 };
                    let length = [1, 2, 3, 40, 2_047, 2_048][self.rng.below(longest) as usize];
                    packet.extend([(length >> 8) as u8, length as u8, before[self.rng.below(3) as usize]]);
                    packet.resize(packet.len() + length - 1, 0);
                }
                packet.extend([0, 1, slice]);
            }
        }
    }
}
