//! What an endpoint speaks, and how it is set for sessions.

use taut_agent::PATIENCE;
use taut_core::{Bytes, Duration, Priority};
use taut_transport::dccp::DccpConfig;
use taut_transport::etp::EtpConfig;
use taut_transport::mtip::MtipConfig;
use taut_transport::quic::{PathUse, QuicConfig};
use taut_transport::sctp::SctpConfig;
use taut_transport::stack::{StackSpec, TransportKind};
use taut_transport::udp::UdpConfig;

use crate::tcp::KernelTcpConfig;

/// A transport with its settings, over sockets.
///
/// From a [`TransportKind`] it has those that `taut robot` and `taut operator` use: they fit sessions over networks that
/// nobody knows.
#[derive(Clone, Debug)]
pub enum TransportConfig {
    /// One of `taut-transport`; no model.
    Stack(StackSpec),
    /// The kernel's TCP.
    Tcp(KernelTcpConfig),
}

impl TransportConfig {
    /// Which transport.
    pub const fn kind(&self) -> TransportKind {
        match self {
            Self::Stack(spec) => spec.kind(),
            Self::Tcp(_) => TransportKind::Tcp,
        }
    }
}

impl From<StackSpec> for TransportConfig {
    fn from(spec: StackSpec) -> Self {
        Self::Stack(spec)
    }
}

impl From<KernelTcpConfig> for TransportConfig {
    fn from(config: KernelTcpConfig) -> Self {
        Self::Tcp(config)
    }
}

/// What sealing adds to a datagram, [`taut_transport::security::Secured::OVERHEAD`], fits between this and Ethernet's
/// 1472 B.
const ROOM: Bytes = Bytes::new(1_400);

impl From<TransportKind> for TransportConfig {
    fn from(kind: TransportKind) -> Self {
        Self::Stack(match kind {
            // A link that is silent for 2 s is gone: until then the robot lets nobody else in.
            TransportKind::Quic => StackSpec::Quic(
                QuicConfig::new().idle_timeout(Duration::from_secs(2)).keep_alive(Duration::from_millis(500)),
            ),
            TransportKind::Udp => StackSpec::Udp(UdpConfig::new().max_datagram(ROOM)),
            TransportKind::Tcp => return Self::Tcp(KernelTcpConfig::new()),
            // The kernel decides about its subflows.
            TransportKind::Mptcp => return Self::Tcp(KernelTcpConfig::new().multipath(true)),
            TransportKind::Sctp => StackSpec::Sctp(SctpConfig::new()),
            TransportKind::Dccp => {
                let config = DccpConfig::new().max_datagram(ROOM).expect("within its range");
                StackSpec::Dccp(config.connect_timeout(PATIENCE))
            }
            // As QUIC: after 2 s without a sign of life on any path it is over.
            TransportKind::Mtip => StackSpec::Mtip(
                MtipConfig::new()
                    .deadline(Duration::from_millis(200))
                    .idle_timeout(Duration::from_secs(2))
                    .emergency(Priority(0))
                    .max_message(ROOM),
            ),
            TransportKind::Mpquic => StackSpec::Mpquic(
                QuicConfig::multipath(PathUse::FailOver).idle_timeout(Duration::from_secs(2)),
            ),
            // States at 1 kHz. Acknowledgements and forces share the gap: what waits goes together.
            TransportKind::Etp => {
                StackSpec::Etp(EtpConfig::session(Duration::from_millis(1)).pack(true).max_datagram(ROOM))
            }
            TransportKind::EveryPath => StackSpec::EveryPath(UdpConfig::new().max_datagram(ROOM)),
        })
    }
}
