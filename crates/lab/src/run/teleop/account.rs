//! A session that ran over real sockets: the books that a simulated session is kept in are written from the notes of both ends when
//! it is over.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use taut_core::{Address, NodeEvent, Seed, Time};
use taut_sim::Observer;

use super::books::{Book, Moment};
use super::critical;
use super::notes::{Note, Notes};
use super::record::{Record, Shared};
use crate::metrics::{Metrics, StreamKey, Watch, percent};
use crate::run::judge;
use crate::scenario::{Direction, Scenario};
use taut_report::result::{
    Conservation, FlowOwner, FlowResult, Input, Ran, RunResult, TeleopResult, Verdict,
};
use taut_transport::stack::Side;

/// What one direction of the network between the ends carried, or one path of it.
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
    /// Packets that were inside at the end, where somebody looked.
    pub held: Option<u64>,
    /// Bytes that entered and that left after the warm-up and before the scenario's end, where that is known: rates are of these.
    pub counted: Option<[u64; 2]>,
    /// What else is known of it, by name: `"late_p99_us"`. It goes to the counters of the flow.
    pub counters: BTreeMap<String, u64>,
}

impl Way {
    /// What all paths carried together, there and back.
    pub(in crate::run) fn of_all(paths: &[[Self; 2]]) -> [Self; 2] {
        let mut sums = [Self::default(), Self::default()];
        for path in paths {
            sums.iter_mut().zip(path).for_each(|(sum, way)| sum.add(way));
        }
        sums
    }

    pub(in crate::run) fn add(&mut self, way: &Self) {
        self.entered += way.entered;
        self.entered_bytes += way.entered_bytes;
        self.left += way.left;
        self.left_bytes += way.left_bytes;
        self.duplicated += way.duplicated;
        self.counted = match (self.counted, way.counted) {
            (Some([entered, left]), Some(more)) => Some([entered + more[0], left + more[1]]),
            (one, other) => one.or(other),
        };
        for (cause, count) in &way.dropped {
            *self.dropped.entry(cause.clone()).or_default() += count;
        }
        for (name, count) in &way.counters {
            let known = self.counters.entry(name.clone()).or_default();
            // Of times, how late the latest of the paths was; what was counted adds up.
            *known = if name.ends_with("_us") { (*known).max(*count) } else { *known + count };
        }
    }

    /// What is left of it without `part`, which it contains.
    pub fn without(&self, part: &Self) -> Self {
        let dropped = self.dropped.iter().filter_map(|(cause, count)| {
            let left = count.saturating_sub(part.dropped.get(cause).copied().unwrap_or(0));
            (left > 0).then(|| (cause.clone(), left))
        });
        Self {
            entered: self.entered.saturating_sub(part.entered),
            entered_bytes: self.entered_bytes.saturating_sub(part.entered_bytes),
            left: self.left.saturating_sub(part.left),
            left_bytes: self.left_bytes.saturating_sub(part.left_bytes),
            dropped: dropped.collect(),
            duplicated: self.duplicated.saturating_sub(part.duplicated),
            held: None,
            counted: self.counted,
            counters: self.counters.clone(),
        }
    }

    pub(in crate::run) fn add_to(&self, books: &mut Conservation) {
        books.sent += self.entered;
        books.duplicated += self.duplicated;
        books.delivered += self.left;
        books.held += self.not_out();
        for (cause, count) in &self.dropped {
            *books.dropped.entry(cause.clone()).or_default() += count;
        }
    }

    fn dropped_in_all(&self) -> u64 {
        self.dropped.values().sum()
    }

    fn not_out(&self) -> u64 {
        (self.entered + self.duplicated).saturating_sub(self.left + self.dropped_in_all())
    }

    /// What does not add up of what it carried, in words. Without [`held`](Self::held) that is more out of it than went in.
    pub fn violation(&self) -> Option<String> {
        let Self { entered, duplicated, left, .. } = self;
        let (dropped, held) = (self.dropped_in_all(), self.held.unwrap_or_else(|| self.not_out()));
        (entered + duplicated != left + dropped + held).then(|| {
            format!(
                "{entered} packets entered the network and {duplicated} copies were made, {left} left, {dropped} were dropped \
                 and {held} are inside"
            )
        })
    }
}

/// Both ends. A node's address is its place here.
pub(in crate::run) const NODES: [&str; 2] = ["operator", "robot"];
const OPERATOR: Address = Address(0);
const ROBOT: Address = Address(1);

/// What goes there, and what comes back.
pub(in crate::run) fn stream_keys() -> [StreamKey; 2] {
    [
        StreamKey { from: OPERATOR, to: ROBOT, direction: Direction::Forward },
        StreamKey { from: ROBOT, to: OPERATOR, direction: Direction::Backward },
    ]
}

/// The result of a session that began at `began`, from the notes of both ends and what each path carried there and back.
/// It is one that [`Ran::Real`].
///
/// # Panics
/// When the scenario has no `[teleop]`.
pub fn account(
    scenario: &Scenario,
    seed: u64,
    began: Time,
    ends: [Notes; 2],
    paths: &[[Way; 2]],
    inputs: Vec<Input>,
) -> RunResult {
    let network = &Way::of_all(paths);
    let teleop = scenario.teleop.as_ref().expect("only sessions run for real");
    let watch = Watch::of(scenario);
    let record: Shared = Rc::new(RefCell::new(Record::new(teleop, Seed::new(seed), watch)));
    let keys = stream_keys();
    let mut books = [Side::Opens, Side::Waits].map(|side| Book::new(teleop, side, record.clone()));
    let mut metrics = Metrics::new(watch, &keys, 0, 0, None);
    let mut notes: Vec<(Side, Time, Note)> = ends
        .into_iter()
        .flat_map(|end| end.notes.into_iter().map(move |(at, note)| (end.scribe.side, at, note)))
        // The robot waits for its operator before the run begins, and what it makes then is of no run.
        .filter(|(_, at, note)| *at >= began || !matches!(note, Note::Channel(..)))
        .collect();
    // What happens at one instant, the operator's end did first.
    notes.sort_by_key(|(_, at, _)| *at);
    for (side, at, note) in notes {
        let now = Time::ZERO + at.saturating_since(began);
        let (book, node) = match side {
            Side::Opens => (&mut books[0], OPERATOR),
            Side::Waits => (&mut books[1], ROBOT),
        };
        // Both ends read one clock.
        book.write(Moment { now, transit: None, operator_ahead_ns: 0 }, note);
        book.events.drain(..).for_each(|event: NodeEvent| metrics.node_event(now, node, &event));
    }
    let mut record = record.borrow_mut();
    for (direction, way) in WAYS.into_iter().zip(network) {
        let counted = way.counted.map_or(way.entered_bytes, |[entered, _]| entered);
        record.carried(direction, [way.entered, way.entered_bytes], counted);
    }
    super::tell_rest(&mut record, teleop, OPERATOR, &mut metrics);
    record.checker.close();
    let violations = record.checker.violations();
    let spec = teleop;
    let teleop = record.to_result(spec, None);
    let mut series = metrics.series(&NODES.map(str::to_owned), &[], &[]);
    series.extend(record.series());
    let media = metrics.media();
    let teleop = teleop.beside(critical::of_run(spec, &media));
    let mut limits = judge::limits(scenario.limits, &media);
    limits.extend(judge::touch(&teleop));
    let nothing = judge::no_session(teleop.opened_ms.is_some(), &limits);
    limits.extend(nothing);
    RunResult {
        ran: Ran::Real,
        verdict: Verdict::of(limits),
        flows: flows(scenario, &teleop, network),
        conservation: conservation(network, violations),
        refusals: metrics.refusals(&NODES.map(str::to_owned)),
        teleop: Some(teleop),
        worst: metrics.worst(),
        series,
        media,
        ..crate::run::blank(scenario, seed, inputs)
    }
}

const WAYS: [Direction; 2] = [Direction::Forward, Direction::Backward];

fn flows(scenario: &Scenario, teleop: &TeleopResult, network: &[Way; 2]) -> Vec<FlowResult> {
    let each = WAYS.into_iter().zip(network).zip(&teleop.wire);
    each.map(|((direction, way), wire)| flow(scenario, direction, way, wire.efficiency())).collect()
}

/// What one direction of a session carried.
pub(in crate::run) fn flow(
    scenario: &Scenario,
    direction: Direction,
    way: &Way,
    efficiency: Option<f64>,
) -> FlowResult {
    let ([entered, left], time) = match way.counted {
        Some(counted) => (counted, Watch::of(scenario).counted()),
        None => ([way.entered_bytes, way.left_bytes], scenario.duration),
    };
    let rate = |bytes: u64| bytes as f64 * 8.0 / time.as_secs_f64();
    FlowResult {
        name: format!("session {}", direction.name()),
        owner: FlowOwner::Session(direction),
        kind: "session".to_owned(),
        sent: way.entered,
        delivered: way.left,
        dropped: way.dropped.clone(),
        loss_percent: percent(way.dropped_in_all(), way.entered),
        sent_bps: rate(entered),
        delivered_bps: rate(left),
        efficiency,
        delay_ms: None,
        counters: way.counters.clone(),
    }
}

pub(in crate::run) fn conservation(network: &[Way; 2], violations: Vec<String>) -> Conservation {
    let mut books = Conservation { holds: violations.is_empty(), violations, ..Conservation::default() };
    network.iter().for_each(|way| way.add_to(&mut books));
    books
}

#[cfg(test)]
mod tests {
    use super::super::wire::Seen;
    use super::*;
    use crate::scenario::Teleop;
    use taut_agent::{Observed, SessionObserver};
    use taut_core::{Duration, Event, StreamId};
    use taut_session::{RobotEvent, State};

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
        operator.on_event(at(7_000), Observed::Transport(&Event::Connected));
        operator.on_event(at(7_000), Observed::ResumePressed);
        let gauge = Event::Gauge { name: "cwnd_bytes", value: 1.0 };
        operator.on_event(at(7_500), Observed::Transport(&gauge));
        robot.on_event(at(7_500), Observed::Transport(&gauge));
        robot.on_event(at(8_000), Observed::Robot(&RobotEvent::Enabled { epoch: 1 }, None));
        for n in 1..=3 {
            operator.on_event(at(10_000 + n), Observed::Made(&State::at(Time::ZERO), Ok(n)));
            operator.on_event(at(10_000 + n), Observed::Sent { tag: n, stream: StreamId(2) });
        }
        operator.on_event(at(10_004), Observed::DeviceDone);
        let seen = |sequence| Note::Seen(Seen::State { sequence, stream: 2, bytes: 40 });
        robot.notes.extend([(at(11_001), seen(1)), (at(12_003), seen(3))]);
        [operator, robot]
    }

    #[test]
    fn what_paths_counted_adds_up_and_the_latest_of_them_says_how_late_they_were() {
        let path = |late, overrun| {
            let counters = [("emulator_late_max_us", late), ("emulator_overrun", overrun)]
                .map(|(name, n)| (name.to_owned(), n));
            [Way { counters: counters.into(), ..Way::default() }, Way::default()]
        };
        let [there, _] = Way::of_all(&[path(70, 3), path(90, 2)]);
        assert_eq!((there.counters["emulator_late_max_us"], there.counters["emulator_overrun"]), (90, 5));
    }

    #[test]
    fn packets_that_left_a_network_had_entered_it_and_those_inside_are_seen_there() {
        let way = |left, held| Way { entered: 4, duplicated: 1, left, held, ..Way::default() }.violation();
        assert_eq!((way(5, None), way(3, None), way(3, Some(2))), (None, None, None));
        for way in [way(6, None), way(3, Some(1)), way(3, Some(3))] {
            assert!(way.expect("they do not add up").contains("4 packets entered"));
        }
    }

    #[test]
    fn what_both_ends_noted_becomes_the_result_of_a_run() {
        let scenario = Scenario::parse("notes.toml", SCENARIO).unwrap();
        let way = Way { entered: 4, entered_bytes: 400, left: 3, ..Way::default() };
        let ends = notes(scenario.teleop.as_ref().unwrap());
        let run = account(&scenario, 7, at(5_000), ends, &[[way.clone(), way]], Vec::new());
        let teleop = run.teleop.unwrap();
        assert_eq!((run.ran, run.seed, teleop.made, teleop.arrived), (Ran::Real, 7, 3, 2));
        assert_eq!((teleop.handshake_ms, teleop.streams[0].lost), (Some(2.0), 1));
        let delay = run.media[0].delay_ms.as_ref().unwrap();
        assert!((delay.min - 1.0).abs() < 0.002 && (delay.max - 2.0).abs() < 0.002, "{delay:?}");
        assert_eq!((teleop.wire[0].bytes, teleop.wire[0].payload), (400, 80));
        assert_eq!((run.conservation.holds, run.conservation.held), (true, 2));
        assert_eq!(run.flows[0].efficiency, teleop.wire[0].efficiency());
    }
}
