//! Common applications kept enhanced: `tc-cake(8)`; Høiland-Jørgensen, Täht, Morton, *Piece of CAKE: a comprehensive
//! queue management solution for home gateways*, LANMAN 2018.
//!
//! A shaper without a bucket; tins by code point, each with a share of the rate up to which it goes first; in each tin,
//! flow queues in turn (DRR++, as in RFC 8290, with turns that hosts share first); in each flow queue,
//! CoDel and BLUE.

mod ack_filter;
mod cobalt;
mod config;
mod diffserv;
mod hash;
mod rate;
mod tin;

pub use ack_filter::AckFilter;
pub use config::{CakeConfig, CakeStats, TinStats};
pub use diffserv::Tins;
pub use hash::Isolation;
pub use rate::Framing;

use rate::Shaper;
use taut_core::{Backlog, Bytes, Deadline, DropCause, LinkEvent, Packet, PacketMeta, Queue, Rng, Time};
use tin::Tin;

use super::codel::DEFAULT_MTU;
use super::flow::memory_of;

/// A shaper, classes, fair flows and short queues in one.
///
/// ```
/// use taut_core::{Bitrate, Seed};
/// use taut_link::{Bottleneck, Cake, CakeConfig, Tins};
/// let bandwidth = Some(Bitrate::from_bps(9_500_000));
/// let config = CakeConfig { bandwidth, tins: Tins::Diffserv4, ..CakeConfig::default() };
/// let queue = Cake::new(config, Seed::new(1).stream("uplink/cake"));
/// let link = Bottleneck::new(Bitrate::from_bps(10_000_000), queue);
/// # let _ = link;
/// ```
#[derive(Clone, Debug)]
pub struct Cake {
    config: CakeConfig,
    shaper: Option<Shaper>,
    tins: Vec<Tin>,
    /// Whose turn it is without a shaper.
    current: usize,
    backlog: Backlog,
    memory: u64,
    memory_most: u64,
    memory_limit: u64,
    perturbation: u64,
    rng: Rng,
}

impl Cake {
    /// Empty. `rng` perturbs the hash of flows, evens out what division leaves over, and draws for BLUE.
    pub fn new(config: CakeConfig, mut rng: Rng) -> Self {
        let bytes_per_s = config.bandwidth.map_or(0, |bandwidth| bandwidth.as_bps() / 8);
        let shaped = config.bandwidth.is_some();
        let tin = |share| Tin::new(share, shaped, config.target(), config.rtt, DEFAULT_MTU.get());
        Self {
            shaper: config.bandwidth.map(Shaper::new),
            tins: config.tins.shares(bytes_per_s).into_iter().map(tin).collect(),
            current: 0,
            backlog: Backlog::default(),
            memory: 0,
            memory_most: 0,
            memory_limit: config.memory_limit(),
            perturbation: rng.next_u64(),
            config,
            rng,
        }
    }

    /// What happened until now.
    pub fn stats(&self) -> CakeStats {
        let mut tins: Vec<_> = self.tins.iter().map(Tin::stats).collect();
        // diffserv3 and diffserv4 number best effort first, and show bulk first.
        if let 3 | 4 = tins.len() {
            tins.swap(0, 1);
        }
        CakeStats {
            memory_used: Bytes::new(self.memory_most),
            memory_limit: Bytes::new(self.memory_limit),
            tins,
        }
    }

    /// Takes the packet at the head of a flow out; the flow is charged for it by whoever sends or drops it.
    fn take(&mut self, tin: usize, flow: usize) -> Option<(Time, Packet)> {
        let (enqueued, packet) = self.tins[tin].flows[flow].fifo.pop()?;
        self.forget(tin, &packet.meta);
        Some((enqueued, packet))
    }

    fn forget(&mut self, tin: usize, meta: &PacketMeta) {
        self.backlog.remove(meta.size);
        self.memory -= memory_of(meta);
        self.tins[tin].backlog -= meta.size.get();
    }

    /// Charges a packet to the clocks of its tin and of the link, and says how long it is there.
    fn charge(&mut self, tin: usize, size: Bytes, now: Time, left: bool) -> u64 {
        let bytes = self.config.on_link(size.get());
        self.tins[tin].charge(now, bytes);
        if let Some(shaper) = &mut self.shaper {
            shaper.charge(bytes, left);
        }
        bytes
    }

    /// Drops from the head of the longest flow until the memory suffices.
    fn shed(&mut self, now: Time, entered: usize, events: &mut Vec<LinkEvent>) {
        while self.memory > self.memory_limit {
            let longest = self.tins.iter().enumerate().filter_map(|(tin, own)| {
                let (flow, bytes) = own.longest()?;
                Some((bytes, tin, flow))
            });
            let Some((_, tin, flow)) = longest.max_by_key(|(bytes, ..)| *bytes) else { return };
            let Some((_, packet)) = self.take(tin, flow) else { return };
            let own = &mut self.tins[tin];
            let began = own.flows[flow].cobalt.queue_full(now, &own.parameters);
            own.stats.unresponsive_flows += u64::from(began);
            own.stats.dropped += 1;
            self.tins[entered].stats.drop_overlimit += 1;
            if self.config.ingress {
                self.charge(tin, packet.meta.size, now, false);
            }
            events.push(LinkEvent::Dropped { meta: packet.meta, cause: DropCause::QueueFullBytes });
        }
    }

    /// The tin that is served next.
    fn choose_tin(&mut self, now: Time) -> Option<usize> {
        if self.shaper.is_none() {
            return self.choose_by_weight();
        }
        // The highest one that is within its rate, or else the one that is soonest.
        let active = self.tins.iter().enumerate().filter(|(_, tin)| tin.is_active());
        let until = |tin: &Tin| tin.next.saturating_since(now);
        active.min_by_key(|(index, tin)| (until(tin), std::cmp::Reverse(*index))).map(|(index, _)| index)
    }

    /// Without a rate to hold it to, each tin in turn by its weight (DRR).
    fn choose_by_weight(&mut self) -> Option<usize> {
        let (mut wrapped, mut empty) = (false, true);
        loop {
            let tin = &mut self.tins[self.current];
            if tin.deficit >= 0 && tin.is_active() {
                return Some(self.current);
            }
            if tin.deficit <= 0 {
                tin.deficit += tin.quantum;
            }
            empty &= !tin.is_active();
            self.current += 1;
            if self.current == self.tins.len() {
                self.current = 0;
                if wrapped && empty {
                    return None;
                }
                wrapped = true;
            }
        }
    }

    /// The packet that goes next of `tin`, or none where the flow whose turn it was is empty. The first time that a
    /// packet is asked for, flows that decay are looked at before all others.
    fn serve(&mut self, tin: usize, first: bool, now: Time, events: &mut Vec<LinkEvent>) -> Option<Packet> {
        let isolation = self.config.isolation;
        let mut flow = self.tins[tin].rotate(first, isolation, &mut self.rng)?;
        loop {
            let Some((enqueued, mut packet)) = self.take(tin, flow) else {
                let own = &mut self.tins[tin];
                let ended = own.flows[flow].cobalt.queue_empty(now, &own.parameters);
                own.stats.unresponsive_flows -= u64::from(ended);
                own.retire(flow, now, isolation);
                return None;
            };
            let own = &mut self.tins[tin];
            let bulk = if self.config.ingress { own.bulk } else { 0 };
            let before = packet.meta.ecn;
            let cobalt = &mut own.flows[flow].cobalt;
            let verdict = cobalt.judge(now, enqueued, &mut packet, &own.parameters, bulk, &mut self.rng);
            // The last packet of a queue is never dropped.
            if !verdict.drop || own.flows[flow].fifo.backlog().packets == 0 {
                own.stats.marked += u64::from(verdict.marked);
                if packet.meta.ecn != before {
                    events.push(LinkEvent::Marked { meta: packet.meta });
                }
                own.note_delay(now - enqueued);
                self.account(tin, flow, packet.meta.size, now, true);
                return Some(packet);
            }
            own.stats.dropped += 1;
            packet.meta.ecn = before;
            events.push(LinkEvent::Dropped { meta: packet.meta, cause: DropCause::Aqm });
            if self.config.ingress {
                self.account(tin, flow, packet.meta.size, now, false);
                flow = self.tins[tin].rotate(false, isolation, &mut self.rng)?;
            }
        }
    }

    fn account(&mut self, tin: usize, flow: usize, size: Bytes, now: Time, left: bool) {
        let bytes = self.charge(tin, size, now, left) as i64;
        self.tins[tin].flows[flow].deficit -= bytes;
        self.tins[tin].deficit -= bytes;
    }

    /// A packet that finds its tin, or everything, idle does not inherit what the clocks saved up.
    fn wake(&mut self, tin: usize, now: Time) {
        let own = &mut self.tins[tin];
        if own.backlog > 0 {
            return;
        }
        own.next = own.next.max(now);
        if let Some(shaper) = self.shaper.as_mut().filter(|_| self.backlog.packets == 0) {
            shaper.idle_until(now);
        }
    }
}

impl Queue for Cake {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut Vec<LinkEvent>) {
        let tin = self.config.tins.of(packet.meta.dscp);
        let isolation = self.config.isolation;
        self.tins[tin].open();
        let flow = self.tins[tin].find(&packet.meta, isolation, self.perturbation);
        self.wake(tin, now);
        let size = packet.meta.size;
        self.backlog.add(size);
        self.memory += memory_of(&packet.meta);
        let own = &mut self.tins[tin];
        own.backlog += size.get();
        own.stats.packets += 1;
        own.stats.bytes += size;
        own.stats.longest_packet = own.stats.longest_packet.max(size);
        own.flows[flow].fifo.push(now, packet);
        if let Some(filtered) = self.config.ack_filter.take_from(&mut own.flows[flow].fifo) {
            own.stats.ack_dropped += 1;
            self.forget(tin, &filtered.meta);
            if self.config.ingress {
                self.charge(tin, filtered.meta.size, now, false);
            }
            events.push(LinkEvent::Dropped { meta: filtered.meta, cause: DropCause::AckFiltered });
        }
        self.tins[tin].activate(flow, isolation, &mut self.rng);
        self.memory_most = self.memory_most.max(self.memory);
        self.shed(now, tin, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut Vec<LinkEvent>) -> Option<Packet> {
        let mut first = true;
        while self.backlog.packets > 0 {
            if self.shaper.as_ref().is_some_and(|shaper| shaper.opens() > now) {
                return None;
            }
            let tin = self.choose_tin(now)?;
            if let Some(packet) = self.serve(tin, first, now, events) {
                return Some(packet);
            }
            first = false;
        }
        None
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn visit(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.tins.iter().for_each(|tin| tin.visit(visit));
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let shaper = self.shaper.as_ref().filter(|_| self.backlog.packets > 0)?;
        Some(Deadline::new(shaper.opens(), "shaped"))
    }
}
