//! What a scheduler of several paths decided, and what it knew.

use crate::{Duration, PathId};

/// What was decided for one message, and why: the trace of a scheduler. A message has one when it leaves, and another one
/// for each time that more copies of it follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The message's number on the wire.
    pub number: u64,
    /// The caller's number for it.
    pub tag: u64,
    /// Over which paths copies of it go now.
    pub paths: Vec<PathId>,
    /// Why these.
    pub reason: Reason,
    /// How long until the message is worthless.
    pub budget: Duration,
    /// The probability that it arrives in time, further copies that may follow included, as far as the scheduler knows; `None`
    /// where the policy does not ask.
    pub probability: Option<f64>,
    /// The probability that is asked for; `None` where the policy has none.
    pub target: Option<f64>,
    /// So much earlier than the last moment a copy is sent, because this host wakes up late.
    pub margin: Duration,
    /// What was known of each path.
    pub estimates: Vec<PathEstimate>,
}

/// What a scheduler knew of a path when it chose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathEstimate {
    /// Which.
    pub path: PathId,
    /// Are its packets acknowledged? Not so one whose newest packet is overdue.
    pub up: bool,
    /// The probability that a packet sent over it now is lost.
    pub loss: f64,
    /// The probability that a packet sent over it now is in time.
    pub in_time: f64,
    /// The one-way delay that half of its packets kept lately; `None` when none is known.
    pub one_way_p50: Option<Duration>,
    /// That 99 % of them kept.
    pub one_way_p99: Option<Duration>,
    /// The round trip that 99 % of its answers kept.
    pub round_trip_p99: Option<Duration>,
}

crate::named! {
    /// Why a scheduler chose as it did.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Reason {
        /// The policy names the paths or their number.
        Policy = "policy",
        /// One path meets the deadline, and another one is there when its answer does not come.
        OneSuffices = "one_suffices",
        /// No path alone is sure enough: these together are.
        Together = "together",
        /// Nothing reaches the target: this is the best there is.
        BestEffort = "best_effort",
        /// Nothing may hold it up: every path.
        Emergency = "emergency",
        /// No answer came, and this is the last moment for a copy on that path.
        Silence = "silence",
        /// No answer came in time, and there is time for another copy.
        Overdue = "overdue",
        /// No path is known to be alive: every path is tried.
        NoneAlive = "none_alive",
    }
}

impl Reason {
    /// Was the message sent before, and this is about more copies of it?
    pub const fn is_again(self) -> bool {
        matches!(self, Self::Silence | Self::Overdue)
    }
}
