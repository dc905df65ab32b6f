//! RTP packets (RFC 3550 section 5.1), their header extension, and the payload formats of VP8 ([`vp8`], RFC 7741) and
//! H.264 ([`h264`], RFC 6184); and RTCP's feedback for congestion control ([`ccfb`], RFC 8888).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---+-+-+-------+-+-------------+-------------------------------+
//! |V=2|P|X|  CC   |M| payload type|        sequence number        |
//! +---+-+-+-------+-+-------------+-------------------------------+
//! |                           timestamp                           |
//! +---------------------------------------------------------------+
//! |            synchronisation source (SSRC) identifier           |
//! +---------------------------------------------------------------+
//! |        contributing sources (CSRC), CC of them, 0 to 15       |
//! +-------------------------------+-------------------------------+
//! |      defined by profile       |   length in words (X = 1)     |
//! +-------------------------------+-------------------------------+
//! ```
//!
//! In video, all packets of a frame have the same timestamp and only the last one has the marker M set.
//!
//! ```
//! use taut_wire::rtp::{Repr, View};
//! let header = Repr { marker: true, payload_type: 96, sequence: 7, timestamp: 3000, ssrc: 0xcafe, ..Repr::default() };
//! let mut bytes = Vec::new();
//! header.emit(&mut bytes);
//! bytes.extend_from_slice(b"picture");
//! let view = View::new_checked(&bytes)?;
//! assert_eq!(view.repr(), header);
//! assert_eq!(view.payload(), b"picture");
//! # Ok::<(), taut_wire::rtp::Error>(())
//! ```

pub mod ccfb;
pub mod h264;
mod video;
pub mod vp8;
mod vp8_header;

use std::ops::Range;

pub use video::{Codec, FrameKind};

/// The version of RTP that there is.
pub const VERSION: u8 = 2;
/// Bytes of a header without contributing sources and extension.
pub const HEADER_LEN: usize = 12;
/// Ticks of the timestamp per second for every video format (RFC 7741 section 4.1, RFC 6184 section 5.1).
pub const VIDEO_CLOCK_HZ: u32 = 90_000;

/// Where the fields are.
mod field {
    use super::Range;

    pub(super) const FLAGS: usize = 0;
    pub(super) const MARKER_TYPE: usize = 1;
    pub(super) const SEQUENCE: Range<usize> = 2..4;
    pub(super) const TIMESTAMP: Range<usize> = 4..8;
    pub(super) const SSRC: Range<usize> = 8..12;
}

/// What the header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr<'a> {
    /// In video: the last packet of a frame.
    pub marker: bool,
    /// What the payload is, below 128; 96 to 127 are agreed on by session (RFC 3551 section 6).
    pub payload_type: u8,
    /// Counts packets.
    pub sequence: u16,
    /// When the first byte of the payload was sampled, in ticks of its clock.
    pub timestamp: u32,
    /// Which stream.
    pub ssrc: u32,
    /// The streams that a mixer made this one of, at most 15 of four bytes each.
    pub csrc: &'a [u8],
    /// An extension of the header (section 5.3.1).
    pub extension: Option<Extension<'a>>,
    /// Bytes of padding at the end, 0 for none. The last one of them tells how many they are.
    pub padding: u8,
}

/// An extension of the header (RFC 3550 section 5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Defined by the profile: 0xBEDE for the one-byte headers of RFC 8285.
    pub profile: u16,
    /// Whole words of four bytes.
    pub data: &'a [u8],
}

/// Why bytes are not an RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Fewer bytes than the header has.
    #[error("a header of {needed} bytes does not fit in {found}")]
    Truncated {
        /// Bytes of the header.
        needed: usize,
        /// Bytes there are.
        found: usize,
    },
    /// Another version.
    #[error("RTP version {0}; there is only 2")]
    Version(u8),
    /// No padding although there should be, or more than there are bytes.
    #[error("padding of {padding} bytes in a payload of {payload}")]
    Padding {
        /// What the last byte says.
        padding: u8,
        /// Bytes after the header.
        payload: usize,
    },
}

/// A packet whose header and padding were checked.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
    repr: Repr<'a>,
    header_len: usize,
}

impl<'a> View<'a> {
    /// Reads a packet.
    ///
    /// # Errors
    /// When the bytes are not an RTP packet.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Error> {
        let found = bytes.len();
        let within = |needed| if found < needed { Err(Error::Truncated { needed, found }) } else { Ok(()) };
        within(HEADER_LEN)?;
        let flags = bytes[field::FLAGS];
        if flags >> 6 != VERSION {
            return Err(Error::Version(flags >> 6));
        }
        let sources_end = HEADER_LEN + 4 * usize::from(flags & 0x0f);
        within(sources_end)?;
        let mut header_len = sources_end;
        let mut extension = None;
        if flags & 0x10 != 0 {
            within(sources_end + 4)?;
            let words = u16_at(bytes, sources_end + 2..sources_end + 4);
            header_len += 4 + 4 * usize::from(words);
            within(header_len)?;
            let profile = u16_at(bytes, sources_end..sources_end + 2);
            extension = Some(Extension { profile, data: &bytes[sources_end + 4..header_len] });
        }
        let mut padding = 0;
        if flags & 0x20 != 0 {
            let payload = found - header_len;
            padding = if payload == 0 { 0 } else { bytes[found - 1] };
            if padding == 0 || usize::from(padding) > payload {
                return Err(Error::Padding { padding, payload });
            }
        }
        let repr = Repr {
            marker: bytes[field::MARKER_TYPE] & 0x80 != 0,
            payload_type: bytes[field::MARKER_TYPE] & 0x7f,
            sequence: u16_at(bytes, field::SEQUENCE),
            timestamp: u32_at(bytes, field::TIMESTAMP),
            ssrc: u32_at(bytes, field::SSRC),
            csrc: &bytes[HEADER_LEN..sources_end],
            extension,
            padding,
        };
        Ok(Self { bytes, repr, header_len })
    }

    /// The header.
    pub const fn repr(&self) -> Repr<'a> {
        self.repr
    }

    /// What is carried, without padding.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len..self.bytes.len() - usize::from(self.repr.padding)]
    }
}

impl Repr<'_> {
    /// Bytes that [`Repr::emit`] appends.
    pub fn len(&self) -> usize {
        HEADER_LEN + self.csrc.len() + self.extension.map_or(0, |extension| 4 + extension.data.len())
    }

    /// A header is never empty.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Appends the header. The payload follows, then the padding.
    ///
    /// # Panics
    /// With a payload type above 127, contributing sources that are too many or no whole ones, or an extension that is not whole words or has more than 65535 of them.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        assert!(self.payload_type < 0x80, "payload types are 0 to 127");
        assert!(self.csrc.len() <= 60 && self.csrc.len().is_multiple_of(4), "sources have four bytes each");
        let flags = VERSION << 6
            | u8::from(self.padding > 0) << 5
            | u8::from(self.extension.is_some()) << 4
            | (self.csrc.len() / 4) as u8;
        buffer.push(flags);
        buffer.push(u8::from(self.marker) << 7 | self.payload_type);
        buffer.extend_from_slice(&self.sequence.to_be_bytes());
        buffer.extend_from_slice(&self.timestamp.to_be_bytes());
        buffer.extend_from_slice(&self.ssrc.to_be_bytes());
        buffer.extend_from_slice(self.csrc);
        if let Some(Extension { profile, data }) = self.extension {
            assert!(data.len().is_multiple_of(4), "an extension is made of words of four bytes");
            let words = u16::try_from(data.len() / 4).expect("an extension of at most 65535 words");
            buffer.extend_from_slice(&profile.to_be_bytes());
            buffer.extend_from_slice(&words.to_be_bytes());
            buffer.extend_from_slice(data);
        }
    }
}

fn u16_at(bytes: &[u8], at: Range<usize>) -> u16 {
    u16::from_be_bytes([bytes[at.start], bytes[at.start + 1]])
}

fn u32_at(bytes: &[u8], at: Range<usize>) -> u32 {
    u32::from(u16_at(bytes, at.start..at.start + 2)) << 16 | u32::from(u16_at(bytes, at.start + 2..at.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two contributing sources, an extension of RFC 8285 with one element, three bytes of padding.
    const GOLDEN: [u8; 37] = [
        0xb2, 0xe0, 0x12, 0x34, 0x00, 0x01, 0x5f, 0x90, 0xde, 0xad, 0xbe,
        0xef, // V=2, P, X, CC=2; M, 96
        0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x02, // contributing sources 1 and 2
        0xbe, 0xde, 0x00, 0x01, 0x10, 0xff, 0x00, 0x00, // one word of extension
        b'v', b'i', b'd', b'e', b'o', b'!', 0, 0, 3,
    ];

    fn golden() -> Repr<'static> {
        Repr {
            marker: true,
            payload_type: 96,
            sequence: 0x1234,
            timestamp: 90_000,
            ssrc: 0xdead_beef,
            csrc: &[0, 0, 0, 1, 0, 0, 0, 2],
            extension: Some(Extension { profile: 0xbede, data: &[0x10, 0xff, 0, 0] }),
            padding: 3,
        }
    }

    #[test]
    fn golden_bytes_of_section_5_1_are_read_and_written() {
        let view = View::new_checked(&GOLDEN).unwrap();
        assert_eq!(view.repr(), golden());
        assert_eq!(view.payload(), b"video!");
        let mut bytes = Vec::new();
        golden().emit(&mut bytes);
        assert_eq!(bytes.len(), golden().len());
        assert_eq!(bytes, GOLDEN[..28]);
    }

    #[test]
    fn every_truncation_of_the_header_is_refused() {
        for len in 0..28 {
            assert!(View::new_checked(&GOLDEN[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn what_is_not_rtp_is_refused_with_the_reason() {
        let mut other = GOLDEN;
        other[0] = 0x40;
        assert_eq!(View::new_checked(&other).unwrap_err(), Error::Version(1));
        for padding in [0, 10, 255] {
            let mut other = GOLDEN;
            other[36] = padding;
            let error = View::new_checked(&other).unwrap_err();
            assert_eq!(error, Error::Padding { padding, payload: 9 });
        }
        let mut bare = [0; 12];
        bare[0] = 0xa0;
        assert_eq!(View::new_checked(&bare).unwrap_err(), Error::Padding { padding: 0, payload: 0 });
    }
}
