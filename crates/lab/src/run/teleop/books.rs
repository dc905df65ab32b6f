//! What is written down of each end of a session: by the nodes of a simulation while it runs, and from the notes of a run
//! over real sockets when it is over. All times are of the one clock that knows both ends.

use std::collections::VecDeque;

use taut_core::{Bytes, DropCause, Duration, Medium, NodeEvent, Sample, Time};
use taut_session::{OperatorEvent, RobotEvent, StopCause};

use super::record::{Shared, Transit};
use super::wire::Seen;
use crate::demo::Vector;
use crate::scenario::{CodecSpec, Direction, Teleop};

/// A sample of motion or force.
fn sample(sequence: u64, created: Time, bytes: usize) -> Sample {
    Sample { medium: Medium::Haptic, sequence, created, size: Bytes::new(bytes as u64) }
}

/// The operator's end.
pub(super) struct OperatorBook {
    pub(super) record: Shared,
    /// What the metrics are told.
    pub(super) events: VecDeque<NodeEvent>,
}

impl OperatorBook {
    pub(super) fn new(record: Shared) -> Self {
        Self { record, events: VecDeque::new() }
    }

    /// The device made a state: where it was, how fast, and what it pushed the hand with.
    pub(super) fn made(
        &mut self,
        now: Time,
        urgent: bool,
        device: [Vector; 3],
        taken: Result<u64, DropCause>,
    ) {
        let stream = if urgent { 1 } else { 2 };
        let mut record = self.record.borrow_mut();
        let [position, velocity, force] = device;
        record.control.device(position, velocity, force);
        let sample = sample(taken.unwrap_or(0), now, 0);
        self.events.push_back(NodeEvent::Made(sample));
        match taken {
            Ok(sequence) => record.checker.made(now, sequence, stream),
            Err(cause) => {
                record.checker.not_taken(stream, cause);
                self.events.push_back(NodeEvent::Dropped(sample, cause));
            }
        }
    }

    /// What went by, in a packet that took so long.
    pub(super) fn see(&mut self, now: Time, transit: Option<Transit>, seen: Seen) {
        let mut record = self.record.borrow_mut();
        match seen {
            Seen::Connected => _ = record.handshake.get_or_insert(now),
            Seen::Sent { sequence, stream } => record.checker.sent(sequence, stream),
            Seen::Feedback { sequence, bytes } => match record.take_feedback(sequence) {
                Some(created) => {
                    record.brought(Direction::Backward, bytes);
                    self.events.push_back(NodeEvent::Delivered(sample(sequence, created, bytes)));
                }
                None => {
                    let duplicate = NodeEvent::Refused(Some(Medium::Haptic), DropCause::Duplicate);
                    self.events.push_back(duplicate);
                }
            },
            Seen::StopAck => record.stop_acknowledged(now, transit),
            Seen::Gauge { name, value } => self.events.push_back(NodeEvent::Gauge { name, value }),
            Seen::State { .. } | Seen::Stop => {}
        }
    }

    /// What the session told.
    pub(super) fn hear(&mut self, now: Time, event: &OperatorEvent) {
        let mut record = self.record.borrow_mut();
        match *event {
            OperatorEvent::Connected { .. } => _ = record.opened.get_or_insert(now),
            OperatorEvent::Acknowledged { sequence, rtt, .. } => record.acknowledged(sequence, rtt),
            OperatorEvent::Dropped { sequence, cause } => {
                let created = record.checker.made_at(sequence).unwrap_or(now);
                record.checker.dropped(sequence, cause);
                self.events.push_back(NodeEvent::Dropped(sample(sequence, created, 0), cause));
            }
            OperatorEvent::Rate { hz } => {
                record.allowed_hz = hz;
                self.events.push_back(NodeEvent::Gauge { name: "allowed_Hz", value: hz });
            }
            OperatorEvent::Refused(cause) => self.events.push_back(NodeEvent::Refused(None, cause)),
            OperatorEvent::Closed => _ = record.closed.get_or_insert(now),
            _ => {}
        }
    }
}

/// The robot's end.
pub(super) struct RobotBook {
    pub(super) record: Shared,
    /// What the metrics are told.
    pub(super) events: VecDeque<NodeEvent>,
    /// States are judged by comparing clocks, at once or later.
    compares: bool,
    immediate: bool,
    most_misjudged: Duration,
}

/// Clocks drift between two comparisons, and a time on a clock is a whole nanosecond.
const SLACK: Duration = Duration::from_micros(100);

impl RobotBook {
    pub(super) fn new(teleop: &Teleop, record: Shared) -> Self {
        Self {
            record,
            events: VecDeque::new(),
            compares: teleop.codec == CodecSpec::Native,
            immediate: teleop.processing.is_none(),
            most_misjudged: Duration::ZERO,
        }
    }

    /// The robot measured what it feeds back.
    pub(super) fn measured(&mut self, now: Time, taken: Result<u64, DropCause>) {
        let sample = sample(taken.unwrap_or(0), now, 0);
        self.events.push_back(NodeEvent::Made(sample));
        match taken {
            Ok(sequence) => self.record.borrow_mut().feedback_made(now, sequence),
            Err(cause) => self.events.push_back(NodeEvent::Dropped(sample, cause)),
        }
    }

    /// What went by, in a packet that took so long.
    pub(super) fn see(&mut self, now: Time, transit: Option<Transit>, seen: Seen) {
        let mut record = self.record.borrow_mut();
        match seen {
            Seen::State { sequence, stream, bytes } => match record.arrived(now, sequence, stream) {
                Some(created) => {
                    record.brought(Direction::Forward, bytes);
                    self.events.push_back(NodeEvent::Delivered(sample(sequence, created, bytes)));
                }
                None => {
                    let duplicate = NodeEvent::Refused(Some(Medium::Haptic), DropCause::Duplicate);
                    self.events.push_back(duplicate);
                }
            },
            Seen::Stop => record.stop_arrived(transit),
            Seen::Gauge { name, value } => self.events.push_back(NodeEvent::Gauge { name, value }),
            Seen::Connected | Seen::Sent { .. } | Seen::Feedback { .. } | Seen::StopAck => {}
        }
    }

    /// What the session told. `clock`: how far its estimate of the operator's clock is off, and how far it says that it may
    /// be; `misjudged`: how far ages may be off that were judged just before.
    pub(super) fn hear(
        &mut self,
        now: Time,
        event: &RobotEvent,
        clock: Option<[Duration; 2]>,
        misjudged: Option<Duration>,
    ) {
        match *event {
            RobotEvent::Enabled => self.record.borrow_mut().enabled(now),
            RobotEvent::Apply { sequence, .. } => {
                let slack = self.slack(clock, misjudged);
                self.record.borrow_mut().applied(now, sequence, slack);
            }
            RobotEvent::Stop { why } => self.record.borrow_mut().stopped(now, why == StopCause::Watchdog),
            RobotEvent::Dropped { sequence, cause } => {
                self.record.borrow_mut().checker.refused(sequence, cause);
                if cause != DropCause::Duplicate {
                    self.events.push_back(NodeEvent::Refused(Some(Medium::Haptic), cause));
                }
            }
            RobotEvent::FeedbackDropped { sequence, cause } => {
                let created = self.record.borrow_mut().take_feedback(sequence).unwrap_or(now);
                self.events.push_back(NodeEvent::Dropped(sample(sequence, created, 0), cause));
            }
            RobotEvent::Refused(cause) => self.events.push_back(NodeEvent::Refused(None, cause)),
            RobotEvent::Closed => _ = self.record.borrow_mut().closed.get_or_insert(now),
            _ => {}
        }
    }

    /// By how much the robot may misjudge the age of a state; `None` when it does not compare clocks. It must not be off by
    /// more than it says.
    fn slack(&mut self, clock: Option<[Duration; 2]>, misjudged: Option<Duration>) -> Option<Duration> {
        if !self.compares {
            return None;
        }
        let [error, said] = clock?;
        let mut record = self.record.borrow_mut();
        if error > said + SLACK {
            record.checker.violate(format!("the robot's clock is {error} off, and said at most {said}"));
        }
        record.clock = Some([error, said]);
        let misjudged = misjudged?;
        self.most_misjudged = self.most_misjudged.max(misjudged);
        // A slow robot judges an age when the state arrives, by what it knew then.
        Some(if self.immediate { misjudged } else { self.most_misjudged } + SLACK)
    }
}
