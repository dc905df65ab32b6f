//! What a run found: plain data, the content of `run.json`. Everything a report shows comes from here.
//!
//! Units are in the names: `_s` seconds, `_ms` milliseconds, `_bps` bits per second. A quantity that was not measured,
//! or that cannot be said, is absent, never zero.

mod commands;
mod comparison;
mod map;
mod probe;
mod radio;
mod saving;
mod spread;
mod teleop;
mod transparency;
mod video;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use commands::{ChoicesResult, ChosenResult, CommandsResult, PathResult};
pub use comparison::{
    ComparedRun, ComparedStream, ComparisonResult, CrossSummary, Difference, MediumSummary, PERCENTILES,
    Percentile, SessionSummary,
};
pub use map::{MapGrip, MapPoint, MapResult};
pub use probe::{ProbeResult, ProbedWay};
pub use radio::{awake_mj, radio_mj};
pub use saving::{CopyPoint, SavingPoint, SavingResult};
pub use teleop::{
    ChannelResult, ControlResult, EmergencyResult, StreamResult, TeleopResult, TouchCritical, TouchResult,
    WatchdogResult, WireResult,
};

pub use spread::Spread;
pub use transparency::{FeltResult, TransparencyPoint, TransparencyResult};
pub use video::{Opinion, VideoResult};

/// Results as files: what reads and writes so many types is compiled here, and not once more in each program above.
macro_rules! in_files {
    ($($result:ident),+) => {
        $(impl $result {
            /// The content of its file: JSON, whose last line ends. What is no number is `null`.
            ///
            /// # Errors
            /// Never in practice: a result is plain data.
            pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
                let mut bytes = serde_json::to_vec_pretty(self)?;
                bytes.push(b'\n');
                Ok(bytes)
            }

            /// From the content of its file.
            ///
            /// # Errors
            /// When it is of something else.
            pub fn from_json(bytes: &[u8]) -> serde_json::Result<Self> {
                serde_json::from_slice(bytes)
            }
        })+
    };
}

in_files!(RunResult, CampaignResult, ComparisonResult);

taut_core::named! {
    /// A session's two directions.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Direction {
        /// Operator to robot.
        Forward = "forward",
        /// Robot to operator.
        Backward = "backward",
    }
}

/// `part` of `whole`, per cent; `None` of nothing.
pub fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// One run of one scenario with one seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The version of taut that made it.
    pub taut: String,
    /// The scenario's title.
    pub title: String,
    /// What the scenario is for, in a sentence or two.
    pub description: String,
    /// The seed.
    pub seed: u64,
    /// Where it ran; left out in virtual time.
    #[serde(default, skip_serializing_if = "Ran::is_simulated")]
    pub ran: Ran,
    /// Virtual seconds simulated; of a session over real sockets, for how long at most its device made states.
    pub duration_s: f64,
    /// Virtual seconds at the beginning that are left out of media, rates and latencies. Other counts, hand and arm, and queues are of the whole run.
    pub warmup_s: f64,
    /// The whole scenario, defaults and `--set` applied, as TOML: with the seed, all that a replay needs.
    pub scenario: String,
    /// Files that were read, so that a replay can tell whether they are still the same.
    pub inputs: Vec<Input>,
    /// Whether every limit of every medium is met.
    pub verdict: Verdict,
    /// Per session direction and medium: what a person would feel.
    pub media: Vec<MediumResult>,
    /// The teleoperation session, where the scenario has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teleop: Option<TeleopResult>,
    /// The flow of commands, where the scenario has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<CommandsResult>,
    /// Between media of one direction.
    pub skews: Vec<SkewResult>,
    /// Per video over RTP beside the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub videos: Vec<VideoResult>,
    /// What arrived at a node and was of no use, where nobody can say of which medium it was; nodes with any.
    pub refusals: Vec<Refusals>,
    /// Per flow of packets, sessions and cross traffic alike.
    pub flows: Vec<FlowResult>,
    /// Per link.
    pub links: Vec<LinkResult>,
    /// The closed-form model's prediction, where the scenario is one it knows.
    pub models: Vec<ModelResult>,
    /// Packets in = out + dropped + held, by an independent count.
    pub conservation: Conservation,
    /// When a receiver waited for the longest, by what its medium allows; absent where nothing was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Worst>,
    /// For plots: bounded, whatever the length of the run.
    pub series: Vec<Series>,
}

/// The moment after the warm-up at which a receiver waited for the longest for something that came, as a share of what its medium
/// allows (an outage that lasts until the end is none, and of one of more than some ten seconds these are told): what a plot shows
/// from close by is around it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worst {
    /// `"backward haptic"`: who waited.
    pub stream: String,
    /// When the sample was made that ended it, in virtual seconds.
    pub at_s: f64,
    /// Since what was the oldest by then was made that nothing newer of had come, in milliseconds: the sample's delay, or longer where
    /// samples before it were lost.
    pub waited_ms: f64,
}

taut_core::named! {
    /// Where a run ran.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Ran {
        /// In virtual time.
        #[default]
        Simulated = "simulated",
        /// Over real sockets, through the emulator.
        Real = "real",
        /// Over real sockets, through the queueing disciplines of a kernel.
        Kernel = "kernel",
    }
}

impl Ran {
    fn is_simulated(&self) -> bool {
        *self == Self::Simulated
    }
}

/// A file that a run read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// As the scenario names it.
    pub path: String,
    /// Its SHA-256, hexadecimal.
    pub sha256: String,
}

/// Pass or fail, and each limit's part in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Every limit is met.
    pub met: bool,
    /// Each limit.
    pub limits: Vec<LimitResult>,
}

impl Verdict {
    /// Met where every limit is.
    pub fn of(limits: Vec<LimitResult>) -> Self {
        Self { met: limits.iter().all(|limit| limit.met), limits }
    }
}

/// One limit of one medium.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitResult {
    /// `"backward haptic"`: the direction and the medium.
    pub stream: String,
    /// `"delay"`, `"jitter"`, `"loss"`.
    pub quantity: String,
    /// The unit of value and limit: `"ms"` or `"%"`.
    pub unit: String,
    /// What was measured; absent where there was nothing to measure.
    pub value: Option<f64>,
    /// What is allowed.
    pub limit: f64,
    /// The value is there and within the limit.
    pub met: bool,
    /// Why it could not be judged: `"nothing arrived"`. A limit that cannot be judged is not met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Summary of a distribution of at least one value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation (population).
    pub sd: f64,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    #[serde(default)]
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
    /// Points (value, fraction of values not above it), for a plot: at most 200, value ascending.
    pub cdf: Vec<(f64, f64)>,
}

/// Means of one-second buckets, summarised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BucketMeans {
    /// How many buckets with any values.
    pub count: u64,
    /// Mean of the means.
    pub mean: f64,
    /// Their standard deviation (population).
    pub sd: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Values that came more than half a minute after newer ones, when their bucket was closed: they are in no bucket, but
    /// in every other figure.
    pub left_out: u64,
}

/// One medium in one direction of one session.
///
/// `made = withheld + delivered + lost`, and `lost = lost_in_network +` everything `dropped`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MediumResult {
    /// `"backward haptic"`.
    pub stream: String,
    /// Which way it goes.
    pub direction: Direction,
    /// `"haptic"`, `"audio"`, `"video"`, `"data"`.
    pub medium: String,
    /// Samples or frames that the device made.
    pub made: u64,
    /// Held back by a sampler on purpose; not a loss.
    pub withheld: u64,
    /// Delivered whole, once.
    pub delivered: u64,
    /// Neither withheld nor delivered, of those that had the time to arrive.
    pub lost: u64,
    /// Of the lost: sent, and not there (or not all of it) when the run ended.
    pub lost_in_network: u64,
    /// Of the lost: dropped before they were sent (a frame: before all of it was), by cause: `"superseded"` by a newer one,
    /// `"too_late"` to be of use, …
    pub dropped: BTreeMap<String, u64>,
    /// Delivered later than the medium's delay limit.
    pub late: u64,
    /// Delivered after a newer one.
    pub reordered: u64,
    /// Arrived again after delivery: samples, or parts of frames.
    pub duplicates: u64,
    /// Samples or parts of frames that arrived and were of no use for any other cause, by cause.
    pub refused: BTreeMap<String, u64>,
    /// lost / (made − withheld), per cent; absent when all were withheld.
    pub loss_percent: Option<f64>,
    /// From creation to delivery of the whole sample, in milliseconds; absent when none was delivered.
    pub delay_ms: Option<Distribution>,
    /// Of the delay by second of creation, in milliseconds; absent when none was delivered.
    pub delay_buckets_ms: Option<BucketMeans>,
    /// The largest positive difference of consecutive delays, in milliseconds; absent with less than two.
    pub jitter_max_ms: Option<f64>,
    /// Absolute differences of consecutive delays, in milliseconds; absent with less than two.
    pub jitter_ms: Option<Distribution>,
    /// Bits of samples delivered per second.
    pub goodput_bps: f64,
    /// Samples (frames) delivered per second.
    pub rate_hz: f64,
}

/// What one node could not use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// The node's name: `"operator"`, `"bulk receiver"`.
    pub node: String,
    /// Packets, by cause, in the whole run.
    pub refused: BTreeMap<String, u64>,
}

/// How far two media of one direction are apart when they are presented.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkewResult {
    /// `"backward haptic–video"`.
    pub pair: String,
    /// Delay of the second less delay of the first, at each delivery of the second, in milliseconds.
    pub skew_ms: Distribution,
}

/// Whose packets a flow carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowOwner {
    /// One direction of the session.
    Session(Direction),
    /// One direction of the flow of commands.
    Commands(Direction),
    /// Cross traffic.
    Cross {
        /// Its name in the scenario.
        entry: String,
        /// Which of the entry's flows, from 0.
        index: u32,
        /// Which part of it.
        part: FlowPart,
    },
}

/// Which part of a conversation a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowPart {
    /// From the sender to the receiver.
    Data,
    /// Acknowledgements or reports of what arrived, the other way.
    Acks,
}

/// One flow of packets: what one node sends to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// How reports call it: `"session backward"`, `"bulk"`, `"bulk acks"`, `"voice/3"`.
    pub name: String,
    /// Whose it is: `{"session": "forward"}`, `{"commands": "backward"}` or `{"cross": {"entry", "index", "part"}}`: the name in
    /// the scenario, which of its flows from 0, `"data"` or `"acks"`.
    pub owner: FlowOwner,
    /// `"session"`, `"tcp"`, `"tcp acks"`, `"cbr"`, …
    pub kind: String,
    /// Packets that its node sent in the whole run.
    pub sent: u64,
    /// Packets that arrived.
    pub delivered: u64,
    /// Dropped on the way, by cause.
    pub dropped: BTreeMap<String, u64>,
    /// dropped / sent, per cent; absent when nothing was sent.
    pub loss_percent: Option<f64>,
    /// Wire bits sent per second after the warm-up and before `duration` is over, also over real sockets, where what `--kernel` tells of a session is read
    /// from devices at these two moments.
    pub sent_bps: f64,
    /// Of these, wire bits delivered per second.
    pub delivered_bps: f64,
    /// Application bytes delivered / wire bytes sent; absent where a flow has no application bytes of its own. Those of `[teleop]` are states or feedback, and
    /// messages of channels.
    pub efficiency: Option<f64>,
    /// Network delay of packets, in milliseconds; absent when none arrived.
    pub delay_ms: Option<Distribution>,
    /// What the transport of the node that sends it counted in the whole run, by name: `"retransmitted"`, `"superseded"`,
    /// `"gap_us"` (the last gap). Absent where there is no transport.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

/// One link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// `"router → robot"`.
    pub name: String,
    /// Packets that entered.
    pub entered: u64,
    /// Packets that left.
    pub left: u64,
    /// Dropped inside, by cause.
    pub dropped: BTreeMap<String, u64>,
    /// Copies made inside.
    pub duplicated: u64,
    /// Bits flipped inside.
    pub corrupted: u64,
    /// Inside when the run ended.
    pub held: u64,
    /// The largest queue, in bytes, warm-up included.
    pub queue_max_bytes: u64,
    /// The queue's mean over time, in bytes, warm-up included.
    pub queue_mean_bytes: f64,
    /// What the queue holds at most, where it is limited in bytes.
    pub queue_limit_bytes: Option<u64>,
    /// Bytes that left × 8 / (rate × (`duration` + `drain`)), where the rate is constant. `[commands]` and `[teleop]` send nothing in the drain but what
    /// ends the session: with much of it, their links are never used in full.
    pub utilisation: Option<f64>,
    /// What its queues counted in the whole run, by the names that Linux's `tc -s qdisc` has. Absent where they count nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

/// What the closed-form model says of one stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelResult {
    /// The stream it is about: `"backward haptic"`.
    pub stream: String,
    /// Predicted and measured, line by line.
    pub rows: Vec<ModelRow>,
    /// The conditions under which the model holds.
    pub conditions: Vec<ModelCondition>,
    /// The cycles of TCP's window, by how many segments it lost at their beginning. The model assumes one.
    pub cycles: Vec<CycleResult>,
}

/// Cycles with so many losses, and more, share the last row.
pub const MOST_LOSSES: u64 = 10;

/// TCP's cycles with so many losses, each from the beginning of one fast recovery to the beginning of the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CycleResult {
    /// Segments lost in the window that the cycle begins with.
    pub losses: u64,
    /// How many such cycles.
    pub cycles: u64,
    /// Mean over the cycles of the smallest delay in a cycle, in milliseconds.
    pub floor_mean_ms: f64,
    /// The smallest delay in any of them, in milliseconds.
    pub floor_min_ms: f64,
    /// Mean over the cycles of the largest delay in a cycle, in milliseconds.
    pub ceiling_mean_ms: f64,
    /// Mean length of fast recovery, in milliseconds.
    pub recovery_mean_ms: f64,
}

/// What a row of a model is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelMeasure {
    /// The smallest delay in a cycle of TCP's window, mean over the cycles.
    DMinOfCycles,
    /// The smallest delay of the whole run.
    DMin,
    /// The largest delay in a cycle of TCP's window, mean over the cycles.
    DMaxOfCycles,
    /// The largest delay of the whole run.
    DMax,
    /// The largest jitter.
    Jitter,
    /// A bound of the delay of whole frames.
    FrameDelay,
}

/// One predicted quantity. There is no row where nothing was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRow {
    /// The stream whose it is: `"backward haptic"`.
    pub stream: String,
    /// Which quantity.
    pub measure: ModelMeasure,
    /// The same in words: `"d_max, whole run"`.
    pub quantity: String,
    /// `"(9)"`.
    pub equation: String,
    /// The prediction, in milliseconds.
    pub predicted_ms: f64,
    /// What the run measured, in milliseconds.
    pub measured_ms: f64,
}

/// One condition of the model's validity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelCondition {
    /// `"B > 2μτ"`.
    pub name: String,
    /// Whether it holds.
    pub holds: bool,
    /// With the numbers.
    pub explanation: String,
}

/// The independent count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conservation {
    /// Everything adds up, link by link and end to end.
    pub holds: bool,
    /// Packets that nodes sent.
    pub sent: u64,
    /// Copies that links made.
    pub duplicated: u64,
    /// Packets that nodes received.
    pub delivered: u64,
    /// Dropped in links, by cause.
    pub dropped: BTreeMap<String, u64>,
    /// Inside links at the end.
    pub held: u64,
    /// What does not add up, in words; empty when all is well.
    pub violations: Vec<String>,
}

/// A quantity over time, in equal buckets: at most 2000.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// `"delay"`, `"queue"`, `"cwnd"`, `"rate"`, `"gap"`: what kind of plot it belongs to.
    pub plot: String,
    /// Whose: `"backward haptic"`, `"router → robot"`.
    pub name: String,
    /// `"ms"`, `"bytes"`, `"segments"`.
    pub unit: String,
    /// Where the first bucket begins, in virtual seconds. A plot may have a second series that shows the seconds around
    /// the worst moment in finer buckets: its kind ends in `_zoom` (`"delay_zoom"`, `"queue_zoom"`, `"cwnd_zoom"`).
    pub start_s: f64,
    /// Length of one bucket in seconds; bucket i covers start + [i, i + 1) × this.
    pub bucket_s: f64,
    /// Smallest value per bucket; absent where nothing happened.
    pub min: Vec<Option<f64>>,
    /// Mean per bucket.
    pub mean: Vec<Option<f64>>,
    /// Largest per bucket.
    pub max: Vec<Option<f64>>,
}

/// Several runs of one scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CampaignResult {
    /// The version of taut that made it.
    pub taut: String,
    /// The scenario's title.
    pub title: String,
    /// What the scenario is for.
    pub description: String,
    /// Virtual seconds of each run.
    pub duration_s: f64,
    /// The axes whose values, in this order, make up the names of the variants; empty where variants are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<String>,
    /// Every variant that was run; one without a name when the scenario has none.
    pub variants: Vec<VariantResult>,
}

/// One variant of a scenario (a point of a sweep) over all its seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantResult {
    /// `"R = 3 Mbit/s"`.
    pub name: String,
    /// Keys that `--set` set otherwise than the variant does: it is not what its name says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<String>,
    /// The keys it sets: `("cross.cbr.rate", "1.904Mbit")`.
    pub settings: Vec<(String, String)>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// How many runs met every limit.
    pub met: u64,
    /// Every limit that any run was held against.
    pub limits: Vec<LimitTally>,
    /// Every measure over the seeds, in the order of a table's columns.
    pub measures: Vec<Measure>,
    /// What the scenario says is `reported` and none of its runs measures, by the names that it gives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_measured: Vec<String>,
    /// How delays went over time, for each stream and seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trends: Vec<Trend>,
    /// How frame rates, latencies and offsets of videos are spread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spreads: Vec<Spread>,
}

/// The delay of one stream over the time of one run, in buckets of equal length: at most 50.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// `"forward haptic"`.
    pub stream: String,
    /// The run's seed.
    pub seed: u64,
    /// Where the first bucket begins, in virtual seconds.
    pub start_s: f64,
    /// Length of a bucket in seconds.
    pub bucket_s: f64,
    /// Mean delay by bucket of creation, in milliseconds; absent where nothing arrived.
    pub mean_ms: Vec<Option<f64>>,
}

/// One limit over several seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitTally {
    /// `"backward haptic"`.
    pub stream: String,
    /// `"delay"`, `"jitter"`, `"loss"`.
    pub quantity: String,
    /// `"ms"` or `"%"`.
    pub unit: String,
    /// What is allowed.
    pub limit: f64,
    /// How many runs did not meet it.
    pub failed: u64,
    /// Of these, in how many there was nothing to judge.
    pub not_judged: u64,
    /// The largest value of any run; absent when no run had one.
    pub worst: Option<f64>,
    /// The first seed of the worst run: one that could not be judged, or else the one with the largest value.
    pub worst_seed: u64,
}

impl LimitTally {
    /// Of the first run.
    pub fn of(seed: u64, limit: &LimitResult) -> Self {
        let mut tally = Self {
            stream: limit.stream.clone(),
            quantity: limit.quantity.clone(),
            unit: limit.unit.clone(),
            limit: limit.limit,
            failed: 0,
            not_judged: 0,
            worst: None,
            worst_seed: seed,
        };
        tally.add(seed, limit);
        tally
    }

    /// And of another.
    pub fn add(&mut self, seed: u64, limit: &LimitResult) {
        self.failed += u64::from(!limit.met);
        match limit.value {
            None => {
                if self.not_judged == 0 {
                    self.worst_seed = seed;
                }
                self.not_judged += 1;
            }
            Some(value) if self.worst.is_none_or(|worst| value > worst) => {
                self.worst = Some(value);
                if self.not_judged == 0 {
                    self.worst_seed = seed;
                }
            }
            Some(_) => {}
        }
    }
}

/// One measure over several seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// `"backward haptic d_max, whole run"`.
    pub name: String,
    /// `"ms"`.
    pub unit: String,
    /// In how many runs it could be measured.
    pub runs: u64,
    /// Mean over these.
    pub mean: f64,
    /// Half-width of the 95 % confidence interval of the mean (Student's t); absent with one.
    pub ci95: Option<f64>,
    /// Smallest over the runs.
    pub min: f64,
    /// Largest over the runs.
    pub max: f64,
    /// The model's prediction, where there is one.
    pub predicted: Option<f64>,
    /// What the source reports, where the scenario says so.
    pub reported: Option<f64>,
    /// Run by run, in the order of the seeds; absent where it could not be measured.
    #[serde(default)]
    pub values: Vec<Option<f64>>,
}

/// How many frames became whole in each second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FrameRate {
    /// How many seconds.
    pub seconds: u64,
    /// Their mean.
    pub mean: f64,
    /// The fewest.
    pub min: f64,
    /// So many or fewer in a tenth of the seconds.
    pub p10: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// The most.
    pub max: f64,
    /// Frames in a second, and the fraction of seconds with so many or fewer.
    pub cdf: Vec<(f64, f64)>,
}
