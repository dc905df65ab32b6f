//! Finding a flow's queue: a hash table of sets of eight, so that two flows share a queue only when nine of one set are
//! active at once (*Piece of CAKE*, section 3.2); and the same for hosts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::PacketMeta;

use super::tin::{FLOWS, Flow, Rotation, Tin, WAYS};
use crate::queue::flow::{flow_hash, host_hash};

/// What is kept apart, and shared between: hosts first where they are named, then flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// One queue for everything.
    Flowblind,
    /// One for each source.
    Srchost,
    /// One for each destination.
    Dsthost,
    /// One for each pair of hosts.
    Hosts,
    /// One for each flow.
    Flows,
    /// One for each flow; sources share first.
    DualSrchost,
    /// One for each flow; destinations share first.
    DualDsthost,
    /// One for each flow; sources and destinations share first.
    #[default]
    TripleIsolate,
}

impl Isolation {
    fn shares_by_source(self) -> bool {
        matches!(self, Self::DualSrchost | Self::TripleIsolate)
    }

    fn shares_by_destination(self) -> bool {
        matches!(self, Self::DualDsthost | Self::TripleIsolate)
    }
}

/// Hashes of a packet.
#[derive(Clone, Copy, Debug)]
struct Keys {
    flow: u32,
    source: u32,
    destination: u32,
}

impl Keys {
    fn of(meta: &PacketMeta, isolation: Isolation, perturbation: u64) -> Self {
        let source = host_hash(meta.source, perturbation);
        // Not the same for a host as source and as destination, or the two would cancel out below.
        let destination = host_hash(meta.destination, !perturbation);
        let flow = match isolation {
            Isolation::Flowblind => 0,
            Isolation::Srchost => source,
            Isolation::Dsthost => destination,
            Isolation::Hosts => source ^ destination,
            _ => flow_hash(meta, perturbation),
        };
        Self { flow, source, destination }
    }
}

/// Whose each queue is, or was last.
#[derive(Clone, Debug, Default)]
pub(super) struct Associative {
    tags: Vec<u32>,
    pub(super) indirect_hits: u64,
    pub(super) misses: u64,
    pub(super) collisions: u64,
}

impl Associative {
    pub(super) fn new() -> Self {
        Self { tags: vec![0; FLOWS], indirect_hits: 0, misses: 0, collisions: 0 }
    }
}

/// The places of a set, beginning with the one that the hash itself names.
fn ways(hash: u32) -> impl Iterator<Item = usize> {
    let place = hash as usize % FLOWS;
    let (outer, inner) = (place - place % WAYS, place % WAYS);
    (0..WAYS).map(move |i| outer + (inner + i) % WAYS)
}

impl Tin {
    /// The packet's queue, which is its flow's from now on.
    pub(super) fn find(&mut self, meta: &PacketMeta, isolation: Isolation, perturbation: u64) -> usize {
        if isolation == Isolation::Flowblind {
            return 0;
        }
        let keys = Keys::of(meta, isolation, perturbation);
        let direct = keys.flow as usize % FLOWS;
        let active = |tin: &Self, place: usize| tin.flows[place].rotation != Rotation::Idle;
        if self.directory.tags[direct] == keys.flow && active(self, direct) {
            return direct;
        }
        let tagged = ways(keys.flow).find(|place| self.directory.tags[*place] == keys.flow);
        let (place, fresh) = if let Some(place) = tagged {
            self.directory.indirect_hits += u64::from(place != direct);
            (place, !active(self, place))
        } else if let Some(place) = ways(keys.flow).find(|place| !active(self, *place)) {
            self.directory.misses += 1;
            (place, true)
        } else {
            self.directory.collisions += 1;
            if self.flows[direct].rotation == Rotation::Bulk {
                self.hosts.less_bulk(&self.flows[direct], isolation);
            }
            (direct, true)
        };
        self.directory.tags[place] = keys.flow;
        if fresh {
            self.flows[place].source = self.hosts.source_of(keys.source);
            self.flows[place].destination = self.hosts.destination_of(keys.destination);
            if self.flows[place].rotation == Rotation::Bulk {
                self.hosts.more_bulk(&self.flows[place], isolation);
            }
        }
        place
    }
}

/// How many bulk flows each host has.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    sources: Vec<Host>,
    destinations: Vec<Host>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Host {
    tag: u32,
    bulk_flows: u64,
}

impl Hosts {
    pub(super) fn new() -> Self {
        Self { sources: vec![Host::default(); FLOWS], destinations: vec![Host::default(); FLOWS] }
    }

    fn source_of(&mut self, hash: u32) -> usize {
        place_of(&mut self.sources, hash)
    }

    fn destination_of(&mut self, hash: u32) -> usize {
        place_of(&mut self.destinations, hash)
    }

    pub(super) fn more_bulk(&mut self, flow: &Flow, isolation: Isolation) {
        if isolation.shares_by_source() {
            self.sources[flow.source].bulk_flows += 1;
        }
        if isolation.shares_by_destination() {
            self.destinations[flow.destination].bulk_flows += 1;
        }
    }

    pub(super) fn less_bulk(&mut self, flow: &Flow, isolation: Isolation) {
        let less = |host: &mut Host| host.bulk_flows = host.bulk_flows.saturating_sub(1);
        if isolation.shares_by_source() {
            less(&mut self.sources[flow.source]);
        }
        if isolation.shares_by_destination() {
            less(&mut self.destinations[flow.destination]);
        }
    }

    /// The bulk flows of the busier of the flow's hosts.
    pub(super) fn load(&self, flow: &Flow, isolation: Isolation) -> u64 {
        let source = if isolation.shares_by_source() { self.sources[flow.source].bulk_flows } else { 0 };
        let destination = if isolation.shares_by_destination() {
            self.destinations[flow.destination].bulk_flows
        } else {
            0
        };
        source.max(destination)
    }
}

fn place_of(hosts: &mut [Host], hash: u32) -> usize {
    let known = ways(hash).find(|place| hosts[*place].tag == hash);
    let place = known.or_else(|| ways(hash).find(|place| hosts[*place].bulk_flows == 0));
    let place = place.unwrap_or(hash as usize % FLOWS);
    hosts[place].tag = hash;
    place
}
