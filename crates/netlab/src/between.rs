//! What carries packets between the two ends.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use taut_core::{Duration, Seed, Time};
use taut_io::Clock;
use taut_lab::run::{Inputs, Way, path_links};
use taut_lab::scenario::Scenario;
use taut_report::result::Ran;

use crate::beginning::{Beginning, Since};
use crate::cross::Books;
use crate::emulate::{DirectionStats, Emulator, RunningEmulator, Tun};
use crate::{Namespace, NamespaceError, Options, RealError};

taut_core::named! {
    /// What stands between the operator's namespace and the robot's.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Between {
        /// taut's emulator: the scenario's link chains, the code of the simulator, in real time.
        #[default]
        Emulator = "emulator",
        /// The kernel's own queueing disciplines, HTB and netem (tc(8)), on the devices of two routers.
        Netem = "netem",
    }
}

/// Two namespaces that are joined by one path or several. They go with this value.
pub(crate) struct Network {
    /// Where the operator's sockets are opened.
    pub(crate) operator: Namespace,
    /// Where the robot's are.
    pub(crate) robot: Namespace,
    /// Each with a device of its own at both ends. What leaves through that reaches any of the robot's addresses over it.
    pub(crate) paths: Vec<Path>,
    /// The clock of the run, and of the links.
    pub(crate) clock: Clock,
}

/// One path between two namespaces.
pub(crate) struct Path {
    /// What its device is called, at both ends.
    pub(crate) device: String,
    /// The operator's address on it.
    pub(crate) operator: IpAddr,
    /// The robot's.
    pub(crate) robot: IpAddr,
}

/// Two namespaces and what carries packets between them.
pub(crate) type Joined = (Network, Box<dyn Middle>);

/// Something that carries packets, at work until it is stopped or dropped.
pub(crate) trait Middle {
    /// The run begins, at this time of the network's clock: what is scheduled in its links is so long after.
    fn begin(&self, _now: Time) {}

    /// Ends it: what each path carried from the operator to the robot, and back.
    ///
    /// # Errors
    /// When it could not go on before.
    fn stop(self: Box<Self>) -> Result<Vec<[Way; 2]>, RealError>;

    /// The same until now, where packets are not [seen](Between::sees_packets) on their way.
    ///
    /// # Errors
    /// When it cannot be read.
    fn carried(&self) -> Result<Vec<[Way; 2]>, RealError> {
        Ok(Vec::new())
    }
}

impl Between {
    /// What results say of runs over it.
    pub const fn ran(self) -> Ran {
        match self {
            Self::Emulator => Ran::Real,
            Self::Netem => Ran::Kernel,
        }
    }

    /// Makes the namespaces and joins them. The links' time runs from when the run [begins](Middle::begin). What the paths do with packets goes to `books`, where it
    /// is seen.
    ///
    /// # Errors
    /// When the process may not, or the scenario's links are not such as can be between two ends.
    pub(crate) fn join(
        self,
        scenario: &Scenario,
        seed: Seed,
        options: &Options,
        inputs: &mut Inputs,
        books: &Books,
    ) -> Result<Joined, RealError> {
        match self {
            Self::Emulator => emulator(scenario, seed, options, inputs, books),
            Self::Netem => crate::netem::join(scenario),
        }
    }

    /// Is every packet seen on its way? Otherwise its ends have to count.
    pub(crate) const fn sees_packets(self) -> bool {
        matches!(self, Self::Emulator)
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

impl Network {
    /// Lets Multipath TCP (RFC 8684) use every path: a connection begins on the first, the robot announces its other
    /// addresses, and subflows follow (ip-mptcp(8)).
    pub(crate) fn announce_paths(&self) -> Result<(), NamespaceError> {
        for end in [&self.operator, &self.robot] {
            end.ip("mptcp limits set subflows 8 add_addr_accepted 8")?;
        }
        let mut others = self.paths.iter().skip(1);
        others.try_for_each(|path| {
            self.robot.ip(&format!("mptcp endpoint add {} signal", path.robot)).map(drop)
        })
    }
}

/// How the namespaces are called for `ip netns`: `PREFIX-PID-START-NUMBER`.
const PREFIX: &str = "taut-real";
/// The emulator wakes up so long before a packet is due, and spins.
const EARLY: Duration = Duration::from_micros(100);

fn emulator(
    scenario: &Scenario,
    seed: Seed,
    options: &Options,
    inputs: &mut Inputs,
    books: &Books,
) -> Result<Joined, RealError> {
    let links = path_links(scenario, seed, inputs)?;
    let (operator, robot) = (Namespace::named(PREFIX)?, Namespace::named(PREFIX)?);
    // The robot has one address for the operator, whichever path it is reached over.
    operator.accepts_from_everywhere()?;
    let early = if options.spins() { EARLY } else { Duration::ZERO };
    let (mut paths, mut devices) = (Vec::new(), Vec::new());
    for number in 0..links.len() as u8 {
        let address = |end| IpAddr::V4(Ipv4Addr::new(10, 79, number, end));
        let path = Path { device: format!("path{number}"), operator: address(1), robot: address(2) };
        let a = Tun::new(&operator, &path.device, path.operator, 24)?;
        let b = Tun::new(&robot, &path.device, path.robot, 24)?;
        // For sockets that are bound to this device.
        operator.ip(&format!("route add default dev {} metric {}", path.device, u32::from(number) + 1))?;
        paths.push(path);
        devices.push((a, b));
    }
    let (clock, mut running, beginning) = (Clock::start(), Vec::new(), Beginning::default());
    for (links, (a, b)) in links.into_iter().zip(devices) {
        let [there, back] = links.map(|link| Since { link, beginning: beginning.clone() });
        let emulator = Emulator::new(there, back).early(early).thread(options.thread()).clock(clock);
        let [up, down] = books.taps();
        let emulator = emulator.taps(up, down).spawn(a, b)?;
        options.warn(emulator.warnings());
        running.push(emulator);
    }
    let network = Network { operator, robot, paths, clock };
    Ok((network, Box::new(Emulated { running, beginning })))
}

/// An emulator for each path.
struct Emulated {
    running: Vec<RunningEmulator>,
    beginning: Beginning,
}

impl Middle for Emulated {
    fn begin(&self, now: Time) {
        self.beginning.begin(now);
    }

    fn stop(self: Box<Self>) -> Result<Vec<[Way; 2]>, RealError> {
        let stop = |path: RunningEmulator| {
            let stats = path.stop()?;
            Ok([way(&stats.up), way(&stats.down)])
        };
        self.running.into_iter().map(stop).collect()
    }
}

fn way(stats: &DirectionStats) -> Way {
    let causes = stats.dropped.iter().map(|(cause, count)| (cause.name(), *count));
    let refused = (stats.refused > 0).then_some(("refused by the kernel", stats.refused));
    let dropped = causes.chain(refused).map(|(cause, count)| (cause.to_owned(), count));
    let late = |percentile| stats.lateness_at(percentile).as_nanos() / 1_000;
    let counters = [
        ("emulator_late_p50_us", late(50.0)),
        ("emulator_late_p99_us", late(99.0)),
        ("emulator_late_max_us", late(100.0)),
        ("emulator_overrun", stats.overrun),
    ];
    Way {
        entered: stats.entered + stats.kept_out,
        entered_bytes: stats.entered_bytes,
        left: stats.left,
        left_bytes: stats.left_bytes,
        dropped: dropped.collect(),
        duplicated: stats.duplicated,
        held: Some(stats.held),
        counted: None,
        counters: BTreeMap::from(counters.map(|(name, count)| (name.to_owned(), count))),
    }
}

#[cfg(test)]
mod tests {
    use taut_core::DropCause;

    use super::*;

    /// A bit that is flipped where an IP packet says its version: the receiving kernel takes no such packet.
    #[test]
    fn what_the_kernel_refuses_of_corrupted_packets_is_no_longer_under_way() {
        let lost = vec![(DropCause::Loss, 2)];
        let stats = DirectionStats {
            entered: 10,
            left: 5,
            dropped: lost.into_iter().collect(),
            refused: 3,
            ..DirectionStats::new()
        };
        let way = way(&stats);
        assert_eq!(way.dropped.get("refused by the kernel"), Some(&3));
        assert_eq!(way.violation(), None);
    }

    #[test]
    fn what_an_emulator_lost_without_a_cause_is_a_violation() {
        let stats = |held| DirectionStats { entered: 10, left: 7, held, ..DirectionStats::new() };
        let way = |stats: &DirectionStats| way(stats).violation();
        assert_eq!(way(&stats(3)), None);
        assert!(way(&stats(2)).is_some_and(|told| told.contains("2 are inside")));
        // Nor had what was kept out a way in.
        let dropped = [(DropCause::QueueFullBytes, 5)].into();
        assert_eq!(way(&DirectionStats { kept_out: 5, dropped, ..stats(3) }), None);
    }
}
