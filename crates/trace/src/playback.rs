//! Recordings of networks that are played back: delivery opportunities and tables of impairments.

use taut_core::{Duration, Probability, Time};

/// When a link could deliver a packet of 1500 bytes, in the order of time, since the trace's beginning. It is played
/// in laps as long as the last opportunity's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opportunities {
    times: Vec<Time>,
}

impl Opportunities {
    pub(crate) fn new(times: Vec<Time>) -> Self {
        Self { times }
    }

    /// Every opportunity. A time that stands twice is two of them.
    pub fn times(&self) -> &[Time] {
        &self.times
    }
}

/// What a path did to packets, played at one row a second.
///
/// Source of the layout: the evaluation material of Rico et al. (repository deliarico/MTIP).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impairments {
    rows: Vec<Impairment>,
}

/// One second of it. What the table has no column for is `None` in every row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Impairment {
    /// Delay to add.
    pub delay: Option<Duration>,
    /// Spread of that delay.
    pub jitter: Option<Duration>,
    /// Share of the packets that are lost.
    pub loss: Option<Probability>,
}

impl Impairments {
    /// How long a row is played.
    pub const ROW_PERIOD: Duration = Duration::from_secs(1);

    pub(crate) fn new(rows: Vec<Impairment>) -> Self {
        Self { rows }
    }

    /// Second by second.
    pub fn rows(&self) -> &[Impairment] {
        &self.rows
    }
}
