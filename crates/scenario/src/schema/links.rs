//! Networks: links, what they are made of, and stars of them.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use taut_core::{Bitrate, Duration, Probability};
use taut_link::Later;
pub use taut_link::frame_gate::GateConfig;

use super::defaults::{ms, ten_thousandths};
use super::queues::QueueSpec;

/// A star: hosts around a switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lan {
    /// How many hosts. 1 to 1000.
    pub hosts: u32,
    /// What every host's link to the switch is made of, in each direction.
    pub chain: Vec<ElementSpec>,
}

/// A link in both directions (`between`) or in one (`from`, `to`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Both directions between two vertices, each made of its own copy of the chain.
    #[serde(default, deserialize_with = "two_ends", skip_serializing_if = "Option::is_none")]
    pub between: Option<[String; 2]>,
    /// One direction: from this vertex …
    pub from: Option<String>,
    /// … to this one.
    pub to: Option<String>,
    /// What packets pass through, in this order. Empty: a wire without delay.
    #[serde(default)]
    pub chain: Vec<ElementSpec>,
}

/// One element of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ElementSpec {
    /// A queue and the rate that empties it.
    Server(Box<ServerSpec>),
    /// Propagation: every packet takes this long.
    Delay(Duration),
    /// Propagation from a table that changes over time.
    DelayTable(TableSpec),
    /// A random extra delay.
    Jitter(JitterSpec),
    /// A random extra delay from a table that changes over time: its mean is column `delay`, its spread column `jitter`.
    JitterTable(JitterTableSpec),
    /// Random loss.
    Loss(LossSpec),
    /// Loss from a table that changes over time.
    LossTable(TableSpec),
    /// What a recorded path did, a row at a time: delay or loss.
    Recorded(RecordedSpec),
    /// Packets come twice with this probability.
    Duplicate(Probability),
    /// One bit is flipped with this probability.
    Corrupt(Probability),
    /// Nothing passes from a time on.
    Cut(CutSpec),
    /// Drops whole video frames before the next server of the same chain, whose queue it watches.
    Gate(GateConfig),
}

/// A queue and the rate that empties it. The packet in service is not in the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// A constant rate. Exactly one of `rate`, `mahimahi` and `rate_table` is needed.
    pub rate: Option<Bitrate>,
    /// Delivery opportunities from a mahimahi trace file.
    pub mahimahi: Option<String>,
    /// A rate that changes over time.
    pub rate_table: Option<Vec<RateRow>>,
    /// The queue before it.
    #[serde(default)]
    pub queue: QueueSpec,
}

/// From a time on, a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateRow {
    /// From when.
    pub at: Duration,
    /// How fast.
    pub rate: Bitrate,
}

/// A table of impairments (columns `delay`, `jitter`, `packet_loss`), one row per `every`, again from the top at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// The file, relative to the scenario.
    pub file: String,
    /// How long a row lasts.
    #[serde(default = "ms::<1000>")]
    pub every: Duration,
}

/// A table of impairments whose columns `delay` and `jitter` are mean and spread of a random extra delay, never below
/// zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JitterTableSpec {
    /// The file, relative to the scenario.
    pub file: String,
    /// How long a row lasts.
    #[serde(default = "ms::<1000>")]
    pub every: Duration,
    /// How it is distributed.
    pub distribution: Distribution,
    /// May packets overtake each other?
    #[serde(default)]
    pub reorder: bool,
}

/// A recorded path: a CSV file with columns `PATH_one_way_ms` (empty: lost) and `PATH_acknowledged_after` (how many later messages had been
/// sent when the answer was there; empty: it never came), a row per message that was sent, again from the top at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordedSpec {
    /// The file, relative to the scenario.
    pub file: String,
    /// Which path: what its columns begin with.
    pub path: String,
    /// The way there, of messages, or the way back, of answers. Default: there, and for the second direction of `between` back.
    pub way: Option<RecordedWay>,
    /// How long a row lasts: the distance of the messages that were recorded.
    #[serde(default = "ms::<30>")]
    pub every: Duration,
    /// What a packet meets that is sent later than the first millisecond of a row.
    #[serde(default)]
    pub later: Later,
    /// Begins with this row, from 0; what is before it comes at the end.
    #[serde(default)]
    pub skip: u32,
}

/// Which of a recorded path's ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordedWay {
    /// That of the messages.
    There,
    /// That of the answers.
    Back,
}

/// A random extra delay: `mean + spread × x`, never below zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JitterSpec {
    /// How x is distributed.
    pub distribution: Distribution,
    /// The mean of the extra delay.
    #[serde(default)]
    pub mean: Duration,
    /// uniform: half the width; normal: standard deviation; pareto: scale.
    pub spread: Duration,
    /// Correlation of the successive normal numbers that x is made from, 0 to 1; the distribution of x is the same whatever it is.
    #[serde(default)]
    pub correlation: f64,
    /// May packets overtake each other?
    #[serde(default)]
    pub reorder: bool,
}

taut_core::named! {
    /// Distributions of jitter.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Distribution {
        /// Uniform in [−1, 1].
        Uniform = "uniform",
        /// Standard normal.
        Normal = "normal",
        /// Pareto, heavy tail to the right.
        Pareto = "pareto",
    }
}

/// Random loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LossSpec {
    /// Each packet by itself.
    Bernoulli(Probability),
    /// Two states with a loss rate each.
    GilbertElliott(GilbertElliottSpec),
}

/// Gilbert–Elliott, the four parameters of `tc netem loss gemodel`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliottSpec {
    /// Good to bad, per packet.
    pub p: Probability,
    /// Bad to good, per packet.
    pub r: Probability,
    /// Loss in the bad state.
    #[serde(default = "ten_thousandths::<10_000>")]
    pub bad: Probability,
    /// Loss in the good state.
    #[serde(default)]
    pub good: Probability,
}

/// Nothing passes from `at` (until `until`, if given).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CutSpec {
    /// From when.
    pub at: Duration,
    /// Until when.
    pub until: Option<Duration>,
}

fn two_ends<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[String; 2]>, D::Error> {
    let ends = Vec::deserialize(deserializer)?;
    let ends = ends.try_into().map_err(|ends: Vec<String>| {
        de::Error::custom(format!("names {} vertices; a link is between two, [\"a\", \"b\"]", ends.len()))
    });
    ends.map(Some)
}
