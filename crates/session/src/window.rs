//! Which sequence numbers have arrived.

pub(crate) use taut_core::Sighting;
use taut_core::nearest;

/// Of the last 1024.
pub(crate) type Window = taut_core::ReplayWindow<17>;

/// The number of which a frame has the low 32 bits; before anything is known, these.
pub(crate) fn completed(known: u64, low: u32) -> u64 {
    nearest(known, low, 32).unwrap_or(low.into())
}
