//! Random Ethernet frames: mostly video, in every wrapping that the gate knows, some broken.

use taut_core::Rng;
use taut_wire::rtp::h264::nal_type;

/// One video stream: what the next packet of it says.
#[derive(Clone, Default)]
struct Stream {
    left: u64,
    timestamp: u32,
    sequence: u16,
    key: u8,
}

/// Makes frames, each with the RTP header of one of several streams.
pub(crate) struct Frames {
    rng: Rng,
    streams: Vec<Stream>,
}

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
        let payload = if self.chance(40) { self.noise(40) } else { self.rtp() };
        let port = [5004, 5006, 5008, 5004, 5006, 5008, 5004, 9][self.rng.below(8) as usize];
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
        if self.chance(3) {
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

    fn rtp(&mut self) -> Vec<u8> {
        let index = self.rng.below(self.streams.len() as u64) as usize;
        let mut stream = self.streams[index].clone();
        let first = stream.left == 0;
        if first {
            stream.left = 1 + self.rng.below(9);
            stream.timestamp = stream.timestamp.wrapping_add(if self.chance(30) { 1 << 30 } else { 1_500 });
            stream.key = self.rng.below(3) as u8;
        }
        stream.left -= 1;
        stream.sequence = stream.sequence.wrapping_add(1);
        let marker = stream.left == 0 && !self.chance(50);
        self.streams[index] = stream.clone();
        if self.chance(40) {
            return Vec::new(); // lost before the gate
        }
        let (csrc, extended) = (if self.chance(10) { self.rng.below(16) as u8 } else { 0 }, self.chance(10));
        // Overtaken by the frame after it, or by more.
        let late = if self.chance(30) { 1_500 * self.rng.below(3) as u32 } else { 0 };
        let mut packet =
            vec![0x80 | u8::from(extended) << 4 | csrc, (u8::from(marker) << 7) | (96 + (index % 2) as u8)];
        packet.extend(stream.sequence.to_be_bytes());
        packet.extend(stream.timestamp.wrapping_sub(late).to_be_bytes());
        packet.extend((index as u32).to_be_bytes());
        packet.resize(packet.len() + 4 * usize::from(csrc), 7);
        if extended {
            let words = [0, 1, 2, 9, 255, 256][self.rng.below(6) as usize];
            packet.extend([0xbe, 0xde, (words >> 8) as u8, words as u8]);
            packet.resize(packet.len() + 4 * words, 0);
        }
        if self.chance(2) {
            self.vp8(first, stream.key, &mut packet)
        } else {
            self.h264(stream.key, &mut packet)
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

    fn h264(&mut self, key: u8, packet: &mut Vec<u8>) {
        let kinds = [nal_type::SLICE, nal_type::IDR, nal_type::SPS, nal_type::STAP_A, nal_type::FU_A, 6, 9];
        for _ in 0..4 {
            let kind = kinds[self.rng.below(7) as usize];
            packet.push(key << 5 | kind | if self.chance(9) { 0x80 } else { 0 });
        }
        let keep = packet.len() - self.rng.below(5) as usize;
        packet.truncate(keep);
    }
}
