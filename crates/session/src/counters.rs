//! What happened to states, counted by stream and by cause.

use std::collections::BTreeMap;

use serde::Serialize;
use taut_core::DropCause;

use crate::state::Priority;

/// Logical streams: 0 emergency, 1 high, 2 and 3 normal in turn.
pub(crate) const STREAMS: usize = 4;

/// Drops by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drops([u64; DropCause::ALL.len()]);

impl Drops {
    pub(crate) fn add(&mut self, cause: DropCause) {
        self.0[cause as usize] += 1;
    }

    pub(crate) fn of(&self, cause: DropCause) -> u64 {
        self.0[cause as usize]
    }

    /// Those that happened, by name.
    pub(crate) fn by_name(&self) -> BTreeMap<&'static str, u64> {
        let counts = DropCause::ALL.iter().map(|cause| (cause.name(), self.of(*cause)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

/// One stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stream {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    pub(crate) late: u64,
    pub(crate) duplicate: u64,
    pub(crate) reordered: u64,
    pub(crate) dropped: Drops,
}

/// All four, and what belongs to none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) streams: [Stream; STREAMS],
    /// Datagrams and frames that could not be read or were somebody else's.
    pub(crate) refused: Drops,
}

impl Counters {
    pub(crate) fn stream(&mut self, stream: u8) -> &mut Stream {
        &mut self.streams[usize::from(stream) % STREAMS]
    }

    pub(crate) fn sum(&self, of: impl Fn(&Stream) -> u64) -> u64 {
        self.streams.iter().map(of).sum()
    }

    /// Drops of this cause, whatever was dropped.
    pub(crate) fn dropped(&self, cause: DropCause) -> u64 {
        self.sum(|stream| stream.dropped.of(cause)) + self.refused.of(cause)
    }

    pub(crate) fn by_name(&self) -> BTreeMap<&'static str, u64> {
        let counts = DropCause::ALL.iter().map(|cause| (cause.name(), self.dropped(*cause)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    pub(crate) fn summaries(&self) -> [StreamSummary; STREAMS] {
        let names = ["emergency", "high", "normal", "normal"];
        std::array::from_fn(|i| {
            let stream = &self.streams[i];
            StreamSummary {
                name: names[i],
                sent: stream.sent,
                received: stream.received,
                delivered: stream.delivered,
                lost: stream.lost,
                late: stream.late,
                duplicate: stream.duplicate,
                reordered: stream.reordered,
                dropped: stream.dropped.by_name(),
            }
        })
    }
}

/// The stream that a state counts for before it is known on which of two it goes.
pub(crate) const fn stream_of(priority: Priority) -> u8 {
    match priority {
        Priority::Emergency => 0,
        Priority::High => 1,
        Priority::Normal => 2,
    }
}

/// What happened to the states of one stream. The operator counts what it sent and what was acknowledged; the robot what
/// it received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamSummary {
    /// What travels on it.
    pub name: &'static str,
    /// Given to the transport.
    pub sent: u64,
    /// Arrived, each copy.
    pub received: u64,
    /// At the operator: known to have arrived. At the robot: applied.
    pub delivered: u64,
    /// Not acknowledged in time, nor later.
    pub lost: u64,
    /// Acknowledged after they had been given up.
    pub late: u64,
    /// Copies of what had arrived before.
    pub duplicate: u64,
    /// Arrived after a newer one.
    pub reordered: u64,
    /// Dropped at this end, by cause.
    pub dropped: BTreeMap<&'static str, u64>,
}
