//! Which tin a packet goes into, by its code point, and what share each tin has (tc-cake(8), "Priority queue
//! parameters"; classes of RFC 4594 and RFC 8622).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many tins there are, and what goes into which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tins {
    /// One for everything.
    Besteffort,
    /// Bulk, best effort, voice.
    #[default]
    Diffserv3,
    /// Bulk, best effort, video, voice.
    Diffserv4,
    /// Background, high throughput, best effort, video streaming, low-latency transactions, interactive shell, minimum
    /// latency, network control.
    Diffserv8,
}

/// A tin's share of a rate, and its weight where there is no rate to share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) bytes_per_s: u64,
    pub(super) quantum: i64,
}

impl Tins {
    /// In the order of the tins' numbers; the last one has the highest priority.
    pub(super) fn shares(self, bytes_per_s: u64) -> Vec<Share> {
        let of = |shift: u32| Share { bytes_per_s: bytes_per_s >> shift, quantum: 1_024 >> shift };
        match self {
            Self::Besteffort => vec![Share { bytes_per_s, quantum: 65_535 }],
            // Best effort may use everything; bulk, a sixteenth.
            Self::Diffserv3 => vec![of(0), of(4), of(2)],
            Self::Diffserv4 => vec![of(0), of(4), of(1), of(2)],
            // Each seven eighths of the one below.
            Self::Diffserv8 => {
                let first = Share { bytes_per_s, quantum: 256 };
                let below = |share: &Share| {
                    Some(Share { bytes_per_s: share.bytes_per_s * 7 / 8, quantum: share.quantum * 7 / 8 })
                };
                std::iter::successors(Some(first), below).take(8).collect()
            }
        }
    }

    /// The number of the tin for a code point.
    pub(super) fn of(self, dscp: u8) -> usize {
        use class::*;
        match (self, dscp) {
            (Self::Besteffort, _) => 0,
            (Self::Diffserv3 | Self::Diffserv4, LE | CS1) => 1,
            (Self::Diffserv3, TOS4 | VA | EF | CS6 | CS7) => 2,
            (Self::Diffserv4, TOS4 | CS2 | CS3) => 2,
            (Self::Diffserv4, _) if is_af(2, dscp) || is_af(3, dscp) || is_af(4, dscp) => 2,
            (Self::Diffserv4, CS4 | CS5 | VA | EF | CS6 | CS7) => 3,
            (Self::Diffserv3 | Self::Diffserv4, _) => 0,
            (Self::Diffserv8, LE) => 0,
            (Self::Diffserv8, TOS2 | CS1) => 1,
            (Self::Diffserv8, _) if is_af(1, dscp) => 1,
            (Self::Diffserv8, CS3) => 3,
            (Self::Diffserv8, _) if is_af(3, dscp) || is_af(4, dscp) => 3,
            (Self::Diffserv8, TOS4) => 4,
            (Self::Diffserv8, _) if is_af(2, dscp) => 4,
            (Self::Diffserv8, CS2) => 5,
            (Self::Diffserv8, CS4 | CS5 | VA | EF) => 6,
            (Self::Diffserv8, CS6 | CS7) => 7,
            (Self::Diffserv8, _) => 2,
        }
    }
}

/// Assured forwarding (RFC 2597 section 6): class `x`, any of the three drop precedences.
fn is_af(x: u8, dscp: u8) -> bool {
    dscp >> 3 == x && matches!(dscp & 0b111, 0b010 | 0b100 | 0b110)
}

/// Code points by their names; TOS2 and TOS4 are bits of RFC 1349: throughput, delay.
mod class {
    pub(super) const LE: u8 = 1;
    pub(super) const TOS2: u8 = 2;
    pub(super) const TOS4: u8 = 4;
    pub(super) const CS1: u8 = 8;
    pub(super) const CS2: u8 = 16;
    pub(super) const CS3: u8 = 24;
    pub(super) const CS4: u8 = 32;
    pub(super) const CS5: u8 = 40;
    pub(super) const VA: u8 = 44;
    pub(super) const EF: u8 = 46;
    pub(super) const CS6: u8 = 48;
    pub(super) const CS7: u8 = 56;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tc-cake(8), the list of code points under each of `diffserv3`, `diffserv4` and `diffserv8`.
    #[test]
    fn code_points_go_into_the_tins_of_the_manual() {
        let tins = |tins: Tins| [0, 1, 8, 10, 18, 26, 34, 40, 44, 46, 48].map(|dscp| tins.of(dscp));
        assert_eq!(tins(Tins::Besteffort), [0; 11]);
        assert_eq!(tins(Tins::Diffserv3), [0, 1, 1, 0, 0, 0, 0, 0, 2, 2, 2]);
        assert_eq!(tins(Tins::Diffserv4), [0, 1, 1, 0, 2, 2, 2, 3, 3, 3, 3]);
        assert_eq!(tins(Tins::Diffserv8), [2, 0, 1, 1, 4, 3, 3, 6, 6, 6, 7]);
    }

    #[test]
    fn every_code_point_has_a_tin() {
        for tins in [Tins::Besteffort, Tins::Diffserv3, Tins::Diffserv4, Tins::Diffserv8] {
            let count = tins.shares(1_000).len();
            assert!((0..64).all(|dscp| tins.of(dscp) < count), "{tins:?}");
        }
    }
}
