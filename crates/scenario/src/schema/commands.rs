//! A flow of commands over parallel paths, and what carries it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::{Bytes, Duration, Probability};
pub use taut_transport::{mptcp::Scheduler, mtip::Clocks, quic::PathUse};

use super::defaults::{bytes, ms, ten_thousandths, u8, u32};
use super::transport::{TcpSpec, TransportSpec};

/// Commands of one size at equal distances, one way: a session with one channel. Parallel links between the two vertices are its paths: path i is the
/// i-th of them by name, both ways.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Commands {
    /// The sender's vertex.
    pub from: String,
    /// The receiver's vertex.
    pub to: String,
    /// What carries them.
    #[serde(default)]
    pub transport: TransportSpec,
    /// Bytes of a command. 16B to 1200B.
    #[serde(default = "bytes::<150>")]
    pub size: Bytes,
    /// One command every period. 100us to 10s.
    #[serde(default = "ms::<30>")]
    pub period: Duration,
    /// The age at which a command is worse than none. 100us to 1min. MTIP is told of it; what is in time is judged by it.
    #[serde(default = "ms::<15>")]
    pub deadline: Duration,
    /// How many paths there are. 1 to 8.
    #[serde(default = "u8::<2>")]
    pub paths: u8,
    /// Straight over the transport, without a session around them: to compare transports by themselves. Simulated only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bare: bool,
}

/// MTIP.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MtipSpec {
    /// Which protocol is spoken.
    #[serde(default)]
    pub mode: MtipMode,
    /// Which paths a command takes.
    #[serde(default)]
    pub policy: MtipPolicy,
    /// `improved`: what the ends know of each other's clocks. In `compatible` they are synchronised whatever is said here.
    #[serde(default)]
    pub clocks: Clocks,
    /// The deadline that it works with, where that is not the commands' own: 100us to 1min. In `compatible` the receiver judges by it.
    pub deadline: Option<Duration>,
    /// `adaptive`: more duplicates than this share of the window, one path fewer.
    #[serde(default = "ten_thousandths::<5000>")]
    pub duplicate_threshold: Probability,
    /// `adaptive`: more late or missing than this share of the window, one path more.
    #[serde(default = "ten_thousandths::<2000>")]
    pub late_threshold: Probability,
    /// What latency counts when paths are ranked, beside reliability.
    #[serde(default = "ten_thousandths::<5000>")]
    pub latency_weight: Probability,
    /// `adaptive`: messages that count. 1 to 1000.
    #[serde(default = "u32::<5>")]
    pub window: u32,
    /// `deadline`: the probability with which a command is to be in time.
    #[serde(default = "ten_thousandths::<9985>")]
    pub target: Probability,
    /// `deadline`: copies that leave at once, at most. 1 to 8.
    #[serde(default = "u8::<2>")]
    pub copies: u8,
    /// How often a path that carries nothing is probed. 1ms to 1min.
    #[serde(default = "ms::<100>")]
    pub probe_interval: Duration,
}

/// Which MTIP is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MtipMode {
    /// taut's own.
    #[default]
    Improved,
    /// The published one.
    Compatible,
}

/// Which paths a command takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MtipPolicy {
    /// As few as meet the deadline.
    #[default]
    Deadline,
    /// All of them (MTIP-A).
    All,
    /// As many of the best as the recent past asks for (MTIP-B).
    Adaptive,
    /// This one, from 0.
    Fixed(u8),
    /// The best so many. 1 to 8.
    Best(u8),
}

/// MPTCP. Windows are coupled (LIA, RFC 6356) whatever the subflows' congestion control, but for the scheduler `linux`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MptcpSpec {
    /// Which subflow takes the next segment.
    #[serde(default)]
    pub scheduler: Scheduler,
    /// Every subflow's settings.
    #[serde(default)]
    pub subflow: TcpSpec,
}

/// Multipath QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MpquicSpec {
    /// What the paths are for.
    #[serde(default)]
    pub paths: PathUse,
    /// Commands on one stream, in order, each repeated until it arrives, instead of as datagrams; without a session (`bare`) only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
    /// After how long a silence a path is abandoned. 20ms to 1min.
    #[serde(default = "ms::<500>")]
    pub path_idle_timeout: Duration,
    /// How often each path is pinged, by both sides. 5ms to 1min.
    #[serde(default = "ms::<100>")]
    pub keep_alive: Duration,
}
