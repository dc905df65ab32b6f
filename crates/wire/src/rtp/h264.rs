//! H.264 in RTP (RFC 6184), packetisation mode 1: single NAL units, STAP-A and FU-A.
//!
//! ```text
//!  0 1 2 3 4 5 6 7            0 1 2 3 4 5 6 7
//! +-+-+-+-+-+-+-+-+          +-+-+-+-+-+-+-+-+
//! |F|NRI|  type   |  FU-A: + |S|E|R|  type   | + a piece       STAP-A: + length (16), NAL unit, length, …
//! +-+-+-+-+-+-+-+-+          +-+-+-+-+-+-+-+-+
//! ```
//!
//! ```
//! use taut_wire::rtp::h264::{Fragment, NalHeader, Payload, nal_type};
//! let header = NalHeader { ref_idc: 3, kind: nal_type::IDR };
//! let mut bytes = Vec::new();
//! Fragment { header, start: true, end: false, data: b"slice" }.emit(&mut bytes);
//! assert_eq!(&bytes[..2], [0x7c, 0x85]);
//! assert!(matches!(Payload::parse(&bytes)?, Payload::FuA(fragment) if fragment.header == header));
//! # Ok::<(), taut_wire::rtp::h264::Error>(())
//! ```

use super::FrameKind;

/// Types of NAL units (ITU-T H.264 table 7-1; RFC 6184 table 1 from 24 on).
pub mod nal_type {
    /// A slice of a picture that depends on others.
    pub const SLICE: u8 = 1;
    /// A slice of a picture that depends on none: instantaneous decoding refresh.
    pub const IDR: u8 = 5;
    /// A sequence parameter set. It comes before an IDR picture.
    pub const SPS: u8 = 7;
    /// A picture parameter set.
    pub const PPS: u8 = 8;
    /// Several NAL units in one packet.
    pub const STAP_A: u8 = 24;
    /// A piece of a NAL unit.
    pub const FU_A: u8 = 28;
}

/// The first byte of a NAL unit (RFC 6184 section 1.3). F, the sign of an error, must be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NalHeader {
    /// NRI: 0 when no other picture refers to this one; below 4.
    pub ref_idc: u8,
    /// The type, below 32.
    pub kind: u8,
}

/// What an RTP payload holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// One NAL unit, its header included (section 5.6).
    Single(&'a [u8]),
    /// Several (section 5.7.1).
    StapA(NalUnits<'a>),
    /// A piece of one (section 5.8).
    FuA(Fragment<'a>),
}

/// The NAL units of a STAP-A, whose lengths were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NalUnits<'a>(&'a [u8]);

/// A piece of a NAL unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// The header of the whole unit.
    pub header: NalHeader,
    /// S: the first piece.
    pub start: bool,
    /// E: the last piece.
    pub end: bool,
    /// The bytes, of which there is at least one; the unit's header is not among them.
    pub data: &'a [u8],
}

/// Why bytes are no payload of H.264.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It ends too early.
    #[error("an H.264 payload of {0} bytes ends too early")]
    Truncated(usize),
    /// F is set: bits are wrong.
    #[error("the forbidden bit of a NAL unit is set")]
    Forbidden,
    /// A type that packetisation mode 1 does not have, or that must not be inside another.
    #[error("NAL unit type {0} does not belong here in packetisation mode 1")]
    Type(u8),
    /// A first piece that is also the last (section 5.8).
    #[error("a fragment that is both the first and the last")]
    WholeFragment,
}

impl NalHeader {
    /// Reads the first byte of a NAL unit.
    ///
    /// # Errors
    /// [`Error::Forbidden`].
    pub const fn parse(byte: u8) -> Result<Self, Error> {
        if byte & 0x80 != 0 {
            return Err(Error::Forbidden);
        }
        Ok(Self { ref_idc: byte >> 5, kind: byte & 0x1f })
    }

    /// The byte.
    pub const fn byte(self) -> u8 {
        (self.ref_idc & 3) << 5 | self.kind & 0x1f
    }
}

impl<'a> Payload<'a> {
    /// Reads a payload.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn parse(payload: &'a [u8]) -> Result<Self, Error> {
        let truncated = Error::Truncated(payload.len());
        let (&first, rest) = payload.split_first().ok_or(truncated)?;
        let header = NalHeader::parse(first)?;
        match header.kind {
            nal_type::STAP_A => {
                NalUnits::checked(rest, truncated)?;
                Ok(Self::StapA(NalUnits(rest)))
            }
            nal_type::FU_A => {
                let (&flags, data) = rest.split_first().ok_or(truncated)?;
                let (start, end) = (flags & 0x80 != 0, flags & 0x40 != 0);
                if data.is_empty() {
                    return Err(truncated);
                }
                if start && end {
                    return Err(Error::WholeFragment);
                }
                let kind = plain(flags & 0x1f)?;
                Ok(Self::FuA(Fragment { header: NalHeader { kind, ..header }, start, end, data }))
            }
            kind => plain(kind).map(|_| Self::Single(payload)),
        }
    }
}

/// A type that can stand for itself.
const fn plain(kind: u8) -> Result<u8, Error> {
    if matches!(kind, 1..=23) { Ok(kind) } else { Err(Error::Type(kind)) }
}

impl NalUnits<'_> {
    fn checked(mut rest: &[u8], truncated: Error) -> Result<(), Error> {
        if rest.is_empty() {
            return Err(truncated);
        }
        while !rest.is_empty() {
            let (unit, after) = split_unit(rest).ok_or(truncated)?;
            plain(NalHeader::parse(*unit.first().ok_or(truncated)?)?.kind)?;
            rest = after;
        }
        Ok(())
    }

    /// Appends a STAP-A of these units. Its NRI is the highest of theirs (section 5.7).
    ///
    /// # Panics
    /// When a unit is empty or longer than 65535 bytes.
    pub fn emit(units: &[&[u8]], buffer: &mut Vec<u8>) {
        let ref_idc = units.iter().map(|unit| unit[0] >> 5 & 3).max().unwrap_or(0);
        buffer.push(NalHeader { ref_idc, kind: nal_type::STAP_A }.byte());
        for unit in units {
            let len = u16::try_from(unit.len()).expect("a unit of at most 65535 bytes");
            buffer.extend_from_slice(&len.to_be_bytes());
            buffer.extend_from_slice(unit);
        }
    }
}

/// One by one, headers included.
impl<'a> Iterator for NalUnits<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (unit, rest) = split_unit(self.0)?;
        self.0 = rest;
        Some(unit)
    }
}

fn split_unit(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

impl Fragment<'_> {
    /// Appends the payload: FU indicator, FU header, data.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.push(NalHeader { kind: nal_type::FU_A, ..self.header }.byte());
        buffer.push(u8::from(self.start) << 7 | u8::from(self.end) << 6 | self.header.kind & 0x1f);
        buffer.extend_from_slice(self.data);
    }
}

/// The NAL units of an access unit in a byte stream, as encoders write it (ITU-T H.264 annex B): each behind a start code
/// 00 00 01, before which there may be more zeros.
pub fn annex_b_units(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let code_from = |from: usize| {
        let found = stream[from..].windows(3).position(|window| window == [0, 0, 1]);
        found.map(|position| from + position)
    };
    let mut next = code_from(0).map(|code| code + 3);
    std::iter::from_fn(move || {
        let begin = next?;
        let code = code_from(begin);
        next = code.map(|code| code + 3);
        let unit = &stream[begin..code.unwrap_or(stream.len())];
        // A NAL unit never ends with a zero: those belong to the next start code.
        let len = unit.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        Some(&unit[..len])
    })
    .filter(|unit| !unit.is_empty())
}

/// Of what kind the frame is whose first packet has this payload: a key frame begins with an IDR slice or with the sequence
/// parameter set that goes before one. For a STAP-A its first unit decides. What cannot be read, and whatever is not a
/// slice, is taken for a delta frame.
pub fn kind(payload: &[u8]) -> FrameKind {
    let at = match payload.first().map(|byte| byte & 0x1f) {
        Some(nal_type::STAP_A) => [3, 3],
        // The indicator has the NRI of the unit, the FU header its type.
        Some(nal_type::FU_A) => [0, 1],
        _ => [0, 0],
    };
    let [Some(&indicator), Some(&header)] = at.map(|at| payload.get(at)) else { return FrameKind::Delta };
    match header & 0x1f {
        nal_type::IDR | nal_type::SPS => FrameKind::Key,
        // Slices, in data partitions or not.
        1..=4 if indicator >> 5 & 3 == 0 => FrameKind::Disposable,
        _ => FrameKind::Delta,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPS: &[u8] = &[0x67, 0x42, 0xc0, 0x1f];
    const PPS: &[u8] = &[0x68, 0xce];

    #[test]
    fn golden_bytes_of_sections_5_6_to_5_8_are_read_and_written() {
        let stap = [0x78, 0, 4, 0x67, 0x42, 0xc0, 0x1f, 0, 2, 0x68, 0xce];
        let Ok(Payload::StapA(units)) = Payload::parse(&stap) else { panic!("a STAP-A") };
        assert!(units.eq([SPS, PPS]));
        let mut bytes = Vec::new();
        NalUnits::emit(&[SPS, PPS], &mut bytes);
        assert_eq!(bytes, stap);

        let fragment = Fragment {
            header: NalHeader { ref_idc: 2, kind: nal_type::SLICE },
            start: false,
            end: true,
            data: &[1, 2, 3],
        };
        let mut bytes = Vec::new();
        fragment.emit(&mut bytes);
        assert_eq!(bytes, [0x5c, 0x41, 1, 2, 3]);
        assert_eq!(Payload::parse(&bytes), Ok(Payload::FuA(fragment)));
        assert_eq!(Payload::parse(SPS), Ok(Payload::Single(SPS)));
    }

    #[test]
    fn what_is_malformed_is_refused_with_the_reason() {
        let cases: [(&[u8], Error); 11] = [
            (&[], Error::Truncated(0)),
            (&[0xe5, 1], Error::Forbidden),
            (&[0x60], Error::Type(0)),
            (&[0x79, 0, 0], Error::Type(25)), // STAP-B: mode 2
            (&[0x78], Error::Truncated(1)),
            (&[0x78, 0, 9, 0x67], Error::Truncated(4)),
            (&[0x78, 0, 0], Error::Truncated(3)),
            (&[0x78, 0, 1, 0x78], Error::Type(24)),
            (&[0x7c], Error::Truncated(1)),
            (&[0x7c, 0x85], Error::Truncated(2)),
            (&[0x7c, 0xc5, 1], Error::WholeFragment),
        ];
        for (payload, error) in cases {
            assert_eq!(Payload::parse(payload), Err(error), "{payload:02x?}");
        }
    }

    #[test]
    fn a_key_frame_is_told_by_an_idr_slice_or_the_parameters_before_it() {
        let cases: [(&[u8], FrameKind); 10] = [
            (&[0x65, 0], FrameKind::Key),
            (SPS, FrameKind::Key),
            (&[0x78, 0, 4, 0x67, 0x42, 0xc0, 0x1f], FrameKind::Key),
            (&[0x7c, 0x85, 1], FrameKind::Key),
            (&[0x41, 0], FrameKind::Delta),
            (&[0x5c, 0x81, 1], FrameKind::Delta),
            (&[0x01, 0], FrameKind::Disposable),
            (&[0x1c, 0x81, 1], FrameKind::Disposable),
            (&[0x09, 0xf0], FrameKind::Delta), // an access unit delimiter says nothing
            (&[], FrameKind::Delta),
        ];
        for (payload, expected) in cases {
            assert_eq!(kind(payload), expected, "{payload:02x?}");
        }
    }

    #[test]
    fn a_byte_stream_is_cut_at_its_start_codes() {
        let stream = [0, 0, 0, 1, 0x67, 0x42, 0, 0, 1, 0x68, 0xce, 0, 0, 0, 1, 0x65, 0x88];
        let units: Vec<&[u8]> = annex_b_units(&stream).collect();
        assert_eq!(units, [&[0x67, 0x42][..], &[0x68, 0xce], &[0x65, 0x88]]);
        assert_eq!(annex_b_units(&[1, 2, 3]).count(), 0);
        assert_eq!(annex_b_units(&[0, 0, 1]).count(), 0);
    }
}
