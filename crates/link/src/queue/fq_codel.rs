//! Flow queues with controlled delay: RFC 8290 as Linux's `sch_fq_codel` has it (`tc-fq_codel(8)`).

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::{Backlog, Bytes, DropCause, Duration, LinkEvent, Packet, PacketMeta, Queue, Time};

use super::codel::control::{Control, Dequeue, Parameters, Totals};
use super::codel::{CodelConfig, DEFAULT_MTU};
use super::fifo::StampedFifo;
use super::flow::{flow_hash, memory_of};

/// A queue for each flow, served in turn, flows that send little first; each under CoDel.
///
/// As Linux 6.1 comes: `limit 10240p flows 1024 quantum 1514 target 5ms interval 100ms
/// memory_limit 32Mb ecn drop_batch 64`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FqCodelConfig {
    /// The time in the queue that is accepted for good. 1us to 4s.
    pub target: Duration,
    /// For how long it may be exceeded before the first drop. 1us to 4s.
    pub interval: Duration,
    /// At most this many packets wait, in all queues. From 1.
    pub limit: u64,
    /// Queues that flows are hashed to. 1 to 65535.
    pub flows: u16,
    /// Bytes of a flow's turn. From 1B; around 300 B, small packets go before large ones.
    pub quantum: Bytes,
    /// At most this much of Linux's memory, which is more than the packets' lengths. From 1B.
    pub memory: Bytes,
    /// At most this many packets are dropped at once from the longest queue when a limit is reached. From 1.
    pub drop_batch: u64,
    /// Mark packets that can be marked (RFC 3168), rather than drop them.
    pub ecn: bool,
    /// Mark every packet that waited longer than this, whatever the rest does. 1us to 4s; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ce_threshold: Option<Duration>,
}

impl Default for FqCodelConfig {
    fn default() -> Self {
        let CodelConfig { target, interval, ce_threshold, .. } = CodelConfig::default();
        Self {
            target,
            interval,
            limit: 10_240,
            flows: 1_024,
            quantum: DEFAULT_MTU,
            memory: Bytes::new(32 << 20),
            drop_batch: 64,
            ecn: true,
            ce_threshold,
        }
    }
}

/// A queue for each flow, served in turn, flows that send little first; each under CoDel.
///
/// ```
/// use taut_core::{Bitrate, Bytes, Seed};
/// use taut_link::{Bottleneck, FqCodel, FqCodelConfig};
/// let config = FqCodelConfig { quantum: Bytes::new(300), ..FqCodelConfig::default() };
/// let queue = FqCodel::new(config, Seed::new(1).stream("uplink/flows").next_u64());
/// let link = Bottleneck::new(Bitrate::from_bps(10_000_000), queue);
/// # let _ = link;
/// ```
#[derive(Clone, Debug)]
pub struct FqCodel {
    config: FqCodelConfig,
    parameters: Parameters,
    perturbation: u64,
    /// None until the first packet.
    flows: Vec<Flow>,
    /// Flows that began to send: they go first, once.
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    backlog: Backlog,
    memory: u64,
    totals: Totals,
    stats: FqCodelStats,
}

#[derive(Clone, Debug, Default)]
struct Flow {
    fifo: StampedFifo,
    control: Control,
    deficit: i64,
    listed: bool,
}

/// What `tc -s qdisc` shows of an `fq_codel`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FqCodelStats {
    /// The largest packet that left or was dropped at a head.
    pub maxpacket: Bytes,
    /// Packets dropped because a limit was reached.
    pub drop_overlimit: u64,
    /// Of those, because it was the memory's.
    pub drop_overmemory: u64,
    /// Packets marked in place of a drop.
    pub ecn_mark: u64,
    /// Packets marked because they waited longer than `ce_threshold`.
    pub ce_mark: u64,
    /// Packets dropped by the algorithm.
    pub dropped: u64,
    /// How often a flow became new.
    pub new_flow_count: u64,
    /// Flows that are new.
    pub new_flows_len: u64,
    /// Flows in the rotation.
    pub old_flows_len: u64,
    /// What the waiting packets take of Linux's memory.
    pub memory_used: Bytes,
}

impl FqCodel {
    /// Empty. `perturbation` is mixed into the hash of flows.
    pub fn new(config: FqCodelConfig, perturbation: u64) -> Self {
        let quantum = Bytes::new(config.quantum.get().clamp(1, u32::MAX.into()));
        let (flows, drop_batch) = (config.flows.max(1), config.drop_batch.max(1));
        let config = FqCodelConfig { quantum, flows, drop_batch, ..config };
        let FqCodelConfig { target, interval, limit, ecn, ce_threshold, .. } = config;
        Self {
            flows: Vec::new(),
            parameters: Parameters::of(&CodelConfig { target, interval, limit, ecn, ce_threshold }),
            config,
            perturbation,
            new: VecDeque::new(),
            old: VecDeque::new(),
            backlog: Backlog::default(),
            memory: 0,
            totals: Totals::default(),
            stats: FqCodelStats::default(),
        }
    }

    /// The largest packet is so long: nothing is dropped while no more than this, in all queues, waits. Default: 1514 B, as on an Ethernet device.
    pub fn mtu(mut self, mtu: Bytes) -> Self {
        self.parameters.mtu = mtu.get();
        self
    }

    /// What happened until now.
    pub fn stats(&self) -> FqCodelStats {
        FqCodelStats {
            maxpacket: Bytes::new(self.totals.maxpacket),
            ecn_mark: self.totals.ecn_mark,
            ce_mark: self.totals.ce_mark,
            dropped: self.totals.dropped,
            new_flows_len: self.new.len() as u64,
            old_flows_len: self.old.len() as u64,
            memory_used: Bytes::new(self.memory),
            ..self.stats
        }
    }

    /// Drops from the head of the longest flow until half of it is gone, or a batch (RFC 8290 section 4.1.2).
    fn shed(&mut self, cause: DropCause, events: &mut Vec<LinkEvent>) {
        let bytes = |flow: &Flow| flow.fifo.backlog().bytes;
        let fattest = self.flows.iter().enumerate().rev().max_by_key(|(_, flow)| bytes(flow));
        let Some((fattest, _)) = fattest else { return };
        let flow = &mut self.flows[fattest];
        let enough = bytes(flow).get() / 2;
        let (mut packets, mut gone) = (0, 0);
        while let Some((_, packet)) = flow.fifo.pop() {
            self.backlog.remove(packet.meta.size);
            self.memory -= memory_of(&packet.meta);
            events.push(LinkEvent::Dropped { meta: packet.meta, cause });
            packets += 1;
            gone += packet.meta.size.get();
            if packets >= self.config.drop_batch || gone >= enough {
                break;
            }
        }
        // CoDel is to signal harder as well.
        flow.control.count = flow.control.count.wrapping_add(packets as u32);
        self.stats.drop_overlimit += packets;
        if cause == DropCause::QueueFullBytes {
            self.stats.drop_overmemory += packets;
        }
    }

    /// The next packet of a flow by CoDel.
    fn serve(&mut self, index: u16, now: Time, events: &mut Vec<LinkEvent>) -> Option<Packet> {
        let Self { parameters, flows, totals, .. } = self;
        let Flow { fifo, control, .. } = &mut flows[usize::from(index)];
        let before = fifo.backlog();
        let elsewhere = (self.backlog.bytes - before.bytes).get();
        let first_event = events.len();
        let packet = control.dequeue(Dequeue { now, parameters, fifo, elsewhere, totals, events });
        let dropped = events[first_event..].iter().filter_map(|event| match event {
            LinkEvent::Dropped { meta, .. } => Some(memory_of(meta)),
            _ => None,
        });
        self.memory -= dropped.sum::<u64>() + packet.as_ref().map_or(0, |packet| memory_of(&packet.meta));
        let after = fifo.backlog();
        self.backlog.packets -= before.packets - after.packets;
        self.backlog.bytes = self.backlog.bytes - (before.bytes - after.bytes);
        packet
    }
}

impl Queue for FqCodel {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut Vec<LinkEvent>) {
        if self.flows.is_empty() {
            self.flows = vec![Flow::default(); self.config.flows.into()];
        }
        let hash = u64::from(flow_hash(&packet.meta, self.perturbation));
        let index = (hash * self.flows.len() as u64) >> 32;
        self.backlog.add(packet.meta.size);
        self.memory += memory_of(&packet.meta);
        let flow = &mut self.flows[index as usize];
        flow.fifo.push(now, packet);
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.config.quantum.get() as i64;
            self.new.push_back(index as u16);
            self.stats.new_flow_count += 1;
        }
        if self.memory > self.config.memory.get() {
            self.shed(DropCause::QueueFullBytes, events);
        } else if self.backlog.packets > self.config.limit {
            self.shed(DropCause::QueueFullPackets, events);
        }
    }

    /// RFC 8290 section 4.2.
    fn dequeue(&mut self, now: Time, events: &mut Vec<LinkEvent>) -> Option<Packet> {
        loop {
            let (list, is_new) =
                if self.new.is_empty() { (&mut self.old, false) } else { (&mut self.new, true) };
            let index = *list.front()?;
            let flow = &mut self.flows[usize::from(index)];
            if flow.deficit <= 0 {
                flow.deficit += self.config.quantum.get() as i64;
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            if let Some(packet) = self.serve(index, now, events) {
                self.flows[usize::from(index)].deficit -= packet.meta.size.get() as i64;
                return Some(packet);
            }
            // A new flow that is empty goes round once with the old ones, or it could starve them by coming back new.
            if is_new {
                self.new.pop_front();
            } else {
                self.old.pop_front();
            }
            if is_new && !self.old.is_empty() {
                self.old.push_back(index);
            } else {
                self.flows[usize::from(index)].listed = false;
            }
        }
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn visit(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        for flow in self.new.iter().chain(&self.old) {
            self.flows[usize::from(*flow)].fifo.visit(visit);
        }
    }
}
