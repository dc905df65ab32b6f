//! From MCAP to what a session's recording says of its operator, and of how it went.

use std::collections::BTreeMap;
use std::io::Read;

use mcap::records::{Channel, MessageHeader, SchemaHeader};
use serde_json::Value;
use taut_core::Time;

use super::read::MAX_JSON;
use super::records::{Visit, Walked, note, walk};
use crate::error::{Fault, Problem};
use crate::file::{Limits, Names};
use crate::session::{self, RecordedState, SessionRecording};

const STATES: &str = "operator/state";
const EVENTS: &str = "taut/events";
/// Of these events the last is kept, for it says how the session was run, or all that the ones before said.
const SAID_ANEW: [&str; 4] = ["recording", "connected", "status", "summary"];
/// And of these all.
const STOPS: [&str; 2] = ["stopped", "robot"];

/// Reads a file that `taut robot` or `taut operator` recorded. One that is cut short is read as far as it is whole.
pub(crate) fn read(source: &mut impl Read, limits: &Limits) -> Result<SessionRecording, Fault> {
    let mut found = Found {
        limits,
        topics: BTreeMap::new(),
        names: Names::default(),
        said: Vec::new(),
        recording: SessionRecording::default(),
        messages: 0,
    };
    let Walked { cut, .. } = walk(source, limits, &mut found)?;
    let mut recording = found.recording;
    recording.events.append(&mut found.said);
    recording.notes.extend(cut.as_ref().map(note));
    if recording.states.is_empty() {
        return Err(cut.unwrap_or(Fault::file(Problem::Nothing(session::STATES))));
    }
    // Those that came out of order were made in it.
    recording.states.sort_by_key(|state| state.made);
    Ok(recording)
}

struct Found<'a> {
    limits: &'a Limits,
    topics: BTreeMap<u16, String>,
    /// What topics and events take.
    names: Names,
    /// Of what is said anew.
    said: Vec<Value>,
    recording: SessionRecording,
    messages: usize,
}

impl Visit for Found<'_> {
    fn schema(&mut self, _: SchemaHeader, _: &[u8]) -> Result<(), Problem> {
        Ok(())
    }

    fn channel(&mut self, channel: Channel) -> Result<(), Problem> {
        if !self.topics.contains_key(&channel.id) {
            self.names.keep(channel.topic.len())?;
        }
        self.topics.insert(channel.id, channel.topic);
        Ok(())
    }

    fn message(&mut self, header: MessageHeader, data: &[u8]) -> Result<(), Problem> {
        let Some(topic) = self.topics.get(&header.channel_id) else { return Ok(()) };
        let wrong =
            |error| Problem::Malformed(format!("a message of {topic} is not what it should be: {error}"));
        let recording = &mut self.recording;
        match &**topic {
            STATES => {
                let mut state: RecordedState = serde_json::from_slice(data).map_err(wrong)?;
                state.made = Time::from_nanos(header.publish_time);
                recording.states.push(state);
            }
            EVENTS => {
                if data.len() > MAX_JSON {
                    return Err(Problem::TooLarge { what: "bytes in one event", limit: MAX_JSON as u64 });
                }
                let event: Value = serde_json::from_slice(data).map_err(wrong)?;
                let name = event["event"].as_str().unwrap_or_default();
                if SAID_ANEW.contains(&name) {
                    self.said.retain(|before| before["event"] != name);
                    self.said.push(event);
                } else if STOPS.contains(&name) {
                    self.names.keep(data.len())?;
                    recording.events.push(event);
                }
            }
            _ => recording.sizes.entry(topic.clone()).or_default().push(data.len() as u64),
        }
        self.messages += 1;
        self.limits.check_rows(self.messages)
    }
}
