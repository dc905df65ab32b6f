//! From the scenario's words to stacks.

use taut_core::{Address, Bytes, FlowId, IPV4_HEADER, PathId, Rng, Seed, Time, Transport};
use taut_sim::Peer;
use taut_transport::entropy::Entropy;
use taut_transport::identity::{Identity, Trust};
use taut_transport::stack::{Bare, Part, Protection, Randomness, Side, Stack, StackSpec, TransportKind};
use taut_transport::tcp::{AckCounting, Tcp, TcpConfig};

use super::flows::{Counted, Counters};
use super::inputs::RunError;
use super::teleop::Wanted;
use crate::scenario::TcpSpec;

/// Bytes of an IPv4 and a TCP header without options.
const TCP_IP_HEADERS: u64 = IPV4_HEADER + 20;

pub(super) fn tcp_config(spec: &TcpSpec) -> TcpConfig {
    TcpConfig {
        congestion: spec.congestion,
        counting: if spec.byte_counting { AckCounting::Bytes } else { AckCounting::Acks },
        mss: spec.segment.saturating_sub(Bytes::new(TCP_IP_HEADERS)).get().clamp(64, 65_495) as u16,
        ack_every: spec.ack_every,
        sack: spec.sack,
        limited_transmit: spec.limited_transmit,
        full_ack: spec.full_ack,
        counted: spec.counted,
        rack: spec.rack,
        timestamps: spec.timestamps,
        initial_window: spec.initial_window,
        min_rto: spec.min_rto,
        rto_floor: spec.rto_floor,
        ..TcpConfig::default()
    }
}

/// Both ends of a bulk transfer: the one that receives, and the one that sends.
pub(super) fn bulk_pair(config: &TcpConfig, seed: Seed, name: &str) -> (Stack, Stack) {
    let mut rng = seed.stream(&format!("tcp/{name}"));
    let ports = |local_port, remote_port| TcpConfig { local_port, remote_port, ..config.clone() };
    let server =
        Tcp::server(ports(config.local_port, config.remote_port), Tcp::initial_sequence(&mut rng)).sink();
    let client = Tcp::client(ports(config.remote_port, config.local_port), Tcp::initial_sequence(&mut rng));
    (Bare::Tcp(server).into(), Bare::Tcp(client.bulk(None)).into())
}

/// Operator's and robot's ports.
const PORTS: [u16; 2] = [49_152, 4_433];

/// What a stack carries in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carries {
    Session,
    Commands,
}

/// One end of a scenario's stack.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) carries: Carries,
    pub(super) side: Side,
    /// Is it under Noise? What is always encrypted is so without being asked.
    pub(super) secure: bool,
    /// Which of the lives of the two: a later one has keys of its own.
    pub(super) life: String,
    /// Of an end that opens.
    pub(super) paths: u8,
}

impl End {
    pub(super) fn stack(self, spec: StackSpec, seed: Seed) -> Result<Stack, RunError> {
        let (kind, side) = (spec.kind(), self.side);
        let identity = |side: Side| Identity::from_seed(seed, side.name());
        let protection = (self.secure || kind.is_always_encrypted())
            .then(|| Protection::new(identity(side), Trust::only(identity(side.peer()).fingerprint())));
        let (paths, spec) = (self.paths, self.with_ports(spec));
        let mut stack =
            Stack::new(spec, side, protection, Streams { seed, end: self }).map_err(RunError::scenario)?;
        if side == Side::Opens {
            for id in 0..paths {
                let added = stack.add_path(Time::ZERO, PathId(id));
                assert!(added || !kind.is_multipath(), "a valid scenario has no more");
            }
        }
        Ok(stack)
    }

    /// Its own, and its peer's.
    const fn ports(&self) -> [u16; 2] {
        [PORTS[self.side as usize], PORTS[self.side.peer() as usize]]
    }

    /// A model of TCP has its ports in its segments. Over several paths they do not matter.
    fn with_ports(&self, spec: StackSpec) -> StackSpec {
        let [local_port, remote_port] = self.ports();
        let ports = |tcp| TcpConfig { local_port, remote_port, ..tcp };
        match spec {
            StackSpec::Tcp(tcp) => StackSpec::Tcp(ports(tcp)),
            StackSpec::SpacedTcp { tcp, gap, urgent } => {
                StackSpec::SpacedTcp { tcp: ports(tcp), gap, urgent }
            }
            other => other,
        }
    }
}

/// Makes the stack of an end, and another one where that is of no use any more.
pub(super) struct Stacks {
    pub(super) end: End,
    pub(super) spec: StackSpec,
    pub(super) seed: Seed,
    pub(super) counters: Counters,
    /// How soon states and feedback are to be at the other end.
    pub(super) wanted: Option<Wanted>,
}

/// What carries what an end has to say.
pub(super) struct Carrier {
    pub(super) stack: Counted,
    /// For when that is of no use any more.
    pub(super) others: Stacks,
    /// Where its packets go.
    pub(super) peer: Peer,
}

impl Stacks {
    pub(super) fn next(&mut self) -> Result<Counted, RunError> {
        let stack = self.end.clone().stack(self.spec.clone(), self.seed)?;
        // Another one has other random numbers.
        self.end.life.push_str("/renewed");
        Ok(Counted::new(stack, self.counters.clone()).wanted(self.wanted.clone()))
    }

    /// The first of them, for packets of `flow` to the node of this address.
    pub(super) fn carrier(mut self, address: Address, flow: FlowId) -> Result<Carrier, RunError> {
        let stack = self.next()?;
        let ([source_port, destination_port], protocol) = (self.end.ports(), stack.stack().protocol());
        let peer = Peer { address, source_port, destination_port, flow, protocol, dscp: 0 };
        Ok(Carrier { stack, others: self, peer })
    }
}

/// The random numbers of one end, by the names of their streams.
struct Streams {
    seed: Seed,
    end: End,
}

impl Streams {
    fn name(&self, part: Part) -> String {
        let End { carries, side, life, .. } = &self.end;
        let (own, part_name) = (side.name(), part.name());
        match (part, carries) {
            (Part::Security | Part::Transport(TransportKind::Quic), _) => {
                format!("session/{own}/{part_name}{life}")
            }
            (Part::Transport(TransportKind::Mtip), Carries::Commands) => "commands/mtip".to_owned(),
            (Part::Transport(kind), Carries::Commands) if kind.is_multipath() => {
                format!("commands/{part_name}/{own}")
            }
            _ => format!("session/{own}/{part_name}"),
        }
    }
}

impl Randomness for Streams {
    fn entropy(&mut self, part: Part) -> Entropy {
        Entropy::seeded(self.seed, &self.name(part))
    }
    fn rng(&mut self, part: Part) -> Rng {
        self.seed.stream(&self.name(part))
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
