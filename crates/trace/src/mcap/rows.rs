//! From numbers of many topics, each at its own times, to the rows of one table.

use std::collections::BTreeSet;

use taut_core::Time;

use crate::error::Problem;
use crate::file::{Limits, Names};
use crate::signals::RowSink;

/// The columns that messages have numbers for.
#[derive(Debug, Default)]
pub(super) struct Columns {
    names: Vec<String>,
    /// The place that the file gives each.
    places: Vec<Option<u64>>,
    known: BTreeSet<String>,
    bytes: Names,
}

impl Columns {
    /// Makes a column, with another name when this one is taken.
    pub(super) fn add(&mut self, name: &str, place: Option<u64>, limits: &Limits) -> Result<usize, Problem> {
        limits.check_columns(self.names.len() + 1)?;
        self.bytes.keep(name.len())?;
        let mut unique = name.to_owned();
        let mut count = 2;
        while !self.known.insert(unique.clone()) {
            unique = format!("{name}_{count}");
            count += 1;
        }
        self.names.push(unique);
        self.places.push(place);
        Ok(self.names.len() - 1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Which is first, second, … in the table.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        order.sort_by_key(|column| self.places[*column].unwrap_or(u64::MAX));
        order
    }

    pub(super) fn name(&self, column: usize) -> &str {
        &self.names[column]
    }
}

/// One message's numbers: those that wait from `from` up to `until`.
#[derive(Debug)]
struct Message {
    time_ns: u64,
    topic: u16,
    from: usize,
    until: usize,
}

/// Messages that are to be put in order.
#[derive(Debug, Default)]
struct Waiting {
    messages: Vec<Message>,
    values: Vec<(usize, f64)>,
}

/// A row for every time, with the last value of every channel; messages of one time are one row until a topic
/// comes again. Rows before every channel has a value are left out and counted.
pub(super) struct Rows<'a> {
    limits: &'a Limits,
    sink: &'a mut dyn RowSink,
    names: Vec<String>,
    /// Where in a row a column's values go, where they are asked for.
    places: Vec<Option<usize>>,
    held: Vec<Option<f64>>,
    row: Vec<f64>,
    row_ns: Option<u64>,
    topics: BTreeSet<u16>,
    start_ns: Option<i64>,
    left_out: u64,
    /// What waits to be put in order, where it does not come in it.
    waiting: Option<Waiting>,
}

impl<'a> Rows<'a> {
    /// Of these columns, in this order.
    pub(super) fn new(
        columns: &Columns,
        chosen: &[usize],
        in_order: bool,
        limits: &'a Limits,
        sink: &'a mut dyn RowSink,
    ) -> Self {
        let mut places = vec![None; columns.names.len()];
        chosen.iter().enumerate().for_each(|(place, column)| places[*column] = Some(place));
        Self {
            limits,
            sink,
            names: chosen.iter().map(|column| columns.names[*column].clone()).collect(),
            places,
            held: vec![None; chosen.len()],
            row: Vec::with_capacity(chosen.len()),
            row_ns: None,
            topics: BTreeSet::new(),
            start_ns: None,
            left_out: 0,
            waiting: (!in_order).then(Waiting::default),
        }
    }

    pub(super) fn wants(&self, mut columns: impl Iterator<Item = usize>) -> bool {
        columns.any(|column| matches!(self.places.get(column), Some(Some(_))))
    }

    /// Takes the numbers of one message, by column.
    pub(super) fn message(
        &mut self,
        time_ns: u64,
        topic: u16,
        values: &[(usize, f64)],
    ) -> Result<(), Problem> {
        let places = &self.places;
        let asked = values.iter().filter_map(|(column, value)| Some(((*places.get(*column)?)?, *value)));
        if let Some(Waiting { messages, values }) = &mut self.waiting {
            let from = values.len();
            values.extend(asked);
            messages.push(Message { time_ns, topic, from, until: values.len() });
            self.limits.check_rows(messages.len())?;
            return self.limits.check_values(values.len());
        }
        let asked: Vec<_> = asked.collect();
        self.take(time_ns, topic, &asked)
    }

    /// How many rows were left out.
    pub(super) fn finish(mut self) -> Result<u64, Problem> {
        if let Some(Waiting { mut messages, values }) = self.waiting.take() {
            messages.sort_by_key(|message| message.time_ns);
            for Message { time_ns, topic, from, until } in messages {
                self.take(time_ns, topic, &values[from..until])?;
            }
        }
        self.push()?;
        Ok(self.left_out)
    }

    fn take(&mut self, time_ns: u64, topic: u16, values: &[(usize, f64)]) -> Result<(), Problem> {
        if values.is_empty() {
            return Ok(());
        }
        if self.row_ns.is_some_and(|row_ns| row_ns != time_ns) || self.topics.contains(&topic) {
            self.push()?;
            self.topics.clear();
        }
        self.row_ns = Some(time_ns);
        self.topics.insert(topic);
        values.iter().for_each(|(place, value)| self.held[*place] = Some(*value));
        Ok(())
    }

    fn push(&mut self) -> Result<(), Problem> {
        let Some(row_ns) = self.row_ns else { return Ok(()) };
        self.row.clear();
        self.row.extend(self.held.iter().flatten());
        if self.row.len() < self.held.len() {
            self.left_out += 1;
            return Ok(());
        }
        let time_ns = clock(row_ns)?;
        let start_ns = match self.start_ns {
            Some(start_ns) => start_ns,
            None => {
                self.sink.begin(time_ns, std::mem::take(&mut self.names))?;
                *self.start_ns.insert(time_ns)
            }
        };
        self.sink.row(Time::from_nanos(time_ns.abs_diff(start_ns)), &self.row)
    }
}

/// A time of MCAP as the recorder's clock.
pub(super) fn clock(time_ns: u64) -> Result<i64, Problem> {
    i64::try_from(time_ns).map_err(|_| Problem::Malformed("a message's time is beyond the year 2262".into()))
}
