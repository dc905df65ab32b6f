//! The transports by name, and what an end is made from.

use std::str::FromStr;

use taut_core::{Bytes, Duration, Priority, Protocol};

use crate::dccp::DccpConfig;
use crate::etp::EtpConfig;
use crate::mptcp::MptcpConfig;
use crate::mtip::MtipConfig;
#[cfg(feature = "qlog")]
use crate::quic::qlog::Qlog;
use crate::quic::{PathUse, QuicConfig};
use crate::sctp::SctpConfig;
use crate::tcp::TcpConfig;
use crate::udp::UdpConfig;

taut_core::named! {
    /// A transport by its name.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum TransportKind {
        /// QUIC.
        #[default]
        Quic = "quic",
        /// UDP.
        Udp = "udp",
        /// TCP: the kernel's over sockets, its model in the lab.
        Tcp = "tcp",
        /// SCTP over UDP (RFC 6951).
        Sctp = "sctp",
        /// DCCP over UDP (RFC 6773).
        Dccp = "dccp",
        /// ETP over UDP.
        Etp = "etp",
        /// MTIP over UDP, on several paths.
        Mtip = "mtip",
        /// QUIC, on several paths.
        Mpquic = "mpquic",
        /// The model of Multipath TCP.
        Mptcp = "mptcp",
        /// A datagram on every path for every message.
        EveryPath = "every_path",
    }
}

impl TransportKind {
    /// Those that carry sessions over sockets.
    pub const SHIPPED: [Self; 8] =
        [Self::Quic, Self::Udp, Self::Tcp, Self::Sctp, Self::Dccp, Self::Etp, Self::Mtip, Self::Mpquic];

    /// Does it use several paths at once?
    pub const fn is_multipath(self) -> bool {
        matches!(self, Self::Mtip | Self::Mpquic | Self::Mptcp | Self::EveryPath)
    }

    /// Is it encrypted by itself, whether one wants it or not?
    pub const fn is_always_encrypted(self) -> bool {
        matches!(self, Self::Quic | Self::Mpquic)
    }

    /// What the IP header names.
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Tcp | Self::Mptcp => Protocol::Tcp,
            _ => Protocol::Udp,
        }
    }
}

/// Of those that are shipped.
impl FromStr for TransportKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::SHIPPED.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names = Self::SHIPPED.map(Self::name).join(", ");
            format!("`{text}` is not a transport; there are {names}")
        })
    }
}

/// A transport and its settings.
#[derive(Clone, Debug)]
pub enum StackSpec {
    /// UDP.
    Udp(UdpConfig),
    /// ETP over UDP.
    Etp(EtpConfig),
    /// The model of TCP.
    Tcp(TcpConfig),
    /// The same, with ETP's gap between messages.
    SpacedTcp {
        /// TCP's settings.
        tcp: TcpConfig,
        /// From one message to the next, 0 to [`MAX_GAP`](crate::etp::MAX_GAP).
        gap: Duration,
        /// What does not wait for it.
        urgent: Option<Priority>,
    },
    /// QUIC.
    Quic(QuicConfig),
    /// Multipath QUIC.
    Mpquic(QuicConfig),
    /// SCTP over UDP.
    Sctp(SctpConfig),
    /// DCCP over UDP.
    Dccp(DccpConfig),
    /// MTIP over UDP.
    Mtip(MtipConfig),
    /// The model of Multipath TCP.
    Mptcp(MptcpConfig),
    /// A datagram on every path for every message.
    EveryPath(UdpConfig),
}

/// What sealing adds to a datagram, [`Secured::OVERHEAD`](crate::security::Secured::OVERHEAD), fits between this and Ethernet's 1472 B.
const ROOM: Bytes = Bytes::new(1_400);

impl StackSpec {
    /// As sessions over networks that nobody knows have it; `None` where there is a model, and over sockets the kernel's own.
    /// `patience`: how long an operator tries to connect.
    pub fn for_sessions(kind: TransportKind, patience: Duration) -> Option<Self> {
        // A link that is silent for so long is gone: until then the robot lets nobody else in.
        let gone = Duration::from_secs(2);
        Some(match kind {
            TransportKind::Quic => {
                Self::Quic(QuicConfig::new().idle_timeout(gone).keep_alive(Duration::from_millis(500)))
            }
            TransportKind::Udp => Self::Udp(UdpConfig::new().max_datagram(ROOM)),
            TransportKind::Tcp | TransportKind::Mptcp => return None,
            TransportKind::Sctp => Self::Sctp(SctpConfig::new()),
            TransportKind::Dccp => {
                let config = DccpConfig::new().max_datagram(ROOM).expect("within its range");
                Self::Dccp(config.connect_timeout(patience))
            }
            TransportKind::Mtip => Self::Mtip(
                MtipConfig::new()
                    .deadline(Duration::from_millis(200))
                    .idle_timeout(gone)
                    .emergency(Priority(0))
                    .max_message(ROOM),
            ),
            TransportKind::Mpquic => Self::Mpquic(
                QuicConfig::multipath(PathUse::FailOver).idle_timeout(gone).emergency(Priority(0)),
            ),
            // States at 1 kHz. Acknowledgements and forces share the gap: what waits goes together.
            TransportKind::Etp => {
                Self::Etp(EtpConfig::session(Duration::from_millis(1)).pack(true).max_datagram(ROOM))
            }
            TransportKind::EveryPath => Self::EveryPath(UdpConfig::new().max_datagram(ROOM)),
        })
    }

    /// Has its connections write traces, where it is QUIC; the others have none.
    #[cfg(feature = "qlog")]
    pub fn qlog(self, qlog: Qlog) -> Self {
        match self {
            Self::Quic(config) => Self::Quic(config.qlog(qlog)),
            Self::Mpquic(config) => Self::Mpquic(config.qlog(qlog)),
            other => other,
        }
    }

    /// Which transport.
    pub const fn kind(&self) -> TransportKind {
        match self {
            Self::Udp(_) => TransportKind::Udp,
            Self::Etp(_) => TransportKind::Etp,
            Self::Tcp(_) | Self::SpacedTcp { .. } => TransportKind::Tcp,
            Self::Quic(_) => TransportKind::Quic,
            Self::Mpquic(_) => TransportKind::Mpquic,
            Self::Sctp(_) => TransportKind::Sctp,
            Self::Dccp(_) => TransportKind::Dccp,
            Self::Mtip(_) => TransportKind::Mtip,
            Self::Mptcp(_) => TransportKind::Mptcp,
            Self::EveryPath(_) => TransportKind::EveryPath,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_transport_is_found_by_its_name_and_a_model_is_not() {
        assert!(TransportKind::SHIPPED.into_iter().all(|kind| kind.name().parse() == Ok(kind)));
        for text in ["mptcp", "every_path", "QUIC", ""] {
            let error = text.parse::<TransportKind>().unwrap_err();
            assert!(error.starts_with(&format!("`{text}`")) && error.contains("mpquic"), "{error}");
        }
    }
}
