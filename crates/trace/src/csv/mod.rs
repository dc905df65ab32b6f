//! Comma-separated values (RFC 4180): a header of names, then rows.

mod read;
mod time;
mod write;

pub(crate) use read::{read, utf8};
pub(crate) use write::CsvRows;
pub use write::write_csv;
#[cfg(feature = "mcap")]
pub(crate) use write::write_number;

/// Whether the first column's name says that it holds times.
pub(crate) fn is_time_column(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| time::Unit::of_column(name).is_some())
}

/// Columns of the layout of impairment tables.
const IMPAIRMENT_TIMES: [&str; 2] = ["start_time", "stop_time"];
/// Columns of the layout of packets, after the time.
const PACKET_COLUMNS: [&str; 2] = ["size_bytes", "flow"];
