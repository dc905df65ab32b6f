//! Video frames into RTP packets.

use taut_core::{Rng, Time};
use taut_wire::rtp::h264::{Fragment, NalHeader, NalUnits, annex_b_units};
use taut_wire::rtp::{Codec, HEADER_LEN, Repr, VIDEO_CLOCK_HZ, vp8};

/// Puts the frames of one video stream into RTP packets (RFC 3550; VP8 by RFC 7741, H.264 by RFC 6184 mode 1).
///
/// ```
/// use taut_core::{Seed, Time};
/// use taut_media::Packetizer;
/// use taut_wire::rtp::{Codec, View};
/// let mut packetizer = Packetizer::new(Codec::Vp8, 0xcafe, &mut Seed::new(1).stream("rtp"));
/// let mut packets = Vec::new();
/// packetizer.packetize(Time::ZERO, &[0; 3000], |packet| packets.push(packet.to_vec()));
/// let markers: Vec<bool> = packets.iter().map(|packet| View::new_checked(packet).unwrap().repr().marker).collect();
/// assert_eq!(markers, [false, false, true]);
/// ```
#[derive(Clone, Debug)]
pub struct Packetizer {
    codec: Codec,
    payload_type: u8,
    max_packet: usize,
    ssrc: u32,
    sequence: u16,
    first_timestamp: u32,
    picture_id: u16,
    buffer: Vec<u8>,
}

impl Packetizer {
    /// Bytes of every packet that are kept for the RTP header and its codec's own.
    pub const OVERHEAD: usize = HEADER_LEN + vp8::MAX_DESCRIPTOR_LEN;

    /// A stream. Sequence number, timestamp and PictureID begin anywhere (RFC 3550 section 5.1).
    pub fn new(codec: Codec, ssrc: u32, rng: &mut Rng) -> Self {
        let (low, high) = (rng.next_u64(), rng.next_u64());
        Self {
            codec,
            payload_type: 96,
            max_packet: 1200,
            ssrc,
            sequence: low as u16,
            first_timestamp: (low >> 32) as u32,
            picture_id: high as u16 & 0x7fff,
            buffer: Vec::new(),
        }
    }

    /// The payload type, 96 to 127. Default 96.
    ///
    /// # Panics
    /// When it is not a dynamic one.
    pub fn payload_type(mut self, payload_type: u8) -> Self {
        assert!((96..=127).contains(&payload_type), "dynamic payload types are 96 to 127");
        self.payload_type = payload_type;
        self
    }

    /// The most bytes of an RTP packet, its header included. Default 1200, as WebRTC has it; 64 to 65507.
    ///
    /// # Panics
    /// When it is out of range.
    pub fn max_packet(mut self, bytes: usize) -> Self {
        assert!((64..=65_507).contains(&bytes), "an RTP packet of at most {bytes} bytes");
        self.max_packet = bytes;
        self
    }

    /// Makes the packets of `frame`, which was captured at `created`, and hands them out in order. A frame of H.264 is an
    /// access unit in Annex B form. Nothing comes of an empty frame.
    ///
    /// All packets but the last are full and the last holds the rest.
    pub fn packetize(&mut self, created: Time, frame: &[u8], mut emit: impl FnMut(&[u8])) {
        let ticks = u128::from(created.as_nanos()) * u128::from(VIDEO_CLOCK_HZ) / 1_000_000_000;
        let timestamp = self.first_timestamp.wrapping_add(ticks as u32);
        let room = self.max_packet - Self::OVERHEAD;
        match self.codec {
            Codec::Vp8 => self.vp8(timestamp, frame, room, &mut emit),
            Codec::H264 => self.h264(timestamp, frame, room, &mut emit),
            Codec::Opaque => {
                let last = frame.len().div_ceil(room);
                for (piece, index) in frame.chunks(room).zip(1..) {
                    self.packet(timestamp, index == last, &mut emit, |buffer| buffer.extend(piece));
                }
            }
        }
    }

    fn vp8(&mut self, timestamp: u32, frame: &[u8], room: usize, emit: &mut impl FnMut(&[u8])) {
        let picture_id = Some(vp8::PictureId::Long(self.picture_id));
        self.picture_id = (self.picture_id + 1) & 0x7fff;
        let last = frame.len().div_ceil(room);
        for (piece, index) in frame.chunks(room).zip(1..) {
            let descriptor = vp8::Descriptor { start: index == 1, picture_id, ..vp8::Descriptor::default() };
            self.packet(timestamp, index == last, emit, |buffer| {
                descriptor.emit(buffer);
                buffer.extend_from_slice(piece);
            });
        }
    }

    /// Parameter sets that fit go together in a STAP-A; units that fit go alone; the others are cut (FU-A).
    fn h264(&mut self, timestamp: u32, frame: &[u8], room: usize, emit: &mut impl FnMut(&[u8])) {
        let units: Vec<&[u8]> = annex_b_units(frame).collect();
        let mut rest = units.as_slice();
        let small = rest.iter().take_while(|unit| matches!(unit[0] & 0x1f, 6..=9)).count();
        let together: usize = rest[..small].iter().map(|unit| unit.len() + 2).sum();
        if small > 1 && together < room {
            let (parameters, slices) = rest.split_at(small);
            self.packet(timestamp, slices.is_empty(), emit, |buffer| NalUnits::emit(parameters, buffer));
            rest = slices;
        }
        while let Some((unit, after)) = rest.split_first() {
            rest = after;
            let ends = after.is_empty();
            if unit.len() <= room {
                self.packet(timestamp, ends, emit, |buffer| buffer.extend_from_slice(unit));
                continue;
            }
            let header = NalHeader { ref_idc: unit[0] >> 5 & 3, kind: unit[0] & 0x1f };
            let last = (unit.len() - 1).div_ceil(room - 2);
            for (data, index) in unit[1..].chunks(room - 2).zip(1..) {
                let fragment = Fragment { header, start: index == 1, end: index == last, data };
                self.packet(timestamp, ends && fragment.end, emit, |buffer| fragment.emit(buffer));
            }
        }
    }

    fn packet(
        &mut self,
        timestamp: u32,
        marker: bool,
        emit: &mut impl FnMut(&[u8]),
        payload: impl FnOnce(&mut Vec<u8>),
    ) {
        let header = Repr {
            marker,
            payload_type: self.payload_type,
            sequence: self.sequence,
            timestamp,
            ssrc: self.ssrc,
            ..Repr::default()
        };
        self.sequence = self.sequence.wrapping_add(1);
        self.buffer.clear();
        header.emit(&mut self.buffer);
        payload(&mut self.buffer);
        emit(&self.buffer);
    }
}
