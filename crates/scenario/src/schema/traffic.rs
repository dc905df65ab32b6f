//! Cross traffic.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::{Bitrate, Bytes, Duration};
use taut_wire::rtp::Codec;

use super::defaults::{bytes, is_default, ms, u16, u32};
use super::session::{HapticSource, SamplerSpec};
use super::transport::TcpSpec;

/// Other traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cross {
    /// The sender's vertex. `NAME/*` stands for every host of a LAN, each a flow of its own.
    pub from: String,
    /// The receiver's vertex. `NAME/*` pairs hosts with the senders'.
    pub to: String,
    /// How many such flows. 1 to 1000.
    #[serde(default = "u32::<1>")]
    pub count: u32,
    /// From when; without it, a random instant within the pattern's first interval.
    pub start: Option<Duration>,
    /// Until when.
    pub stop: Option<Duration>,
    /// Differentiated services code point of its packets, 0 to 63; acknowledgements have it too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dscp: u8,
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
    /// The frames of a real VP8 encode in RTP packets with real headers, put together to frames again at the receiver.
    Rtp(RtpTraffic),
    /// What a haptic device finds worth sending, one packet for each sample.
    Haptic(HapticTraffic),
    /// Packets as recorded in a pcap or pcapng file.
    Replay(ReplayTraffic),
    /// A bulk transfer over TCP.
    Tcp(TcpSpec),
}

impl Traffic {
    /// Does it send nothing at all, having no rate?
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::Cbr(traffic) | Self::Poisson(traffic) if traffic.rate == Bitrate::default())
    }
}

/// A rate and a packet size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateAndPacket {
    /// On the wire.
    pub rate: Bitrate,
    /// On the wire. 28B to 65535B.
    pub packet: Bytes,
}

/// Video as cross traffic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VideoTraffic {
    /// Frames a second.
    #[serde(default = "u32::<25>")]
    pub fps: u32,
    /// The largest packet on the wire.
    #[serde(default = "bytes::<1200>")]
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

/// Video over RTP. Its frames are counted at the receiver, in the results' `videos`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RtpTraffic {
    /// A pcap or pcapng file, relative to the scenario, whose RTP packets to `port` are sent, each as long after `start`, by default
    /// the beginning, as it was after the capture's first packet. Of several streams (SSRC) that with the most bytes. Without it,
    /// frames come from a real VP8 encode, over and over.
    pub file: Option<String>,
    /// What the sender does about losses and delays.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sender: RtpSender,
    /// Whose payload format: `vp8` (RFC 7741) or `opaque`; in a file `h264` (RFC 6184), too.
    #[serde(default)]
    pub codec: Codec,
    /// Frames a second, 1 to 240. Not with a file.
    #[serde(default = "u32::<25>")]
    pub fps: u32,
    /// Mean rate of the frames, to which the sizes of the encode are scaled; by default they are as encoded. Of a sender that adapts the
    /// highest. From 1kbit. Not with a file.
    pub rate: Option<Bitrate>,
    /// The largest packet on the wire. 100B to 65535B. Not with a file.
    #[serde(default = "bytes::<1200>")]
    pub packet: Bytes,
    /// The UDP port to which it goes.
    #[serde(default = "u16::<5004>")]
    pub port: u16,
    /// The cross traffic, of type `haptic` or `replay`, that it is to be seen with: each frame is paired at the sender with the nearest
    /// packet of it, and the difference of their arrivals is the offset.
    pub with: Option<String>,
    /// How far apart a frame and the nearest packet may be sent. Up to 1s.
    #[serde(default = "ms::<5>")]
    pub within: Duration,
}

/// What a sender of video does about losses and delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RtpSender {
    /// Nothing: every frame comes at its time, as large as it is.
    #[default]
    Replay,
    /// Google Congestion Control (draft-ietf-rmcat-gcc-02) on reports by RFC 8888 every 100 ms, for which links must lead back: from 300 kbit/s
    /// up to `rate`. The sizes of the frames are scaled to the rate of the moment, and packets leave at 2.5 times it. Not with a file.
    Gcc,
}

/// Haptic samples as traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HapticTraffic {
    /// Where samples come from.
    #[serde(default)]
    pub source: HapticSource,
    /// One sample every period. 10us to 1s.
    #[serde(default = "ms::<1>")]
    pub period: Duration,
    /// On the wire. 28B to 65535B.
    #[serde(default = "bytes::<75>")]
    pub packet: Bytes,
    /// Which samples are worth sending.
    #[serde(default)]
    pub sampler: SamplerSpec,
}
