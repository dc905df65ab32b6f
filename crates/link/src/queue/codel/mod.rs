//! Controlled delay: RFC 8289 as Linux's `sch_codel` has it (`tc-codel(8)`).

pub(in crate::queue) mod control;

use control::{Control, Dequeue, Parameters, Totals};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::{Backlog, Bytes, DropCause, Duration, LinkEvent, Packet, PacketMeta, Queue, Time};

use super::fifo::StampedFifo;

/// An Ethernet frame with 1500 bytes inside: below that much, Linux's CoDel takes a queue for empty.
pub(in crate::queue) const DEFAULT_MTU: Bytes = Bytes::new(1_514);

/// Controlled delay: drops from the head while the time in the queue stays above a target, ever more often.
///
/// As Linux 6.1 comes: `target 5ms interval 100ms limit 1000 noecn`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CodelConfig {
    /// The time in the queue that is accepted for good. 1us to 4s, in steps of 1.024 µs; less costs throughput on long paths.
    pub target: Duration,
    /// For how long it may be exceeded before the first drop: a round-trip time of the slowest flows. 1us to 4s.
    pub interval: Duration,
    /// At most this many packets wait. From 1.
    pub limit: u64,
    /// Mark packets that can be marked (RFC 3168), rather than drop them.
    pub ecn: bool,
    /// Mark every packet that waited longer than this, whatever the rest does (as for DCTCP). 1us to 4s; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ce_threshold: Option<Duration>,
}

impl Default for CodelConfig {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            limit: 1_000,
            ecn: false,
            ce_threshold: None,
        }
    }
}

/// Drops from the head while the sojourn time stays above a target, ever more often.
///
/// ```
/// use taut_core::{Bitrate, Duration};
/// use taut_link::{Bottleneck, Codel, CodelConfig};
/// let target = Duration::from_millis(2);
/// let queue = Codel::new(CodelConfig { target, ecn: true, ..CodelConfig::default() });
/// let link = Bottleneck::new(Bitrate::from_bps(10_000_000), queue);
/// # let _ = link;
/// ```
#[derive(Clone, Debug)]
pub struct Codel {
    limit: u64,
    parameters: Parameters,
    fifo: StampedFifo,
    control: Control,
    totals: Totals,
    drop_overlimit: u64,
}

/// What `tc -s qdisc` shows of a `codel`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodelStats {
    /// Drops since the dropping state was entered.
    pub count: u32,
    /// What `count` began with then.
    pub lastcount: u32,
    /// Sojourn time of the packet that was looked at last.
    pub ldelay: Duration,
    /// Is it in the dropping state?
    pub dropping: bool,
    /// When the next drop is due, or the last one was.
    pub drop_next: Time,
    /// The largest packet that left or was dropped at the head.
    pub maxpacket: Bytes,
    /// Packets marked in place of a drop.
    pub ecn_mark: u64,
    /// Packets marked because they waited longer than `ce_threshold`.
    pub ce_mark: u64,
    /// Packets dropped by the algorithm.
    pub dropped: u64,
    /// Packets dropped because the limit was reached.
    pub drop_overlimit: u64,
}

impl Codel {
    /// Empty.
    pub fn new(config: CodelConfig) -> Self {
        Self {
            limit: config.limit,
            parameters: Parameters::of(&config),
            fifo: StampedFifo::default(),
            control: Control::default(),
            totals: Totals::default(),
            drop_overlimit: 0,
        }
    }

    /// The largest packet is so long: nothing is dropped while no more than this waits. Default: 1514 B, as on an Ethernet device.
    pub fn mtu(mut self, mtu: Bytes) -> Self {
        self.parameters.mtu = mtu.get();
        self
    }

    /// What happened until now.
    pub fn stats(&self) -> CodelStats {
        CodelStats {
            count: self.control.count,
            lastcount: self.control.lastcount,
            ldelay: Duration::from_nanos(self.control.ldelay << 10),
            dropping: self.control.dropping,
            drop_next: Time::from_nanos(self.control.drop_next << 10),
            maxpacket: Bytes::new(self.totals.maxpacket),
            ecn_mark: self.totals.ecn_mark,
            ce_mark: self.totals.ce_mark,
            dropped: self.totals.dropped,
            drop_overlimit: self.drop_overlimit,
        }
    }
}

impl Default for Codel {
    fn default() -> Self {
        Self::new(CodelConfig::default())
    }
}

impl Queue for Codel {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut Vec<LinkEvent>) {
        if self.fifo.backlog().packets < self.limit {
            return self.fifo.push(now, packet);
        }
        self.drop_overlimit += 1;
        events.push(LinkEvent::Dropped { meta: packet.meta, cause: DropCause::QueueFullPackets });
    }

    #[inline]
    fn dequeue(&mut self, now: Time, events: &mut Vec<LinkEvent>) -> Option<Packet> {
        let Self { parameters, fifo, totals, .. } = self;
        self.control.dequeue(Dequeue { now, parameters, fifo, elsewhere: 0, totals, events })
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn visit(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.fifo.visit(visit);
    }
}
