//! How messages lie in QUIC: the framing inside streams and datagrams, which is taut's own.
//!
//! ```text
//! DATAGRAM frame:  stream (i)  message …
//! STREAM data:     stream (i)  length (i)  message …    again and again
//! ```
//!
//! (i) is a variable-length integer (RFC 9000 section 16) in its shortest form, so that a message has one form only.

use taut_core::StreamId;

/// The longest header: four bytes of stream, eight of length.
pub const MAX_HEADER: usize = 4 + 8;

/// Appends the header of a message in a DATAGRAM frame; the message follows it.
pub fn emit_datagram_header(stream: StreamId, out: &mut Vec<u8>) {
    emit_integer(u64::from(stream.0), out);
}

/// Splits what came in a DATAGRAM frame.
///
/// # Errors
/// When the stream is missing, out of range or not in its shortest form.
pub fn parse_datagram(data: &[u8]) -> Result<(StreamId, &[u8]), FrameError> {
    parse_stream(data)?.ok_or(FrameError::Truncated)
}

/// Appends the header of a message of `length` bytes in a stream; the message follows it.
pub fn emit_header(stream: StreamId, length: usize, out: &mut Vec<u8>) {
    emit_integer(u64::from(stream.0), out);
    emit_integer(length as u64, out);
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The datagram ends within its header.
    #[error("the datagram ends within its header")]
    Truncated,
    /// Logical streams have 16 bits.
    #[error("{0} is no logical stream: they go to 65535")]
    Stream(u64),
    /// An integer with leading zeros.
    #[error("an integer that is not in its shortest form")]
    NotShortest,
    /// The peer announces a message longer than is accepted.
    #[error("a message of {length} bytes, {limit} at most are accepted")]
    TooLong {
        /// What is announced.
        length: u64,
        /// What is accepted.
        limit: usize,
    },
}

/// Cuts the bytes of one QUIC stream into messages. Holds at most one message and its header, and only what arrived
/// of it: a length that is merely announced costs nothing.
///
/// ```
/// use taut_core::StreamId;
/// use taut_transport::quic::frame::{Reassembler, emit_header};
/// let mut bytes = Vec::new();
/// emit_header(StreamId(2), 4, &mut bytes);
/// bytes.extend(b"stop");
/// let mut reassembler = Reassembler::new(1_000);
/// reassembler.push(&bytes[..3]);
/// assert_eq!(reassembler.next_message(), Ok(None));
/// reassembler.push(&bytes[3..]);
/// assert_eq!(reassembler.next_message(), Ok(Some((StreamId(2), b"stop".to_vec()))));
/// ```
#[derive(Debug)]
pub struct Reassembler {
    limit: usize,
    buffer: Vec<u8>,
    /// Where what was not yet taken begins.
    start: usize,
}

impl Reassembler {
    /// For messages of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, buffer: Vec::new(), start: 0 }
    }

    /// The next bytes of the stream. Take the messages out before more are pushed, or they pile up.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message.
    ///
    /// # Errors
    /// When what comes next can be no message; the stream is of no use from here on.
    pub fn next_message(&mut self) -> Result<Option<(StreamId, Vec<u8>)>, FrameError> {
        let Some((stream, rest)) = parse_stream(&self.buffer[self.start..])? else { return Ok(None) };
        let Some((length, rest)) = parse_integer(rest)? else { return Ok(None) };
        if length > self.limit as u64 {
            return Err(FrameError::TooLong { length, limit: self.limit });
        }
        let Some(message) = rest.get(..length as usize).map(<[u8]>::to_vec) else { return Ok(None) };
        self.start = self.buffer.len() - rest.len() + message.len();
        Ok(Some((stream, message)))
    }

    /// Bytes that arrived and make no whole message yet.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.start
    }
}

fn parse_stream(data: &[u8]) -> Result<Option<(StreamId, &[u8])>, FrameError> {
    let Some((number, rest)) = parse_integer(data)? else { return Ok(None) };
    let stream = u16::try_from(number).map_err(|_| FrameError::Stream(number))?;
    Ok(Some((StreamId(stream), rest)))
}

/// RFC 9000 section 16: the two high bits say that 1, 2, 4 or 8 bytes hold the integer. `None`: not all of it is here.
fn parse_integer(data: &[u8]) -> Result<Option<(u64, &[u8])>, FrameError> {
    let Some(first) = data.first() else { return Ok(None) };
    let length = 1 << (first >> 6);
    let Some((bytes, rest)) = data.split_at_checked(length) else { return Ok(None) };
    let value = bytes[1..].iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte));
    if length == integer_length(value) { Ok(Some((value, rest))) } else { Err(FrameError::NotShortest) }
}

fn emit_integer(value: u64, out: &mut Vec<u8>) {
    let length = integer_length(value);
    let first = out.len();
    out.extend_from_slice(&value.to_be_bytes()[8 - length..]);
    out[first] |= (length.ilog2() as u8) << 6;
}

fn integer_length(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 9000 appendix A.1.
    #[test]
    fn integers_are_those_of_rfc_9000() {
        let examples: [(u64, &[u8]); 4] = [
            (151_288_809_941_952_652, &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]),
            (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
            (15_293, &[0x7b, 0xbd]),
            (37, &[0x25]),
        ];
        for (value, bytes) in examples {
            let mut out = Vec::new();
            emit_integer(value, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(parse_integer(bytes), Ok(Some((value, [].as_slice()))));
        }
        assert_eq!(parse_integer(&[0x40, 0x25]), Err(FrameError::NotShortest));
    }

    #[test]
    fn golden_frames() {
        let mut out = Vec::new();
        emit_datagram_header(StreamId(2), &mut out);
        out.extend(b"pose");
        assert_eq!(out, b"\x02pose");
        assert_eq!(parse_datagram(b"\x02pose"), Ok((StreamId(2), b"pose".as_slice())));
        assert_eq!(parse_datagram(b""), Err(FrameError::Truncated));

        out.clear();
        emit_header(StreamId(300), 70, &mut out);
        assert_eq!(out, [0x41, 0x2c, 0x40, 0x46]);
    }

    #[test]
    fn what_is_no_message_is_refused_before_it_costs_memory() {
        let next = |bytes: &[u8]| {
            let mut reassembler = Reassembler::new(1_000);
            reassembler.push(bytes);
            reassembler.next_message()
        };
        assert_eq!(next(&[0, 0x43, 0xe9]), Err(FrameError::TooLong { length: 1_001, limit: 1_000 }));
        assert_eq!(next(&[0x80, 1, 0, 0]), Err(FrameError::Stream(65_536)));
        assert_eq!(next(&[0x40, 1, 0]), Err(FrameError::NotShortest));
        assert_eq!(next(&[0, 0x43, 0xe8]), Ok(None));
    }

    proptest! {
        #[test]
        fn messages_survive_any_cut(
            messages in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..200)), 0..10),
            cuts in prop::collection::vec(1_usize..50, 1..20),
        ) {
            let mut bytes = Vec::new();
            for (stream, data) in &messages {
                emit_header(StreamId(*stream), data.len(), &mut bytes);
                bytes.extend(data);
            }
            let (mut reassembler, mut found) = (Reassembler::new(200), Vec::new());
            let (mut rest, mut cuts) = (bytes.as_slice(), cuts.iter().cycle());
            while !rest.is_empty() {
                let (now, later) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                reassembler.push(now);
                while let Some((stream, data)) = reassembler.next_message().unwrap() {
                    found.push((stream.0, data));
                }
                rest = later;
            }
            prop_assert_eq!(found, messages);
            prop_assert_eq!(reassembler.pending(), 0);
        }
    }
}
