//! Packets that exist twice.

use taut_core::{LinkEvent, Packet, Probability, Rng};

/// Duplicates packets: the copy follows its original at once and is reported by [`LinkEvent::Duplicated`].
///
/// Copies share the `id` and differ in `meta.copy`: the *k*-th `Duplicate` of a chain (from 0) adds 2ᵏ, so that all
/// copies made in one chain can be told apart for up to eight of them. Draws one number for every packet.
#[derive(Clone, Debug)]
pub struct Duplicate {
    probability: Probability,
    rng: Rng,
    step: u8,
}

impl Duplicate {
    /// Duplicates each packet with `probability`, independently.
    pub const fn new(probability: Probability, rng: Rng) -> Self {
        Self { probability, rng, step: 1 }
    }

    /// It is the `ordinal`-th of its kind in the chain.
    pub(crate) fn set_ordinal(&mut self, ordinal: usize) {
        self.step = 1 << (ordinal % 8);
    }

    #[inline]
    pub(crate) fn copy_of(&mut self, packet: &Packet, events: &mut Vec<LinkEvent>) -> Option<Packet> {
        if !self.probability.sample(&mut self.rng) {
            return None;
        }
        let mut copy = packet.clone();
        copy.meta.copy = copy.meta.copy.wrapping_add(self.step);
        events.push(LinkEvent::Duplicated { meta: copy.meta });
        Some(copy)
    }
}
