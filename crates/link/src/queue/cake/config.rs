//! What CAKE is told, and what it tells.

use taut_core::{Bitrate, Bytes, Duration};

use super::ack_filter::AckFilter;
use super::diffserv::Tins;
use super::hash::Isolation;
use super::rate::{Framing, Overhead};
use crate::queue::codel::DEFAULT_MTU;

/// How [`Cake`](super::Cake) behaves. Unless set, it is as Linux 6.1 comes.
#[derive(Clone, Copy, Debug)]
pub struct CakeConfig {
    pub(super) bandwidth: Option<Bitrate>,
    pub(super) tins: Tins,
    pub(super) isolation: Isolation,
    pub(super) rtt: Duration,
    pub(super) target: Duration,
    pub(super) overhead: Overhead,
    pub(super) memory_limit: Option<Bytes>,
    pub(super) ack_filter: AckFilter,
    pub(super) ingress: bool,
    pub(super) mtu: u64,
}

impl CakeConfig {
    /// `unlimited diffserv3 triple-isolate no-ack-filter rtt 100ms raw overhead 0`.
    pub fn new() -> Self {
        Self {
            bandwidth: None,
            tins: Tins::default(),
            isolation: Isolation::default(),
            rtt: Duration::from_millis(100),
            target: Duration::from_millis(5),
            overhead: Overhead::default(),
            memory_limit: None,
            ack_filter: AckFilter::default(),
            ingress: false,
            mtu: DEFAULT_MTU,
        }
    }

    /// Its own shaper. Default: none, whatever empties it sets the pace. From 512 bit/s; a little below the rate of the
    /// link, so that the queue is here and not there.
    pub fn bandwidth(mut self, bandwidth: Bitrate) -> Self {
        self.bandwidth = Some(bandwidth);
        self
    }

    /// Classes by code point. Default: [`Tins::Diffserv3`].
    pub fn tins(mut self, tins: Tins) -> Self {
        self.tins = tins;
        self
    }

    /// What is kept apart. Default: [`Isolation::Triple`].
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// A round-trip time of the slowest flows, for how long the target may be exceeded; the target becomes a twentieth
    /// of it. Default: 100 ms and 5 ms; 20 µs to 4 s. Slow links raise both.
    pub fn rtt(mut self, rtt: Duration) -> Self {
        self.rtt = rtt;
        self.target = (rtt / 20).max(Duration::from_micros(1));
        self
    }

    /// Bytes that the link adds to an IP packet, or takes away. Default: 0; -64 to 256. 18 and [`CakeConfig::mpu`] 64
    /// is Ethernet; 38 and 84, with preamble and gap.
    pub fn overhead(mut self, bytes: i16) -> Self {
        self.overhead.bytes = bytes.into();
        self
    }

    /// The smallest packet of the link, overhead included. Default: 0 B; up to 256.
    pub fn mpu(mut self, mpu: Bytes) -> Self {
        self.overhead.mpu = mpu.get();
        self
    }

    /// Cells or words that packets are cut into. Default: [`Framing::Plain`].
    pub fn framing(mut self, framing: Framing) -> Self {
        self.overhead.framing = framing;
        self
    }

    /// Of Linux's memory, which is more than the packets' lengths. Default: what passes in four times `rtt`, at least
    /// 4 MiB; without a bandwidth 15.5 MB.
    pub fn memory_limit(mut self, limit: Bytes) -> Self {
        self.memory_limit = Some(limit);
        self
    }

    /// Drops TCP acknowledgements that later ones in the same queue make superfluous. Default: [`AckFilter::Off`].
    pub fn ack_filter(mut self, filter: AckFilter) -> Self {
        self.ack_filter = filter;
        self
    }

    /// Charges what it drops to the shaper as well: for the receiving end of a slow link, which those packets have
    /// already passed. Default: no.
    pub fn ingress(mut self, ingress: bool) -> Self {
        self.ingress = ingress;
        self
    }

    /// The largest packet. Default: 1514 B, as on an Ethernet device.
    pub fn mtu(mut self, mtu: Bytes) -> Self {
        self.mtu = mtu.get();
        self
    }

    /// `sch->limit` packets of the largest size, in the worst case.
    pub(super) fn memory(&self) -> u64 {
        const MOST_PACKETS: u64 = 10_240;
        let ceiling = MOST_PACKETS * self.mtu;
        let wanted = match (self.memory_limit, self.bandwidth) {
            (Some(limit), _) => return limit.get(),
            (None, Some(bandwidth)) => {
                let in_four_round_trips = bandwidth.as_bps() / 8 * (self.rtt.as_nanos() / 1_000) / 250_000;
                in_four_round_trips.max(4 << 20)
            }
            (None, None) => u64::MAX,
        };
        wanted.min(ceiling)
    }
}

impl Default for CakeConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// What `tc -s qdisc` shows of a `cake`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CakeStats {
    /// The most memory that was ever used.
    pub memory_used: Bytes,
    /// How much it may be.
    pub memory_limit: Bytes,
    /// In the order of `tc`: bulk, where there is one, before best effort; the last has the highest priority.
    pub tins: Vec<TinStats>,
}

/// One column of it. The names that `tc` has are in brackets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TinStats {
    /// The rate up to which the tin has its priority (`thresh`); 0 without a shaper.
    pub threshold: Bitrate,
    /// Sojourn time that is accepted for good (`target`).
    pub target: Duration,
    /// For how long it may be exceeded (`interval`).
    pub interval: Duration,
    /// Delay of the slowest packets (`pk_delay`).
    pub peak_delay: Duration,
    /// Delay of all (`av_delay`).
    pub average_delay: Duration,
    /// Delay of the fastest (`sp_delay`).
    pub base_delay: Duration,
    /// What waits (`backlog`).
    pub backlog: Bytes,
    /// Packets that entered (`pkts`).
    pub packets: u64,
    /// Their length (`bytes`).
    pub bytes: Bytes,
    /// Flows found in another queue of their set (`way_inds`).
    pub indirect_hits: u64,
    /// Flows that got a new queue (`way_miss`).
    pub misses: u64,
    /// Flows that share a queue, because their set was full (`way_cols`).
    pub collisions: u64,
    /// Packets dropped (`drops`).
    pub dropped: u64,
    /// Packets marked (`marks`).
    pub marked: u64,
    /// Acknowledgements filtered (`ack_drop`).
    pub ack_dropped: u64,
    /// Of those dropped, for lack of memory.
    pub drop_overlimit: u64,
    /// Flows that wait little, and empty ones whose COBALT still remembers (`sp_flows`).
    pub sparse_flows: u64,
    /// Flows that always wait (`bk_flows`).
    pub bulk_flows: u64,
    /// Flows that BLUE holds down (`un_flows`).
    pub unresponsive_flows: u64,
    /// The largest packet (`max_len`).
    pub longest_packet: Bytes,
    /// Bytes of a flow's turn (`quantum`).
    pub flow_quantum: Bytes,
}
