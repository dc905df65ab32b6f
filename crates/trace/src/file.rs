//! From a path or bytes to a recording, and back to a path.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Cursor, Read, Seek, Write};
use std::path::{Path, PathBuf};

use taut_core::Bytes;

use crate::error::{Fault, Problem, TraceError};
use crate::info::{Info, InfoRows, info};
use crate::recording::{Data, Format, Recording};
use crate::signals::Kept;
use crate::{csv, mahimahi, mcap, pcap};

/// How much of a file is read before it is refused: what is held in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    bytes: Bytes,
    rows: u64,
    values: u64,
    columns: usize,
    pub(crate) takes_cut: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: Bytes::new(512_000_000),
            rows: 16_000_000,
            values: 64_000_000,
            columns: 1_024,
            takes_cut: false,
        }
    }
}

impl Limits {
    /// Of an MCAP file that is read a record at a time: an hour's table of 17 columns at 1 kHz is a quarter of it.
    pub(crate) fn of_files() -> Self {
        Self::default().bytes(Bytes::new(u64::MAX)).rows(64_000_000).values(256_000_000)
    }

    /// Bytes of what is in memory, and of an MCAP's content after decompression. Default 512 MB.
    pub fn bytes(mut self, bytes: Bytes) -> Self {
        self.bytes = bytes;
        self
    }

    /// Rows, packets or messages. Default 16 million: over two hours at 2 kHz.
    pub fn rows(mut self, rows: u64) -> Self {
        self.rows = rows;
        self
    }

    /// Numbers in all channels together, 8 bytes each in memory. Default 64 million.
    pub fn values(mut self, values: u64) -> Self {
        self.values = values;
        self
    }

    /// Columns of a table. Default 1024.
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = columns;
        self
    }

    pub(crate) fn check_bytes(&self, bytes: u64) -> Result<(), Problem> {
        within(bytes, self.bytes.get(), "bytes")
    }

    pub(crate) fn check_rows(&self, rows: usize) -> Result<(), Problem> {
        within(rows as u64, self.rows, "rows")
    }

    pub(crate) fn check_values(&self, values: usize) -> Result<(), Problem> {
        within(values as u64, self.values, "values")
    }

    pub(crate) fn check_columns(&self, columns: usize) -> Result<(), Problem> {
        within(columns as u64, self.columns as u64, "columns")
    }
}

/// What names and schemas take in memory, of which some writers make a new one with each message.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Names(u64);

impl Names {
    const MOST: u64 = 64_000_000;

    /// So many bytes more are kept.
    pub(crate) fn keep(&mut self, bytes: usize) -> Result<(), Problem> {
        self.0 += bytes as u64;
        within(self.0, Self::MOST, "bytes of names and schemas")
    }
}

fn within(count: u64, limit: u64, what: &'static str) -> Result<(), Problem> {
    if count > limit { Err(Problem::TooLarge { what, limit }) } else { Ok(()) }
}

/// Reads a recording from a file.
///
/// # Errors
/// When it cannot be read, or is not a recording.
pub fn read(path: &Path) -> Result<Recording, TraceError> {
    read_columns(path, &all)
}

/// As [`read`], and of the signals of an MCAP file only those columns whose places `wanted` gives of all names: the others take no memory. No place: all.
///
/// # Errors
/// As of [`read`].
pub fn read_columns(path: &Path, wanted: &dyn Fn(&[&str]) -> Vec<usize>) -> Result<Recording, TraceError> {
    let chosen = |names: &[&str]| {
        Some(wanted(names)).filter(|places| !places.is_empty()).unwrap_or_else(|| all(names))
    };
    match Opened::open(path)? {
        Opened::Mcap(name, mut file) => decode_mcap(&mut file, &Limits::of_files(), &chosen)
            .map_err(|fault| TraceError::new(&name, fault)),
        Opened::Other(name, data) => read_bytes(&name, &data),
    }
}

fn decode_mcap(
    source: &mut (impl Read + Seek),
    limits: &Limits,
    wanted: Wanted<'_>,
) -> Result<Recording, Fault> {
    let mut kept = Kept { limits, signals: None };
    let (other, notes) = mcap::read(source, limits, wanted, &mut kept)?;
    // There are rows, unless the file was changed while it was read.
    let data = other.or(kept.signals.map(Data::Signals)).ok_or(Fault::file(Problem::Nothing("rows")))?;
    Ok(Recording::new(Format::Mcap, data).with_notes(notes))
}

/// What there is to know about a file at a glance. Of an MCAP file that is cut short, as by a writer that was killed, what is whole counts: a note says
/// where it ends.
///
/// # Errors
/// As of [`read`].
pub fn info_of(path: &Path) -> Result<Info, TraceError> {
    let limits = Limits { takes_cut: true, ..Limits::of_files() };
    let mut rows = InfoRows::new(&limits);
    let (other, notes) = match Opened::open(path)? {
        Opened::Mcap(name, mut file) => {
            mcap::read(&mut file, &limits, &all, &mut rows).map_err(|fault| TraceError::new(&name, fault))?
        }
        Opened::Other(name, data) => {
            let limits = Limits { takes_cut: true, ..Limits::default() };
            return Ok(info(&read_bytes_within(&name, &data, &limits)?));
        }
    };
    Ok(match other {
        Some(data) => info(&Recording::new(Format::Mcap, data).with_notes(notes)),
        None => rows.finish(Format::Mcap, notes),
    })
}

/// Of all columns, by their names, the places of those that are read.
pub(crate) type Wanted<'a> = &'a dyn Fn(&[&str]) -> Vec<usize>;

fn all(names: &[&str]) -> Vec<usize> {
    (0..names.len()).collect()
}

/// A file, with its name for errors.
pub(crate) enum Opened {
    /// Read a record at a time.
    Mcap(String, BufReader<File>),
    /// All of it.
    Other(String, Vec<u8>),
}

impl Opened {
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let failed = |error: io::Error| TraceError::new(&name, Fault::file(Problem::Io(error.to_string())));
        let mut file = File::open(path).map_err(failed)?;
        let mut data = Vec::new();
        // A pipe is read once.
        if file.metadata().map_err(failed)?.is_file() {
            Read::by_ref(&mut file).take(mcap::MAGIC.len() as u64).read_to_end(&mut data).map_err(failed)?;
            file.rewind().map_err(failed)?;
            if data == mcap::MAGIC {
                return Ok(Self::Mcap(name, BufReader::new(file)));
            }
            data.clear();
        }
        // One byte more than the limit tells a file of exactly the limit from a longer one, also when it is a pipe.
        let limit = Limits::default().bytes.get();
        file.take(limit + 1).read_to_end(&mut data).map_err(failed)?;
        Ok(Self::Other(name, data))
    }
}

/// Reads a recording from bytes in memory. `name` is for errors, and its extension for when the content could be
/// either of two formats.
///
/// # Errors
/// When they are not a recording.
pub fn read_bytes(name: &str, data: &[u8]) -> Result<Recording, TraceError> {
    read_bytes_within(name, data, &Limits::default())
}

/// As [`read_bytes`], with other limits.
///
/// # Errors
/// When they are not a recording, or one beyond the limits.
pub fn read_bytes_within(name: &str, data: &[u8], limits: &Limits) -> Result<Recording, TraceError> {
    decode(name, data, limits).map_err(|fault| TraceError::new(name, fault))
}

/// Reads a recording and writes it in the format of the output's extension. MCAP becomes CSV row by row, whatever its length. Of an MCAP file that is cut
/// short, as by a writer that was killed, what is whole is converted. What a person should know of it, one sentence each.
///
/// # Errors
/// When both are the same file, or see [`read`] and [`write()`].
pub fn convert(input: &Path, output: &Path) -> Result<Vec<String>, TraceError> {
    refuse_same(input, output)?;
    let limits = Limits { takes_cut: true, ..Limits::of_files() };
    let is_csv = extension(&output.display().to_string()) == "csv";
    let recording = match Opened::open(input)? {
        Opened::Mcap(name, file) if is_csv => return convert_rows(&name, file, output, &limits),
        Opened::Mcap(name, mut file) => {
            decode_mcap(&mut file, &limits, &all).map_err(|fault| TraceError::new(&name, fault))?
        }
        Opened::Other(name, data) => read_bytes(&name, &data)?,
    };
    write(output, &recording)?;
    Ok(recording.notes().to_vec())
}

/// Refuses to write over what is read.
///
/// # Errors
/// When both are the same file.
pub fn refuse_same(input: &Path, output: &Path) -> Result<(), TraceError> {
    match (fs::canonicalize(input), fs::canonicalize(output)) {
        (Ok(from), Ok(to)) if from == to => {
            Err(TraceError::new(&output.display().to_string(), Fault::file(Problem::SameFile)))
        }
        _ => Ok(()),
    }
}

/// From MCAP to CSV.
fn convert_rows(
    name: &str,
    mut file: BufReader<File>,
    output: &Path,
    limits: &Limits,
) -> Result<Vec<String>, TraceError> {
    replace(output, |out| {
        let mut rows = csv::CsvRows::new(&mut *out);
        let read = mcap::read(&mut file, limits, &all, &mut rows);
        let (other, notes) = read.map_err(|fault| TraceError::new(name, fault))?;
        let flushed = rows.flush();
        drop(rows);
        let written = flushed.and_then(|()| match other {
            Some(data) => out.write_all(&csv::write_csv(&Recording::new(Format::Mcap, data))),
            None => Ok(()),
        });
        written.map_err(|error| not_written(output, &error))?;
        Ok(notes)
    })
}

fn not_written(path: &Path, error: &io::Error) -> TraceError {
    TraceError::new(&path.display().to_string(), Fault::file(Problem::Io(error.to_string())))
}

/// Writes a recording to a file, as CSV or MCAP by its extension. Until all of it is written, what was there remains.
///
/// # Errors
/// When the extension is neither, the recording has no form in that format, or the file cannot be written.
pub fn write(path: &Path, recording: &Recording) -> Result<(), TraceError> {
    let name = path.display().to_string();
    let fail = |problem| TraceError::new(&name, Fault::file(problem));
    let data = match extension(&name).as_str() {
        "csv" => csv::write_csv(recording),
        "mcap" => mcap::write(recording).map_err(fail)?,
        _ => return Err(fail(Problem::UnknownOutput)),
    };
    write_bytes(path, &data)
}

/// Puts bytes into a file. Until all of them are written, what was there remains.
///
/// # Errors
/// When the file cannot be written.
pub fn write_bytes(path: &Path, data: &[u8]) -> Result<(), TraceError> {
    replace(path, |out| out.write_all(data).map_err(|error| not_written(path, &error)))
}

/// Puts a file in its place when all of it is written, or leaves everything as it was.
fn replace<T>(path: &Path, write: impl FnOnce(&mut File) -> Result<T, TraceError>) -> Result<T, TraceError> {
    let failed = |error: io::Error| not_written(path, &error);
    // What a symbolic link points to is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let before = fs::metadata(&path).ok();
    if before.as_ref().is_some_and(|before| !before.is_file()) {
        // A pipe or a device has nothing to lose, and cannot be replaced.
        return write(&mut OpenOptions::new().write(true).open(&path).map_err(failed)?);
    }
    let partial = beside(&path);
    // Never somebody else's.
    let mut file = OpenOptions::new().write(true).create_new(true).open(&partial).map_err(failed)?;
    let written = write(&mut file).and_then(|told| {
        before
            .map_or(Ok(()), |before| file.set_permissions(before.permissions()))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&partial, &path))
            .map_err(failed)?;
        Ok(told)
    });
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

/// `out.csv.4711.partial`
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    name.into()
}

fn decode(name: &str, data: &[u8], limits: &Limits) -> Result<Recording, Fault> {
    limits.check_bytes(data.len() as u64).map_err(Fault::file)?;
    match detect(name, data).map_err(Fault::file)? {
        Format::Csv => csv::read(data, limits),
        Format::Mcap => decode_mcap(&mut Cursor::new(data), limits, &all),
        Format::Pcap => pcap::read(data, limits),
        Format::Pcapng => pcap::read_ng(data, limits),
        Format::Mahimahi => mahimahi::read(data, limits),
    }
}

/// The format of `data`: by its first bytes where they are a signature, else text, where a first line of one whole
/// number is mahimahi unless the extension says CSV.
pub(crate) fn detect(name: &str, data: &[u8]) -> Result<Format, Problem> {
    let extension = extension(name);
    if let Some(format) = by_signature(data)? {
        return Ok(format);
    }
    let text = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data).trim_ascii();
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    let first_line = text.split(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default().trim_ascii();
    let is_text = !first_line.iter().any(|byte| *byte < b' ' && *byte != b'\t');
    match extension.as_str() {
        "mcap" | "pcap" | "pcapng" | "cap" => {
            Err(Problem::Malformed(format!("this does not begin like a .{extension} file")))
        }
        "csv" => Ok(Format::Csv),
        _ if !is_text => Err(Problem::UnknownFormat),
        _ if first_line.iter().all(u8::is_ascii_digit) => Ok(Format::Mahimahi),
        _ if first_line.contains(&b',') || csv::is_time_column(first_line) => Ok(Format::Csv),
        "trace" | "mahi" | "up" | "down" | "pps" => Ok(Format::Mahimahi),
        _ => Err(Problem::UnknownFormat),
    }
}

fn by_signature(data: &[u8]) -> Result<Option<Format>, Problem> {
    if data.starts_with(mcap::MAGIC) {
        return Ok(Some(Format::Mcap));
    }
    if data.starts_with(&[0x1f, 0x8b]) {
        return Err(Problem::Compressed("gzip"));
    }
    let Some(magic) = data.first_chunk::<4>() else { return Ok(None) };
    match u32::from_be_bytes(*magic) {
        // Section header block: the same in both byte orders.
        0x0a0d_0d0a => Ok(Some(Format::Pcapng)),
        // Microseconds, nanoseconds and Kuznetzov's variant, in both byte orders.
        0xa1b2_c3d4 | 0xd4c3_b2a1 | 0xa1b2_3c4d | 0x4d3c_b2a1 | 0xa1b2_cd34 | 0x34cd_b2a1 => {
            Ok(Some(Format::Pcap))
        }
        0x28b5_2ffd => Err(Problem::Compressed("zstd")),
        0x504b_0304 => Err(Problem::Compressed("zip")),
        _ => Ok(None),
    }
}

fn extension(name: &str) -> String {
    Path::new(name)
        .extension()
        .map(|extension| extension.to_string_lossy().to_ascii_lowercase())
        .unwrap_or_default()
}
