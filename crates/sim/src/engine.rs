//! The loop: from deadline to deadline, and after each the packets move as far as they can without time passing.

use taut_core::{Address, Backlog, Link, Node, Packet, Time};

use crate::agenda::Agenda;
use crate::clock::NodeClock;
use crate::network::{Network, Routes, VertexId};
use crate::observer::{LinkId, Observer};

pub(crate) struct LinkSlot {
    pub(crate) name: String,
    pub(crate) from: VertexId,
    pub(crate) to: VertexId,
    pub(crate) link: Box<dyn Link>,
}

pub(crate) struct NodeSlot {
    pub(crate) name: String,
    pub(crate) vertex: VertexId,
    pub(crate) node: Box<dyn Node>,
    pub(crate) clock: NodeClock,
}

/// Steps without time passing after which a run is stuck: two nodes that answer each other over links without delay.
const LIVELOCK_STEPS: u64 = 10_000_000;

/// A network in virtual time.
pub struct Simulation<O> {
    now: Time,
    nodes: Vec<NodeSlot>,
    links: Vec<LinkSlot>,
    routes: Routes,
    agenda: Agenda,
    /// Components with something to poll; each is in here at most once.
    restless: Vec<u32>,
    is_restless: Vec<bool>,
    next_id: u64,
    steps_at_now: u64,
    observer: O,
}

impl<O: Observer> Simulation<O> {
    pub(crate) fn new(network: Network, routes: Routes, observer: O) -> Self {
        let count = network.nodes.len() + network.links.len();
        let mut agenda = Agenda::new(count);
        // Every component is asked once at time zero: nodes begin, links report a first deadline of their own.
        (0..count).for_each(|component| agenda.set(component, Some(0)));
        Self {
            now: Time::ZERO,
            nodes: network.nodes,
            links: network.links,
            routes,
            agenda,
            restless: Vec::with_capacity(count),
            is_restless: vec![false; count],
            next_id: 0,
            steps_at_now: 0,
            observer,
        }
    }

    /// The simulation's time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Names of the nodes, by address.
    pub fn node_names(&self) -> Vec<String> {
        self.nodes.iter().map(|slot| slot.name.clone()).collect()
    }

    /// Names of the links, by number.
    pub fn link_names(&self) -> Vec<String> {
        self.links.iter().map(|slot| slot.name.clone()).collect()
    }

    /// Handles every deadline up to and including `end`, and leaves the clock there.
    ///
    /// # Panics
    /// When nodes answer each other for ever without time passing.
    pub fn run_until(&mut self, end: Time) {
        while let Some((due, component)) = self.agenda.first() {
            if due > end.as_nanos() {
                break;
            }
            if due > self.now.as_nanos() {
                self.now = Time::from_nanos(due);
                self.steps_at_now = 0;
            }
            self.wake(component);
            self.settle();
        }
        self.now = self.now.max(end);
    }

    /// Ends the run: the observer, and what each link still holds.
    pub fn finish(self) -> (O, Vec<Backlog>) {
        (self.observer, self.links.iter().map(|slot| slot.link.held()).collect())
    }

    fn wake(&mut self, component: usize) {
        match component.checked_sub(self.nodes.len()) {
            None => {
                let slot = &mut self.nodes[component];
                slot.node.handle_timeout(slot.clock.read(self.now));
            }
            Some(link) => {
                let link_id = LinkId(link as u32);
                let link = &mut self.links[link].link;
                link.handle_timeout(self.now);
                self.observer.queued(self.now, link_id, link.queued());
            }
        }
        self.mark(component);
    }

    fn mark(&mut self, component: usize) {
        if !std::mem::replace(&mut self.is_restless[component], true) {
            self.restless.push(component as u32);
        }
    }

    /// Polls everyone who may have something until nobody has.
    fn settle(&mut self) {
        while let Some(component) = self.restless.pop() {
            let component = component as usize;
            self.is_restless[component] = false;
            self.steps_at_now += 1;
            assert!(self.steps_at_now < LIVELOCK_STEPS, "at {} nodes answer each other without end", self.now);
            match component.checked_sub(self.nodes.len()) {
                None => self.poll_node(component),
                Some(link) => self.poll_link(component, link),
            }
        }
    }

    fn poll_node(&mut self, index: usize) {
        let address = Address(index as u16);
        let local = self.nodes[index].clock.read(self.now);
        while let Some(mut packet) = self.nodes[index].node.poll_transmit(local) {
            packet.meta.id = self.next_id;
            packet.meta.sent = self.now;
            packet.meta.source = address;
            self.next_id += 1;
            self.observer.sent(self.now, &packet);
            self.forward(self.nodes[index].vertex, packet);
        }
        let slot = &mut self.nodes[index];
        while let Some(event) = slot.node.poll_event() {
            self.observer.node_event(self.now, address, &event);
        }
        let due = slot.node.poll_timeout().map(|deadline| slot.clock.when(deadline.at).max(self.now).as_nanos());
        self.agenda.set(index, due);
    }

    fn poll_link(&mut self, component: usize, index: usize) {
        let id = LinkId(index as u32);
        while let Some(packet) = self.links[index].link.poll_transmit(self.now) {
            self.observer.left(self.now, id, &packet);
            self.forward(self.links[index].to, packet);
        }
        let slot = &mut self.links[index];
        while let Some(event) = slot.link.poll_event() {
            self.observer.link_event(self.now, id, &event);
        }
        let due = slot.link.poll_timeout().map(|deadline| deadline.at.max(self.now).as_nanos());
        self.agenda.set(component, due);
    }

    /// Moves a packet on from a vertex: into its node, or into the next link.
    fn forward(&mut self, at: VertexId, packet: Packet) {
        let destination = usize::from(packet.meta.destination.0);
        let slot = &mut self.nodes[destination];
        if slot.vertex == at {
            self.observer.delivered(self.now, packet.meta.destination, &packet);
            slot.node.handle_input(slot.clock.read(self.now), packet);
            self.mark(destination);
            return;
        }
        let choices = self.routes.choices(at, slot.vertex);
        assert!(!choices.is_empty(), "node `{}` is not reachable and its flow was not declared", slot.name);
        let id = choices[usize::from(packet.meta.path.0) % choices.len()];
        let index = id.0 as usize;
        let link = &mut self.links[index].link;
        self.observer.entered(self.now, id, &packet);
        link.handle_input(self.now, packet);
        self.observer.queued(self.now, id, link.queued());
        self.mark(self.nodes.len() + index);
    }
}
