//! Errors of one line: which file, where, what.

use std::fmt;

use taut_core::{Printable, printable};

/// Why a file is not a recording, or could not be written.
///
/// Displayed as one line: `bad.csv:17: time_s: 0.0035 is before 0.0040 of the line before; times must not go back`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {problem}", shown(.file, NAME_SHOWN), .fault_place)]
pub struct TraceError {
    file: String,
    fault_place: Place,
    problem: Problem,
}

impl TraceError {
    pub(crate) fn new(file: &str, fault: Fault) -> Self {
        Self { file: file.to_owned(), fault_place: fault.place, problem: fault.problem }
    }

    /// The file's name as it was given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Where in the file.
    pub fn place(&self) -> Place {
        self.fault_place
    }

    /// What is wrong there.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

/// Where in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line of text, counting from 1.
    Line(u64),
    /// A byte, counting from 0.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Line(line) => write!(f, ":{line}"),
            Self::Byte(byte) => write!(f, ": byte {byte}"),
        }
    }
}

/// What is wrong with a file. Text from the file is shown without control characters and cut to a few words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The operating system refused.
    #[error("{0}")]
    Io(String),
    /// No bytes, or only blank lines.
    #[error("the file is empty")]
    Empty,
    /// Not one of the formats.
    #[error("this is not CSV, MCAP, pcap, pcapng or mahimahi")]
    UnknownFormat,
    /// Compressed as a whole.
    #[error("the file is compressed with {0}; decompress it first")]
    Compressed(&'static str),
    /// The output's extension says nothing.
    #[error("cannot write this kind of file; name it .csv or .mcap")]
    UnknownOutput,
    /// What is read would be written over.
    #[error("this is the file that is read; give the output another name")]
    SameFile,
    /// Text with bytes that are no text.
    #[error("not UTF-8 text")]
    NotUtf8,
    /// A bound was reached.
    #[error("more than {limit} {what}, the most that are read")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How many are read.
        limit: u64,
    },
    /// A table that memory is not to hold.
    #[error(
        "more than {limit} values in one table, the most that are held: convert it to CSV, which holds none, or ask for fewer columns"
    )]
    LongTable {
        /// How many are held.
        limit: u64,
    },
    /// A table without rows.
    #[error("there is a header and no row below it")]
    NoRows,
    /// An MCAP file without an end.
    #[error("the file ends inside {0}, as one whose writer was killed: `taut trace repair` finishes it")]
    Unfinished(&'static str),
    /// A capture or an MCAP file with nothing in it.
    #[error("there are no {0} in it")]
    Nothing(&'static str),
    /// Something else than packets of a network.
    #[error("a pcap or pcapng file of packets is needed")]
    NoCapture,
    /// Numbers where the names should be.
    #[error("the first line must name the columns, but `{}` is a number", shown(.0, CELL_SHOWN))]
    NoHeader(String),
    /// The columns are not a layout that is known.
    #[error(
        "the first column is `{}`; it must be time_s, time_ms, time_us or time_ns (or start_time and stop_time before \
         delay, jitter and packet_loss), and commas must separate the columns",
        shown(.0, CELL_SHOWN)
    )]
    NoTimeColumn(String),
    /// A column of a known layout that the layout does not have.
    #[error("column `{}` is not one of {allowed}", shown(.column, CELL_SHOWN))]
    UnknownColumn {
        /// Its name.
        column: String,
        /// Those that there are.
        allowed: &'static str,
    },
    /// A column without a name, counting from 1.
    #[error("column {0} has no name")]
    UnnamedColumn(usize),
    /// Two columns with one name.
    #[error("two columns are named `{}`", shown(.0, CELL_SHOWN))]
    SameName(String),
    /// A row of another length than the header.
    #[error("{cells} cells in a row where the header has {columns}")]
    Ragged {
        /// In the row.
        cells: usize,
        /// In the header.
        columns: usize,
    },
    /// A cell without content.
    #[error("{}: the cell is empty; it must be {wanted}", shown(.column, CELL_SHOWN))]
    EmptyCell {
        /// In which column.
        column: String,
        /// What should be there.
        wanted: &'static str,
    },
    /// A cell that is not what its column needs.
    #[error("{}: `{}` is not {wanted}", shown(.column, CELL_SHOWN), shown(.text, CELL_SHOWN))]
    Cell {
        /// In which column.
        column: String,
        /// What is there.
        text: String,
        /// What should be there.
        wanted: &'static str,
    },
    /// A time before the one of the row above.
    #[error(
        "{}: {} is before {} of the line before; times must not go back",
        shown(.column, CELL_SHOWN), shown(.time, CELL_SHOWN), shown(.previous, CELL_SHOWN)
    )]
    TimeWentBack {
        /// The column of times.
        column: String,
        /// As it stands there.
        time: String,
        /// As it stands in the row above.
        previous: String,
    },
    /// A line of a mahimahi trace, in the words of its parser.
    #[error("{0}")]
    Mahimahi(String),
    /// The end of the file comes too soon.
    #[error("the file ends inside {0}; it is cut short")]
    Truncated(&'static str),
    /// Something that breaks the rules of its format.
    #[error("{}", shown(.0, MESSAGE_SHOWN))]
    Malformed(String),
    /// The recorder's clock cannot be written in this format.
    #[error("MCAP times count from 0; this recording begins at {0} ns")]
    StartOutOfRange(i64),
}

/// A problem and its place, before the file's name is known.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) place: Place,
    pub(crate) problem: Problem,
}

impl Fault {
    pub(crate) fn file(problem: Problem) -> Self {
        Self { place: Place::File, problem }
    }

    pub(crate) fn line(line: u64, problem: Problem) -> Self {
        Self { place: Place::Line(line), problem }
    }

    pub(crate) fn byte(byte: usize, problem: Problem) -> Self {
        Self { place: Place::Byte(byte as u64), problem }
    }
}

const NAME_SHOWN: usize = 200;
const CELL_SHOWN: usize = 40;
const MESSAGE_SHOWN: usize = 160;

fn shown(text: &str, limit: usize) -> Printable<'_> {
    printable(text).at_most(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_whatever_the_file_says() {
        let text = format!("\x1b[2J\n{}", "9".repeat(1000));
        let problem = Problem::Cell { column: "x".into(), text, wanted: "a number" };
        let shown = TraceError::new("a.csv", Fault::line(2, problem)).to_string();
        assert_eq!(shown, format!("a.csv:2: x: `\\u{{1b}}[2J\\n{}…` is not a number", "9".repeat(28)));
    }
}
