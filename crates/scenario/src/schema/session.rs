//! A session: its ends, its media, and how they share packets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::{Bitrate, Bytes, Duration, Medium, Probability};
pub use taut_report::result::Direction;

use super::defaults::{bytes, kbit, ms, ten_thousandths, tenths, u32};
use super::transport::TransportSpec;

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
    /// Hold media back while the session alone fills the path's queue? Samples and frames go at the rate at which they are made
    /// otherwise, whatever the path carries.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub window: bool,
    /// What the operator sends: motion.
    pub forward: Option<Stream>,
    /// What the robot sends: force, audio, video.
    pub backward: Option<Stream>,
}

impl Session {
    /// What goes this way.
    pub fn stream(&self, direction: Direction) -> Option<&Stream> {
        match direction {
            Direction::Forward => self.forward.as_ref(),
            Direction::Backward => self.backward.as_ref(),
        }
    }

    /// Its media, each a channel, in the order in which both ends declare them.
    pub fn media(&self) -> impl Iterator<Item = (Direction, Medium)> {
        [Direction::Forward, Direction::Backward].into_iter().flat_map(|direction| {
            let stream = self.stream(direction);
            let media = Medium::ALL
                .into_iter()
                .filter(move |medium| stream.is_some_and(|stream| stream.has(*medium)));
            media.map(move |medium| (direction, medium))
        })
    }

    /// The place of a medium's channel among those that both ends declare.
    pub fn channel(&self, direction: Direction, medium: Medium) -> Option<u8> {
        self.media().position(|each| each == (direction, medium)).map(|at| at as u8)
    }
}

impl Stream {
    /// Is it sent?
    fn has(&self, medium: Medium) -> bool {
        match medium {
            Medium::Haptic => self.haptic.is_some(),
            Medium::Audio => self.audio.is_some(),
            Medium::Video => self.video.is_some(),
            Medium::Data => false,
        }
    }
}

/// What one side sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Samples of motion or force.
    pub haptic: Option<Haptic>,
    /// Audio frames.
    pub audio: Option<Audio>,
    /// Video frames.
    pub video: Option<Video>,
    /// How the media share packets.
    #[serde(default)]
    pub multiplexer: MultiplexerSpec,
    /// Haptic packets are padded to this length on the wire, IP and UDP headers included.
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
    #[serde(default = "ms::<1>")]
    pub period: Duration,
    /// Added to the period, as ETP's own sender keeps its inter-packet gap: the cycle is `period + gap`.
    #[serde(default)]
    pub gap: Duration,
    /// Samples made at once in each period, one packet each. 1 to 100.
    #[serde(default = "u32::<1>")]
    pub burst: u32,
    /// Bytes of one sample.
    #[serde(default = "bytes::<24>")]
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
    /// Free motion and contact in turn, told by how many samples of each a deadband sampler sends.
    Contacts(ContactsSpec),
}

/// A force that a deadband sampler sends often in contact and seldom in free motion: bursts of any length, whose mean and peak rate
/// stay the same. It is 1 or 1.5, so that every change counts for a sampler with `k` up to 0.33.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContactsSpec {
    /// Mean length of a contact, 10 ms to 60 s. Each lasts for half of it to one and a half. A run should last ten times `length` / `share`: a
    /// shorter one may have no contact at all, for when the first begins is drawn.
    pub length: Duration,
    // By default what a deadband sampler sent of the signal in Gokhale et al., Figure 9: 613 kbit/s, and 1079 for 4 of some 20 s.
    /// How much of the time is contact, 1 % to 99 %.
    #[serde(default = "ten_thousandths::<1900>")]
    pub share: Probability,
    /// How many samples change in contact.
    #[serde(default = "ten_thousandths::<10_000>")]
    pub changes: Probability,
    /// How many samples change in free motion.
    #[serde(default = "ten_thousandths::<1200>")]
    pub free_changes: Probability,
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
    #[serde(default = "tenths::<1>")]
    pub k: f64,
    /// Changes below this are never sent, in the signal's unit.
    #[serde(default)]
    pub floor: f64,
    /// Send at least this often, so that silence is not loss.
    #[serde(default = "ms::<100>")]
    pub keep_alive: Duration,
}

/// Deadband that grows with speed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VelocityDeadbandSpec {
    /// The fraction at rest, 0 to 1.
    #[serde(default = "tenths::<1>")]
    pub k: f64,
    /// Added per unit of speed.
    pub slope: f64,
    /// Changes below this are never sent.
    #[serde(default)]
    pub floor: f64,
    /// Send at least this often.
    #[serde(default = "ms::<100>")]
    pub keep_alive: Duration,
}

/// Audio at a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Audio {
    /// Rate of the encoded audio.
    #[serde(default = "kbit::<64>")]
    pub rate: Bitrate,
    /// Length of a frame.
    #[serde(default = "ms::<20>")]
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
    #[serde(default = "u32::<25>")]
    pub fps: u32,
    /// Rate of the encoded video; for a table, its sizes are scaled to it if given.
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

impl MultiplexerSpec {
    /// Do frames travel in packets of samples?
    pub fn rides_on_samples(&self) -> bool {
        !matches!(self, Self::Separate)
    }
}

/// Fixed fragment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FixedFragmentSpec {
    /// Bytes of audio or video in each packet.
    #[serde(default = "bytes::<58>")]
    pub fragment: Bytes,
}

/// Network-aware packetisation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkAwareSpec {
    /// Most samples a packet, 1 to 7.
    #[serde(default = "u32::<4>")]
    pub max_samples: u32,
}
