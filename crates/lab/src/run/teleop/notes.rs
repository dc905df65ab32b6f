//! A session that ran over real sockets: each end takes notes, and the same books that a simulated session is kept in are
//! written from them when it is over.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use taut_core::{Address, Duration, Event, NodeEvent, StreamId, Time};
use taut_session::{ClockEstimate, Codec, OperatorEvent, RobotEvent, StateError};
use taut_sim::Observer;
use taut_transport::stack::Side;

use super::books::{OperatorBook, RobotBook};
use super::record::{Record, Shared};
use super::wire::{self, Seen};
use crate::demo::Vector;
use crate::metrics::{Metrics, StreamKey, Watch, percent};
use crate::result::{
    Conservation, FlowOwner, FlowResult, Input, Ran, RunResult, TeleopResult, Verdict, WireResult,
};
use crate::run::{judge, settings};
use crate::scenario::{Direction, Scenario, Teleop};

/// What one end of a session did, note by note, each with the time of the one clock that both ends read.
///
/// Some 100 bytes a note, some five notes a state at each end.
pub struct Notes {
    side: Side,
    codec: Codec,
    notes: Vec<(Time, Note)>,
    /// Of states that were given to the transport before their device was told their numbers.
    early: Vec<(Time, Note)>,
    made: u64,
}

enum Note {
    Made { urgent: bool, device: [Vector; 3], taken: Result<u64, StateError> },
    Finished,
    ResumePressed,
    StopPressed(usize),
    Seen(Seen),
    Operator(OperatorEvent),
    Measured(Result<u64, StateError>),
    Arm([Vector; 3]),
    Robot(RobotEvent, Option<ClockEstimate>),
}

/// Notes of so many are taken without asking for memory.
const MOST_EXPECTED: u64 = 1 << 20;

impl Notes {
    /// The operator's.
    pub fn of_operator(teleop: &Teleop) -> Self {
        Self::new(teleop, Side::Opens)
    }

    /// The robot's.
    pub fn of_robot(teleop: &Teleop) -> Self {
        Self::new(teleop, Side::Waits)
    }

    fn new(teleop: &Teleop, side: Side) -> Self {
        // Growing copies everything, which a session would wait for.
        let expected = teleop.messages.unwrap_or(0).saturating_mul(6).min(MOST_EXPECTED) + 10_000;
        Self {
            side,
            codec: settings::codec(teleop),
            notes: Vec::with_capacity(expected as usize),
            early: Vec::new(),
            made: 0,
        }
    }

    fn note(&mut self, now: Time, note: Note) {
        self.notes.push((now, note));
    }

    /// The device made a state, in this position, at this velocity, pushing the hand with this force; its number, or why it
    /// was not taken.
    pub fn made(&mut self, now: Time, urgent: bool, device: [[f64; 3]; 3], taken: Result<u64, StateError>) {
        self.made += u64::from(taken.is_ok());
        self.note(now, Note::Made { urgent, device, taken });
        self.notes.append(&mut self.early);
    }

    /// The device makes no more.
    pub fn finished(&mut self, now: Time) {
        self.note(now, Note::Finished);
    }

    /// The operator pressed resume.
    pub fn resume_pressed(&mut self, now: Time) {
        self.note(now, Note::ResumePressed);
    }

    /// The operator pressed the emergency stop, while so many states waited.
    pub fn stop_pressed(&mut self, now: Time, waiting: usize) {
        self.note(now, Note::StopPressed(waiting));
    }

    /// The transport took a message.
    pub fn sent(&mut self, now: Time, tag: u64, stream: StreamId) {
        match wire::sent(tag, stream.0) {
            Some(seen) if self.side == Side::Opens && tag > self.made => {
                self.early.push((now, Note::Seen(seen)));
            }
            Some(seen) => self.note(now, Note::Seen(seen)),
            None => {}
        }
    }

    /// The transport told something.
    pub fn transport(&mut self, now: Time, event: &Event) {
        if let Some(seen) = wire::seen(self.codec, self.side, event) {
            self.note(now, Note::Seen(seen));
        }
    }

    /// The operator's session told something.
    pub fn operator(&mut self, now: Time, event: &OperatorEvent) {
        // Feedback has been seen as a frame.
        if !matches!(event, OperatorEvent::Feedback { .. }) {
            self.note(now, Note::Operator(event.clone()));
        }
    }

    /// The robot's session told something; what it knew then of the operator's clock.
    pub fn robot(&mut self, now: Time, event: &RobotEvent, clock: Option<ClockEstimate>) {
        self.note(now, Note::Robot(event.clone(), clock));
    }

    /// The robot made feedback; its number, or why it was not taken.
    pub fn measured(&mut self, now: Time, taken: Result<u64, StateError>) {
        self.note(now, Note::Measured(taken));
    }

    /// The arm made a step: its position, the velocity that it was told, the force on it.
    pub fn arm(&mut self, now: Time, position: [f64; 3], told: [f64; 3], force: [f64; 3]) {
        self.note(now, Note::Arm([position, told, force]));
    }
}

/// What one direction of the network between the ends carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// IP packets that entered.
    pub entered: u64,
    /// Their bytes.
    pub entered_bytes: u64,
    /// Packets that left.
    pub left: u64,
    /// Their bytes.
    pub left_bytes: u64,
    /// Packets dropped inside, by cause.
    pub dropped: BTreeMap<String, u64>,
    /// Copies made inside.
    pub duplicated: u64,
    /// What else is known of it, by name: `"late_p99_us"`. It goes to the counters of the flow.
    pub counters: BTreeMap<String, u64>,
}

impl Way {
    fn dropped_in_all(&self) -> u64 {
        self.dropped.values().sum()
    }

    fn held(&self) -> u64 {
        (self.entered + self.duplicated).saturating_sub(self.left + self.dropped_in_all())
    }
}

/// A node's address is its place among the names.
const OPERATOR: Address = Address(0);
const ROBOT: Address = Address(1);

/// The result of a session that began at `began`, from the notes of both ends and what the network carried there and back.
/// It is one that [`Ran::Real`].
///
/// # Panics
/// When the scenario has no `[teleop]`.
pub fn account(
    scenario: &Scenario,
    seed: u64,
    began: Time,
    ends: [Notes; 2],
    network: &[Way; 2],
    inputs: Vec<Input>,
) -> RunResult {
    let teleop = scenario.teleop.as_ref().expect("only sessions run for real");
    let watch = Watch { warmup: scenario.warmup, duration: scenario.duration };
    let record: Shared = Rc::new(RefCell::new(Record::new(teleop, watch)));
    let keys = [
        StreamKey { from: OPERATOR, to: ROBOT, direction: Direction::Forward },
        StreamKey { from: ROBOT, to: OPERATOR, direction: Direction::Backward },
    ];
    let mut books = Books {
        operator: OperatorBook::new(record.clone()),
        robot: RobotBook::new(teleop, record.clone()),
        metrics: Metrics::new(watch, &keys, 0, 0, None),
    };
    let mut notes: Vec<(Side, Time, Note)> = ends
        .into_iter()
        .flat_map(|end| end.notes.into_iter().map(move |(at, note)| (end.side, at, note)))
        .collect();
    // What happens at one instant, the operator's end did first.
    notes.sort_by_key(|(_, at, _)| *at);
    for (side, at, note) in notes {
        books.write(Time::ZERO + at.saturating_since(began), side, note);
    }
    let mut record = record.borrow_mut();
    for (direction, way) in WAYS.into_iter().zip(network) {
        record.carried(direction, way.entered, way.entered_bytes);
    }
    record.checker.close();
    let violations = record.checker.violations();
    let teleop = record.to_result(teleop, None);
    let mut series = books.metrics.series(&["operator".to_owned(), "robot".to_owned()], &[], &[]);
    series.extend(record.series());
    let media = books.metrics.media();
    let limits = judge::limits(&media);
    RunResult {
        ran: Ran::Real,
        verdict: Verdict { met: limits.iter().all(|limit| limit.met), limits },
        flows: flows(scenario, &teleop, network),
        conservation: conservation(network, violations),
        refusals: books.metrics.refusals(&["operator".to_owned(), "robot".to_owned()]),
        teleop: Some(teleop),
        series,
        media,
        ..RunResult::of(scenario, seed, inputs)
    }
}

const WAYS: [Direction; 2] = [Direction::Forward, Direction::Backward];

/// Both ends' books.
struct Books {
    operator: OperatorBook,
    robot: RobotBook,
    metrics: Metrics,
}

impl Books {
    fn write(&mut self, now: Time, side: Side, note: Note) {
        let (operator, robot) = (&mut self.operator, &mut self.robot);
        match (note, side) {
            (Note::Made { urgent, device, taken }, _) => {
                operator.made(now, urgent, device, taken.map_err(StateError::cause));
            }
            (Note::Finished, _) => operator.record.borrow_mut().finished = true,
            (Note::ResumePressed, _) => operator.record.borrow_mut().checker.resume_pressed(now),
            (Note::StopPressed(waiting), _) => operator.record.borrow_mut().stop_pressed(now, waiting),
            (Note::Seen(seen), Side::Opens) => operator.see(now, None, seen),
            (Note::Seen(seen), Side::Waits) => robot.see(now, None, seen),
            // When all is done, both say goodbye.
            (Note::Operator(OperatorEvent::Closed) | Note::Robot(RobotEvent::Closed, _), _)
                if operator.record.borrow().finished => {}
            (Note::Operator(event), _) => operator.hear(now, &event),
            (Note::Measured(taken), _) => robot.measured(now, taken.map_err(StateError::cause)),
            (Note::Arm([position, told, force]), _) => {
                let mut record = robot.record.borrow_mut();
                if !record.finished && record.opened.is_some() {
                    record.control.arm(now, position, told, force);
                }
            }
            (Note::Robot(event, clock), _) => {
                // Both read one clock: any offset is an error.
                let error = |clock: ClockEstimate| {
                    [Duration::from_nanos(clock.offset_ns.unsigned_abs()), clock.uncertainty]
                };
                let clock = clock.map(error);
                robot.hear(now, &event, clock, clock.map(|[_, said]| said));
            }
        }
        for (node, events) in [(OPERATOR, &mut operator.events), (ROBOT, &mut robot.events)] {
            events.drain(..).for_each(|event: NodeEvent| self.metrics.node_event(now, node, &event));
        }
    }
}

fn flows(scenario: &Scenario, teleop: &TeleopResult, network: &[Way; 2]) -> Vec<FlowResult> {
    let seconds = scenario.duration.as_secs_f64();
    let rate = |bytes: u64| bytes as f64 * 8.0 / seconds;
    let flow = |((direction, way), wire): ((Direction, &Way), &WireResult)| FlowResult {
        name: format!("session {}", direction.name()),
        owner: FlowOwner::Session(direction),
        kind: "session".to_owned(),
        sent: way.entered,
        delivered: way.left,
        dropped: way.dropped.clone(),
        loss_percent: percent(way.dropped_in_all(), way.entered),
        sent_bps: rate(way.entered_bytes),
        delivered_bps: rate(way.left_bytes),
        efficiency: wire.efficiency_percent.map(|percent| percent / 100.0),
        delay_ms: None,
        counters: way.counters.clone(),
    };
    WAYS.into_iter().zip(network).zip(&teleop.wire).map(flow).collect()
}

pub(in crate::run) fn conservation(network: &[Way; 2], violations: Vec<String>) -> Conservation {
    let sum = |of: fn(&Way) -> u64| network.iter().map(of).sum();
    let mut dropped = BTreeMap::new();
    for (cause, count) in network.iter().flat_map(|way| &way.dropped) {
        *dropped.entry(cause.clone()).or_default() += count;
    }
    Conservation {
        holds: violations.is_empty(),
        sent: sum(|way| way.entered),
        duplicated: sum(|way| way.duplicated),
        delivered: sum(|way| way.left),
        dropped,
        held: sum(Way::held),
        violations,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
title = "notes"
duration = "1s"
[links.wire]
between = ["a", "b"]
chain = [{ delay = "1ms" }]
[teleop]
operator = "a"
robot = "b"
messages = 3
"#;

    fn at(us: u64) -> Time {
        Time::ZERO + Duration::from_micros(us)
    }

    /// Three states, of which the second is lost, that take 1 ms and 2 ms; the clock showed 5 ms when the session began.
    fn notes(teleop: &Teleop) -> [Notes; 2] {
        let (mut operator, mut robot) = (Notes::of_operator(teleop), Notes::of_robot(teleop));
        operator.transport(at(7_000), &Event::Connected);
        operator.resume_pressed(at(7_000));
        operator.transport(at(7_500), &Event::Gauge { name: "cwnd_bytes", value: 1.0 });
        robot.transport(at(7_500), &Event::Gauge { name: "cwnd_bytes", value: 1.0 });
        robot.robot(at(8_000), &RobotEvent::Enabled, None);
        for n in 1..=3 {
            // The transport may take a state before its device is told that the session did.
            operator.sent(at(10_000 + n), n, StreamId(2));
            operator.made(at(10_000 + n), false, [[0.0; 3]; 3], Ok(n));
        }
        operator.finished(at(10_004));
        let seen = |sequence| Note::Seen(Seen::State { sequence, stream: 2, bytes: 40 });
        robot.note(at(11_001), seen(1));
        robot.note(at(12_003), seen(3));
        [operator, robot]
    }

    #[test]
    fn what_both_ends_noted_becomes_the_result_of_a_run() {
        let scenario = Scenario::parse("notes.toml", SCENARIO).unwrap();
        let way = Way { entered: 4, entered_bytes: 400, left: 3, ..Way::default() };
        let ends = notes(scenario.teleop.as_ref().unwrap());
        let run = account(&scenario, 7, at(5_000), ends, &[way.clone(), way], Vec::new());
        let teleop = run.teleop.unwrap();
        assert_eq!((run.ran, run.seed, teleop.made, teleop.arrived), (Ran::Real, 7, 3, 2));
        assert_eq!((teleop.handshake_ms, teleop.streams[0].lost), (Some(2.0), 1));
        let delay = run.media[0].delay_ms.as_ref().unwrap();
        assert!((delay.min - 1.0).abs() < 0.002 && (delay.max - 2.0).abs() < 0.002, "{delay:?}");
        assert_eq!((teleop.wire[0].bytes, teleop.wire[0].payload), (400, 80));
        assert_eq!((run.conservation.holds, run.conservation.held), (true, 2));
    }
}
