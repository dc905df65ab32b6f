//! Cross traffic.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::{Bitrate, Bytes, Duration};

use super::defaults;
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
    #[serde(default = "defaults::one")]
    pub count: u32,
    /// From when; without it, a random instant within the pattern's first interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub start: Option<Duration>,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub stop: Option<Duration>,
    /// Differentiated services code point of its packets, 0 to 63; acknowledgements have it too.
    #[serde(default, skip_serializing_if = "super::defaults::is_zero")]
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
    #[serde(default = "defaults::twenty_five")]
    pub fps: u32,
    /// The largest packet on the wire.
    #[serde(default = "defaults::mtu")]
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
