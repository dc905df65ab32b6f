//! From a recording to text: the layouts that are read, times in seconds on the recorder's clock.

use std::fmt::Write as _;

use csv::{Terminator, Writer, WriterBuilder};
use taut_core::Time;

use super::time::seconds;
use super::{IMPAIRMENT_TIMES, PACKET_COLUMNS};
use crate::{Data, Impairments, Opportunities, Packets, Recording, Signals};

/// A recording as CSV. Numbers have as many digits as it takes to read back the same number. The same recording gives
/// the same bytes.
pub fn write_csv(recording: &Recording) -> Vec<u8> {
    let mut out = WriterBuilder::new().terminator(Terminator::Any(b'\n')).from_writer(Vec::new());
    match recording.data() {
        Data::Signals(signals) => write_signals(&mut out, signals),
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

fn write_signals(out: &mut Writer<Vec<u8>>, signals: &Signals) {
    let names = signals.channels().iter().map(|channel| channel.column());
    row(out, std::iter::once("time_s").chain(names));
    let mut cell = String::new();
    for values in signals.rows() {
        out.write_field(clock(signals.start_ns(), values.time())).expect("memory takes every cell");
        for value in values.values() {
            cell.clear();
            write_number(&mut cell, value);
            out.write_field(&cell).expect("memory takes every cell");
        }
        row(out, std::iter::empty::<&str>());
    }
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
