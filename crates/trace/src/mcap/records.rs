//! From the bytes of a file to its schemas, channels and messages, in file order.
//!
//! The library's readers trust lengths: of records inside an uncompressed chunk, of attachments, of strings (up to 4 GB
//! of memory for each); and they tell no offsets. Records are framed here instead (a byte of operation, eight of
//! length), and so are the fields of the few kinds that matter. The library decompresses chunks and checks their CRC.

use std::collections::BTreeMap;

use mcap::records::{Channel, MessageHeader, SchemaHeader, op};
use mcap::sans_io::{LinearReadEvent, LinearReader, LinearReaderOptions};
use mcap::{MAGIC, McapError};

use crate::error::{Fault, Problem};
use crate::file::Limits;

/// What is called with every schema, channel and message. Faults are placed at the record, or at its chunk.
pub(super) trait Visit {
    fn schema(&mut self, header: SchemaHeader, data: &[u8]) -> Result<(), Problem>;
    fn channel(&mut self, channel: Channel) -> Result<(), Problem>;
    fn message(&mut self, header: MessageHeader, data: &[u8]) -> Result<(), Problem>;
}

/// Walks through a whole file, which begins with the magic bytes. Gives where it is cut short, if it is: as by a writer that was killed.
pub(super) fn walk(data: &[u8], limits: &Limits, visitor: &mut impl Visit) -> Result<Option<Fault>, Fault> {
    let mut at = MAGIC.len();
    let mut content: u64 = 0;
    let mut in_data = true;
    let end = loop {
        let Some(frame) = Frame::at(data, at) else {
            return Ok(Some(Fault::byte(at, Problem::Truncated("a record"))));
        };
        match frame.opcode {
            op::FOOTER => break frame.end,
            // The summary after it repeats schemas and channels.
            op::DATA_END => in_data = false,
            op::CHUNK if in_data => walk_chunk(data, at, &frame, limits, &mut content, visitor)?,
            opcode if in_data => visit(at, opcode, frame.body, visitor)?,
            _ => {}
        }
        at = frame.end;
    };
    match data[end..].strip_prefix(MAGIC) {
        Some([]) => Ok(None),
        Some(_) => Err(Fault::byte(end + MAGIC.len(), malformed("bytes after the end of the MCAP file"))),
        None => Ok(Some(Fault::byte(end, Problem::Truncated("the magic bytes at its end")))),
    }
}

/// One record: operation, length, body.
struct Frame<'a> {
    opcode: u8,
    body: &'a [u8],
    end: usize,
}

impl<'a> Frame<'a> {
    /// The record that begins at `at`, if all of it is there.
    fn at(data: &'a [u8], at: usize) -> Option<Self> {
        let (opcode, rest) = data.get(at..)?.split_first()?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let body = rest.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        Some(Self { opcode: *opcode, body, end: at + 1 + length.len() + body.len() })
    }
}

/// Walks through the records of a chunk. `content` counts decompressed bytes of the whole file.
fn walk_chunk(
    data: &[u8],
    at: usize,
    frame: &Frame<'_>,
    limits: &Limits,
    content: &mut u64,
    visitor: &mut impl Visit,
) -> Result<(), Fault> {
    let fault = |error| Fault::byte(at, problem(error));
    let header = ChunkHeader::parse(frame.body).ok_or_else(|| Fault::byte(at, unreadable()))?;
    *content = content.saturating_add(header.uncompressed_size);
    limits.check_bytes(*content).map_err(|problem| Fault::byte(at, problem))?;
    if header.compression.is_empty() && !is_whole(header.records) {
        return Err(Fault::byte(at, malformed("a record in this chunk is longer than the chunk")));
    }
    let longest = frame.body.len().max(usize::try_from(header.uncompressed_size).unwrap_or(usize::MAX));
    let options = LinearReaderOptions::default()
        .with_skip_start_magic(true)
        .with_skip_end_magic(true)
        .with_validate_chunk_crcs(true)
        .with_record_length_limit(longest);
    let mut reader = LinearReader::new_with_options(options);
    let mut rest = &data[at..frame.end];
    while let Some(event) = reader.next_event() {
        match event.map_err(fault)? {
            LinearReadEvent::ReadRequest(wanted) => {
                // Zero bytes are the end: an error when the chunk's content is not complete by then.
                let (now, later) = rest.split_at(wanted.min(rest.len()));
                reader.insert(now.len()).copy_from_slice(now);
                reader.notify_read(now.len());
                rest = later;
            }
            LinearReadEvent::Record { data, opcode } => visit(at, opcode, data, visitor)?,
        }
    }
    Ok(())
}

/// Whether records fill a chunk to its last byte.
fn is_whole(records: &[u8]) -> bool {
    let mut at = 0;
    while at < records.len() {
        match Frame::at(records, at) {
            Some(frame) => at = frame.end,
            None => return false,
        }
    }
    true
}

fn visit(at: usize, opcode: u8, body: &[u8], visitor: &mut impl Visit) -> Result<(), Fault> {
    let visited = match opcode {
        op::SCHEMA => parse_schema(body).map(|(header, data)| visitor.schema(header, data)),
        op::CHANNEL => parse_channel(body).map(|channel| visitor.channel(channel)),
        op::MESSAGE => parse_message(body).map(|(header, data)| visitor.message(header, data)),
        _ => return Ok(()),
    };
    visited.unwrap_or_else(|| Err(unreadable())).map_err(|problem| Fault::byte(at, problem))
}

/// MCAP specification, Schema (op=0x03).
fn parse_schema(body: &[u8]) -> Option<(SchemaHeader, &[u8])> {
    let mut fields = Fields(body);
    let header = SchemaHeader { id: fields.u16()?, name: fields.string()?, encoding: fields.string()? };
    Some((header, fields.bytes()?))
}

/// MCAP specification, Channel (op=0x04).
fn parse_channel(body: &[u8]) -> Option<Channel> {
    let mut fields = Fields(body);
    let (id, schema_id) = (fields.u16()?, fields.u16()?);
    let (topic, message_encoding) = (fields.string()?, fields.string()?);
    let mut map = Fields(fields.bytes()?);
    let mut metadata = BTreeMap::new();
    while !map.0.is_empty() {
        metadata.insert(map.string()?, map.string()?);
    }
    Some(Channel { id, schema_id, topic, message_encoding, metadata })
}

/// MCAP specification, Message (op=0x05).
fn parse_message(body: &[u8]) -> Option<(MessageHeader, &[u8])> {
    let mut fields = Fields(body);
    let (channel_id, sequence) = (fields.u16()?, fields.u32()?);
    let header = MessageHeader { channel_id, sequence, log_time: fields.u64()?, publish_time: fields.u64()? };
    Some((header, fields.0))
}

/// What matters of a chunk. MCAP specification, Chunk (op=0x06).
struct ChunkHeader<'a> {
    uncompressed_size: u64,
    compression: String,
    records: &'a [u8],
}

impl<'a> ChunkHeader<'a> {
    fn parse(body: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(body);
        let (_first_time, _last_time) = (fields.u64()?, fields.u64()?);
        let uncompressed_size = fields.u64()?;
        let _crc = fields.u32()?;
        let compression = fields.string()?;
        let length = usize::try_from(fields.u64()?).ok()?;
        Some(Self { uncompressed_size, compression, records: fields.take(length)? })
    }
}

/// Little-endian fields, one after the other; `None` where they end too soon.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.first_chunk().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Bytes behind their length.
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    fn string(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }
}

fn unreadable() -> Problem {
    malformed("a record's fields do not fit into it, or are not UTF-8")
}

pub(super) fn problem(error: McapError) -> Problem {
    match error {
        // The parser's own text is a page.
        McapError::Parse(_) => unreadable(),
        McapError::UnexpectedEof | McapError::UnexpectedEoc => malformed("a chunk ends inside a record"),
        error => Problem::Malformed(error.to_string()),
    }
}

pub(super) fn malformed(text: &str) -> Problem {
    Problem::Malformed(text.to_owned())
}
