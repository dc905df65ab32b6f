//! DCCP packets (RFC 4340 section 5), their options, checksum, and the options of CCID 3 (RFC 4342 section 8).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          source port          |       destination port        |
//! +---------------+-------+-------+-------------------------------+
//! |  data offset  | CCVal | CsCov |           checksum            |
//! +-----+-------+-+-------+-------+-------------------------------+
//! | res | type  |1|   reserved    |  sequence number (high bits)  |
//! +-----+-------+-+---------------+-------------------------------+
//! |                  sequence number (low bits)                   |
//! +-------------------------------+-------------------------------+
//! |           reserved            |  acknowledgement number (high)|  all but Request and Data
//! +-------------------------------+-------------------------------+
//! |                 acknowledgement number (low)                  |
//! +---------------------------------------------------------------+
//! |     service code (Request, Response) or reset code, data 1–3  |
//! +---------------------------------------------------------------+
//! |               options, padded to a word; then data            |
//! ```
//!
//! With X = 0, which only Data, Ack and DataAck packets may have, both numbers are 24 bits long and the header is one
//! word, or two, shorter.
//!
//! # Over UDP
//! RFC 6773 puts exactly this behind a UDP header, default port [`UDP_PORT`]. The checksum field is then 0, and ignored
//! on receipt (section 3.3); UDP's own checksum must be there. Over raw IP, protocol [`PROTOCOL`], whoever knows the
//! addresses fills it in with [`fill_checksum`]. So what is emitted here, with a checksum of 0, serves both.
//!
//! ```
//! use taut_wire::dccp::{DccpOption, Packet, Repr, Seq, View};
//!
//! let header = Repr {
//!     source_port: 5001,
//!     destination_port: 5002,
//!     sequence: Seq::new(7),
//!     packet: Packet::DataAck { ack: Seq::new(9) },
//!     ..Repr::default()
//! };
//! let mut options = Vec::new();
//! DccpOption::NdpCount(2).emit(&mut options);
//! let mut bytes = Vec::new();
//! header.emit(&options, b"pose", &mut bytes);
//!
//! let view = View::new_checked(&bytes)?;
//! assert_eq!(view.repr(), header);
//! assert!(view.options().eq([DccpOption::NdpCount(2)]));
//! assert_eq!(view.data(), b"pose");
//! # Ok::<(), taut_wire::dccp::Error>(())
//! ```

mod ack_vector;
mod checksum;
mod option;
mod seq;

use std::ops::Range;

pub use ack_vector::{AckRun, AckState, AckVector, LossInterval, LossIntervals, MAX_RUN, emit_cells};
pub use checksum::{Addresses, PROTOCOL, checksum, fill_checksum, verify_checksum};
pub use option::{DccpOption, MAX_OPTION_DATA, Negotiation, Options, feature};
pub use seq::Seq;

/// The UDP port on which a DCCP-UDP server listens by default (RFC 6773 section 3.8).
pub const UDP_PORT: u16 = 6511;
/// Bytes of the longest header: the data offset counts to 255 words.
pub const MAX_HEADER_LEN: usize = 1020;
/// Bytes of the shortest header, X = 0 and no acknowledgement.
pub const MIN_HEADER_LEN: usize = 12;

/// Where the fields are.
mod field {
    use super::Range;

    pub(super) const SOURCE_PORT: Range<usize> = 0..2;
    pub(super) const DESTINATION_PORT: Range<usize> = 2..4;
    pub(super) const DATA_OFFSET: usize = 4;
    pub(super) const CCVAL_CSCOV: usize = 5;
    pub(super) const CHECKSUM: Range<usize> = 6..8;
    pub(super) const TYPE_X: usize = 8;
    pub(super) const SHORT_SEQUENCE: Range<usize> = 9..12;
    pub(super) const SHORT_ACK: Range<usize> = 13..16;
    pub(super) const LONG_SEQUENCE: Range<usize> = 10..16;
    pub(super) const LONG_ACK: Range<usize> = 18..24;
    pub(super) const SERVICE_REQUEST: Range<usize> = 16..20;
    pub(super) const SERVICE_RESPONSE: Range<usize> = 24..28;
    pub(super) const RESET_CODE: usize = 24;
    pub(super) const RESET_DATA: Range<usize> = 25..28;
}

/// What the header says, but for its options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// A value of the sender's CCID, below 16: CCID 3's window counter (RFC 4342 section 8.1).
    pub ccval: u8,
    /// Checksum coverage, below 16: 0 covers everything (section 9.2).
    pub cscov: u8,
    /// Checksum; 0 until [`fill_checksum`].
    pub checksum: u16,
    /// X = 0: the sequence and acknowledgement numbers are their low 24 bits. For Data, Ack and DataAck only.
    pub short: bool,
    /// Sequence number.
    pub sequence: Seq,
    /// What kind of packet it is.
    pub packet: Packet,
}

/// The kinds of packets, with what only they have (RFC 4340 sections 5.2 to 5.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packet {
    /// A client wants a connection.
    Request {
        /// Which service.
        service: u32,
    },
    /// A server agrees.
    Response {
        /// What it acknowledges.
        ack: Seq,
        /// Which service.
        service: u32,
    },
    /// Data.
    #[default]
    Data,
    /// An acknowledgement.
    Ack {
        /// What it acknowledges.
        ack: Seq,
    },
    /// Data and an acknowledgement.
    DataAck {
        /// What it acknowledges.
        ack: Seq,
    },
    /// A server asks its client to close.
    CloseReq {
        /// What it acknowledges.
        ack: Seq,
    },
    /// The end is wanted.
    Close {
        /// What it acknowledges.
        ack: Seq,
    },
    /// The end.
    Reset {
        /// What it acknowledges.
        ack: Seq,
        /// Why: see [`ResetCode`].
        code: u8,
        /// More on why.
        data: [u8; 3],
    },
    /// Sequence numbers do not fit.
    Sync {
        /// The number that did not fit.
        ack: Seq,
    },
    /// The answer to a Sync.
    SyncAck {
        /// The Sync's number.
        ack: Seq,
    },
}

/// Why a connection ends (RFC 4340 section 5.6; 12: RFC 6773 section 3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ResetCode {
    /// No reason given.
    Unspecified = 0,
    /// The normal end.
    Closed = 1,
    /// Given up, without a normal end.
    Aborted = 2,
    /// There is no such connection.
    NoConnection = 3,
    /// A packet of this type was not expected.
    PacketError = 4,
    /// An option had a value that it must not have.
    OptionError = 5,
    /// A mandatory option could not be followed.
    MandatoryError = 6,
    /// Nobody listens.
    ConnectionRefused = 7,
    /// Another service than the one that is offered.
    BadServiceCode = 8,
    /// No room for more connections.
    TooBusy = 9,
    /// The init cookie was wrong.
    BadInitCookie = 10,
    /// Misbehaviour was found.
    AggressionPenalty = 11,
    /// Another connection uses these UDP ports.
    EncapsulatedPortReuse = 12,
}

/// Why bytes are not a DCCP packet. Such a packet is ignored (RFC 4340 section 8.5, step 1).
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
    /// A packet type that is reserved.
    #[error("unknown packet type {0}")]
    UnknownType(u8),
    /// The data begin before the header ends.
    #[error("a data offset of {offset} bytes is within the fixed header of {fixed}")]
    BadDataOffset {
        /// Where the data begin.
        offset: usize,
        /// Bytes of the fixed header.
        fixed: usize,
    },
    /// Short sequence numbers on a packet of a type that must have long ones.
    #[error("packet type {0} with short sequence numbers")]
    ShortSequence(u8),
    /// The checksum covers more data than there is.
    #[error("checksum coverage {0} goes beyond the packet")]
    BadCoverage(u8),
}

/// A packet whose header was checked.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
    repr: Repr,
    offset: usize,
}

impl<'a> View<'a> {
    /// Reads a packet. The checksum is not looked at: see [`verify_checksum`]. Reserved bits are ignored.
    ///
    /// # Errors
    /// When the bytes are not a DCCP packet.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Error> {
        need(bytes, MIN_HEADER_LEN)?;
        let kind = (bytes[field::TYPE_X] >> 1) & 0x0f;
        let short = bytes[field::TYPE_X] & 1 == 0;
        let fixed = fixed_len(kind, short)?;
        let offset = usize::from(bytes[field::DATA_OFFSET]) * 4;
        if offset < fixed {
            return Err(Error::BadDataOffset { offset, fixed });
        }
        need(bytes, offset)?;
        let cscov = bytes[field::CCVAL_CSCOV] & 0x0f;
        checksum::coverage(bytes, bytes.len() as u64).ok_or(Error::BadCoverage(cscov))?;
        let ack = |_| Seq::new(number(bytes, if short { field::SHORT_ACK } else { field::LONG_ACK }));
        let sequence = if short { field::SHORT_SEQUENCE } else { field::LONG_SEQUENCE };
        let repr = Repr {
            source_port: number(bytes, field::SOURCE_PORT) as u16,
            destination_port: number(bytes, field::DESTINATION_PORT) as u16,
            ccval: bytes[field::CCVAL_CSCOV] >> 4,
            cscov,
            checksum: number(bytes, field::CHECKSUM) as u16,
            short,
            sequence: Seq::new(number(bytes, sequence)),
            packet: match kind {
                0 => Packet::Request { service: number(bytes, field::SERVICE_REQUEST) as u32 },
                1 => {
                    Packet::Response { ack: ack(()), service: number(bytes, field::SERVICE_RESPONSE) as u32 }
                }
                2 => Packet::Data,
                3 => Packet::Ack { ack: ack(()) },
                4 => Packet::DataAck { ack: ack(()) },
                5 => Packet::CloseReq { ack: ack(()) },
                6 => Packet::Close { ack: ack(()) },
                7 => Packet::Reset {
                    ack: ack(()),
                    code: bytes[field::RESET_CODE],
                    data: [bytes[25], bytes[26], bytes[27]],
                },
                8 => Packet::Sync { ack: ack(()) },
                _ => Packet::SyncAck { ack: ack(()) },
            },
        };
        Ok(Self { bytes, repr, offset })
    }

    /// What the header says.
    pub fn repr(&self) -> Repr {
        self.repr
    }

    /// The options.
    pub fn options(&self) -> Options<'a> {
        Options::new(&self.bytes[self.repr.header_len()..self.offset])
    }

    /// What follows the header. Means something in Request, Response, Data and DataAck packets only.
    pub fn data(&self) -> &'a [u8] {
        &self.bytes[self.offset..]
    }
}

impl Repr {
    /// Bytes of the header without options.
    pub fn header_len(&self) -> usize {
        fixed_len(self.packet.kind(), self.short).expect("a header that can be emitted")
    }

    /// Appends header, options (padded to a word) and data.
    ///
    /// # Panics
    /// When the header is longer than [`MAX_HEADER_LEN`], or `short` is set for a type that must have long numbers.
    pub fn emit(&self, options: &[u8], data: &[u8], buffer: &mut Vec<u8>) {
        let start = buffer.len();
        let header = self.header_len() + options.len().next_multiple_of(4);
        assert!(header <= MAX_HEADER_LEN, "a header of {header} bytes");
        buffer.reserve(header + data.len());
        buffer.resize(start + self.header_len(), 0);
        let bytes = &mut buffer[start..];
        put(bytes, field::SOURCE_PORT, u64::from(self.source_port));
        put(bytes, field::DESTINATION_PORT, u64::from(self.destination_port));
        bytes[field::DATA_OFFSET] = (header / 4) as u8;
        bytes[field::CCVAL_CSCOV] = self.ccval << 4 | self.cscov & 0x0f;
        put(bytes, field::CHECKSUM, u64::from(self.checksum));
        bytes[field::TYPE_X] = self.packet.kind() << 1 | u8::from(!self.short);
        let (sequence, ack) = match self.short {
            true => (field::SHORT_SEQUENCE, field::SHORT_ACK),
            false => (field::LONG_SEQUENCE, field::LONG_ACK),
        };
        put(bytes, sequence, self.sequence.get());
        if let Some(number) = self.packet.ack() {
            put(bytes, ack, number.get());
        }
        match self.packet {
            Packet::Request { service } => put(bytes, field::SERVICE_REQUEST, u64::from(service)),
            Packet::Response { service, .. } => put(bytes, field::SERVICE_RESPONSE, u64::from(service)),
            Packet::Reset { code, data, .. } => {
                bytes[field::RESET_CODE] = code;
                bytes[field::RESET_DATA].copy_from_slice(&data);
            }
            _ => {}
        }
        buffer.extend_from_slice(options);
        buffer.resize(start + header, 0);
        buffer.extend_from_slice(data);
    }
}

impl Packet {
    /// The acknowledgement number, in all but Request and Data.
    pub fn ack(&self) -> Option<Seq> {
        match *self {
            Self::Request { .. } | Self::Data => None,
            Self::Response { ack, .. }
            | Self::Ack { ack }
            | Self::DataAck { ack }
            | Self::CloseReq { ack }
            | Self::Close { ack }
            | Self::Reset { ack, .. }
            | Self::Sync { ack }
            | Self::SyncAck { ack } => Some(ack),
        }
    }

    /// Can it carry data of the application? (RFC 4340 section 7.7.)
    pub fn is_data(&self) -> bool {
        matches!(self, Self::Request { .. } | Self::Response { .. } | Self::Data | Self::DataAck { .. })
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Request { .. } => 0,
            Self::Response { .. } => 1,
            Self::Data => 2,
            Self::Ack { .. } => 3,
            Self::DataAck { .. } => 4,
            Self::CloseReq { .. } => 5,
            Self::Close { .. } => 6,
            Self::Reset { .. } => 7,
            Self::Sync { .. } => 8,
            Self::SyncAck { .. } => 9,
        }
    }
}

/// Bytes of the header without options.
fn fixed_len(kind: u8, short: bool) -> Result<usize, Error> {
    match (kind, short) {
        (2, true) => Ok(12),
        (3 | 4, true) | (2, false) => Ok(16),
        (0, false) => Ok(20),
        (3..=6 | 8 | 9, false) => Ok(24),
        (1 | 7, false) => Ok(28),
        (..=9, true) => Err(Error::ShortSequence(kind)),
        _ => Err(Error::UnknownType(kind)),
    }
}

fn need(bytes: &[u8], needed: usize) -> Result<(), Error> {
    if bytes.len() < needed { Err(Error::Truncated { needed, found: bytes.len() }) } else { Ok(()) }
}

fn number(bytes: &[u8], range: Range<usize>) -> u64 {
    bytes[range].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Writes the low bytes of `number`.
fn put(bytes: &mut [u8], range: Range<usize>, number: u64) {
    let len = range.len();
    bytes[range].copy_from_slice(&number.to_be_bytes()[8 - len..]);
}

#[cfg(test)]
mod tests;
