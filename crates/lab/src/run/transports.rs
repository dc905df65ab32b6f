//! From the scenario's words to transports.

use taut_core::{
    Bytes, Datagram, Deadline, Event, IPV4_HEADER, Message, Protocol, Seed, SendError, Time, Transmit,
    Transport, UDP_HEADER,
};
use taut_transport::etp::{Adaptive, Etp, EtpConfig, Gap};
use taut_transport::tcp::{AckCounting, CongestionControl, FullAck, Tcp, TcpConfig};
use taut_transport::udp::{Udp, UdpConfig};

use super::flows::{self, Counts};
use super::inputs::RunError;
use crate::scenario::{self, Congestion, TcpSpec, TransportSpec};

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
        initial_window: spec.initial_window,
        min_rto: spec.min_rto,
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
    Udp(Udp),
    Etp(Box<Etp>),
    Tcp(Box<Tcp>),
    SpacedTcp(Box<Gap<Tcp>>),
}

/// Operator's and robot's ports.
pub(super) const PORTS: (u16, u16) = (49_152, 4_433);

impl Carrier {
    pub(super) fn new(spec: &TransportSpec, side: Side, seed: Seed) -> Result<Self, RunError> {
        Ok(match spec {
            TransportSpec::Udp => Self::Udp(Udp::new(UdpConfig::new())),
            TransportSpec::Tcp(tcp) => Self::Tcp(Box::new(session_tcp(tcp, side, seed))),
            TransportSpec::Etp(etp) => match (&etp.tcp, etp.gap) {
                (Some(tcp), gap) => {
                    let spaced = Gap::new(session_tcp(tcp, side, seed), gap.unwrap_or_default());
                    Self::SpacedTcp(Box::new(spaced.map_err(RunError::scenario)?))
                }
                (None, gap) => {
                    let config = match gap {
                        Some(gap) => EtpConfig::fixed(gap),
                        None => EtpConfig::adaptive(Adaptive::default()),
                    };
                    Self::Etp(Box::new(Etp::new(config.pack(etp.pack)).map_err(RunError::scenario)?))
                }
            },
        })
    }

    /// What the IP header names.
    pub(super) fn protocol(&self) -> Protocol {
        match self {
            Self::Udp(_) | Self::Etp(_) => Protocol::Udp,
            Self::Tcp(_) | Self::SpacedTcp(_) => Protocol::Tcp,
        }
    }

    /// Bytes on the wire around a message that travels alone.
    pub(super) fn overhead(&self) -> Bytes {
        Bytes::new(match self {
            Self::Udp(_) => IPV4_HEADER + UDP_HEADER,
            Self::Etp(_) => IPV4_HEADER + UDP_HEADER + taut_wire::etp::DATA_HEADER_LEN as u64,
            Self::Tcp(_) | Self::SpacedTcp(_) => TCP_IP_HEADERS + 4,
        })
    }
}

impl Counts for Carrier {
    fn counts(&self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Udp(udp) => flows::udp(udp.stats()),
            Self::Etp(etp) => flows::etp(&etp.stats()),
            Self::Tcp(tcp) => flows::tcp(tcp.stats()),
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

/// Calls whichever transport it is; each call is resolved by the match alone.
macro_rules! carried {
    ($carrier:ident, $transport:ident => $call:expr) => {
        match $carrier {
            Carrier::Udp($transport) => $call,
            Carrier::Etp($transport) => $call,
            Carrier::Tcp($transport) => $call,
            Carrier::SpacedTcp($transport) => $call,
        }
    };
}

impl Transport for Carrier {
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        carried!(self, transport => transport.send(now, message))
    }
    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        carried!(self, transport => transport.handle_input(now, input));
    }
    fn handle_timeout(&mut self, now: Time) {
        carried!(self, transport => transport.handle_timeout(now));
    }
    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        carried!(self, transport => transport.poll_transmit(now, buffer))
    }
    fn poll_event(&mut self) -> Option<Event> {
        carried!(self, transport => transport.poll_event())
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        carried!(self, transport => transport.poll_timeout())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_and_the_transport_have_the_same_defaults() {
        let spec: TcpSpec = toml::from_str("").unwrap();
        assert_eq!(tcp_config(&spec), TcpConfig::default());
    }
}
