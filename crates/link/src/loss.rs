//! Packets that the medium loses.

use taut_core::{DropCause, LinkEvent, PacketMeta, Probability, Rng, Time};

use crate::{Luck, Schedule};

/// Drops packets ([`DropCause::Loss`]): independently, or in bursts.
///
/// ```
/// use taut_core::Seed;
/// use taut_link::{GilbertElliott, Loss};
/// // Five per cent of the packets, five in a row in the mean.
/// let model = GilbertElliott::simple("1%".parse()?, "20%".parse()?);
/// let loss = Loss::gilbert_elliott(model, Seed::new(7).stream("uplink/loss"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Loss {
    model: Model,
}

#[derive(Clone, Debug)]
enum Model {
    Bernoulli { probability: Schedule<Probability>, luck: Luck },
    GilbertElliott { parameters: Schedule<GilbertElliott>, bad: bool, rng: Rng },
}

/// The parameters of the Gilbert–Elliott model, named as in `tc netem loss gemodel p r 1-h 1-k`.
///
/// A two-state Markov chain, good and bad, that makes one step for every packet. A packet is lost with the probability
/// of the state it meets; then the chain steps (the order of Linux' `sch_netem.c`). It begins in the good state.
///
/// Sources: Gilbert, *Capacity of a burst-noise channel*, Bell System Technical Journal 39, 1960; Elliott, *Estimates
/// of error rates for codes on burst-noise channels*, ibid. 42, 1963; `tc-netem(8)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GilbertElliott {
    /// *p*: from good to bad.
    pub p: Probability,
    /// *r*: from bad to good.
    pub r: Probability,
    /// *1 − h*: loss in the bad state.
    pub loss_in_bad: Probability,
    /// *1 − k*: loss in the good state.
    pub loss_in_good: Probability,
}

impl Loss {
    /// Loses each packet with `probability`, independently. Draws one number for every packet.
    pub fn bernoulli(probability: impl Into<Schedule<Probability>>, luck: impl Into<Luck>) -> Self {
        Self { model: Model::Bernoulli { probability: probability.into(), luck: luck.into() } }
    }

    /// Loses packets in bursts. Draws two numbers for every packet.
    pub fn gilbert_elliott(parameters: impl Into<Schedule<GilbertElliott>>, rng: Rng) -> Self {
        Self { model: Model::GilbertElliott { parameters: parameters.into(), bad: false, rng } }
    }

    /// Drops the packet?
    #[inline]
    pub(crate) fn takes(&mut self, at: Time, meta: &PacketMeta, events: &mut Vec<LinkEvent>) -> bool {
        let lost = match &mut self.model {
            Model::Bernoulli { probability, luck } => probability.at(at).sample(luck.of(meta.sent)),
            Model::GilbertElliott { parameters, bad, rng } => parameters.at(at).step(bad, rng),
        };
        if lost {
            events.push(LinkEvent::Dropped { meta: *meta, cause: DropCause::Loss });
        }
        lost
    }
}

impl GilbertElliott {
    /// The simple Gilbert model, `gemodel p r`: everything is lost in the bad state and nothing in the good one. Bursts
    /// have the mean length 1/*r*.
    pub const fn simple(p: Probability, r: Probability) -> Self {
        Self { p, r, loss_in_bad: Probability::ALWAYS, loss_in_good: Probability::NEVER }
    }

    /// The share of packets lost in the long run: (*p*·(1 − *h*) + *r*·(1 − *k*)) / (*p* + *r*).
    pub fn loss_rate(&self) -> f64 {
        let [p, r, bad, good] =
            [self.p, self.r, self.loss_in_bad, self.loss_in_good].map(Probability::as_fraction);
        // With p = r = 0 the chain stays where it begins, in the good state.
        if p + r > 0.0 { (p * bad + r * good) / (p + r) } else { good }
    }

    #[inline]
    fn step(&self, bad: &mut bool, rng: &mut Rng) -> bool {
        let (loss, leave) = if *bad { (self.loss_in_bad, self.r) } else { (self.loss_in_good, self.p) };
        let lost = loss.sample(rng);
        *bad ^= leave.sample(rng);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_that_never_moves_loses_as_in_the_good_state() {
        let good = Probability::from_fraction(0.1).unwrap();
        let model = GilbertElliott {
            p: Probability::NEVER,
            r: Probability::NEVER,
            loss_in_bad: Probability::ALWAYS,
            loss_in_good: good,
        };
        assert!((model.loss_rate() - 0.1).abs() < 1e-9);
    }
}
