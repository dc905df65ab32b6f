//! What carries packets between the two ends.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use taut_core::{Duration, Seed};
use taut_io::Namespace;
use taut_io::emulate::{DirectionStats, Emulator, RunningEmulator, Tun, TunConfig};
use taut_lab::run::{Inputs, Way, session_links};
use taut_lab::scenario::Scenario;
use taut_report::result::{Input, Ran};

use crate::{Options, RealError};

/// What stands between the operator's namespace and the robot's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Between {
    /// taut's emulator: the scenario's link chains, the code of the simulator, in real time.
    #[default]
    Emulator,
    /// The kernel's own queueing disciplines, HTB and netem (tc(8)), on the devices of two routers.
    Netem,
}

/// Two namespaces that are joined. They go with this value.
pub struct Network {
    /// Where the operator's sockets are opened.
    pub operator: Namespace,
    /// Where the robot's are.
    pub robot: Namespace,
    /// The robot's address.
    pub robot_address: IpAddr,
    /// The files that the links read.
    pub inputs: Vec<Input>,
}

/// Two namespaces and what carries packets between them.
pub type Joined = (Network, Box<dyn Middle>);

/// Something that carries packets, at work until it is stopped or dropped.
pub trait Middle {
    /// Ends it: what it carried from the operator to the robot, and back.
    ///
    /// # Errors
    /// When it could not go on before.
    fn stop(self: Box<Self>) -> Result<[Way; 2], RealError>;
}

impl Between {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Emulator, Self::Netem];

    /// Its name in arguments.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Emulator => "emulator",
            Self::Netem => "netem",
        }
    }

    /// What results say of runs over it.
    pub const fn ran(self) -> Ran {
        match self {
            Self::Emulator => Ran::Real,
            Self::Netem => Ran::Kernel,
        }
    }

    /// Makes the namespaces and joins them. From now on the links' time runs.
    ///
    /// # Errors
    /// When the process may not, or the scenario's links are not such as can be between two ends.
    pub fn join(self, scenario: &Scenario, seed: Seed, options: &Options) -> Result<Joined, RealError> {
        match self {
            Self::Emulator => emulator(scenario, seed, options),
            Self::Netem => crate::netem::join(scenario),
        }
    }
}

impl std::str::FromStr for Between {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|between| between.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` cannot stand between two ends; there are {names}")
        })
    }
}

/// How the namespaces are called for `ip netns`: `PREFIX-PID-NUMBER`.
const PREFIX: &str = "taut-real";
const OPERATOR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 79, 0, 1));
const ROBOT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 79, 0, 2));
/// The emulator wakes up so long before a packet is due, and spins.
const EARLY: Duration = Duration::from_micros(100);

fn emulator(scenario: &Scenario, seed: Seed, options: &Options) -> Result<Joined, RealError> {
    let mut inputs = Inputs::default();
    let links = session_links(scenario, seed, &mut inputs)?;
    let (operator, robot) = (Namespace::named(PREFIX)?, Namespace::named(PREFIX)?);
    let a = Tun::new(&operator, &TunConfig::new("to-robot", OPERATOR, 24))?;
    let b = Tun::new(&robot, &TunConfig::new("to-operator", ROBOT, 24))?;
    let early = if options.spins() { EARLY } else { Duration::ZERO };
    let emulator = Emulator::new(links.there.1, links.back.1).early(early).thread(options.thread());
    let running = emulator.spawn(a, b)?;
    options.warn(running.warnings());
    let network = Network { operator, robot, robot_address: ROBOT, inputs: inputs.list() };
    Ok((network, Box::new(Emulated(running))))
}

struct Emulated(RunningEmulator);

impl Middle for Emulated {
    fn stop(self: Box<Self>) -> Result<[Way; 2], RealError> {
        let stats = self.0.stop()?;
        Ok([way(&stats.up), way(&stats.down)])
    }
}

pub(crate) fn way(stats: &DirectionStats) -> Way {
    let dropped = stats.dropped.iter().map(|(cause, count)| (cause.name().to_owned(), *count));
    let late = |percentile| stats.lateness_at(percentile).as_nanos() / 1_000;
    let counters = [
        ("emulator_late_p50_us", late(50.0)),
        ("emulator_late_p99_us", late(99.0)),
        ("emulator_late_max_us", late(100.0)),
        ("emulator_overrun", stats.overrun),
    ];
    Way {
        entered: stats.entered,
        entered_bytes: stats.entered_bytes,
        left: stats.left,
        left_bytes: stats.left_bytes,
        dropped: dropped.collect(),
        duplicated: stats.duplicated,
        counters: BTreeMap::from(counters.map(|(name, count)| (name.to_owned(), count))),
    }
}
