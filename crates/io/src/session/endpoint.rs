//! An address, a transport and an identity: what makes conversations.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use taut_agent::PATIENCE;
use taut_core::{Origin, PathId, Time, Transport};
use taut_transport::quic::Resumption;
use taut_transport::security::{Sealed, SecurityConfig};
use taut_transport::service::Service;
use taut_transport::stack::{Protection, Side, Stack, StackError, StackSpec, TransportKind};

use super::carrier::Carrier;
use super::entropy::{OsRandomness, os_entropy};
use super::paths::{PathSpec, PathWatch};
use super::security::{Credentials, Security};
use super::transport::TransportConfig;
use crate::tcp::{Acceptor, KernelTcp, KernelTcpConfig};
use crate::{CapabilitySet, Clock, DccpPort, Port, PortError, UdpPort, UdpPortConfig};

/// One end's address and identity. The socket stays for as long as this lives; each conversation gets a new
/// [`Carrier`] and a new [`Port`]. Over QUIC the second conversation with the same peer resumes the first: its hello and its
/// samples travel in the first packet ([early data](taut_transport::quic#early-data)), for as long as both ends live.
#[derive(Debug)]
pub struct Endpoint {
    transport: Mutex<TransportConfig>,
    /// It is another one than that of the conversation that is.
    switched: AtomicBool,
    security: Security,
    socket: Socket,
    /// Of an operator: the robot's.
    remote: Option<SocketAddr>,
    /// ns since 1970 at the clock's zero.
    epoch: u64,
    receive_buffer: Option<usize>,
}

#[derive(Debug)]
enum Socket {
    Datagrams(UdpSocket),
    Listener(TcpListener),
    /// A socket for each path, as interfaces come and go. What they are bound to.
    Paths(Vec<PathSpec>, SocketAddr),
    /// DCCP in IP packets of its own: this end's address and DCCP port. Each conversation opens a socket.
    Raw(SocketAddr),
    /// A TCP client has a new socket each time.
    None,
}

/// An endpoint that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Somebody else has that address.
    #[error("{0} is in use: listen on another port, or end the program that has it (`ss -lunpt` shows it)")]
    InUse(SocketAddr),
    /// It is not an address of this host.
    #[error("{0} is not an address of this host: `ip address` lists them, 0.0.0.0 stands for all")]
    NotOurs(SocketAddr),
    /// A port below 1024.
    #[error("{0}: ports below 1024 are for root; choose a higher one")]
    NotPermitted(SocketAddr),
    /// QUIC cannot be had in the clear.
    #[error("QUIC is always encrypted; choose another transport to go without")]
    AlwaysEncrypted,
    /// Only DCCP has packets of its own.
    #[error("{0} has no IP packets of its own here; dccp has")]
    NotRaw(TransportKind),
    /// A sealed packet is not a DCCP packet any more: the seal goes around it.
    #[error(
        "DCCP in IP packets of its own is in the clear: sealed, it travels in UDP; choose --plaintext, for the lab"
    )]
    RawInTheClear,
    /// The checksum covers the address.
    #[error("{0}: DCCP in IP packets of its own needs an address of this host; `ip address` lists them")]
    RawAnywhere(SocketAddr),
    /// Only some transports use several paths.
    #[error("{0} uses one path at a time; mtip and mpquic use several")]
    OnePath(TransportKind),
    /// TCP's paths are the kernel's, and DCCP's raw packets have one address.
    #[error("{0} cannot be bound to paths here")]
    NoPaths(TransportKind),
    /// More than a transport can have.
    #[error("{0} paths are too many: there can be 8")]
    TooManyPaths(usize),
    /// The same twice.
    #[error("path {0} is named twice")]
    SamePath(PathSpec),
    /// In the clear, and others than this host's programs could take part.
    #[error(
        "{0} is not a loopback address, and without security whoever is on the way could read and change the session: let the \
         ends know each other (`taut identity`), or choose --plaintext-anywhere in a network that is the lab's own"
    )]
    PlaintextBeyondLoopback(SocketAddr),
    /// The same, by a path.
    #[error(
        "path {0} leads out of this host, which --plaintext does not: let the ends know each other (`taut identity`), or \
         choose --plaintext-anywhere in a network that is the lab's own"
    )]
    PlaintextPath(PathSpec),
    /// An operator trusts exactly one robot.
    #[error("an operator needs the fingerprint of one robot")]
    OneRobot,
    /// Its socket is for datagrams, or there is another one for each path.
    #[error("{0} is not to be had at the socket that there is")]
    OtherSocket(TransportKind),
    /// It needs no sockets, and has none.
    #[error("the model of {0} is for the lab; over sockets there is the kernel's own")]
    Model(TransportKind),
    /// Its settings cannot be.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The system refused.
    #[error("{what}: {error}")]
    Refused {
        /// What was asked of it.
        what: String,
        /// What it said.
        error: io::Error,
    },
    /// A port refused.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Addresses that a port remembers; one that is not in use gives way to a newcomer.
const PATHS: usize = 64;
/// Bytes of `SO_SNDBUF` where paths share a socket; Linux takes twice as much, and no more than it allows (socket(7)). What is kept for a
/// neighbour whose Ethernet address is looked for counts until that is given up, three seconds later, and for each it may be 213 kB (`unres_qlen_bytes`, arp(7)): a
/// quarter of this where `net.core.wmem_max` allows it, half by the kernel's default: one that is gone filled the socket alone, and no path of it carried anything meanwhile.
const SHARED_SEND_BUFFER: usize = 425_984;

impl Endpoint {
    /// The robot's end, at `address`.
    ///
    /// # Errors
    /// When the address cannot be had, QUIC is asked for in the clear, or plaintext would be heard where it may not be.
    pub fn listen(
        transport: impl Into<TransportConfig>,
        address: SocketAddr,
        security: impl Into<Security>,
        clock: &Clock,
    ) -> Result<Self, EndpointError> {
        let (transport, security) = (transport.into(), security.into());
        security.check(address)?;
        let socket = match &transport {
            TransportConfig::Tcp(config) => KernelTcp::listener(address, config).map(Socket::Listener),
            TransportConfig::Stack(_) => UdpSocket::bind(address).map(Socket::Datagrams),
        };
        let socket = socket.map_err(|error| of_bind(address, error))?;
        Self::new(transport, security, socket, None, clock)
    }

    /// The operator's end, for the robot at `remote`.
    ///
    /// # Errors
    /// When there is no socket to be had, QUIC is asked for in the clear, not exactly one robot is trusted, or plaintext would
    /// go where it may not.
    pub fn connect(
        transport: impl Into<TransportConfig>,
        remote: SocketAddr,
        security: impl Into<Security>,
        clock: &Clock,
    ) -> Result<Self, EndpointError> {
        let security = security.into();
        if security.credentials().is_some_and(|known| known.trust.len() != 1) {
            return Err(EndpointError::OneRobot);
        }
        security.check(remote)?;
        let any = match remote {
            // A socket for loopback is one that nobody else reaches.
            at if at.ip().to_canonical().is_loopback() => SocketAddr::new(at.ip(), 0),
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let transport = transport.into();
        let socket = if transport.kind() == TransportKind::Tcp {
            Socket::None
        } else {
            Socket::Datagrams(UdpSocket::bind(any).map_err(|error| of_bind(any, error))?)
        };
        Self::new(transport, security, socket, Some(remote), clock)
    }

    /// Over IP directly instead of UDP: DCCP as protocol 33 (RFC 4340), in the clear, for the lab and for networks
    /// without NAT. The port is DCCP's. Needs `CAP_NET_RAW`, and a kernel that does not speak DCCP itself (Linux 6.16 and
    /// newer): an older one with DCCP answers such packets with a Reset.
    ///
    /// # Errors
    /// When the transport is another, the end has credentials, or it listens at no address in particular.
    pub fn raw(mut self) -> Result<Self, EndpointError> {
        if self.kind() != TransportKind::Dccp {
            return Err(EndpointError::NotRaw(self.kind()));
        }
        if self.security.credentials().is_some() {
            return Err(EndpointError::RawInTheClear);
        }
        let Socket::Datagrams(socket) = &self.socket else { return Ok(self) };
        if let Some(remote) = self.remote {
            // The kernel chooses the address from which it is reached, and a port number.
            socket.connect(remote).map_err(refused("a route to the robot"))?;
        }
        let local = socket.local_addr().map_err(refused("the socket's address"))?;
        if local.ip().is_unspecified() {
            return Err(EndpointError::RawAnywhere(local));
        }
        self.socket = Socket::Raw(local);
        Ok(self)
    }

    /// Over these paths, each with a socket of its own, instead of wherever the routes lead. They may come and go: one whose
    /// interface is not there or not up is waited for. Of a robot's end these are the interfaces on which it listens.
    /// Default: one socket for all.
    ///
    /// # Errors
    /// When there are more than the transport can use, none can be had for it, or plaintext would go where it may not.
    pub fn over(mut self, paths: &[PathSpec]) -> Result<Self, EndpointError> {
        let kind = self.kind();
        if paths.is_empty() {
            return Ok(self);
        }
        let Socket::Datagrams(socket) = &self.socket else { return Err(EndpointError::NoPaths(kind)) };
        match paths {
            [_, _, ..] if !kind.is_multipath() => return Err(EndpointError::OnePath(kind)),
            _ if paths.len() > taut_transport::mtip::MAX_PATHS => {
                return Err(EndpointError::TooManyPaths(paths.len()));
            }
            _ => {}
        }
        self.security.check_paths(paths)?;
        if let Some((_, twice)) = paths.iter().enumerate().find(|(n, path)| paths[..*n].contains(path)) {
            return Err(EndpointError::SamePath(twice.clone()));
        }
        let mut local = socket.local_addr().map_err(refused("the socket's address"))?;
        if self.remote.is_some() {
            local.set_port(0);
        }
        // An address in particular would not do for the others.
        local.set_ip(match local {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        });
        self.socket = Socket::Paths(paths.to_vec(), local);
        Ok(self)
    }

    /// Who gives the port of a conversation its sockets; `None`: it has one that stays.
    pub(crate) fn watch(&self) -> Option<PathWatch> {
        match &self.socket {
            Socket::Paths(paths, local) => Some(PathWatch::new(paths, *local)),
            _ => None,
        }
    }

    fn new(
        transport: TransportConfig,
        security: Security,
        socket: Socket,
        remote: Option<SocketAddr>,
        clock: &Clock,
    ) -> Result<Self, EndpointError> {
        let transport = Mutex::new(checked(transport, &security)?);
        let epoch = clock.wall().as_nanos().saturating_sub((clock.now() - Time::ZERO).as_nanos());
        let switched = AtomicBool::new(false);
        Ok(Self { transport, switched, security, socket, remote, epoch, receive_buffer: None })
    }

    /// Conversations from the next one on go over this transport, from the same socket. The one that is goes on until it ends, or is left
    /// ([`OperatorCommand::Reconnect`](taut_agent::OperatorCommand::Reconnect), [`RobotCommand::Reconnect`](taut_agent::RobotCommand::Reconnect)). The other
    /// end has to do the same. A robot forgets by it who was replayed, [as by a restart](taut_transport::security).
    ///
    /// # Errors
    /// When it is not to be had at this socket, or QUIC is asked for in the clear.
    pub fn switch(&self, transport: impl Into<TransportConfig>) -> Result<(), EndpointError> {
        let transport = checked(transport.into(), &self.security)?;
        if !matches!((&self.socket, &transport), (Socket::Datagrams(_), TransportConfig::Stack(_))) {
            return Err(EndpointError::OtherSocket(transport.kind()));
        }
        *self.transport() = transport;
        self.switched.store(true, Ordering::Release);
        Ok(())
    }

    /// Was it switched since this was asked last? Then what waits for a conversation waits over another transport.
    pub(crate) fn take_switched(&self) -> bool {
        self.switched.swap(false, Ordering::AcqRel)
    }

    fn transport(&self) -> MutexGuard<'_, TransportConfig> {
        self.transport.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`UdpPortConfig::receive_buffer`] of its sockets, bytes. Default: the system's, in which some hundred small datagrams
    /// wait while this thread is not on a CPU.
    pub fn receive_buffer(mut self, bytes: usize) -> Self {
        self.receive_buffer = Some(bytes);
        self
    }

    fn port_config(&self) -> UdpPortConfig {
        // A session judges by the clock when it looks: what waited in the socket while this host stood still has aged there.
        let config = UdpPortConfig::new().paths(PATHS).kernel_stamps(false);
        let config = if self.shares_a_socket() { config.send_buffer(SHARED_SEND_BUFFER) } else { config };
        self.receive_buffer.map_or(config, |bytes| config.receive_buffer(bytes))
    }

    /// Do several paths begin at one socket? Those of an operator have one each.
    fn shares_a_socket(&self) -> bool {
        matches!(*self.transport(), TransportConfig::Stack(StackSpec::Mtip(_) | StackSpec::Mpquic(_)))
            && matches!(self.socket, Socket::Datagrams(_))
    }

    /// Which transport.
    pub fn kind(&self) -> TransportKind {
        self.transport().kind()
    }

    /// The robot's address, of an operator's end.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// Where it listens; nothing for a TCP client.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.socket {
            Socket::Datagrams(socket) => socket.local_addr(),
            Socket::Listener(listener) => listener.local_addr(),
            Socket::Raw(local) | Socket::Paths(_, local) => Ok(*local),
            Socket::None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// The capabilities that conversations from here still need: those over raw IP open their own sockets, and paths at a port
    /// below 1024 get one whenever an interface comes up. To be bound to an interface needs none since Linux 5.7.
    pub fn capabilities(&self) -> CapabilitySet {
        match &self.socket {
            Socket::Raw(_) => CapabilitySet::NET_RAW,
            Socket::Paths(_, local) if (1..1024).contains(&local.port()) => CapabilitySet::NET_BIND_SERVICE,
            _ => CapabilitySet::empty(),
        }
    }

    /// What a new session needs.
    ///
    /// # Errors
    /// When the process may open no more descriptors, or there is no route.
    pub fn open(&self) -> Result<(Carrier, Port), EndpointError> {
        self.open_for(Service::Session)
    }

    /// What a new conversation needs that is for this.
    ///
    /// # Errors
    /// When the process may open no more descriptors, or there is no route.
    pub fn open_for(&self, service: Service) -> Result<(Carrier, Port), EndpointError> {
        let transport = self.transport().clone();
        let (mut carrier, port) = match transport {
            TransportConfig::Tcp(config) => self.open_tcp(config, service)?,
            TransportConfig::Stack(spec) => (Carrier::Stack(self.stack(spec, service)?), self.port()?),
        };
        if self.remote.is_some() && !matches!(self.socket, Socket::Paths(..)) {
            // The only path; a transport that follows its peer needs no telling.
            carrier.add_path(Time::ZERO, PathId(0));
        }
        Ok((carrier, port))
    }

    /// A port without a memory of whom it heard.
    pub(crate) fn port(&self) -> Result<Port, EndpointError> {
        if let Socket::Raw(local) = self.socket {
            let port = DccpPort::new(local, PATHS)?;
            return Ok(match self.remote {
                Some(remote) => port.to(remote).into(),
                None => port.into(),
            });
        }
        if let Socket::Paths(paths, _) = &self.socket {
            let mut port = UdpPort::without_sockets(self.port_config().waits(false));
            for _ in paths {
                port.add_place(self.remote)?;
            }
            return Ok(port.into());
        }
        let Socket::Datagrams(socket) = &self.socket else { unreachable!("TCP has no such port") };
        let socket = socket.try_clone().map_err(refused("another descriptor of the socket"))?;
        let port = UdpPort::new(socket, self.port_config())?;
        Ok(match self.remote {
            Some(remote) => port.to(remote).into(),
            None => port.into(),
        })
    }

    fn open_tcp(&self, config: KernelTcpConfig, service: Service) -> Result<(Carrier, Port), EndpointError> {
        let tcp = match (&self.socket, self.remote) {
            (Socket::Listener(listener), _) => {
                let listener = listener.try_clone().map_err(refused("a TCP socket"))?;
                if let Some(credentials) = self.security.credentials() {
                    return self.accept(listener, config, service, credentials.clone());
                }
                KernelTcp::server(listener, config)
            }
            (_, Some(remote)) => KernelTcp::client(remote, config),
            _ => unreachable!("an end listens or connects"),
        };
        let tcp = tcp.map_err(refused("a TCP socket"))?;
        let port = tcp.descriptor().map_err(refused("a descriptor"))?.into();
        let (Some(Credentials { identity, .. }), Some(peer)) = (self.security.credentials(), self.peer())
        else {
            return Ok((Carrier::PlainTcp(Box::new(tcp)), port));
        };
        let sealed = Sealed::initiator(self.noise(service), identity, peer, os_entropy(), tcp);
        Ok((Carrier::Tcp(Box::new(sealed)), port))
    }

    fn accept(
        &self,
        listener: TcpListener,
        config: KernelTcpConfig,
        service: Service,
        Credentials { identity, trust }: Credentials,
    ) -> Result<(Carrier, Port), EndpointError> {
        let security = self.noise(service);
        let seal = move |tcp| Sealed::responder(security, &identity, trust.clone(), os_entropy(), tcp);
        let acceptor = Acceptor::new(listener, config, seal).map_err(refused("a TCP socket"))?;
        let port = acceptor.descriptor().map_err(refused("a descriptor"))?.into();
        Ok((Carrier::TcpAcceptor(Box::new(acceptor)), port))
    }

    fn stack(&self, spec: StackSpec, service: Service) -> Result<Stack, StackError> {
        let spec = match (spec, &self.socket) {
            // Over UDP DCCP's ports say nothing, and stay what they are.
            (StackSpec::Dccp(config), Socket::Raw(local)) => {
                let remote = self.remote.map_or(0, |remote| remote.port());
                StackSpec::Dccp(config.ports(local.port(), remote))
            }
            (spec, _) => spec,
        };
        let protection = self.security.credentials().map(|Credentials { identity, trust }| {
            let known = Protection::new(identity.clone(), trust.clone());
            known.config(self.noise(service)).instance(self.instance())
        });
        let side = if self.remote.is_some() { Side::Opens } else { Side::Waits };
        Stack::new(spec, side, protection, OsRandomness)
    }

    /// The one robot that an operator trusts.
    fn peer(&self) -> Option<taut_transport::identity::Fingerprint> {
        self.remote.and_then(|_| self.security.credentials()?.trust.iter().next())
    }

    fn noise(&self, service: Service) -> SecurityConfig {
        SecurityConfig::new().epoch(self.epoch).give_up(PATIENCE).service(service)
    }

    /// Which of the servers of this identity it is: that at its address, also after a restart.
    fn instance(&self) -> u128 {
        let listens = self.local_addr().ok().filter(|_| self.remote.is_none());
        listens.map_or(0, |address| Origin::new(address, None, 0).address())
    }
}

/// A transport that sessions can have with this security.
fn checked(transport: TransportConfig, security: &Security) -> Result<TransportConfig, EndpointError> {
    if transport.kind().is_always_encrypted() && security.credentials().is_none() {
        return Err(EndpointError::AlwaysEncrypted);
    }
    Ok(match transport {
        // One for all conversations from here: whoever comes again says hello in its first packet.
        TransportConfig::Stack(StackSpec::Quic(config)) => {
            StackSpec::Quic(config.or_resumption(Resumption::new())).into()
        }
        TransportConfig::Stack(StackSpec::Tcp(_) | StackSpec::SpacedTcp { .. } | StackSpec::Mptcp(_)) => {
            return Err(EndpointError::Model(transport.kind()));
        }
        other => other,
    })
}

fn of_bind(address: SocketAddr, error: io::Error) -> EndpointError {
    match error.kind() {
        io::ErrorKind::AddrInUse => EndpointError::InUse(address),
        io::ErrorKind::AddrNotAvailable => EndpointError::NotOurs(address),
        io::ErrorKind::PermissionDenied => EndpointError::NotPermitted(address),
        _ => EndpointError::Refused { what: address.to_string(), error },
    }
}

fn refused(what: &str) -> impl FnOnce(io::Error) -> EndpointError {
    let what = what.to_owned();
    move |error| EndpointError::Refused { what, error }
}
