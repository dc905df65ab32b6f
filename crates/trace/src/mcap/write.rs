//! From a recording to MCAP: JSON messages with JSON schemas, one topic per device, LZ4 chunks.

use std::collections::BTreeMap;
use std::io::Cursor;

use mcap::records::MessageHeader;
use mcap::{Compression, McapResult, WriteOptions, Writer};
use serde::Serialize;
use taut_core::Time;

use super::{IMPAIRMENT, ImpairmentMessage, NO_DEVICE, OPPORTUNITY, PACKET, PacketMessage, Property};
use crate::csv::write_number;
use crate::error::{Fault, Problem};
use crate::{Data, Impairments, Opportunities, Packets, Recording, Signals, TraceError};

/// A recording as MCAP. `leader_position_rad` becomes the number `position_rad` in messages on the topic `/leader`;
/// the schema keeps the whole name, its unit and the order of columns, so that reading it back gives the same
/// recording. The log time is the recorder's clock. The same recording gives the same bytes.
///
/// # Errors
/// When the recorder's clock began before 0, which MCAP has no times for.
pub fn write_mcap(recording: &Recording) -> Result<Vec<u8>, TraceError> {
    write(recording).map_err(|problem| TraceError::new("mcap", Fault::file(problem)))
}

pub(crate) fn write(recording: &Recording) -> Result<Vec<u8>, Problem> {
    let start_ns = match recording.data() {
        Data::Signals(signals) => signals.start_ns(),
        Data::Packets(packets) => packets.start_ns(),
        Data::Opportunities(_) | Data::Impairments(_) => 0,
    };
    let start = Time::from_nanos(u64::try_from(start_ns).map_err(|_| Problem::StartOutOfRange(start_ns))?);
    encode(recording, start).map_err(|error| Problem::Io(error.to_string()))
}

fn encode(recording: &Recording, start: Time) -> McapResult<Vec<u8>> {
    let mut out = Output::new(start)?;
    match recording.data() {
        Data::Signals(signals) => write_signals(&mut out, signals)?,
        Data::Packets(packets) => write_packets(&mut out, packets)?,
        Data::Opportunities(opportunities) => write_opportunities(&mut out, opportunities)?,
        Data::Impairments(impairments) => write_impairments(&mut out, impairments)?,
    }
    out.finish()
}

/// A file in memory.
struct Output {
    writer: Writer<Cursor<Vec<u8>>>,
    start: Time,
}

impl Output {
    fn new(start: Time) -> McapResult<Self> {
        // The library's defaults name its version and compress on as many threads as the machine has.
        let options = WriteOptions::new().library("taut-trace").compression(Some(Compression::Lz4));
        Ok(Self { writer: options.create(Cursor::new(Vec::new()))?, start })
    }

    fn topic(&mut self, topic: &str, name: &str, schema: &Schema<'_>) -> McapResult<u16> {
        let schema = serde_json::to_vec(schema).expect("a schema is JSON");
        let schema = self.writer.add_schema(name, "jsonschema", &schema)?;
        self.writer.add_channel(schema, topic, "json", &BTreeMap::new())
    }

    fn message(&mut self, channel_id: u16, row: usize, time: Time, data: &[u8]) -> McapResult<()> {
        let log_time = (self.start + (time - Time::ZERO)).as_nanos();
        // Sequence numbers wrap (MCAP specification, Message).
        let header = MessageHeader { channel_id, sequence: row as u32, log_time, publish_time: log_time };
        self.writer.write_to_known_channel(&header, data)
    }

    fn finish(mut self) -> McapResult<Vec<u8>> {
        self.writer.finish()?;
        Ok(self.writer.into_inner().into_inner())
    }
}

/// JSON Schema (draft 2020-12) of an object.
#[derive(Serialize)]
struct Schema<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    properties: BTreeMap<&'a str, Property>,
}

impl<'a> Schema<'a> {
    fn new(properties: impl IntoIterator<Item = (&'a str, Property)>) -> Self {
        Self { kind: "object", properties: properties.into_iter().collect() }
    }

    fn plain(fields: &[(&'a str, &str)]) -> Self {
        Self::new(fields.iter().map(|(name, kind)| {
            (*name, Property { kind: (*kind).to_owned(), column: None, index: None, unit: None })
        }))
    }
}

/// The channels of one device: each with its key as JSON.
struct Device {
    channel_id: u16,
    fields: Vec<(String, usize)>,
}

/// The device and the field that a column's name tells: `leader`, `position_rad`.
fn split_device<'a>(column: &'a str, name: &str) -> (&'a str, &'a str) {
    match name.find('_') {
        Some(at) if at > 0 && at + 1 < name.len() && &column[..at] != NO_DEVICE => {
            (&column[..at], &column[at + 1..])
        }
        _ => (NO_DEVICE, column),
    }
}

fn write_signals(out: &mut Output, signals: &Signals) -> McapResult<()> {
    let mut devices: Vec<(&str, Vec<(&str, usize)>)> = Vec::new();
    for (index, channel) in signals.channels().iter().enumerate() {
        let (device, field) = split_device(channel.column(), channel.name());
        match devices.iter_mut().find(|(name, _)| *name == device) {
            Some((_, fields)) => fields.push((field, index)),
            None => devices.push((device, vec![(field, index)])),
        }
    }
    let devices: Vec<Device> = devices
        .into_iter()
        .map(|(name, fields)| add_device(out, signals, name, &fields))
        .collect::<Result<_, _>>()?;
    let (mut message, mut values) = (String::new(), Vec::new());
    for (index, row) in signals.rows().enumerate() {
        values.clear();
        values.extend(row.values());
        for device in &devices {
            message.clear();
            for (key, column) in &device.fields {
                message.push(if message.is_empty() { '{' } else { ',' });
                message.push_str(key);
                message.push(':');
                write_number(&mut message, values[*column]);
            }
            message.push('}');
            out.message(device.channel_id, index, row.time(), message.as_bytes())?;
        }
    }
    Ok(())
}

fn add_device(
    out: &mut Output,
    signals: &Signals,
    name: &str,
    fields: &[(&str, usize)],
) -> McapResult<Device> {
    let property = |index: usize| {
        let channel = &signals.channels()[index];
        Property {
            kind: "number".to_owned(),
            column: Some(channel.column().to_owned()),
            index: Some(index as u64),
            unit: channel.unit().map(str::to_owned),
        }
    };
    let schema = Schema::new(fields.iter().map(|(field, index)| (*field, property(*index))));
    let channel_id = out.topic(&format!("/{name}"), &format!("taut.signals.{name}"), &schema)?;
    let key = |field: &str| serde_json::to_string(field).expect("text is JSON");
    Ok(Device { channel_id, fields: fields.iter().map(|(field, index)| (key(field), *index)).collect() })
}

fn write_packets(out: &mut Output, packets: &Packets) -> McapResult<()> {
    let schema = Schema::plain(&[("size_bytes", "integer"), ("flow", "string")]);
    let topic = out.topic("/packets", PACKET, &schema)?;
    let flows: Vec<String> = packets.flows().iter().map(ToString::to_string).collect();
    for (index, packet) in packets.rows().iter().enumerate() {
        let size_bytes = u32::try_from(packet.size.get()).unwrap_or(u32::MAX);
        let message = PacketMessage { size_bytes, flow: flows[packet.flow as usize].clone() };
        out.message(topic, index, packet.time, &json(&message))?;
    }
    Ok(())
}

fn write_opportunities(out: &mut Output, opportunities: &Opportunities) -> McapResult<()> {
    let topic = out.topic("/opportunities", OPPORTUNITY, &Schema::plain(&[]))?;
    for (index, time) in opportunities.times().iter().enumerate() {
        out.message(topic, index, *time, b"{}")?;
    }
    Ok(())
}

fn write_impairments(out: &mut Output, impairments: &Impairments) -> McapResult<()> {
    let schema =
        Schema::plain(&[("delay_ns", "integer"), ("jitter_ns", "integer"), ("packet_loss", "string")]);
    let topic = out.topic("/impairments", IMPAIRMENT, &schema)?;
    for (index, row) in impairments.rows().iter().enumerate() {
        let message = ImpairmentMessage {
            delay_ns: row.delay.map(|delay| delay.as_nanos()),
            jitter_ns: row.jitter.map(|jitter| jitter.as_nanos()),
            packet_loss: row.loss,
        };
        out.message(topic, index, Time::ZERO + Impairments::ROW_PERIOD * index as u64, &json(&message))?;
    }
    Ok(())
}

fn json(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("a message is JSON")
}
