//! What of a session is recorded.

use serde_json::{Value, json};
use taut_agent::{Observed, SessionObserver};
use taut_core::{Duration, Time};
use taut_session::{ChannelEvent, OperatorEvent, RobotEvent};

use super::Queue;
use super::messages::Content;

/// Looks on, and puts what it sees into the queue.
#[derive(Debug)]
pub(super) struct Recorder {
    queue: Queue,
}

impl Recorder {
    pub(super) const fn new(queue: Queue) -> Self {
        Self { queue }
    }

    /// Something that was made here, now.
    fn made(&self, now: Time, sequence: u64, content: Content) {
        self.queue.put(now, now, sequence, content);
    }

    /// Something that came, so old.
    fn came(&self, now: Time, age: Duration, sequence: u64, content: Content) {
        self.queue.put(now, now - age, sequence, content);
    }

    fn event(&self, now: Time, event: &str, more: &[(&str, Value)]) {
        let mut line = serde_json::Map::new();
        line.insert("event".to_owned(), event.into());
        line.insert("t_s".to_owned(), now.as_secs_f64().into());
        line.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        self.made(now, 0, Content::Event(Value::Object(line).to_string()));
    }

    fn dropped(&self, now: Time, what: &str, sequence: Option<u64>, cause: &str) {
        let more = [("what", json!(what)), ("sequence", json!(sequence)), ("cause", json!(cause))];
        self.event(now, "dropped", &more);
    }

    fn operator(&self, now: Time, event: &OperatorEvent) {
        match event {
            OperatorEvent::Feedback { sequence, state, age, .. } => {
                self.came(now, *age, *sequence, Content::RobotState(*state, *age));
            }
            OperatorEvent::Acknowledged { sequence, rtt, verdict } => {
                self.came(now, *rtt, *sequence, Content::RoundTrip(*rtt, *verdict));
            }
            OperatorEvent::Dropped { sequence, cause } => {
                self.dropped(now, "state", Some(*sequence), cause.name());
            }
            OperatorEvent::Channel(event) => self.channel(now, event),
            _ => {}
        }
    }

    fn robot(&self, now: Time, event: &RobotEvent) {
        match event {
            RobotEvent::Apply { sequence, state, age, .. } => {
                self.came(now, *age, *sequence, Content::OperatorState(*state, *age));
            }
            RobotEvent::Move { channel, sequence, motion, age } => {
                let mut payload = Vec::with_capacity(motion.len());
                motion.emit(&mut payload);
                self.came(now, *age, *sequence, Content::Channel(*channel, payload));
            }
            RobotEvent::Dropped { sequence, cause } => {
                self.dropped(now, "state", Some(*sequence), cause.name());
            }
            RobotEvent::FeedbackDropped { sequence, cause } => {
                self.dropped(now, "feedback", Some(*sequence), cause.name());
            }
            RobotEvent::Channel(event) => self.channel(now, event),
            _ => {}
        }
    }

    fn channel(&self, now: Time, event: &ChannelEvent) {
        match event {
            ChannelEvent::Received { channel, sequence, age, payload } => {
                let content = Content::Channel(*channel, payload.clone());
                self.came(now, age.unwrap_or(Duration::ZERO), *sequence, content);
            }
            ChannelEvent::Withheld { channel, sequence } => {
                self.event(now, "withheld", &[("channel", json!(channel.0)), ("sequence", json!(sequence))]);
            }
            ChannelEvent::Dropped { channel, sequence, cause } => {
                let more = [
                    ("channel", json!(channel.0)),
                    ("sequence", json!(sequence)),
                    ("cause", json!(cause.name())),
                ];
                self.event(now, "message_dropped", &more);
            }
            ChannelEvent::Opened { .. } | ChannelEvent::Refused { .. } | ChannelEvent::Arrived { .. } => {}
        }
    }
}

impl SessionObserver for Recorder {
    fn on_event(&mut self, now: Time, event: Observed<'_>) {
        match event {
            Observed::Made(state, Ok(sequence)) => {
                self.made(now, sequence, Content::OperatorState(*state, Duration::ZERO));
            }
            Observed::Made(_, Err(error)) => self.dropped(now, "state", None, error.cause().name()),
            Observed::Feedback(state, Ok(sequence)) => {
                self.made(now, sequence, Content::RobotState(*state, Duration::ZERO));
            }
            Observed::Feedback(_, Err(error)) => self.dropped(now, "feedback", None, error.cause().name()),
            Observed::Message { channel, payload, taken: Ok(sequence) } => {
                self.made(now, sequence, Content::Channel(channel, payload.to_vec()));
            }
            Observed::Message { channel, taken: Err(error), .. } => {
                let more = [("channel", json!(channel.0)), ("cause", json!(error.to_string()))];
                self.event(now, "message_dropped", &more);
            }
            Observed::ResumePressed => self.event(now, "resume_pressed", &[]),
            Observed::StopPressed { waiting } => {
                self.event(now, "stop_pressed", &[("waiting", json!(waiting))]);
            }
            Observed::Operator(event) => self.operator(now, event),
            Observed::Robot(event, _) => self.robot(now, event),
            Observed::Sent { .. } | Observed::Transport(_) | Observed::DeviceDone | Observed::Measured(_) => {
            }
        }
    }

    fn reads_messages(&self) -> bool {
        false
    }
}
