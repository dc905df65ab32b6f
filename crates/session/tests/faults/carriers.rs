//! The transports that episodes run over, as they are shipped: sealed, but for plain UDP.

use taut_core::{
    Bitrate, Datagram, Deadline, Duration, Event, Message, Origin, PathId, Seed, SendError, Time, Transmit,
    Transport, Waiting,
};
use taut_transport::dccp::{Ccid, Dccp, DccpConfig};
use taut_transport::entropy::Entropy;
use taut_transport::etp::{Etp, EtpConfig};
use taut_transport::identity::{Identity, Trust};
use taut_transport::mtip::{Mtip, MtipConfig};
use taut_transport::quic::{MpQuic, Quic, QuicConfig};
use taut_transport::sctp::{Sctp, SctpConfig};
use taut_transport::security::{Sealed, Secured, SecurityConfig};
use taut_transport::tcp::{Tcp, TcpConfig};
use taut_transport::udp::{Udp, UdpConfig};

use crate::harness::{MS, OPERATOR};

/// A transport, and whether lost states are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Over {
    /// Without seal: every datagram is a frame that the checker reads.
    Plain,
    Udp,
    Etp,
    Tcp,
    QuicDatagrams,
    QuicStreams,
    Sctp,
    Dccp2,
    Dccp3,
    /// Of one path, over which every repetition goes too.
    Mtip,
    /// Of one path.
    MpQuic,
}

impl Over {
    pub(crate) const ALL: [Self; 9] = [
        Self::Plain,
        Self::Udp,
        Self::Etp,
        Self::Tcp,
        Self::QuicDatagrams,
        Self::QuicStreams,
        Self::Sctp,
        Self::Dccp2,
        Self::Dccp3,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Udp => "udp",
            Self::Etp => "etp",
            Self::Tcp => "tcp",
            Self::QuicDatagrams => "quic-datagrams",
            Self::QuicStreams => "quic-streams",
            Self::Sctp => "sctp",
            Self::Dccp2 => "dccp2",
            Self::Dccp3 => "dccp3",
            Self::Mtip => "mtip",
            Self::MpQuic => "mpquic",
        }
    }

    pub(crate) const fn reliable(self) -> bool {
        matches!(self, Self::Tcp | Self::QuicStreams | Self::Sctp)
    }

    /// One end, in one of its lives.
    pub(crate) fn end(self, end: usize, seed: u64, life: u32) -> Carrier {
        let (seed, opens) = (Seed::new(seed), end == OPERATOR);
        let names = if opens { ["operator", "robot"] } else { ["robot", "operator"] };
        let what = format!("{}/{life}", names[0]);
        let entropy = |of: &str| Entropy::seeded(seed, &format!("{of}/{what}"));
        let [own, peer] = names.map(|name| Identity::from_seed(seed, name));
        let trust = Trust::only(peer.fingerprint());
        if self == Self::Tcp {
            let isn = Tcp::initial_sequence(&mut seed.stream(&format!("isn/{what}")));
            let (config, entropy) = (SecurityConfig::new(), entropy("security"));
            return Carrier(if opens {
                let tcp = Tcp::client(TcpConfig::default(), isn);
                Box::new(Sealed::initiator(config, &own, peer.fingerprint(), entropy, tcp))
            } else {
                Box::new(Sealed::responder(
                    config,
                    &own,
                    trust,
                    entropy,
                    Tcp::server(TcpConfig::default(), isn),
                ))
            });
        }
        if matches!(self, Self::QuicDatagrams | Self::QuicStreams) {
            let quic = if opens { Quic::client } else { Quic::server };
            return Carrier(Box::new(quic(QuicConfig::new(), &own, trust, entropy("quic"))));
        }
        if self == Self::MpQuic {
            let quic = if opens { MpQuic::client } else { MpQuic::server };
            let mut quic = quic(QuicConfig::new(), &own, trust, entropy("quic"));
            if opens {
                quic.add_path(Time::ZERO, PathId(0));
            }
            return Carrier(Box::new(quic));
        }
        let make = {
            let what = what.clone();
            move || self.inside(opens, seed, &what)
        };
        if self == Self::Plain {
            return make();
        }
        let (config, entropy) = (SecurityConfig::new(), entropy("security"));
        Carrier(if opens {
            Box::new(Secured::initiator(config, &own, peer.fingerprint(), entropy, make()))
        } else {
            Box::new(Secured::responder(config, &own, trust, entropy, make))
        })
    }

    /// What carries sealed datagrams.
    fn inside(self, opens: bool, seed: Seed, what: &str) -> Carrier {
        let dccp = |ccid| {
            let config = DccpConfig::new().ccids(&[ccid]).expect("one profile");
            let rng = seed.stream(&format!("dccp/{what}"));
            if opens { Dccp::client(config, rng) } else { Dccp::server(config, rng) }
        };
        let sctp = || {
            let entropy = Entropy::seeded(seed, &format!("sctp/{what}"));
            let config = SctpConfig::new();
            if opens { Sctp::client(config, entropy) } else { Sctp::server(config, entropy) }
        };
        Carrier(match self {
            Self::Etp => Box::new(Etp::new(EtpConfig::session(MS)).expect("within its ranges")),
            Self::Sctp => Box::new(sctp()),
            Self::Dccp2 => Box::new(dccp(Ccid::TcpLike)),
            Self::Dccp3 => Box::new(dccp(Ccid::Tfrc)),
            Self::Mtip if opens => {
                let mut mtip = Mtip::client(MtipConfig::new(), 1);
                mtip.add_path(Time::ZERO, PathId(0));
                Box::new(mtip)
            }
            Self::Mtip => Box::new(Mtip::server(MtipConfig::new())),
            _ => Box::new(Udp::new(UdpConfig::new())),
        })
    }
}

/// Whichever transport it is.
pub(crate) struct Carrier(Box<dyn Transport>);

impl Transport for Carrier {
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        self.0.send(now, message)
    }
    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.0.handle_input(now, input);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.0.poll_transmit(now, buffer)
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.0.poll_event()
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        self.0.poll_timeout()
    }
    fn close(&mut self, now: Time) {
        self.0.close(now);
    }
    fn add_path(&mut self, now: Time, path: PathId) -> bool {
        self.0.add_path(now, path)
    }
    fn remove_path(&mut self, now: Time, path: PathId) {
        self.0.remove_path(now, path);
    }
    fn set_origin(&mut self, path: PathId, origin: Origin) {
        self.0.set_origin(path, origin);
    }
    fn uses_path(&self, path: PathId) -> bool {
        self.0.uses_path(path)
    }
    fn round_trip(&self) -> Option<Duration> {
        self.0.round_trip()
    }

    fn send_rate(&self) -> Option<Bitrate> {
        self.0.send_rate()
    }

    fn delivered(&self) -> Option<u64> {
        self.0.delivered()
    }

    fn waiting(&self) -> Waiting {
        self.0.waiting()
    }
}
