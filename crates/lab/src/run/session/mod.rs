//! A session of media: samples, audio and video, each a channel, between two ends on which nothing moves.

mod account;
mod books;

use taut_core::{Address, DropCause, Duration, FlowId, NodeEvent, Seed, Time};
use taut_sim::{Network, Observer};
use taut_transport::stack::Side;

use self::books::{Books, Onlooker};
use super::agent::{AgentNode, Events, Setup};
use super::flows::{Counters, FlowInfo};
use super::inputs::{Inputs, RunError};
use super::script::Script;
use super::settings;
use super::still::{self, StillHand, StillRobot};
use super::transports::Stacks;
use crate::metrics::{Metrics, StreamKey};
use crate::scenario::{Direction, Scenario, Session};
use taut_report::result::FlowOwner;

pub use self::account::{MediaNotes, account_media};

/// What is left of a session when its nodes are gone.
pub(super) struct MediaSession {
    books: Books,
    streams: Vec<StreamKey>,
}

impl MediaSession {
    /// Its ends, in both directions.
    pub(super) fn streams(&self) -> &[StreamKey] {
        &self.streams
    }

    /// Was there one?
    pub(super) fn opened(&self) -> bool {
        self.books.opened()
    }

    /// Tells what was made where there never was a session.
    pub(super) fn tell_rest(&self, metrics: &mut Metrics) {
        tell_rest(&self.books, &self.streams, metrics);
    }
}

/// Adds operator and robot; flow 0 is forward, flow 1 backward.
pub(super) fn add(
    network: &mut Network,
    session: &Session,
    scenario: &Scenario,
    seed: Seed,
    inputs: &mut Inputs,
    flows: &mut Vec<FlowInfo>,
) -> Result<MediaSession, RunError> {
    let operator = network.next_address();
    let robot = Address(operator.0 + 1);
    let books = Books::new(session);
    let ends = [
        (Side::Opens, Direction::Forward, &session.operator, [operator, robot]),
        (Side::Waits, Direction::Backward, &session.robot, [robot, operator]),
    ];
    let mut streams = Vec::new();
    for (side, direction, at, [own, other]) in ends {
        let counters = Counters::default();
        let end = OneEnd { session, scenario, seed, side, direction, counters: counters.clone() };
        let node = end.node(other, books.clone(), inputs)?;
        let at = network.find(at).expect("a valid scenario names vertices that exist");
        network.node(side.name(), at, Box::new(node));
        network.flow(own, other);
        let (name, owner) = (format!("session {}", direction.name()), FlowOwner::Session(direction));
        flows.push(FlowInfo { name, owner, kind: "session", sender: own, counters });
        streams.push(StreamKey { from: own, to: other, direction });
    }
    Ok(MediaSession { books, streams })
}

fn tell_rest(books: &Books, streams: &[StreamKey], metrics: &mut Metrics) {
    for (at, direction, sample) in books.never_sent() {
        for stream in streams.iter().filter(|stream| stream.direction == direction) {
            metrics.node_event(at, stream.from, &NodeEvent::Made(sample));
            metrics.node_event(at, stream.from, &NodeEvent::Dropped(sample, DropCause::Abandoned));
        }
    }
}

/// What one end is made of.
struct OneEnd<'a> {
    session: &'a Session,
    scenario: &'a Scenario,
    seed: Seed,
    side: Side,
    direction: Direction,
    counters: Counters,
}

impl OneEnd<'_> {
    fn node(self, other: Address, books: Books, inputs: &mut Inputs) -> Result<AgentNode, RunError> {
        let Self { session, scenario, seed, side, direction, counters } = self;
        let (end, spec) = (settings::media_end(side), settings::media(session));
        let mut carrier =
            Stacks { end, spec, seed, counters, wanted: None }.carrier(other, FlowId(side as u32))?;
        carrier.peer.dscp = session.stream(direction).map_or(0, |stream| stream.dscp);
        let events = Events::default();
        let setup = Setup {
            carrier,
            rng: seed.stream(&format!("session/{}/agent", side.name())),
            begins: begins(session, seed),
            observer: Box::new(Onlooker { side, books, events: events.clone() }),
            account: Box::new(()),
            events,
        };
        Ok(match side {
            Side::Opens => {
                let hand = StillHand::of_session(scenario, session, Time::ZERO, seed, inputs)?;
                let settings = settings::media_agent(session, scenario.drain);
                setup.operator(settings::media_operator(session), hand, settings, Script::default())
            }
            Side::Waits => {
                let robot = StillRobot::of_session(scenario, session, seed, inputs)?;
                setup.robot(settings::media_robot(session), robot)
            }
        })
    }
}

/// Devices run on clocks of their own: where in a period they are asked, beside what else is on the links, is chance.
fn begins(session: &Session, seed: Seed) -> Time {
    let streams = [session.forward.as_ref(), session.backward.as_ref()];
    let period = streams.into_iter().map(still::period).max().unwrap_or(Duration::ZERO);
    Time::ZERO + Duration::from_nanos(seed.stream("session/begins").below(period.as_nanos().max(1)))
}
