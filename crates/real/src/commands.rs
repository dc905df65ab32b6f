//! Flows of commands over several paths.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use taut_core::{Datagram, Deadline, Duration, Seed, Time, Transmit, Transport};
use taut_io::tcp::{KernelTcp, KernelTcpConfig};
use taut_io::{
    Alarm, Clock, Driver, DriverConfig, Machine, Namespace, NamespaceError, Port, UdpPort, UdpPortConfig,
};
use taut_lab::result::RunResult;
use taut_lab::run::{CommandEnd, CommandEnds, KernelEnds, RunError};
use taut_lab::scenario::{Commands, Scenario, TransportSpec};

use crate::between::Network;
use crate::{Between, Cancel, Options, RealError};

/// Where the receiver's end listens, on every path.
const PORT: u16 = 4_433;
/// How often it is looked how far a run is.
const LOOK: Duration = Duration::from_millis(50);

/// What of a flow of commands cannot be.
pub(crate) fn possible(commands: &Commands) -> Option<(&'static str, String)> {
    match commands.transport {
        TransportSpec::Udp | TransportSpec::Mtip(_) | TransportSpec::Mpquic(_) | TransportSpec::EveryPath => {
            None
        }
        TransportSpec::Mptcp(spec) => crate::possible::multipath_tcp(spec),
        _ => Some((
            "transport",
            "udp, mtip, mpquic, mptcp and every_path carry commands over real sockets".to_owned(),
        )),
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
    let (network, middle) = Between::Emulator.join(scenario, seed, options)?;
    options.warn(options.thread().apply());
    let (clock, kernel) = (Clock::start(), kernel(&network, commands)?);
    let (transports, ports) = match kernel {
        Some(Kernel { ends, ports }) => (Some(ends), ports),
        None => (None, ports(&network, commands)?),
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
    let carried = middle.stop()?;
    Ok(ends.books.account(scenario, seed.get(), &carried, network.inputs))
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

/// The kernel's own transport, and what wakes its ends: the receiver's first.
struct Kernel {
    ends: KernelEnds,
    ports: [Port; 2],
}

/// A socket at each address, the receiver's end first. One path is enough for what uses one.
fn ports(network: &Network, commands: &Commands) -> Result<[Port; 2], RealError> {
    let paths = if commands.transport.is_multipath() { network.paths.len() } else { 1 };
    let config = UdpPortConfig::new().waits(false);
    let mut near = UdpPort::without_sockets(config);
    let mut far = UdpPort::without_sockets(config);
    for path in &network.paths[..paths] {
        let bound = |end: &Namespace, address| {
            let socket = end.run(|| UdpSocket::bind((address, PORT)))?;
            socket.map_err(|error| NamespaceError::Refused { what: "a socket of a path", error })
        };
        let (a, b) = (bound(&network.operator, path.operator)?, bound(&network.robot, path.robot)?);
        for (port, socket, peer) in [(&mut near, a, path.robot), (&mut far, b, path.operator)] {
            let place = port.add_socket(socket)?;
            port.add_path(place, SocketAddr::new(peer, PORT));
        }
    }
    Ok([far.into(), near.into()])
}

/// Multipath TCP of the kernel.
fn kernel(network: &Network, commands: &Commands) -> Result<Option<Kernel>, RealError> {
    let TransportSpec::Mptcp(_) = commands.transport else { return Ok(None) };
    network.announce_paths()?;
    let config = KernelTcpConfig::new().congestion("reno").multipath(true);
    let refused = |error| NamespaceError::Refused { what: "Multipath TCP", error };
    let remote = SocketAddr::new(network.paths[0].robot, PORT);
    let server = network.robot.run(|| {
        KernelTcp::listener(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)), &config)
            .and_then(|listener| KernelTcp::server(listener, config))
    })?;
    let client = network.operator.run(|| KernelTcp::client(remote, config))?;
    let (client, server) = (client.map_err(refused)?, server.map_err(refused)?);
    let ports = [server.descriptor().map_err(refused)?.into(), client.descriptor().map_err(refused)?.into()];
    let ends: [Box<dyn Transport>; 2] = [Box::new(client), Box::new(server)];
    Ok(Some(Kernel { ends, ports }))
}
