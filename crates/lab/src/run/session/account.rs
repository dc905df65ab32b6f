//! A session of media that went over real sockets: the notes of both ends, and the result that is made of them.

use taut_agent::{Observed, SessionObserver};
use taut_core::Time;
use taut_transport::stack::Side;

use super::books::{Books, Note, note};
use crate::metrics::{Metrics, Watch};
use crate::run::judge;
use crate::run::still::period;
use crate::run::teleop::{NODES, Way, conservation, flow, stream_keys};
use crate::run::turns::Turns;
use crate::scenario::{Direction, Scenario, Session};
use taut_report::result::{FlowResult, Input, Ran, RunResult, Verdict};

/// What one end did, each with the time of the one clock that both ends read.
#[derive(Debug, Default)]
pub struct MediaNotes(Vec<(Time, Note)>);

impl SessionObserver for MediaNotes {
    fn on_event(&mut self, now: Time, event: Observed<'_>) {
        self.0.extend(note(event).map(|note| (now, note)));
    }
    fn reads_messages(&self) -> bool {
        false
    }
}

/// The result of a session of media that began at `began`, from the notes of the operator's end and the robot's, and what each path
/// carried there and back. It is one that [`Ran::Real`].
pub fn account_media(
    scenario: &Scenario,
    session: &Session,
    seed: u64,
    began: Time,
    ends: [MediaNotes; 2],
    paths: &[[Way; 2]],
    inputs: Vec<Input>,
) -> RunResult {
    let keys = stream_keys();
    let watch = Watch::of(scenario);
    let mut metrics = Metrics::new(watch, &keys, 0, 0, None);
    let books = Books::new(session);
    let sides = [Side::Opens, Side::Waits].into_iter().zip(ends);
    let mut notes: Vec<_> =
        sides.flat_map(|(side, end)| end.0.into_iter().map(move |(at, note)| (at, side, note))).collect();
    // What happens at one instant, the operator's end did first.
    notes.sort_by_key(|(at, ..)| *at);
    let mut turns =
        [Direction::Forward, Direction::Backward].map(|way| Turns::new(period(session.stream(way))));
    for (at, side, note) in notes {
        let now = Time::ZERO + at.saturating_since(began);
        match note {
            Note::Opened => turns[side as usize].begin(),
            Note::Made(..) => turns[side as usize].made(now),
            _ => {}
        }
        for event in books.write(side, now, note).iter().flatten() {
            taut_sim::Observer::node_event(&mut metrics, now, keys[side as usize].from, event);
        }
    }
    super::tell_rest(&books, &keys, &mut metrics);
    let (mut network, media) = (Way::of_all(paths), metrics.media());
    for (way, direction) in network.iter_mut().zip([Direction::Forward, Direction::Backward]) {
        // Without samples a device makes something in few of its turns.
        if session.stream(direction).is_some_and(|stream| stream.haptic.is_some()) {
            way.counters.extend(turns[direction as usize].counters());
        }
    }
    let mut limits = judge::limits(scenario.limits, &media);
    let nothing = judge::no_session(books.opened(), &limits);
    limits.extend(nothing);
    let flows = keys.iter().zip(&network).map(|(key, way)| {
        let application =
            media.iter().filter(|medium| medium.direction == key.direction).map(|medium| medium.goodput_bps);
        let flow = flow(scenario, key.direction, way, None);
        let sent_bps = Some(flow.sent_bps).filter(|bps| *bps > 0.0);
        FlowResult { efficiency: sent_bps.map(|bps| application.sum::<f64>() / bps), ..flow }
    });
    RunResult {
        ran: Ran::Real,
        verdict: Verdict::of(limits),
        flows: flows.collect(),
        conservation: conservation(&network, Vec::new()),
        refusals: metrics.refusals(&NODES.map(str::to_owned)),
        series: metrics.series(&NODES.map(str::to_owned), &[], &[]),
        skews: metrics.skews(),
        worst: metrics.worst(),
        media,
        ..crate::run::blank(scenario, seed, inputs)
    }
}
