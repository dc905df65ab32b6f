//! Packets of ETP: datagrams whose sender keeps a gap between them, and the receiver's feedback.
//!
//! The source (Wirz, Ferre, Marín et al., EuroHaptics 2008; Lee, Payandeh, Trajković, *Performance Evaluation of
//! Transport Protocols for Internet-Based Teleoperation Systems*) describes the gap, not a format. This one is ours;
//! numbers are big-endian, and the receiver's counters follow those of RTCP (RFC 3550 sections 6.4.1 and A.3).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+---------------+-------------------------------+
//! |version| kind 0|           |F|P|        gap, 10 µs units       |   data: 12 bytes, then messages
//! +-------+-------+---------------+-------------------------------+
//! |                        sequence number                        |
//! +---------------------------------------------------------------+
//! |                sender's clock in µs, modulo 2³²               |
//! +---------------------------------------------------------------+
//!
//! +-------+-------+---------------+-------------------------------+
//! |version| kind 1|       0       |               0               |   feedback: 24 bytes
//! +-------+-------+---------------+-------------------------------+
//! |                highest sequence number received               |
//! +---------------------------------------------------------------+
//! |              clock field of that packet, echoed               |
//! +---------------------------------------------------------------+
//! |        µs between its arrival and this packet (hold)          |
//! +---------------------------------------------------------------+
//! |              packets received in all, modulo 2³²              |
//! +---------------------------------------------------------------+
//! |                packets missing in all, modulo 2³²             |
//! +---------------------------------------------------------------+
//! ```
//!
//! F: the sender wants feedback. P: the payload holds several messages, each behind its length in 16 bits; otherwise
//! the payload is one message.
//!
//! ```
//! use taut_wire::etp::{Data, Packet};
//! let data = Data { sequence: 7, clock_us: 9, payload: b"force", ..Data::default() };
//! let mut bytes = Vec::new();
//! data.emit(&mut bytes);
//! assert_eq!(Packet::parse(&bytes), Ok(Packet::Data(data)));
//! ```

use std::ops::Range;

/// The version that this module speaks.
pub const VERSION: u8 = 1;
/// Bytes before the payload of a data packet.
pub const DATA_HEADER_LEN: usize = 12;
/// Bytes of a feedback packet.
pub const FEEDBACK_LEN: usize = 24;
/// Bytes before each message of a packed payload.
pub const MESSAGE_HEADER_LEN: usize = 2;
/// Nanoseconds in one unit of the gap field.
pub const GAP_UNIT_NS: u64 = 10_000;

const KIND_DATA: u8 = 0;
const KIND_FEEDBACK: u8 = 1;
const FLAG_PACKED: u8 = 1;
const FLAG_FEEDBACK_WANTED: u8 = 2;

/// Where the fields are.
mod field {
    use super::Range;

    pub(super) const VERSION_KIND: usize = 0;
    pub(super) const FLAGS: usize = 1;
    pub(super) const GAP: Range<usize> = 2..4;
    pub(super) const SEQUENCE: Range<usize> = 4..8;
    pub(super) const CLOCK: Range<usize> = 8..12;

    pub(super) const RESERVED: Range<usize> = 2..4;
    pub(super) const HIGHEST: Range<usize> = 4..8;
    pub(super) const ECHO: Range<usize> = 8..12;
    pub(super) const HOLD: Range<usize> = 12..16;
    pub(super) const RECEIVED: Range<usize> = 16..20;
    pub(super) const LOST: Range<usize> = 20..24;
}

/// Any packet of the protocol, borrowing its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// One message or several.
    Data(Data<'a>),
    /// What the receiver saw.
    Feedback(Feedback),
}

/// A data packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Data<'a> {
    /// The payload holds several messages, each behind its length: read it with [`Data::messages`].
    pub packed: bool,
    /// The receiver shall give feedback.
    pub feedback_wanted: bool,
    /// The gap that the sender keeps, in units of [`GAP_UNIT_NS`]; 65535 for anything longer.
    pub gap_units: u16,
    /// Counts up by one for every data packet, modulo 2³².
    pub sequence: u32,
    /// The sender's clock in microseconds, modulo 2³² (71 minutes), when it sent this.
    pub clock_us: u32,
    /// The messages.
    pub payload: &'a [u8],
}

/// What a receiver reports. The counters run from its first packet and wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// The highest sequence number that arrived.
    pub highest: u32,
    /// That packet's `clock_us`.
    pub echo_us: u32,
    /// How long ago it arrived, in microseconds; `u32::MAX` for anything longer.
    pub hold_us: u32,
    /// Packets received, each once.
    pub received: u32,
    /// Packets up to `highest` that are missing; a late one makes this fall again.
    pub lost: u32,
}

/// Why bytes are not a packet of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Fewer bytes than the packet needs.
    #[error("{found} bytes where {needed} are needed")]
    Truncated {
        /// What it needs.
        needed: usize,
        /// What there is.
        found: usize,
    },
    /// Another version.
    #[error("version {0}, not {VERSION}")]
    Version(u8),
    /// Neither data nor feedback.
    #[error("unknown kind {0}")]
    Kind(u8),
    /// A bit is set that has no meaning in this version.
    #[error("reserved bits are set")]
    Reserved,
    /// Bytes after the end of a feedback packet.
    #[error("{0} bytes too many")]
    TooLong(usize),
}

impl<'a> Packet<'a> {
    /// Reads a packet, and checks that every message of a packed payload is whole.
    ///
    /// # Errors
    /// When the bytes are not a packet of this version.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let first = *bytes.get(field::VERSION_KIND).ok_or(Error::Truncated { needed: 1, found: 0 })?;
        match (first >> 4, first & 0x0f) {
            (VERSION, KIND_DATA) => Data::parse(bytes).map(Self::Data),
            (VERSION, KIND_FEEDBACK) => Feedback::parse(bytes).map(Self::Feedback),
            (VERSION, kind) => Err(Error::Kind(kind)),
            (version, _) => Err(Error::Version(version)),
        }
    }
}

impl<'a> Data<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        need(bytes, DATA_HEADER_LEN)?;
        let flags = bytes[field::FLAGS];
        if flags & !(FLAG_PACKED | FLAG_FEEDBACK_WANTED) != 0 {
            return Err(Error::Reserved);
        }
        let data = Self {
            packed: flags & FLAG_PACKED != 0,
            feedback_wanted: flags & FLAG_FEEDBACK_WANTED != 0,
            gap_units: u16::from_be_bytes([bytes[field::GAP.start], bytes[field::GAP.start + 1]]),
            sequence: read_u32(bytes, field::SEQUENCE),
            clock_us: read_u32(bytes, field::CLOCK),
            payload: &bytes[DATA_HEADER_LEN..],
        };
        data.messages().find_map(Result::err).map_or(Ok(data), Err)
    }

    /// Appends header and payload.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        let mut flags = 0;
        if self.packed {
            flags |= FLAG_PACKED;
        }
        if self.feedback_wanted {
            flags |= FLAG_FEEDBACK_WANTED;
        }
        buffer.extend_from_slice(&[VERSION << 4 | KIND_DATA, flags]);
        buffer.extend_from_slice(&self.gap_units.to_be_bytes());
        buffer.extend_from_slice(&self.sequence.to_be_bytes());
        buffer.extend_from_slice(&self.clock_us.to_be_bytes());
        buffer.extend_from_slice(self.payload);
    }

    /// The messages in it; all are `Ok` in a packet that was parsed.
    pub fn messages(&self) -> Messages<'a> {
        Messages { packed: self.packed, rest: Some(self.payload) }
    }
}

/// Appends one message of a packed payload.
///
/// # Panics
/// When the message is longer than 65535 bytes, which no datagram is.
pub fn emit_message(message: &[u8], buffer: &mut Vec<u8>) {
    let len = u16::try_from(message.len()).expect("a message fits a datagram");
    buffer.extend_from_slice(&len.to_be_bytes());
    buffer.extend_from_slice(message);
}

/// The messages of one data packet, in order.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    packed: bool,
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<&'a [u8], Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        if !self.packed {
            return Some(Ok(rest));
        }
        if rest.is_empty() {
            return None;
        }
        match split_message(rest) {
            Ok((message, after)) => {
                self.rest = Some(after);
                Some(Ok(message))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

fn split_message(bytes: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    need(bytes, MESSAGE_HEADER_LEN)?;
    let end = MESSAGE_HEADER_LEN + usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
    need(bytes, end)?;
    Ok((&bytes[MESSAGE_HEADER_LEN..end], &bytes[end..]))
}

impl Feedback {
    fn parse(bytes: &[u8]) -> Result<Self, Error> {
        need(bytes, FEEDBACK_LEN)?;
        if bytes.len() > FEEDBACK_LEN {
            return Err(Error::TooLong(bytes.len() - FEEDBACK_LEN));
        }
        if bytes[field::FLAGS] != 0 || bytes[field::RESERVED] != [0, 0] {
            return Err(Error::Reserved);
        }
        Ok(Self {
            highest: read_u32(bytes, field::HIGHEST),
            echo_us: read_u32(bytes, field::ECHO),
            hold_us: read_u32(bytes, field::HOLD),
            received: read_u32(bytes, field::RECEIVED),
            lost: read_u32(bytes, field::LOST),
        })
    }

    /// Appends the packet.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&[VERSION << 4 | KIND_FEEDBACK, 0, 0, 0]);
        for number in [self.highest, self.echo_us, self.hold_us, self.received, self.lost] {
            buffer.extend_from_slice(&number.to_be_bytes());
        }
    }
}

fn need(bytes: &[u8], needed: usize) -> Result<(), Error> {
    if bytes.len() < needed { Err(Error::Truncated { needed, found: bytes.len() }) } else { Ok(()) }
}

fn read_u32(bytes: &[u8], range: Range<usize>) -> u32 {
    bytes[range].iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOLDEN_DATA: [u8; 17] = [
        0x10, 0x02, 0x00, 0x64, // version 1, data; feedback wanted; 100 units = 1 ms
        0x01, 0x02, 0x03, 0x04, // sequence
        0xff, 0xff, 0xff, 0xfe, // clock
        b'f', b'o', b'r', b'c', b'e',
    ];
    const GOLDEN_FEEDBACK: [u8; FEEDBACK_LEN] = [
        0x11, 0, 0, 0, // version 1, feedback
        0, 0, 0x12, 0x34, // highest
        0xde, 0xad, 0xbe, 0xef, // echo
        0, 0, 0x07, 0xd0, // hold: 2 ms
        0, 0, 0x12, 0x30, // received
        0, 0, 0, 4, // lost
    ];

    fn golden_data() -> Data<'static> {
        Data {
            packed: false,
            feedback_wanted: true,
            gap_units: 100,
            sequence: 0x0102_0304,
            clock_us: 0xffff_fffe,
            payload: b"force",
        }
    }

    fn golden_feedback() -> Feedback {
        Feedback { highest: 0x1234, echo_us: 0xdead_beef, hold_us: 2_000, received: 0x1230, lost: 4 }
    }

    fn emitted(data: &Data<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        data.emit(&mut bytes);
        bytes
    }

    #[test]
    fn golden_bytes_parse() {
        assert_eq!(Packet::parse(&GOLDEN_DATA), Ok(Packet::Data(golden_data())));
        assert_eq!(Packet::parse(&GOLDEN_FEEDBACK), Ok(Packet::Feedback(golden_feedback())));
    }

    #[test]
    fn golden_bytes_are_emitted() {
        assert_eq!(emitted(&golden_data()), GOLDEN_DATA);
        let mut bytes = Vec::new();
        golden_feedback().emit(&mut bytes);
        assert_eq!(bytes, GOLDEN_FEEDBACK);
    }

    #[test]
    fn packed_messages_come_out_as_they_went_in() {
        let messages: [&[u8]; 3] = [b"a", b"", b"ccc"];
        let mut payload = Vec::new();
        messages.iter().for_each(|message| emit_message(message, &mut payload));
        assert_eq!(payload, [0, 1, b'a', 0, 0, 0, 3, b'c', b'c', b'c']);
        let bytes = emitted(&Data { packed: true, payload: &payload, ..Data::default() });
        let Ok(Packet::Data(data)) = Packet::parse(&bytes) else { panic!("not data") };
        assert!(data.messages().map(Result::unwrap).eq(messages));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_reason() {
        let changed = |golden: &[u8], at: usize, to: u8| {
            let mut bytes = golden.to_vec();
            bytes[at] = to;
            Packet::parse(&bytes).map(|_| ()).unwrap_err()
        };
        assert_eq!(changed(&GOLDEN_DATA, 0, 0x20), Error::Version(2));
        assert_eq!(changed(&GOLDEN_DATA, 0, 0x12), Error::Kind(2));
        assert_eq!(changed(&GOLDEN_DATA, 1, 0x04), Error::Reserved);
        assert_eq!(changed(&GOLDEN_FEEDBACK, 3, 1), Error::Reserved);
        // "fo" as a length is far more than what follows.
        assert_eq!(changed(&GOLDEN_DATA, 1, 0x01), Error::Truncated { needed: 2 + 0x666f, found: 5 });
        assert_eq!(Packet::parse(&[]), Err(Error::Truncated { needed: 1, found: 0 }));
        assert_eq!(Packet::parse(&GOLDEN_DATA[..11]), Err(Error::Truncated { needed: 12, found: 11 }));
        assert_eq!(Packet::parse(&GOLDEN_FEEDBACK[..23]), Err(Error::Truncated { needed: 24, found: 23 }));
        assert_eq!(Packet::parse(&[&GOLDEN_FEEDBACK[..], &[0]].concat()), Err(Error::TooLong(1)));
    }

    proptest! {
        #[test]
        fn garbage_is_refused_or_read_back_the_same(
            kind in prop::option::of(0u8..2),
            mut bytes in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            if let (Some(kind), Some(first)) = (kind, bytes.first_mut()) {
                *first = VERSION << 4 | kind;
            }
            let mut again = Vec::new();
            match Packet::parse(&bytes) {
                Ok(Packet::Data(data)) => data.emit(&mut again),
                Ok(Packet::Feedback(feedback)) => feedback.emit(&mut again),
                Err(_) => return Ok(()),
            }
            prop_assert_eq!(again, bytes);
        }

        #[test]
        fn every_data_packet_reads_back(
            packed in any::<bool>(), feedback_wanted in any::<bool>(), gap_units in any::<u16>(),
            sequence in any::<u32>(), clock_us in any::<u32>(),
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
        ) {
            let mut payload = Vec::new();
            if packed {
                messages.iter().for_each(|message| emit_message(message, &mut payload));
            } else {
                payload = messages.concat();
            }
            let data = Data { packed, feedback_wanted, gap_units, sequence, clock_us, payload: &payload };
            let bytes = emitted(&data);
            prop_assert_eq!(Packet::parse(&bytes), Ok(Packet::Data(data)));
        }
    }
}
