//! TCP segment headers (RFC 9293 section 3.1) with the options that a modern sender uses.
//!
//! ```
//! use taut_wire::tcp::{Flags, Repr};
//! let ack = Repr { sequence: 7, acknowledgement: 9, flags: Flags::ACK, window: 500, ..Repr::default() };
//! let mut bytes = Vec::new();
//! ack.emit(&mut bytes);
//! assert_eq!(bytes.len(), 20);
//! assert_eq!(Repr::parse(&bytes), Ok((ack, 20)));
//! ```
//!
//! The checksum is not looked at by [`Repr::parse`] and emitted as 0: in the simulator nothing corrupts a header
//! unnoticed.

mod field;
mod options;

use std::ops::BitOr;

use field::{put_u16, put_u32, u16_at, u32_at};
pub use options::{Options, SackBlock, SackBlocks, Timestamps};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of the longest header: the data offset counts to 15 words.
pub const MAX_HEADER_LEN: usize = 60;

/// What the header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Sequence number of the first byte of data, or of SYN.
    pub sequence: u32,
    /// The next sequence number that is expected; means something with [`Flags::ACK`] only.
    pub acknowledgement: u32,
    /// Control bits.
    pub flags: Flags,
    /// Receive window, to be shifted by the scale that the SYN announced (RFC 7323 section 2).
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

/// Control bits (RFC 9293 section 3.1, RFC 3168 section 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

/// Why bytes are not a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Fewer bytes than the header has.
    #[error("a header of {needed} bytes does not fit in {have}")]
    Truncated {
        /// Bytes of the header.
        needed: usize,
        /// Bytes there are.
        have: usize,
    },
    /// A data offset of less than five words.
    #[error("a header of {0} bytes is shorter than the fixed part")]
    BadDataOffset(usize),
    /// An option whose length is not one that its kind can have, or that runs out of the header.
    #[error("option {kind} has a wrong length")]
    BadOption {
        /// Its kind.
        kind: u8,
    },
}

impl Repr {
    /// Reads a header. Gives its length too: data follows.
    ///
    /// # Errors
    /// See [`ParseError`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        let have = bytes.len();
        if have < HEADER_LEN {
            return Err(ParseError::Truncated { needed: HEADER_LEN, have });
        }
        let header_len = usize::from(bytes[field::DATA_OFFSET] >> 4) * 4;
        if header_len < HEADER_LEN {
            return Err(ParseError::BadDataOffset(header_len));
        }
        let options =
            bytes.get(HEADER_LEN..header_len).ok_or(ParseError::Truncated { needed: header_len, have })?;
        let repr = Self {
            source_port: u16_at(bytes, field::SOURCE_PORT),
            destination_port: u16_at(bytes, field::DESTINATION_PORT),
            sequence: u32_at(bytes, field::SEQUENCE),
            acknowledgement: u32_at(bytes, field::ACKNOWLEDGEMENT),
            flags: Flags(bytes[field::FLAGS]),
            window: u16_at(bytes, field::WINDOW),
            urgent: u16_at(bytes, field::URGENT),
            options: Options::parse(options)?,
        };
        Ok((repr, header_len))
    }

    /// Bytes that [`Repr::emit`] appends.
    pub fn len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// A header is never empty.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Appends the header, checksum 0.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        let mut fixed = [0; HEADER_LEN];
        put_u16(&mut fixed, field::SOURCE_PORT, self.source_port);
        put_u16(&mut fixed, field::DESTINATION_PORT, self.destination_port);
        put_u32(&mut fixed, field::SEQUENCE, self.sequence);
        put_u32(&mut fixed, field::ACKNOWLEDGEMENT, self.acknowledgement);
        fixed[field::DATA_OFFSET] = ((self.len() / 4) as u8) << 4;
        fixed[field::FLAGS] = self.flags.0;
        put_u16(&mut fixed, field::WINDOW, self.window);
        put_u16(&mut fixed, field::URGENT, self.urgent);
        buffer.extend_from_slice(&fixed);
        self.options.emit(buffer);
    }
}

impl Flags {
    /// No more data will come.
    pub const FIN: Self = Self(0x01);
    /// The first sequence number.
    pub const SYN: Self = Self(0x02);
    /// The connection is gone.
    pub const RST: Self = Self(0x04);
    /// The sender has nothing more to say for now.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement means something.
    pub const ACK: Self = Self(0x10);

    /// Are all of these set?
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, rhs: Self) -> Self {
        Self(self.0 | rhs.0)
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn syn() -> (Repr, Vec<u8>) {
        let repr = Repr {
            source_port: 0x1234,
            destination_port: 80,
            sequence: 0xdead_beef,
            flags: Flags::SYN,
            window: 0xffff,
            options: Options {
                mss: Some(1460),
                window_scale: Some(7),
                sack_permitted: true,
                timestamps: Some(Timestamps { value: 0x0102_0304, echo: 0 }),
                ..Options::default()
            },
            ..Repr::default()
        };
        let bytes = vec![
            0x12, 0x34, 0x00, 0x50, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0, 0xb0, 0x02, 0xff, 0xff, 0, 0, 0,
            0, // fixed
            2, 4, 0x05, 0xb4, 1, 3, 3, 7, 1, 1, 4, 2, 1, 1, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0,
        ];
        (repr, bytes)
    }

    fn sack() -> (Repr, Vec<u8>) {
        let blocks = [SackBlock { left: 0xffff_fff0, right: 0x10 }, SackBlock { left: 0x30, right: 0x40 }];
        let repr = Repr {
            source_port: 1,
            destination_port: 2,
            sequence: 3,
            acknowledgement: 4,
            flags: Flags::ACK | Flags::PSH,
            window: 5,
            urgent: 0,
            options: Options { sack: blocks.into_iter().collect(), ..Options::default() },
        };
        let bytes = vec![
            0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0xa0, 0x18, 0, 5, 0, 0, 0, 0, // fixed
            1, 1, 5, 18, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 0x10, 0, 0, 0, 0x30, 0, 0, 0, 0x40,
        ];
        (repr, bytes)
    }

    #[test]
    fn golden_bytes_both_ways() {
        for (repr, bytes) in [syn(), sack()] {
            let mut emitted = Vec::new();
            repr.emit(&mut emitted);
            assert_eq!(emitted, bytes);
            assert_eq!(repr.len(), bytes.len());
            assert_eq!(Repr::parse(&bytes), Ok((repr, bytes.len())));
        }
    }

    #[test]
    fn three_sack_blocks_fit_beside_timestamps_and_four_without() {
        let sack: SackBlocks = (0..4).map(|i| SackBlock { left: 10 * i, right: 10 * i + 5 }).collect();
        let mut options = Options { sack, ..Options::default() };
        assert_eq!(options.len(), 36);
        options.timestamps = Some(Timestamps::default());
        assert_eq!(options.len(), 40);
        let mut bytes = Vec::new();
        Repr { options, ..Repr::default() }.emit(&mut bytes);
        assert_eq!(bytes.len(), MAX_HEADER_LEN);
        assert_eq!(Repr::parse(&bytes).unwrap().0.options.sack.as_slice().len(), 3);
    }

    #[test]
    fn foreign_options_are_skipped_and_broken_ones_refused() {
        let with = |options: &[u8]| {
            let mut bytes = vec![0; HEADER_LEN];
            bytes[field::DATA_OFFSET] = ((5 + options.len() / 4) as u8) << 4;
            bytes.extend_from_slice(options);
            Repr::parse(&bytes)
        };
        // Kind 34 is TCP Fast Open; what follows END is not read.
        assert_eq!(with(&[34, 4, 9, 9, 2, 4, 1, 0, 0, 2, 9, 9]).unwrap().0.options.mss, Some(256));
        assert_eq!(with(&[2, 3, 0, 1]), Err(ParseError::BadOption { kind: 2 }));
        assert_eq!(with(&[34, 1, 1, 1]), Err(ParseError::BadOption { kind: 34 }));
        assert_eq!(with(&[34, 5, 1, 1]), Err(ParseError::BadOption { kind: 34 }));
        assert_eq!(with(&[1, 1, 1, 5]), Err(ParseError::BadOption { kind: 5 }));
        assert_eq!(Repr::parse(&[0; 19]), Err(ParseError::Truncated { needed: 20, have: 19 }));
        assert_eq!(Repr::parse(&[0; 20]), Err(ParseError::BadDataOffset(0)));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        // Every value of the two bytes that steer the parser, over a body that looks like options.
        for offset in 0..16u8 {
            for kind in 0..=255u8 {
                for len in 0..=41u8 {
                    let mut bytes = [kind; 61];
                    bytes[field::DATA_OFFSET] = offset << 4;
                    bytes[HEADER_LEN + 1] = len;
                    for end in [19, 20, 21, 24, 40, 61] {
                        let _ = Repr::parse(&bytes[..end]);
                    }
                }
            }
        }
    }
}
