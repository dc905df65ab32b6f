//! Whatever carries commands, on one path or on all of them.

use std::collections::VecDeque;

use taut_core::{
    Choice, Datagram, Deadline, Duration, Ecn, Event, Message, PathId, Protocol, Seed, SendError, Time,
    Transmit, Transport,
};
use taut_transport::entropy::Entropy;
use taut_transport::identity::{Identity, Trust};
use taut_transport::mpquic::{MpQuic, MpQuicConfig, PathUse};
use taut_transport::mptcp::{Mptcp, MptcpConfig, Scheduler};
use taut_transport::mtip::{Adaptive, ChoiceStats, Clocks, Mode, Mtip, MtipConfig, Policy, Target};

use crate::run::flows::{self, Counts};
use crate::run::inputs::RunError;
use crate::run::transports::{Carrier, Side, any_transport, tcp_config};
use crate::scenario::{
    CommandTransport, Commands, MpquicPaths, MpquicSpec, MptcpScheduler, MptcpSpec, MtipClocks, MtipMode,
    MtipPolicy, MtipSpec,
};

/// One end of it.
pub(super) enum CommandCarrier {
    Single(Box<Carrier>),
    Mtip(Box<Mtip>),
    Mptcp(Box<Mptcp>),
    Mpquic(Box<MpQuic>),
    EveryPath(Box<EveryPath>),
    /// A socket of its own.
    Kernel(Box<dyn Transport>),
}

impl CommandCarrier {
    /// `explain`: each choice of paths is kept until it is read.
    pub(super) fn new(commands: &Commands, side: Side, seed: Seed, explain: bool) -> Result<Self, RunError> {
        let ids = || (0..commands.paths).map(PathId);
        Ok(match &commands.transport {
            CommandTransport::Mtip(spec) => {
                let config = mtip_config(spec, commands.deadline).explain(explain);
                let mut mtip = match side {
                    Side::Opens => Mtip::client(config, seed.stream("commands/mtip").next_u64()),
                    Side::Waits => Mtip::server(config),
                };
                if side == Side::Opens {
                    ids().for_each(|id| {
                        assert!(mtip.add_path(Time::ZERO, id), "a valid scenario has no more")
                    });
                }
                Self::Mtip(Box::new(mtip))
            }
            CommandTransport::Mptcp(spec) => {
                let (config, rng) =
                    (mptcp_config(spec), seed.stream(&format!("commands/mptcp/{}", side.names().0)));
                let mut mptcp = match side {
                    Side::Opens => Mptcp::client(config, rng),
                    Side::Waits => Mptcp::server(config, rng),
                };
                if side == Side::Opens {
                    ids().for_each(|id| assert!(mptcp.add_path(id), "a valid scenario has no more"));
                }
                Self::Mptcp(Box::new(mptcp))
            }
            CommandTransport::Mpquic(spec) => Self::Mpquic(Box::new(mpquic(spec, commands, side, seed))),
            CommandTransport::EveryPath => Self::EveryPath(Box::new(EveryPath::new(commands.paths))),
            single => {
                let spec = single.single().expect("the others use several paths");
                Self::Single(Box::new(Carrier::new(&spec, side, seed)?))
            }
        })
    }

    /// What the IP header names.
    pub(super) fn protocol(&self) -> Protocol {
        match self {
            Self::Single(carrier) => carrier.protocol(),
            Self::Mptcp(_) | Self::Kernel(_) => Protocol::Tcp,
            Self::Mtip(_) | Self::Mpquic(_) | Self::EveryPath(_) => Protocol::Udp,
        }
    }

    /// Is it to be called whenever its socket is ready, and not only when it is due?
    pub(super) fn owns_its_socket(&self) -> bool {
        matches!(self, Self::Kernel(_))
    }

    /// Does it drop what is late? Then it is told of the deadline.
    pub(super) fn keeps_deadlines(&self) -> bool {
        matches!(self, Self::Mtip(_))
    }

    /// How messages were spread over paths, and why.
    pub(super) fn choices(&self) -> Option<ChoiceStats> {
        match self {
            Self::Mtip(mtip) => Some(mtip.choices()),
            _ => None,
        }
    }

    /// The oldest choice that was not read yet, where they are kept.
    pub(super) fn poll_choice(&mut self) -> Option<Choice> {
        match self {
            Self::Mtip(mtip) => mtip.poll_choice(),
            _ => None,
        }
    }

    /// Messages sent, and copies of them; `None` where that is not counted in messages.
    pub(super) fn copies(&self) -> Option<(u64, u64)> {
        match self {
            Self::Mtip(mtip) => Some((mtip.stats().sent, mtip.stats().copies)),
            Self::Mptcp(mptcp) => {
                let again: u64 = mptcp.subflows().map(|subflow| subflow.stats.retransmitted).sum();
                Some((mptcp.stats().offered, mptcp.stats().pieces + again))
            }
            Self::Mpquic(mpquic) => Some((mpquic.stats().sent, mpquic.stats().copies)),
            Self::EveryPath(every) => Some((every.sent, every.sent * u64::from(every.paths))),
            Self::Single(_) | Self::Kernel(_) => None,
        }
    }
}

fn mpquic(spec: &MpquicSpec, commands: &Commands, side: Side, seed: Seed) -> MpQuic {
    let path_use = match spec.paths {
        MpquicPaths::FailOver => PathUse::FailOver,
        MpquicPaths::Duplicate => PathUse::Duplicate,
    };
    let config = MpQuicConfig::new()
        .path_use(path_use)
        .path_idle_timeout(spec.path_idle_timeout)
        .keep_alive(spec.keep_alive);
    let (own, peer) = side.names();
    let (identity, trust) = (Identity::from_seed(seed, own), Identity::from_seed(seed, peer).fingerprint());
    let entropy = Entropy::seeded(seed, &format!("commands/mpquic/{own}"));
    let mut end = match side {
        Side::Opens => MpQuic::client(config, &identity, Trust::only(trust), entropy),
        Side::Waits => MpQuic::server(config, &identity, Trust::only(trust), entropy),
    };
    if side == Side::Opens {
        for id in 0..commands.paths {
            assert!(end.add_path(Time::ZERO, PathId(id)), "a valid scenario has no more");
        }
    }
    end
}

fn mtip_config(spec: &MtipSpec, deadline: Duration) -> MtipConfig {
    let mode = match spec.mode {
        MtipMode::Improved => Mode::Improved,
        // In the simulator there are no addresses to announce.
        MtipMode::Compatible => Mode::Compatible(Vec::new()),
    };
    let policy = match spec.policy {
        MtipPolicy::Deadline => {
            Policy::Deadline(Target { probability: spec.target.as_fraction(), copies: spec.copies })
        }
        MtipPolicy::All => Policy::All,
        MtipPolicy::Adaptive => Policy::Adaptive(Adaptive {
            duplicate_threshold: spec.duplicate_threshold.as_fraction(),
            late_threshold: spec.late_threshold.as_fraction(),
            window: spec.window as usize,
        }),
        MtipPolicy::Fixed(path) => Policy::Fixed(PathId(path)),
        MtipPolicy::Best(count) => Policy::Best(count),
    };
    let clocks = match spec.clocks {
        MtipClocks::Estimated => Clocks::Estimated,
        MtipClocks::Strict => Clocks::Strict,
        MtipClocks::Synchronised => Clocks::Synchronised,
    };
    MtipConfig::new()
        .mode(mode)
        .clocks(clocks)
        .policy(policy)
        .deadline(deadline)
        .latency_weight(spec.latency_weight.as_fraction())
        .probe_interval(spec.probe_interval)
}

fn mptcp_config(spec: &MptcpSpec) -> MptcpConfig {
    let scheduler = match spec.scheduler {
        MptcpScheduler::Minrtt => Scheduler::MinRtt,
        MptcpScheduler::Redundant => Scheduler::Redundant,
        MptcpScheduler::Blest => Scheduler::Blest,
        MptcpScheduler::Ecf => Scheduler::Ecf,
        MptcpScheduler::Linux => Scheduler::Linux,
    };
    MptcpConfig { subflow: tcp_config(&spec.subflow), scheduler, uncoupled: false }
}

/// A datagram on every path for every message.
#[derive(Debug)]
pub(super) struct EveryPath {
    paths: u8,
    sent: u64,
    copies: VecDeque<(PathId, Vec<u8>)>,
    events: VecDeque<Event>,
}

impl EveryPath {
    fn new(paths: u8) -> Self {
        Self { paths, sent: 0, copies: VecDeque::new(), events: VecDeque::new() }
    }
}

impl Transport for EveryPath {
    fn send(&mut self, _now: Time, message: Message) -> Result<(), SendError> {
        self.sent += 1;
        self.copies.extend((0..self.paths).map(|path| (PathId(path), message.data.clone())));
        Ok(())
    }
    fn handle_input(&mut self, _now: Time, input: Datagram<'_>) {
        let (data, path) = (input.data.to_vec(), input.path);
        self.events.push_back(Event::Received { data, path, stream: Default::default() });
    }
    fn handle_timeout(&mut self, _now: Time) {}
    fn poll_transmit(&mut self, _now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let (path, data) = self.copies.pop_front()?;
        buffer.extend_from_slice(&data);
        Some(Transmit { path, ecn: Ecn::NotCapable, padding: 0 })
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
    fn close(&mut self, _now: Time) {}
}

impl Counts for CommandCarrier {
    fn counts(&self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Single(carrier) => carrier.counts(),
            Self::Mtip(mtip) => flows::mtip(&mtip.stats()),
            Self::Mptcp(mptcp) => flows::mptcp(&mptcp.stats()),
            Self::Mpquic(mpquic) => flows::mpquic(&mpquic.stats()),
            Self::EveryPath(every) => vec![("offered", every.sent)],
            Self::Kernel(_) => Vec::new(),
        }
    }
}

any_transport!(CommandCarrier: Single, Mtip, Mptcp, Mpquic, EveryPath, Kernel);
