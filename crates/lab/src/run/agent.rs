//! An agent as a node of the network: packets for datagrams, and another stack where it asks for one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use taut_agent::{Operator, OperatorDevice, OperatorNote, Robot, RobotDevice, RobotNote};
use taut_core::{Bytes, Datagram, Deadline, DropCause, Node, NodeEvent, Packet, PathId, Time};
use taut_sim::Peer;
use taut_transport::stack::Stack;

use super::flows::Counted;

/// One end's agent, whatever its device is.
pub(super) enum Agent {
    Operator(Box<Operator<Counted, Box<dyn OperatorDevice>>>),
    Robot(Box<Robot<Counted, Box<dyn RobotDevice>>>),
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

/// What a node tells the metrics: its own events, and those of its agent's observer.
pub(super) type Events = Rc<RefCell<VecDeque<NodeEvent>>>;

/// Who counts what an agent sends beyond what every run counts.
pub(super) trait Account {
    /// A packet left, over a path.
    fn sent(&mut self, path: PathId, size: Bytes);
    /// The run is over.
    fn ended(&mut self, stack: &Stack);
}

/// Makes another stack, of another life of the end.
pub(super) type Renew = Box<dyn FnMut() -> Counted>;

/// One end of a session.
pub(super) struct AgentNode {
    agent: Agent,
    renew: Renew,
    peer: Peer,
    events: Events,
    account: Option<Box<dyn Account>>,
    /// When it does anything at first; `None`: it has begun.
    begins: Option<Time>,
    now: Time,
    /// The empty buffer of the packet that arrived last, for the one that leaves next.
    spare: Vec<u8>,
}

impl AgentNode {
    /// An agent that begins at `begins`, whose observer writes into `events`.
    pub(super) fn new(begins: Time, agent: Agent, renew: Renew, peer: Peer, events: Events) -> Self {
        Self {
            agent,
            renew,
            peer,
            events,
            account: None,
            begins: Some(begins),
            now: Time::ZERO,
            spare: Vec::new(),
        }
    }

    /// What it sends is counted besides.
    pub(super) fn counted_by(mut self, account: impl Account + 'static) -> Self {
        self.account = Some(Box::new(account));
        self
    }

    /// Lets the agent tell everything; gives it another transport where it asks for one.
    fn drain(&mut self) {
        let (now, renew) = (self.now, &mut self.renew);
        match &mut self.agent {
            Agent::Operator(agent) => {
                while let Some(note) = agent.poll_event(now) {
                    if matches!(note, OperatorNote::Reconnect) {
                        agent.reconnect(now, renew());
                    }
                }
            }
            Agent::Robot(agent) => {
                while let Some(note) = agent.poll_event(now) {
                    if matches!(note, RobotNote::Reconnect) {
                        agent.reconnect(now, renew());
                    }
                }
            }
        }
    }
}

impl Drop for AgentNode {
    /// The simulator drops its nodes at the end of a run.
    fn drop(&mut self) {
        if let Some(account) = &mut self.account {
            account.ended(agent!(&self.agent, agent => agent.transport().stack()));
        }
    }
}

impl Node for AgentNode {
    fn handle_input(&mut self, now: Time, packet: Packet) {
        self.now = now;
        if packet.meta.corrupted {
            let event = NodeEvent::Refused(None, DropCause::Corrupted);
            return self.events.borrow_mut().push_back(event);
        }
        let (path, ecn, padding) = (packet.meta.path, packet.meta.ecn, Peer::padding(&packet));
        let input = Datagram { path, ecn, data: &packet.payload, padding };
        agent!(&mut self.agent, agent => agent.handle_input(now, input));
        self.spare = packet.payload;
        self.spare.clear();
        self.drain();
    }

    fn handle_timeout(&mut self, now: Time) {
        self.begins.take_if(|begins| now >= *begins);
        if self.begins.is_some() {
            return;
        }
        self.now = now;
        agent!(&mut self.agent, agent => agent.handle_timeout(now));
        self.drain();
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        if self.begins.is_some() {
            return None;
        }
        let transmit = agent!(&mut self.agent, agent => agent.poll_transmit(now, &mut self.spare));
        let stack = agent!(&mut self.agent, agent => agent.transport_mut().stack_mut());
        let choices = std::iter::from_fn(|| stack.poll_choice());
        self.events.borrow_mut().extend(choices.map(|choice| NodeEvent::Chosen(Box::new(choice))));
        let transmit = transmit?;
        let packet = self.peer.packet(std::mem::take(&mut self.spare), transmit);
        if let Some(account) = &mut self.account {
            account.sent(transmit.path, packet.meta.size);
        }
        Some(packet)
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        if self.events.borrow().is_empty() {
            self.drain();
        }
        self.events.borrow_mut().pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        // A transport may have something to send as soon as it is asked, without a deadline.
        let begins = self.begins.map(|at| Deadline::new(at, "start"));
        begins.or_else(|| agent!(&self.agent, agent => agent.poll_timeout()))
    }
}
