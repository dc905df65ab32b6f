//! The transports by name, and their settings.

use std::fmt;
use std::str::FromStr;

use taut_agent::PATIENCE;
use taut_core::{Bytes, Duration, Priority};
use taut_transport::dccp::DccpConfig;
use taut_transport::etp::EtpConfig;
use taut_transport::mpquic::MpQuicConfig;
use taut_transport::mtip::MtipConfig;
use taut_transport::quic::QuicConfig;
use taut_transport::sctp::SctpConfig;
use taut_transport::udp::UdpConfig;

use crate::tcp::KernelTcpConfig;

/// A transport by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransportKind {
    /// QUIC.
    #[default]
    Quic,
    /// UDP.
    Udp,
    /// The kernel's TCP.
    Tcp,
    /// SCTP over UDP (RFC 6951).
    Sctp,
    /// DCCP over UDP (RFC 6773).
    Dccp,
    /// ETP over UDP.
    Etp,
    /// MTIP over UDP, on several paths.
    Mtip,
    /// QUIC, on several paths.
    Mpquic,
}

impl TransportKind {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Quic, Self::Udp, Self::Tcp, Self::Sctp, Self::Dccp, Self::Etp, Self::Mtip, Self::Mpquic];

    /// Its name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quic => "quic",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Sctp => "sctp",
            Self::Dccp => "dccp",
            Self::Etp => "etp",
            Self::Mtip => "mtip",
            Self::Mpquic => "mpquic",
        }
    }

    /// Can it repeat what was lost?
    pub const fn is_reliable(self) -> bool {
        matches!(self, Self::Quic | Self::Tcp | Self::Sctp | Self::Mtip | Self::Mpquic)
    }

    /// Does it use several paths at once?
    pub const fn is_multipath(self) -> bool {
        matches!(self, Self::Mtip | Self::Mpquic)
    }

    /// Is it encrypted by itself, whether one wants it or not?
    pub const fn is_always_encrypted(self) -> bool {
        matches!(self, Self::Quic | Self::Mpquic)
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TransportKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is not a transport; there are {names}")
        })
    }
}

/// A transport with its settings.
///
/// From a [`TransportKind`] it has those that `taut robot` and `taut operator` use: they fit sessions over networks that
/// nobody knows.
#[derive(Clone, Debug)]
pub enum TransportConfig {
    /// QUIC.
    Quic(QuicConfig),
    /// UDP.
    Udp(UdpConfig),
    /// The kernel's TCP.
    Tcp(KernelTcpConfig),
    /// SCTP over UDP.
    Sctp(SctpConfig),
    /// DCCP over UDP.
    Dccp(DccpConfig),
    /// ETP over UDP.
    Etp(EtpConfig),
    /// MTIP over UDP.
    Mtip(MtipConfig),
    /// Multipath QUIC.
    Mpquic(MpQuicConfig),
}

impl TransportConfig {
    /// Which transport.
    pub const fn kind(&self) -> TransportKind {
        match self {
            Self::Quic(_) => TransportKind::Quic,
            Self::Udp(_) => TransportKind::Udp,
            Self::Tcp(_) => TransportKind::Tcp,
            Self::Sctp(_) => TransportKind::Sctp,
            Self::Dccp(_) => TransportKind::Dccp,
            Self::Etp(_) => TransportKind::Etp,
            Self::Mtip(_) => TransportKind::Mtip,
            Self::Mpquic(_) => TransportKind::Mpquic,
        }
    }
}

/// What sealing adds to a datagram, [`taut_transport::security::Secured::OVERHEAD`], fits between this and Ethernet's
/// 1472 B.
const ROOM: Bytes = Bytes::new(1_400);

impl From<TransportKind> for TransportConfig {
    fn from(kind: TransportKind) -> Self {
        match kind {
            // A link that is silent for 2 s is gone: until then the robot lets nobody else in.
            TransportKind::Quic => Self::Quic(
                QuicConfig::new().idle_timeout(Duration::from_secs(2)).keep_alive(Duration::from_millis(500)),
            ),
            TransportKind::Udp => Self::Udp(UdpConfig::new().max_datagram(ROOM)),
            TransportKind::Tcp => Self::Tcp(KernelTcpConfig::new()),
            TransportKind::Sctp => Self::Sctp(SctpConfig::new()),
            TransportKind::Dccp => {
                let config = DccpConfig::new().max_datagram(ROOM).expect("within its range");
                Self::Dccp(config.connect_timeout(PATIENCE))
            }
            // As QUIC: after 2 s without a sign of life on any path it is over.
            TransportKind::Mtip => Self::Mtip(
                MtipConfig::new()
                    .deadline(Duration::from_millis(200))
                    .idle_timeout(Duration::from_secs(2))
                    .emergency(Priority(0))
                    .max_message(ROOM),
            ),
            TransportKind::Mpquic => Self::Mpquic(MpQuicConfig::new().idle_timeout(Duration::from_secs(2))),
            // States at 1 kHz. Acknowledgements and forces share the gap: what waits goes together.
            TransportKind::Etp => {
                Self::Etp(EtpConfig::session(Duration::from_millis(1)).pack(true).max_datagram(ROOM))
            }
        }
    }
}
