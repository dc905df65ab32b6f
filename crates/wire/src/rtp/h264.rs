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

/// Units of a STAP-A that [`told`] looks at.
pub const SCANNED_UNITS: usize = 4;
/// Bytes of one of them at most.
pub const SCANNED_BYTES: usize = 2_047;

/// Of what kind the frame is to which this payload belongs, as far as the payload tells: by its first slice, or by a sequence
/// parameter set, which goes before an IDR picture. `None` when there is neither: an access unit delimiter, which is always
/// first where it is used (ITU-T H.264 section 7.4.1.2.3), supplemental information or a picture parameter set says nothing
/// of what follows. What cannot be read is taken for a delta frame.
pub fn told(payload: &[u8]) -> Option<FrameKind> {
    match payload.first().map(|byte| byte & 0x1f) {
        Some(nal_type::STAP_A) => told_by_units(&payload[1..]),
        // The indicator has the NRI of the unit, the FU header its type.
        Some(nal_type::FU_A) => match payload.get(1) {
            Some(&header) => told_by_unit(payload[0], header),
            None => Some(FrameKind::Delta),
        },
        Some(_) => told_by_unit(payload[0], payload[0]),
        None => Some(FrameKind::Delta),
    }
}

/// The first unit of a STAP-A that tells decides.
fn told_by_units(mut units: &[u8]) -> Option<FrameKind> {
    for _ in 0..SCANNED_UNITS {
        if units.is_empty() {
            return None;
        }
        let Some(&[high, low, unit]) = units.first_chunk() else { return Some(FrameKind::Delta) };
        let told = told_by_unit(unit, unit);
        let length = usize::from(u16::from_be_bytes([high, low]));
        if told.is_some() {
            return told;
        }
        if length > SCANNED_BYTES {
            return Some(FrameKind::Delta);
        }
        units = units.get(2 + length..).unwrap_or_default();
    }
    None
}

const fn told_by_unit(indicator: u8, header: u8) -> Option<FrameKind> {
    match header & 0x1f {
        nal_type::IDR | nal_type::SPS => Some(FrameKind::Key),
        // Slices, in data partitions or not.
        1..=4 if indicator & 0x60 == 0 => Some(FrameKind::Disposable),
        1..=4 => Some(FrameKind::Delta),
        _ => None,
    }
}

/// As [`told`]; what tells nothing is taken for a delta frame.
pub fn kind(payload: &[u8]) -> FrameKind {
    told(payload).unwrap_or_default()
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
        let cases: [(&[u8], Option<FrameKind>); 9] = [
            (&[0x65, 0], Some(FrameKind::Key)),
            (SPS, Some(FrameKind::Key)),
            (&[0x78, 0, 4, 0x67, 0x42, 0xc0, 0x1f], Some(FrameKind::Key)),
            (&[0x7c, 0x85, 1], Some(FrameKind::Key)),
            (&[0x41, 0], Some(FrameKind::Delta)),
            (&[0x5c, 0x81, 1], Some(FrameKind::Delta)),
            (&[0x01, 0], Some(FrameKind::Disposable)),
            (&[0x1c, 0x81, 1], Some(FrameKind::Disposable)),
            (&[], Some(FrameKind::Delta)),
        ];
        for (payload, expected) in cases {
            assert_eq!(told(payload), expected, "{payload:02x?}");
        }
    }

    /// Delimiter, supplemental information and picture parameters may go before any slice (ITU-T H.264 7.4.1.2.3).
    #[test]
    fn what_goes_before_a_slice_tells_nothing_and_hides_nothing() {
        for (unit, name) in [([0x09, 0xf0], "AUD"), ([0x06, 5], "SEI"), ([0x68, 0xce], "PPS")] {
            assert_eq!((told(&unit), kind(&unit)), (None, FrameKind::Delta), "{name}");
            let mut stap = vec![0x78, 0, 2];
            stap.extend(unit);
            assert_eq!(told(&stap), None, "{name}");
            for (slice, expected) in
                [(0x65, FrameKind::Key), (0x41, FrameKind::Delta), (0x01, FrameKind::Disposable)]
            {
                let stap = [&stap[..], &[0, 1, slice]].concat();
                assert_eq!(told(&stap), Some(expected), "{name}");
            }
        }
    }

    #[test]
    fn no_more_of_a_stap_a_is_looked_at_than_is_said() {
        let stap = |delimiters: usize| {
            let before = [0, 2, 0x09, 0xf0].repeat(delimiters);
            [&[0x78][..], &before, &[0, 1, 0x65]].concat()
        };
        assert_eq!(told(&stap(SCANNED_UNITS - 1)), Some(FrameKind::Key));
        assert_eq!(told(&stap(SCANNED_UNITS)), None);
        let long = |length: usize| {
            let header = [0x78, (length >> 8) as u8, length as u8, 0x06];
            [&header[..], &vec![0; length - 1], &[0, 1, 0x65]].concat()
        };
        assert_eq!(told(&long(SCANNED_BYTES)), Some(FrameKind::Key));
        assert_eq!(told(&long(SCANNED_BYTES + 1)), Some(FrameKind::Delta));
        assert_eq!(told(&[0x78]), None);
        assert_eq!(told(&[0x78, 0, 2]), Some(FrameKind::Delta), "it ends too early");
        assert_eq!(told(&[0x78, 0, 9, 0x06]), None, "a unit longer than the packet");
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
