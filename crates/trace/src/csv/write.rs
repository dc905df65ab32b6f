//! From a recording to text: the layouts that are read, times in seconds on the recorder's clock.

use std::fmt::Write as _;
use std::io::{self, Write};

use csv::{Terminator, Writer, WriterBuilder};
use taut_core::Time;

use super::time::seconds;
use super::{IMPAIRMENT_TIMES, PACKET_COLUMNS};
use crate::error::Problem;
use crate::signals::RowSink;
use crate::{Data, Impairments, Opportunities, Packets, Recording};

/// A recording as CSV. Numbers have as many digits as it takes to read back the same number. The same recording gives
/// the same bytes.
pub fn write_csv(recording: &Recording) -> Vec<u8> {
    let mut out = WriterBuilder::new().terminator(Terminator::Any(b'\n')).from_writer(Vec::new());
    match recording.data() {
        Data::Signals(signals) => {
            let mut rows = CsvRows::of(out);
            signals.write_to(&mut rows).expect("memory takes every row");
            out = rows.out;
        }
        Data::Packets(packets) => write_packets(&mut out, packets),
        Data::Opportunities(opportunities) => write_opportunities(&mut out, opportunities),
        Data::Impairments(impairments) => write_impairments(&mut out, impairments),
    }
    out.into_inner().expect("memory takes every byte")
}

fn row<Cell: AsRef<[u8]>>(out: &mut Writer<Vec<u8>>, cells: impl IntoIterator<Item = Cell>) {
    out.write_record(cells).expect("memory takes every row, and rows are of one length");
}

fn clock(start_ns: i64, time: Time) -> String {
    seconds(i128::from(start_ns) + i128::from(time.as_nanos()))
}

/// Signals, row by row.
pub(crate) struct CsvRows<W: Write> {
    out: Writer<W>,
    start_ns: i64,
    cell: String,
}

impl<W: Write> CsvRows<W> {
    pub(crate) fn new(out: W) -> Self {
        Self::of(WriterBuilder::new().terminator(Terminator::Any(b'\n')).from_writer(out))
    }

    fn of(out: Writer<W>) -> Self {
        Self { out, start_ns: 0, cell: String::new() }
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn write(&mut self, time: Time, values: &[f64]) -> csv::Result<()> {
        self.out.write_field(clock(self.start_ns, time))?;
        for value in values {
            self.cell.clear();
            write_number(&mut self.cell, *value);
            self.out.write_field(&self.cell)?;
        }
        self.out.write_record(std::iter::empty::<&str>())
    }
}

impl<W: Write> RowSink for CsvRows<W> {
    fn begin(&mut self, start_ns: i64, columns: Vec<String>) -> Result<(), Problem> {
        self.start_ns = start_ns;
        let names = columns.iter().map(String::as_str);
        self.out.write_record(std::iter::once("time_s").chain(names)).map_err(not_written)
    }

    fn row(&mut self, time: Time, values: &[f64]) -> Result<(), Problem> {
        self.write(time, values).map_err(not_written)
    }
}

fn not_written(error: csv::Error) -> Problem {
    Problem::Io(error.to_string())
}

fn write_packets(out: &mut Writer<Vec<u8>>, packets: &Packets) {
    row(out, ["time_s", PACKET_COLUMNS[0], PACKET_COLUMNS[1]]);
    let flows: Vec<String> = packets.flows().iter().map(ToString::to_string).collect();
    for packet in packets.rows() {
        let time = clock(packets.start_ns(), packet.time);
        row(out, [time.as_str(), &packet.size.get().to_string(), &flows[packet.flow as usize]]);
    }
}

fn write_opportunities(out: &mut Writer<Vec<u8>>, opportunities: &Opportunities) {
    row(out, ["time_s"]);
    for time in opportunities.times() {
        row(out, [clock(0, *time)]);
    }
}

/// The time columns are those of the playback.
fn write_impairments(out: &mut Writer<Vec<u8>>, impairments: &Impairments) {
    let first = impairments.rows().first().copied().unwrap_or_default();
    let columns =
        [first.delay.map(|_| "delay"), first.jitter.map(|_| "jitter"), first.loss.map(|_| "packet_loss")];
    row(out, IMPAIRMENT_TIMES.into_iter().chain(columns.into_iter().flatten()));
    for (second, impairment) in impairments.rows().iter().enumerate() {
        let nanos = [impairment.delay, impairment.jitter]
            .map(|value| value.map(|value| value.as_nanos().to_string()));
        let loss = impairment.loss.map(|loss| loss.to_string().trim_end_matches('%').to_owned());
        let times = [second.to_string(), (second + 1).to_string()];
        row(out, times.into_iter().chain(nanos.into_iter().chain([loss]).flatten()));
    }
}

/// The shortest digits that are read back as the same number.
pub(crate) fn write_number(out: &mut String, value: f64) {
    write!(out, "{value:?}").expect("memory takes every digit");
    // A whole number is written without its fraction, as recorders do.
    if out.ends_with(".0") {
        out.truncate(out.len() - 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_read_back_bit_by_bit() {
        for (value, text) in [(0.5, "0.5"), (1.0, "1"), (-0.0, "-0"), (1e300, "1e300"), (1e-7, "1e-7")] {
            let mut written = String::new();
            write_number(&mut written, value);
            assert_eq!(written, text);
            assert_eq!(written.parse::<f64>().unwrap().to_bits(), value.to_bits());
        }
    }
}
