//! The ends of a session that carries commands.

use taut_agent::{Observed, Operator, Robot, SessionObserver};
use taut_core::{Bytes, Event, NodeEvent, PathId, Rng, Seed, Time};
use taut_sim::Peer;
use taut_transport::stack::{Side, Stack};

use super::books::Books;
use super::notes::note;
use super::stack;
use crate::run::agent::{Account, Agent, AgentNode, Events};
use crate::run::flows::{Counted, Counters};
use crate::run::inputs::RunError;
use crate::run::settings;
use crate::run::still::{StillHand, StillRobot};
use crate::scenario::{Commands, Scenario};

/// Makes the stack of an end, and another one where that is of no use any more.
#[derive(Clone)]
pub(super) struct Stacks {
    pub(super) commands: Commands,
    pub(super) side: Side,
    pub(super) seed: Seed,
    pub(super) life: String,
    pub(super) explain: bool,
    pub(super) counters: Counters,
}

impl Stacks {
    pub(super) fn next(&mut self) -> Result<Counted, RunError> {
        let stack = stack(&self.commands, self.side, self.seed, &self.life, self.explain)?;
        // Another one has other random numbers.
        self.life.push_str("/renewed");
        Ok(Counted::new(stack, self.counters.clone()))
    }
}

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
pub(super) fn node(
    scenario: &Scenario,
    stack: Counted,
    peer: Peer,
    mut stacks: Stacks,
    books: Books,
) -> AgentNode {
    let (events, side) = (Events::default(), stacks.side);
    let observer = Box::new(Onlooker { books: books.clone(), events: events.clone() });
    let (commands, headers) = (&stacks.commands, stack.stack().headers());
    let rng: Rng = stacks.seed.stream(&format!("commands/{}/session", side.name()));
    let agent = match side {
        Side::Opens => {
            let hand = Box::new(StillHand::of_commands(scenario, commands, Time::ZERO));
            let session = settings::commander(commands).headers(headers);
            let agent = settings::commanding(commands, scenario.drain).stays();
            let operator = Operator::new(Time::ZERO, stack, rng, session, hand as _, agent);
            Agent::Operator(Box::new(operator.observed(observer)))
        }
        Side::Waits => {
            let session = settings::commanded(commands).headers(headers);
            let robot = Box::new(StillRobot::silent());
            Agent::Robot(Box::new(Robot::new(Time::ZERO, stack, rng, session, robot as _).observed(observer)))
        }
    };
    let renew = Box::new(move || stacks.next().expect("it could be made before"));
    AgentNode::new(Time::ZERO, agent, renew, peer, events).counted_by(OfSide(side, books))
}
