//! Whichever transport it is.

use std::fmt;

use taut_agent::{Conversation, Refused, Trouble};
use taut_core::{
    Datagram, Deadline, Duration, Event, Message, Origin, PathId, SendError, Time, Transmit, Transport,
};
use taut_transport::dccp::Dccp;
use taut_transport::etp::Etp;
use taut_transport::mpquic::MpQuic;
use taut_transport::mtip::{ChoiceReport, Mtip};
use taut_transport::quic::{CloseReason, Quic};
use taut_transport::sctp::Sctp;
use taut_transport::security::{Sealed, Secured, SecuredStats};
use taut_transport::stranger::Stranger;
use taut_transport::udp::Udp;

use crate::tcp::{Acceptor, KernelTcp};

/// One end of whatever carries a session over real sockets.
pub enum Carrier {
    /// QUIC, with its own security.
    Quic(Box<Quic>),
    /// UDP under Noise.
    Udp(Box<Secured<Udp>>),
    /// SCTP over UDP, under Noise.
    Sctp(Box<Secured<Sctp>>),
    /// DCCP over UDP, under Noise.
    Dccp(Box<Secured<Dccp>>),
    /// ETP under Noise.
    Etp(Box<Secured<Etp>>),
    /// MTIP over several paths, under Noise.
    Mtip(Box<Secured<Mtip>>),
    /// QUIC over several paths, with its own security.
    Mpquic(Box<MpQuic>),
    /// The kernel's TCP, its messages under Noise: an operator's.
    Tcp(Box<Sealed<KernelTcp>>),
    /// The same, a robot's.
    TcpAcceptor(Box<Acceptor>),
    /// The kernel's TCP in the clear: for the lab.
    PlainTcp(Box<KernelTcp>),
    /// Any other in the clear: for the lab.
    Plain(Box<dyn Transport>),
    /// None, between two conversations.
    Absent,
}

/// Calls whichever transport it is.
macro_rules! carried {
    ($carrier:ident, $transport:ident => $call:expr, $absent:expr) => {
        match $carrier {
            Carrier::Quic($transport) => $call,
            Carrier::Udp($transport) => $call,
            Carrier::Sctp($transport) => $call,
            Carrier::Dccp($transport) => $call,
            Carrier::Etp($transport) => $call,
            Carrier::Mtip($transport) => $call,
            Carrier::Mpquic($transport) => $call,
            Carrier::Tcp($transport) => $call,
            Carrier::TcpAcceptor($transport) => $call,
            Carrier::PlainTcp($transport) => $call,
            Carrier::Plain($transport) => $call,
            Carrier::Absent => $absent,
        }
    };
}

impl Carrier {
    /// Does it begin a new connection for each conversation, of which no port remembers anything?
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Tcp(_) | Self::TcpAcceptor(_) | Self::PlainTcp(_))
    }

    /// After a conversation has ended, does this very transport wait for the next one? Otherwise it needs a new one.
    pub(crate) fn serves_again(&self) -> bool {
        matches!(
            self,
            Self::Udp(_)
                | Self::Sctp(_)
                | Self::Dccp(_)
                | Self::Etp(_)
                | Self::Mtip(_)
                | Self::TcpAcceptor(_)
                | Self::PlainTcp(_)
        )
    }

    /// Has the next conversation begun already?
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Udp(secured) => secured.is_open(),
            Self::Sctp(secured) => secured.is_open(),
            Self::Dccp(secured) => secured.is_open(),
            Self::Etp(secured) => secured.is_open(),
            Self::Mtip(secured) => secured.is_open(),
            _ => false,
        }
    }

    /// What Noise around datagrams counts; `None` for other transports.
    fn secured(&self) -> Option<SecuredStats> {
        match self {
            Self::Udp(secured) => Some(secured.stats()),
            Self::Sctp(secured) => Some(secured.stats()),
            Self::Dccp(secured) => Some(secured.stats()),
            Self::Etp(secured) => Some(secured.stats()),
            Self::Mtip(secured) => Some(secured.stats()),
            _ => None,
        }
    }
}

impl Conversation for Carrier {
    fn wakes_early(&self) -> bool {
        true
    }

    fn lingers(&self) -> bool {
        // QUIC's, and those of datagrams, have left at once.
        !matches!(self, Self::Quic(_) | Self::Mpquic(_) | Self::Absent) && self.poll_timeout().is_some()
    }

    fn trouble(&self) -> Trouble {
        match self {
            Self::Quic(quic) => quic.close_reason().map_or(Trouble::NoAnswer, of_quic),
            Self::Mpquic(quic) => quic.close_reason().map_or(Trouble::NoAnswer, of_quic),
            Self::Udp(_) | Self::Sctp(_) | Self::Dccp(_) | Self::Etp(_) | Self::Mtip(_) => {
                self.secured().map_or(Trouble::NoAnswer, of_secured)
            }
            Self::Tcp(sealed) => match (sealed.inner().stats(), sealed.stats()) {
                (tcp, _) if tcp.connections == 0 => Trouble::Unreachable,
                (_, stats) if stats.busy > 0 => Trouble::Busy,
                (_, stats) if stats.other_service > 0 => other_service(),
                (_, stats) if stats.unauthenticated > 0 => Trouble::WrongPeer,
                (_, stats) if stats.opened > 0 => Trouble::Ended("the connection ended".to_owned()),
                _ => Trouble::SentAway,
            },
            Self::PlainTcp(tcp) if tcp.stats().connections == 0 => Trouble::Unreachable,
            Self::PlainTcp(_) => Trouble::Busy,
            Self::Plain(_) | Self::TcpAcceptor(_) | Self::Absent => Trouble::NoAnswer,
        }
    }

    fn busy(&self) -> u64 {
        match self {
            Self::Quic(quic) => quic.busy(),
            Self::Mpquic(quic) => quic.busy(),
            Self::TcpAcceptor(acceptor) => acceptor.busy(),
            _ => self.secured().map_or(0, |stats| stats.busy),
        }
    }

    fn take_stranger(&mut self) -> Option<Refused> {
        let stranger = match self {
            Self::TcpAcceptor(acceptor) => {
                let (address, key) = acceptor.take_stranger()?;
                return Some(Refused { path: None, address: Some(address), key });
            }
            Self::Quic(quic) => quic.take_stranger(),
            Self::Mpquic(quic) => quic.take_stranger(),
            Self::Udp(secured) => secured.take_stranger(),
            Self::Sctp(secured) => secured.take_stranger(),
            Self::Dccp(secured) => secured.take_stranger(),
            Self::Etp(secured) => secured.take_stranger(),
            Self::Mtip(secured) => secured.take_stranger(),
            Self::Tcp(_) | Self::PlainTcp(_) | Self::Plain(_) | Self::Absent => None,
        };
        stranger.map(|Stranger { path, key }| Refused { path: Some(path), address: None, key })
    }

    fn choices(&self) -> Option<ChoiceReport> {
        match self {
            Self::Mtip(secured) => Some(secured.inner().choice_report()),
            _ => None,
        }
    }

    fn stream_bytes(&self) -> Option<(u64, u64)> {
        // What the kernel's TCP was given and gave, no port counts.
        let stats = match self {
            Self::Tcp(sealed) => sealed.inner().stats(),
            Self::TcpAcceptor(acceptor) => return Some(acceptor.stream_bytes()),
            Self::PlainTcp(tcp) => tcp.stats(),
            _ => return None,
        };
        Some((stats.bytes_sent, stats.bytes_received))
    }
}

fn other_service() -> Trouble {
    Trouble::Ended(CloseReason::OtherService.to_string())
}

fn of_quic(reason: &CloseReason) -> Trouble {
    match reason {
        CloseReason::TimedOut => Trouble::NoAnswer,
        CloseReason::Busy => Trouble::Busy,
        CloseReason::NotTrusted => Trouble::NotTrusted,
        CloseReason::PeerUntrusted => Trouble::WrongPeer,
        other => Trouble::Ended(other.to_string()),
    }
}

fn of_secured(stats: SecuredStats) -> Trouble {
    match stats {
        SecuredStats { busy: 1.., .. } => Trouble::Busy,
        SecuredStats { opened: 0, other_service: 1.., .. } => other_service(),
        SecuredStats { opened: 1.., .. } => {
            Trouble::Ended("nothing was heard of the robot any more".to_owned())
        }
        _ => Trouble::NoAnswer,
    }
}

impl Transport for Carrier {
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        carried!(self, transport => transport.send(now, message), Err(SendError::Closed))
    }
    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        carried!(self, transport => transport.handle_input(now, input), ());
    }
    fn handle_timeout(&mut self, now: Time) {
        carried!(self, transport => transport.handle_timeout(now), ());
    }
    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        carried!(self, transport => transport.poll_transmit(now, buffer), None)
    }
    fn poll_event(&mut self) -> Option<Event> {
        carried!(self, transport => transport.poll_event(), None)
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        carried!(self, transport => transport.poll_timeout(), None)
    }
    fn close(&mut self, now: Time) {
        carried!(self, transport => transport.close(now), ());
    }
    fn round_trip(&self) -> Option<Duration> {
        carried!(self, transport => transport.round_trip(), None)
    }
    fn add_path(&mut self, now: Time, path: PathId) -> bool {
        carried!(self, transport => transport.add_path(now, path), false)
    }
    fn remove_path(&mut self, now: Time, path: PathId) {
        carried!(self, transport => transport.remove_path(now, path), ());
    }
    fn set_origin(&mut self, path: PathId, origin: Origin) {
        carried!(self, transport => transport.set_origin(path, origin), ());
    }
    fn uses_path(&self, path: PathId) -> bool {
        carried!(self, transport => transport.uses_path(path), false)
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quic(_) => "Quic",
            Self::Udp(_) => "Udp",
            Self::Sctp(_) => "Sctp",
            Self::Dccp(_) => "Dccp",
            Self::Etp(_) => "Etp",
            Self::Mtip(_) => "Mtip",
            Self::Mpquic(_) => "Mpquic",
            Self::Tcp(_) => "Tcp",
            Self::TcpAcceptor(_) => "TcpAcceptor",
            Self::PlainTcp(_) => "PlainTcp",
            Self::Plain(_) => "Plain",
            Self::Absent => "Absent",
        })
    }
}
