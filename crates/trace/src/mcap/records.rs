//! From the bytes of a file to its schemas, channels and messages, in file order.
//!
//! The library's readers trust lengths inside an uncompressed chunk and inside an attachment, tell no offsets, and
//! bound nothing. Records are framed here instead (a byte of operation, eight of length); the library decompresses
//! chunks, checks their CRC and parses the three kinds of records that matter.

use mcap::records::{Record, op};
use mcap::sans_io::{LinearReadEvent, LinearReader, LinearReaderOptions};
use mcap::{MAGIC, McapError, parse_record};

use crate::error::{Fault, Problem};
use crate::file::Limits;

/// What is called with every schema, channel and message, and with the offset of the record, or of its chunk.
pub(super) trait Visit {
    fn visit(&mut self, at: usize, record: Record<'_>) -> Result<(), Fault>;
}

/// Walks through a whole file, which begins with the magic bytes.
pub(super) fn walk(data: &[u8], limits: &Limits, visitor: &mut impl Visit) -> Result<(), Fault> {
    let mut at = MAGIC.len();
    let mut content: u64 = 0;
    let mut in_data = true;
    loop {
        let frame = Frame::at(data, at).ok_or_else(|| Fault::byte(at, Problem::Truncated("a record")))?;
        match frame.opcode {
            op::FOOTER => break at = frame.end,
            // The summary after it repeats schemas and channels.
            op::DATA_END => in_data = false,
            op::CHUNK if in_data => walk_chunk(data, at, &frame, limits, &mut content, visitor)?,
            opcode if in_data => visit(at, opcode, frame.body, visitor)?,
            _ => {}
        }
        at = frame.end;
    }
    match data[at..].strip_prefix(MAGIC) {
        Some([]) => Ok(()),
        Some(_) => Err(Fault::byte(at + MAGIC.len(), malformed("bytes after the end of the MCAP file"))),
        None => Err(Fault::byte(at, Problem::Truncated("the magic bytes at its end"))),
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
    let Record::Chunk { header, data: records } = parse_record(op::CHUNK, frame.body).map_err(fault)? else {
        return Err(fault(McapError::UnexpectedEoc));
    };
    *content = content.saturating_add(header.uncompressed_size);
    limits.check_bytes(*content).map_err(|problem| Fault::byte(at, problem))?;
    if header.compression.is_empty() && !is_whole(&records) {
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
    if !matches!(opcode, op::SCHEMA | op::CHANNEL | op::MESSAGE) {
        return Ok(());
    }
    visitor.visit(at, parse_record(opcode, body).map_err(|error| Fault::byte(at, problem(error)))?)
}

pub(super) fn problem(error: McapError) -> Problem {
    match error {
        // The parser's own text is a page.
        McapError::Parse(_) => malformed("a record's content does not parse"),
        McapError::UnexpectedEof | McapError::UnexpectedEoc => malformed("a chunk ends inside a record"),
        error => Problem::Malformed(error.to_string()),
    }
}

pub(super) fn malformed(text: &str) -> Problem {
    Problem::Malformed(text.to_owned())
}
