//! Random early detection: Floyd and Jacobson, *Random early detection gateways for congestion avoidance*, 1993, as
//! Linux's `sch_red` has it (`tc-red(8)`); `adaptive`: Floyd, Gummadi, Shenker, *Adaptive RED*, 2001.
//!
//! Not gentle: above the upper threshold everything is dropped or marked, as in Linux.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::{
    Backlog, Bitrate, Bytes, DropCause, Duration, LinkEvent, Packet, PacketMeta, Probability, Queue, Rng,
    Time,
};

use super::fifo::{StampedFifo, mark};

/// Drops at the tail with a probability that grows with the average length of the queue.
///
/// Unless set, all follows from the limit as `tc` makes it: `limit 400000 avpkt 1000 probability
/// 0.02 bandwidth 10mbit`, and from these `min 33333 max 100000 burst 55`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RedConfig {
    /// At most so many bytes wait. 1B to 100MB.
    pub limit: Bytes,
    /// Nothing is dropped below this average. 1B to 100MB; a third of `max` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Bytes>,
    /// Everything is dropped from this average on. From `min` to 100MB; a quarter of `limit` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Bytes>,
    /// The size of packets for `burst`, and for the time while nothing waits. 1B to 100MB.
    pub avpkt: Bytes,
    /// Packets at once that are let through: what gives the average its inertia. More than `min / avpkt`; (2·min + max) / 3 average packets by
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// Of a drop just below `max`. More than 0.
    pub probability: Probability,
    /// At which rate the average falls while nothing waits.
    pub bandwidth: Bitrate,
    /// Mark packets that can be marked (RFC 3168), rather than drop them.
    pub ecn: bool,
    /// With `ecn`, drop all the same from `max` on.
    pub harddrop: bool,
    /// Moves the probability between 1 % and 50 % so that the average stays halfway between `min` and `max`.
    pub adaptive: bool,
}

impl Default for RedConfig {
    fn default() -> Self {
        Self {
            limit: Bytes::new(400_000),
            min: None,
            max: None,
            avpkt: Bytes::new(1_000),
            burst: None,
            probability: Probability::from_fraction(0.02).unwrap_or(Probability::NEVER),
            bandwidth: Bitrate::from_bps(10_000_000),
            ecn: false,
            harddrop: false,
            adaptive: false,
        }
    }
}

impl RedConfig {
    /// The lower and the upper one.
    fn thresholds(&self) -> (u64, u64) {
        let max = self.max.map_or(self.limit.get() / 4, Bytes::get);
        (self.min.map_or(max / 3, Bytes::get), max)
    }

    /// The average's weight is 2 to the power of minus this: the heaviest with which a burst does not reach `min`
    /// (section 6 of the first paper).
    fn log_weight(&self) -> u32 {
        let (min, max) = self.thresholds();
        let packet = self.avpkt.get();
        let burst = self.burst.unwrap_or((2 * min + max) / (3 * packet));
        let beyond = burst as f64 + 1.0 - min as f64 / packet as f64;
        let fits = |log: &u32| {
            let weight = 1.0 / (1_u64 << log) as f64;
            beyond <= (1.0 - libm::pow(1.0 - weight, burst as f64)) / weight
        };
        (1..31).find(fits).unwrap_or(31)
    }
}

/// Drops at the tail with a probability that grows with the average length of the queue.
///
/// ```
/// use taut_core::{Bitrate, Bytes, Seed};
/// use taut_link::{Bottleneck, Red, RedConfig};
/// let config = RedConfig { limit: Bytes::new(120_000), adaptive: true, ..RedConfig::default() };
/// let queue = Red::new(config, Seed::new(1).stream("uplink/red"));
/// let link = Bottleneck::new(Bitrate::from_bps(10_000_000), queue);
/// # let _ = link;
/// ```
#[derive(Clone, Debug)]
pub struct Red {
    config: RedConfig,
    min: u64,
    max: u64,
    log_weight: u32,
    /// At the upper threshold, in units of 2⁻³².
    probability: u32,
    fifo: StampedFifo,
    /// Bytes, shifted by `log_weight`.
    average: u64,
    /// Packets since the last drop, while the average is between the thresholds.
    count: Option<u64>,
    /// What `count` times the distance to `min` must reach.
    drawn: u64,
    idle_since: Option<Time>,
    next_adaptation: Time,
    rng: Rng,
    stats: RedStats,
}

/// What `tc -s qdisc` shows of a `red`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RedStats {
    /// Dropped, drawn below the upper threshold; a part of `early` in `tc`.
    pub early: u64,
    /// Marked in place of a drop, below the upper threshold or beyond it: in neither of the others.
    pub marked: u64,
    /// Dropped because the average was beyond the upper threshold; the rest of `early` in `tc`.
    pub forced: u64,
    /// Dropped because the queue was full.
    pub pdrop: u64,
    /// Of a drop just below the upper threshold, 0 to 1.
    pub probability: f64,
    /// The average.
    pub average: Bytes,
}

const ONE_PERCENT: u32 = 42_949_673;
const ADAPTATION: Duration = Duration::from_millis(500);

impl Red {
    /// Empty. `rng` draws the packets that are dropped.
    pub fn new(config: RedConfig, rng: Rng) -> Self {
        let avpkt = Bytes::new(config.avpkt.get().clamp(1, 100_000_000));
        let config = RedConfig { avpkt, ..config };
        let (min, max) = config.thresholds();
        Self {
            config,
            min,
            max,
            log_weight: config.log_weight(),
            probability: (config.probability.as_fraction() * 4_294_967_296.0) as u32,
            fifo: StampedFifo::default(),
            average: 0,
            count: None,
            drawn: 0,
            idle_since: Some(Time::ZERO),
            next_adaptation: Time::ZERO + ADAPTATION,
            rng,
            stats: RedStats::default(),
        }
    }

    /// What happened until now.
    pub fn stats(&self) -> RedStats {
        RedStats {
            probability: f64::from(self.probability) / 4_294_967_296.0,
            average: Bytes::new(self.average >> self.log_weight),
            ..self.stats
        }
    }

    /// The average falls while nothing waits as if small packets had found nothing: (1 − w)ᵐ. Linux has a table of this.
    fn average_at(&self, now: Time) -> u64 {
        let Some(since) = self.idle_since else { return self.average };
        let average_packet = self.config.avpkt / self.config.bandwidth;
        let missed = now.saturating_since(since).as_nanos() as f64 / average_packet.as_nanos().max(1) as f64;
        let weight = 1.0 / (1_u64 << self.log_weight) as f64;
        (self.average as f64 * libm::pow(1.0 - weight, missed)) as u64
    }

    fn note_arrival(&mut self, now: Time) {
        self.average = if self.idle_since.is_some() {
            self.average_at(now)
        } else {
            self.average + self.backlog().bytes.get() - (self.average >> self.log_weight)
        };
        self.idle_since = None;
    }

    /// Is this packet drawn? A drop comes after a number of packets that is evenly distributed (section 7), and not a
    /// geometric one.
    fn is_drawn(&mut self, beyond: u64) -> bool {
        let count = self.count.map_or(0, |count| count + 1);
        self.count = Some(count);
        let drawn = count > 0 && beyond * count >= self.drawn;
        if drawn {
            self.count = Some(0);
        }
        if drawn || count == 0 {
            let slope = (u64::from(self.probability) / (self.max - self.min).max(1)).max(1);
            self.drawn = (self.rng.next_u64() >> 32) / slope;
        }
        drawn
    }

    /// Adaptive RED, section 4: additive increase, multiplicative decrease.
    fn adapt_until(&mut self, now: Time) {
        while self.config.adaptive && self.next_adaptation <= now {
            let average = self.average_at(self.next_adaptation) >> self.log_weight;
            let fifth = (self.max - self.min).max(1) / 5;
            if average > self.min + 3 * fifth && self.probability <= 50 * ONE_PERCENT {
                self.probability += ONE_PERCENT.min(self.probability / 4);
            } else if average < self.min + 2 * fifth && self.probability >= ONE_PERCENT {
                self.probability = self.probability / 10 * 9;
            } else if self.idle_since.is_some() && self.probability < ONE_PERCENT {
                // Nothing more happens until a packet comes.
                let missed = (now - self.next_adaptation) / ADAPTATION;
                self.next_adaptation += ADAPTATION * missed;
            }
            self.next_adaptation += ADAPTATION;
        }
    }

    /// May the packet enter, marked or not?
    fn admits(&mut self, packet: &mut Packet, events: &mut Vec<LinkEvent>) -> bool {
        let average = self.average >> self.log_weight;
        let forced = average >= self.max;
        if average < self.min || forced {
            self.count = None;
        }
        if average < self.min || !(forced || self.is_drawn(average - self.min)) {
            return true;
        }
        if self.config.ecn && !(forced && self.config.harddrop) && mark(packet, events) {
            self.stats.marked += 1;
            return true;
        }
        let counter = if forced { &mut self.stats.forced } else { &mut self.stats.early };
        *counter += 1;
        false
    }
}

impl Queue for Red {
    fn enqueue(&mut self, now: Time, mut packet: Packet, events: &mut Vec<LinkEvent>) {
        self.adapt_until(now);
        self.note_arrival(now);
        let cause = if !self.admits(&mut packet, events) {
            DropCause::Aqm
        } else if self.backlog().bytes.get() + packet.meta.size.get() > self.config.limit.get() {
            self.stats.pdrop += 1;
            DropCause::QueueFullBytes
        } else {
            return self.fifo.push(now, packet);
        };
        events.push(LinkEvent::Dropped { meta: packet.meta, cause });
    }

    fn dequeue(&mut self, now: Time, _: &mut Vec<LinkEvent>) -> Option<Packet> {
        self.adapt_until(now);
        let packet = self.fifo.pop().map(|(_, packet)| packet);
        if packet.is_none() {
            self.idle_since = self.idle_since.or(Some(now));
        }
        packet
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn visit(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.fifo.visit(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documented() -> RedConfig {
        let (min, max) = (Some(Bytes::new(30_000)), Some(Bytes::new(90_000)));
        RedConfig { min, max, burst: Some(55), ..RedConfig::default() }
    }

    /// `tc qdisc add … red limit 400000 min 30000 max 90000 avpkt 1000 burst 55` of tc-red(8) gets `ewma 5`, as `tc -d
    /// qdisc show` says.
    #[test]
    fn the_weight_follows_from_the_burst_as_in_tc() {
        assert_eq!(documented().log_weight(), 5);
    }

    #[test]
    fn packets_of_any_size_make_a_weight() {
        for size in [0, 1, 100_000_000, u64::MAX / 2, u64::MAX] {
            let config = RedConfig { avpkt: Bytes::new(size), ..RedConfig::default() };
            let red = Red::new(config, taut_core::Seed::new(1).stream("red"));
            assert!((1..=31).contains(&red.log_weight), "{size}");
        }
    }

    /// Adaptive RED, section 4: up while the average is above the middle, down by a tenth while it is below.
    #[test]
    fn an_adaptive_probability_follows_the_average() {
        let config = RedConfig { adaptive: true, ..documented() };
        let mut red = Red::new(config, taut_core::Seed::new(1).stream("red"));
        let mut now = Time::ZERO;
        let mut probability = vec![red.stats().probability];
        for rate in [2, 0] {
            for _ in 0..5_000 {
                for _ in 0..rate {
                    let meta = PacketMeta { size: Bytes::new(1_000), ..PacketMeta::default() };
                    red.enqueue(now, Packet { meta, payload: Vec::new() }, &mut Vec::new());
                }
                red.dequeue(now, &mut Vec::new());
                now += Duration::from_millis(1);
            }
            probability.push(red.stats().probability);
        }
        assert!(probability[1] > 0.08 && probability[2] < 0.8 * probability[1], "{probability:?}");
    }
}
