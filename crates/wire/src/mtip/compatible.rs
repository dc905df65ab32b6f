//! The packets of the published MTIP (Rico et al. 2023, and its evaluation material): 16 bytes of header, big-endian.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |        sequence number        |                               |
//! +-------------------------------+                               +
//! |                       timestamp, ns                           |
//! +                               +-------------------------------+
//! |                               |             flag              |
//! +-------------------------------+-------------------------------+
//! |            payload length; 0xFFFFFFFF: there is none          |
//! +---------------------------------------------------------------+
//! ```
//!
//! ```
//! use taut_wire::mtip::compatible::{Body, Repr};
//! let command = Repr { sequence: 7, timestamp_ns: 9, body: Body::Data(b"walk") };
//! let mut bytes = Vec::new();
//! command.emit(&mut bytes);
//! assert_eq!(Repr::parse(&bytes), Ok(command));
//! ```

use std::net::IpAddr;
use std::ops::Range;

use super::Verdict;

/// Bytes before the payload.
pub const HEADER_LEN: usize = 16;
/// The payload length of a packet without payload.
pub const NO_PAYLOAD: u32 = u32::MAX;

/// Where the fields are.
mod field {
    use super::Range;

    pub(super) const SEQUENCE: Range<usize> = 0..2;
    pub(super) const TIMESTAMP: Range<usize> = 2..10;
    pub(super) const FLAG: Range<usize> = 10..12;
    pub(super) const LENGTH: Range<usize> = 12..16;
}

/// A packet, borrowing its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// Counts messages, modulo 2¹⁶; an acknowledgement has the number of what it acknowledges.
    pub sequence: u16,
    /// The sender's clock; of an acknowledgement, the one-way latency that the receiver measured.
    pub timestamp_ns: u64,
    /// Flag and payload.
    pub body: Body<'a>,
}

/// What the flag says, with the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// 0: here are my sublinks, a JSON list as [`Sublink::list`] writes it.
    Link(&'a [u8]),
    /// 1: and here are mine.
    LinkAck(&'a [u8]),
    /// 2: what became of a packet.
    Ack(Verdict),
    /// 3: is this sublink alive?
    KeepAlive,
    /// 4: a message.
    Data(&'a [u8]),
    /// 5: goodbye.
    Fin,
    /// 6: goodbye too.
    FinAck,
}

/// One end of a sublink as LINK and LINKACK announce it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sublink {
    /// Its address.
    pub ip: IpAddr,
    /// Where messages arrive.
    pub port: u16,
    /// Where everything else arrives.
    pub control_port: u16,
}

impl Sublink {
    /// The payload of a LINK or LINKACK. Nothing in it needs to be escaped.
    pub fn list(sublinks: &[Self]) -> Vec<u8> {
        let one = |Self { ip, port, control_port }: &Self| {
            format!(r#"{{"IP":"{ip}","PORT":{port},"CONTROL_PORT":{control_port}}}"#)
        };
        format!("[{}]", sublinks.iter().map(one).collect::<Vec<_>>().join(",")).into_bytes()
    }
}

/// Why bytes are not a packet of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Fewer bytes than the header needs.
    #[error("{0} bytes where {HEADER_LEN} are needed")]
    Truncated(usize),
    /// A flag that has no meaning.
    #[error("unknown flag {0}")]
    Flag(u16),
    /// The payload length is not that of the payload.
    #[error("a payload of {found} bytes that says it has {said}")]
    Length {
        /// What the header says.
        said: u32,
        /// What there is.
        found: usize,
    },
    /// The payload of an acknowledgement is none of its four bytes.
    #[error("an acknowledgement that is neither on time, duplicate, late nor control")]
    Verdict,
}

impl<'a> Repr<'a> {
    /// Reads a packet.
    ///
    /// # Errors
    /// When the bytes are not one.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        if bytes.len() < HEADER_LEN {
            return Err(Error::Truncated(bytes.len()));
        }
        let number = |range: Range<usize>| bytes[range].iter().fold(0, |n: u64, b| n << 8 | u64::from(*b));
        let (flag, said) = (number(field::FLAG) as u16, number(field::LENGTH) as u32);
        let payload = &bytes[HEADER_LEN..];
        if said != NO_PAYLOAD && said as usize != payload.len() || said == NO_PAYLOAD && !payload.is_empty() {
            return Err(Error::Length { said, found: payload.len() });
        }
        let body = match flag {
            0 => Body::Link(payload),
            1 => Body::LinkAck(payload),
            2 => match payload {
                [byte] => Body::Ack(Verdict::from_byte(*byte).ok_or(Error::Verdict)?),
                _ => return Err(Error::Verdict),
            },
            3 => Body::KeepAlive,
            4 => Body::Data(payload),
            5 => Body::Fin,
            6 => Body::FinAck,
            _ => return Err(Error::Flag(flag)),
        };
        let (sequence, timestamp_ns) = (number(field::SEQUENCE) as u16, number(field::TIMESTAMP));
        Ok(Self { sequence, timestamp_ns, body })
    }

    /// Appends the packet.
    ///
    /// # Panics
    /// When the payload is longer than the length field can say, which no datagram is.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        let byte: [u8; 1];
        let (flag, payload): (u16, Option<&[u8]>) = match &self.body {
            Body::Link(list) => (0, Some(list)),
            Body::LinkAck(list) => (1, Some(list)),
            Body::Ack(verdict) => {
                byte = [verdict.byte()];
                (2, Some(&byte))
            }
            Body::KeepAlive => (3, None),
            Body::Data(data) => (4, Some(data)),
            Body::Fin => (5, None),
            Body::FinAck => (6, None),
        };
        let length =
            payload.map_or(NO_PAYLOAD, |payload| u32::try_from(payload.len()).expect("it fits a datagram"));
        buffer.extend_from_slice(&self.sequence.to_be_bytes());
        buffer.extend_from_slice(&self.timestamp_ns.to_be_bytes());
        buffer.extend_from_slice(&flag.to_be_bytes());
        buffer.extend_from_slice(&length.to_be_bytes());
        buffer.extend_from_slice(payload.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIST: &str = r#"[{"IP":"10.0.0.2","PORT":5000,"CONTROL_PORT":5001}]"#;

    fn golden() -> Vec<(Repr<'static>, Vec<u8>)> {
        let header = |sequence: u16, time: u64, flag: u8, length: u32| {
            let mut bytes = sequence.to_be_bytes().to_vec();
            bytes.extend_from_slice(&time.to_be_bytes());
            bytes.extend_from_slice(&[0, flag]);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes
        };
        let data = vec![
            0x12, 0x34, // sequence
            0x17, 0x6b, 0x5e, 0x0d, 0x2a, 0x3c, 0x4b, 0x59, // timestamp
            0x00, 0x04, // DATA
            0x00, 0x00, 0x00, 0x04, // length
            b'w', b'a', b'l', b'k',
        ];
        let with = |mut header: Vec<u8>, payload: &[u8]| {
            header.extend_from_slice(payload);
            header
        };
        let none = NO_PAYLOAD;
        vec![
            (Repr { sequence: 0x1234, timestamp_ns: 0x176b_5e0d_2a3c_4b59, body: Body::Data(b"walk") }, data),
            (
                Repr { sequence: 0, timestamp_ns: 1, body: Body::Link(LIST.as_bytes()) },
                with(header(0, 1, 0, LIST.len() as u32), LIST.as_bytes()),
            ),
            (
                Repr { sequence: 0, timestamp_ns: 2, body: Body::LinkAck(LIST.as_bytes()) },
                with(header(0, 2, 1, LIST.len() as u32), LIST.as_bytes()),
            ),
            (
                Repr { sequence: 0xffff, timestamp_ns: 4_500_000, body: Body::Ack(Verdict::Duplicate) },
                with(header(0xffff, 4_500_000, 2, 1), b"2"),
            ),
            (Repr { sequence: 3, timestamp_ns: 5, body: Body::KeepAlive }, header(3, 5, 3, none)),
            (Repr { sequence: 4, timestamp_ns: 6, body: Body::Fin }, header(4, 6, 5, none)),
            (Repr { sequence: 4, timestamp_ns: 7, body: Body::FinAck }, header(4, 7, 6, none)),
        ]
    }

    #[test]
    fn golden_bytes_parse_and_are_emitted() {
        for (repr, bytes) in golden() {
            assert_eq!(Repr::parse(&bytes), Ok(repr));
            let mut emitted = Vec::new();
            repr.emit(&mut emitted);
            assert_eq!(emitted, bytes);
        }
    }

    #[test]
    fn what_is_not_a_packet_is_refused() {
        let (_, data) = golden().swap_remove(0);
        assert_eq!(Repr::parse(&data[..15]), Err(Error::Truncated(15)));
        assert_eq!(Repr::parse(&data[..19]), Err(Error::Length { said: 4, found: 3 }));
        let with = |at: usize, byte: u8| {
            let mut bytes = data.clone();
            bytes[at] = byte;
            bytes
        };
        assert_eq!(Repr::parse(&with(11, 7)), Err(Error::Flag(7)));
        assert_eq!(Repr::parse(&with(11, 2)), Err(Error::Verdict));
    }

    #[test]
    fn sublinks_are_announced_as_the_source_does() {
        let one = Sublink { ip: [10, 0, 0, 2].into(), port: 5000, control_port: 5001 };
        assert_eq!(Sublink::list(&[one]), LIST.as_bytes());
        assert_eq!(Sublink::list(&[]), b"[]");
    }

    proptest! {
        #[test]
        fn what_parses_is_emitted_again(bytes in prop::collection::vec(any::<u8>(), 0..40), flag in 0u8..8) {
            let mut bytes = bytes;
            if let Some(place) = bytes.get_mut(10..12) {
                place.copy_from_slice(&[0, flag]);
            }
            if bytes.len() >= HEADER_LEN {
                let length = (bytes.len() - HEADER_LEN) as u32;
                bytes[field::LENGTH].copy_from_slice(&length.to_be_bytes());
            }
            if let Ok(repr) = Repr::parse(&bytes) {
                if matches!(repr.body, Body::KeepAlive | Body::Fin | Body::FinAck) {
                    // Without a payload it is written as none.
                    return Ok(());
                }
                let mut emitted = Vec::new();
                repr.emit(&mut emitted);
                prop_assert_eq!(emitted, bytes);
            }
        }
    }
}
