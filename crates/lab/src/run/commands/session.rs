//! The ends of a session that carries commands.

use taut_agent::{Observed, SessionObserver};
use taut_core::{Bytes, Event, NodeEvent, PathId, Time};
use taut_transport::stack::{Side, Stack};

use super::books::Books;
use super::notes::note;
use crate::run::agent::{Account, AgentNode, Events, Setup};
use crate::run::script::Script;
use crate::run::settings;
use crate::run::still::{StillHand, StillRobot};
use crate::run::transports::Carrier;
use crate::scenario::{Commands, Scenario};

/// Writes what an agent shows into the books.
struct Onlooker {
    books: Books,
    events: Events,
}

impl SessionObserver for Onlooker {
    fn on_event(&mut self, now: Time, event: Observed<'_>) {
        if let Observed::Transport(Event::Refused(cause)) = event {
            self.events.borrow_mut().push_back(NodeEvent::Refused(None, *cause));
        }
        if let Some(note) = note(event) {
            self.books.write(now, note);
        }
    }
    fn reads_messages(&self) -> bool {
        false
    }
}

/// Counts what one end sends over each path.
struct OfSide(Side, Books);

impl Account for OfSide {
    fn sent(&mut self, path: PathId, size: Bytes) {
        self.1.packet(self.0 == Side::Waits, path, size);
    }
    fn ended(&mut self, stack: &Stack) {
        if self.0 == Side::Opens {
            self.1.copies(stack.copies(), stack.choices().map(|report| report.stats));
        }
    }
}

/// One end of the session.
pub(super) fn node(scenario: &Scenario, commands: &Commands, carrier: Carrier, books: Books) -> AgentNode {
    let (events, side) = (Events::default(), carrier.others.end.side);
    let setup = Setup {
        rng: carrier.others.seed.stream(&format!("commands/{}/session", side.name())),
        carrier,
        begins: Time::ZERO,
        observer: Box::new(Onlooker { books: books.clone(), events: events.clone() }),
        account: Box::new(OfSide(side, books)),
        events,
    };
    match side {
        Side::Opens => {
            let hand = StillHand::of_commands(scenario, commands, Time::ZERO);
            let settings = settings::commanding(commands, scenario.drain);
            setup.operator(settings::commander(commands), hand, settings, Script::default())
        }
        Side::Waits => setup.robot(settings::commanded(commands), StillRobot::silent()),
    }
}
