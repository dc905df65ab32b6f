//! What a scenario file may say. Every key is here, with its unit, its default and its range.
//!
//! Quantities are text with a unit: `"6Mbit"` (per second), `"14kB"`, `"8ms"`, `"1%"`. A choice among kinds is written
//! `kind = { … }`, or just `"kind"` where nothing is set.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use taut_core::{Bitrate, Bytes, Duration, Probability};

/// An experiment: a network, a session on it, cross traffic beside it, and the variants to compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// A heading for reports.
    pub title: String,
    /// What the experiment is for, in a sentence or two.
    #[serde(default)]
    pub description: String,
    /// Samples made before this time are counted. More than 0.
    #[schemars(with = "String")]
    pub duration: Duration,
    /// Samples made before this time are not counted. Less than `duration`.
    #[serde(default)]
    #[schemars(with = "String")]
    pub warmup: Duration,
    /// How long the run goes on after `duration`, so that the last samples can arrive.
    #[serde(default = "two_seconds")]
    #[schemars(with = "String")]
    pub drain: Duration,
    /// Star networks: each makes a vertex of its own name and one for every host, `NAME/1`, `NAME/2`, …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lans: BTreeMap<String, Lan>,
    /// Links by name. Vertices are whatever links (and LANs) connect.
    pub links: BTreeMap<String, LinkSpec>,
    /// The session under test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// Other traffic, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cross: BTreeMap<String, Cross>,
    /// Compare the run with the closed-form model of a shared link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Points of a sweep; without any, the scenario itself is the only one.
    #[serde(default, rename = "variant", skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
}

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// … to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    Server(ServerSpec),
    /// Propagation: every packet takes this long.
    Delay(#[schemars(with = "String")] Duration),
    /// Propagation from a table that changes over time.
    DelayTable(TableSpec),
    /// A random extra delay.
    Jitter(JitterSpec),
    /// Random loss.
    Loss(LossSpec),
    /// Loss from a table that changes over time.
    LossTable(TableSpec),
    /// Packets come twice with this probability.
    Duplicate(#[schemars(with = "String")] Probability),
    /// One bit is flipped with this probability.
    Corrupt(#[schemars(with = "String")] Probability),
    /// Nothing passes from a time on.
    Cut(CutSpec),
}

/// A queue and the rate that empties it. The packet in service is not in the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// A constant rate. Exactly one of `rate`, `mahimahi` and `rate_table` is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub rate: Option<Bitrate>,
    /// Delivery opportunities from a mahimahi trace file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mahimahi: Option<String>,
    /// A rate that changes over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    #[schemars(with = "String")]
    pub at: Duration,
    /// How fast.
    #[schemars(with = "String")]
    pub rate: Bitrate,
}

/// Drop-tail limits: in bytes, in packets, or both. Without any, 1000 packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// At most this many bytes wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub bytes: Option<Bytes>,
    /// At most this many packets wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
}

/// A table of impairments (columns `delay`, `jitter`, `packet_loss`), one row per `every`, again from the top at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// The file, relative to the scenario.
    pub file: String,
    /// How long a row lasts.
    #[serde(default = "one_second")]
    #[schemars(with = "String")]
    pub every: Duration,
}

/// A random extra delay: `mean + spread × x`, never below zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JitterSpec {
    /// How x is distributed.
    pub distribution: Distribution,
    /// The mean of the extra delay.
    #[serde(default)]
    #[schemars(with = "String")]
    pub mean: Duration,
    /// uniform: half the width; normal: standard deviation; pareto: scale.
    #[schemars(with = "String")]
    pub spread: Duration,
    /// Correlation of successive values, 0 to 1.
    #[serde(default)]
    pub correlation: f64,
    /// May packets overtake each other?
    #[serde(default)]
    pub reorder: bool,
}

/// Distributions of jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Uniform in [−1, 1].
    Uniform,
    /// Standard normal.
    Normal,
    /// Pareto, heavy tail to the right.
    Pareto,
}

/// Random loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LossSpec {
    /// Each packet by itself.
    Bernoulli(#[schemars(with = "String")] Probability),
    /// Two states with a loss rate each.
    GilbertElliott(GilbertElliottSpec),
}

/// Gilbert–Elliott, the four parameters of `tc netem loss gemodel`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliottSpec {
    /// Good to bad, per packet.
    #[schemars(with = "String")]
    pub p: Probability,
    /// Bad to good, per packet.
    #[schemars(with = "String")]
    pub r: Probability,
    /// Loss in the bad state.
    #[serde(default = "always")]
    #[schemars(with = "String")]
    pub bad: Probability,
    /// Loss in the good state.
    #[serde(default)]
    #[schemars(with = "String")]
    pub good: Probability,
}

/// Nothing passes from `at` (until `until`, if given).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CutSpec {
    /// From when.
    #[schemars(with = "String")]
    pub at: Duration,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub until: Option<Duration>,
}

/// A teleoperation session between two vertices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// The operator's vertex.
    pub operator: String,
    /// The robot's vertex.
    pub robot: String,
    /// What carries it, in both directions.
    #[serde(default)]
    pub transport: TransportSpec,
    /// What the operator sends: motion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<Stream>,
    /// What the robot sends: force, audio, video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward: Option<Stream>,
}

/// What one side sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Samples of motion or force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub haptic: Option<Haptic>,
    /// Audio frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audio: Option<Audio>,
    /// Video frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub video: Option<Video>,
    /// How the media share packets.
    #[serde(default)]
    pub multiplexer: MultiplexerSpec,
    /// Haptic packets are padded to this length on the wire, IP and UDP headers included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub packet: Option<Bytes>,
    /// Differentiated services code point, 0 to 63.
    #[serde(default)]
    pub dscp: u8,
}

/// Haptic samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Haptic {
    /// Where they come from.
    #[serde(default)]
    pub source: HapticSource,
    /// One sample every period.
    #[serde(default = "one_millisecond")]
    #[schemars(with = "String")]
    pub period: Duration,
    /// Added to the period, as ETP's own sender keeps its inter-packet gap: the cycle is `period + gap`.
    #[serde(default)]
    #[schemars(with = "String")]
    pub gap: Duration,
    /// Samples made at once in each period, one packet each. 1 to 100.
    #[serde(default = "one")]
    pub burst: u32,
    /// Bytes of one sample.
    #[serde(default = "haptic_size")]
    #[schemars(with = "String")]
    pub size: Bytes,
    /// Which samples are worth sending.
    #[serde(default)]
    pub sampler: SamplerSpec,
}

/// Where haptic samples come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HapticSource {
    /// No signal: only its packets matter.
    #[default]
    Constant,
    /// A simulated operator and a follower that touches a wall.
    Simulated(SimulatedSpec),
    /// A recording (CSV or MCAP), again from the top at its end.
    Recording(RecordingSpec),
}

/// Which side of the simulated pair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulatedSpec {
    /// `leader`: position and velocity of the operator's hand; `follower`: position and force at the wall.
    pub device: Device,
}

/// One of two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// In the operator's hand.
    Leader,
    /// At the robot.
    Follower,
}

/// Channels of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordingSpec {
    /// The file, relative to the scenario.
    pub file: String,
    /// Which channels make a sample, such as `["follower_torque_nm"]`.
    pub channels: Vec<String>,
}

/// Which samples are worth sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SamplerSpec {
    /// Every one.
    #[default]
    Every,
    /// Weber's law: one that differs from the last one sent by a fraction of it.
    Deadband(DeadbandSpec),
    /// The fraction grows with speed.
    VelocityDeadband(VelocityDeadbandSpec),
}

/// Constant deadband.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadbandSpec {
    /// The fraction, 0 to 1. In use: 0.05 to 0.15.
    #[serde(default = "tenth")]
    pub k: f64,
    /// Changes below this are never sent, in the signal's unit.
    #[serde(default)]
    pub floor: f64,
    /// Send at least this often, so that silence is not loss.
    #[serde(default = "hundred_milliseconds")]
    #[schemars(with = "String")]
    pub keep_alive: Duration,
}

/// Deadband that grows with speed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VelocityDeadbandSpec {
    /// The fraction at rest, 0 to 1.
    #[serde(default = "tenth")]
    pub k: f64,
    /// Added per unit of speed.
    pub slope: f64,
    /// Changes below this are never sent.
    #[serde(default)]
    pub floor: f64,
    /// Send at least this often.
    #[serde(default = "hundred_milliseconds")]
    #[schemars(with = "String")]
    pub keep_alive: Duration,
}

/// Audio at a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Audio {
    /// Rate of the encoded audio.
    #[serde(default = "g711_rate")]
    #[schemars(with = "String")]
    pub rate: Bitrate,
    /// Length of a frame.
    #[serde(default = "twenty_milliseconds")]
    #[schemars(with = "String")]
    pub frame: Duration,
}

/// Video frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Video {
    /// Where their sizes come from.
    #[serde(default)]
    pub source: VideoSource,
    /// Frames a second, 1 to 240.
    #[serde(default = "twenty_five")]
    pub fps: u32,
    /// Rate of the encoded video; for a table, its sizes are scaled to it if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub rate: Option<Bitrate>,
}

/// Where the sizes of video frames come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VideoSource {
    /// All equal: `rate / fps`.
    #[default]
    Constant,
    /// A real VP8 encode, 25 fps at 400 kbit/s.
    Vp8,
}

/// How media share packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MultiplexerSpec {
    /// A packet per haptic sample; audio and video frames in packets of their own.
    #[default]
    Separate,
    /// Every haptic packet carries a fragment of fixed size, audio first.
    FixedFragment(FixedFragmentSpec),
    /// Significant samples go with a millisecond's worth of video; else video goes in chunks.
    VisualHaptic,
    /// Several samples a packet when the delay rises.
    NetworkAware(NetworkAwareSpec),
}

/// Fixed fragment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FixedFragmentSpec {
    /// Bytes of audio or video in each packet.
    #[serde(default = "fifty_eight")]
    #[schemars(with = "String")]
    pub fragment: Bytes,
}

/// Network-aware packetisation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkAwareSpec {
    /// Most samples a packet, 1 to 16.
    #[serde(default = "four")]
    pub max_samples: u32,
}

/// What carries a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TransportSpec {
    /// A datagram a message.
    #[default]
    Udp,
    /// UDP with a gap between packets.
    Etp(EtpSpec),
    /// TCP, messages framed in its stream.
    Tcp(TcpSpec),
}

/// ETP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EtpSpec {
    /// A fixed gap; without it, the gap adapts to round-trip time and loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub gap: Option<Duration>,
    /// Pack waiting samples into one packet instead of superseding them.
    #[serde(default)]
    pub pack: bool,
    /// Keep the gap over TCP instead of UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpSpec>,
}

/// TCP's settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TcpSpec {
    /// Congestion control.
    #[serde(default)]
    pub congestion: Congestion,
    /// Length of a full segment on the wire, IP and TCP headers included. 100 to 65535.
    #[serde(default = "tcp_segment")]
    #[schemars(with = "String")]
    pub segment: Bytes,
    /// An acknowledgement every so many segments. 1 to 100.
    #[serde(default = "two")]
    pub ack_every: u32,
    /// Selective acknowledgements (RFC 2018).
    #[serde(default = "yes")]
    pub sack: bool,
    /// Limited transmit (RFC 3042).
    #[serde(default = "yes")]
    pub limited_transmit: bool,
    /// The window when NewReno's recovery ends (RFC 6582 section 3.2 step 3).
    #[serde(default)]
    pub full_ack: FullAck,
    /// Grow the window by bytes acknowledged (RFC 3465) or by acknowledgements.
    #[serde(default = "yes")]
    pub byte_counting: bool,
    /// Initial window in segments. 1 to 1000.
    #[serde(default = "ten")]
    pub initial_window: u32,
    /// Smallest retransmission timeout.
    #[serde(default = "one_second")]
    #[schemars(with = "String")]
    pub min_rto: Duration,
}

/// The window when NewReno's recovery ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FullAck {
    /// Option 1: what is under way and one segment more, at most ssthresh.
    #[default]
    Flight,
    /// Option 2: ssthresh.
    Ssthresh,
}

/// Congestion controls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Congestion {
    /// RFC 5681.
    Reno,
    /// RFC 6582.
    #[default]
    Newreno,
    /// RFC 9438.
    Cubic,
}

/// Other traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cross {
    /// The sender's vertex. `NAME/*` stands for every host of a LAN, each a flow of its own.
    pub from: String,
    /// The receiver's vertex. `NAME/*` pairs hosts with the senders'.
    pub to: String,
    /// How many such flows. 1 to 1000.
    #[serde(default = "one")]
    pub count: u32,
    /// From when; without it, a random instant within the pattern's first interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub start: Option<Duration>,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub stop: Option<Duration>,
    /// What it sends.
    pub traffic: Traffic,
}

/// What cross traffic sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Traffic {
    /// Packets of one size at equal distances.
    Cbr(RateAndPacket),
    /// Packets of one size at exponential distances.
    Poisson(RateAndPacket),
    /// G.711 speech with silence suppression.
    Voice,
    /// The frames of a real VP8 encode.
    Video(VideoTraffic),
    /// Packets as recorded in a pcap or pcapng file.
    Replay(ReplayTraffic),
    /// A bulk transfer over TCP.
    Tcp(TcpSpec),
}

/// A rate and a packet size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateAndPacket {
    /// On the wire.
    #[schemars(with = "String")]
    pub rate: Bitrate,
    /// On the wire. 28B to 65535B.
    #[schemars(with = "String")]
    pub packet: Bytes,
}

/// Video as cross traffic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VideoTraffic {
    /// Frames a second.
    #[serde(default = "twenty_five")]
    pub fps: u32,
    /// The largest packet on the wire.
    #[serde(default = "mtu")]
    #[schemars(with = "String")]
    pub packet: Bytes,
}

/// Recorded packets as cross traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayTraffic {
    /// The file, relative to the scenario.
    pub file: String,
    /// Again from the top at its end?
    #[serde(default)]
    pub repeat: bool,
}

/// What the closed-form model is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The shared link: its chain must have a server with a constant rate and a queue limited in bytes, and a delay.
    pub link: String,
    /// `forward` or `backward`.
    pub direction: Direction,
    /// The cross traffic that shares it, by name.
    pub cross: Vec<String>,
}

/// A session's two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Operator to robot.
    Forward,
    /// Robot to operator.
    Backward,
}

impl Direction {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}

/// One point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// How reports call it.
    pub name: String,
    /// Keys that it sets, as `--set` does: `{ "cross.constant.rate" = "1.904Mbit" }`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub set: BTreeMap<String, toml::Value>,
    /// What the source reports for it, by the name of the measure: `{ "backward haptic d_min" = 9.21 }`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reported: BTreeMap<String, f64>,
}

fn two_ends<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[String; 2]>, D::Error> {
    let ends = Vec::deserialize(deserializer)?;
    let ends = ends.try_into().map_err(|ends: Vec<String>| {
        de::Error::custom(format!("names {} vertices; a link is between two, [\"a\", \"b\"]", ends.len()))
    });
    ends.map(Some)
}

const fn one() -> u32 {
    1
}
const fn two() -> u32 {
    2
}
const fn four() -> u32 {
    4
}
const fn ten() -> u32 {
    10
}
const fn twenty_five() -> u32 {
    25
}
const fn yes() -> bool {
    true
}
const fn tenth() -> f64 {
    0.1
}
const fn always() -> Probability {
    Probability::ALWAYS
}
const fn one_millisecond() -> Duration {
    Duration::from_millis(1)
}
const fn twenty_milliseconds() -> Duration {
    Duration::from_millis(20)
}
const fn hundred_milliseconds() -> Duration {
    Duration::from_millis(100)
}
const fn one_second() -> Duration {
    Duration::from_secs(1)
}
const fn two_seconds() -> Duration {
    Duration::from_secs(2)
}
const fn g711_rate() -> Bitrate {
    Bitrate::from_bps(64_000)
}
const fn haptic_size() -> Bytes {
    Bytes::new(24)
}
const fn fifty_eight() -> Bytes {
    Bytes::new(58)
}
const fn tcp_segment() -> Bytes {
    Bytes::new(1500)
}
const fn mtu() -> Bytes {
    Bytes::new(1200)
}
