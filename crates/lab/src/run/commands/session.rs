//! The nodes of a session that carries commands.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use taut_agent::{Observed, Operator, OperatorNote, Robot, RobotNote, SessionObserver};
use taut_core::{Datagram, Deadline, DropCause, Event, Node, NodeEvent, Packet, Rng, Seed, Time};
use taut_sim::Peer;
use taut_transport::stack::Side;

use super::books::Books;
use super::ends::{Commander, StillRobot};
use super::notes::note;
use super::stack;
use crate::run::flows::{Counted, Counters};
use crate::run::inputs::RunError;
use crate::run::settings;
use crate::scenario::{Commands, Scenario};

/// One end's agent.
enum Agent {
    Operator(Box<Operator<Counted, Commander>>),
    Robot(Box<Robot<Counted, StillRobot>>),
}

/// Calls whichever end it is.
macro_rules! agent {
    ($agent:expr, $one:ident => $call:expr) => {
        match $agent {
            Agent::Operator($one) => $call,
            Agent::Robot($one) => $call,
        }
    };
}

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
    events: Rc<RefCell<VecDeque<NodeEvent>>>,
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
}

/// One end of the session.
pub(super) struct SessionNode {
    agent: Agent,
    stacks: Stacks,
    peer: Peer,
    books: Books,
    events: Rc<RefCell<VecDeque<NodeEvent>>>,
    now: Time,
}

impl SessionNode {
    pub(super) fn new(scenario: &Scenario, stack: Counted, peer: Peer, stacks: Stacks, books: Books) -> Self {
        let events = Rc::default();
        let observer = Box::new(Onlooker { books: books.clone(), events: Rc::clone(&events) });
        let (commands, headers) = (&stacks.commands, stack.stack().headers());
        let rng: Rng = stacks.seed.stream(&format!("commands/{}/session", stacks.side.name()));
        let agent = match stacks.side {
            Side::Opens => {
                let hand = Commander::of_run(scenario, commands, Time::ZERO);
                let session = settings::commander(commands).headers(headers);
                let agent = settings::commanding(commands, scenario.drain).stays();
                let operator = Operator::new(Time::ZERO, stack, rng, session, hand, agent);
                Agent::Operator(Box::new(operator.observed(observer)))
            }
            Side::Waits => {
                let session = settings::commanded(commands).headers(headers);
                let robot = Robot::new(Time::ZERO, stack, rng, session, StillRobot);
                Agent::Robot(Box::new(robot.observed(observer)))
            }
        };
        Self { agent, stacks, peer, books, events, now: Time::ZERO }
    }

    /// Lets it tell everything; gives it another transport where it asks for one.
    fn drain(&mut self) {
        let (now, stacks) = (self.now, &mut self.stacks);
        let mut next = || stacks.next().expect("it could be made before");
        match &mut self.agent {
            Agent::Operator(agent) => {
                while let Some(note) = agent.poll_event(now) {
                    if matches!(note, OperatorNote::Reconnect) {
                        agent.reconnect(now, next());
                    }
                }
            }
            Agent::Robot(agent) => {
                while let Some(note) = agent.poll_event(now) {
                    if matches!(note, RobotNote::Reconnect) {
                        agent.reconnect(now, next());
                    }
                }
            }
        }
    }
}

impl Drop for SessionNode {
    /// The simulator drops its nodes at the end of a run.
    fn drop(&mut self) {
        if let Agent::Operator(agent) = &self.agent {
            let stack = agent.transport().stack();
            self.books.copies(stack.copies(), stack.choices().map(|report| report.stats));
        }
    }
}

impl Node for SessionNode {
    fn handle_input(&mut self, now: Time, packet: Packet) {
        self.now = now;
        if packet.meta.corrupted {
            let event = NodeEvent::Refused(None, DropCause::Corrupted);
            return self.events.borrow_mut().push_back(event);
        }
        let (path, ecn, padding) = (packet.meta.path, packet.meta.ecn, Peer::padding(&packet));
        let input = Datagram { path, ecn, data: &packet.payload, padding };
        agent!(&mut self.agent, agent => agent.handle_input(now, input));
        self.drain();
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        agent!(&mut self.agent, agent => agent.handle_timeout(now));
        self.drain();
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        let mut payload = Vec::new();
        let transmit = agent!(&mut self.agent, agent => agent.poll_transmit(now, &mut payload));
        if let Agent::Operator(agent) = &mut self.agent {
            let choices = std::iter::from_fn(|| agent.transport_mut().stack_mut().poll_choice());
            self.events.borrow_mut().extend(choices.map(|choice| NodeEvent::Chosen(Box::new(choice))));
        }
        let transmit = transmit?;
        let packet = self.peer.packet(payload, transmit);
        self.books.packet(self.stacks.side == Side::Waits, transmit.path, packet.meta.size);
        Some(packet)
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        if self.events.borrow().is_empty() {
            self.drain();
        }
        self.events.borrow_mut().pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        agent!(&self.agent, agent => agent.poll_timeout())
    }
}
