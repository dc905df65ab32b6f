//! Flows of commands over several paths: a pair of devices and an emulator for each path between two namespaces.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use taut_core::{Datagram, Deadline, Duration, Seed, Time, Transmit, Transport};
use taut_io::emulate::{Emulator, RunningEmulator, Tun, TunConfig};
use taut_io::tcp::{KernelTcp, KernelTcpConfig};
use taut_io::{
    Alarm, Clock, Driver, DriverConfig, Machine, Namespace, NamespaceError, Port, UdpPort, UdpPortConfig,
};
use taut_lab::run::{CommandEnd, CommandEnds, Inputs, KernelEnds, RunError, Way, command_links};
use taut_lab::scenario::{Commands, MptcpScheduler, Scenario, TransportSpec};
use taut_report::result::RunResult;

use crate::between::way;
use crate::{Between, Cancel, Options, RealError};

/// Where the receiver's end listens, on every path.
const PORT: u16 = 4_433;
/// How the namespaces are called for `ip netns`.
const PREFIX: &str = "taut-real";
/// The emulators wake up so long before a packet is due, and spin.
const EARLY: Duration = Duration::from_micros(100);
/// How often it is looked how far a run is.
const LOOK: Duration = Duration::from_millis(50);

/// What of a flow of commands cannot be.
pub(crate) fn possible(scenario: &Scenario, commands: &Commands) -> Result<(), RunError> {
    command_links(scenario, Seed::new(1), &mut Inputs::default())?;
    let refuse = |key: &str, message: &str| {
        Err(RunError::Key { key: format!("commands.{key}"), message: message.to_owned() })
    };
    match commands.transport {
        TransportSpec::Udp | TransportSpec::Mtip(_) | TransportSpec::Mpquic(_) | TransportSpec::EveryPath => {
            Ok(())
        }
        TransportSpec::Mptcp(spec)
            if matches!(spec.scheduler, MptcpScheduler::Minrtt | MptcpScheduler::Linux) =>
        {
            Ok(())
        }
        TransportSpec::Mptcp(_) => {
            let message = "the kernel's Multipath TCP has one of its own: name linux, or minrtt";
            refuse("transport.mptcp.scheduler", message)
        }
        _ => refuse("transport", "udp, mtip, mpquic, mptcp and every_path carry commands over real sockets"),
    }
}

/// Runs the commands of a scenario over real sockets: both ends on one thread, which is late for both alike.
pub(crate) fn run(
    scenario: &Scenario,
    commands: &Commands,
    seed: Seed,
    options: &Options,
    cancel: &Cancel,
    progress: &mut dyn FnMut(f64),
) -> Result<RunResult, RealError> {
    if options.is_between() != Between::Emulator {
        return Err(RealError::Scenario(RunError::Key {
            key: "commands".to_owned(),
            message: "go through the emulator; leave out --between".to_owned(),
        }));
    }
    let mut inputs = Inputs::default();
    let network = Network::new(scenario, seed, options, &mut inputs)?;
    options.warn(options.thread().apply());
    let (clock, kernel) = (Clock::start(), network.kernel(commands)?);
    let (transports, ports) = match kernel {
        Some(Kernel { ends, ports }) => (Some(ends), ports),
        None => (None, network.ports(commands)?),
    };
    let ends = CommandEnds::new(scenario, commands, seed, transports)?;
    let mut driver = Driver::new(DriverConfig::new())?.with_clock(clock);
    for (end, port) in [ends.receiver, ends.sender].into_iter().zip(ports) {
        driver.add(End(end), port)?;
    }
    let length = scenario.duration + scenario.drain;
    while driver.clock().now() < Time::ZERO + length {
        if cancel.is_cancelled() {
            return Err(RealError::Interrupted);
        }
        let now = driver.clock().now();
        let until = now + LOOK;
        while driver.clock().now() < until {
            driver.turn(until, &mut |_, ()| {})?;
        }
        progress((now.as_secs_f64() / length.as_secs_f64()).min(1.0));
    }
    // The books learn of the copies when the ends are gone.
    drop(driver);
    let carried = network.stop()?;
    Ok(ends.books.account(scenario, seed.get(), &carried, inputs.list()))
}

/// One end of the flow, driven.
struct End(CommandEnd);

impl Machine for End {
    type Command = ();
    type Event = ();

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.0.handle_input(now, input);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
    }
    fn handle_command(&mut self, _: Time, (): ()) {}
    fn handle_alarm(&mut self, _: Time, _: Alarm) {}
    fn alarm_voids(_: &()) -> bool {
        false
    }
    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.0.poll_transmit(now, buffer)
    }
    fn poll_event(&mut self, _: Time) -> Option<()> {
        self.0.poll_event().then_some(())
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        self.0.poll_timeout()
    }
}

/// Two namespaces, joined by a path for each link.
struct Network {
    from: Namespace,
    to: Namespace,
    paths: Vec<RunningEmulator>,
}

/// The kernel's own transport, and what wakes its ends: the receiver's first.
struct Kernel {
    ends: KernelEnds,
    ports: [Port; 2],
}

/// Of path `path`, the sender's address (1) or the receiver's (2).
fn address(path: usize, end: u8) -> IpAddr {
    let path = u8::try_from(path).expect("there are few paths");
    IpAddr::V4(Ipv4Addr::new(10, 78, path, end))
}

impl Network {
    fn new(
        scenario: &Scenario,
        seed: Seed,
        options: &Options,
        inputs: &mut Inputs,
    ) -> Result<Self, RealError> {
        let links = command_links(scenario, seed, inputs)?;
        let (from, to) = (Namespace::named(PREFIX)?, Namespace::named(PREFIX)?);
        let early = if options.spins() { EARLY } else { Duration::ZERO };
        let mut paths = Vec::new();
        for (path, [there, back]) in links.into_iter().enumerate() {
            let name = format!("path{path}");
            let a = Tun::new(&from, &TunConfig::new(&name, address(path, 1), 24))?;
            let b = Tun::new(&to, &TunConfig::new(&name, address(path, 2), 24))?;
            let running = Emulator::new(there, back).early(early).thread(options.thread()).spawn(a, b)?;
            options.warn(running.warnings());
            paths.push(running);
        }
        Ok(Self { from, to, paths })
    }

    /// A socket at each address, the receiver's end first. One path is enough for what uses one.
    fn ports(&self, commands: &Commands) -> Result<[Port; 2], RealError> {
        let paths = if commands.transport.is_multipath() { self.paths.len() } else { 1 };
        let config = UdpPortConfig::new().waits(false);
        let mut near = UdpPort::without_sockets(config);
        let mut far = UdpPort::without_sockets(config);
        for path in 0..paths {
            let [a, b] = [(&self.from, address(path, 1)), (&self.to, address(path, 2))]
                .map(|(end, address)| end.run(|| UdpSocket::bind((address, PORT))));
            let socket = |bound: std::io::Result<UdpSocket>| {
                bound.map_err(|error| NamespaceError::Refused { what: "a socket of a path", error })
            };
            for (port, socket, peer) in [(&mut near, socket(a?)?, 2), (&mut far, socket(b?)?, 1)] {
                let place = port.add_socket(socket)?;
                port.add_path(place, SocketAddr::new(address(path, peer), PORT));
            }
        }
        Ok([far.into(), near.into()])
    }

    /// Multipath TCP of the kernel: the connection begins on the first path; the receiver announces its other addresses,
    /// and subflows follow (ip-mptcp(8)).
    fn kernel(&self, commands: &Commands) -> Result<Option<Kernel>, RealError> {
        if !matches!(commands.transport, TransportSpec::Mptcp(_)) {
            return Ok(None);
        }
        for end in [&self.from, &self.to] {
            end.ip("mptcp limits set subflows 8 add_addr_accepted 8")?;
        }
        for path in 1..self.paths.len() {
            self.to.ip(&format!("mptcp endpoint add {} signal", address(path, 2)))?;
        }
        let config = KernelTcpConfig::new().congestion("reno").multipath(true);
        let refused = |error| NamespaceError::Refused { what: "Multipath TCP", error };
        let remote = SocketAddr::new(address(0, 2), PORT);
        let server = self.to.run(|| {
            KernelTcp::listener(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)), &config)
                .and_then(|listener| KernelTcp::server(listener, config))
        })?;
        let client = self.from.run(|| KernelTcp::client(remote, config))?;
        let (client, server) = (client.map_err(refused)?, server.map_err(refused)?);
        let ports =
            [server.descriptor().map_err(refused)?.into(), client.descriptor().map_err(refused)?.into()];
        let ends: [Box<dyn Transport>; 2] = [Box::new(client), Box::new(server)];
        Ok(Some(Kernel { ends, ports }))
    }

    /// Ends it: what each path carried there and back.
    fn stop(self) -> Result<Vec<[Way; 2]>, RealError> {
        let stop = |path: RunningEmulator| {
            let stats = path.stop()?;
            Ok([way(&stats.up), way(&stats.down)])
        };
        self.paths.into_iter().map(stop).collect()
    }
}
