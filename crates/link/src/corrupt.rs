//! Bit errors that no lower layer repairs.

use taut_core::{LinkEvent, Packet, Probability};

use crate::Luck;

/// Corrupts packets: flips one bit of the stored payload, at a place drawn uniformly, sets `meta.corrupted` and
/// reports [`LinkEvent::Corrupted`].
///
/// A packet without stored payload is only flagged: the bit is one of its headers or of the zeros nobody stored.
/// Draws two numbers for every packet.
#[derive(Clone, Debug)]
pub struct Corrupt {
    probability: Probability,
    luck: Luck,
}

impl Corrupt {
    /// Corrupts each packet with `probability`, independently.
    pub fn new(probability: Probability, luck: impl Into<Luck>) -> Self {
        Self { probability, luck: luck.into() }
    }

    #[inline]
    pub(crate) fn touch(&mut self, packet: &mut Packet, events: &mut Vec<LinkEvent>) {
        let rng = self.luck.of(packet.meta.sent);
        let corrupts = self.probability.sample(rng);
        let bit = rng.below(packet.payload.len() as u64 * 8);
        if !corrupts {
            return;
        }
        if let Some(byte) = packet.payload.get_mut((bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
        }
        packet.meta.corrupted = true;
        events.push(LinkEvent::Corrupted { meta: packet.meta });
    }
}
