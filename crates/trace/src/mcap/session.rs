//! From MCAP to what a session's recording says of its operator, and of how it went.

use std::collections::BTreeMap;
use std::io::Read;

use mcap::records::{Channel, MessageHeader, SchemaHeader};
use serde_json::Value;
use taut_core::Time;

use super::records::{Visit, walk};
use crate::error::{Fault, Problem};
use crate::file::Limits;
use crate::session::{self, RecordedState, SessionRecording};

const STATES: &str = "operator/state";
const EVENTS: &str = "taut/events";

/// Reads a file that `taut robot` or `taut operator` recorded. One that is cut short is read as far as it is whole.
pub(crate) fn read(source: &mut impl Read, limits: &Limits) -> Result<SessionRecording, Fault> {
    let mut found =
        Found { limits, topics: BTreeMap::new(), recording: SessionRecording::default(), messages: 0 };
    walk(source, limits, &mut found)?;
    let mut recording = found.recording;
    if recording.states.is_empty() {
        return Err(Fault::file(Problem::Nothing(session::STATES)));
    }
    // Those that came out of order were made in it.
    recording.states.sort_by_key(|state| state.made);
    Ok(recording)
}

struct Found<'a> {
    limits: &'a Limits,
    topics: BTreeMap<u16, String>,
    recording: SessionRecording,
    messages: usize,
}

impl Visit for Found<'_> {
    fn schema(&mut self, _: SchemaHeader, _: &[u8]) -> Result<(), Problem> {
        Ok(())
    }

    fn channel(&mut self, channel: Channel) -> Result<(), Problem> {
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
            EVENTS => recording.events.push(serde_json::from_slice::<Value>(data).map_err(wrong)?),
            _ => recording.sizes.entry(topic.clone()).or_default().push(data.len() as u64),
        }
        self.messages += 1;
        self.limits.check_rows(self.messages)
    }
}
