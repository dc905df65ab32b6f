//! The loop: from deadline to deadline, and after each the packets move as far as they can without time passing.

use taut_core::{Address, Link, Node, Packet, PacketMeta, Time};

use crate::agenda::Agenda;
use crate::any_link::AnyLink;
use crate::clock::NodeClock;
use crate::network::{Network, Routes, VertexId};
use crate::observer::{LinkId, Observer};

pub(crate) struct LinkSlot {
    pub(crate) name: String,
    pub(crate) from: VertexId,
    pub(crate) to: VertexId,
    pub(crate) link: AnyLink,
}

pub(crate) struct NodeSlot {
    pub(crate) name: String,
    pub(crate) vertex: VertexId,
    pub(crate) node: Box<dyn Node>,
    pub(crate) clock: NodeClock,
}

/// Steps and hops of packets without time passing after which a run is stuck: two nodes that answer each other over links
/// without delay.
const LIVELOCK_STEPS: u64 = 10_000_000;

/// A network in virtual time.
pub struct Simulation<O> {
    now: Time,
    nodes: Vec<NodeSlot>,
    links: Vec<LinkSlot>,
    routes: Routes,
    /// When nodes and links are due: apart, so that the links, which are due most often, are few.
    nodes_due: Agenda,
    links_due: Agenda,
    /// Components, first the nodes and then the links, with something to poll; each is in here at most once.
    restless: Vec<u32>,
    is_restless: Vec<bool>,
    next_id: u64,
    /// How often somebody was polled, and a packet moved on, at this instant.
    steps_at_now: u64,
    observer: O,
}

impl<O: Observer> Simulation<O> {
    pub(crate) fn new(network: Network, routes: Routes, observer: O) -> Self {
        let count = network.nodes.len() + network.links.len();
        // Every component is asked once at time zero: nodes begin, links report a first deadline of their own.
        let (nodes_due, links_due) =
            (Agenda::all_at_zero(network.nodes.len()), Agenda::all_at_zero(network.links.len()));
        Self {
            now: Time::ZERO,
            nodes: network.nodes,
            links: network.links,
            routes,
            nodes_due,
            links_due,
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
        while let Some(component) = self.next(end) {
            self.count_step();
            match component.checked_sub(self.nodes.len()) {
                None => self.poll_node(component),
                Some(link) => self.poll_link(link),
            }
        }
        self.now = self.now.max(end);
    }

    /// A run that is stuck says so.
    #[inline]
    fn count_step(&mut self) {
        self.steps_at_now += 1;
        assert!(self.steps_at_now < LIVELOCK_STEPS, "{}", self.why_stuck());
    }

    /// Names nodes that are due at this instant, and why they are.
    #[cold]
    fn why_stuck(&self) -> String {
        let due = self.nodes.iter().filter_map(|slot| {
            let deadline = slot.node.poll_timeout().filter(|due| slot.clock.when(due.at) <= self.now)?;
            Some(format!("; `{}` is due again: {}", slot.name, deadline.why))
        });
        format!("at {} nodes answer each other without end{}", self.now, due.collect::<String>())
    }

    /// What each link's queues have counted until now, by name, in the order of the links.
    pub fn link_counters(&self) -> impl Iterator<Item = Vec<(String, u64)>> {
        self.links.iter().map(|slot| slot.link.counters())
    }

    /// Ends the run: the observer, and what each link still holds.
    pub fn finish(self) -> (O, Vec<Vec<PacketMeta>>) {
        let held = |slot: &LinkSlot| {
            let mut held = Vec::new();
            slot.link.visit_held(&mut |meta| held.push(*meta));
            held
        };
        (self.observer, self.links.iter().map(held).collect())
    }

    /// Who is to be polled next: somebody who may have something now, or else who is due first, woken at that time.
    fn next(&mut self, end: Time) -> Option<usize> {
        if let Some(component) = self.restless.pop() {
            self.is_restless[component as usize] = false;
            return Some(component as usize);
        }
        let (due, component) = self.first().filter(|(due, _)| *due <= end.as_nanos())?;
        if due > self.now.as_nanos() {
            self.now = Time::from_nanos(due);
            self.steps_at_now = 0;
        }
        self.wake(component);
        Some(component)
    }

    /// Who is due first, and when; a node before a link at the same time.
    fn first(&self) -> Option<(u64, usize)> {
        match (self.nodes_due.first(), self.links_due.first()) {
            (Some(node), Some(link)) if node.0 <= link.0 => Some(node),
            (node, None) => node,
            (_, Some((due, link))) => Some((due, self.nodes.len() + link)),
        }
    }

    fn wake(&mut self, component: usize) {
        match component.checked_sub(self.nodes.len()) {
            None => {
                let slot = &mut self.nodes[component];
                slot.node.handle_timeout(slot.clock.read(self.now));
            }
            Some(index) => {
                let link = &mut self.links[index].link;
                link.handle_timeout(self.now);
                self.observer.queued(self.now, LinkId(index as u32), link.queued());
            }
        }
    }

    fn mark(&mut self, component: usize) {
        if !std::mem::replace(&mut self.is_restless[component], true) {
            self.restless.push(component as u32);
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
        let due =
            slot.node.poll_timeout().map(|deadline| slot.clock.when(deadline.at).max(self.now).as_nanos());
        self.nodes_due.set(index, due);
    }

    fn poll_link(&mut self, index: usize) {
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
        self.links_due.set(index, due);
    }

    /// Moves a packet on from a vertex: into its node, or into the next link.
    fn forward(&mut self, at: VertexId, packet: Packet) {
        // Also within one poll: a node may have ever more packets for each one it got.
        self.count_step();
        let destination = usize::from(packet.meta.destination.0);
        let slot = &mut self.nodes[destination];
        if slot.vertex == at {
            self.observer.delivered(self.now, packet.meta.destination, &packet);
            slot.node.handle_input(slot.clock.read(self.now), packet);
            self.mark(destination);
            return;
        }
        let id = match self.routes.choices(at, slot.vertex) {
            [] => panic!("node `{}` is not reachable and its flow was not declared", slot.name),
            [only] => *only,
            choices => choices[usize::from(packet.meta.path.0) % choices.len()],
        };
        let index = id.0 as usize;
        let link = &mut self.links[index].link;
        self.observer.entered(self.now, id, &packet);
        link.handle_input(self.now, packet);
        self.observer.queued(self.now, id, link.queued());
        self.mark(self.nodes.len() + index);
    }
}
