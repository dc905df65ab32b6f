//! The frames that carry messages of channels, and what acknowledges them.

use super::{Error, reserved, u16_at, u24_at, u32_at, u64_at};

/// What a frame of channels begins with: one or several [pieces](Piece) of messages follow, up to its end or to its padding. The first
/// byte has its highest bit set, which no other frame's has.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 1 | flags | bit 7 set, 0: padded, 1: a [`DataAck`] follows this header, 2–6 zero |
/// | 4 | session | |
/// | 3 | number | counts up by one for every such frame of this end that has a piece, modulo 2²⁴; acknowledged |
/// | 4 | sent | µs of the sender's clock when this left, modulo 2³² |
///
/// An acknowledgement travels with messages that go anyway (as RFC 9000 section 13.2.1 wants it), or alone: then the number is 0, there is no
/// piece and no padding, and nobody acknowledges it.
///
/// Padding is a byte of 0x80 and as many of 0 as it takes (ISO/IEC 7816-4), so that it can have any length.
///
/// ```
/// use taut_wire::session::{DataHeader, Piece};
/// let header = DataHeader { session: 7, number: 9, sent_us: 5_000, ack: None };
/// let piece = |channel| Piece { channel, sequence: 3, waited_us: 160, back: None, part: None };
/// let mut frame = Vec::new();
/// header.emit(&mut frame);
/// piece(0).emit(Some(2), &mut frame);
/// frame.extend(*b"ab");
/// piece(1).emit(None, &mut frame);
/// frame.extend(*b"cde");
/// let (read, pieces) = DataHeader::parse(&frame)?;
/// assert_eq!(read, header);
/// assert_eq!(pieces.collect::<Result<Vec<_>, _>>()?, [(piece(0), &b"ab"[..]), (piece(1), &b"cde"[..])]);
/// # Ok::<(), taut_wire::session::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The session's number; not 0.
    pub session: u32,
    /// Counts the sender's frames, modulo 2²⁴.
    pub number: u32,
    /// When the frame was sent, µs of the sender's clock modulo 2³².
    pub sent_us: u32,
    /// Which of the reader's frames arrived.
    pub ack: Option<DataAck>,
}

/// What stands before the bytes of a message, or of a part of one.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 1 | flags | bits 0–4: channel, its place among those that the sender declared; 5: *back*, 6: *offset* and *total*, 7: *length* follow |
/// | 3 | sequence | of the message in its channel, counts up by one for every message made, modulo 2²⁴ |
/// | 2 | waited | from its making to the sending of this frame: bits 12–15 *e*, 0–11 *m*; 16 µs × *m* where *e* is 0, 16 µs × (4096 + *m*) × 2^(*e* − 1) elsewhere, rounded up; 65 535 for anything longer |
/// | 0 or 2 | back | so many messages before this one may still come, or come again |
/// | 0 or 2 to 8 | offset, total | of a part: where its bytes begin in the message, and how many bytes that has; LEB128, as short as can be |
/// | 0 or 1 to 4 | length | of the bytes that follow, after which comes another piece; LEB128. The last piece has none: it goes on to the end |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its place among those that the sender declared, less than 32.
    pub channel: u8,
    /// Counts the channel's messages, modulo 2²⁴.
    pub sequence: u32,
    /// How long the message waited from its making until this frame was sent, µs: up to 36 minutes, as exact as 16 µs and 1 in 4096.
    pub waited_us: u32,
    /// So many messages before this one may still come; `None`: what is lost does not come again.
    pub back: Option<u16>,
    /// Which part of the message; `None`: all of it.
    pub part: Option<Part>,
}

/// Where the bytes of a piece belong. Those at the message's end and beyond are parity, whose parts follow each other as if the message went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// So many bytes of the message are before them.
    pub offset: u32,
    /// Bytes of the message, less than 2²⁸.
    pub total: u32,
}

const DATA: u8 = 0x80;
const PADDED: u8 = 1;
const ACKNOWLEDGES: u8 = 2;
const PADDING: u8 = 0x80;
const CHANNEL: u8 = 0x1f;
const BACK: u8 = 0x20;
const PART: u8 = 0x40;
const MORE: u8 = 0x80;
/// Of a piece, without what only some have.
const PIECE_LEN: usize = 6;
/// Bytes of the longest number of variable length.
const VARINT_MAX: usize = 4;

impl DataHeader {
    /// Its bytes, without an acknowledgement.
    pub const LEN: usize = 12;

    /// Are these the bytes of channels' messages, and not of another frame?
    pub fn is_data(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|first| first & DATA != 0)
    }

    /// Reads a frame, all of which is looked at: none of the pieces is an error then, and there is none only beside an acknowledgement.
    ///
    /// # Errors
    /// When the bytes are no such frame.
    pub fn parse(bytes: &[u8]) -> Result<(Self, Pieces<'_>), Error> {
        let Some(&flags) = bytes.first().filter(|first| **first & DATA != 0) else {
            return Err(Error::Magic);
        };
        if flags & !(DATA | PADDED | ACKNOWLEDGES) != 0 {
            return Err(Error::Value { at: 0, value: flags });
        }
        let acknowledges = flags & ACKNOWLEDGES != 0;
        let at = Self::LEN + if acknowledges { DataAck::LEN } else { 0 };
        if bytes.len() < at {
            return Err(Error::Length { needed: at, found: bytes.len() });
        }
        let session = u32_at(bytes, 1);
        if session == 0 {
            return Err(Error::Session);
        }
        let alone = flags == DATA | ACKNOWLEDGES && bytes.len() == at;
        if alone {
            reserved(bytes, 5..8)?;
        }
        let pieces = Pieces { bytes: without_padding(bytes)?, at, more: !alone };
        pieces.clone().try_for_each(|piece| piece.map(drop))?;
        let ack = acknowledges.then(|| DataAck::parse_at(bytes, Self::LEN));
        Ok((Self { session, number: u24_at(bytes, 5), sent_us: u32_at(bytes, 8), ack }, pieces))
    }

    /// The pieces of a frame that [`parse`](Self::parse) has taken, of which this is all but the padding.
    pub fn pieces<'a>(&self, frame: &'a [u8]) -> Pieces<'a> {
        let at = Self::LEN + self.ack.map_or(0, |_| DataAck::LEN);
        Pieces { bytes: frame, at, more: frame.len() > at }
    }

    /// Appends it; pieces follow.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.push(DATA | if self.ack.is_some() { ACKNOWLEDGES } else { 0 });
        buffer.extend_from_slice(&self.session.to_be_bytes());
        buffer.extend_from_slice(&self.number.to_be_bytes()[1..]);
        buffer.extend_from_slice(&self.sent_us.to_be_bytes());
        self.ack.iter().for_each(|ack| ack.emit(buffer));
    }

    /// Makes a frame that was emitted as long as this; a longer one stays as it is.
    pub fn pad(frame: &mut Vec<u8>, length: usize) {
        if frame.len() < length {
            frame[0] |= PADDED;
            frame.push(PADDING);
            frame.resize(length, 0);
        }
    }
}

fn without_padding(bytes: &[u8]) -> Result<&[u8], Error> {
    if bytes[0] & PADDED == 0 {
        return Ok(bytes);
    }
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    match bytes[end] {
        PADDING if end > 0 => Ok(&bytes[..end]),
        value => Err(Error::Value { at: end, value }),
    }
}

/// The pieces of a frame, each with its bytes.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    bytes: &'a [u8],
    at: usize,
    more: bool,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Result<(Piece, &'a [u8]), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        std::mem::take(&mut self.more).then(|| self.read())
    }
}

impl<'a> Pieces<'a> {
    /// How long the frame is without its padding.
    pub fn end(&self) -> usize {
        self.bytes.len()
    }

    fn read(&mut self) -> Result<(Piece, &'a [u8]), Error> {
        let began = self.at;
        let fixed = self.take(PIECE_LEN)?;
        let flags = fixed[0];
        let has = |flag: u8| flags & flag != 0;
        let back = if has(BACK) { Some(u16_at(self.take(2)?, 0)) } else { None };
        let part =
            if has(PART) { Some(Part { offset: self.varint()?, total: self.varint()? }) } else { None };
        let length = if has(MORE) { self.varint()? as usize } else { self.bytes.len() - self.at };
        let payload = self.take(length)?;
        let fits = |part: Part| {
            let (offset, total) = (part.offset as usize, part.total as usize);
            (1..total).contains(&length) && (offset + length <= total || offset >= total)
        };
        if !part.is_none_or(fits) {
            return Err(Error::Value { at: began, value: flags });
        }
        self.more = has(MORE);
        let waited_us = waited_of(u16_at(fixed, 4));
        Ok((Piece { channel: flags & CHANNEL, sequence: u24_at(fixed, 1), waited_us, back, part }, payload))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let end = self.at + length;
        let taken = self.bytes.get(self.at..end);
        let taken = taken.ok_or(Error::Length { needed: end, found: self.bytes.len() })?;
        self.at = end;
        Ok(taken)
    }

    /// LEB128 (DWARF 5 section 7.6), as short as can be.
    fn varint(&mut self) -> Result<u32, Error> {
        let mut value = 0;
        for place in 0..VARINT_MAX {
            let byte = self.take(1)?[0];
            value |= u32::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 && (byte != 0 || place == 0) {
                return Ok(value);
            }
            if byte == 0 {
                break;
            }
        }
        Err(Error::Value { at: self.at - 1, value: self.bytes[self.at - 1] })
    }
}

impl Piece {
    /// Bytes before the payload; of that the length, where another piece follows.
    pub fn len(&self, length: Option<usize>) -> usize {
        let part = self.part.map_or(0, |part| varint_len(part.offset) + varint_len(part.total));
        let back = if self.back.is_some() { 2 } else { 0 };
        PIECE_LEN + back + part + length.map_or(0, |length| varint_len(length as u32))
    }

    /// Appends what stands before the payload, which follows; of that the length, where another piece comes after it.
    ///
    /// # Panics
    /// When there is no such channel.
    pub fn emit(&self, length: Option<usize>, buffer: &mut Vec<u8>) {
        assert!(self.channel <= CHANNEL, "a channel is one of 32");
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = flag(self.back.is_some(), BACK)
            | flag(self.part.is_some(), PART)
            | flag(length.is_some(), MORE)
            | self.channel;
        buffer.push(flags);
        buffer.extend_from_slice(&self.sequence.to_be_bytes()[1..]);
        buffer.extend_from_slice(&waited_code(self.waited_us).to_be_bytes());
        buffer.extend(self.back.into_iter().flat_map(u16::to_be_bytes));
        if let Some(part) = self.part {
            put_varint(part.offset, buffer);
            put_varint(part.total, buffer);
        }
        length.into_iter().for_each(|length| put_varint(length as u32, buffer));
    }
}

fn waited_of(code: u16) -> u32 {
    let (exponent, mantissa) = (code >> 12, u32::from(code & 0xfff));
    let units = if exponent == 0 { mantissa } else { (0x1000 + mantissa) << (exponent - 1) };
    units * 16
}

/// Rounded up: nobody is told that a message is younger than it is.
fn waited_code(us: u32) -> u16 {
    let units = us.div_ceil(16);
    if units < 0x1000 {
        return units as u16;
    }
    let mut shift = units.ilog2() - 12;
    let mut mantissa = units.div_ceil(1 << shift);
    if mantissa == 0x2000 {
        (shift, mantissa) = (shift + 1, 0x1000);
    }
    if shift > 14 { u16::MAX } else { (shift as u16 + 1) << 12 | (mantissa & 0xfff) as u16 }
}

fn varint_len(value: u32) -> usize {
    (value | 1).ilog2() as usize / 7 + 1
}

fn put_varint(mut value: u32, buffer: &mut Vec<u8>) {
    debug_assert!(varint_len(value) <= VARINT_MAX, "messages are shorter");
    while value >= 0x80 {
        buffer.push(value as u8 | 0x80);
        value >>= 7;
    }
    buffer.push(value as u8);
}

/// Which of the peer's [data frames](DataHeader) arrived.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 3 | largest | the highest number, modulo 2²⁴ |
/// | 8 | seen | bit *i*: the number *largest* − 1 − *i* has arrived |
/// | 2 | held | µs from when *largest* came until the frame that says so left; 65 535 for anything longer |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAck {
    /// The highest number that arrived, modulo 2²⁴.
    pub largest: u32,
    /// Bit *i*: the number `largest` − 1 − *i* has arrived too.
    pub seen: u64,
    /// How long after the arrival of `largest` this left, µs.
    pub held_us: u16,
}

impl DataAck {
    /// Its bytes.
    pub const LEN: usize = 13;

    fn parse_at(bytes: &[u8], at: usize) -> Self {
        Self { largest: u24_at(bytes, at), seen: u64_at(bytes, at + 3), held_us: u16_at(bytes, at + 11) }
    }

    fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&self.largest.to_be_bytes()[1..]);
        buffer.extend_from_slice(&self.seen.to_be_bytes());
        buffer.extend_from_slice(&self.held_us.to_be_bytes());
    }

    /// How long it was held, µs, unless that was too long to be told.
    pub fn held(&self) -> Option<u16> {
        Some(self.held_us).filter(|held| *held < u16::MAX)
    }
}
