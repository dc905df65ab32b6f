//! The interfaces and addresses that a session's paths begin at, while they come and go.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::str::FromStr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, SockaddrLike, bind, recv,
    setsockopt, socket, sockopt,
};
use socket2::{Domain, Protocol, Socket, Type};
use taut_core::{Duration, PathId, Time};

use crate::{Driver, Machine, MachineId};

/// Where a path begins at this end: at a network interface, or at an address of this host.
///
/// ```
/// use taut_io::session::PathSpec;
/// assert_eq!("wwan0".parse(), Ok(PathSpec::Interface("wwan0".to_owned())));
/// assert_eq!("10.0.0.2".parse(), Ok(PathSpec::Address([10, 0, 0, 2].into())));
/// assert!("a/b".parse::<PathSpec>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSpec {
    /// Everything leaves through this interface (`SO_BINDTODEVICE`, socket(7)), whatever the routes of others say.
    Interface(String),
    /// Everything is sent from this address; routes say through which interface.
    Address(IpAddr),
}

impl fmt::Display for PathSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl FromStr for PathSpec {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return if address.is_unspecified() {
                Err(format!(
                    "`{text}` stands for every address: name an interface or an address of this host"
                ))
            } else {
                Ok(Self::Address(address))
            };
        }
        // dev_valid_name of the kernel: 15 bytes at most, no slash, no colon, no space.
        let valid = !matches!(text, "" | "." | "..")
            && text.len() <= 15
            && !text.contains(|c: char| c == '/' || c == ':' || c.is_whitespace());
        let wrong = || format!("`{text}` is neither the name of an interface, such as wwan0, nor an address");
        valid.then(|| Self::Interface(text.to_owned())).ok_or_else(wrong)
    }
}

/// What became of a path's beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathNote {
    /// The path.
    pub path: PathId,
    /// Where it begins.
    pub spec: PathSpec,
    /// `None`: it is there, and linked as soon as the peer answers. Otherwise why it is not; it is tried again.
    pub missing: Option<PathMissing>,
}

/// Why there is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathMissing {
    /// There is no such interface.
    #[error("there is no such interface; `ip link` lists them")]
    NoInterface,
    /// It is there, and not up: no carrier, or `ip link set down`.
    #[error("the interface is down")]
    Down,
    /// It has no address of the family of the peer's.
    #[error("the interface has no address to send from")]
    NoAddress,
    /// Not an address of this host.
    #[error("it is no address of this host; `ip address` lists them")]
    NotOurs,
    /// The address is of another family than the peer's.
    #[error("one is an IPv4 address, the other one an IPv6 address")]
    OtherFamily,
    /// The system refused a socket.
    #[error("{0}")]
    Refused(String),
}

impl fmt::Display for PathNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, spec) = (self.path.0, &self.spec);
        match &self.missing {
            None => write!(f, "path {path}, {spec}, is up"),
            Some(why) => write!(f, "path {path}, {spec}, is not there: {why}; waiting for it"),
        }
    }
}

/// Gives sockets to the places of a machine's port and takes them away, as interfaces come and go.
#[derive(Debug)]
pub(crate) struct PathWatch {
    wanted: Vec<Wanted>,
    /// What sockets are bound to: an address that stands for all, of the right family, and a port.
    local: SocketAddr,
    /// Tells that something changed (rtnetlink(7)); `None` where there is no such socket.
    changes: Option<OwnedFd>,
    next: Time,
}

#[derive(Debug)]
struct Wanted {
    spec: PathSpec,
    /// The interface that its socket was made for, by index: one of the same name may be another one.
    state: Option<Result<u32, PathMissing>>,
}

/// Without news it is looked so often all the same.
const LOOK: Duration = Duration::from_secs(1);
/// The groups of rtnetlink(7): links, addresses of IPv4 and IPv6.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;

impl PathWatch {
    pub(crate) fn new(specs: &[PathSpec], local: SocketAddr) -> Self {
        let wanted = specs.iter().map(|spec| Wanted { spec: spec.clone(), state: None }).collect();
        Self { wanted, local, changes: subscribe().ok(), next: Time::ZERO }
    }

    /// What wakes a driver when there is news.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.changes.as_ref().map(AsFd::as_fd)
    }

    /// The port is a new one: no place has a socket.
    pub(crate) fn forget(&mut self) {
        self.wanted.iter_mut().for_each(|wanted| wanted.state = None);
        self.next = Time::ZERO;
    }

    /// When it looks next.
    pub(crate) const fn due(&self) -> Time {
        self.next
    }

    /// Looks when it is time or there is news. `tell` is told what changed, after the socket is in its place or before
    /// it is taken away: then the machine is to give the path up first.
    pub(crate) fn look<M: Machine>(
        &mut self,
        now: Time,
        driver: &mut Driver<M>,
        id: MachineId,
        tell: &mut dyn FnMut(&mut M, PathNote),
    ) {
        if !driver.take_watched_ready() && now < self.next {
            return;
        }
        self.read_changes();
        self.next = now + LOOK;
        let interfaces = Interfaces::read();
        for place in 0..self.wanted.len() {
            let wanted = &mut self.wanted[place];
            let found = interfaces.find(&wanted.spec, self.local.is_ipv4());
            if wanted.state.as_ref() == Some(&found) {
                continue;
            }
            let path = PathId(u8::try_from(place).expect("an endpoint has few paths"));
            let note = |missing| PathNote { path, spec: wanted.spec.clone(), missing };
            let was_there = matches!(wanted.state, Some(Ok(_)));
            if let (true, Some(machine)) = (was_there, driver.machine_mut(id)) {
                let why = found.as_ref().err().cloned().unwrap_or(PathMissing::NoInterface);
                tell(machine, note(Some(why)));
            }
            let made = found.clone().and_then(|index| {
                let socket = open(&wanted.spec, self.local);
                let set = socket
                    .and_then(|socket| driver.set_socket(id, place, Some(socket)).map_err(io::Error::other));
                set.map(|()| index).map_err(|error| PathMissing::Refused(error.to_string()))
            });
            if made.is_err() && was_there {
                // It fails where there is no such place only.
                let _ = driver.set_socket(id, place, None);
            }
            match &made {
                Ok(index) => tracing::info!(path = place, spec = %wanted.spec, index, "interface is there"),
                Err(missing) => {
                    tracing::info!(path = place, spec = %wanted.spec, ?missing, "interface is not there")
                }
            }
            let changed = made.is_ok() || !was_there && wanted.state.as_ref() != Some(&made);
            if let (true, Some(machine)) = (changed, driver.machine_mut(id)) {
                tell(machine, note(made.as_ref().err().cloned()));
            }
            // A socket that was refused is tried again, also when nothing else changes.
            wanted.state = Some(made);
        }
    }

    /// What it says does not matter: everything is looked at.
    fn read_changes(&self) {
        let Some(changes) = &self.changes else { return };
        let mut buffer = [0; 8_192];
        loop {
            match recv(changes.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(1..) | Err(nix::errno::Errno::ENOBUFS | nix::errno::Errno::EINTR) => {}
                _ => return,
            }
        }
    }
}

fn subscribe() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let netlink = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
    bind(netlink.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
    Ok(netlink)
}

/// A socket that sends from there and nowhere else.
fn open(spec: &PathSpec, local: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    let address = match spec {
        PathSpec::Interface(name) => {
            setsockopt(&socket, sockopt::BindToDevice, &OsString::from(name))?;
            local
        }
        PathSpec::Address(address) => SocketAddr::new(*address, local.port()),
    };
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// The interfaces of this host that can carry something, and their addresses.
#[derive(Debug, Default)]
struct Interfaces {
    up: BTreeSet<String>,
    all: BTreeSet<String>,
    addresses: Vec<(String, IpAddr)>,
}

impl Interfaces {
    fn read() -> Self {
        let mut interfaces = Self::default();
        for interface in getifaddrs().into_iter().flatten() {
            interfaces.all.insert(interface.interface_name.clone());
            if !interface.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING) {
                continue;
            }
            interfaces.up.insert(interface.interface_name.clone());
            let address = interface.address.and_then(|address| match address.family()? {
                AddressFamily::Inet => Some(IpAddr::from(address.as_sockaddr_in()?.ip())),
                AddressFamily::Inet6 => Some(IpAddr::from(address.as_sockaddr_in6()?.ip())),
                _ => None,
            });
            interfaces.addresses.extend(address.map(|address| (interface.interface_name, address)));
        }
        interfaces
    }

    /// The index of the interface where such a path begins.
    fn find(&self, spec: &PathSpec, ipv4: bool) -> Result<u32, PathMissing> {
        let name = match spec {
            PathSpec::Interface(name) if !self.all.contains(name) => return Err(PathMissing::NoInterface),
            PathSpec::Interface(name) if !self.up.contains(name) => return Err(PathMissing::Down),
            PathSpec::Interface(name) => {
                let mut own = self.addresses.iter().filter(|(interface, _)| interface == name);
                own.find(|(_, address)| address.is_ipv4() == ipv4).ok_or(PathMissing::NoAddress)?;
                name
            }
            PathSpec::Address(address) if address.is_ipv4() != ipv4 => return Err(PathMissing::OtherFamily),
            PathSpec::Address(address) => {
                let own = self.addresses.iter().find(|(_, known)| known == address);
                &own.ok_or(PathMissing::NotOurs)?.0
            }
        };
        if_nametoindex(name.as_str()).map_err(|_| PathMissing::NoInterface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_no_path_is_said() {
        for text in ["", "a b", "wwan0:1", "an-interface-name-too-long", "0.0.0.0", "::", "x/y"] {
            let error = text.parse::<PathSpec>().unwrap_err();
            assert!(error.starts_with(&format!("`{text}`")), "{error}");
        }
        assert_eq!("fe80::1".parse(), Ok(PathSpec::Address("fe80::1".parse().expect("an address"))));
    }

    #[test]
    fn loopback_is_there_and_nothing_that_has_no_name() {
        let interfaces = Interfaces::read();
        let find = |text: &str, ipv4| interfaces.find(&text.parse().expect("a path"), ipv4);
        assert!(find("lo", true).is_ok() && find("127.0.0.1", true).is_ok());
        assert_eq!(find("no-such-thing", true), Err(PathMissing::NoInterface));
        assert_eq!(find("198.51.100.7", true), Err(PathMissing::NotOurs));
        assert_eq!(find("127.0.0.1", false), Err(PathMissing::OtherFamily));
    }
}
