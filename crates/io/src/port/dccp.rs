//! A raw socket for DCCP (RFC 4340), IP protocol 33.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use taut_core::{Ecn, PathHeard, PathId, PathTable, Transmit};
use taut_wire::dccp::{Addresses, PROTOCOL, fill_checksum, verify_checksum};

use super::{Blocked, PortError, PortStats, ReceiveBuffers, Received};
use crate::Clock;

/// DCCP packets in IP packets of their own, instead of in UDP datagrams (RFC 6773). For networks without NAT.
///
/// A path's address is the peer's IP address with its DCCP port. The port fills in the checksum of what is sent, which
/// covers the IP addresses (RFC 4340 section 9.1), and drops what arrives with a wrong one. Packets for other port
/// numbers, which every raw socket sees, are left alone and counted as [`PortStats::not_ours`].
///
/// ECN is set both ways and read over IPv4; the kernel does not show a raw IPv6 socket the traffic class.
#[derive(Debug)]
pub struct DccpPort {
    /// A raw socket: the standard library's type does all that is needed here.
    socket: UdpSocket,
    local: SocketAddr,
    paths: PathTable,
    /// What the kernel could not take yet.
    waiting: Option<(Transmit, Vec<u8>)>,
    class: u8,
    dscp: u8,
    stats: PortStats,
}

/// Bytes of a DCCP header with short sequence numbers (RFC 4340 section 5.1).
const SHORTEST: usize = 12;

impl DccpPort {
    /// A port at `local`: an address of this host, not the unspecified one, and a DCCP port number. `paths` addresses
    /// are remembered at most, 1 to 256.
    ///
    /// # Errors
    /// [`PortError::NotPermitted`] without `CAP_NET_RAW`; when the address is not this host's.
    pub fn new(local: SocketAddr, paths: usize) -> Result<Self, PortError> {
        if local.ip().is_unspecified() {
            let error =
                io::Error::new(io::ErrorKind::InvalidInput, "the checksum covers the address: name one");
            return Err(PortError::Refused { what: "a raw socket for DCCP", error });
        }
        let protocol = Protocol::from(i32::from(PROTOCOL));
        let socket =
            Socket::new(Domain::for_address(local), Type::RAW, Some(protocol)).map_err(
                |error| match error.kind() {
                    io::ErrorKind::PermissionDenied => PortError::NotPermitted,
                    _ => PortError::Refused { what: "a raw socket for DCCP", error },
                },
            )?;
        socket.bind(&SocketAddr::new(local.ip(), 0).into()).map_err(PortError::refused("binding it"))?;
        socket.set_nonblocking(true).map_err(PortError::refused("not blocking"))?;
        Ok(Self {
            socket: UdpSocket::from(OwnedFd::from(socket)),
            local,
            paths: PathTable::new(paths),
            waiting: None,
            class: 0,
            dscp: 0,
            stats: PortStats::default(),
        })
    }

    /// With a path to the peer at `remote`, an address with its DCCP port; the first has [`PathId`] 0.
    pub fn to(mut self, remote: SocketAddr) -> Self {
        self.add_path(remote);
        self
    }

    /// A path to `remote`; `None` when the table is full.
    pub fn add_path(&mut self, remote: SocketAddr) -> Option<PathId> {
        self.paths.add(0, remote)
    }

    /// Differentiated services code point of all that is sent (RFC 2474), 0 to 63. Default 0.
    pub fn dscp(mut self, code_point: u8) -> Self {
        self.dscp = code_point & 0x3f;
        self
    }

    /// What went through it.
    pub fn stats(&self) -> PortStats {
        self.stats
    }

    pub(crate) fn remote(&self, path: PathId) -> Option<SocketAddr> {
        self.paths.remote(path)
    }

    pub(crate) fn receive(
        &mut self,
        clock: &Clock,
        uses: &dyn Fn(PathId) -> bool,
        buffers: &mut ReceiveBuffers,
    ) {
        let leaving = self.waiting.as_ref().map(|(transmit, _)| transmit.path);
        let uses = |path| leaving == Some(path) || uses(path);
        for chunk in 0..ReceiveBuffers::COUNT {
            let begin = chunk * ReceiveBuffers::SIZE;
            let buffer = &mut buffers.bytes[begin..begin + ReceiveBuffers::SIZE];
            self.stats.receive_calls += 1;
            let (len, from) = match self.socket.recv_from(buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.stats.receive_errors += 1;
                    continue;
                }
            };
            if let Some((offset, ecn, heard)) = self.accept(clock, &buffer[..len], from.ip(), &uses) {
                self.stats.datagrams_received += 1;
                self.stats.bytes_received += (len - offset) as u64;
                let (at, start, len) = (clock.now(), begin + offset, len - offset);
                buffers.read = at;
                let PathHeard { path, origin, is_reused } = heard;
                buffers.datagrams.push(Received { at, path, origin, is_reused, ecn, start, len });
            }
        }
    }

    /// Where the DCCP header begins, how the packet was marked, and its path; `None` when it is not for us.
    fn accept(
        &mut self,
        clock: &Clock,
        bytes: &[u8],
        from: IpAddr,
        uses: &dyn Fn(PathId) -> bool,
    ) -> Option<(usize, Ecn, PathHeard)> {
        // A raw IPv4 socket is given the IP header, an IPv6 one is not (raw(7), ipv6(7)).
        let (offset, ecn) = match self.local {
            SocketAddr::V4(_) => {
                (usize::from(*bytes.first()? & 0x0f) * 4, Ecn::from_code_point(*bytes.get(1)?))
            }
            SocketAddr::V6(_) => (0, Ecn::NotCapable),
        };
        let packet = bytes.get(offset..)?;
        let ours = packet.len() >= SHORTEST
            && packet[2..4] == self.local.port().to_be_bytes()
            && addresses(from, self.local.ip()).is_some_and(|pair| verify_checksum(pair, packet, 0));
        if !ours {
            self.stats.not_ours += 1;
            return None;
        }
        let remote = SocketAddr::new(from, u16::from_be_bytes([packet[0], packet[1]]));
        let heard = self.paths.heard(clock.now(), 0, remote, None, uses);
        self.stats.paths_full += u64::from(heard.is_none());
        self.stats.paths_reused += u64::from(heard.is_some_and(|heard| heard.is_reused));
        Some((offset, ecn, heard?))
    }

    pub(crate) fn transmit(&mut self, transmit: Transmit, buffer: &mut Vec<u8>) -> Result<(), Blocked> {
        self.flush()?;
        buffer.resize(buffer.len() + transmit.padding as usize, 0);
        self.waiting = Some((transmit, std::mem::take(buffer)));
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), Blocked> {
        let Some((transmit, mut packet)) = self.waiting.take() else { return Ok(()) };
        let Some(path) = self.paths.get_mut(transmit.path) else {
            self.stats.no_path += 1;
            return Ok(());
        };
        path.answered = true;
        let remote = path.remote;
        let filled =
            addresses(self.local.ip(), remote.ip()).is_some_and(|pair| fill_checksum(pair, &mut packet, 0));
        let class = self.dscp << 2 | transmit.ecn.code_point();
        let sent = match self.set_class(class) {
            // Raw sockets have no ports: the kernel wants none.
            Ok(()) if filled => self.socket.send_to(&packet, SocketAddr::new(remote.ip(), 0)),
            Ok(()) => Err(io::ErrorKind::InvalidData.into()),
            Err(error) => Err(error),
        };
        match sent {
            Ok(len) => {
                self.stats.datagrams_sent += 1;
                self.stats.bytes_sent += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.stats.blocked += 1;
                self.waiting = Some((transmit, packet));
                return Err(Blocked);
            }
            Err(_) => self.stats.send_errors += 1,
        }
        Ok(())
    }

    fn set_class(&mut self, class: u8) -> io::Result<()> {
        if self.class != class {
            let socket = SockRef::from(&self.socket);
            match self.local {
                SocketAddr::V4(_) => socket.set_tos_v4(u32::from(class))?,
                SocketAddr::V6(_) => socket.set_tclass_v6(u32::from(class))?,
            }
            self.class = class;
        }
        Ok(())
    }
}

impl AsFd for DccpPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// `None` when they are of different versions of IP.
fn addresses(source: IpAddr, destination: IpAddr) -> Option<Addresses> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Some(Addresses::V4 { source, destination }),
        (IpAddr::V6(source), IpAddr::V6(destination)) => Some(Addresses::V6 { source, destination }),
        _ => None,
    }
}
