//! CAKE's shaper: how long a packet takes, and when the next one may go.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::{Bitrate, Time};

/// What the link adds to a packet in cells or words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// Nothing.
    #[default]
    Noatm,
    /// ATM: cells of 53 bytes that carry 48 each.
    Atm,
    /// PTM: one byte for every 64, or part of them.
    Ptm,
}

impl Framing {
    /// What is sent for so many bytes.
    pub(super) fn applied(self, size: u64) -> u64 {
        match self {
            Self::Noatm => size,
            Self::Atm => size.div_ceil(48) * 53,
            Self::Ptm => size + size.div_ceil(64),
        }
    }
}

/// Nanoseconds a byte as a binary fraction: `ns >> shift`, with 34 significant bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct PerByte {
    ns: u64,
    shift: u32,
}

impl PerByte {
    /// Below this it would never unwedge.
    const SLOWEST_BYTES_PER_S: u64 = 64;

    pub(super) fn new(bytes_per_s: u64) -> Self {
        let (mut ns, mut shift) = ((1_000_000_000 << 34) / bytes_per_s.max(Self::SLOWEST_BYTES_PER_S), 34);
        while ns >> 34 != 0 {
            ns >>= 1;
            shift -= 1;
        }
        Self { ns, shift }
    }

    pub(super) fn time_for(self, bytes: u64) -> u64 {
        (bytes * self.ns) >> self.shift
    }
}

/// The whole link's shaper. It has no bucket: a virtual clock that goes on by each packet's time, and is set to now
/// when a packet finds everything idle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shaper {
    pub(super) per_byte: PerByte,
    pub(super) next: Time,
    /// Where drops are charged too (`ingress`), a second clock at two thirds of the rate counts only what left, so that
    /// a flood is not all there is to do.
    pub(super) failsafe: Time,
}

impl Shaper {
    pub(super) fn new(bitrate: Bitrate) -> Self {
        let per_byte = PerByte::new(bitrate.as_bps() / 8);
        Self { per_byte, next: Time::ZERO, failsafe: Time::ZERO }
    }

    /// When the next packet may go.
    pub(super) fn opens(&self) -> Time {
        self.next.min(self.failsafe)
    }

    /// A packet arrived and found nothing waiting.
    pub(super) fn idle_until(&mut self, now: Time) {
        if self.next < now {
            self.next = now;
            self.failsafe = now;
        }
    }

    pub(super) fn charge(&mut self, bytes: u64, left: bool) {
        let time = self.per_byte.time_for(bytes);
        self.next += taut_core::Duration::from_nanos(time);
        if left {
            self.failsafe += taut_core::Duration::from_nanos(time + time / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_megabit_are_800_ns_a_byte() {
        assert_eq!(PerByte::new(1_250_000).time_for(1_228), 1_228 * 800);
        assert_eq!(PerByte::new(0).time_for(1), 1_000_000_000 / 64);
    }
}
