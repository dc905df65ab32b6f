//! Flow queues with controlled delay: RFC 8290 as Linux's `sch_fq_codel` has it (`tc-fq_codel(8)`).

use std::collections::VecDeque;

use taut_core::{Backlog, Bytes, DropCause, Duration, LinkEvent, Packet, PacketMeta, Queue, Time};

use super::codel::DEFAULT_MTU;
use super::codel::control::{Control, Dequeue, Parameters, Totals, ticks};
use super::fifo::StampedFifo;
use super::flow::{flow_hash, memory_of};

/// How [`FqCodel`] behaves. Unless set, it is as Linux 6.1 comes.
#[derive(Clone, Copy, Debug)]
pub struct FqCodelConfig {
    flows: u16,
    limit: u64,
    memory_limit: u64,
    quantum: i64,
    drop_batch: u64,
    parameters: Parameters,
}

impl FqCodelConfig {
    /// `limit 10240p flows 1024 quantum 1514 target 5ms interval 100ms memory_limit 32Mb ecn drop_batch 64`.
    pub fn new() -> Self {
        let mut parameters = Parameters::new(Duration::from_millis(5), Duration::from_millis(100));
        parameters.ecn = true;
        Self {
            flows: 1_024,
            limit: 10_240,
            memory_limit: 32 << 20,
            quantum: DEFAULT_MTU as i64,
            drop_batch: 64,
            parameters,
        }
    }

    /// Queues that flows are hashed to. Default: 1024; 1 to 65535.
    pub fn flows(mut self, flows: u16) -> Self {
        self.flows = flows.max(1);
        self
    }

    /// At most this many packets wait in all queues ([`DropCause::QueueFullPackets`]). Default: 10240; from 1.
    pub fn limit(mut self, packets: u64) -> Self {
        self.limit = packets;
        self
    }

    /// At most this much of Linux's memory, which is more than the packets' lengths
    /// ([`DropCause::QueueFullBytes`]). Default: 32 MiB.
    pub fn memory_limit(mut self, limit: Bytes) -> Self {
        self.memory_limit = limit.get();
        self
    }

    /// Bytes of a flow's turn. Default: 1514 B; from 1. Around 300 B, small packets go before large ones.
    pub fn quantum(mut self, quantum: Bytes) -> Self {
        self.quantum = quantum.get().clamp(1, u32::MAX.into()) as i64;
        self
    }

    /// At most this many packets are dropped at once from the longest queue when a limit is reached. Default: 64; from 1.
    pub fn drop_batch(mut self, packets: u64) -> Self {
        self.drop_batch = packets.max(1);
        self
    }

    /// The sojourn time that is accepted for good. Default: 5 ms; 1 µs to 4 s.
    pub fn target(mut self, target: Duration) -> Self {
        self.parameters.target = ticks(target.as_nanos());
        self
    }

    /// For how long it may be exceeded before the first drop. Default: 100 ms; 1 µs to 4 s.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.parameters.interval = ticks(interval.as_nanos());
        self
    }

    /// Mark packets of senders that understand it (RFC 3168), rather than drop them. Default: yes.
    pub fn ecn(mut self, ecn: bool) -> Self {
        self.parameters.ecn = ecn;
        self
    }

    /// Mark every packet that waited longer than this, whatever the rest does. Default: none.
    pub fn ce_threshold(mut self, threshold: Duration) -> Self {
        self.parameters.ce_threshold = Some(ticks(threshold.as_nanos()));
        self
    }

    /// Nothing is dropped while no more than this waits in all queues. Default: 1514 B, as on an Ethernet device.
    pub fn mtu(mut self, mtu: Bytes) -> Self {
        self.parameters.mtu = mtu.get();
        self
    }
}

impl Default for FqCodelConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// A queue for each flow, served in turn, flows that send little first; each under CoDel.
///
/// ```
/// use taut_core::{Bitrate, Bytes, Seed};
/// use taut_link::{Bottleneck, FqCodel, FqCodelConfig};
/// let config = FqCodelConfig::new().quantum(Bytes::new(300));
/// let queue = FqCodel::new(config, Seed::new(1).stream("uplink/flows").next_u64());
/// let link = Bottleneck::new(Bitrate::from_bps(10_000_000), queue);
/// # let _ = link;
/// ```
#[derive(Clone, Debug)]
pub struct FqCodel {
    config: FqCodelConfig,
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
        Self {
            flows: Vec::new(),
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
        let Self { config, flows, totals, .. } = self;
        let Flow { fifo, control, .. } = &mut flows[usize::from(index)];
        let before = fifo.backlog();
        let elsewhere = (self.backlog.bytes - before.bytes).get();
        let first_event = events.len();
        let parameters = &config.parameters;
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
        let index = (hash * u64::from(self.config.flows)) >> 32;
        self.backlog.add(packet.meta.size);
        self.memory += memory_of(&packet.meta);
        let flow = &mut self.flows[index as usize];
        flow.fifo.push(now, packet);
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.config.quantum;
            self.new.push_back(index as u16);
            self.stats.new_flow_count += 1;
        }
        if self.memory > self.config.memory_limit {
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
                flow.deficit += self.config.quantum;
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
