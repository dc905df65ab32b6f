//! One telehaptic datagram: haptic samples, and fragments of audio and video frames.
//!
//! The format is ours. It serves two wishes that pull apart: at 1 kHz every byte of overhead costs 8 kbit/s, and a
//! measurement must recover the creation time of every sample and frame to the nanosecond. So the header carries one
//! absolute time, and everything else in the datagram an *age* against it.
//!
//! ```text
//! header     0      version (1 bit, 1) | report follows (1) | samples (3) | fragments (3)
//!            1..5   packet number, u32
//!            5..13  sent, u64, nanoseconds on the sender's clock
//! report     0..4   packet number of the packet it is about, u32
//!            4..    transit of that packet, nanoseconds, zigzag varint
//! sample     0..4   sequence, u32
//!            4..    age when sent, nanoseconds, varint; payload length, varint; payload
//! fragment   0      medium (2 bits) | first (1) | last (1) | reserved (4), 0
//!            1..    frame sequence, varint
//!                   first: age of the frame when sent, nanoseconds, varint; otherwise: offset in the frame, varint
//!                   length, varint
//! the bytes of the fragments, in their order; then padding
//! ```
//!
//! Integers are big-endian; a varint is LEB128 (DWARF 5 section 7.6), shortest form only. The frame's length is the end
//! of its last fragment. Every frame that arrives whole thus has its sequence, creation time and length, and no byte
//! of that is sent twice.
//!
//! Fragment bytes may be *virtual*: where the stored bytes end before the datagram does, the rest are zeros. A receiver
//! that gets the datagram from a real socket has padding 0 and sees the zeros themselves.

use taut_core::{Medium, Time};

/// Most haptic samples in one datagram.
pub const MAX_SAMPLES: usize = 7;
/// Most fragments in one datagram.
pub const MAX_FRAGMENTS: usize = 7;
/// Longest payload of a haptic sample, in bytes.
pub const MAX_PAYLOAD: usize = 1024;

const VERSION_BIT: u8 = 0x80;
const REPORT_BIT: u8 = 0x40;
const MEDIUM_SHIFT: u32 = 6;
const FIRST_BIT: u8 = 0x20;
const LAST_BIT: u8 = 0x10;
const RESERVED_BITS: u8 = 0x0f;

/// Why bytes are not a telehaptic datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// It ends too early, counting padding.
    #[error("the datagram ends inside a field")]
    Truncated,
    /// The version bit is not 1.
    #[error("not version 1")]
    Version,
    /// A fragment of something that has no frames, or reserved bits that are not 0.
    #[error("fragment header {0:#04x} is not known")]
    Fragment(u8),
    /// A varint that is longer than it need be, or than its field.
    #[error("a varint is overlong or out of range")]
    Varint,
    /// Something older than the sender's clock.
    #[error("an age reaches before the epoch")]
    Age,
    /// A payload longer than [`MAX_PAYLOAD`], a frame beyond 4 GiB, or an empty fragment of a frame that is not empty.
    #[error("a length is out of range")]
    Length,
}

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Counts up by one for every datagram of this sender, and wraps.
    pub packet_number: u32,
    /// When the sender sent it, on its clock.
    pub sent: Time,
    /// The delay feedback in it.
    pub report: Option<Report>,
    /// Samples that follow, at most [`MAX_SAMPLES`].
    pub samples: u8,
    /// Fragments that follow, at most [`MAX_FRAGMENTS`].
    pub fragments: u8,
}

/// What the receiver of a datagram tells its sender: how long one took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which datagram.
    pub packet_number: u32,
    /// Its arrival on the receiver's clock less its sending on the sender's, in nanoseconds. The offset of the clocks is
    /// in it, so it may be negative; its changes are those of the delay.
    pub transit_ns: i64,
}

/// One haptic sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRepr<'a> {
    /// Counts up by one for every sample made, and wraps.
    pub sequence: u32,
    /// When it was made, on the sender's clock; not after the datagram was sent.
    pub created: Time,
    /// Its bytes, at most [`MAX_PAYLOAD`].
    pub payload: &'a [u8],
}

/// The header of one fragment of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentRepr {
    /// Audio, video or data.
    pub medium: Medium,
    /// The frame's sequence, per medium. It wraps.
    pub frame: u32,
    /// Where in the frame it lies.
    pub part: Part,
    /// Its length in bytes.
    pub length: u32,
    /// Does the frame end with it?
    pub last: bool,
}

/// Where in its frame a fragment lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// At the beginning; tells when the frame was made.
    First {
        /// When, on the sender's clock; not after the datagram was sent.
        created: Time,
    },
    /// After the beginning.
    Rest {
        /// How many bytes of the frame lie before it, at least 1.
        offset: u32,
    },
}

impl Part {
    /// How many bytes of the frame lie before the fragment.
    pub const fn offset(self) -> u32 {
        match self {
            Self::First { .. } => 0,
            Self::Rest { offset } => offset,
        }
    }
}

impl Header {
    /// Its shortest length in bytes, without a report.
    pub const MIN_LEN: usize = 13;

    /// Its length in bytes.
    pub const fn buffer_len(&self) -> usize {
        match self.report {
            None => Self::MIN_LEN,
            Some(report) => Self::MIN_LEN + 4 + varint_len(zigzag(report.transit_ns)),
        }
    }

    /// Appends it to `out`. Panics when it promises more than fits.
    pub fn emit(&self, out: &mut Vec<u8>) {
        assert!(usize::from(self.samples) <= MAX_SAMPLES && usize::from(self.fragments) <= MAX_FRAGMENTS);
        let report_bit = if self.report.is_some() { REPORT_BIT } else { 0 };
        let mut fixed = [0; Self::MIN_LEN];
        fixed[0] = VERSION_BIT | report_bit | self.samples << 3 | self.fragments;
        fixed[1..5].copy_from_slice(&self.packet_number.to_be_bytes());
        fixed[5..13].copy_from_slice(&self.sent.as_nanos().to_be_bytes());
        out.extend_from_slice(&fixed);
        if let Some(report) = self.report {
            out.extend_from_slice(&report.packet_number.to_be_bytes());
            put_varint(out, zigzag(report.transit_ns));
        }
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<Self, MediaError> {
        let flags = cursor.byte()?;
        if flags & VERSION_BIT == 0 {
            return Err(MediaError::Version);
        }
        let packet_number = cursor.u32()?;
        let sent = Time::from_nanos(cursor.u64()?);
        let report = if flags & REPORT_BIT == 0 {
            None
        } else {
            Some(Report { packet_number: cursor.u32()?, transit_ns: unzigzag(cursor.varint()?) })
        };
        Ok(Self { packet_number, sent, report, samples: flags >> 3 & 7, fragments: flags & 7 })
    }
}

impl<'a> SampleRepr<'a> {
    /// Its length in a datagram sent at `sent`, payload included.
    pub fn buffer_len(&self, sent: Time) -> usize {
        Self::overhead(sent.saturating_since(self.created).as_nanos(), self.payload.len())
            + self.payload.len()
    }

    /// Bytes besides the payload, for a sample of that age and payload length.
    pub const fn overhead(age_ns: u64, payload: usize) -> usize {
        4 + varint_len(age_ns) + varint_len(payload as u64)
    }

    /// Appends it to `out`, for a datagram sent at `sent`. Panics on a payload beyond [`MAX_PAYLOAD`].
    pub fn emit(&self, sent: Time, out: &mut Vec<u8>) {
        assert!(self.payload.len() <= MAX_PAYLOAD);
        out.extend_from_slice(&self.sequence.to_be_bytes());
        put_varint(out, sent.saturating_since(self.created).as_nanos());
        put_varint(out, self.payload.len() as u64);
        out.extend_from_slice(self.payload);
    }

    fn parse(sent: Time, cursor: &mut Cursor<'a>) -> Result<Self, MediaError> {
        let sequence = cursor.u32()?;
        let created = cursor.age(sent)?;
        let length = cursor.varint()?;
        if length > MAX_PAYLOAD as u64 {
            return Err(MediaError::Length);
        }
        Ok(Self { sequence, created, payload: cursor.take(length as usize)? })
    }
}

impl FragmentRepr {
    /// Length of its header in a datagram sent at `sent`. Its bytes are not part of it.
    pub const fn header_len(&self, sent: Time) -> usize {
        let place = match self.part {
            Part::First { created } => sent.saturating_since(created).as_nanos(),
            Part::Rest { offset } => offset as u64,
        };
        1 + varint_len(self.frame as u64) + varint_len(place) + varint_len(self.length as u64)
    }

    /// Appends its header to `out`, for a datagram sent at `sent`. Panics on a haptic "fragment": samples are never split.
    pub fn emit(&self, sent: Time, out: &mut Vec<u8>) {
        assert!(self.medium != Medium::Haptic);
        let (first_bit, place) = match self.part {
            Part::First { created } => (FIRST_BIT, sent.saturating_since(created).as_nanos()),
            Part::Rest { offset } => (0, u64::from(offset)),
        };
        let last_bit = if self.last { LAST_BIT } else { 0 };
        out.push((self.medium as u8) << MEDIUM_SHIFT | first_bit | last_bit);
        put_varint(out, u64::from(self.frame));
        put_varint(out, place);
        put_varint(out, u64::from(self.length));
    }

    fn parse(sent: Time, cursor: &mut Cursor<'_>) -> Result<Self, MediaError> {
        let head = cursor.byte()?;
        let medium = match Medium::from_code(head >> MEDIUM_SHIFT) {
            Some(medium) if medium != Medium::Haptic && head & RESERVED_BITS == 0 => medium,
            _ => return Err(MediaError::Fragment(head)),
        };
        let (first, last) = (head & FIRST_BIT != 0, head & LAST_BIT != 0);
        let frame = cursor.varint_u32()?;
        let part = if first {
            Part::First { created: cursor.age(sent)? }
        } else {
            match cursor.varint_u32()? {
                0 => return Err(MediaError::Length),
                offset => Part::Rest { offset },
            }
        };
        let length = cursor.varint_u32()?;
        if part.offset().checked_add(length).is_none() || (length == 0 && !(first && last)) {
            return Err(MediaError::Length);
        }
        Ok(Self { medium, frame, part, length, last })
    }
}

/// A datagram whose every field has been checked, without copying.
///
/// ```
/// use taut_core::{Medium, Time};
/// use taut_wire::media::{FragmentRepr, Header, MediaView, Part, SampleRepr};
/// let sent = Time::from_nanos(5_000);
/// let mut bytes = Vec::new();
/// Header { packet_number: 1, sent, report: None, samples: 1, fragments: 1 }.emit(&mut bytes);
/// SampleRepr { sequence: 9, created: sent, payload: &[0; 12] }.emit(sent, &mut bytes);
/// let part = Part::First { created: Time::ZERO };
/// FragmentRepr { medium: Medium::Audio, frame: 3, part, length: 58, last: false }.emit(sent, &mut bytes);
/// // The 58 bytes of audio are zeros that nobody stored.
/// let view = MediaView::new_checked(&bytes, 58)?;
/// assert_eq!(view.samples().next().map(|sample| sample.sequence), Some(9));
/// assert_eq!(view.fragments().next().map(|(fragment, _)| fragment.length), Some(58));
/// # Ok::<(), taut_wire::media::MediaError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MediaView<'a> {
    data: &'a [u8],
    header: Header,
    samples_at: usize,
    fragments_at: usize,
    bytes_at: usize,
}

impl<'a> MediaView<'a> {
    /// Checks all fields of `data`, which `padding` zeros follow.
    ///
    /// # Errors
    /// See [`MediaError`]. No input panics.
    pub fn new_checked(data: &'a [u8], padding: u32) -> Result<Self, MediaError> {
        let mut cursor = Cursor { data, at: 0 };
        let header = Header::parse(&mut cursor)?;
        let samples_at = cursor.at;
        for _ in 0..header.samples {
            SampleRepr::parse(header.sent, &mut cursor)?;
        }
        let fragments_at = cursor.at;
        let mut promised: u64 = 0;
        for _ in 0..header.fragments {
            promised += u64::from(FragmentRepr::parse(header.sent, &mut cursor)?.length);
        }
        let present = (data.len() - cursor.at) as u64 + u64::from(padding);
        if promised > present {
            return Err(MediaError::Truncated);
        }
        Ok(Self { data, header, samples_at, fragments_at, bytes_at: cursor.at })
    }

    /// The header.
    pub const fn header(&self) -> Header {
        self.header
    }

    /// The samples, oldest first as far as the sender kept to that.
    pub fn samples(&self) -> impl Iterator<Item = SampleRepr<'a>> + use<'a> {
        let mut cursor = Cursor { data: self.data, at: self.samples_at };
        let sent = self.header.sent;
        (0..self.header.samples).map_while(move |_| SampleRepr::parse(sent, &mut cursor).ok())
    }

    /// The fragments, each with as many of its bytes as were stored; the rest are zeros.
    pub fn fragments(&self) -> impl Iterator<Item = (FragmentRepr, &'a [u8])> + use<'a> {
        let mut cursor = Cursor { data: self.data, at: self.fragments_at };
        let mut bytes = &self.data[self.bytes_at..];
        let sent = self.header.sent;
        (0..self.header.fragments).map_while(move |_| {
            let fragment = FragmentRepr::parse(sent, &mut cursor).ok()?;
            let (stored, rest) = bytes.split_at((fragment.length as usize).min(bytes.len()));
            bytes = rest;
            Some((fragment, stored))
        })
    }
}

struct Cursor<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], MediaError> {
        let taken = self.data.get(self.at..self.at + length).ok_or(MediaError::Truncated)?;
        self.at += length;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], MediaError> {
        let taken = self.data[self.at..].first_chunk().ok_or(MediaError::Truncated)?;
        self.at += N;
        Ok(*taken)
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, MediaError> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    fn u32(&mut self) -> Result<u32, MediaError> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    fn u64(&mut self) -> Result<u64, MediaError> {
        self.array().map(u64::from_be_bytes)
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64, MediaError> {
        // Most have one byte.
        match self.byte()? {
            byte if byte < 0x80 => Ok(u64::from(byte)),
            first => self.long_varint(first),
        }
    }

    fn long_varint(&mut self, first: u8) -> Result<u64, MediaError> {
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let low = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit; a last byte of 0 adds nothing.
            if (shift == 63 && low > 1) || byte == 0 {
                return Err(MediaError::Varint);
            }
            value |= low << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(MediaError::Varint)
    }

    #[inline]
    fn varint_u32(&mut self) -> Result<u32, MediaError> {
        u32::try_from(self.varint()?).map_err(|_| MediaError::Varint)
    }

    #[inline]
    fn age(&mut self, sent: Time) -> Result<Time, MediaError> {
        sent.as_nanos().checked_sub(self.varint()?).map(Time::from_nanos).ok_or(MediaError::Age)
    }
}

/// Bytes of a varint with this value: 1 to 10.
pub const fn varint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: [u8; 45] = [
        0xd2, 0x00, 0x01, 0x02, 0x03, 0, 0, 0, 0, 0x3b, 0x9a, 0xca,
        0x00, // header: 2 samples, 2 fragments, report
        0x00, 0x00, 0x00, 0x07, 0x81, 0x01, // report: packet 7, transit −65 ns
        0x00, 0x00, 0x00, 0x10, 0xc0, 0x84, 0x3d, 0x02, 0xaa, 0xbb, // sample 16, age 1 ms
        0x00, 0x00, 0x00, 0x11, 0x00, 0x00, // sample 17, age 0, no payload
        0x50, 0x05, 0x74, 0x2c, // audio frame 5, last, offset 116, 44 bytes
        0xa0, 0x00, 0xac, 0x02, 0x0e, // video frame 0, first, age 300 ns, 14 bytes
        0x99, // one stored byte of the audio
    ];

    fn golden_parts() -> (Header, [SampleRepr<'static>; 2], [FragmentRepr; 2]) {
        let sent = Time::from_nanos(1_000_000_000);
        let report = Some(Report { packet_number: 7, transit_ns: -65 });
        let header = Header { packet_number: 0x0001_0203, sent, report, samples: 2, fragments: 2 };
        let older =
            SampleRepr { sequence: 16, created: Time::from_nanos(999_000_000), payload: &[0xaa, 0xbb] };
        let newer = SampleRepr { sequence: 17, created: sent, payload: &[] };
        let part = Part::Rest { offset: 116 };
        let audio = FragmentRepr { medium: Medium::Audio, frame: 5, part, length: 44, last: true };
        let part = Part::First { created: Time::from_nanos(999_999_700) };
        let video = FragmentRepr { medium: Medium::Video, frame: 0, part, length: 14, last: false };
        (header, [older, newer], [audio, video])
    }

    fn emit((header, samples, fragments): (Header, [SampleRepr<'_>; 2], [FragmentRepr; 2])) -> Vec<u8> {
        let mut out = Vec::new();
        header.emit(&mut out);
        samples.iter().for_each(|sample| sample.emit(header.sent, &mut out));
        fragments.iter().for_each(|fragment| fragment.emit(header.sent, &mut out));
        out
    }

    #[test]
    fn golden_bytes_are_emitted_and_their_lengths_foretold() {
        let (header, samples, fragments) = golden_parts();
        let out = emit((header, samples, fragments));
        assert_eq!(out, GOLDEN[..44]);
        let foretold = header.buffer_len()
            + samples.iter().map(|sample| sample.buffer_len(header.sent)).sum::<usize>()
            + fragments.iter().map(|fragment| fragment.header_len(header.sent)).sum::<usize>();
        assert_eq!(out.len(), foretold);
    }

    #[test]
    fn golden_bytes_are_parsed() {
        let (header, samples, fragments) = golden_parts();
        let view = MediaView::new_checked(&GOLDEN, 57).unwrap();
        assert_eq!(view.header(), header);
        assert!(view.samples().eq(samples));
        let parsed: Vec<_> = view.fragments().collect();
        assert_eq!(parsed, [(fragments[0], &[0x99][..]), (fragments[1], &[][..])]);
    }

    #[test]
    fn a_missing_byte_anywhere_is_an_error() {
        assert_eq!(MediaView::new_checked(&GOLDEN, 56).unwrap_err(), MediaError::Truncated);
        for length in 0..44 {
            assert_eq!(
                MediaView::new_checked(&GOLDEN[..length], 0).unwrap_err(),
                MediaError::Truncated,
                "{length}"
            );
        }
    }

    #[test]
    fn each_wrong_field_has_its_error() {
        let spoilt = |at: usize, byte: u8| {
            let mut bytes = GOLDEN;
            bytes[at] = byte;
            MediaView::new_checked(&bytes, 57).unwrap_err()
        };
        assert_eq!(spoilt(0, 0x12), MediaError::Version);
        assert_eq!(spoilt(35, 0x10), MediaError::Fragment(0x10));
        assert_eq!(spoilt(35, 0x51), MediaError::Fragment(0x51));
        assert_eq!(spoilt(25, 0x00), MediaError::Varint);
        assert_eq!(spoilt(37, 0x00), MediaError::Length);
        assert_eq!(spoilt(38, 0x00), MediaError::Length);
        let mut early = GOLDEN;
        early[9..13].fill(0);
        assert_eq!(MediaView::new_checked(&early, 57).unwrap_err(), MediaError::Age);
    }

    #[test]
    fn varints_round_trip_at_their_edges() {
        for value in (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]).chain([u64::MAX]) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value));
            assert_eq!(Cursor { data: &out, at: 0 }.varint(), Ok(value));
        }
        assert_eq!(Cursor { data: &[0xff; 11], at: 0 }.varint(), Err(MediaError::Varint));
        for value in [0, 1, -1, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    /// Every mutation of a valid datagram either parses or is refused; xorshift, so that the test needs no dependency.
    #[test]
    fn no_bytes_panic() {
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for round in 0..200_000 {
            let mut bytes = GOLDEN.to_vec();
            bytes.truncate((next() % 60) as usize);
            for _ in 0..next() % 6 {
                let at = (next() % 45) as usize;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = next() as u8;
                }
            }
            let padding = if round % 2 == 0 { 0 } else { next() as u32 };
            if let Ok(view) = MediaView::new_checked(&bytes, padding) {
                assert_eq!(view.samples().count(), usize::from(view.header().samples));
                assert_eq!(view.fragments().count(), usize::from(view.header().fragments));
            }
        }
    }
}
