//! The parts of a datagram, parsed and emitted.

use taut_core::{Medium, Time};

use super::varint::{Cursor, put_varint, unzigzag, varint_len, zigzag};
use super::{MAX_FRAGMENTS, MAX_PAYLOAD, MAX_SAMPLES, MediaError};

const VERSION_BIT: u8 = 0x80;
const REPORT_BIT: u8 = 0x40;
const MEDIUM_SHIFT: u32 = 6;
const FIRST_BIT: u8 = 0x20;
const LAST_BIT: u8 = 0x10;
const RESERVED_BITS: u8 = 0x0f;

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

    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Self, MediaError> {
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

    pub(super) fn parse(sent: Time, cursor: &mut Cursor<'a>) -> Result<Self, MediaError> {
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

    pub(super) fn parse(sent: Time, cursor: &mut Cursor<'_>) -> Result<Self, MediaError> {
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
