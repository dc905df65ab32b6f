//! What an endpoint speaks, and how it is set for sessions.

use taut_agent::PATIENCE;
use taut_transport::stack::{StackSpec, TransportKind};

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
    /// Has its connections write traces, where it is QUIC; the others have none.
    #[cfg(feature = "qlog")]
    pub fn qlog(self, qlog: taut_transport::quic::qlog::Qlog) -> Self {
        match self {
            Self::Stack(spec) => Self::Stack(spec.qlog(qlog)),
            tcp @ Self::Tcp(_) => tcp,
        }
    }

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

impl From<TransportKind> for TransportConfig {
    fn from(kind: TransportKind) -> Self {
        match StackSpec::for_sessions(kind, PATIENCE) {
            Some(spec) => Self::Stack(spec),
            // Of Multipath TCP the kernel decides about its subflows.
            None => Self::Tcp(KernelTcpConfig::new().multipath(kind == TransportKind::Mptcp)),
        }
    }
}
