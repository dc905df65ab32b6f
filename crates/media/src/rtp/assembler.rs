//! RTP packets into video frames.

use std::collections::{BTreeMap, VecDeque};

use taut_wire::rtp::h264::{Payload, nal_type};
use taut_wire::rtp::{Codec, FrameKind, View, vp8};

/// Puts the packets of one stream (SSRC) together to frames, whatever their order.
///
/// A frame is whole when there is a packet with the marker, one with which a frame begins, and every sequence number
/// between the two, all with the same timestamp. Where a frame begins, the payload says: VP8 by the S bit of partition 0;
/// H.264 by a sequence parameter set, an access unit delimiter or the first slice of a picture; and in every codec the
/// packet after one of another frame.
///
/// Packets of frames that never become whole are discarded when [`FrameAssembler::WINDOW`] sequence numbers have passed. A
/// sender that begins anew, with another SSRC or with sequence numbers from elsewhere, is believed with its second packet (RFC 3550
/// appendix A.1).
///
/// ```
/// use taut_core::{Seed, Time};
/// use taut_media::{FrameAssembler, Packetizer};
/// use taut_wire::rtp::{Codec, View};
/// let mut packetizer = Packetizer::new(Codec::Vp8, 7, &mut Seed::new(1).stream("rtp"));
/// let mut assembler = FrameAssembler::new(Codec::Vp8);
/// let mut whole = Vec::new();
/// packetizer.packetize(Time::ZERO, &[9; 3000], |packet| {
///     assembler.handle_input(&View::new_checked(packet).unwrap());
///     whole.extend(assembler.poll_frame());
/// });
/// assert_eq!(whole[0].data, [9; 3000]);
/// ```
#[derive(Clone, Debug)]
pub struct FrameAssembler {
    codec: Codec,
    /// By sequence numbers that do not wrap.
    packets: BTreeMap<u64, HeldPacket>,
    newest: Option<u64>,
    ssrc: u32,
    /// The last packet that does not belong where the others are: perhaps the first of a new beginning.
    stray: Option<(u32, u16, HeldPacket)>,
    whole: VecDeque<RtpFrame>,
    stats: AssemblerStats,
}

/// A frame that arrived whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtpFrame {
    /// The RTP timestamp.
    pub timestamp: u32,
    /// What its loss would have meant.
    pub kind: FrameKind,
    /// In how many packets it came.
    pub packets: u32,
    /// As the encoder made it; H.264 in Annex B form, with start codes of four bytes.
    pub data: Vec<u8>,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AssemblerStats {
    /// Frames that arrived whole.
    pub frames: u64,
    /// Packets in them.
    pub packets: u64,
    /// Packets whose payload is none of this codec.
    pub malformed: u64,
    /// Packets that came twice.
    pub duplicates: u64,
    /// Packets older than the window, or from elsewhere.
    pub late: u64,
    /// Times that the sender began anew.
    pub restarts: u64,
    /// Packets of frames that did not become whole in time.
    pub discarded: u64,
}

#[derive(Clone, Debug)]
struct HeldPacket {
    timestamp: u32,
    marker: bool,
    starts: bool,
    /// `None` when the packet's frame was given out: it stays, to tell duplicates and where the next frame begins.
    payload: Option<Vec<u8>>,
}

/// How far ahead of the newest a packet may be (RFC 3550 appendix A.1).
const MAX_DROPOUT: u64 = 3_000;

impl FrameAssembler {
    /// How many sequence numbers a packet waits for the rest of its frame.
    pub const WINDOW: u64 = 1024;

    /// Nothing arrived yet.
    pub const fn new(codec: Codec) -> Self {
        let stats = AssemblerStats {
            frames: 0,
            packets: 0,
            malformed: 0,
            duplicates: 0,
            late: 0,
            restarts: 0,
            discarded: 0,
        };
        Self {
            codec,
            packets: BTreeMap::new(),
            newest: None,
            ssrc: 0,
            stray: None,
            whole: VecDeque::new(),
            stats,
        }
    }

    /// What became of packets.
    pub const fn stats(&self) -> AssemblerStats {
        self.stats
    }

    /// How many packets are remembered: at most [`FrameAssembler::WINDOW`].
    pub fn held(&self) -> usize {
        self.packets.len()
    }

    /// A frame that is whole, in the order in which they became so. Poll until there is none.
    pub fn poll_frame(&mut self) -> Option<RtpFrame> {
        self.whole.pop_front()
    }

    /// A packet arrived. It may make its own frame whole, and the next one, of which nobody knew yet that it begins there.
    pub fn handle_input(&mut self, packet: &View<'_>) {
        let repr = packet.repr();
        let Some(starts) = starts(self.codec, packet.payload()) else {
            self.stats.malformed += 1;
            return;
        };
        if self.newest.is_none() {
            self.ssrc = repr.ssrc;
        }
        let payload = Some(packet.payload().to_vec());
        let held = HeldPacket { timestamp: repr.timestamp, marker: repr.marker, starts, payload };
        if !self.belongs(repr.ssrc, repr.sequence) {
            let stray = self.stray.replace((repr.ssrc, repr.sequence, held.clone()));
            let Some((ssrc, sequence, first)) = stray.filter(|(ssrc, sequence, _)| {
                (*ssrc, sequence.wrapping_add(1)) == (repr.ssrc, repr.sequence)
            }) else {
                self.stats.late += 1;
                return;
            };
            // The first of the two was counted when it came.
            self.stats.late -= 1;
            self.begin_anew(ssrc, sequence, first);
        }
        self.insert(repr.sequence, held);
    }

    /// Is it of the same sender, and near what came before?
    fn belongs(&self, ssrc: u32, sequence: u16) -> bool {
        let Some(newest) = self.newest else { return true };
        let at = self.unwrapped(sequence);
        ssrc == self.ssrc && at + Self::WINDOW > newest && at < newest + MAX_DROPOUT
    }

    fn begin_anew(&mut self, ssrc: u32, sequence: u16, first: HeldPacket) {
        self.stats.restarts += 1;
        self.forget_before(u64::MAX);
        (self.newest, self.stray, self.ssrc) = (None, None, ssrc);
        self.insert(sequence, first);
    }

    fn insert(&mut self, sequence: u16, held: HeldPacket) {
        let sequence = self.unwrapped(sequence);
        if self.packets.contains_key(&sequence) {
            self.stats.duplicates += 1;
            return;
        }
        let newest = self.newest.map_or(sequence, |newest| newest.max(sequence));
        self.newest = Some(newest);
        self.forget_before((newest + 1).saturating_sub(Self::WINDOW));
        self.packets.insert(sequence, held);
        for candidate in [sequence, sequence + 1] {
            if let Some((first, last)) = self.extent(candidate) {
                let frame = self.take(first, last);
                self.whole.push_back(frame);
            }
        }
    }

    /// Counts on across wraps: the number nearest to the newest one (RFC 3550 appendix A.1).
    fn unwrapped(&self, sequence: u16) -> u64 {
        const WRAP: u64 = 1 << 16;
        let Some(newest) = self.newest else { return WRAP + u64::from(sequence) };
        let ahead = sequence.wrapping_sub(newest as u16) as i16;
        newest.saturating_add_signed(i64::from(ahead))
    }

    fn forget_before(&mut self, first: u64) {
        while let Some(entry) = self.packets.first_entry().filter(|entry| *entry.key() < first) {
            self.stats.discarded += u64::from(entry.remove().payload.is_some());
        }
    }

    /// The first and the last packet of the frame that the packet `sequence` belongs to, if it is whole now.
    fn extent(&self, sequence: u64) -> Option<(u64, u64)> {
        let timestamp = self.packets.get(&sequence)?.timestamp;
        let of_frame = |at: u64| {
            self.packets.get(&at).filter(|held| held.timestamp == timestamp && held.payload.is_some())
        };
        let mut first = sequence;
        while of_frame(first - 1).is_some() {
            first -= 1;
        }
        let mut last = sequence;
        while !of_frame(last)?.marker {
            last += 1;
        }
        if !of_frame(first)?.starts && !self.packets.contains_key(&(first - 1)) {
            return None;
        }
        Some((first, last))
    }

    fn take(&mut self, first: u64, last: u64) -> RtpFrame {
        let mut frame = RtpFrame {
            timestamp: 0,
            kind: FrameKind::Delta,
            packets: (last - first + 1) as u32,
            data: Vec::new(),
        };
        for (at, held) in self.packets.range_mut(first..=last) {
            let payload = held.payload.take().unwrap_or_default();
            if *at == first {
                frame.timestamp = held.timestamp;
                frame.kind = self.codec.kind(&payload);
            }
            append(self.codec, &payload, &mut frame.data);
        }
        self.stats.frames += 1;
        self.stats.packets += u64::from(frame.packets);
        frame
    }
}

/// Can it be told by the payload alone that a frame begins with it? `None` when the payload is malformed.
fn starts(codec: Codec, payload: &[u8]) -> Option<bool> {
    match codec {
        Codec::Opaque => Some(false),
        Codec::Vp8 => vp8::Descriptor::parse(payload).ok().map(|(descriptor, _)| descriptor.starts_frame()),
        Codec::H264 => Some(match Payload::parse(payload).ok()? {
            Payload::Single(unit) => begins_picture(unit[0] & 0x1f, unit.get(1)),
            Payload::StapA(mut units) => {
                units.next().is_some_and(|unit| begins_picture(unit[0] & 0x1f, unit.get(1)))
            }
            Payload::FuA(piece) => piece.start && begins_picture(piece.header.kind, piece.data.first()),
        }),
    }
}

/// A slice begins with the number of its first macroblock in an exponential-Golomb code, in which 0 is a single 1 bit (ITU-T
/// H.264 sections 7.3.3 and 9.1). Before an IDR slice there are parameter sets, which may have been lost.
fn begins_picture(kind: u8, second: Option<&u8>) -> bool {
    match kind {
        nal_type::SPS | 9 => true,
        nal_type::SLICE => second.is_some_and(|byte| byte & 0x80 != 0),
        _ => false,
    }
}

/// Appends what a payload holds of a frame. The payload has been checked.
fn append(codec: Codec, payload: &[u8], data: &mut Vec<u8>) {
    let mut unit = |header: &[u8], rest: &[u8]| {
        data.extend_from_slice(&[0, 0, 0, 1]);
        data.extend_from_slice(header);
        data.extend_from_slice(rest);
    };
    match codec {
        Codec::Opaque => data.extend_from_slice(payload),
        Codec::Vp8 => {
            let at = vp8::Descriptor::parse(payload).map_or(payload.len(), |(_, at)| at);
            data.extend_from_slice(&payload[at..]);
        }
        Codec::H264 => match Payload::parse(payload) {
            Ok(Payload::Single(nal)) => unit(&[], nal),
            Ok(Payload::StapA(units)) => units.for_each(|nal| unit(&[], nal)),
            Ok(Payload::FuA(piece)) if piece.start => unit(&[piece.header.byte()], piece.data),
            Ok(Payload::FuA(piece)) => data.extend_from_slice(piece.data),
            Err(_) => {}
        },
    }
}
