//! From MCAP to the recording that its messages make.

use std::collections::BTreeMap;

use mcap::read::ChannelAccumulator;
use mcap::records::{Channel, MessageHeader, SchemaHeader};
use serde::Deserialize;
use serde_json::Value;
use taut_core::{Duration, Time};

use super::records::{Visit, malformed, problem, walk};
use super::rows::{Samples, clock};
use super::{EVENT, IMPAIRMENT, ImpairmentMessage, NO_DEVICE, OPPORTUNITY, PACKET, PacketMessage, Property};
use crate::error::{Fault, Problem};
use crate::file::Limits;
use crate::packets::Captured;
use crate::{Data, Flow, Format, Impairment, Impairments, Opportunities, Packets, Recording};

/// Longer arrays are scans or images, not signals: their numbers are left out.
const MAX_ARRAY: usize = 64;
/// Longer messages are not signals either, and would take many times their length in memory.
const MAX_JSON: usize = 1 << 20;

/// Reads a file that begins with the magic bytes.
pub(crate) fn read(data: &[u8], limits: &Limits) -> Result<Recording, Fault> {
    let mut content = Content::new(limits);
    let Some(cut) = walk(data, limits, &mut content)? else { return content.finish().map_err(Fault::file) };
    if !limits.takes_cut {
        return Err(cut);
    }
    let note = format!("{}, after which {}", cut.place, cut.problem);
    match content.finish() {
        Ok(recording) => {
            let notes =
                recording.notes().iter().cloned().chain([note.trim_start_matches(": ").to_owned()]).collect();
            Ok(recording.with_notes(notes))
        }
        // Nothing in it is whole.
        Err(Problem::Nothing(_)) => Err(cut),
        Err(problem) => Err(Fault::file(problem)),
    }
}

/// What was found so far.
struct Content<'a> {
    limits: &'a Limits,
    channels: ChannelAccumulator<'static>,
    topics: BTreeMap<u16, Topic>,
    samples: Samples,
    packets: Captured,
    opportunities: Vec<Time>,
    impairments: Vec<Impairment>,
    /// Messages that are none of these, by topic and encoding.
    others: Captured,
}

struct Topic {
    kind: Kind,
    label: String,
    /// Column of each number, by its path in the message.
    columns: BTreeMap<String, usize>,
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
        self.channels.add_schema_from_slice(header, data).map_err(problem)
    }

    fn channel(&mut self, channel: Channel) -> Result<(), Problem> {
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
        let not_json = |error: serde_json::Error| {
            Problem::Malformed(format!("a message of {} is not what it should be: {error}", topic.label))
        };
        match topic.kind {
            Kind::Numbers if data.len() <= MAX_JSON => {
                let message: Value = serde_json::from_slice(data).map_err(not_json)?;
                let mut numbers = Vec::new();
                topic.numbers(&mut String::new(), &message, &mut self.samples, &mut numbers, self.limits)?;
                if numbers.is_empty() {
                    self.others.push(time_ns, data.len() as u64, Flow::from(topic.label.as_str()));
                } else {
                    self.samples.push(header.log_time, id, &numbers, self.limits)?;
                }
            }
            Kind::Packet => {
                let message: PacketMessage = serde_json::from_slice(data).map_err(not_json)?;
                self.packets.push(time_ns, u64::from(message.size_bytes), Flow::from(message.flow.as_str()));
            }
            Kind::Opportunity => self.opportunities.push(Time::from_nanos(header.log_time)),
            Kind::Impairment => {
                let message: ImpairmentMessage = serde_json::from_slice(data).map_err(not_json)?;
                self.impairments.push(impairment(&message, self.impairments.first())?);
            }
            Kind::Numbers | Kind::Other => {
                self.others.push(time_ns, data.len() as u64, Flow::from(topic.label.as_str()))
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
            topics: BTreeMap::new(),
            samples: Samples::default(),
            packets: Captured::default(),
            opportunities: Vec::new(),
            impairments: Vec::new(),
            others: Captured::default(),
        }
    }

    /// The first kind of which there is any; the rest is left out with a note.
    fn finish(self) -> Result<Recording, Problem> {
        let mut notes = Vec::new();
        let others = Packets::new(self.others);
        let data = if !self.samples.is_empty() {
            let (signals, left_out) = self.samples.into_signals(self.limits)?;
            if left_out > 0 {
                notes.push(format!("rows left out before every channel had a value: {left_out}"));
            }
            Data::Signals(signals)
        } else if self.packets.len() > 0 {
            notes.extend(self.packets.notes());
            Data::Packets(Packets::new(self.packets))
        } else if !self.opportunities.is_empty() {
            let mut times = self.opportunities;
            times.sort();
            Data::Opportunities(Opportunities::new(times))
        } else if !self.impairments.is_empty() {
            Data::Impairments(Impairments::new(self.impairments))
        } else if others.rows().is_empty() {
            return Err(Problem::Nothing("messages"));
        } else {
            notes.push(
                "no message is JSON with numbers in it; messages are told by time, size and topic".into(),
            );
            return Ok(Recording::new(Format::Mcap, Data::Packets(others)).with_notes(notes));
        };
        if !others.rows().is_empty() {
            let topics: Vec<String> = others.flows().iter().take(5).map(ToString::to_string).collect();
            let more = if others.flows().len() > topics.len() { ", …" } else { "" };
            let (count, topics) = (others.rows().len(), topics.join(", "));
            notes.push(format!(
                "messages left out because they are not JSON with numbers: {count}, on {topics}{more}"
            ));
        }
        Ok(Recording::new(Format::Mcap, data).with_notes(notes))
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
            properties: properties.unwrap_or_default(),
            prefix: if prefix == NO_DEVICE { String::new() } else { prefix },
        }
    }

    /// Collects the numbers in `value`, which stands at `path`.
    fn numbers(
        &mut self,
        path: &mut String,
        value: &Value,
        samples: &mut Samples,
        out: &mut Vec<(usize, f64)>,
        limits: &Limits,
    ) -> Result<(), Problem> {
        let length = path.len();
        match value {
            Value::Number(number) => {
                let number = number.as_f64().filter(|number| number.is_finite());
                let number =
                    number.ok_or_else(|| malformed("a number in a message is beyond what 64 bits hold"))?;
                out.push((self.column(path, samples, limits)?, number));
            }
            Value::Object(fields) => {
                // By name: in which order a map has them depends on features of its library that others choose.
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_unstable_by_key(|(name, _)| name.as_str());
                for (name, value) in fields {
                    join(path, name);
                    self.numbers(path, value, samples, out, limits)?;
                    path.truncate(length);
                }
            }
            Value::Array(elements) if elements.len() <= MAX_ARRAY => {
                for (index, value) in elements.iter().enumerate() {
                    join(path, &index.to_string());
                    self.numbers(path, value, samples, out, limits)?;
                    path.truncate(length);
                }
            }
            Value::Array(_) | Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
        Ok(())
    }

    fn column(&mut self, path: &str, samples: &mut Samples, limits: &Limits) -> Result<usize, Problem> {
        if let Some(column) = self.columns.get(path) {
            return Ok(*column);
        }
        let property = self.properties.get(path);
        let name = property.and_then(|property| property.column.clone()).unwrap_or_else(|| {
            let mut name = self.prefix.clone();
            join(&mut name, path);
            name
        });
        // A bare number on the topic `/` has no name at all.
        let name = if name.trim().is_empty() { "value" } else { name.trim() };
        let column = samples.column(name, property.and_then(|property| property.index), limits)?;
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

fn join(path: &mut String, name: &str) {
    if !path.is_empty() && !name.is_empty() {
        path.push('_');
    }
    path.push_str(name);
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
