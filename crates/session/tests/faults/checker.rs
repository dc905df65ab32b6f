//! Judges an episode by what it sees from outside: samples that were made, datagrams, and the events of both ends.

use std::collections::{BTreeMap, VecDeque};

use taut_core::{DropCause, Duration, LinkEvent, Time};
use taut_session::{OperatorEvent, RobotEvent, Status, StopCause};
use taut_wire::session::{Body, Frame};

use crate::arm::{Arm, Hand, distance};
use crate::carriers::Over;
use crate::harness::{MS, OPERATOR, Observer};
use crate::{DEADLINE, FORCE, REACH, SPEED, STIFFNESS, WATCHDOG};

/// What is known of one state; by its sequence.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    made: Option<Time>,
    /// Dropped by the operator's end.
    dropped: Option<DropCause>,
    /// Datagrams with it that were sent, and copies that the network made.
    copies: u32,
    /// Of these, how many the network lost.
    lost: u32,
    /// How many the robot refused.
    refused: u32,
    /// Why, the first time.
    why: Option<DropCause>,
    applied: u32,
}

pub(crate) struct Checker {
    /// A robot that applies at once: then what it knew of the clocks is what it judged by.
    immediate: bool,
    /// Every datagram is a frame, so that each copy of each state is seen.
    plain: bool,
    /// Lost messages are repeated, and those behind them arrive all at once: what was known of the clocks when each of
    /// them was judged is not seen from outside.
    batches: bool,
    closed: bool,
    /// How the hand moves, and the arm.
    pub(crate) hand: Hand,
    arm: Arm,
    /// Where the robot measured itself last.
    measured: [f64; 3],
    /// A stop is latched that nobody has let go: pressed at the robot, and by the operator.
    latched: [bool; 2],
    fates: Vec<Fate>,
    made: u64,
    /// By the number of the datagram: the sequence of the state in it, 0 for anything else.
    datagrams: Vec<u64>,
    applied: u64,
    last_applied: u64,
    enabled: bool,
    /// When the last motion that was applied was made, or it was resumed; and by how much the clocks may be misjudged.
    moved: Time,
    misjudged: Duration,
    /// When resume was first pressed after the last stop.
    released: Option<Time>,
    clock_set: Option<Time>,
    /// By how much the robot's estimate of the operator's clock was off, within the last deadline.
    errors: VecDeque<(Time, Duration)>,
    robot_drops: BTreeMap<&'static str, u64>,
    operator_drops: BTreeMap<&'static str, u64>,
    totals: Totals,
}

/// What happened in all episodes: faults that never happen prove nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) episodes: u64,
    pub(crate) made: u64,
    pub(crate) applied: u64,
    pub(crate) lost: u64,
    pub(crate) stops: BTreeMap<String, u64>,
    pub(crate) resumes: u64,
    pub(crate) clocks_set: u64,
    pub(crate) steps_found: u64,
    /// Of the arm, m/s.
    pub(crate) fastest: f64,
    /// Of the arm's controller, N.
    pub(crate) strongest: f64,
    /// Set points that the limits changed.
    pub(crate) limited: u64,
    pub(crate) robot_drops: BTreeMap<&'static str, u64>,
    pub(crate) operator_drops: BTreeMap<&'static str, u64>,
}

impl Totals {
    pub(crate) fn add(&mut self, other: &Self) {
        self.episodes += other.episodes;
        self.made += other.made;
        self.applied += other.applied;
        self.lost += other.lost;
        self.resumes += other.resumes;
        self.limited += other.limited;
        self.fastest = self.fastest.max(other.fastest);
        self.strongest = self.strongest.max(other.strongest);
        self.clocks_set += other.clocks_set;
        self.steps_found += other.steps_found;
        other.stops.iter().for_each(|(why, count)| *self.stops.entry(why.clone()).or_default() += count);
        other.robot_drops.iter().for_each(|(why, count)| *self.robot_drops.entry(why).or_default() += count);
        other
            .operator_drops
            .iter()
            .for_each(|(why, count)| *self.operator_drops.entry(why).or_default() += count);
    }

    pub(crate) fn assert_that_faults_happened(&self, over: Over) {
        if over != Over::Plain {
            assert!(self.made > 0 && self.applied > self.made / 50 && self.resumes > 0, "{self:?}");
            assert!(self.stops.contains_key("Watchdog") && self.stops.contains_key("Emergency"), "{self:?}");
            return;
        }
        let happened = |counts: &BTreeMap<&'static str, u64>, causes: &[&str]| {
            for cause in causes {
                assert!(
                    counts.get(cause).is_some_and(|count| *count > 0),
                    "{cause} never happened: {self:?}"
                );
            }
        };
        happened(&self.robot_drops, &["duplicate", "superseded", "too_late", "stopped", "out_of_limits"]);
        happened(&self.operator_drops, &["superseded", "stopped", "too_late", "queue_full_packets"]);
        assert!(self.limited > 0 && self.fastest > 0.0 && self.strongest <= f64::from(FORCE), "{self:?}");
        for why in ["Watchdog", "Emergency", "LocalEmergency", "ClockStepped"] {
            assert!(self.stops.get(why).is_some_and(|count| *count > 0), "no {why}: {self:?}");
        }
        assert!(self.applied > self.made / 4 && self.lost > 0 && self.resumes > 0, "{self:?}");
        assert!(self.clocks_set > 0 && self.steps_found > 0, "{self:?}");
    }
}

impl Checker {
    pub(crate) fn new(immediate: bool, over: Over, hand: Hand) -> Self {
        Self {
            immediate,
            plain: over == Over::Plain,
            batches: over.reliable(),
            closed: false,
            hand,
            arm: Arm::default(),
            measured: [0.0; 3],
            latched: [false; 2],
            fates: Vec::new(),
            made: 0,
            datagrams: Vec::new(),
            applied: 0,
            last_applied: 0,
            enabled: false,
            moved: Time::ZERO,
            misjudged: Duration::ZERO,
            released: None,
            clock_set: None,
            errors: VecDeque::new(),
            robot_drops: BTreeMap::new(),
            operator_drops: BTreeMap::new(),
            totals: Totals::default(),
        }
    }

    /// Did a connection end since this was asked last?
    pub(crate) fn take_closed(&mut self) -> bool {
        std::mem::take(&mut self.closed)
    }

    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    pub(crate) fn applied(&self) -> u64 {
        self.applied
    }

    /// Resume was pressed at the operator.
    pub(crate) fn resume_pressed(&mut self, now: Time) {
        self.released.get_or_insert(now);
    }

    /// Somebody sets a clock.
    pub(crate) fn clock_set(&mut self, now: Time) {
        self.clock_set = Some(now);
        self.totals.clocks_set += 1;
    }

    fn fate(&mut self, sequence: u64) -> &mut Fate {
        let index = sequence as usize;
        if index >= self.fates.len() {
            self.fates.resize(index + 1, Fate::default());
        }
        &mut self.fates[index]
    }

    fn in_datagram(&self, id: u64) -> Option<u64> {
        self.datagrams.get(id as usize).copied().filter(|sequence| *sequence > 0)
    }

    fn check_applied(&mut self, now: Time, sequence: u64, age: Duration, clocks: Option<[Duration; 2]>) {
        let made = self.fate(sequence).made.expect("a state that nobody made was applied");
        assert!(self.enabled, "{sequence} was applied by a stopped robot at {now}");
        assert!(sequence > self.last_applied, "{sequence} after {}", self.last_applied);
        let released = self.released.expect("motion without a resume");
        assert!(made >= released, "{sequence} was made at {made}, before the resume at {released}");
        let true_age = now - made;
        // How far the clocks' estimate is off decides by how much age may be misjudged; and both clocks drift.
        let seen = self.immediate && self.plain;
        assert!(clocks.is_some() || !seen, "a state was applied although its age was unknown");
        if let Some([error, stated]) = clocks
            && self.clock_set.is_none_or(|set| now.saturating_since(set) > MS * 4_000)
        {
            assert!(error <= stated, "the clock is {error} off, said at most {stated}");
        }
        // A slow robot judged the age when the state arrived, by what it knew then.
        let error = self.errors.iter().map(|(_, error)| *error).max().unwrap_or_default();
        assert!(self.batches || !self.errors.is_empty(), "its age was known then");
        let drift = Duration::from_micros(50);
        if !self.batches {
            assert!(true_age < DEADLINE + error + drift, "{sequence} was {true_age} old");
            assert!(age.abs_diff(true_age) <= error + drift, "{sequence} was {true_age} old, said {age}");
        }
        self.moved = made;
        self.misjudged = if self.batches { MS * 2_000 } else { error };
        self.last_applied = sequence;
        self.applied += 1;
    }

    /// The set point moves no faster than the limit by the robot's own clock, from where the robot was when it was resumed, what comes within a millisecond
    /// together, and pulls no harder than the limit of the force.
    fn check_set_point(&mut self, now: Time, position: [f32; 3]) {
        let position = position.map(f64::from);
        let (last, _) = self.arm.set_point.expect("it was resumed");
        if self.hand == Hand::Moves {
            let path = &mut self.arm.path;
            let gone = path.back().map_or(0.0, |(_, gone)| *gone) + distance(position, last);
            path.push_back((now, gone));
            for ((from, before), (next, _)) in path.iter().zip(path.iter().skip(1)) {
                let earlier = || path.iter().rev().find(|(at, _)| *at + MS <= *from);
                let since = if *from + MS <= *next { Some(*from) } else { earlier().map(|(at, _)| *at) };
                let Some(since) = since else { continue };
                let (way, time) = (gone - before, (now - since).as_secs_f64());
                let most = f64::from(SPEED) * time * (1.0 + 2e-4) + 2e-6;
                assert!(way <= most, "the set point moved {way} m in {time} s at {now}");
            }
            path.drain(..path.len().saturating_sub(16));
            // By where the robot measured itself, which an arm that turns round has left by 0.25 m/s since: the speed's limit lets the
            // set point come back no faster. What is more than the limit the device does not make.
            let pull = f64::from(STIFFNESS) * distance(position, self.measured);
            let most = f64::from(FORCE) + f64::from(STIFFNESS) * 0.25 * 2e-3;
            assert!(pull <= most, "the set point pulls with {pull} N");
            self.totals.strongest = self.totals.strongest.max(self.arm.strongest);
            let asked = self.hand.at(now).map(f64::from);
            self.totals.limited += u64::from(distance(position, asked) > 0.02);
            self.totals.fastest = self.totals.fastest.max(self.arm.fastest);
        }
        self.arm.pass(now);
        self.arm.set_point = Some((position, now));
    }

    /// Whatever happens, and whoever sees it: a robot that nothing moves has stopped, so long after the last motion that moved
    /// it was made. Set clocks shorten the watchdog's time, and never lengthen it.
    fn watch(&self, now: Time) {
        let silence = now.saturating_since(self.moved);
        let drift = Duration::from_micros(50);
        let longest = WATCHDOG + self.misjudged + drift;
        assert!(!self.enabled || silence <= longest, "{silence} without motion, and no stop");
    }

    /// The books of the episode, closed when nothing is under way any more.
    pub(crate) fn settle(&mut self, operator: &Status, robot: &Status) -> Totals {
        let mut lost = 0;
        let (mut dropped, mut refused) = (0, 0);
        for (sequence, fate) in self.fates.iter().enumerate() {
            if fate.made.is_none() {
                assert_eq!((fate.copies, fate.applied), (0, 0), "{sequence} was never made: {fate:?}");
                continue;
            }
            assert!(fate.applied <= 1, "{sequence} was applied {} times", fate.applied);
            let arrived = fate.applied + fate.refused;
            if self.plain {
                assert_eq!(fate.copies, fate.lost + arrived, "{sequence} does not add up: {fate:?}");
                assert_eq!(
                    fate.dropped.is_some(),
                    fate.copies == 0,
                    "{sequence} is gone without a cause: {fate:?}"
                );
            }
            // A transport that gave a message up may have been heard all the same.
            let dropped_here = fate.dropped.filter(|_| arrived == 0);
            match (dropped_here, arrived, fate.applied) {
                (Some(_), ..) => dropped += 1,
                (None, 0, _) => lost += 1,
                (None, _, 0) => refused += 1,
                _ => {}
            }
        }
        assert_eq!(
            self.made,
            self.applied + dropped + refused + lost,
            "made = applied + dropped + refused + lost"
        );
        // What both ends counted is what was seen.
        assert_eq!(robot.dropped, self.robot_drops, "the robot's counters");
        // Sent and dropped are what was made; what a transport dropped counts as never sent.
        let gone = self.fates.iter().filter(|fate| fate.dropped.is_some()).count() as u64;
        assert_eq!(robot.delivered, self.applied);
        for (cause, count) in &self.operator_drops {
            let counted = operator.dropped.get(cause).copied().unwrap_or(0);
            assert!(counted >= *count, "{cause}: {counted} counted, {count} seen");
        }
        assert_eq!(operator.messages + gone, self.made, "sent and dropped are what was made");
        Totals {
            episodes: 1,
            made: self.made,
            applied: self.applied,
            lost,
            steps_found: robot.clock_steps,
            robot_drops: std::mem::take(&mut self.robot_drops),
            operator_drops: std::mem::take(&mut self.operator_drops),
            ..std::mem::take(&mut self.totals)
        }
    }
}

impl Observer for Checker {
    fn hand(&self, now: Time) -> [f32; 3] {
        self.hand.at(now)
    }

    fn arm(&mut self, now: Time) -> [f32; 3] {
        self.arm.pass(now);
        self.measured = self.arm.at;
        self.arm.at.map(|x| x as f32)
    }

    fn clocks(&mut self, now: Time, clocks: Option<[Duration; 2]>) {
        let kept = match (self.plain, self.immediate) {
            (false, _) => MS * 2_000,
            (true, false) => DEADLINE + MS * 20,
            (true, true) => Duration::ZERO,
        };
        self.errors.extend(clocks.map(|[error, _]| (now, error)));
        while self.errors.front().is_some_and(|(at, _)| now.saturating_since(*at) > kept) {
            self.errors.pop_front();
        }
    }

    fn transmitted(&mut self, now: Time, from: usize, id: u64, bytes: &[u8]) {
        self.watch(now);
        if !self.plain {
            return;
        }
        let frame = Frame::parse(bytes).expect("only frames are sent");
        let sequence = match frame.body {
            Body::State(state) | Body::AcknowledgingState(state, _) if from == OPERATOR => {
                assert!(state.is_finite(), "{state:?} left the operator");
                self.fate(state.sequence).copies += 1;
                state.sequence
            }
            _ => 0,
        };
        self.datagrams.resize(id as usize, 0);
        self.datagrams.push(sequence);
    }

    fn network(&mut self, now: Time, _from: usize, event: &LinkEvent) {
        self.watch(now);
        match event {
            LinkEvent::Dropped { meta, .. } => {
                if let Some(sequence) = self.in_datagram(meta.id) {
                    self.fate(sequence).lost += 1;
                }
            }
            LinkEvent::Duplicated { meta } => {
                if let Some(sequence) = self.in_datagram(meta.id) {
                    self.fate(sequence).copies += 1;
                }
            }
            LinkEvent::Corrupted { .. } | LinkEvent::Marked { .. } => {}
        }
    }

    fn corrupted(&mut self, id: u64, _from: usize) {
        if let Some(sequence) = self.in_datagram(id) {
            self.fate(sequence).lost += 1;
        }
    }

    fn made(&mut self, now: Time, sequence: u64) {
        self.made += 1;
        self.fate(sequence).made = Some(now);
    }

    fn operator(&mut self, now: Time, event: &OperatorEvent) {
        self.watch(now);
        self.closed |= *event == OperatorEvent::Closed;
        if let OperatorEvent::Dropped { sequence, cause } = event {
            let fate = self.fate(*sequence);
            assert_eq!(fate.dropped.replace(*cause), None, "{sequence} was dropped twice");
            *self.operator_drops.entry(cause.name()).or_default() += 1;
        }
    }

    fn robot(&mut self, now: Time, event: &RobotEvent, clocks: Option<[Duration; 2]>) {
        self.watch(now);
        // What arrives at once, after a loss was repaired, was judged one by one: comparisons of clocks lie between.
        self.clocks(now, clocks);
        match event {
            RobotEvent::Apply { sequence, state, age, .. } => {
                assert!(state.is_finite());
                let within = |vector: [f32; 3], largest: f32| vector.iter().all(|x| x.abs() <= largest);
                assert!(
                    within(state.position, REACH) && within(state.force, FORCE),
                    "{state:?} is beyond the limits"
                );
                self.check_applied(now, *sequence, *age, clocks);
                self.check_set_point(now, state.position);
                self.fate(*sequence).applied += 1;
            }
            RobotEvent::Dropped { sequence, cause } => {
                let fate = self.fate(*sequence);
                fate.refused += 1;
                fate.why.get_or_insert(*cause);
                *self.robot_drops.entry(cause.name()).or_default() += 1;
            }
            RobotEvent::Enabled { .. } => {
                assert!(self.released.is_some(), "nobody pressed resume after the stop");
                assert_eq!(self.latched, [false; 2], "nobody let go of the stop");
                self.enabled = true;
                (self.moved, self.misjudged) = (now, Duration::ZERO);
                self.arm.pass(now);
                self.arm.set_point = Some((self.arm.at, now));
                // Nothing went before.
                self.arm.path = VecDeque::from([(now - MS, 0.0), (now, 0.0)]);
                self.totals.resumes += 1;
            }
            RobotEvent::LetGo { here } => self.latched[usize::from(!here)] = false,
            RobotEvent::Stop { why } => {
                self.enabled = false;
                self.released = None;
                self.latched[0] |= *why == StopCause::LocalEmergency;
                self.latched[1] |= *why == StopCause::Emergency;
                self.arm.pass(now);
                self.arm.set_point = None;
                assert!(
                    *why != StopCause::ClockStepped || self.clock_set.is_some(),
                    "nobody set a clock before {now}"
                );
                *self.totals.stops.entry(format!("{why:?}")).or_default() += 1;
            }
            RobotEvent::Refused(cause) => *self.robot_drops.entry(cause.name()).or_default() += 1,
            RobotEvent::Closed => self.closed = true,
            _ => {}
        }
    }
}
