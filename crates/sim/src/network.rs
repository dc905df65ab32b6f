//! What is connected to what.

use std::collections::VecDeque;

use taut_core::{Address, Node};

use crate::any_link::AnyLink;
use crate::clock::NodeClock;
use crate::engine::{LinkSlot, NodeSlot, Simulation};
use crate::observer::{LinkId, Observer};

/// A place where links meet and nodes sit: a host, a switch, a router. It forwards at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VertexId(pub u32);

/// Vertices, directed links and nodes, before the run.
#[derive(Default)]
pub struct Network {
    vertices: Vec<String>,
    pub(crate) links: Vec<LinkSlot>,
    pub(crate) nodes: Vec<NodeSlot>,
    flows: Vec<(Address, Address)>,
}

/// Why a network cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// A flow's ends are not connected.
    #[error("no path leads from `{from}` to `{to}`: connect them by links, in this direction")]
    NotConnected {
        /// The vertex of the sender.
        from: String,
        /// The vertex of the receiver.
        to: String,
    },
    /// More nodes than addresses.
    #[error("{0} nodes are more than the {max} that have addresses", max = u16::MAX)]
    TooManyNodes(usize),
}

impl Network {
    /// An empty network.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a vertex.
    pub fn vertex(&mut self, name: impl Into<String>) -> VertexId {
        self.vertices.push(name.into());
        VertexId(self.vertices.len() as u32 - 1)
    }

    /// The vertex called `name`.
    pub fn find(&self, name: &str) -> Option<VertexId> {
        self.vertices.iter().position(|v| v == name).map(|i| VertexId(i as u32))
    }

    /// Names of all vertices.
    pub fn vertices(&self) -> impl Iterator<Item = &str> {
        self.vertices.iter().map(String::as_str)
    }

    /// Adds a link in one direction: a chain, or any other in a `Box`.
    pub fn link(
        &mut self,
        name: impl Into<String>,
        from: VertexId,
        to: VertexId,
        link: impl Into<AnyLink>,
    ) -> LinkId {
        self.links.push(LinkSlot { name: name.into(), from, to, link: link.into() });
        LinkId(self.links.len() as u32 - 1)
    }

    /// Adds a node at a vertex; many may sit at one. Its address is its place in the order of addition.
    pub fn node(&mut self, name: impl Into<String>, at: VertexId, node: Box<dyn Node>) -> Address {
        self.node_with_clock(name, at, node, NodeClock::default())
    }

    /// Adds a node whose clock is not the simulation's.
    pub fn node_with_clock(
        &mut self,
        name: impl Into<String>,
        at: VertexId,
        node: Box<dyn Node>,
        clock: NodeClock,
    ) -> Address {
        self.nodes.push(NodeSlot { name: name.into(), vertex: at, node, clock });
        Address(u16::try_from(self.nodes.len() - 1).unwrap_or(u16::MAX))
    }

    /// The address that the next node will have: nodes that speak to each other must know both before they exist.
    pub fn next_address(&self) -> Address {
        Address(u16::try_from(self.nodes.len()).unwrap_or(u16::MAX))
    }

    /// Names of all nodes, by address.
    pub fn node_names(&self) -> Vec<String> {
        self.nodes.iter().map(|slot| slot.name.clone()).collect()
    }

    /// Declares that one node will send to another, so that [`Network::build`] can check that it is reachable.
    pub fn flow(&mut self, from: Address, to: Address) {
        self.flows.push((from, to));
    }

    /// Finds the routes: fewest links; among equals the packet's path number chooses, in the order of addition.
    ///
    /// # Errors
    /// When a declared flow's ends are not connected.
    pub fn build<O: Observer>(self, observer: O) -> Result<Simulation<O>, NetworkError> {
        if self.nodes.len() > usize::from(u16::MAX) {
            return Err(NetworkError::TooManyNodes(self.nodes.len()));
        }
        let routes = Routes::find(&self);
        for &(from, to) in &self.flows {
            let (start, end) = (self.nodes[usize::from(from.0)].vertex, self.nodes[usize::from(to.0)].vertex);
            if start != end && routes.choices(start, end).is_empty() {
                let name = |v: VertexId| self.vertices[v.0 as usize].clone();
                return Err(NetworkError::NotConnected { from: name(start), to: name(end) });
            }
        }
        Ok(Simulation::new(self, routes, observer))
    }
}

/// For every pair of vertices, the links that a packet may take next.
pub(crate) struct Routes {
    vertices: usize,
    /// Where the choices of each (from, to) pair begin in `links`; one more entry at the end.
    starts: Vec<u32>,
    links: Vec<LinkId>,
}

impl Routes {
    fn find(network: &Network) -> Self {
        let vertices = network.vertices.len();
        let mut into: Vec<Vec<VertexId>> = vec![Vec::new(); vertices];
        for slot in &network.links {
            into[slot.to.0 as usize].push(slot.from);
        }
        let distances: Vec<Vec<u32>> = (0..vertices).map(|to| hops_to(to, &into)).collect();
        let mut out: Vec<Vec<(LinkId, VertexId)>> = vec![Vec::new(); vertices];
        for (i, slot) in network.links.iter().enumerate() {
            out[slot.from.0 as usize].push((LinkId(i as u32), slot.to));
        }
        let mut routes = Self { vertices, starts: vec![0], links: Vec::new() };
        for (from, leaving) in out.iter().enumerate() {
            for hops in &distances {
                if hops[from] != u32::MAX && hops[from] > 0 {
                    let nearer = leaving.iter().filter(|(_, to)| hops[to.0 as usize] == hops[from] - 1);
                    routes.links.extend(nearer.map(|(link, _)| *link));
                }
                routes.starts.push(routes.links.len() as u32);
            }
        }
        routes
    }

    /// The links that lead from one vertex nearer to another; empty when it cannot be reached.
    #[inline]
    pub(crate) fn choices(&self, from: VertexId, to: VertexId) -> &[LinkId] {
        let pair = from.0 as usize * self.vertices + to.0 as usize;
        &self.links[self.starts[pair] as usize..self.starts[pair + 1] as usize]
    }
}

/// Breadth first, against the direction of the links.
fn hops_to(to: usize, into: &[Vec<VertexId>]) -> Vec<u32> {
    let mut hops = vec![u32::MAX; into.len()];
    hops[to] = 0;
    let mut frontier = VecDeque::from([to]);
    while let Some(vertex) = frontier.pop_front() {
        for before in &into[vertex] {
            let before = before.0 as usize;
            if hops[before] == u32::MAX {
                hops[before] = hops[vertex] + 1;
                frontier.push_back(before);
            }
        }
    }
    hops
}
