//! UDP sockets as the ends of paths.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg, setsockopt, sockopt};
use quinn_udp::{RecvMeta, UdpSocketState};
use socket2::SockRef;
use taut_core::{Duration, Ecn, PathId, Time, Transmit};

use super::path::PathTable;
use super::{Blocked, PortError, PortStats, ReceiveBuffers, Received};
use crate::{Clock, WallTime};

/// How a [`UdpPort`] uses its sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPortConfig {
    dscp: u8,
    offload: bool,
    kernel_stamps: bool,
    paths: usize,
    send_buffer: Option<usize>,
    receive_buffer: Option<usize>,
    busy_poll: Duration,
}

impl Default for UdpPortConfig {
    fn default() -> Self {
        Self {
            dscp: 0,
            offload: true,
            kernel_stamps: true,
            paths: 16,
            send_buffer: None,
            receive_buffer: None,
            busy_poll: Duration::ZERO,
        }
    }
}

impl UdpPortConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Differentiated services code point of all that is sent (RFC 2474): 0 to 63, of which the low six bits count.
    /// Default 0. 46, expedited forwarding, is what Wi-Fi maps to its voice queue (RFC 8325).
    pub fn dscp(mut self, code_point: u8) -> Self {
        self.dscp = code_point & 0x3f;
        self
    }

    /// Several datagrams of one size to one peer leave in one system call (`UDP_SEGMENT`, udp(7)), and the kernel hands
    /// in several at once (`UDP_GRO`). Default on; where the kernel or the device cannot, they leave one by one. A
    /// single datagram never waits for a second. A socket that is bound to all addresses receives them singly unless
    /// its kernel stamps are off.
    pub fn offload(mut self, on: bool) -> Self {
        self.offload = on;
        self
    }

    /// A machine is told that a datagram arrived when the kernel received it, not when the thread woke up to read it.
    /// Default on. Costs a reading of another clock for every batch, 40 ns. A machine's time still never goes back. Linux
    /// begins to take stamps some milliseconds after the first socket of the system has asked for them; until then the
    /// stamp is of when the datagram was read.
    pub fn kernel_stamps(mut self, on: bool) -> Self {
        self.kernel_stamps = on;
        self
    }

    /// Addresses that are remembered at most; see [`taut_core::PathId`]. Default 16; 1 to 256.
    pub fn paths(mut self, paths: usize) -> Self {
        self.paths = paths;
        self
    }

    /// `SO_SNDBUF` in bytes: what the kernel takes before the machine has to wait. Default: the system's
    /// (`net.core.wmem_default`), and no more than its `wmem_max`.
    pub fn send_buffer(mut self, bytes: usize) -> Self {
        self.send_buffer = Some(bytes);
        self
    }

    /// `SO_RCVBUF` in bytes: what waits in the kernel before it drops. Default: the system's (`net.core.rmem_default`),
    /// and no more than its `rmem_max`. A small datagram occupies about 800 bytes of it.
    pub fn receive_buffer(mut self, bytes: usize) -> Self {
        self.receive_buffer = Some(bytes);
        self
    }

    /// `SO_BUSY_POLL` (socket(7)): the kernel polls the device's queue for so long before it lets the thread sleep.
    /// Default zero, off; 50 µs is usual. Whole microseconds. It costs that much CPU for every wait, and helps with
    /// network cards whose driver supports it, not on loopback, veth or TUN.
    pub fn busy_poll(mut self, duration: Duration) -> Self {
        self.busy_poll = duration;
        self
    }
}

/// The UDP sockets of one machine. A path is a socket and a peer's address; an address not seen before becomes a new
/// path.
///
/// The bytes that the driver sends are what the machine made, and the [padding](Transmit::padding) that it asked for.
/// ECN (RFC 3168) is set and read; paths' MTU is respected (`IP_PMTUDISC_PROBE`): what is longer is not fragmented but
/// counted as a send error.
#[derive(Debug)]
pub struct UdpPort {
    sockets: Vec<Socket>,
    paths: PathTable,
    config: UdpPortConfig,
    /// Datagrams of one size for one path, the last of them possibly shorter, that leave together.
    batch: Batch,
    stats: PortStats,
}

#[derive(Debug)]
struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    /// It is connected to the peer of its only path, so that the kernel looks up no route.
    connected: bool,
    /// Bound to all addresses: the answer must come from the one that was asked.
    wildcard: bool,
    ipv4: bool,
    /// What `IP_TOS` or `IPV6_TCLASS` is set to.
    class: u8,
    /// How many buffers the kernel is offered at once: one while datagrams come one by one, because it would look for a
    /// second one in vain.
    expected: usize,
    /// When datagrams were read last: what had arrived by then and is read now says that they do not come one by one.
    read: Time,
}

#[derive(Debug, Default)]
struct Batch {
    transmit: Transmit,
    bytes: Vec<u8>,
    /// Length of every datagram but the last.
    segment: usize,
    datagrams: usize,
    /// The last one is shorter: nothing may follow it.
    closed: bool,
}

/// `UDP_MAX_SEGMENTS` of Linux before 6.8.
const MAX_SEGMENTS: usize = 64;
/// What fits into one IP packet before it is cut up.
const MAX_BATCH: usize = 65_000;

impl UdpPort {
    /// More are not needed for as many paths as there are.
    const MAX_SOCKETS: usize = 256;

    /// A port with one socket, which a peer may send to. Use [`UdpPort::to`] for the side that begins.
    ///
    /// # Errors
    /// When the socket refuses an option.
    pub fn new(socket: UdpSocket, config: UdpPortConfig) -> Result<Self, PortError> {
        let mut port = Self {
            sockets: Vec::new(),
            paths: PathTable::new(config.paths),
            config,
            batch: Batch::default(),
            stats: PortStats::default(),
        };
        port.add_socket(socket)?;
        Ok(port)
    }

    /// One socket more: another interface, another way to the same peer. Gives its number; the first has 0.
    ///
    /// # Errors
    /// When the socket refuses an option, or there are too many.
    pub fn add_socket(&mut self, socket: UdpSocket) -> Result<usize, PortError> {
        if self.sockets.len() == Self::MAX_SOCKETS {
            return Err(PortError::TooManySockets(Self::MAX_SOCKETS));
        }
        self.sockets.push(Socket::new(socket, &self.config)?);
        Ok(self.sockets.len() - 1)
    }

    /// With a path from the first socket to `remote`; the first such path is [`PathId`] 0. Nothing is sent yet.
    pub fn to(mut self, remote: SocketAddr) -> Self {
        self.add_path(0, remote);
        self
    }

    /// A path from socket number `socket` to `remote`; `None` when the table is full or there is no such socket.
    pub fn add_path(&mut self, socket: usize, remote: SocketAddr) -> Option<PathId> {
        let known = self.sockets.get(socket)?;
        let remote = if known.ipv4 { remote } else { mapped(remote) };
        self.paths.add(socket, remote)
    }

    /// Connects every socket that has exactly one path to that path's peer. The kernel then looks up the route once
    /// instead of for every datagram, and hands in nothing from other addresses: not for a port whose peers move.
    ///
    /// # Errors
    /// When the system knows no route.
    pub fn connected(mut self) -> Result<Self, PortError> {
        for (index, socket) in self.sockets.iter_mut().enumerate() {
            if let Some(remote) = self.paths.only_remote_of(index) {
                socket.socket.connect(remote).map_err(PortError::refused("connecting the socket"))?;
                socket.connected = true;
            }
        }
        Ok(self)
    }

    /// The address of socket number `socket`.
    ///
    /// # Errors
    /// When there is no such socket.
    pub fn local_addr(&self, socket: usize) -> io::Result<SocketAddr> {
        self.sockets.get(socket).ok_or(io::ErrorKind::NotFound)?.socket.local_addr()
    }

    /// What went through it.
    pub fn stats(&self) -> PortStats {
        self.stats
    }

    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.sockets.iter().map(|socket| socket.socket.as_fd()).collect()
    }

    pub(crate) fn receive(&mut self, index: usize, clock: &Clock, buffers: &mut ReceiveBuffers) {
        let Some(socket) = self.sockets.get(index) else { return };
        let wildcard = socket.wildcard;
        let mut metas = [RecvMeta::default(); ReceiveBuffers::COUNT];
        self.stats.receive_calls += 1;
        let expected = socket.expected;
        let received = {
            let mut chunks = buffers.bytes.chunks_exact_mut(ReceiveBuffers::SIZE);
            let mut slices: [IoSliceMut<'_>; ReceiveBuffers::COUNT] =
                std::array::from_fn(|_| IoSliceMut::new(chunks.next().expect("as many chunks as slices")));
            socket.state.recv((&socket.socket).into(), &mut slices[..expected], &mut metas)
        };
        match received {
            Ok(count) => {
                let (reading, stamped) = (clock.read(), self.config.kernel_stamps);
                let mut first = reading.now;
                for (chunk, meta) in metas[..count].iter().enumerate() {
                    let at = match meta.timestamp.filter(|_| stamped) {
                        Some(stamp) => reading.at(WallTime::from_nanos(stamp.as_nanos() as u64)),
                        None => reading.now,
                    };
                    first = first.min(at);
                    self.take(index, at, meta, meta.dst_ip.filter(|_| wildcard), chunk, buffers);
                }
                let socket = &mut self.sockets[index];
                let waited = !stamped || first < socket.read || count > 1;
                socket.expected = if waited { ReceiveBuffers::COUNT } else { 1 };
                (socket.read, buffers.read) = (reading.now, reading.now);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.stats.receive_errors += 1,
        }
    }

    /// Notes the datagrams in a chunk of the buffers: one, or several of one size that the kernel has put together.
    fn take(
        &mut self,
        socket: usize,
        at: Time,
        meta: &RecvMeta,
        local: Option<IpAddr>,
        chunk: usize,
        buffers: &mut ReceiveBuffers,
    ) {
        let stride = meta.stride.clamp(1, meta.len.max(1));
        let datagrams = meta.len.div_ceil(stride).max(1);
        let Some(path) = self.paths.heard(at, socket, meta.addr, local) else {
            self.stats.paths_full += datagrams as u64;
            return;
        };
        self.stats.datagrams_received += datagrams as u64;
        self.stats.bytes_received += meta.len as u64;
        let (ecn, begin) =
            (Ecn::from_code_point(meta.ecn.map_or(0, |mark| mark as u8)), chunk * ReceiveBuffers::SIZE);
        buffers.datagrams.extend((0..datagrams).map(|index| {
            let offset = index * stride;
            Received { at, path, ecn, start: begin + offset, len: stride.min(meta.len - offset) }
        }));
    }

    pub(crate) fn transmit(&mut self, transmit: Transmit, buffer: &mut Vec<u8>) -> Result<(), Blocked> {
        buffer.resize(buffer.len() + transmit.padding as usize, 0);
        if self.batch.takes(&transmit, buffer.len(), self.config.offload) {
            self.batch.append(buffer);
            return Ok(());
        }
        let flushed = self.flush();
        if flushed.is_ok() {
            self.batch.begin(transmit, buffer);
        }
        flushed
    }

    pub(crate) fn flush(&mut self) -> Result<(), Blocked> {
        if self.batch.datagrams == 0 {
            return Ok(());
        }
        let sent = match self.paths.get_mut(self.batch.transmit.path) {
            None => {
                self.stats.no_path += self.batch.datagrams as u64;
                self.batch.clear();
                return Ok(());
            }
            Some(path) => {
                path.chosen = true;
                self.sockets[path.socket].send(&self.batch, path.remote, path.local, self.config.dscp)
            }
        };
        match sent {
            Ok(()) => {
                self.stats.datagrams_sent += self.batch.datagrams as u64;
                self.stats.bytes_sent += self.batch.bytes.len() as u64;
                self.stats.batches_sent += u64::from(self.batch.datagrams > 1);
            }
            Err(Errno::EAGAIN | Errno::ENOBUFS) => {
                self.stats.blocked += 1;
                return Err(Blocked);
            }
            // EIO and EINVAL: the device or the kernel cannot cut it up.
            Err(Errno::EIO | Errno::EINVAL) if self.batch.datagrams > 1 => {
                self.config.offload = false;
                return self.send_one_by_one();
            }
            Err(_) => self.stats.send_errors += self.batch.datagrams as u64,
        }
        self.batch.clear();
        Ok(())
    }

    fn send_one_by_one(&mut self) -> Result<(), Blocked> {
        let whole = std::mem::take(&mut self.batch);
        for datagram in whole.bytes.chunks(whole.segment) {
            let mut one = datagram.to_vec();
            self.batch.begin(whole.transmit, &mut one);
            // It happens once in the life of a port: what the socket cannot take now is lost and counted.
            if self.flush().is_err() {
                self.stats.send_errors += 1;
                self.batch.clear();
            }
        }
        Ok(())
    }
}

impl Batch {
    /// May a datagram of `len` bytes leave together with those that wait?
    fn takes(&self, transmit: &Transmit, len: usize, offload: bool) -> bool {
        offload
            && self.datagrams > 0
            && self.datagrams < MAX_SEGMENTS
            && !self.closed
            && (1..=self.segment).contains(&len)
            && self.bytes.len() + len <= MAX_BATCH
            && (self.transmit.path, self.transmit.ecn) == (transmit.path, transmit.ecn)
    }

    fn append(&mut self, buffer: &mut Vec<u8>) {
        self.closed = buffer.len() < self.segment;
        self.bytes.append(buffer);
        self.datagrams += 1;
    }

    /// The first datagram is not copied.
    fn begin(&mut self, transmit: Transmit, buffer: &mut Vec<u8>) {
        std::mem::swap(&mut self.bytes, buffer);
        buffer.clear();
        (self.transmit, self.segment, self.datagrams, self.closed) = (transmit, self.bytes.len(), 1, false);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.datagrams = 0;
    }
}

impl Socket {
    fn new(socket: UdpSocket, config: &UdpPortConfig) -> Result<Self, PortError> {
        let local = socket.local_addr().map_err(PortError::refused("the socket's address"))?;
        let state =
            UdpSocketState::new((&socket).into()).map_err(PortError::refused("setting up the socket"))?;
        let reference = SockRef::from(&socket);
        if let Some(bytes) = config.send_buffer {
            reference.set_send_buffer_size(bytes).map_err(PortError::refused("SO_SNDBUF"))?;
        }
        if let Some(bytes) = config.receive_buffer {
            reference.set_recv_buffer_size(bytes).map_err(PortError::refused("SO_RCVBUF"))?;
        }
        if !config.busy_poll.is_zero() {
            let micros = u32::try_from(config.busy_poll.as_nanos() / 1_000).unwrap_or(u32::MAX);
            reference
                .set_busy_poll(micros)
                .map_err(PortError::refused("SO_BUSY_POLL (needs CAP_NET_ADMIN)"))?;
        }
        let wildcard = local.ip().is_unspecified();
        ask_only_for(&socket, local.is_ipv4(), wildcard, config)
            .map_err(|error| PortError::Refused { what: "setting up the socket", error: error.into() })?;
        Ok(Self {
            socket,
            state,
            connected: false,
            wildcard,
            ipv4: local.is_ipv4(),
            class: 0,
            expected: 1,
            read: Time::ZERO,
        })
    }

    fn send(
        &mut self,
        batch: &Batch,
        remote: SocketAddr,
        local: Option<IpAddr>,
        dscp: u8,
    ) -> Result<(), Errno> {
        self.set_class(dscp << 2 | batch.transmit.ecn.code_point())?;
        let sent = match (batch.datagrams, local) {
            (1, None) if self.connected => self.socket.send(&batch.bytes),
            (1, None) => self.socket.send_to(&batch.bytes, remote),
            _ => return self.send_message(batch, remote, local),
        };
        sent.map(drop).map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
    }

    /// With the source address or the segments' length told to the kernel.
    fn send_message(&self, batch: &Batch, remote: SocketAddr, local: Option<IpAddr>) -> Result<(), Errno> {
        let segment = batch.segment as u16;
        let (source_v4, source_v6);
        let mut control = Vec::with_capacity(2);
        match local {
            Some(IpAddr::V4(ip)) => {
                source_v4 = info_v4(ip);
                control.push(ControlMessage::Ipv4PacketInfo(&source_v4));
            }
            Some(IpAddr::V6(ip)) => {
                source_v6 = info_v6(ip);
                control.push(ControlMessage::Ipv6PacketInfo(&source_v6));
            }
            None => {}
        }
        if batch.datagrams > 1 {
            control.push(ControlMessage::UdpGsoSegments(&segment));
        }
        let remote = (!self.connected).then(|| SockaddrStorage::from(remote));
        let bytes = [IoSlice::new(&batch.bytes)];
        sendmsg(self.socket.as_raw_fd(), &bytes, &control, MsgFlags::empty(), remote.as_ref()).map(drop)
    }

    /// DSCP and ECN are one byte. A conversation hardly ever changes it, so that this is hardly ever a system call.
    fn set_class(&mut self, class: u8) -> Result<(), Errno> {
        if self.class != class {
            let reference = SockRef::from(&self.socket);
            let v6 = if self.ipv4 { Ok(()) } else { reference.set_tclass_v6(u32::from(class)) };
            // A socket for both versions needs both; one for IPv6 only refuses the other.
            let v4 = reference.set_tos_v4(u32::from(class));
            let set = if self.ipv4 { v4 } else { v6 };
            set.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EINVAL)))?;
            self.class = class;
        }
        Ok(())
    }
}

/// Turns off what `UdpSocketState` has turned on and this socket does not need. That saves time, and it must be: the
/// control buffer of quinn-udp 0.6 (96 bytes) does not hold all of stamp, address, segment length and ECN, and the kernel
/// leaves out the last.
fn ask_only_for(socket: &UdpSocket, ipv4: bool, wildcard: bool, config: &UdpPortConfig) -> Result<(), Errno> {
    if !wildcard && ipv4 {
        setsockopt(socket, sockopt::Ipv4PacketInfo, &false)?;
    } else if !wildcard {
        setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &false)?;
    }
    if !config.kernel_stamps {
        setsockopt(socket, sockopt::ReceiveTimestampns, &false)?;
    }
    if !config.offload || (wildcard && config.kernel_stamps) {
        setsockopt(socket, sockopt::UdpGroSegment, &false)?;
    }
    Ok(())
}

fn info_v4(ip: Ipv4Addr) -> libc::in_pktinfo {
    let none = libc::in_addr { s_addr: 0 };
    libc::in_pktinfo {
        ipi_ifindex: 0,
        ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) },
        ipi_addr: none,
    }
}

fn info_v6(ip: Ipv6Addr) -> libc::in6_pktinfo {
    libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: ip.octets() }, ipi6_ifindex: 0 }
}

/// An IPv6 socket knows IPv4 addresses by their mapped form (RFC 4291 section 2.5.5.2).
fn mapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
        SocketAddr::V6(_) => address,
    }
}
