//! Which commands arrived, when, and what they cost on each path.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use taut_core::{Bytes, Duration, PathId, Time};
use taut_transport::mtip::ChoiceStats;

use super::bound::Clairvoyant;
use super::notes::Note;
use crate::metrics::{Summary, percent};
use crate::scenario::{Commands, Scenario};
use taut_report::result::{ChoicesResult, CommandsResult, PathResult};

/// Shared by both ends, and read when the run is over.
#[derive(Clone, Debug)]
pub(super) struct Books(Rc<RefCell<Counts>>);

#[derive(Debug)]
struct Counts {
    deadline: Duration,
    warmup: Duration,
    /// Of its commands, where there is one: is it open, and was it ever?
    session: [bool; 2],
    /// By number: when it was made, and whether it is counted, and has arrived.
    commands: Vec<(Time, State)>,
    /// Their numbers, by those that the session gave them.
    taken: BTreeMap<u64, u64>,
    in_time: u64,
    late: u64,
    /// Deliveries of what was delivered already.
    again: u64,
    refused: u64,
    latency: Summary,
    /// When the newest of them was made, and when one arrived last.
    made: Option<Time>,
    arrived: Option<Time>,
    gap: Duration,
    there: Vec<PathResult>,
    back: Vec<PathResult>,
    copies: Option<(u64, u64)>,
    choices: Option<ChoiceStats>,
}

impl Counts {
    /// Up to the last one that was made, for those that did not come any more.
    fn gap(&self) -> Option<Duration> {
        let (made, arrived) = (self.made?, self.arrived?);
        Some(self.gap.max(made.saturating_since(arrived)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Made before the warm-up was over.
    Ignored,
    UnderWay,
    InTime,
    Late,
}

impl Books {
    pub(super) fn new(commands: &Commands, scenario: &Scenario) -> Self {
        let paths = vec![PathResult::default(); usize::from(commands.paths)];
        Self(Rc::new(RefCell::new(Counts {
            deadline: commands.deadline,
            warmup: scenario.warmup,
            session: [commands.bare; 2],
            commands: Vec::new(),
            taken: BTreeMap::new(),
            in_time: 0,
            late: 0,
            again: 0,
            refused: 0,
            latency: Summary::default(),
            made: None,
            arrived: None,
            gap: Duration::ZERO,
            there: paths.clone(),
            back: paths,
            copies: None,
            choices: None,
        })))
    }

    /// A command is made; its number.
    pub(super) fn made(&self, now: Time) -> u64 {
        let mut books = self.0.borrow_mut();
        let counts = now >= Time::ZERO + books.warmup;
        books.commands.push((now, if counts { State::UnderWay } else { State::Ignored }));
        books.made = counts.then_some(now).or(books.made);
        books.commands.len() as u64 - 1
    }

    /// The transport would not take a command.
    pub(super) fn refused(&self) {
        self.0.borrow_mut().refused += 1;
    }

    /// An end of a session noted this.
    pub(super) fn write(&self, now: Time, note: Note) {
        let number = |sequence| self.0.borrow().taken.get(&sequence).copied();
        match note {
            Note::Opened => self.0.borrow_mut().session = [true, true],
            Note::Closed => self.0.borrow_mut().session[0] = false,
            Note::Made(Some(sequence)) => {
                let number = self.made(now);
                self.0.borrow_mut().taken.insert(sequence, number);
            }
            Note::Made(None) => {
                self.made(now);
                self.refused();
            }
            Note::Came { sequence, used } => {
                if let Some(number) = number(sequence) {
                    self.delivered(now, number, used);
                }
            }
            // What is missing at the end is known by its number.
            Note::Dropped(_) => {}
        }
    }

    /// Was there ever what they could be sent over?
    pub(super) fn opened(&self) -> bool {
        self.0.borrow().session[1]
    }

    /// The run is over. Commands that were still to be made count as made, and as refused, where their session was given up or never opened: what
    /// gave up is held against as many as what went on.
    pub(super) fn close(&self, commands: &Commands, scenario: &Scenario) {
        let books = self.0.borrow();
        let last = books.commands.last().map(|(last, _)| *last);
        if books.session[0] {
            return;
        }
        drop(books);
        let mut next = last.map_or(Time::ZERO, |last| last + commands.period);
        while next < Time::ZERO + scenario.duration {
            self.made(next);
            self.refused();
            next += commands.period;
        }
    }

    /// A command arrived; does the application have it? What was refused as late counts as late.
    pub(super) fn delivered(&self, now: Time, number: u64, used: bool) {
        let books = &mut *self.0.borrow_mut();
        match books.commands.get_mut(number as usize) {
            Some((created, state @ State::UnderWay)) => {
                let took = now.saturating_since(*created);
                // Before the first, whoever waits has waited since the warm-up.
                let warm = Time::ZERO + books.warmup;
                let since =
                    books.arrived.map_or(created.saturating_since(warm), |last| now.saturating_since(last));
                (books.gap, books.arrived) = (books.gap.max(since), Some(now));
                books.latency.record(took);
                let in_time = used && took <= books.deadline;
                *state = if in_time { State::InTime } else { State::Late };
                *if in_time { &mut books.in_time } else { &mut books.late } += 1;
            }
            Some((_, State::InTime | State::Late)) => books.again += 1,
            Some((_, State::Ignored)) | None => {}
        }
    }

    /// A packet leaves, there or back.
    pub(super) fn packet(&self, back: bool, path: PathId, size: Bytes) {
        let books = &mut *self.0.borrow_mut();
        let paths = if back { &mut books.back } else { &mut books.there };
        if let Some(path) = paths.get_mut(usize::from(path.0)) {
            path.packets += 1;
            path.bytes += size.get();
        }
    }

    /// At the end: messages and copies of them, and why they took the paths they took.
    pub(super) fn copies(&self, copies: Option<(u64, u64)>, choices: Option<ChoiceStats>) {
        let mut books = self.0.borrow_mut();
        (books.copies, books.choices) = (copies, choices);
    }

    /// Commands that somebody who knows the future would have had in time: those that were, and those that could have been.
    fn deliverable(&self, clairvoyant: &Clairvoyant) -> u64 {
        let books = self.0.borrow();
        let deliverable = |(created, state): &&(Time, State)| match state {
            State::Ignored => false,
            State::InTime => true,
            State::UnderWay | State::Late => clairvoyant.could_deliver(*created),
        };
        books.commands.iter().filter(deliverable).count() as u64
    }

    pub(super) fn result(&self, transport: &str, clairvoyant: Option<&Clairvoyant>) -> CommandsResult {
        let deliverable = clairvoyant.map(|clairvoyant| self.deliverable(clairvoyant));
        let books = self.0.borrow();
        let sent = books.commands.iter().filter(|(_, state)| *state != State::Ignored).count() as u64;
        let received = books.in_time + books.late;
        let in_time_percent = percent(books.in_time, sent);
        let bound_percent = deliverable.and_then(|deliverable| percent(deliverable, sent));
        let copies = books.copies.filter(|(messages, _)| *messages > 0);
        CommandsResult {
            transport: transport.to_owned(),
            deadline_ms: books.deadline.as_millis_f64(),
            sent,
            received,
            in_time: books.in_time,
            late: books.late,
            delivered_again: books.again,
            refused: books.refused,
            in_time_percent,
            bound_percent,
            below_bound_points: bound_percent.zip(in_time_percent).map(|(bound, here)| bound - here),
            received_percent: percent(received, sent),
            latency_ms: books.latency.to_result(),
            gap_ms: books.gap().map(Duration::as_millis_f64),
            copies: copies.map(|(messages, copies)| copies as f64 / messages as f64),
            choices: books.choices.map(ChoicesResult::from),
            there: books.there.clone(),
            back: books.back.clone(),
        }
    }
}
