//! What an application wants of MTIP.

use taut_core::{Bytes, Duration, PathId, Priority};
use taut_wire::mtip::compatible::Sublink;

/// Which protocol is spoken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Ours: long sequence numbers, age instead of synchronised clocks, acknowledgements that survive loss.
    #[default]
    Improved,
    /// The published one, byte for byte: for peers that speak it. Clocks must be synchronised. What LINK and LINKACK say
    /// of this end's sublinks.
    Compatible(Vec<Sublink>),
}

/// Which paths a message takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// All of them, always (MTIP-A); but for those that were down for a second, which are only probed.
    All,
    /// This one, always. While it is not there messages wait for it.
    Fixed(PathId),
    /// The best so many by rank.
    Best(u8),
    /// As many of the best as the recent past asks for (MTIP-B).
    Adaptive(Adaptive),
    /// As few as meet the deadline with this probability.
    Deadline(Target),
}

/// The rule of MTIP-B.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptive {
    /// More duplicates than this share of the window: one path fewer. DT; the source's default is 0.5.
    pub duplicate_threshold: f64,
    /// More late or missing than this share of the window: one path more. LT; default 0.1.
    pub late_threshold: f64,
    /// Messages that count; default 5.
    pub window: usize,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self { duplicate_threshold: 0.5, late_threshold: 0.1, window: 5 }
    }
}

/// What the deadline scheduler is to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The probability that a message arrives in time, 0 to 1; default 0.9985.
    pub probability: f64,
    /// Copies of a message at most; default 2.
    pub copies: u8,
}

impl Default for Target {
    fn default() -> Self {
        Self { probability: 0.9985, copies: 2 }
    }
}

/// What is known of the two ends' clocks, and so of a message's lateness.
///
/// Four timestamps leave half a round trip open, because nobody can tell how much of it was the way there (RFC 5905 section 8). So without
/// synchronised clocks "never late" and "never refused in time" exclude each other, and the receiver says which it wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case"))]
pub enum Clocks {
    /// Estimated. What may still be in time is delivered, and only what is certainly late is refused: whatever the network,
    /// nothing in time is, and what is delivered is late by less than the round trip.
    #[default]
    Estimated,
    /// Estimated. What may be late is refused: whatever the network, nothing is delivered late, and where the deadline is
    /// shorter than a round trip much in time is refused too.
    Strict,
    /// Both ends read the same clock, as the published protocol requires: lateness is exact.
    Synchronised,
}

/// Preferences of an application: the API of the protocol.
#[derive(Clone, Debug)]
pub struct MtipConfig {
    pub(super) mode: Mode,
    pub(super) policy: Policy,
    pub(super) clocks: Clocks,
    pub(super) deadline: Duration,
    pub(super) latency_weight: f64,
    pub(super) probe_interval: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) max_message: Bytes,
    pub(super) emergency: Option<Priority>,
    pub(super) explain: bool,
}

impl Default for MtipConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Improved,
            policy: Policy::Deadline(Target::default()),
            clocks: Clocks::Estimated,
            deadline: Duration::from_millis(10),
            latency_weight: 1.0,
            probe_interval: Duration::from_millis(100),
            idle_timeout: Duration::from_secs(30),
            max_message: Bytes::new(1_400),
            emergency: None,
            explain: false,
        }
    }
}

impl MtipConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Which protocol is spoken. Default [`Mode::Improved`].
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Which paths a message takes. Default [`Policy::Deadline`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// How lateness is judged of what arrives. Default [`Clocks::Estimated`]. The published protocol has synchronised clocks
    /// whatever is said here.
    pub fn clocks(mut self, clocks: Clocks) -> Self {
        self.clocks = clocks;
        self
    }

    /// How soon a message without a deadline of its own is to arrive, as far as paths and copies are chosen by that: it is never too late.
    /// In the published protocol, which carries no deadlines, the age at which one is worthless. Default 10 ms; 100 µs to an hour.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline.clamp(Duration::from_micros(100), Duration::from_secs(3_600));
        self
    }

    /// What latency counts when paths are ranked, beside reliability: LW as a fraction. Default 1; 0 to 1.
    pub fn latency_weight(mut self, weight: f64) -> Self {
        self.latency_weight = if weight.is_nan() { 1.0 } else { weight.clamp(0.0, 1.0) };
        self
    }

    /// How often a path that carries nothing is probed. Default 100 ms; 1 ms to a minute.
    pub fn probe_interval(mut self, interval: Duration) -> Self {
        self.probe_interval = interval.clamp(Duration::from_millis(1), Duration::from_secs(60));
        self
    }

    /// After so long without a sign of life on any path the conversation is over. Default 30 s; 100 ms to a day.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout.clamp(Duration::from_millis(100), Duration::from_secs(86_400));
        self
    }

    /// The longest message that is taken and accepted. Default 1400 B; 1 B to 65,000 B.
    pub fn max_message(mut self, bytes: Bytes) -> Self {
        self.max_message = bytes.clamp(Bytes::new(1), Bytes::new(65_000));
        self
    }

    /// Keep what was chosen for each message and the estimates behind it, for [`Mtip::poll_choice`](super::Mtip::poll_choice).
    /// Default: no; [`Mtip::choices`](super::Mtip::choices) counts them always.
    pub fn explain(mut self, explain: bool) -> Self {
        self.explain = explain;
        self
    }

    /// Messages of this priority, and of any more urgent one, take every path whatever the policy. Default: none.
    pub fn emergency(mut self, priority: Priority) -> Self {
        self.emergency = Some(priority);
        self
    }
}
