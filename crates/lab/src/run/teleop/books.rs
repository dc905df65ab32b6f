//! What is written down of each end of a session: by the nodes of a simulation while it runs, and from the notes of a run
//! over real sockets when it is over. All times are of the one clock that knows both ends.

use std::collections::VecDeque;

use taut_core::{Bytes, DropCause, Duration, Medium, NodeEvent, Sample, Time};
use taut_session::{ClockEstimate, Codec, OperatorEvent, Priority, RobotEvent, State, StateError};

use super::channels::Happened;
use super::notes::Note;
use super::record::{NORMAL, Shared, Transit};
use super::wire::Seen;
use crate::lever;
use crate::scenario::{Direction, Teleop};
use taut_transport::stack::Side;

/// A sample of motion or force.
pub(super) fn sample(sequence: u64, created: Time, bytes: usize) -> Sample {
    Sample { medium: Medium::Haptic, sequence, created, size: Bytes::new(bytes as u64) }
}

/// When something is noted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Time,
    /// How the packet went that is being handled, where that is known.
    pub(super) transit: Option<Transit>,
    /// What the operator's clock reads now, less the robot's.
    pub(super) operator_ahead_ns: i64,
}

/// One end's.
pub(super) struct Book {
    side: Side,
    pub(super) record: Shared,
    /// What the metrics are told.
    pub(super) events: VecDeque<NodeEvent>,
    judge: Judge,
}

/// By how much a robot may misjudge the age of a state.
struct Judge {
    /// States are judged by comparing clocks, at once or later.
    compares: bool,
    immediate: bool,
    most_misjudged: Duration,
    /// How far its estimate was off, and how far it said that it may be, before what happens at present.
    known: Option<[Duration; 2]>,
}

/// Clocks drift between two comparisons, and a time on a clock is a whole nanosecond.
const SLACK: Duration = Duration::from_micros(100);

impl Book {
    pub(super) fn new(teleop: &Teleop, side: Side, record: Shared) -> Self {
        let judge = Judge {
            compares: teleop.codec == Codec::Native,
            immediate: teleop.processing.is_none(),
            most_misjudged: Duration::ZERO,
            known: None,
        };
        Self { side, record, events: VecDeque::new(), judge }
    }

    /// Something begins to happen at a robot that knows so much of the operator's clock.
    pub(super) fn knows(&mut self, moment: Moment, clock: Option<ClockEstimate>) {
        self.judge.known = clock.map(|clock| error_of(moment, clock));
    }

    pub(super) fn write(&mut self, moment: Moment, note: Note) {
        let now = moment.now;
        match note {
            Note::Made { state, taken } => self.made(now, &state, taken),
            Note::Finished => self.record.borrow_mut().finished = true,
            Note::ResumePressed => self.record.borrow_mut().checker.resume_pressed(now),
            Note::StopPressed(waiting) => self.record.borrow_mut().stop_pressed(now, waiting),
            Note::Seen(seen) => self.see(moment, seen),
            Note::Operator(event) => self.hear_operator(now, &event),
            Note::Arm([position, force]) => {
                let mut record = self.record.borrow_mut();
                if !record.finished && record.opened.is_some() {
                    record.control.arm(now, position, force);
                }
            }
            Note::Feedback(taken) => self.fed_back(now, taken),
            Note::Channel(channel, happened) => {
                let mut record = self.record.borrow_mut();
                // Both ends make messages until the hand ends, though on sockets the arm learns of that later.
                if record.finished && matches!(happened, Happened::Made(_)) {
                    return;
                }
                let way = if self.side == Side::Opens { Direction::Backward } else { Direction::Forward };
                if let Some((bytes, made)) = record.channels.write(now, channel, happened) {
                    record.brought(way, bytes, made);
                }
            }
            Note::Robot(event, clock) => self.hear_robot(moment, &event, clock),
        }
    }

    /// The device made a state.
    fn made(&mut self, now: Time, state: &State, taken: Result<u64, StateError>) {
        let stream = if state.priority == Priority::High { 1 } else { NORMAL };
        let mut record = self.record.borrow_mut();
        record.makes(now);
        let [position, velocity, force] = lever::at_lever(state);
        record.control.device(now, position, velocity, force);
        let sample = sample(taken.unwrap_or(0), now, 0);
        self.events.push_back(NodeEvent::Made(sample));
        match taken.map_err(StateError::cause) {
            Ok(sequence) => record.checker.made(now, sequence, stream),
            Err(cause) => {
                record.checker.not_taken(stream, cause);
                self.events.push_back(NodeEvent::Dropped(sample, cause));
            }
        }
    }

    /// The robot measured what it feeds back.
    fn fed_back(&mut self, now: Time, taken: Result<u64, StateError>) {
        let sample = sample(taken.unwrap_or(0), now, 0);
        self.events.push_back(NodeEvent::Made(sample));
        match taken.map_err(StateError::cause) {
            Ok(sequence) => self.record.borrow_mut().feedback_made(now, sequence),
            Err(cause) => self.events.push_back(NodeEvent::Dropped(sample, cause)),
        }
    }

    /// What went by.
    fn see(&mut self, Moment { now, transit, .. }: Moment, seen: Seen) {
        let mut record = self.record.borrow_mut();
        let (created, way, sequence, bytes) = match (seen, self.side) {
            (Seen::Connected, Side::Opens) => {
                record.handshake.get_or_insert(now);
                return;
            }
            (Seen::Sent { sequence, stream }, Side::Opens) => return record.checker.sent(sequence, stream),
            (Seen::StopAck, Side::Opens) => return record.stop_acknowledged(now, transit),
            (Seen::Stop, Side::Waits) => return record.stop_arrived(transit),
            (Seen::Gauge { name, value }, _) => {
                return self.events.push_back(NodeEvent::Gauge { name, value });
            }
            (Seen::Feedback { sequence, bytes }, Side::Opens) => {
                (record.take_feedback(sequence), Direction::Backward, sequence, bytes)
            }
            (Seen::State { sequence, stream, bytes }, Side::Waits) => {
                (record.arrived(now, sequence, stream), Direction::Forward, sequence, bytes)
            }
            _ => return,
        };
        self.events.push_back(match created {
            Some(created) => {
                record.brought(way, bytes, created);
                NodeEvent::Delivered(sample(sequence, created, bytes))
            }
            None => NodeEvent::Refused(Some(Medium::Haptic), DropCause::Duplicate),
        });
    }

    /// When all is done, both say goodbye: then nothing was lost.
    fn closed(&mut self, now: Time) {
        let mut record = self.record.borrow_mut();
        if !record.finished {
            record.closed.get_or_insert(now);
        }
    }

    /// What the operator's session told.
    fn hear_operator(&mut self, now: Time, event: &OperatorEvent) {
        if *event == OperatorEvent::Closed {
            self.record.borrow_mut().control.feels(None);
            return self.closed(now);
        }
        let mut record = self.record.borrow_mut();
        match *event {
            OperatorEvent::Connected { .. } => _ = record.opened.get_or_insert(now),
            OperatorEvent::Acknowledged { sequence, rtt, .. } => record.acknowledged(sequence, rtt),
            OperatorEvent::Dropped { sequence, cause } => {
                // What has arrived was given up for want of an acknowledgement.
                let created = record.checker.dropped(sequence, cause);
                let dropped = |created| NodeEvent::Dropped(sample(sequence, created, 0), cause);
                self.events.extend(created.map(dropped));
            }
            OperatorEvent::Rate { hz } => {
                record.allowed_hz = hz;
                self.events.push_back(NodeEvent::Gauge { name: "allowed_Hz", value: hz });
            }
            OperatorEvent::FeedbackLost => record.control.feels(None),
            OperatorEvent::Refused(cause) => self.events.push_back(NodeEvent::Refused(None, cause)),
            _ => {}
        }
    }

    /// What the robot's session told, and what it knew then of the operator's clock.
    fn hear_robot(&mut self, moment: Moment, event: &RobotEvent, clock: Option<ClockEstimate>) {
        let now = moment.now;
        match *event {
            RobotEvent::Enabled { .. } => self.record.borrow_mut().enabled(now),
            RobotEvent::Apply { sequence, .. } => {
                let slack = self.slack(clock.map(|clock| error_of(moment, clock)));
                self.record.borrow_mut().applied(now, sequence, slack);
            }
            RobotEvent::Stop { why } => self.record.borrow_mut().stopped(now, why),
            RobotEvent::Dropped { sequence, cause } => {
                self.record.borrow_mut().checker.refused(sequence, cause);
                if cause != DropCause::Duplicate {
                    self.events.push_back(NodeEvent::Refused(Some(Medium::Haptic), cause));
                }
            }
            RobotEvent::FeedbackDropped { sequence, cause } => {
                let created = self.record.borrow_mut().open_feedback(sequence).and_then(|made| *made);
                let dropped = |created| NodeEvent::Dropped(sample(sequence, created, 0), cause);
                self.events.extend(created.map(dropped));
            }
            RobotEvent::Refused(cause) => self.events.push_back(NodeEvent::Refused(None, cause)),
            RobotEvent::Closed => self.closed(now),
            _ => {}
        }
    }

    /// By how much the robot may misjudge the age of a state; `None` when it does not compare clocks. It must not be off by
    /// more than it says.
    fn slack(&mut self, clock: Option<[Duration; 2]>) -> Option<Duration> {
        let judge = &mut self.judge;
        if !judge.compares {
            return None;
        }
        let [error, said] = clock?;
        let mut record = self.record.borrow_mut();
        if error > said + SLACK {
            record.checker.violate(format!("the robot's clock is {error} off, and said at most {said}"));
        }
        record.clock = Some([error, said]);
        // Where the packet brought more than one answer, the state may have been judged by an estimate that is neither what was
        // known before nor what is known now: then what the robot says of it counts, and else how far it is off.
        let [error, said] = clock.max(judge.known)?;
        let misjudged = if clock == judge.known { error } else { said };
        judge.most_misjudged = judge.most_misjudged.max(misjudged);
        // A slow robot judges an age when the state arrives, by what it knew then.
        Some(if judge.immediate { misjudged } else { judge.most_misjudged } + SLACK)
    }
}

/// How far an estimate of the operator's clock is off, and how far it says that it may be.
fn error_of(moment: Moment, clock: ClockEstimate) -> [Duration; 2] {
    [Duration::from_nanos(clock.offset_ns.abs_diff(moment.operator_ahead_ns)), clock.uncertainty]
}
