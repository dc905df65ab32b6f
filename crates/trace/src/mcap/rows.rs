//! From numbers of many topics, each at its own times, to the rows of one table.

use std::collections::BTreeSet;

use taut_core::Time;

use crate::Signals;
use crate::error::Problem;
use crate::file::Limits;

/// Numbers as messages bring them.
#[derive(Debug, Default)]
pub(super) struct Samples {
    columns: Vec<Column>,
    names: BTreeSet<String>,
    messages: Vec<Message>,
    values: Vec<(usize, f64)>,
}

#[derive(Debug)]
struct Column {
    name: String,
    /// The place that the file gives it.
    index: Option<u64>,
}

/// One message's numbers: those of `values` from `from` up to the next message's.
#[derive(Debug)]
struct Message {
    time_ns: u64,
    topic: u16,
    from: usize,
    until: usize,
}

impl Samples {
    /// Makes a column, with another name when this one is taken.
    pub(super) fn column(
        &mut self,
        name: &str,
        index: Option<u64>,
        limits: &Limits,
    ) -> Result<usize, Problem> {
        limits.check_columns(self.columns.len() + 1)?;
        let mut unique = name.to_owned();
        let mut count = 2;
        while !self.names.insert(unique.clone()) {
            unique = format!("{name}_{count}");
            count += 1;
        }
        self.columns.push(Column { name: unique, index });
        Ok(self.columns.len() - 1)
    }

    /// Adds the numbers of one message, by column.
    pub(super) fn push(
        &mut self,
        time_ns: u64,
        topic: u16,
        values: &[(usize, f64)],
        limits: &Limits,
    ) -> Result<(), Problem> {
        let from = self.values.len();
        self.values.extend_from_slice(values);
        self.messages.push(Message { time_ns, topic, from, until: self.values.len() });
        limits.check_rows(self.messages.len())?;
        limits.check_values(self.values.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// A row for every time, with the last value of every channel; messages of one time are one row until a topic
    /// comes again. Rows before every channel has a value are left out and counted.
    pub(super) fn into_signals(mut self, limits: &Limits) -> Result<(Signals, u64), Problem> {
        self.messages.sort_by_key(|message| message.time_ns);
        let mut order: Vec<usize> = (0..self.columns.len()).collect();
        order.sort_by_key(|column| self.columns[*column].index.unwrap_or(u64::MAX));
        let names: Vec<String> = order.iter().map(|column| self.columns[*column].name.clone()).collect();
        let mut table =
            Table { names, order, limits, held: vec![None; self.columns.len()], signals: None, left_out: 0 };
        let mut topics = BTreeSet::new();
        let mut row_ns = None;
        for message in &self.messages {
            if row_ns.is_some_and(|row_ns| row_ns != message.time_ns) || topics.contains(&message.topic) {
                table.push(row_ns.unwrap_or_default())?;
                topics.clear();
            }
            row_ns = Some(message.time_ns);
            topics.insert(message.topic);
            for (column, value) in &self.values[message.from..message.until] {
                table.held[*column] = Some(*value);
            }
        }
        table.push(row_ns.unwrap_or_default())?;
        let signals = table.signals.expect("after the last message every channel has a value");
        Ok((signals, table.left_out))
    }
}

struct Table<'a> {
    names: Vec<String>,
    /// Which column is first, second, …
    order: Vec<usize>,
    limits: &'a Limits,
    held: Vec<Option<f64>>,
    signals: Option<Signals>,
    left_out: u64,
}

impl Table<'_> {
    fn push(&mut self, time_ns: u64) -> Result<(), Problem> {
        let row: Option<Vec<f64>> = self.order.iter().map(|column| self.held[*column]).collect();
        let Some(row) = row else {
            self.left_out += 1;
            return Ok(());
        };
        let time_ns = clock(time_ns)?;
        let signals =
            self.signals.get_or_insert_with(|| Signals::new(time_ns, std::mem::take(&mut self.names)));
        signals.push(Time::from_nanos(time_ns.abs_diff(signals.start_ns())), &row);
        self.limits.check_values(signals.len().saturating_mul(row.len()))
    }
}

/// A time of MCAP as the recorder's clock.
pub(super) fn clock(time_ns: u64) -> Result<i64, Problem> {
    i64::try_from(time_ns).map_err(|_| Problem::Malformed("a message's time is beyond the year 2262".into()))
}
