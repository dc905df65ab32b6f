//! From text to the layout that the header names.

use csv::{ByteRecord, Reader, ReaderBuilder};
use taut_core::{Duration, Probability, Time};

use super::time::Unit;
use super::{IMPAIRMENT_TIMES, PACKET_COLUMNS};
use crate::error::{Fault, Problem};
use crate::file::Limits;
use crate::packets::Captured;
use crate::{Data, Flow, Format, Impairment, Impairments, Opportunities, Packets, Recording, Signals};

const NUMBER: &str = "a finite number";
const TIME: &str = "a time (a number, within 292 years of 0)";
const SIZE: &str = "a whole number of bytes, 0 or more";
const NANOSECONDS: &str = "a number of nanoseconds, 0 or more";
const PERCENT: &str = "a percentage from 0 to 100";

/// Reads a table.
pub(crate) fn read(data: &[u8], limits: &Limits) -> Result<Recording, Fault> {
    let text = utf8(data)?;
    if text.trim().is_empty() {
        return Err(Fault::file(Problem::Empty));
    }
    let mut table = Table::open(text, limits)?;
    let columns: Vec<&str> = table.columns.iter().map(String::as_str).collect();
    let data = match columns.as_slice() {
        [first, second, ..] if [*first, *second] == IMPAIRMENT_TIMES => read_impairments(&mut table)?,
        [first, rest @ ..] if Unit::of_column(first).is_some() => match rest {
            [] => read_opportunities(&mut table)?,
            [size] if *size == PACKET_COLUMNS[0] => read_packets(&mut table)?,
            [size, flow] if [*size, *flow] == PACKET_COLUMNS => read_packets(&mut table)?,
            _ => read_signals(&mut table)?,
        },
        [first, ..] if first.parse::<f64>().is_ok() => {
            return Err(Fault::line(1, Problem::NoHeader((*first).to_owned())));
        }
        _ => return Err(Fault::line(1, Problem::NoTimeColumn(table.columns[0].clone()))),
    };
    Ok(Recording::new(Format::Csv, data))
}

/// `data` as text, without a byte order mark.
pub(crate) fn utf8(data: &[u8]) -> Result<&str, Fault> {
    let text = std::str::from_utf8(data)
        .map_err(|error| Fault::line(newlines(&data[..error.valid_up_to()]) + 1, Problem::NotUtf8))?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn newlines(data: &[u8]) -> u64 {
    data.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Rows under a header, one at a time.
struct Table<'a> {
    text: &'a str,
    reader: Reader<&'a [u8]>,
    columns: Vec<String>,
    record: ByteRecord,
    rows: usize,
    limits: &'a Limits,
}

impl<'a> Table<'a> {
    fn open(text: &'a str, limits: &'a Limits) -> Result<Self, Fault> {
        let reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
        let mut table =
            Self { text, reader, columns: Vec::new(), record: ByteRecord::new(), rows: 0, limits };
        if !table.advance()? {
            return Err(Fault::file(Problem::Empty));
        }
        let problem = |problem| Fault::line(table.line(), problem);
        limits.check_columns(table.record.len()).map_err(problem)?;
        let columns: Vec<String> =
            (0..table.record.len()).map(|index| table.cell(index).to_owned()).collect();
        for (index, column) in columns.iter().enumerate() {
            if column.is_empty() {
                return Err(problem(Problem::UnnamedColumn(index + 1)));
            }
            if index > 0 && columns[1..index].contains(column) {
                return Err(problem(Problem::SameName(column.clone())));
            }
        }
        table.columns = columns;
        Ok(table)
    }

    /// The next row, of the header's length.
    fn next_row(&mut self) -> Result<bool, Fault> {
        if !self.advance()? {
            return if self.rows == 0 { Err(Fault::file(Problem::NoRows)) } else { Ok(false) };
        }
        let (cells, columns) = (self.record.len(), self.columns.len());
        if cells != columns {
            return Err(self.fault(Problem::Ragged { cells, columns }));
        }
        self.rows += 1;
        let values = self.rows.saturating_mul(columns);
        self.limits.check_rows(self.rows).map_err(|problem| self.fault(problem))?;
        self.limits.check_values(values).map_err(|problem| self.fault(problem))?;
        Ok(true)
    }

    /// The next line that is not blank. A line of blanks alone is blank too.
    fn advance(&mut self) -> Result<bool, Fault> {
        loop {
            let more = self.reader.read_byte_record(&mut self.record);
            if !more.map_err(|error| self.fault(Problem::Malformed(error.to_string())))? {
                return Ok(false);
            }
            if self.record.len() != 1 || !self.record[0].trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    fn cell(&self, column: usize) -> &str {
        // The whole text is UTF-8 and cells end at ASCII: they are UTF-8.
        std::str::from_utf8(&self.record[column]).expect("cells of text are text").trim()
    }

    /// What `convert` makes of a cell.
    fn parse<T>(
        &self,
        column: usize,
        wanted: &'static str,
        convert: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Fault> {
        let text = self.cell(column);
        convert(text).ok_or_else(|| {
            let column = self.columns[column].clone();
            self.fault(match text {
                "" => Problem::EmptyCell { column, wanted },
                text => Problem::Cell { column, text: text.to_owned(), wanted },
            })
        })
    }

    fn fault(&self, problem: Problem) -> Fault {
        Fault::line(self.line(), problem)
    }

    /// The line on which the current row begins. Counted only for errors.
    fn line(&self) -> u64 {
        let data = self.text.as_bytes();
        let byte = self.record.position().map_or(0, |position| position.byte() as usize).min(data.len());
        // The reader's position is before blank lines and the end of the line before.
        let blank = data[byte..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        newlines(&data[..byte + blank]) + 1
    }
}

/// The first column of a table: times that do not go back.
struct TimeColumn {
    unit: Unit,
    first: Option<i64>,
    last: i64,
    last_text: String,
}

impl TimeColumn {
    fn of(table: &Table<'_>) -> Self {
        let unit = Unit::of_column(&table.columns[0]).expect("the layout was chosen by it");
        Self { unit, first: None, last: i64::MIN, last_text: String::new() }
    }

    /// This row's time on the recorder's clock.
    fn read(&mut self, table: &Table<'_>) -> Result<i64, Fault> {
        let nanos = table.parse(0, TIME, |text| self.unit.parse(text))?;
        if nanos < self.last {
            let (column, time) = (table.columns[0].clone(), table.cell(0).to_owned());
            let previous = std::mem::take(&mut self.last_text);
            return Err(table.fault(Problem::TimeWentBack { column, time, previous }));
        }
        self.first.get_or_insert(nanos);
        self.last = nanos;
        self.last_text.clear();
        self.last_text.push_str(table.cell(0));
        Ok(nanos)
    }

    fn start(&self) -> i64 {
        self.first.unwrap_or(0)
    }

    /// The last time that was read, since the first.
    fn since_start(&self) -> Time {
        Time::from_nanos(self.last.abs_diff(self.start()))
    }
}

fn read_signals(table: &mut Table<'_>) -> Result<Data, Fault> {
    let mut times = TimeColumn::of(table);
    let mut signals: Option<Signals> = None;
    let mut row = Vec::with_capacity(table.columns.len());
    while table.next_row()? {
        times.read(table)?;
        row.clear();
        for column in 1..table.columns.len() {
            row.push(table.parse(column, NUMBER, finite)?);
        }
        let signals =
            signals.get_or_insert_with(|| Signals::new(times.start(), table.columns[1..].iter().cloned()));
        signals.push(times.since_start(), &row);
    }
    Ok(Data::Signals(signals.expect("a table without rows is an error")))
}

fn read_packets(table: &mut Table<'_>) -> Result<Data, Fault> {
    let mut times = TimeColumn::of(table);
    let mut captured = Captured::default();
    while table.next_row()? {
        let time_ns = times.read(table)?;
        // Up to 4 GB each: the sum of as many as are read stays within 64 bits.
        let size: u32 = table.parse(1, SIZE, |text| text.parse().ok())?;
        let flow = if table.columns.len() > 2 { table.cell(2) } else { "" };
        captured.push(time_ns, u64::from(size), Flow::from(flow)).map_err(Fault::file)?;
    }
    Ok(Data::Packets(Packets::new(captured)))
}

fn read_opportunities(table: &mut Table<'_>) -> Result<Data, Fault> {
    let mut column = TimeColumn::of(table);
    let mut times = Vec::new();
    while table.next_row()? {
        let nanos = table.parse(0, "a time, 0 or more", |text| column.unit.parse(text)?.try_into().ok())?;
        column.read(table)?;
        times.push(Time::from_nanos(nanos));
    }
    Ok(Data::Opportunities(Opportunities::new(times)))
}

fn read_impairments(table: &mut Table<'_>) -> Result<Data, Fault> {
    for column in &table.columns[2..] {
        if !["delay", "jitter", "packet_loss"].contains(&column.as_str()) {
            let problem =
                Problem::UnknownColumn { column: column.clone(), allowed: "delay, jitter and packet_loss" };
            return Err(Fault::line(1, problem));
        }
    }
    if table.columns.len() == IMPAIRMENT_TIMES.len() {
        let problem = "there is no column delay, jitter or packet_loss";
        return Err(Fault::line(1, Problem::Malformed(problem.to_owned())));
    }
    let mut rows = Vec::new();
    while table.next_row()? {
        let mut row = Impairment::default();
        for column in 2..table.columns.len() {
            match table.columns[column].as_str() {
                "delay" => row.delay = Some(table.parse(column, NANOSECONDS, nanoseconds)?),
                "jitter" => row.jitter = Some(table.parse(column, NANOSECONDS, nanoseconds)?),
                _ => row.loss = Some(table.parse(column, PERCENT, percent)?),
            }
        }
        rows.push(row);
    }
    Ok(Data::Impairments(Impairments::new(rows)))
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

fn nanoseconds(text: &str) -> Option<Duration> {
    let unit = Unit::of_column("delay_ns").expect("it has a unit");
    unit.parse(text).and_then(|nanos| u64::try_from(nanos).ok()).map(Duration::from_nanos)
}

fn percent(text: &str) -> Option<Probability> {
    finite(text)?;
    format!("{text}%").parse().ok()
}
