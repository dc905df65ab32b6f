//! From MCAP to the recording that its messages make.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};

use mcap::read::ChannelAccumulator;
use mcap::records::{Channel, MessageHeader, SchemaHeader};
use serde::Deserialize;
use serde_json::Value;
use taut_core::{Duration, Time};

use super::records::{Visit, Walked, malformed, note, problem, walk};
use super::rows::{Columns, Rows, clock};
use super::{EVENT, IMPAIRMENT, ImpairmentMessage, NO_DEVICE, OPPORTUNITY, PACKET, PacketMessage, Property};
use crate::error::{Fault, Problem};
use crate::file::{Limits, Names, Wanted};
use crate::packets::Captured;
use crate::signals::RowSink;
use crate::{Data, Flow, Impairment, Impairments, Opportunities, Packets};

/// Longer arrays are scans or images, not signals: their numbers are left out.
const MAX_ARRAY: usize = 64;
/// Longer messages are not signals either, and would take many times their length in memory.
pub(super) const MAX_JSON: usize = 1 << 20;
/// Between the names on the path to a number.
const SEPARATOR: char = '\0';

/// Reads a file that begins with the magic bytes, twice: once for what is in it, and where there are signals once more for their rows, which go to the sink. Of
/// these only columns that are `wanted` by their names.
///
/// What there is in place of signals, and notes.
pub(crate) fn read(
    source: &mut (impl Read + Seek),
    limits: &Limits,
    wanted: Wanted<'_>,
    sink: &mut dyn RowSink,
) -> Result<(Option<Data>, Vec<String>), Fault> {
    let mut content = Content::new(limits);
    let Walked { until, cut } = walk(source, limits, &mut content)?;
    if let Some(cut) = cut.clone().filter(|_| !limits.takes_cut) {
        return Err(cut);
    }
    let mut notes = Vec::new();
    let nulls: u64 = content.topics.values().map(|topic| topic.nulls).sum();
    if !content.columns.is_empty() {
        source.rewind().map_err(|error| Fault::file(Problem::Io(error.to_string())))?;
        let order = content.columns.order();
        let names: Vec<&str> = order.iter().map(|column| content.columns.name(*column)).collect();
        let chosen: Vec<usize> = wanted(&names).into_iter().map(|place| order[place]).collect();
        let rows = Rows::new(&content.columns, &chosen, content.in_order, limits, sink);
        let mut again = Again { content: &mut content, rows };
        // Not what was written meanwhile.
        walk(&mut source.take(until), limits, &mut again)?;
        let left_out = again.rows.finish().map_err(Fault::file)?;
        if left_out > 0 {
            notes.push(format!("rows left out before every channel had a value: {left_out}"));
        }
        if nulls > 0 {
            notes.push(format!("numbers that are null, for which the value before stands: {nulls}"));
        }
    }
    let data = match (content.finish(&mut notes), &cut) {
        (Ok(data), _) => data,
        // Nothing in it is whole.
        (Err(Problem::Nothing(_)), Some(cut)) => return Err(cut.clone()),
        (Err(problem), _) => return Err(Fault::file(problem)),
    };
    notes.extend(cut.as_ref().map(note));
    Ok((data, notes))
}

/// What was found so far.
struct Content<'a> {
    limits: &'a Limits,
    channels: ChannelAccumulator<'static>,
    schemas: BTreeSet<u16>,
    names: Names,
    topics: BTreeMap<u16, Topic>,
    columns: Columns,
    /// Of the last message with numbers.
    last_ns: u64,
    /// None of them was before the one before it.
    in_order: bool,
    packets: Captured,
    opportunities: Vec<Time>,
    impairments: Vec<Impairment>,
    /// Messages that are none of these, by topic and encoding.
    others: Captured,
}

/// The second time.
struct Again<'a, 'b> {
    content: &'a mut Content<'b>,
    rows: Rows<'a>,
}

impl Visit for Again<'_, '_> {
    fn schema(&mut self, _: SchemaHeader, _: &[u8]) -> Result<(), Problem> {
        Ok(())
    }

    fn channel(&mut self, _: Channel) -> Result<(), Problem> {
        Ok(())
    }

    fn message(&mut self, header: MessageHeader, data: &[u8]) -> Result<(), Problem> {
        let Content { topics, columns, limits, .. } = &mut *self.content;
        let Some(topic) = topics.get_mut(&header.channel_id) else { return Ok(()) };
        if !self.rows.wants(topic.columns.values().copied()) || data.len() > MAX_JSON {
            return Ok(());
        }
        let numbers = topic.message(data, columns, limits)?;
        self.rows.message(header.log_time, header.channel_id, &numbers)
    }
}

struct Topic {
    kind: Kind,
    label: String,
    /// Column of each number, by its path in the message: names, each behind a [`SEPARATOR`].
    columns: BTreeMap<String, usize>,
    /// Numbers of these that were null.
    nulls: u64,
    properties: BTreeMap<String, Property>,
    /// What columns begin with that the schema does not name.
    prefix: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Numbers,
    Packet,
    Opportunity,
    Impairment,
    Other,
}

impl Visit for Content<'_> {
    fn schema(&mut self, header: SchemaHeader, data: &[u8]) -> Result<(), Problem> {
        if self.schemas.insert(header.id) {
            self.names.keep(header.name.len() + header.encoding.len() + data.len())?;
        }
        self.channels.add_schema_from_slice(header, data).map_err(problem)
    }

    fn channel(&mut self, channel: Channel) -> Result<(), Problem> {
        if self.channels.get(channel.id).is_none() {
            let metadata: usize = channel.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
            self.names.keep(channel.topic.len() + channel.message_encoding.len() + metadata)?;
        }
        self.channels.add_channel(channel).map_err(problem)
    }

    fn message(&mut self, header: MessageHeader, data: &[u8]) -> Result<(), Problem> {
        let id = header.channel_id;
        if !self.topics.contains_key(&id) {
            let channel = self.channels.get(id);
            let channel = channel.ok_or_else(|| {
                Problem::Malformed(format!("a message of channel {id}, which no record describes"))
            })?;
            self.topics.insert(id, Topic::new(&channel));
        }
        let topic = self.topics.get_mut(&id).expect("it was just put there");
        let time_ns = clock(header.log_time)?;
        match topic.kind {
            Kind::Numbers if data.len() <= MAX_JSON => {
                if topic.message(data, &mut self.columns, self.limits)?.is_empty() {
                    self.others.push(time_ns, data.len() as u64, Flow::from(topic.label.as_str()))?;
                } else {
                    self.in_order &= self.last_ns <= header.log_time;
                    self.last_ns = header.log_time;
                }
            }
            Kind::Packet => {
                let message: PacketMessage =
                    serde_json::from_slice(data).map_err(|error| topic.not_json(&error))?;
                let flow = Flow::from(message.flow.as_str());
                self.packets.push(time_ns, u64::from(message.size_bytes), flow)?;
            }
            Kind::Opportunity => self.opportunities.push(Time::from_nanos(header.log_time)),
            Kind::Impairment => {
                let message: ImpairmentMessage =
                    serde_json::from_slice(data).map_err(|error| topic.not_json(&error))?;
                self.impairments.push(impairment(&message, self.impairments.first())?);
            }
            Kind::Numbers | Kind::Other => {
                self.others.push(time_ns, data.len() as u64, Flow::from(topic.label.as_str()))?
            }
        }
        let rows = [self.packets.len(), self.others.len(), self.opportunities.len(), self.impairments.len()];
        self.limits.check_rows(rows.into_iter().sum())
    }
}

impl<'a> Content<'a> {
    fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            channels: ChannelAccumulator::default(),
            schemas: BTreeSet::new(),
            names: Names::default(),
            topics: BTreeMap::new(),
            columns: Columns::default(),
            last_ns: 0,
            in_order: true,
            packets: Captured::default(),
            opportunities: Vec::new(),
            impairments: Vec::new(),
            others: Captured::default(),
        }
    }

    /// The first kind of which there is any; the rest is left out with a note. `None`: signals.
    fn finish(self, notes: &mut Vec<String>) -> Result<Option<Data>, Problem> {
        let others = Packets::new(self.others);
        let data = if !self.columns.is_empty() {
            None
        } else if self.packets.len() > 0 {
            notes.extend(self.packets.notes());
            Some(Data::Packets(Packets::new(self.packets)))
        } else if !self.opportunities.is_empty() {
            let mut times = self.opportunities;
            times.sort();
            Some(Data::Opportunities(Opportunities::new(times)))
        } else if !self.impairments.is_empty() {
            Some(Data::Impairments(Impairments::new(self.impairments)))
        } else if others.rows().is_empty() {
            return Err(Problem::Nothing("messages"));
        } else {
            notes.push(
                "no message is JSON with numbers in it; messages are told by time, size and topic".into(),
            );
            return Ok(Some(Data::Packets(others)));
        };
        if !others.rows().is_empty() {
            let topics: Vec<String> = others.flows().iter().take(5).map(ToString::to_string).collect();
            let more = if others.flows().len() > topics.len() { ", …" } else { "" };
            let (count, topics) = (others.rows().len(), topics.join(", "));
            notes.push(format!(
                "messages left out because they are not JSON with numbers: {count}, on {topics}{more}"
            ));
        }
        Ok(data)
    }
}

impl Topic {
    fn new(channel: &mcap::Channel<'_>) -> Self {
        let schema = channel.schema.as_deref();
        let json = channel.message_encoding == "json";
        let kind = match schema.map(|schema| schema.name.as_str()) {
            _ if !json => Kind::Other,
            Some(PACKET) => Kind::Packet,
            Some(OPPORTUNITY) => Kind::Opportunity,
            Some(IMPAIRMENT) => Kind::Impairment,
            Some(EVENT) => Kind::Other,
            _ => Kind::Numbers,
        };
        let properties = schema.filter(|schema| schema.encoding == "jsonschema").and_then(|schema| {
            let schema: Schema = serde_json::from_slice(&schema.data).ok()?;
            Some(schema.properties)
        });
        let prefix = channel.topic.trim_matches('/').replace('/', "_");
        Self {
            kind,
            label: format!("{} ({})", channel.topic, channel.message_encoding),
            columns: BTreeMap::new(),
            nulls: 0,
            properties: properties.unwrap_or_default(),
            prefix: if prefix == NO_DEVICE { String::new() } else { prefix },
        }
    }

    fn not_json(&self, error: &serde_json::Error) -> Problem {
        Problem::Malformed(format!("a message of {} is not what it should be: {error}", self.label))
    }

    /// The numbers in a message, by column: none where it is no JSON.
    fn message(
        &mut self,
        data: &[u8],
        columns: &mut Columns,
        limits: &Limits,
    ) -> Result<Vec<(usize, f64)>, Problem> {
        let mut numbers = Vec::new();
        let Ok(message) = serde_json::from_slice(data) else { return Ok(numbers) };
        self.numbers(&mut String::new(), &message, columns, &mut numbers, limits)?;
        Ok(numbers)
    }

    /// Collects the numbers in `value`, which stands at `path`.
    fn numbers(
        &mut self,
        path: &mut String,
        value: &Value,
        columns: &mut Columns,
        out: &mut Vec<(usize, f64)>,
        limits: &Limits,
    ) -> Result<(), Problem> {
        let length = path.len();
        match value {
            Value::Number(number) => {
                let number = number.as_f64().filter(|number| number.is_finite());
                let number =
                    number.ok_or_else(|| malformed("a number in a message is beyond what 64 bits hold"))?;
                out.push((self.column(path, columns, limits)?, number));
            }
            Value::Object(fields) => {
                // By name: in which order a map has them depends on features of its library that others choose.
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_unstable_by_key(|(name, _)| name.as_str());
                for (name, value) in fields {
                    path.push(SEPARATOR);
                    path.push_str(name);
                    self.numbers(path, value, columns, out, limits)?;
                    path.truncate(length);
                }
            }
            Value::Array(elements) if elements.len() <= MAX_ARRAY => {
                for (index, value) in elements.iter().enumerate() {
                    path.push_str(&format!("{SEPARATOR}{index}"));
                    self.numbers(path, value, columns, out, limits)?;
                    path.truncate(length);
                }
            }
            Value::Null => self.nulls += u64::from(self.columns.contains_key(path)),
            Value::Array(_) | Value::Bool(_) | Value::String(_) => {}
        }
        Ok(())
    }

    fn column(&mut self, path: &str, columns: &mut Columns, limits: &Limits) -> Result<usize, Problem> {
        if let Some(column) = self.columns.get(path) {
            return Ok(*column);
        }
        let property = path.strip_prefix(SEPARATOR).and_then(|name| self.properties.get(name));
        let name = property.and_then(|property| property.column.clone()).unwrap_or_else(|| {
            let names = std::iter::once(self.prefix.as_str()).chain(path.split(SEPARATOR));
            names.filter(|name| !name.is_empty()).collect::<Vec<_>>().join("_")
        });
        // A bare number on the topic `/` has no name at all.
        let name = if name.trim().is_empty() { "value" } else { name.trim() };
        let column = columns.add(name, property.and_then(|property| property.index), limits)?;
        self.columns.insert(path.to_owned(), column);
        Ok(column)
    }
}

/// The part of a JSON schema that is looked at.
#[derive(Deserialize)]
struct Schema {
    #[serde(default)]
    properties: BTreeMap<String, Property>,
}

fn impairment(message: &ImpairmentMessage, first: Option<&Impairment>) -> Result<Impairment, Problem> {
    let row = Impairment {
        delay: message.delay_ns.map(Duration::from_nanos),
        jitter: message.jitter_ns.map(Duration::from_nanos),
        loss: message.packet_loss,
    };
    let columns = |row: &Impairment| [row.delay.is_some(), row.jitter.is_some(), row.loss.is_some()];
    match columns(first.unwrap_or(&row)) == columns(&row) && columns(&row).contains(&true) {
        true => Ok(row),
        false => Err(malformed(
            "impairments must be the same of delay_ns, jitter_ns and packet_loss in every message",
        )),
    }
}
