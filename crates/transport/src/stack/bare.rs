//! Every transport, with nothing around it.

use taut_core::{Bytes, IPV4_HEADER, Protocol, Rng, Transport, UDP_HEADER, dispatch_transport};

use super::{EveryPath, Part, Protection, Randomness, Side, StackError, StackSpec};
use crate::dccp::Dccp;
use crate::etp::{Etp, Gap};
use crate::mptcp::{self, Mptcp};
use crate::mtip::Mtip;
use crate::quic::{MpQuic, Quic};
use crate::sctp::Sctp;
use crate::tcp::{Tcp, TcpConfig};
use crate::udp::Udp;

/// A transport, whichever it is. In a [`Stack`](super::Stack) it lies in the one box of that.
#[expect(clippy::large_enum_variant, reason = "a box for each would cost an indirection a call")]
pub enum Bare {
    /// UDP.
    Udp(Udp),
    /// ETP.
    Etp(Etp),
    /// The model of TCP.
    Tcp(Tcp),
    /// The same, with ETP's gap between messages.
    SpacedTcp(Gap<Tcp>),
    /// QUIC.
    Quic(Quic),
    /// Multipath QUIC.
    Mpquic(MpQuic),
    /// SCTP.
    Sctp(Sctp),
    /// DCCP.
    Dccp(Dccp),
    /// MTIP.
    Mtip(Mtip),
    /// The model of Multipath TCP.
    Mptcp(Mptcp),
    /// A datagram on every path.
    EveryPath(EveryPath),
}

/// The transport that it is, whose methods are then looked up once and not by a match each.
macro_rules! whichever {
    ($bare:ident) => {
        match $bare {
            Bare::Udp(transport) => transport,
            Bare::Etp(transport) => transport,
            Bare::Tcp(transport) => transport,
            Bare::SpacedTcp(transport) => transport,
            Bare::Quic(transport) => transport,
            Bare::Mpquic(transport) => transport,
            Bare::Sctp(transport) => transport,
            Bare::Dccp(transport) => transport,
            Bare::Mtip(transport) => transport,
            Bare::Mptcp(transport) => transport,
            Bare::EveryPath(transport) => transport,
        }
    };
}

impl Bare {
    #[inline]
    pub(super) fn whichever(&self) -> &dyn Transport {
        whichever!(self)
    }

    #[inline]
    pub(super) fn whichever_mut(&mut self) -> &mut dyn Transport {
        whichever!(self)
    }
}

dispatch_transport!(Bare);

/// The end of a connection that is at this side.
macro_rules! end {
    ($transport:ident, $side:ident, $($argument:expr),+) => {
        match $side {
            Side::Opens => $transport::client($($argument),+),
            Side::Waits => $transport::server($($argument),+),
        }
    };
}

/// An Ethernet frame's payload (RFC 894).
const ETHERNET: Bytes = Bytes::new(1500);
/// An IPv4 and a UDP header.
const UDP_IP: u64 = IPV4_HEADER + UDP_HEADER;
/// An IPv4 and a TCP header without options, and the length in front of a message.
const TCP_IP: u64 = IPV4_HEADER + 20 + 4;

impl Bare {
    /// `protection` is that of a transport that has its own.
    pub(super) fn new(
        spec: StackSpec,
        side: Side,
        protection: Option<&Protection>,
        randomness: &mut dyn Randomness,
    ) -> Result<Self, StackError> {
        let kind = spec.kind();
        let part = Part::Transport(kind);
        let known = || protection.ok_or(StackError::AlwaysEncrypted(kind));
        Ok(match spec {
            StackSpec::Udp(config) => Self::Udp(match side {
                Side::Opens => Udp::new(config),
                Side::Waits => Udp::waiting(config),
            }),
            StackSpec::Etp(config) => Self::Etp(match side {
                Side::Opens => Etp::new(config)?,
                Side::Waits => Etp::waiting(config)?,
            }),
            StackSpec::Tcp(config) => Self::Tcp(tcp(config, side, randomness.rng(part))),
            StackSpec::SpacedTcp { tcp: config, gap, urgent } => {
                Self::SpacedTcp(Gap::new(tcp(config, side, randomness.rng(part)), gap)?.urgent(urgent))
            }
            StackSpec::Quic(config) => {
                let Protection { identity, trust, config: noise, instance } = known()?;
                let config = config.service(noise.service).instance(*instance);
                let (trust, entropy) = (trust.clone(), randomness.entropy(part));
                Self::Quic(end!(Quic, side, config, identity, trust, entropy))
            }
            StackSpec::Mpquic(config) => {
                let Protection { identity, trust, config: noise, instance } = known()?;
                let config = config.service(noise.service).instance(*instance);
                let (trust, entropy) = (trust.clone(), randomness.entropy(part));
                Self::Mpquic(end!(MpQuic, side, config, identity, trust, entropy))
            }
            StackSpec::Sctp(config) => Self::Sctp(end!(Sctp, side, config, randomness.entropy(part))),
            StackSpec::Dccp(config) => Self::Dccp(end!(Dccp, side, config, randomness.rng(part))),
            StackSpec::Mtip(config) => Self::Mtip(match side {
                Side::Opens => Mtip::client(config, randomness.rng(part).next_u64()),
                Side::Waits => Mtip::server(config),
            }),
            StackSpec::Mptcp(config) => Self::Mptcp(end!(Mptcp, side, config, randomness.rng(part))),
            StackSpec::EveryPath(config) => Self::EveryPath(EveryPath::new(config)),
        })
    }

    pub(super) const fn protocol(&self) -> Protocol {
        match self {
            Self::Tcp(_) | Self::SpacedTcp(_) | Self::Mptcp(_) => Protocol::Tcp,
            _ => Protocol::Udp,
        }
    }

    pub(super) fn overhead(&self) -> Bytes {
        Bytes::new(match self {
            Self::Udp(_) | Self::EveryPath(_) => UDP_IP,
            Self::Etp(_) => UDP_IP + taut_wire::etp::DATA_HEADER_LEN as u64,
            Self::Tcp(_) | Self::SpacedTcp(_) => TCP_IP,
            Self::Mptcp(_) => TCP_IP + mptcp::HEADER as u64,
            // Of the datagrams that they send, what a message may not fill.
            Self::Quic(quic) => ETHERNET.saturating_sub(quic.max_unreliable()).get(),
            Self::Mpquic(quic) => ETHERNET.saturating_sub(quic.max_unreliable()).get(),
            Self::Sctp(_) => 300 + UDP_IP + Sctp::OVERHEAD.get(),
            Self::Dccp(_) => UDP_IP + 36,
            Self::Mtip(_) => UDP_IP + taut_wire::mtip::DATA_HEADER_LEN as u64,
        })
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Udp(_) => "udp",
            Self::Etp(_) => "etp",
            Self::Tcp(_) => "tcp",
            Self::SpacedTcp(_) => "spaced tcp",
            Self::Quic(_) => "quic",
            Self::Mpquic(_) => "mpquic",
            Self::Sctp(_) => "sctp",
            Self::Dccp(_) => "dccp",
            Self::Mtip(_) => "mtip",
            Self::Mptcp(_) => "mptcp",
            Self::EveryPath(_) => "every_path",
        }
    }
}

fn tcp(config: TcpConfig, side: Side, mut rng: Rng) -> Tcp {
    let sequence = Tcp::initial_sequence(&mut rng);
    end!(Tcp, side, config, sequence)
}
