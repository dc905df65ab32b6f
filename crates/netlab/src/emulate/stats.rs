//! What an emulator did, and how late it was.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use taut_core::{DropCause, Duration};

/// Both directions.
#[derive(Clone, Debug)]
pub struct EmulatorStats {
    /// From the first device to the second.
    pub up: DirectionStats,
    /// From the second device to the first.
    pub down: DirectionStats,
    /// How long it has run.
    pub elapsed: Duration,
    /// Times that it slept.
    pub sleeps: u64,
    /// CPU time of its thread, spinning included.
    pub cpu: Duration,
}

/// One direction. `entered + duplicated = left + refused + dropped - kept_out + what is inside`.
#[derive(Clone, Debug)]
pub struct DirectionStats {
    /// Packets that the link was given.
    pub entered: u64,
    /// Their bytes.
    pub entered_bytes: u64,
    /// Packets that were written.
    pub left: u64,
    /// Their bytes.
    pub left_bytes: u64,
    /// Of the packets that entered, how many the link dropped, by cause. [`DropCause::QueueFullBytes`] also counts those
    /// that were [kept out](Self::kept_out).
    pub dropped: BTreeMap<DropCause, u64>,
    /// Packets for which [`Emulator::limit`](super::Emulator::limit) left no room. They did not enter.
    pub kept_out: u64,
    /// Packets that were inside the link when it was stopped; 0 until then.
    pub held: u64,
    /// Copies that the link made.
    pub duplicated: u64,
    /// Packets in which the link flipped a bit.
    pub corrupted: u64,
    /// Packets that a queue marked with Congestion Experienced.
    pub marked: u64,
    /// Packets that the kernel did not take: with a flipped bit in the wrong place, they are no IP packets any more. Of a relay also those
    /// of a client beyond the most that have a socket, and those for which a socket's buffer had no room.
    pub refused: u64,
    /// Errors that the network told a relay's sockets of packets that left: nobody listens there, or one is too long for the path.
    pub errors: u64,
    /// Packets that are no IP packets, from the sender already. They did not enter.
    pub malformed: u64,
    /// Packets that the sending namespace's device dropped because the emulator did not keep up. They did not enter.
    pub overrun: u64,
    /// What the link's queues count besides, by name ([`Link::counters`](taut_core::Link::counters)).
    pub queue: Vec<(String, u64)>,
    /// Time from when a packet was due to when it was written, in nanoseconds: two digits are exact, at most 1 s.
    pub lateness: Histogram<u64>,
}

impl DirectionStats {
    /// The longest lateness that is told apart, in nanoseconds.
    const LONGEST: u64 = 1_000_000_000;

    pub(crate) fn new() -> Self {
        Self {
            entered: 0,
            entered_bytes: 0,
            left: 0,
            left_bytes: 0,
            dropped: BTreeMap::new(),
            kept_out: 0,
            held: 0,
            duplicated: 0,
            corrupted: 0,
            marked: 0,
            refused: 0,
            errors: 0,
            malformed: 0,
            overrun: 0,
            queue: Vec::new(),
            lateness: Histogram::new_with_bounds(1, Self::LONGEST, 2).expect("the bounds are in order"),
        }
    }

    pub(super) fn drop(&mut self, cause: DropCause) {
        *self.dropped.entry(cause).or_default() += 1;
    }

    /// Lateness that `percentile` of the packets stay within, 0 to 100.
    pub fn lateness_at(&self, percentile: f64) -> Duration {
        Duration::from_nanos(self.lateness.value_at_percentile(percentile))
    }

    pub(super) fn late(&mut self, lateness: Duration) {
        self.lateness.saturating_record(lateness.as_nanos().max(1));
    }
}
