//! Delay that varies from packet to packet.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use taut_core::{DropCause, Duration, LinkEvent, Packet, PacketMeta, Rng, Time};

use crate::delay::DelayLine;
use crate::distribution::{normal_fraction, normal_quantile};
use crate::stage::Stage;
use crate::{Delay, Distribution, Luck, Schedule};

/// Gives every packet out later by a random length.
///
/// The *n*-th packet is delayed by
///
/// > max(0, mean + spread · F⁻¹(Φ(xₙ))),  xₙ = ρ·xₙ₋₁ + √(1 − ρ²)·Zₙ
///
/// with F⁻¹ the [`Distribution`], Φ the standard normal distribution function, ρ the correlation and Zₙ independent and
/// standard normal. A result below zero is no delay at all, which raises the mean: keep the mean several
/// spreads above zero where that matters, and put the propagation delay in here instead of in a [`Delay`] before it.
///
/// A Gaussian copula: packets are distributed alike whatever the correlation is. ρ is that of the normal numbers, and so of
/// normal delays; uniform ones correlate by 6/π·asin(ρ/2), which is at most 0.02 less, Pareto's by less. netem correlates by a
/// mean of uniform numbers, of which its tables then take the low bits: nothing of the correlation is left.
///
/// Mean and spread are those in force when the packet enters. Draws one number for every packet.
///
/// ```
/// use taut_core::{Duration, Seed};
/// use taut_link::{Distribution, Jitter, JitterConfig};
/// let config = JitterConfig::new(Duration::from_millis(3))
///     .mean(Duration::from_millis(20))
///     .correlation(0.25)
///     .distribution(Distribution::Pareto)
///     .reorder(true);
/// let jitter = Jitter::new(config, Seed::new(7).stream("uplink/jitter"))?;
/// # Ok::<(), taut_link::JitterError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Jitter {
    config: JitterConfig,
    luck: Luck,
    /// Standard normal.
    x: f64,
    inside: Inside,
}

/// The parameters of [`Jitter`].
#[derive(Clone, Debug)]
pub struct JitterConfig {
    mean: Schedule<Duration>,
    spread: Schedule<Duration>,
    distribution: Distribution,
    correlation: f64,
    reorder: bool,
    limit: usize,
}

/// Jitter that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum JitterError {
    /// Not a correlation.
    #[error("a correlation of {0} is not possible; it must be from 0 to 1")]
    Correlation(f64),
}

impl JitterConfig {
    /// Jitter of this `spread`, the factor of the [`Distribution`]; constant or a [`Schedule`].
    pub fn new(spread: impl Into<Schedule<Duration>>) -> Self {
        Self {
            mean: Schedule::constant(Duration::ZERO),
            spread: spread.into(),
            distribution: Distribution::default(),
            correlation: 0.0,
            reorder: false,
            limit: Delay::DEFAULT_LIMIT,
        }
    }

    /// What the spread goes around; constant or a [`Schedule`]. Default: 0, so that about half of the packets are not
    /// delayed.
    pub fn mean(mut self, mean: impl Into<Schedule<Duration>>) -> Self {
        self.mean = mean.into();
        self
    }

    /// The shape. Default: uniform.
    pub const fn distribution(mut self, distribution: Distribution) -> Self {
        self.distribution = distribution;
        self
    }

    /// ρ, from 0 to 1: how much of a packet's normal number is its predecessor's. Default: 0.
    pub const fn correlation(mut self, correlation: f64) -> Self {
        self.correlation = correlation;
        self
    }

    /// May packets overtake each other? When not, one leaves together with its predecessor at the earliest. Default:
    /// no. With reordering a packet costs a logarithm of the packets inside.
    pub const fn reorder(mut self, reorder: bool) -> Self {
        self.reorder = reorder;
        self
    }

    /// Packets held at most; one that enters while as many are inside is dropped ([`DropCause::DelayFull`]). Default:
    /// [`Delay::DEFAULT_LIMIT`].
    pub const fn limit(mut self, packets: usize) -> Self {
        self.limit = packets;
        self
    }
}

impl Jitter {
    /// Jitter as configured.
    ///
    /// # Errors
    /// When the correlation is out of its range.
    pub fn new(config: JitterConfig, luck: impl Into<Luck>) -> Result<Self, JitterError> {
        if !(0.0..=1.0).contains(&config.correlation) {
            return Err(JitterError::Correlation(config.correlation));
        }
        let inside = if config.reorder {
            Inside::Any(AnyOrder::new(config.limit))
        } else {
            Inside::InOrder(DelayLine::new(config.limit))
        };
        let mut luck = luck.into();
        let x = normal_quantile(open_fraction(luck.next()));
        Ok(Self { config, luck, x, inside })
    }

    fn draw(&mut self, at: Time, sent: Time) -> Duration {
        let rho = self.config.correlation;
        let mut u = open_fraction(self.luck.of(sent));
        if rho > 0.0 {
            self.x = rho * self.x + (1.0 - rho * rho).sqrt() * normal_quantile(u);
            u = normal_fraction(self.x);
        }
        let spread = self.config.spread.at(at).as_nanos() as f64;
        let offset = (spread * self.config.distribution.quantile(u)).round() as i64;
        Duration::from_nanos(self.config.mean.at(at).as_nanos().saturating_add_signed(offset))
    }
}

impl Stage for Jitter {
    fn push(&mut self, at: Time, packet: Packet, events: &mut Vec<LinkEvent>) {
        let departure = at + self.draw(at, packet.meta.sent);
        match &mut self.inside {
            Inside::InOrder(line) => line.push(departure, packet, events),
            Inside::Any(heap) => heap.push(departure, packet, events),
        }
    }

    #[inline]
    fn due(&self) -> Time {
        match &self.inside {
            Inside::InOrder(line) => line.due(),
            Inside::Any(heap) => heap.due(),
        }
    }

    #[inline]
    fn step(&mut self, _: &mut Vec<LinkEvent>) -> Option<Packet> {
        match &mut self.inside {
            Inside::InOrder(line) => line.pop(),
            Inside::Any(heap) => heap.pop(),
        }
    }

    fn why(&self) -> &'static str {
        "jittered"
    }

    fn visit_held(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        match &self.inside {
            Inside::InOrder(line) => line.visit(visit),
            Inside::Any(heap) => heap.visit(visit),
        }
    }
}

/// Uniform in (0, 1), both ends excluded, because quantiles may be infinite there.
fn open_fraction(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

#[derive(Clone, Debug)]
enum Inside {
    InOrder(DelayLine),
    Any(AnyOrder),
}

/// Packets by departure; those that leave together in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnyOrder {
    heap: BinaryHeap<Reverse<Departure>>,
    entered: u64,
    limit: usize,
}

impl AnyOrder {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    pub(crate) fn push(&mut self, at: Time, packet: Packet, events: &mut Vec<LinkEvent>) {
        if self.heap.len() >= self.limit {
            events.push(LinkEvent::Dropped { meta: packet.meta, cause: DropCause::DelayFull });
            return;
        }
        self.heap.push(Reverse(Departure { at, ordinal: self.entered, packet }));
        self.entered += 1;
    }

    /// The packet that leaves at `due`.
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        let Reverse(Departure { packet, .. }) = self.heap.pop()?;
        Some(packet)
    }

    pub(crate) fn due(&self) -> Time {
        self.heap.peek().map_or(Time::MAX, |Reverse(departure)| departure.at)
    }

    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.heap.iter().for_each(|Reverse(departure)| visit(&departure.packet.meta));
    }
}

#[derive(Clone, Debug)]
struct Departure {
    at: Time,
    ordinal: u64,
    packet: Packet,
}

impl Ord for Departure {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.ordinal).cmp(&(other.at, other.ordinal))
    }
}

impl PartialOrd for Departure {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Departure {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Departure {}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Seed;

    #[test]
    fn an_impossible_correlation_is_refused_and_says_what_is_allowed() {
        for rho in [-0.1, 1.1, f64::NAN] {
            let config = JitterConfig::new(Duration::from_millis(1)).correlation(rho);
            let error = Jitter::new(config, Seed::new(1).stream("jitter")).unwrap_err();
            assert!(error.to_string().ends_with("it must be from 0 to 1"));
        }
    }
}
