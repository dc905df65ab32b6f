//! One tin: its flow queues, their rotation (DRR++), and its own clock of the shaper.

use std::collections::VecDeque;

use taut_core::{Bytes, Duration, PacketMeta, Rng, Time};

use super::cobalt::{self, Cobalt};
use super::diffserv::Share;
use super::hash::{Associative, Hosts};
use super::rate::PerByte;
use super::{Isolation, TinStats};
use crate::queue::fifo::StampedFifo;

/// Flow queues of a tin, in sets of [`WAYS`].
pub(super) const FLOWS: usize = 1_024;
/// Queues of a set that a flow may have.
pub(super) const WAYS: usize = 8;

/// Where in the rotation a flow is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Rotation {
    /// Nowhere.
    #[default]
    Idle,
    /// New: goes before the others.
    Sparse,
    /// Among the others for its deficit, but empty, and counted as sparse.
    SparseWaiting,
    /// Among the others.
    Bulk,
    /// Empty; its COBALT has something to forget.
    Decaying,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    pub(super) fifo: StampedFifo,
    pub(super) cobalt: Cobalt,
    pub(super) deficit: i64,
    pub(super) rotation: Rotation,
    /// Where its hosts are in the table of hosts.
    pub(super) source: usize,
    pub(super) destination: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Tin {
    pub(super) flows: Vec<Flow>,
    pub(super) directory: Associative,
    pub(super) hosts: Hosts,
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    decaying: VecDeque<u16>,
    pub(super) sparse: u64,
    pub(super) bulk: u64,
    pub(super) parameters: cobalt::Parameters,
    rate: u64,
    pub(super) per_byte: Option<PerByte>,
    pub(super) next: Time,
    flow_quantum: u64,
    pub(super) quantum: i64,
    pub(super) deficit: i64,
    pub(super) backlog: u64,
    pub(super) stats: TinStats,
}

impl Tin {
    /// With `shaped`, `share` is a rate; else a weight.
    pub(super) fn new(share: Share, shaped: bool, target: Duration, rtt: Duration, mtu: u64) -> Self {
        let per_byte = shaped.then(|| PerByte::new(share.bytes_per_s));
        let mtu_time = per_byte.map_or(0, |per_byte| per_byte.time_for(mtu));
        let configured = target.as_nanos();
        // Slow links cannot have a lower target than one packet and a half.
        let target = (mtu_time * 3 / 2).max(configured);
        let interval = (rtt.as_nanos() + target - configured).max(2 * target);
        // Short turns on slow links, where a whole packet takes long.
        let flow_quantum = if shaped { (share.bytes_per_s >> 12).clamp(300, 1_514) } else { 1_514 };
        Self {
            flows: Vec::new(),
            directory: Associative::default(),
            hosts: Hosts::default(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            decaying: VecDeque::new(),
            sparse: 0,
            bulk: 0,
            parameters: cobalt::Parameters { interval, target, mtu_time },
            rate: if shaped { share.bytes_per_s } else { 0 },
            per_byte,
            next: Time::ZERO,
            flow_quantum,
            quantum: share.quantum,
            deficit: 0,
            backlog: 0,
            stats: TinStats::default(),
        }
    }

    /// A tin that no packet ever enters needs no tables.
    pub(super) fn open(&mut self) {
        if self.flows.is_empty() {
            self.flows = vec![Flow::default(); FLOWS];
            self.directory = Associative::new();
            self.hosts = Hosts::new();
        }
    }

    /// Does any flow wait, or wait to be found empty?
    pub(super) fn is_active(&self) -> bool {
        self.sparse + self.bulk > 0
    }

    /// A packet entered `flow`: where it is in the rotation now.
    pub(super) fn activate(&mut self, flow: usize, isolation: Isolation, rng: &mut Rng) {
        match self.flows[flow].rotation {
            Rotation::Idle | Rotation::Decaying => {
                if self.flows[flow].rotation == Rotation::Decaying {
                    let at = self.decaying.iter().position(|index| usize::from(*index) == flow);
                    self.decaying.remove(at.expect("a decaying flow is in its list"));
                }
                self.new.push_back(flow as u16);
                self.flows[flow].rotation = Rotation::Sparse;
                self.sparse += 1;
                self.flows[flow].deficit = self.turn(flow, isolation, rng);
            }
            Rotation::SparseWaiting => {
                self.sparse -= 1;
                self.become_bulk(flow, isolation);
            }
            Rotation::Sparse | Rotation::Bulk => {}
        }
    }

    /// The flow whose turn it is. `first`, the flows that decay are asked before all others, once for each packet.
    pub(super) fn rotate(&mut self, mut first: bool, isolation: Isolation, rng: &mut Rng) -> Option<usize> {
        loop {
            let list = if first && !self.decaying.is_empty() {
                &mut self.decaying
            } else if !self.new.is_empty() {
                &mut self.new
            } else if !self.old.is_empty() {
                &mut self.old
            } else {
                &mut self.decaying
            };
            let flow = usize::from(*list.front()?);
            if self.flows[flow].deficit > 0 {
                return Some(flow);
            }
            first = false;
            list.pop_front();
            self.old.push_back(flow as u16);
            if self.flows[flow].rotation == Rotation::Sparse {
                if self.flows[flow].fifo.backlog().packets > 0 {
                    self.sparse -= 1;
                    self.become_bulk(flow, isolation);
                } else {
                    self.flows[flow].rotation = Rotation::SparseWaiting;
                }
            }
            self.flows[flow].deficit += self.turn(flow, isolation, rng);
        }
    }

    /// It was the turn of `flow`, which is first in its list, and it is empty.
    pub(super) fn retire(&mut self, flow: usize, now: Time, isolation: Isolation) {
        for list in [&mut self.decaying, &mut self.new, &mut self.old] {
            if list.front() == Some(&(flow as u16)) {
                list.pop_front();
                break;
            }
        }
        match self.flows[flow].rotation {
            Rotation::Bulk => {
                self.bulk -= 1;
                self.hosts.less_bulk(&self.flows[flow], isolation);
            }
            Rotation::Sparse | Rotation::SparseWaiting => self.sparse -= 1,
            Rotation::Decaying | Rotation::Idle => {}
        }
        if self.flows[flow].cobalt.remembers(now) {
            self.decaying.push_back(flow as u16);
            self.flows[flow].rotation = Rotation::Decaying;
        } else {
            self.flows[flow].rotation = Rotation::Idle;
        }
    }

    /// Charges a packet of so many bytes on the link to the tin's clock.
    pub(super) fn charge(&mut self, now: Time, bytes: u64) {
        let Some(per_byte) = self.per_byte else { return };
        let time = Duration::from_nanos(per_byte.time_for(bytes));
        if self.next < now {
            self.next += time;
        } else if self.next < now + time {
            self.next = now + time;
        }
    }

    /// Bytes of a flow's turn: less where its host has many flows, so that hosts share before flows do. What division
    /// leaves over is evened out by chance.
    fn turn(&self, flow: usize, isolation: Isolation, rng: &mut Rng) -> i64 {
        let load = self.hosts.load(&self.flows[flow], isolation).max(1);
        let part = self.flow_quantum * (65_535 / load);
        ((part + (rng.next_u64() & 0xffff)) >> 16) as i64
    }

    fn become_bulk(&mut self, flow: usize, isolation: Isolation) {
        self.bulk += 1;
        self.flows[flow].rotation = Rotation::Bulk;
        self.hosts.more_bulk(&self.flows[flow], isolation);
    }

    /// The flow with the most bytes, and how many; none when nothing waits.
    pub(super) fn longest(&self) -> Option<(usize, u64)> {
        let waiting = self.new.iter().chain(&self.old).chain(&self.decaying);
        let lengths = waiting.filter_map(|flow| {
            let backlog = self.flows[usize::from(*flow)].fifo.backlog();
            (backlog.packets > 0).then_some((usize::from(*flow), backlog.bytes.get()))
        });
        lengths.max_by_key(|(_, bytes)| *bytes)
    }

    pub(super) fn visit(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        // What decays is empty.
        for flow in self.new.iter().chain(&self.old) {
            self.flows[usize::from(*flow)].fifo.visit(visit);
        }
    }

    /// A packet left after `delay`: three moving averages that follow up or down at different speeds.
    pub(super) fn note_delay(&mut self, delay: Duration) {
        let follow = |average: Duration, shift: u32| {
            let average = average.as_nanos();
            Duration::from_nanos(average - (average >> shift) + (delay.as_nanos() >> shift))
        };
        let stats = &mut self.stats;
        stats.average_delay = follow(stats.average_delay, 8);
        stats.peak_delay = follow(stats.peak_delay, if delay > stats.peak_delay { 2 } else { 8 });
        stats.base_delay = follow(stats.base_delay, if delay < stats.base_delay { 2 } else { 8 });
    }

    pub(super) fn stats(&self) -> TinStats {
        TinStats {
            threshold: taut_core::Bitrate::from_bps(self.rate * 8),
            target: Duration::from_nanos(self.parameters.target),
            interval: Duration::from_nanos(self.parameters.interval),
            backlog: Bytes::new(self.backlog),
            indirect_hits: self.directory.indirect_hits,
            misses: self.directory.misses,
            collisions: self.directory.collisions,
            // Linux shows those that decay with them.
            sparse_flows: self.sparse + self.decaying.len() as u64,
            bulk_flows: self.bulk,
            flow_quantum: Bytes::new(self.flow_quantum),
            ..self.stats
        }
    }
}
