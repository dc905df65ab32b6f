//! From the bytes of a file to its schemas, channels and messages, in file order.
//!
//! The library's readers trust lengths: of records inside an uncompressed chunk, of attachments, of strings (up to 4 GB
//! of memory for each); and they tell no offsets. Records are framed here instead (a byte of operation, eight of
//! length), and so are the fields of the few kinds that matter. The library decompresses chunks and checks their CRC.

use std::collections::BTreeMap;
use std::io::{self, Read};

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

/// The longest chunk, as it is and unpacked, and the longest of other records that are looked at: one is in memory at a time.
const LONGEST: u64 = 512_000_000;

/// How far a file is whole.
pub(super) struct Walked {
    /// Bytes before which it is.
    pub(super) until: u64,
    /// Where it is cut short, if it is: as by a writer that was killed.
    pub(super) cut: Option<Fault>,
}

/// What is said of one that is cut short.
pub(super) fn note(cut: &Fault) -> String {
    let note = format!("{}, after which {}", cut.place, cut.problem);
    note.trim_start_matches(": ").to_owned()
}

/// Walks through a whole file, which begins with the magic bytes, a record at a time.
pub(super) fn walk(
    source: &mut impl Read,
    limits: &Limits,
    visitor: &mut impl Visit,
) -> Result<Walked, Fault> {
    let mut at = 0;
    let mut record = Vec::new();
    source.by_ref().take(MAGIC.len() as u64).read_to_end(&mut record).map_err(failed(at))?;
    at += record.len() as u64;
    let mut content: u64 = 0;
    let mut in_data = true;
    // A chunk, and what is wrong with it: it is the end of what is whole where no other record follows but its index.
    let mut damaged: Option<(u64, Fault)> = None;
    let cut = |damaged: Option<(u64, Fault)>, at, what| {
        let unfinished = || (at, Fault::byte(at as usize, Problem::Unfinished(what)));
        let (until, fault) = damaged.unwrap_or_else(unfinished);
        Ok(Walked { until, cut: Some(fault) })
    };
    loop {
        let Some((opcode, length)) = next(source, at, in_data, &mut record)? else {
            return cut(damaged, at, "a record");
        };
        match (opcode, damaged.take()) {
            (op::MESSAGE_INDEX, before) => damaged = before,
            (op::DATA_END, before) => (in_data, damaged) = (false, before),
            (_, before) if !in_data => damaged = before,
            (_, Some((_, fault))) => return Err(fault),
            (op::CHUNK, None) => {
                let damage = walk_chunk(&record, at as usize, limits, &mut content, visitor)?;
                damaged = damage.map(|fault| (at, fault));
            }
            (_, None) if is_read(opcode) => visit(at as usize, opcode, &record[HEAD..], visitor)?,
            _ => {}
        }
        at += HEAD as u64 + length;
        if opcode == op::FOOTER {
            break;
        }
    }
    record.clear();
    source.take(MAGIC.len() as u64 + 1).read_to_end(&mut record).map_err(failed(at))?;
    match (record.strip_prefix(MAGIC), damaged) {
        (None, damaged) => cut(damaged, at, "the magic bytes at its end"),
        (Some(_), Some((_, fault))) => Err(fault),
        (Some([]), None) => Ok(Walked { until: at + MAGIC.len() as u64, cut: None }),
        (Some(_), None) => {
            let end = at as usize + MAGIC.len();
            Err(Fault::byte(end, malformed("bytes after the end of the MCAP file")))
        }
    }
}

/// The next record's operation and the length of its body, into `record` where it is looked at; `None`: the file ends before it does.
fn next(
    source: &mut impl Read,
    at: u64,
    in_data: bool,
    record: &mut Vec<u8>,
) -> Result<Option<(u8, u64)>, Fault> {
    record.clear();
    source.by_ref().take(HEAD as u64).read_to_end(record).map_err(failed(at))?;
    // Zeros are what a file system had no time to write.
    let Some((opcode, length)) = head(record).filter(|(opcode, _)| *opcode != 0) else { return Ok(None) };
    let mut body = source.by_ref().take(length);
    // The summary after the data repeats schemas and channels.
    let read = if !(in_data && is_read(opcode)) {
        io::copy(&mut body, &mut io::sink()).map_err(failed(at))?
    } else if length > LONGEST {
        let what = "bytes in one record";
        return Err(Fault::byte(at as usize, Problem::TooLarge { what, limit: LONGEST }));
    } else {
        body.read_to_end(record).map_err(failed(at))? as u64
    };
    Ok((read == length).then_some((opcode, length)))
}

/// Is it looked at?
const fn is_read(opcode: u8) -> bool {
    matches!(opcode, op::SCHEMA | op::CHANNEL | op::MESSAGE | op::CHUNK)
}

fn failed(at: u64) -> impl Fn(io::Error) -> Fault {
    move |error| Fault::byte(at as usize, Problem::Io(error.to_string()))
}

/// Bytes before a record's body.
const HEAD: usize = 9;

/// A record's operation and the length of its body.
fn head(bytes: &[u8]) -> Option<(u8, u64)> {
    let (opcode, rest) = bytes.split_first()?;
    Some((*opcode, u64::from_le_bytes(*rest.first_chunk()?)))
}

/// Walks through the records of a chunk, itself a record. `content` counts decompressed bytes of the whole file. Gives what is wrong with one that is
/// damaged.
fn walk_chunk(
    chunk: &[u8],
    at: usize,
    limits: &Limits,
    content: &mut u64,
    visitor: &mut impl Visit,
) -> Result<Option<Fault>, Fault> {
    let damage = |problem| Ok(Some(Fault::byte(at, problem)));
    let Some(header) = ChunkHeader::parse(&chunk[HEAD..]) else { return damage(unreadable()) };
    *content = content.saturating_add(header.uncompressed_size);
    limits.check_bytes(*content).map_err(|problem| Fault::byte(at, problem))?;
    if header.uncompressed_size > LONGEST {
        let what = "bytes in one chunk";
        return Err(Fault::byte(at, Problem::TooLarge { what, limit: LONGEST }));
    }
    if header.compression.is_empty() && !is_whole(header.records) {
        return damage(malformed("a record in this chunk is longer than the chunk"));
    }
    let longest = chunk.len().max(usize::try_from(header.uncompressed_size).unwrap_or(usize::MAX));
    let options = LinearReaderOptions::default()
        .with_skip_start_magic(true)
        .with_skip_end_magic(true)
        .with_prevalidate_chunk_crcs(true)
        .with_record_length_limit(longest);
    let mut reader = LinearReader::new_with_options(options);
    let mut rest = chunk;
    // All of them before any is visited: of a chunk that is damaged none counts.
    let mut records = Vec::new();
    while let Some(event) = reader.next_event() {
        match event {
            // Whole, for all that is known.
            Err(error @ McapError::UnsupportedCompression(_)) => {
                return Err(Fault::byte(at, problem(error)));
            }
            Err(error) => return damage(problem(error)),
            Ok(LinearReadEvent::ReadRequest(wanted)) => {
                // Zero bytes are the end: an error when the chunk's content is not complete by then.
                let (now, later) = rest.split_at(wanted.min(rest.len()));
                reader.insert(now.len()).copy_from_slice(now);
                reader.notify_read(now.len());
                rest = later;
            }
            Ok(LinearReadEvent::Record { data, opcode }) => {
                records.push(opcode);
                records.extend((data.len() as u64).to_le_bytes());
                records.extend(data);
            }
        }
    }
    let mut rest = &records[..];
    while let Some((opcode, length)) = head(rest) {
        let (body, later) = rest[HEAD..].split_at(length as usize);
        visit(at, opcode, body, visitor)?;
        rest = later;
    }
    Ok(None)
}

/// Whether records fill a chunk to its last byte.
fn is_whole(records: &[u8]) -> bool {
    let mut rest = records;
    while !rest.is_empty() {
        let body = head(rest).and_then(|(_, length)| {
            let end = HEAD.checked_add(usize::try_from(length).ok()?)?;
            rest.get(end..)
        });
        let Some(later) = body else { return false };
        rest = later;
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
