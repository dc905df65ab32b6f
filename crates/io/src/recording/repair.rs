//! Files whose writer was killed: everything but the last record is whole, and only the end is missing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use mcap::records::op;
use mcap::sans_io::{LinearReadEvent, LinearReader, LinearReaderOptions};
use mcap::{MAGIC, McapError};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repaired {
    /// It had an end.
    WasWhole,
    /// It has one now; so many bytes of a record that was not whole are gone.
    Finished {
        /// Bytes.
        lost: u64,
    },
}

/// The longest chunk, as it is and unpacked, that is read.
const LONGEST: usize = 512_000_000;

/// Of a record: operation and length (MCAP specification, Records).
const HEADER: u64 = 9;

/// Gives an MCAP file an end whose writer was killed: its last record, where it is not whole or is a chunk that is damaged, is cut off, and the end follows,
/// without an index. A file that has an end stays as it is.
///
/// # Errors
/// When the file is no MCAP, is recorded into, or the system refuses.
pub fn repair(path: &Path) -> io::Result<Repaired> {
    repair_and_keep(path, None)
}

/// As [`repair`], and what is cut off goes to another file first, in the place of what that was.
pub(super) fn repair_and_keep(path: &Path, cut_off: Option<&Path>) -> io::Result<Repaired> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    lock(&file)?;
    let length = file.metadata()?.len();
    let Some(end) = end_of_records(&file, length)? else { return Ok(Repaired::WasWhole) };
    if let Some(cut_off) = cut_off.filter(|_| end < length) {
        let _ = fs::remove_file(cut_off); // Most often there is none.
        let mut kept = OpenOptions::new().write(true).create_new(true).mode(0o600).open(cut_off)?;
        file.seek(SeekFrom::Start(end))?;
        io::copy(&mut file, &mut kept)?;
    }
    file.set_len(end)?;
    file.seek(SeekFrom::End(0))?;
    finish(&mut file)?;
    Ok(Repaired::Finished { lost: length - end })
}

/// Keeps others from the file for as long as it is open.
///
/// # Errors
/// When another one has it. A file system that knows no locks is none.
pub(super) fn lock(file: &File) -> io::Result<()> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process records into it"))
        }
        _ => Ok(()),
    }
}

/// The least that a file ends in (MCAP specification, Data End and Footer): no index, no checksums.
pub(super) fn finish(out: &mut impl Write) -> io::Result<()> {
    let mut end = vec![op::DATA_END];
    end.extend(4u64.to_le_bytes());
    end.extend([0; 4]);
    end.push(op::FOOTER);
    end.extend(20u64.to_le_bytes());
    end.extend([0; 20]);
    end.extend(MAGIC);
    out.write_all(&end)
}

/// Where the data ends, of a file that has no end; `None`: it has one.
fn end_of_records(file: &File, length: u64) -> io::Result<Option<u64>> {
    let mut reader = BufReader::with_capacity(64, file);
    let mut magic = [0; MAGIC.len()];
    let not_mcap = || io::Error::new(io::ErrorKind::InvalidData, "this is no MCAP file");
    reader.read_exact(&mut magic).map_err(|_| not_mcap())?;
    if magic != *MAGIC {
        return Err(not_mcap());
    }
    let (mut at, mut header) = (MAGIC.len() as u64, [0; HEADER as usize]);
    let mut last: Option<u64> = None;
    while at + HEADER <= length {
        reader.read_exact(&mut header)?;
        let [opcode, size @ ..] = header;
        let next = at.saturating_add(HEADER).saturating_add(u64::from_le_bytes(size));
        let is_end = opcode == op::DATA_END;
        if is_end && next <= length && ends(file, length)? {
            return Ok(None);
        }
        // A summary without its end is made anew, or not: readers do without. Zeros are what a file system had no time to write.
        if is_end || opcode == 0 || next > length {
            break;
        }
        reader.seek(SeekFrom::Start(next))?;
        last = match opcode {
            op::CHUNK => Some(at),
            // It belongs to the chunk before it.
            op::MESSAGE_INDEX => last,
            _ => None,
        };
        at = next;
    }
    match last {
        Some(chunk) if is_damaged(file, chunk, at - chunk)? => Ok(Some(chunk)),
        _ => Ok(Some(at)),
    }
}

/// Of a chunk that was written last not all may have reached the disk. One that only others can read is whole, for all that is known.
fn is_damaged(mut file: &File, at: u64, length: u64) -> io::Result<bool> {
    file.seek(SeekFrom::Start(at))?;
    let mut rest = BufReader::new(file.take(length));
    let options = LinearReaderOptions::default()
        .with_skip_start_magic(true)
        .with_skip_end_magic(true)
        .with_prevalidate_chunk_crcs(true)
        .with_record_length_limit(LONGEST);
    let mut reader = LinearReader::new_with_options(options);
    while let Some(event) = reader.next_event() {
        match event {
            Err(
                McapError::UnsupportedCompression(_)
                | McapError::ChunkTooLarge(_)
                | McapError::RecordTooLarge { .. },
            ) => return Ok(false),
            Err(_) => return Ok(true),
            Ok(LinearReadEvent::ReadRequest(wanted)) => {
                let read = rest.read(reader.insert(wanted))?;
                reader.notify_read(read);
            }
            Ok(LinearReadEvent::Record { .. }) => {}
        }
    }
    Ok(false)
}

fn ends(mut file: &File, length: u64) -> io::Result<bool> {
    let mut magic = [0; MAGIC.len()];
    file.seek(SeekFrom::Start(length - MAGIC.len() as u64))?;
    file.read_exact(&mut magic)?;
    Ok(magic == *MAGIC)
}
