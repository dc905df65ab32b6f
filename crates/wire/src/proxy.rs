//! What two proxies say to each other: datagrams of applications with their age and number, and questions about the clock.
//!
//! One frame is one message of a transport. Numbers are big-endian; times are nanoseconds of the clock of the frame's sender, since
//! an epoch of its own, unless a field is an echo of the reader's. Every frame begins with five bytes:
//!
//! | bytes | field | what |
//! | --- | --- | --- |
//! | 0 | version and kind | high four bits: [`VERSION`]; low four: the kind |
//! | 1–4 | life | drawn by the sender when it starts: its numbers and its clock begin anew with it |
//!
//! | kind | frame | bytes after these |
//! | --- | --- | --- |
//! | 1 | a [`Header`] and an application's datagram | flow 2, number 4, clock 8, age 4, deadline 4, then the datagram |
//! | 2 | [`ClockRequest`] | when it was sent 8 |
//! | 3 | [`ClockReply`] | the request's time 8, when that arrived 8, when this was sent 8 |
//!
//! ```
//! use taut_wire::proxy::{Body, Frame, Header};
//! let header = Header { flow: 7, number: 1, clock_ns: 5_000_000, age_us: 12, deadline_us: 200_000 };
//! let frame = Frame { life: 9, body: Body::Datagram(header, b"walk") };
//! let mut bytes = Vec::new();
//! frame.emit(&mut bytes);
//! assert_eq!(Frame::parse(&bytes), Ok(frame));
//! ```

use crate::session::{ClockReply, ClockRequest};

/// The version that this module speaks. The first had a flow's number before each datagram and nothing else.
pub const VERSION: u8 = 2;
/// Bytes before an application's datagram.
pub const HEADER_LEN: usize = 27;
/// Bytes that every frame begins with.
const PREFIX: usize = 5;

/// A frame, borrowing its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Drawn by the sender when it starts.
    pub life: u32,
    /// What is said.
    pub body: Body<'a>,
}

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// An application said this.
    Datagram(Header, &'a [u8]),
    /// What does your clock read?
    ClockRequest(ClockRequest),
    /// This.
    ClockReply(ClockReply),
}

/// What stands before an application's datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whose it is: an address at the near end.
    pub flow: u16,
    /// Counts up from 1, modulo 2³², over all flows: in one flow, what was said later has the greater number.
    pub number: u32,
    /// The sender's clock when it handed this to its transport, ns.
    pub clock_ns: u64,
    /// How old the datagram was then: since it arrived from the application, µs, rounded up; [`u32::MAX`]: older than can be
    /// said.
    pub age_us: u32,
    /// The age at which it is worthless to the sender, µs; 0: never.
    pub deadline_us: u32,
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Fewer or more bytes than this kind has.
    #[error("{0} bytes are not the length of such a frame")]
    Length(usize),
    /// The other proxy speaks another version.
    #[error("the other proxy speaks version {theirs}, this one {VERSION}; upgrade the older one")]
    Version {
        /// The other one's.
        theirs: u8,
    },
    /// A kind that has no meaning.
    #[error("unknown kind {0}")]
    Kind(u8),
}

impl<'a> Frame<'a> {
    /// Reads a frame.
    ///
    /// # Errors
    /// When the bytes are not one of this version.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let length = Error::Length(bytes.len());
        let first = *bytes.first().ok_or(length)?;
        if first >> 4 != VERSION {
            return Err(Error::Version { theirs: first >> 4 });
        }
        let (life, rest) = bytes[1..].split_first_chunk().ok_or(length)?;
        let body = match first & 0x0f {
            1 => {
                let (header, payload) = Header::parse(rest).ok_or(length)?;
                Body::Datagram(header, payload)
            }
            2 => {
                let [sent_ns] = numbers(rest).ok_or(length)?;
                Body::ClockRequest(ClockRequest { sent_ns })
            }
            3 => {
                let [echo_ns, received_ns, sent_ns] = numbers(rest).ok_or(length)?;
                Body::ClockReply(ClockReply { echo_ns, received_ns, sent_ns })
            }
            kind => return Err(Error::Kind(kind)),
        };
        Ok(Self { life: u32::from_be_bytes(*life), body })
    }

    /// Appends the frame.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.reserve(self.len());
        buffer.push(VERSION << 4 | self.body.kind());
        buffer.extend_from_slice(&self.life.to_be_bytes());
        let mut write = |numbers: &[u64]| {
            numbers.iter().for_each(|number| buffer.extend_from_slice(&number.to_be_bytes()));
        };
        match self.body {
            Body::Datagram(header, payload) => {
                header.emit(buffer);
                buffer.extend_from_slice(payload);
            }
            Body::ClockRequest(request) => write(&[request.sent_ns]),
            Body::ClockReply(reply) => write(&[reply.echo_ns, reply.received_ns, reply.sent_ns]),
        }
    }

    /// How many bytes [`Frame::emit`] appends.
    pub const fn len(&self) -> usize {
        match self.body {
            Body::Datagram(_, payload) => HEADER_LEN + payload.len(),
            Body::ClockRequest(_) => PREFIX + 8,
            Body::ClockReply(_) => PREFIX + 24,
        }
    }

    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }
}

impl Body<'_> {
    const fn kind(&self) -> u8 {
        match self {
            Self::Datagram(..) => 1,
            Self::ClockRequest(_) => 2,
            Self::ClockReply(_) => 3,
        }
    }
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (flow, bytes) = bytes.split_first_chunk()?;
        let (number, bytes) = bytes.split_first_chunk()?;
        let (clock, bytes) = bytes.split_first_chunk()?;
        let (age, bytes) = bytes.split_first_chunk()?;
        let (deadline, payload) = bytes.split_first_chunk()?;
        let header = Self {
            flow: u16::from_be_bytes(*flow),
            number: u32::from_be_bytes(*number),
            clock_ns: u64::from_be_bytes(*clock),
            age_us: u32::from_be_bytes(*age),
            deadline_us: u32::from_be_bytes(*deadline),
        };
        Some((header, payload))
    }

    fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&self.flow.to_be_bytes());
        buffer.extend_from_slice(&self.number.to_be_bytes());
        buffer.extend_from_slice(&self.clock_ns.to_be_bytes());
        buffer.extend_from_slice(&self.age_us.to_be_bytes());
        buffer.extend_from_slice(&self.deadline_us.to_be_bytes());
    }
}

/// Exactly so many numbers.
fn numbers<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let (numbers, []) = bytes.as_chunks::<8>() else { return None };
    let numbers: &[[u8; 8]; N] = numbers.try_into().ok()?;
    Some(numbers.map(u64::from_be_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: Header =
        Header { flow: 0x0102, number: 0x0304_0506, clock_ns: 0x0708, age_us: 0x090a, deadline_us: 0x0b0c };

    fn emitted(frame: Frame<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame.emit(&mut bytes);
        assert_eq!(bytes.len(), frame.len());
        bytes
    }

    #[test]
    fn frames_have_these_bytes_both_ways() {
        let datagram = Body::Datagram(HEADER, b"go");
        let request = Body::ClockRequest(ClockRequest { sent_ns: 5 });
        let reply = Body::ClockReply(ClockReply { echo_ns: 5, received_ns: 6, sent_ns: 7 });
        let golden: [(Body<'_>, &[u8]); 3] = [
            (
                datagram,
                b"\x21\0\0\0\x09\x01\x02\x03\x04\x05\x06\0\0\0\0\0\0\x07\x08\0\0\x09\x0a\0\0\x0b\x0cgo",
            ),
            (request, b"\x22\0\0\0\x09\0\0\0\0\0\0\0\x05"),
            (reply, b"\x23\0\0\0\x09\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x07"),
        ];
        for (body, bytes) in golden {
            let frame = Frame { life: 9, body };
            assert_eq!(emitted(frame), bytes);
            assert_eq!(Frame::parse(bytes), Ok(frame));
        }
        let empty = Frame { life: 9, body: Body::Datagram(HEADER, b"") };
        assert_eq!(emitted(empty).len(), HEADER_LEN);
    }

    #[test]
    fn what_is_no_frame_is_refused_by_its_reason() {
        let reply = emitted(Frame {
            life: 9,
            body: Body::ClockReply(ClockReply { echo_ns: 5, received_ns: 6, sent_ns: 7 }),
        });
        assert_eq!(Frame::parse(&[]), Err(Error::Length(0)));
        assert_eq!(Frame::parse(&reply[..28]), Err(Error::Length(28)));
        assert_eq!(Frame::parse(&[&reply[..], &[0]].concat()), Err(Error::Length(30)));
        assert_eq!(Frame::parse(&[0x21; 26]), Err(Error::Length(26)));
        assert_eq!(Frame::parse(&[0x24; 30]), Err(Error::Kind(4)));
        assert_eq!(Frame::parse(&[0x00, 0x07, b'g']), Err(Error::Version { theirs: 0 }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_survive_being_written_again(mut bytes in prop::collection::vec(any::<u8>(), 0..64), kind in 0..4_u8) {
            if let (Some(first), 1..) = (bytes.first_mut(), kind) {
                *first = VERSION << 4 | kind;
            }
            if let Ok(frame) = Frame::parse(&bytes) {
                prop_assert_eq!(emitted(frame), bytes);
            }
        }
    }
}
