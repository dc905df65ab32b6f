//! How a session goes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use taut_session::{RobotState, StopCause};

/// How a robot or an operator is, and what it counted. The counts are a tenth of a second old at most.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// There is a session.
    pub connected: bool,
    /// How the robot is; at the operator, as far as is known there.
    pub state: RobotState,
    /// Why it stopped last.
    pub cause: StopCause,
    /// States of the operator's device, sent or received.
    pub messages: u64,
    /// Of these, known to have arrived, or applied.
    pub delivered: u64,
    /// Of these, that never arrived.
    pub lost: u64,
    /// Round trips, the mean; `None` while there are none.
    pub round_trip: Option<Duration>,
    /// What was dropped or refused at this end, by cause.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Channels, in the order in which this end declared them.
    pub channels: Vec<ChannelStatus>,
}

/// What went over a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelStatus {
    /// Its name.
    pub name: String,
    /// Both ends declare it.
    pub open: bool,
    /// Messages that this end made.
    pub made: u64,
    /// Of these, messages that were not worth sending: see [`Channel::sampling`](crate::Channel::sampling).
    pub withheld: u64,
    /// Messages that arrived: at the peer, as far as that is told, or here.
    pub delivered: u64,
    /// Messages dropped or refused at this end, by cause.
    pub dropped: BTreeMap<&'static str, u64>,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            connected: false,
            state: RobotState::Disabled,
            cause: StopCause::Start,
            messages: 0,
            delivered: 0,
            lost: 0,
            round_trip: None,
            dropped: BTreeMap::new(),
            channels: Vec::new(),
        }
    }
}

impl Status {
    /// Takes over what the session counted.
    fn count(&mut self, session: &taut_session::Status) {
        let states = RobotState::ALL.iter().find(|state| state.name() == session.state);
        let causes = StopCause::ALL.iter().find(|cause| cause.name() == session.cause);
        self.state = states.copied().unwrap_or(self.state);
        self.cause = causes.copied().unwrap_or(self.cause);
        (self.messages, self.delivered, self.lost) = (session.messages, session.delivered, session.lost);
        self.round_trip =
            (session.rtt.count > 0).then(|| Duration::from_secs_f64(session.rtt.mean_ms.max(0.0) / 1e3));
        self.dropped = session.dropped.clone();
        self.channels = session.channels.iter().map(ChannelStatus::from).collect();
    }
}

impl From<&taut_session::ChannelSummary> for ChannelStatus {
    fn from(summary: &taut_session::ChannelSummary) -> Self {
        Self {
            name: summary.name.clone(),
            open: summary.open,
            made: summary.made,
            withheld: summary.withheld,
            delivered: summary.delivered,
            dropped: summary.dropped.clone(),
        }
    }
}

/// A status that a session's thread writes and others read.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<Status>);

impl Board {
    pub(crate) fn get(&self) -> Status {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn count(&self, session: &taut_session::Status) {
        self.update(|status| status.count(session));
    }
}
