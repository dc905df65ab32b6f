//! What CAKE is told, and what it tells.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::{Bitrate, Bytes, Duration};

use super::ack_filter::AckFilter;
use super::diffserv::Tins;
use super::hash::Isolation;
use super::rate::Framing;
use crate::queue::codel::DEFAULT_MTU;

/// A shaper, classes, fair flows and short queues in one.
///
/// As Linux 6.1 comes: `unlimited diffserv3 triple-isolate no-ack-filter rtt 100ms
/// raw overhead 0`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CakeConfig {
    /// Its own shaper. From 512bit; none by default, the server sets the pace. A little below the rate of the link, so that the queue is
    /// here and not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bitrate>,
    /// Classes by code point.
    pub tins: Tins,
    /// What is kept apart.
    pub isolation: Isolation,
    /// A round-trip time of the slowest flows; the target delay is a twentieth of it. 20us to 4s. Slow links raise both.
    pub rtt: Duration,
    /// Bytes that the link adds to a packet. -64 to 256. 18 and `mpu` 64 is Ethernet; 38 and 84, with preamble and gap.
    pub overhead: i16,
    /// The smallest packet of the link, overhead included. 0B to 256B.
    pub mpu: Bytes,
    /// Cells or words that packets are cut into.
    pub framing: Framing,
    /// At most this much of Linux's memory. From 1B; what passes in four times `rtt` at the bandwidth and at least 4 MiB by default, without a
    /// bandwidth 15.5 MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Which TCP acknowledgements are dropped because later ones say the same.
    pub ack_filter: AckFilter,
    /// Charges what it drops to the shaper as well, for the receiving end of a slow link, which those packets have already passed.
    pub ingress: bool,
}

impl Default for CakeConfig {
    fn default() -> Self {
        Self {
            bandwidth: None,
            tins: Tins::default(),
            isolation: Isolation::default(),
            rtt: Duration::from_millis(100),
            overhead: 0,
            mpu: Bytes::ZERO,
            framing: Framing::default(),
            memory: None,
            ack_filter: AckFilter::default(),
            ingress: false,
        }
    }
}

impl CakeConfig {
    pub(super) fn target(&self) -> Duration {
        (self.rtt / 20).max(Duration::from_micros(1))
    }

    /// From the length of a packet to its length on the link.
    pub(super) fn on_link(&self, size: u64) -> u64 {
        let size = size.saturating_add_signed(self.overhead.into()).max(self.mpu.get());
        self.framing.applied(size)
    }

    /// `sch->limit` packets of the largest size, in the worst case.
    pub(super) fn memory_limit(&self) -> u64 {
        const MOST_PACKETS: u64 = 10_240;
        let ceiling = MOST_PACKETS * DEFAULT_MTU.get();
        let wanted = match (self.memory, self.bandwidth) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// tc-cake(8), "Overhead compensation parameters".
    #[test]
    fn a_packet_on_the_link_is_larger_by_what_carries_it() {
        let of = |overhead, mpu, framing| CakeConfig {
            overhead,
            mpu: Bytes::new(mpu),
            framing,
            ..CakeConfig::default()
        };
        let plain = of(18, 64, Framing::Noatm);
        assert_eq!([plain.on_link(20), plain.on_link(46), plain.on_link(1_500)], [64, 64, 1_518]);
        let atm = of(0, 0, Framing::Atm);
        assert_eq!([atm.on_link(1), atm.on_link(48), atm.on_link(49)], [53, 53, 106]);
        let ptm = of(0, 0, Framing::Ptm);
        assert_eq!([ptm.on_link(64), ptm.on_link(65)], [65, 67]);
        let negative = of(-14, 0, Framing::Noatm);
        assert_eq!([negative.on_link(1_514), negative.on_link(3)], [1_500, 0]);
    }
}
