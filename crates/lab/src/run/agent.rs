//! An agent as a node of the network: packets for datagrams, and another stack where it asks for one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use taut_agent::{
    Operator, OperatorDevice, OperatorNote, OperatorSettings, Robot, RobotDevice, RobotNote, SessionObserver,
};
use taut_core::{
    Bytes, Datagram, Deadline, DropCause, Node, NodeEvent, Packet, PacketMeta, PathId, Rng, Time, Transmit,
    earliest,
};
use taut_session::{OperatorConfig, RobotConfig};
use taut_sim::Peer;
use taut_transport::stack::Stack;

use super::flows::Counted;
use super::script::Script;
use super::transports::{Carrier, Stacks};

/// One end's agent, whatever its device is, and what is pressed at it.
pub(super) enum Agent {
    Operator(Box<Operator<Counted, Box<dyn OperatorDevice>>>, Script),
    Robot(Box<Robot<Counted, Box<dyn RobotDevice>>>),
}

/// Calls whichever end it is.
macro_rules! agent {
    ($agent:expr, $one:ident => $call:expr) => {
        match $agent {
            Agent::Operator($one, _) => $call,
            Agent::Robot($one) => $call,
        }
    };
}

impl Agent {
    fn handle_timeout(&mut self, now: Time) {
        if let Self::Operator(agent, script) = self {
            while let Some(press) = script.poll(now) {
                press.on(agent, now);
            }
        }
        agent!(self, agent => agent.handle_timeout(now));
    }

    /// Lets it tell everything; gives it another transport where it asks for one. True: it had something to tell.
    fn drain(&mut self, now: Time, stacks: &mut Stacks) -> bool {
        let mut told = false;
        let mut next = || stacks.next().expect("it could be made before");
        match self {
            Self::Operator(agent, script) => {
                while let Some(note) = agent.poll_event(now) {
                    told = true;
                    script.notice(now, &note);
                    if matches!(note, OperatorNote::Reconnect) {
                        agent.reconnect(now, next());
                    }
                }
            }
            Self::Robot(agent) => {
                while let Some(note) = agent.poll_event(now) {
                    told = true;
                    if matches!(note, RobotNote::Reconnect) {
                        agent.reconnect(now, next());
                    }
                }
            }
        }
        told
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        match self {
            Self::Operator(agent, script) => earliest(script.poll_timeout(), agent.poll_timeout()),
            Self::Robot(agent) => agent.poll_timeout(),
        }
    }
}

/// What a node tells the metrics: its own events, and those of its agent's observer.
pub(super) type Events = Rc<RefCell<VecDeque<NodeEvent>>>;

/// Who counts what an agent does beyond what every run counts.
pub(super) trait Account {
    /// Something begins to happen at this agent: a packet arrived, or its time has come.
    fn begins(&mut self, _now: Time, _agent: &Agent, _arrived: Option<&PacketMeta>) {}
    /// All is done that came of a packet.
    fn done(&mut self) {}
    /// A packet left, over a path.
    fn sent(&mut self, path: PathId, size: Bytes);
    /// The run is over.
    fn ended(&mut self, _stack: &Stack) {}
}

/// Of a run in which nothing else is counted.
impl Account for () {
    fn sent(&mut self, _path: PathId, _size: Bytes) {}
}

/// What one end of a session is made of, beside its session and its device.
pub(super) struct Setup {
    pub(super) carrier: Carrier,
    pub(super) rng: Rng,
    /// When it does anything at first, on its own clock.
    pub(super) begins: Time,
    /// Writes into `events`.
    pub(super) observer: Box<dyn SessionObserver>,
    pub(super) account: Box<dyn Account>,
    pub(super) events: Events,
}

impl Setup {
    /// The end that opens. What is under way at its end is seen by the run, which goes on for a while.
    pub(super) fn operator(
        self,
        session: OperatorConfig,
        device: impl OperatorDevice + 'static,
        settings: OperatorSettings,
        script: Script,
    ) -> AgentNode {
        self.node(|begins, stack, rng, observer| {
            let session = session.headers(stack.stack().headers());
            let agent = Operator::new(begins, stack, rng, session, Box::new(device) as _, settings.stays());
            Agent::Operator(Box::new(agent.observed(observer)), script)
        })
    }

    /// The end that waits.
    pub(super) fn robot(self, session: RobotConfig, device: impl RobotDevice + 'static) -> AgentNode {
        self.node(|begins, stack, rng, observer| {
            let session = session.headers(stack.stack().headers());
            let agent = Robot::new(begins, stack, rng, session, Box::new(device) as _);
            Agent::Robot(Box::new(agent.observed(observer)))
        })
    }

    fn node(self, agent: impl FnOnce(Time, Counted, Rng, Box<dyn SessionObserver>) -> Agent) -> AgentNode {
        let Self { carrier: Carrier { stack, others, peer }, rng, begins, observer, account, events } = self;
        let agent = agent(begins, stack, rng, observer);
        let (now, spare) = (Time::ZERO, Vec::new());
        AgentNode { agent, stacks: others, peer, events, account, begins: Some(begins), now, spare }
    }
}

/// One end of a session.
pub(super) struct AgentNode {
    agent: Agent,
    stacks: Stacks,
    peer: Peer,
    events: Events,
    account: Box<dyn Account>,
    /// When it does anything at first; `None`: it has begun.
    begins: Option<Time>,
    now: Time,
    /// The empty buffer of the packet that arrived last, for the one that leaves next.
    spare: Vec<u8>,
}

impl AgentNode {
    fn drain(&mut self) -> bool {
        self.agent.drain(self.now, &mut self.stacks)
    }

    /// The next datagram. Transmissions come first and then events, and once more after these, as on sockets.
    fn next_transmit(&mut self, now: Time) -> Option<Transmit> {
        loop {
            let transmit = agent!(&mut self.agent, agent => agent.poll_transmit(now, &mut self.spare));
            if transmit.is_some() || !self.drain() {
                return transmit;
            }
        }
    }
}

impl Drop for AgentNode {
    fn drop(&mut self) {
        self.account.ended(agent!(&self.agent, agent => agent.transport().stack()));
    }
}

impl Node for AgentNode {
    fn handle_input(&mut self, now: Time, packet: Packet) {
        self.now = now;
        if packet.meta.corrupted {
            let event = NodeEvent::Refused(None, DropCause::Corrupted);
            return self.events.borrow_mut().push_back(event);
        }
        self.account.begins(now, &self.agent, Some(&packet.meta));
        let (path, ecn, padding) = (packet.meta.path, packet.meta.ecn, Peer::padding(&packet));
        let input = Datagram { path, ecn, data: &packet.payload, padding };
        agent!(&mut self.agent, agent => agent.handle_input(now, input));
        self.spare = packet.payload;
        self.spare.clear();
        // While it is known which packet it was.
        self.drain();
        self.account.done();
    }

    fn handle_timeout(&mut self, now: Time) {
        self.begins.take_if(|begins| now >= *begins);
        if self.begins.is_some() {
            return;
        }
        self.now = now;
        self.account.begins(now, &self.agent, None);
        self.agent.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        if self.begins.is_some() {
            return None;
        }
        let transmit = self.next_transmit(now);
        let stack = agent!(&mut self.agent, agent => agent.transport_mut().stack_mut());
        while let Some(choice) = stack.poll_choice() {
            self.events.borrow_mut().push_back(NodeEvent::Chosen(Box::new(choice)));
        }
        let transmit = transmit?;
        let packet = self.peer.packet(std::mem::take(&mut self.spare), transmit);
        self.account.sent(transmit.path, packet.meta.size);
        Some(packet)
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        if self.events.borrow().is_empty() {
            self.drain();
        }
        self.events.borrow_mut().pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let begins = self.begins.map(|at| Deadline::new(at, "start"));
        begins.or_else(|| self.agent.poll_timeout())
    }
}
