//! From the scenario's words to transports.

use taut_core::{
    Bytes, Datagram, Deadline, Duration, Event, IPV4_HEADER, Message, Protocol, Seed, SendError, Time,
    Transmit, Transport, UDP_HEADER,
};
use taut_transport::dccp::Dccp;
use taut_transport::entropy::Entropy;
use taut_transport::etp::{Etp, Gap};
use taut_transport::identity::{Identity, Trust};
use taut_transport::quic::{Quic, Resumption};
use taut_transport::sctp::Sctp;
use taut_transport::tcp::{AckCounting, CongestionControl, Counting, FullAck, RtoFloor, Tcp, TcpConfig};
use taut_transport::udp::{Udp, UdpConfig};

use super::flows::{self, Counts};
use super::inputs::RunError;
use super::settings;
use crate::scenario::{self, Congestion, DccpSpec, EtpSpec, QuicSpec, SctpSpec, TcpSpec, TransportSpec};

/// Bytes of an IPv4 and a TCP header without options.
const TCP_IP_HEADERS: u64 = IPV4_HEADER + 20;

pub(super) fn tcp_config(spec: &TcpSpec) -> TcpConfig {
    TcpConfig {
        congestion: match spec.congestion {
            Congestion::Reno => CongestionControl::Reno,
            Congestion::Newreno => CongestionControl::NewReno,
            Congestion::Cubic => CongestionControl::Cubic,
        },
        counting: if spec.byte_counting { AckCounting::Bytes } else { AckCounting::Acks },
        mss: spec.segment.saturating_sub(Bytes::new(TCP_IP_HEADERS)).get().clamp(64, 65_495) as u16,
        ack_every: spec.ack_every,
        sack: spec.sack,
        limited_transmit: spec.limited_transmit,
        full_ack: match spec.full_ack {
            scenario::FullAck::Flight => FullAck::Flight,
            scenario::FullAck::Ssthresh => FullAck::Ssthresh,
        },
        counted: match spec.counted {
            scenario::Counting::Bytes => Counting::Bytes,
            scenario::Counting::Segments => Counting::Segments,
        },
        rack: spec.rack,
        initial_window: spec.initial_window,
        min_rto: spec.min_rto,
        rto_floor: match spec.rto_floor {
            scenario::RtoFloor::Timeout => RtoFloor::Timeout,
            scenario::RtoFloor::Variation => RtoFloor::Variation,
        },
        ..TcpConfig::default()
    }
}

/// Both ends of a bulk transfer: the one that receives, and the one that sends.
pub(super) fn bulk_pair(config: &TcpConfig, seed: Seed, name: &str) -> (Tcp, Tcp) {
    let mut rng = seed.stream(&format!("tcp/{name}"));
    let ports = |local_port, remote_port| TcpConfig { local_port, remote_port, ..config.clone() };
    let server =
        Tcp::server(ports(config.local_port, config.remote_port), Tcp::initial_sequence(&mut rng)).sink();
    let client = Tcp::client(ports(config.remote_port, config.local_port), Tcp::initial_sequence(&mut rng));
    (server, client.bulk(None))
}

/// Who opens the connection, where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Opens,
    Waits,
}

/// One end of whatever carries a session.
pub(super) enum Carrier {
    Udp(Box<Udp>),
    Etp(Box<Etp>),
    Tcp(Box<Tcp>),
    SpacedTcp(Box<Gap<Tcp>>),
    Quic(Box<Quic>),
    Sctp(Box<Sctp>),
    Dccp(Box<Dccp>),
}

/// The longest IP packet that Ethernet carries (RFC 894).
const ETHERNET: Bytes = Bytes::new(1500);

/// Operator's and robot's ports.
pub(super) const PORTS: (u16, u16) = (49_152, 4_433);

impl Carrier {
    pub(super) fn new(spec: &TransportSpec, side: Side, seed: Seed) -> Result<Self, RunError> {
        Ok(match spec {
            TransportSpec::Udp => Self::Udp(Box::new(Udp::new(UdpConfig::new()))),
            TransportSpec::Tcp(tcp) => Self::Tcp(Box::new(session_tcp(tcp, side, seed))),
            TransportSpec::Quic(quic) => Self::Quic(Box::new(session_quic(quic, side, seed, "", None))),
            TransportSpec::Sctp(sctp) => Self::Sctp(Box::new(session_sctp(sctp, side, seed))),
            TransportSpec::Dccp(dccp) => Self::Dccp(Box::new(session_dccp(dccp, side, seed))),
            TransportSpec::Etp(etp) => match (&etp.tcp, etp.gap) {
                (Some(tcp), gap) => {
                    let spaced = Gap::new(session_tcp(tcp, side, seed), gap.unwrap_or_default());
                    Self::SpacedTcp(Box::new(spaced.map_err(RunError::scenario)?))
                }
                (None, _) => Self::etp(etp, None)?,
            },
        })
    }

    /// ETP over UDP; for a session of operator and robot, with the period of its states.
    pub(super) fn etp(spec: &EtpSpec, period: Option<Duration>) -> Result<Self, RunError> {
        let etp = Etp::new(settings::etp(spec, period)).map_err(RunError::scenario)?;
        Ok(Self::Etp(Box::new(etp)))
    }

    /// What the IP header names.
    pub(super) fn protocol(&self) -> Protocol {
        match self {
            Self::Udp(_) | Self::Etp(_) | Self::Quic(_) | Self::Sctp(_) | Self::Dccp(_) => Protocol::Udp,
            Self::Tcp(_) | Self::SpacedTcp(_) => Protocol::Tcp,
        }
    }

    /// Bytes on the wire around a message that travels alone.
    pub(super) fn overhead(&self) -> Bytes {
        Bytes::new(match self {
            Self::Udp(_) => IPV4_HEADER + UDP_HEADER,
            Self::Etp(_) => IPV4_HEADER + UDP_HEADER + taut_wire::etp::DATA_HEADER_LEN as u64,
            Self::Tcp(_) | Self::SpacedTcp(_) => TCP_IP_HEADERS + 4,
            // Of a datagram of 1200 bytes, what a message may not fill.
            Self::Quic(quic) => ETHERNET.saturating_sub(quic.max_unreliable()).get(),
            Self::Sctp(_) => 300 + IPV4_HEADER + UDP_HEADER + Sctp::OVERHEAD.get(),
            Self::Dccp(_) => IPV4_HEADER + UDP_HEADER + 36,
        })
    }
}

impl Counts for Carrier {
    fn counts(&self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Udp(udp) => flows::udp(udp.stats()),
            Self::Etp(etp) => flows::etp(&etp.stats()),
            Self::Tcp(tcp) => flows::tcp(tcp.stats()),
            Self::Quic(quic) => flows::quic(&quic.stats()),
            Self::Sctp(sctp) => flows::sctp(&sctp.stats()),
            Self::Dccp(dccp) => flows::dccp(&dccp.stats()),
            Self::SpacedTcp(spaced) => {
                let mut counts = flows::sampling(spaced.sampling());
                counts.extend(flows::tcp(spaced.inner().stats()));
                counts
            }
        }
    }
}

fn session_tcp(spec: &TcpSpec, side: Side, seed: Seed) -> Tcp {
    let (operator, robot) = PORTS;
    let config = TcpConfig { trace: true, ..tcp_config(spec) };
    match side {
        Side::Opens => {
            let isn = Tcp::initial_sequence(&mut seed.stream("session/operator/tcp"));
            Tcp::client(TcpConfig { local_port: operator, remote_port: robot, ..config }, isn)
        }
        Side::Waits => {
            let isn = Tcp::initial_sequence(&mut seed.stream("session/robot/tcp"));
            Tcp::server(TcpConfig { local_port: robot, remote_port: operator, ..config }, isn)
        }
    }
}

impl Side {
    /// Its own name and its peer's.
    pub(super) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Opens => ("operator", "robot"),
            Self::Waits => ("robot", "operator"),
        }
    }
}

/// `life` tells a later connection of the same two from their first.
pub(super) fn session_quic(
    spec: &QuicSpec,
    side: Side,
    seed: Seed,
    life: &str,
    resumption: Option<Resumption>,
) -> Quic {
    let (own, peer) = side.names();
    let config = settings::quic(spec);
    let config = match resumption {
        Some(resumption) => config.resumption(resumption),
        None => config,
    };
    let trust = Trust::only(Identity::from_seed(seed, peer).fingerprint());
    let (identity, entropy) =
        (Identity::from_seed(seed, own), Entropy::seeded(seed, &format!("session/{own}/quic{life}")));
    match side {
        Side::Opens => Quic::client(config, &identity, trust, entropy),
        Side::Waits => Quic::server(config, &identity, trust, entropy),
    }
}

fn session_sctp(spec: &SctpSpec, side: Side, seed: Seed) -> Sctp {
    let config = settings::sctp(spec);
    let entropy = Entropy::seeded(seed, &format!("session/{}/sctp", side.names().0));
    match side {
        Side::Opens => Sctp::client(config, entropy),
        Side::Waits => Sctp::server(config, entropy),
    }
}

fn session_dccp(spec: &DccpSpec, side: Side, seed: Seed) -> Dccp {
    let config = settings::dccp(spec);
    let rng = seed.stream(&format!("session/{}/dccp", side.names().0));
    match side {
        Side::Opens => Dccp::client(config, rng),
        Side::Waits => Dccp::server(config, rng),
    }
}

/// Makes an enum of transports one, which calls whichever it is; each call is resolved by the match alone.
macro_rules! any_transport {
    ($carrier:ident: $($kind:ident),+) => {
        impl Transport for $carrier {
            fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
                match self { $(Self::$kind(transport) => transport.send(now, message),)+ }
            }
            fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
                match self { $(Self::$kind(transport) => transport.handle_input(now, input),)+ }
            }
            fn handle_timeout(&mut self, now: Time) {
                match self { $(Self::$kind(transport) => transport.handle_timeout(now),)+ }
            }
            fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
                match self { $(Self::$kind(transport) => transport.poll_transmit(now, buffer),)+ }
            }
            fn poll_event(&mut self) -> Option<Event> {
                match self { $(Self::$kind(transport) => transport.poll_event(),)+ }
            }
            fn poll_timeout(&self) -> Option<Deadline> {
                match self { $(Self::$kind(transport) => transport.poll_timeout(),)+ }
            }
            fn close(&mut self, now: Time) {
                match self { $(Self::$kind(transport) => Transport::close(&mut **transport, now),)+ }
            }
            fn round_trip(&self) -> Option<Duration> {
                match self { $(Self::$kind(transport) => transport.round_trip(),)+ }
            }
        }
    };
}
pub(super) use any_transport;

any_transport!(Carrier: Udp, Etp, Tcp, SpacedTcp, Quic, Sctp, Dccp);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_and_the_transport_have_the_same_defaults() {
        let spec: TcpSpec = toml::from_str("").unwrap();
        assert_eq!(tcp_config(&spec), TcpConfig::default());
    }
}
