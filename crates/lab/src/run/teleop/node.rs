//! An agent as a node of the network: packets for datagrams, a clock of its own, and the books.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use taut_agent::{Observed, Operator, OperatorCommand, OperatorNote, Robot, RobotNote, SessionObserver};
use taut_core::{Datagram, Deadline, DropCause, Node, NodeEvent, Packet, Time, Transmit, earliest};
use taut_sim::{NodeClock, Peer};

use super::books::{Book, Moment};
use super::notes::Scribe;
use super::record::Transit;
use super::script::Script;
use super::wire::{Wire, Wires};
use crate::hand::SimulatedHand;
use crate::robot::SimulatedArm;
use crate::scenario::Direction;
use taut_transport::stack::Side;

/// One end's agent.
pub(super) enum Agent {
    Operator(Box<Operator<Wire, SimulatedHand>>, Script),
    Robot(Box<Robot<Wire, SimulatedArm>>),
}

impl Agent {
    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        match self {
            Self::Operator(agent, _) => agent.handle_input(now, input),
            Self::Robot(agent) => agent.handle_input(now, input),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Operator(agent, script) => {
                while let Some(press) = script.poll(now) {
                    press.on(agent, now);
                }
                agent.handle_timeout(now);
            }
            Self::Robot(agent) => agent.handle_timeout(now),
        }
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        match self {
            Self::Operator(agent, _) => agent.poll_transmit(now, buffer),
            Self::Robot(agent) => agent.poll_transmit(now, buffer),
        }
    }

    /// Lets it tell everything; gives it another transport where it asks for one.
    fn drain(&mut self, now: Time, wires: &mut Wires) {
        let mut next = || wires.next().expect("it could be made before");
        match self {
            Self::Operator(agent, script) => {
                while let Some(note) = agent.poll_event(now) {
                    script.notice(now, &note);
                    if matches!(note, OperatorNote::Reconnect) {
                        agent.reconnect(now, next());
                    }
                }
            }
            Self::Robot(agent) => {
                while let Some(note) = agent.poll_event(now) {
                    if matches!(note, RobotNote::Reconnect) {
                        agent.reconnect(now, next());
                    }
                }
            }
        }
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        match self {
            Self::Operator(agent, script) => earliest(script.poll_timeout(), agent.poll_timeout()),
            Self::Robot(agent) => agent.poll_timeout(),
        }
    }
}

/// A button that somebody pressed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Press {
    Stop,
    Command(OperatorCommand),
}

impl Press {
    fn on(self, agent: &mut Operator<Wire, SimulatedHand>, now: Time) {
        match self {
            Self::Stop => agent.handle_alarm(now, taut_agent::Alarm::Pressed),
            Self::Command(command) => agent.handle_command(now, command),
        }
    }
}

/// The clocks of this node, and of the operator's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    pub(super) own: NodeClock,
    pub(super) operator: NodeClock,
}

/// What a node and its agent's observer share.
pub(super) struct Page {
    scribe: Scribe,
    book: Book,
    clocks: Clocks,
    /// How the packet went that is being handled.
    transit: Option<Transit>,
}

impl Page {
    pub(super) fn new(scribe: Scribe, book: Book, clocks: Clocks) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self { scribe, book, clocks, transit: None }))
    }

    fn moment(&self, at: Time) -> Moment {
        let now = self.clocks.own.when(at);
        let operator_ahead_ns = self.clocks.operator.read(now).as_nanos() as i64 - at.as_nanos() as i64;
        Moment { now, transit: self.transit, operator_ahead_ns }
    }
}

/// Writes what an agent shows into its book.
pub(super) struct Onlooker(pub(super) Rc<RefCell<Page>>);

impl SessionObserver for Onlooker {
    fn on_event(&mut self, at: Time, event: Observed<'_>) {
        let mut page = self.0.borrow_mut();
        if let Some(note) = page.scribe.note(event) {
            let moment = page.moment(at);
            page.book.write(moment, note);
        }
    }
    fn reads_messages(&self) -> bool {
        true
    }
}

pub(super) struct AgentNode {
    agent: Agent,
    wires: Wires,
    peer: Peer,
    page: Rc<RefCell<Page>>,
    now: Time,
    spare: Vec<u8>,
}

impl AgentNode {
    pub(super) fn new(agent: Agent, wires: Wires, peer: Peer, page: Rc<RefCell<Page>>) -> Self {
        Self { agent, wires, peer, page, now: Time::ZERO, spare: Vec::new() }
    }

    /// What the robot knows of the operator's clock before something happens.
    fn remember_clock(&mut self, now: Time) {
        if let Agent::Robot(agent) = &self.agent {
            let mut page = self.page.borrow_mut();
            let moment = page.moment(now);
            page.book.knows(moment, agent.session().clock(now));
        }
    }

    fn drain(&mut self) {
        self.agent.drain(self.now, &mut self.wires);
    }

    fn events(&self) -> std::cell::RefMut<'_, VecDeque<NodeEvent>> {
        std::cell::RefMut::map(self.page.borrow_mut(), |page| &mut page.book.events)
    }
}

impl Node for AgentNode {
    fn handle_input(&mut self, now: Time, packet: Packet) {
        self.now = now;
        if packet.meta.corrupted {
            return self.events().push_back(NodeEvent::Refused(None, DropCause::Corrupted));
        }
        self.remember_clock(now);
        {
            let mut page = self.page.borrow_mut();
            let transit = page.book.record.borrow().transit(page.clocks.own.when(now), &packet.meta);
            page.transit = Some(transit);
        }
        let padding = Peer::padding(&packet);
        let (path, ecn) = (packet.meta.path, packet.meta.ecn);
        self.agent.handle_input(now, Datagram { path, ecn, data: &packet.payload, padding });
        self.spare = packet.payload;
        self.spare.clear();
        self.drain();
        self.page.borrow_mut().transit = None;
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        self.remember_clock(now);
        self.agent.handle_timeout(now);
        self.drain();
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        let transmit = self.agent.poll_transmit(now, &mut self.spare)?;
        let packet = self.peer.packet(std::mem::take(&mut self.spare), transmit);
        let way = match self.wires.side {
            Side::Opens => Direction::Forward,
            Side::Waits => Direction::Backward,
        };
        self.page.borrow().book.record.borrow_mut().sent(way, packet.meta.size);
        Some(packet)
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        if self.events().is_empty() {
            self.drain();
        }
        self.events().pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.agent.poll_timeout()
    }
}
