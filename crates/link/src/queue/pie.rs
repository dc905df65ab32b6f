//! Proportional integral controller enhanced: RFC 8033 as Linux's `sch_pie` has it (`tc-pie(8)`), with the delay taken
//! from the packets' own times (`no_dq_rate_estimator`, section 5.2 of the RFC).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::{Backlog, Bytes, DropCause, Duration, LinkEvent, Packet, PacketMeta, Queue, Rng, Time};

use super::codel::DEFAULT_MTU;
use super::fifo::{StampedFifo, mark};

/// Drops at the tail with a probability that follows the delay and its change.
///
/// As Linux 6.1 comes: `limit 1000p target 15ms tupdate 15ms alpha 2 beta 20 noecn nobytemode`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PieConfig {
    /// The delay that is aimed at. 1us to 4s.
    pub target: Duration,
    /// How often the probability is updated. 1ms to 4s; Linux rounds it up to its timer's tick.
    pub tupdate: Duration,
    /// At most this many packets wait. From 1.
    pub limit: u64,
    /// How much the distance to the target changes the probability, in sixteenths a second of delay. 0 to 32.
    pub alpha: u32,
    /// How much a change of the delay does. 0 to 32.
    pub beta: u32,
    /// Mark packets that can be marked (RFC 3168) while the probability is at most a tenth, rather than drop them.
    pub ecn: bool,
    /// Small packets are dropped less often, in proportion to their size.
    pub bytemode: bool,
}

impl Default for PieConfig {
    fn default() -> Self {
        let period = Duration::from_millis(15);
        Self {
            target: period,
            tupdate: period,
            limit: 1_000,
            alpha: 2,
            beta: 20,
            ecn: false,
            bytemode: false,
        }
    }
}

/// Drops at the tail with a probability that follows the delay and its change.
///
/// ```
/// use taut_core::{Bitrate, Seed};
/// use taut_link::{Bottleneck, Pie, PieConfig};
/// let queue = Pie::new(PieConfig { ecn: true, ..PieConfig::default() }, Seed::new(1).stream("uplink/pie"));
/// let link = Bottleneck::new(Bitrate::from_bps(10_000_000), queue);
/// # let _ = link;
/// ```
#[derive(Clone, Debug)]
pub struct Pie {
    config: PieConfig,
    /// In units of 64 ns, as Linux's packet scheduler counts.
    target: u64,
    mtu: u64,
    fifo: StampedFifo,
    rng: Rng,
    next_update: Time,
    /// In units of 2⁻⁵⁶.
    probability: u64,
    /// What the probabilities since the last drop add up to.
    accumulated: u64,
    /// In units of 64 ns, as Linux's packet scheduler counts.
    delay: u64,
    delay_before: u64,
    burst_allowance: u64,
    last_dequeue: Option<u64>,
    stats: PieStats,
}

/// What `tc -s qdisc` shows of a `pie`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PieStats {
    /// Of a drop, 0 to 1.
    pub probability: f64,
    /// The delay of the packet that left last, or 0 if it left nothing behind.
    pub delay: Duration,
    /// Packets taken in.
    pub packets_in: u64,
    /// Packets dropped for any reason.
    pub dropped: u64,
    /// Of those, because the limit was reached.
    pub overlimit: u64,
    /// The longest queue, in packets.
    pub maxq: u64,
    /// Packets marked in place of a drop.
    pub ecn_mark: u64,
}

/// Certainty, in the units of probabilities.
const MAX_PROBABILITY: u64 = u64::MAX >> 8;

/// Linux's packet scheduler counts time in 64 ns.
const fn ticks(duration: Duration) -> u64 {
    duration.as_nanos() >> 6
}

const TICKS_PER_S: u64 = ticks(Duration::from_secs(1));
/// Section 4.4: for so long a queue that was empty may grow.
const MAX_BURST: u64 = ticks(Duration::from_millis(150));

impl Pie {
    /// Empty. `rng` draws the packets that are dropped.
    pub fn new(config: PieConfig, rng: Rng) -> Self {
        let tupdate = config.tupdate.max(Duration::from_millis(1));
        let config = PieConfig { tupdate, alpha: config.alpha.min(32), beta: config.beta.min(32), ..config };
        Self {
            target: ticks(config.target),
            mtu: DEFAULT_MTU.get(),
            config,
            fifo: StampedFifo::default(),
            rng,
            next_update: Time::ZERO + config.tupdate,
            probability: 0,
            accumulated: 0,
            delay: 0,
            delay_before: 0,
            burst_allowance: MAX_BURST,
            last_dequeue: None,
            stats: PieStats::default(),
        }
    }

    /// The largest packet is so long: nothing is dropped while less than twice this waits. Default: 1514 B, as on an Ethernet device.
    pub fn mtu(mut self, mtu: Bytes) -> Self {
        self.mtu = mtu.get().max(1);
        self
    }

    /// What happened until now.
    pub fn stats(&self) -> PieStats {
        PieStats {
            probability: self.probability as f64 / MAX_PROBABILITY as f64,
            delay: Duration::from_nanos(self.delay << 6),
            ..self.stats
        }
    }

    /// Section 4.1, with the derandomisation of section 5.4.
    fn drops_early(&mut self, size: u64) -> bool {
        let calm = self.delay < self.target / 2 && self.probability < MAX_PROBABILITY / 5;
        if self.burst_allowance > 0 || calm || self.fifo.backlog().bytes.get() < 2 * self.mtu {
            return false;
        }
        let probability = if self.config.bytemode && size <= self.mtu {
            size * (self.probability / self.mtu)
        } else {
            self.probability
        };
        self.accumulated = if probability == 0 { 0 } else { self.accumulated.saturating_add(probability) };
        if self.accumulated < MAX_PROBABILITY / 100 * 85 {
            return false;
        }
        if self.accumulated >= MAX_PROBABILITY / 2 * 17 {
            return true;
        }
        let drops = self.rng.next_u64() >> 8 < probability;
        if drops {
            self.accumulated = 0;
        }
        drops
    }

    /// Does the updates that are due. Nothing happened between them, or it would have done them.
    fn update_until(&mut self, now: Time) {
        while self.next_update <= now {
            let at_rest = self.probability == 0 && self.delay == 0 && self.delay_before == 0;
            if at_rest && self.fifo.backlog().packets == 0 {
                self.restart();
                let missed = (now - self.next_update) / self.config.tupdate + 1;
                self.next_update += self.config.tupdate * missed;
                return;
            }
            self.update();
            self.next_update += self.config.tupdate;
        }
    }

    /// Section 4.2.
    fn update(&mut self) {
        let backlog = self.fifo.backlog().bytes.get();
        let unknown = self.delay == 0 && backlog != 0;
        let (delay, before) = (self.delay as i64, self.delay_before as i64);
        let change = self
            .weight(self.config.alpha)
            .wrapping_mul(delay - self.target as i64)
            .wrapping_add(self.weight(self.config.beta).wrapping_mul(delay - before));
        let probability = self.changed_by(change);
        // Section 4.2, last step: it decays when there is no delay for two updates.
        let decays = delay == 0 && before == 0 && !unknown;
        self.probability = if decays { probability - probability / 64 } else { probability };
        let half = self.target / 2;
        if self.delay < half && self.delay_before < half && self.probability == 0 {
            self.restart();
        }
        self.delay_before = self.delay;
    }

    fn changed_by(&self, mut change: i64) -> u64 {
        let percent = (MAX_PROBABILITY / 100) as i64;
        // Section 5.5: no more than two percent at once …
        if change > (MAX_PROBABILITY / 50) as i64 && self.probability >= MAX_PROBABILITY / 10 {
            change = 2 * percent;
        }
        // … but two more at delays beyond a quarter of a second.
        if self.delay > ticks(Duration::from_millis(250)) {
            change += (MAX_PROBABILITY / 50) as i64;
        }
        match self.probability.checked_add_signed(change) {
            Some(probability) => probability,
            None if change > 0 => MAX_PROBABILITY,
            None => 0,
        }
    }

    /// Sixteenths a second, as probability a tick; less while the probability is small, in steps of ten (section 4.2).
    fn weight(&self, sixteenths: u32) -> i64 {
        let mut weight = (u64::from(sixteenths) * (MAX_PROBABILITY / TICKS_PER_S)) >> 4;
        if self.probability < MAX_PROBABILITY / 10 {
            weight >>= 1;
            let mut fraction = 100;
            while fraction <= 1_000_000 && self.probability < MAX_PROBABILITY / fraction {
                weight >>= 2;
                fraction *= 10;
            }
        }
        weight as i64
    }

    fn restart(&mut self) {
        self.burst_allowance = MAX_BURST;
        self.last_dequeue = None;
        self.accumulated = 0;
    }

    fn refuse(&mut self, meta: PacketMeta, cause: DropCause, events: &mut Vec<LinkEvent>) {
        self.stats.dropped += 1;
        self.accumulated = 0;
        events.push(LinkEvent::Dropped { meta, cause });
    }
}

impl Queue for Pie {
    fn enqueue(&mut self, now: Time, mut packet: Packet, events: &mut Vec<LinkEvent>) {
        self.update_until(now);
        if self.fifo.backlog().packets >= self.config.limit {
            self.stats.overlimit += 1;
            return self.refuse(packet.meta, DropCause::QueueFullPackets, events);
        }
        if self.drops_early(packet.meta.size.get()) {
            let may_mark = self.config.ecn && self.probability <= MAX_PROBABILITY / 10;
            if !(may_mark && mark(&mut packet, events)) {
                return self.refuse(packet.meta, DropCause::Aqm, events);
            }
            self.stats.ecn_mark += 1;
        }
        self.stats.packets_in += 1;
        self.stats.maxq = self.stats.maxq.max(self.fifo.backlog().packets);
        self.fifo.push(now, packet);
    }

    fn dequeue(&mut self, now: Time, _: &mut Vec<LinkEvent>) -> Option<Packet> {
        self.update_until(now);
        let (enqueued, packet) = self.fifo.pop()?;
        let now = now.as_nanos() >> 6;
        self.delay = match self.fifo.backlog().packets {
            0 => 0,
            _ => now - (enqueued.as_nanos() >> 6),
        };
        let since = now - self.last_dequeue.replace(now).unwrap_or(now);
        self.burst_allowance = self.burst_allowance.saturating_sub(since);
        Some(packet)
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn visit(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.fifo.visit(visit);
    }
}
