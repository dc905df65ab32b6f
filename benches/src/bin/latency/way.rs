//! What carries the messages.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use taut_core::{Bitrate, Duration, Seed, Transport};
use taut_io::session::{TransportKind, os_entropy, os_seed};
use taut_io::tcp::{KernelTcp, KernelTcpConfig};
use taut_io::{Port, UdpPort, UdpPortConfig};
use taut_transport::dccp::{Dccp, DccpConfig};
use taut_transport::etp::{Etp, EtpConfig};
use taut_transport::identity::{Identity, Trust};
use taut_transport::quic::{Congestion, Paced, Quic, QuicConfig};
use taut_transport::sctp::{Sctp, SctpConfig};
use taut_transport::security::{Sealed, Secured, SecurityConfig};
use taut_transport::udp::{Udp, UdpConfig};

use crate::Outcome;
use crate::site::Site;

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Two sockets and two loops, nothing else.
    Bare,
    /// The driver and `Udp` in the clear.
    PlainUdp,
    Udp,
    Quic,
    Sctp,
    Dccp,
    Etp,
    Tcp,
}

/// An end that is ready to be driven, made on the thread that drives it.
pub(crate) type Made = (Box<dyn Transport>, Port);
type Make = Box<dyn FnOnce() -> Outcome<Made> + Send>;

impl Way {
    pub(crate) const ALL: [Self; 8] =
        [Self::Bare, Self::PlainUdp, Self::Udp, Self::Quic, Self::Sctp, Self::Dccp, Self::Etp, Self::Tcp];

    const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare UDP sockets",
            Self::PlainUdp => "UDP in the clear",
            Self::Udp => "UDP, Noise",
            Self::Quic => "QUIC datagrams",
            Self::Sctp => "SCTP over UDP, Noise",
            Self::Dccp => "DCCP over UDP, Noise",
            Self::Etp => "ETP, Noise",
            Self::Tcp => "kernel TCP, Noise",
        }
    }

    /// For the command line.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::PlainUdp => "plain-udp",
            Self::Udp => "udp",
            Self::Quic => "quic",
            Self::Sctp => "sctp",
            Self::Dccp => "dccp",
            Self::Etp => "etp",
            Self::Tcp => "tcp",
        }
    }

    /// What `taut recommend` calls it.
    pub(crate) const fn carrier(self) -> Option<&'static str> {
        match self {
            Self::Bare | Self::PlainUdp => None,
            Self::Udp => Some("UDP"),
            Self::Quic => Some("QUIC datagrams"),
            Self::Sctp => Some("SCTP unreliable"),
            Self::Dccp => Some("DCCP 2"),
            Self::Etp => Some("ETP"),
            Self::Tcp => Some("TCP"),
        }
    }

    /// What a session calls it.
    pub(crate) const fn of_session(self) -> Option<TransportKind> {
        match self {
            Self::Bare | Self::PlainUdp => None,
            Self::Udp => Some(TransportKind::Udp),
            Self::Quic => Some(TransportKind::Quic),
            Self::Sctp => Some(TransportKind::Sctp),
            Self::Dccp => Some(TransportKind::Dccp),
            Self::Etp => Some(TransportKind::Etp),
            Self::Tcp => Some(TransportKind::Tcp),
        }
    }

    /// The client and the server. As a session has them, but for QUIC's rate, which a closed loop exceeds.
    pub(crate) fn ends(self, site: &Site) -> Outcome<(Make, Make)> {
        if self == Self::Tcp {
            return tcp_ends(site);
        }
        let (client, server, remote) = site.sockets()?;
        let client: Make = Box::new(move || {
            let port = UdpPort::new(client, UdpPortConfig::new())?.to(remote);
            Ok((self.client(), port.into()))
        });
        let server: Make =
            Box::new(move || Ok((self.server(), UdpPort::new(server, UdpPortConfig::new())?.into())));
        Ok((client, server))
    }

    pub(crate) fn client(self) -> Box<dyn Transport> {
        let (me, robot) = (identity("operator"), identity("robot").fingerprint());
        macro_rules! secured {
            ($inner:expr) => {
                Box::new(Secured::initiator(SecurityConfig::new(), &me, robot, os_entropy(), $inner))
            };
        }
        match self {
            Self::PlainUdp => Box::new(udp()),
            Self::Udp => secured!(udp()),
            Self::Quic => Box::new(Quic::client(quic(), &me, Trust::only(robot), os_entropy())),
            Self::Sctp => secured!(Sctp::client(SctpConfig::new().samples(4), os_entropy())),
            Self::Dccp => secured!(Dccp::client(DccpConfig::new(), os_seed().stream("dccp"))),
            Self::Etp => secured!(etp()),
            Self::Bare | Self::Tcp => unreachable!("made elsewhere"),
        }
    }

    pub(crate) fn server(self) -> Box<dyn Transport> {
        let (me, trust) = (identity("robot"), Trust::only(identity("operator").fingerprint()));
        macro_rules! secured {
            ($make:expr) => {
                Box::new(Secured::responder(SecurityConfig::new(), &me, trust, os_entropy(), $make))
            };
        }
        match self {
            Self::PlainUdp => Box::new(udp()),
            Self::Udp => secured!(udp),
            Self::Quic => Box::new(Quic::server(quic(), &me, trust, os_entropy())),
            Self::Sctp => secured!(|| Sctp::server(SctpConfig::new().samples(4), os_entropy())),
            Self::Dccp => secured!(|| Dccp::server(DccpConfig::new(), os_seed().stream("dccp"))),
            Self::Etp => secured!(etp),
            Self::Bare | Self::Tcp => unreachable!("made elsewhere"),
        }
    }
}

fn tcp_ends(site: &Site) -> Outcome<(Make, Make)> {
    let (listener, remote): (_, SocketAddr) = site.listener()?;
    let client = site.at_the_client(move || KernelTcp::client(remote, KernelTcpConfig::new()))??;
    let client: Make = Box::new(move || {
        let (me, robot) = (identity("operator"), identity("robot").fingerprint());
        let port = client.descriptor()?.into();
        let sealed = Sealed::initiator(SecurityConfig::new(), &me, robot, os_entropy(), client);
        Ok((Box::new(sealed), port))
    });
    let server: Make = Box::new(move || {
        let trust = Trust::only(identity("operator").fingerprint());
        let server = KernelTcp::server(listener, KernelTcpConfig::new())?;
        let port = server.descriptor()?.into();
        let sealed =
            Sealed::responder(SecurityConfig::new(), &identity("robot"), trust, os_entropy(), server);
        Ok((Box::new(sealed), port))
    });
    Ok((client, server))
}

fn identity(name: &str) -> Identity {
    Identity::from_seed(Seed::new(1), name)
}

fn udp() -> Udp {
    Udp::new(UdpConfig::new())
}

/// As a session has it: a state each millisecond.
fn etp() -> Etp {
    Etp::new(EtpConfig::session(Duration::from_millis(1)).pack(true)).expect("a session's own settings")
}

fn quic() -> QuicConfig {
    QuicConfig::new().congestion(Congestion::Paced(Paced::new().floor(Bitrate::from_bps(1_000_000_000))))
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Way {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|way| way.word() == word).ok_or_else(|| {
            let words = Self::ALL.map(Self::word).join(", ");
            format!(
                "`{word}` is not measured; there are closed, open, agents, steps, sessions, emulator; {words}"
            )
        })
    }
}
