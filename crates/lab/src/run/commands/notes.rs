//! What the ends of a session did with commands, note by note: in a simulation written into the books at once, on real sockets when
//! the run is over.

use std::collections::BTreeMap;

use taut_agent::{Observed, SessionObserver};
use taut_core::{DropCause, Time};
use taut_session::{ChannelEvent, OperatorEvent, RobotEvent};

use super::books::Books;
use super::{direction, name};
use crate::run::judge;
use crate::run::teleop::{Way, conservation, flow};
use crate::run::turns::Turns;
use crate::scenario::{Commands, Scenario};
use taut_report::result::{FlowOwner, FlowResult, Input, PathResult, Ran, RunResult, Verdict};
use taut_transport::mtip::ChoiceStats;
use taut_transport::stack::Side;

/// One thing that an end did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// There is a session.
    Opened,
    /// There is none any more.
    Closed,
    /// A command was made; its number in the channel, unless the session would not take it.
    Made(Option<u64>),
    /// One arrived, by that number. What is too late is not used.
    Came { sequence: u64, used: bool },
    /// Its sender dropped one.
    Dropped(DropCause),
}

/// What is worth a note.
pub(super) fn note(event: Observed<'_>) -> Option<Note> {
    Some(match event {
        Observed::Operator(OperatorEvent::Connected { .. }) => Note::Opened,
        Observed::Operator(OperatorEvent::Closed) => Note::Closed,
        Observed::Message { taken, .. } => Note::Made(taken.ok()),
        Observed::Operator(OperatorEvent::Channel(ChannelEvent::Dropped { cause, .. })) => {
            Note::Dropped(*cause)
        }
        Observed::Robot(RobotEvent::Channel(event), _) => match *event {
            ChannelEvent::Received { sequence, .. } => Note::Came { sequence, used: true },
            ChannelEvent::Dropped { sequence, cause: DropCause::TooLate, .. } => {
                Note::Came { sequence, used: false }
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// What one end did over real sockets, each with the time of the one clock that both ends read.
#[derive(Debug, Default)]
pub struct CommandNotes(Vec<(Time, Note)>);

impl SessionObserver for CommandNotes {
    fn on_event(&mut self, now: Time, event: Observed<'_>) {
        self.0.extend(note(event).map(|note| (now, note)));
    }
    fn reads_messages(&self) -> bool {
        false
    }
}

/// What is known of a run over real sockets beside the notes of its ends.
#[derive(Clone, Debug, Default)]
pub struct CommandRun {
    /// When it began.
    pub began: Time,
    /// What each path carried there and back.
    pub paths: Vec<[Way; 2]>,
    /// Messages, and copies of them.
    pub copies: Option<(u64, u64)>,
    /// Why they took the paths they took.
    pub choices: Option<ChoiceStats>,
    /// The files that the links read.
    pub inputs: Vec<Input>,
}

/// The result of commands that went over real sockets, from the notes of the operator's end and the robot's. It is one that
/// [`Ran::Real`].
pub fn account_commands(
    scenario: &Scenario,
    commands: &Commands,
    seed: u64,
    ends: [CommandNotes; 2],
    run: CommandRun,
) -> RunResult {
    let books = Books::new(commands, scenario);
    // Made first: what arrives is found by its number.
    let mut turns = Turns::new(commands.period);
    let mut dropped = BTreeMap::<String, u64>::new();
    for (at, note) in ends.into_iter().flat_map(|notes| notes.0) {
        match note {
            Note::Made(_) => turns.made(at),
            Note::Dropped(cause) => {
                *dropped.entry(format!("sender_dropped_{}", cause.name())).or_default() += 1
            }
            Note::Opened | Note::Closed | Note::Came { .. } => {}
        }
        books.write(Time::ZERO + at.saturating_since(run.began), note);
    }
    books.close(commands, scenario);
    books.copies(run.copies, run.choices);
    let mut result = books.result(commands.transport.name(), None);
    let path = |way: &Way| PathResult { packets: way.entered, bytes: way.entered_bytes };
    result.there = run.paths.iter().map(|ways| path(&ways[0])).collect();
    result.back = run.paths.iter().map(|ways| path(&ways[1])).collect();
    let mut both = Way::of_all(&run.paths);
    both[0].counters.extend(turns.counters());
    both[0].counters.extend(dropped);
    RunResult {
        ran: Ran::Real,
        verdict: Verdict::of(judge::no_session(books.opened(), &[]).into_iter().collect()),
        flows: flows(scenario, &both),
        conservation: conservation(&both, Vec::new()),
        commands: Some(result),
        ..crate::run::blank(scenario, seed, run.inputs)
    }
}

fn flows(scenario: &Scenario, ways: &[Way; 2]) -> Vec<FlowResult> {
    let flow = |(side, way): (Side, &Way)| FlowResult {
        name: name(side).to_owned(),
        owner: FlowOwner::Commands(direction(side)),
        kind: "commands".to_owned(),
        ..flow(scenario, direction(side), way, None)
    };
    [Side::Opens, Side::Waits].into_iter().zip(ways).map(flow).collect()
}
