//! What carries a session, and TCP as cross traffic.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::{Bitrate, Bytes, Duration};
use taut_transport::tcp::TcpConfig;
pub use taut_transport::tcp::{CongestionControl, Counting, FullAck, RtoFloor};

use super::commands::{MpquicSpec, MptcpSpec, MtipSpec};
use super::defaults::{bytes, ms, u8, u16, u32, yes};
use super::traffic::RtpTraffic;

/// What carries a session or commands. MTIP, MPTCP, MPQUIC and `every_path` use all paths that there are, the others the first
/// one.
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
    /// QUIC: reliable messages in streams, others in datagrams.
    Quic(QuicSpec),
    /// SCTP over UDP: a stream each.
    Sctp(SctpSpec),
    /// DCCP over UDP: never repeats anything.
    Dccp(DccpSpec),
    /// MTIP.
    Mtip(MtipSpec),
    /// The model of Multipath TCP.
    Mptcp(MptcpSpec),
    /// Multipath QUIC: reliable messages in streams, others in datagrams.
    Mpquic(MpquicSpec),
    /// A datagram on every path for every message, at once, and nothing more: as much as the best choice of paths has in time
    /// that sends nothing later. What could be had by sending later is `bound_percent` of a result of commands, whatever
    /// carries them.
    EveryPath,
}

impl TransportSpec {
    /// Its name in results.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Etp(_) => "etp",
            Self::Tcp(_) => "tcp",
            Self::Quic(_) => "quic",
            Self::Sctp(_) => "sctp",
            Self::Dccp(_) => "dccp",
            Self::Mtip(_) => "mtip",
            Self::Mptcp(_) => "mptcp",
            Self::Mpquic(_) => "mpquic",
            Self::EveryPath => "every path",
        }
    }

    /// As it runs over sockets where nothing else is said, by its name; `None` where it is simulated alone.
    pub fn shipped(name: &str) -> Option<Self> {
        Some(match name {
            "udp" => Self::Udp,
            // The kernel's.
            "tcp" => Self::Tcp(TcpSpec::linux()),
            "etp" => Self::Etp(EtpSpec { pack: true, ..EtpSpec::default() }),
            "quic" => Self::Quic(QuicSpec::default()),
            "sctp" => Self::Sctp(SctpSpec::default()),
            "dccp" => Self::Dccp(DccpSpec { ccid: 2 }),
            "mtip" => Self::Mtip(MtipSpec::default()),
            "mpquic" => Self::Mpquic(MpquicSpec::default()),
            _ => return None,
        })
    }

    /// Does it use several paths at once?
    pub fn is_multipath(&self) -> bool {
        matches!(self, Self::Mtip(_) | Self::Mptcp(_) | Self::Mpquic(_) | Self::EveryPath)
    }
}

/// QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuicSpec {
    /// Who decides how much is sent.
    #[serde(default)]
    pub congestion: QuicCongestion,
    /// The rate that `paced` keeps whatever happens; without it, 1.5Mbit. At least 64kbit.
    pub floor: Option<Bitrate>,
    /// At the latest so many packets are acknowledged together. 1 to 100.
    #[serde(default = "u32::<2>")]
    pub ack_every: u32,
    /// How long an acknowledgement may be withheld. 1ms to 25ms.
    #[serde(default = "ms::<5>")]
    pub ack_delay: Duration,
}

/// QUIC's congestion controls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuicCongestion {
    /// taut's own, for a flow whose rate is known.
    #[default]
    Paced,
    /// RFC 9438.
    Cubic,
    /// RFC 9002.
    Newreno,
    /// BBR version 1.
    Bbr,
}

/// SCTP.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SctpSpec {
    /// How often an unreliable message that was lost is sent again at most. 0 to 1000.
    #[serde(default = "u16::<3>")]
    pub retransmissions: u16,
    /// Smallest retransmission timeout. 50ms to 4s, the longest that it grows to.
    #[serde(default = "ms::<1000>")]
    pub rto_min: Duration,
    /// What may be in flight however many packets are lost; without it, 48kB. 4800B to 10MB.
    pub min_window: Option<Bytes>,
}

/// DCCP.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DccpSpec {
    /// 2: like TCP (RFC 4341). 3: TFRC (RFC 4342).
    #[serde(default = "u8::<2>")]
    pub ccid: u8,
}

/// ETP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EtpSpec {
    /// A fixed gap; without it, the gap adapts to round-trip time and loss.
    pub gap: Option<Duration>,
    /// Pack waiting samples into one packet instead of superseding them.
    #[serde(default)]
    pub pack: bool,
    /// Keep the gap over TCP instead of UDP.
    pub tcp: Option<TcpSpec>,
}

/// TCP's settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TcpSpec {
    /// Congestion control.
    #[serde(default)]
    pub congestion: CongestionControl,
    /// Length of a full segment on the wire, IP and TCP headers included. 100 to 65535.
    #[serde(default = "bytes::<1500>")]
    pub segment: Bytes,
    /// An acknowledgement every so many segments. 1 to 100.
    #[serde(default = "u32::<2>")]
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
    /// What the window and delayed acknowledgements count: bytes (RFC 5681), or segments, however short, as in Linux.
    #[serde(default)]
    pub counted: Counting,
    /// Find losses by time and probe the tail (RACK-TLP, RFC 8985), and let the window fall in proportion (PRR, RFC 6937), as
    /// Linux does; with `sack`.
    #[serde(default)]
    pub rack: bool,
    /// Timestamps (RFC 7323), 12 bytes of each segment, as in Linux: with `rack` they tell what was late from what was lost.
    #[serde(default)]
    pub timestamps: bool,
    /// Grow the window by bytes acknowledged (RFC 3465) or by acknowledgements.
    #[serde(default = "yes")]
    pub byte_counting: bool,
    /// Initial window in segments. 1 to 1000.
    #[serde(default = "u32::<10>")]
    pub initial_window: u32,
    /// Smallest retransmission timeout.
    #[serde(default = "ms::<1000>")]
    pub min_rto: Duration,
    /// What `min_rto` is the least of: the whole timeout, or what is above the round trip.
    #[serde(default)]
    pub rto_floor: RtoFloor,
}

impl TcpSpec {
    /// What Linux's TCP does where it differs from the RFCs that are the default.
    pub fn linux() -> Self {
        let min_rto = TcpConfig::LINUX_MIN_RTO;
        Self { counted: Counting::Segments, rack: true, timestamps: true, min_rto, ..Self::default() }
    }
}

macro_rules! default_of_the_schema {
    ($($spec:ty),+) => {$(
        impl Default for $spec {
            fn default() -> Self {
                toml::from_str("").expect("every setting has a default")
            }
        }
    )+};
}
default_of_the_schema!(TcpSpec, QuicSpec, SctpSpec, MtipSpec, MpquicSpec, RtpTraffic);
