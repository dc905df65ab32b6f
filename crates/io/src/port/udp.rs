//! UDP sockets as the ends of paths.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use quinn_udp::RecvMeta;
use taut_core::{Duration, Ecn, PathHeard, PathId, PathTable, Time, Transmit};

use super::socket::Socket;
use super::{Blocked, FloodNote, PortError, PortStats, ReceiveBuffers, Received};
use crate::{Clock, WallTime};

/// How a [`UdpPort`] uses its sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPortConfig {
    pub(super) dscp: u8,
    pub(super) offload: bool,
    pub(super) kernel_stamps: bool,
    pub(super) paths: usize,
    pub(super) send_buffer: Option<usize>,
    pub(super) receive_buffer: Option<usize>,
    pub(super) busy_poll: Duration,
    waits: bool,
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
            waits: true,
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

    /// When a socket's send buffer is full, the machine waits until it is not. Default on. Off: the datagram is dropped
    /// and counted as a send error, so that an interface that is stuck holds up no other.
    pub fn waits(mut self, on: bool) -> Self {
        self.waits = on;
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
    /// `None`: a place that has none just now.
    sockets: Vec<Option<Socket>>,
    paths: PathTable,
    config: UdpPortConfig,
    /// Of each path datagrams of one size, the last of them possibly shorter, that leave together.
    batches: Vec<Batch>,
    stats: PortStats,
}

#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) transmit: Transmit,
    pub(super) bytes: Vec<u8>,
    /// Length of every datagram but the last.
    pub(super) segment: usize,
    pub(super) datagrams: usize,
    /// The last one is shorter: nothing may follow it.
    closed: bool,
}

/// `UDP_MAX_SEGMENTS` of Linux before 6.8.
const MAX_SEGMENTS: usize = 64;
/// Paths whose datagrams wait for each other at the same time: copies that go over several by turns leave in few calls.
const GATHERED: usize = 8;
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
        let mut port = Self::without_sockets(config);
        port.add_socket(socket)?;
        Ok(port)
    }

    /// A port without a socket: [`UdpPort::add_place`] makes places for those that come and go.
    pub fn without_sockets(config: UdpPortConfig) -> Self {
        Self {
            sockets: Vec::new(),
            paths: PathTable::new(config.paths),
            config,
            batches: Vec::new(),
            stats: PortStats::default(),
        }
    }

    /// A place for a socket that [`Driver::set_socket`](crate::Driver::set_socket) gives and takes, such as that of an
    /// interface that is up or not, and the path from there to `remote`, if that is known. Gives the place's number. The
    /// path's is the same in a port that has nothing but such places.
    ///
    /// # Errors
    /// When there are too many.
    pub fn add_place(&mut self, remote: Option<SocketAddr>) -> Result<usize, PortError> {
        if self.sockets.len() == Self::MAX_SOCKETS {
            return Err(PortError::TooManySockets(Self::MAX_SOCKETS));
        }
        self.sockets.push(None);
        let place = self.sockets.len() - 1;
        if let Some(remote) = remote {
            self.paths.add(place, remote).ok_or(PortError::TooManySockets(place))?;
        }
        Ok(place)
    }

    /// Puts a socket in its place, or takes it away.
    ///
    /// # Errors
    /// When there is no such place, or the socket refuses an option.
    pub(crate) fn set_socket(&mut self, place: usize, socket: Option<UdpSocket>) -> Result<(), PortError> {
        let config = self.config;
        let slot = self.sockets.get_mut(place).ok_or(PortError::NoSuchPlace)?;
        *slot = None;
        *slot = socket.map(|socket| Socket::new(socket, &config)).transpose()?;
        Ok(())
    }

    /// One socket more: another interface, another way to the same peer. Gives its number; the first has 0.
    ///
    /// # Errors
    /// When the socket refuses an option, or there are too many.
    pub fn add_socket(&mut self, socket: UdpSocket) -> Result<usize, PortError> {
        if self.sockets.len() == Self::MAX_SOCKETS {
            return Err(PortError::TooManySockets(Self::MAX_SOCKETS));
        }
        self.sockets.push(Some(Socket::new(socket, &self.config)?));
        Ok(self.sockets.len() - 1)
    }

    /// With a path from the first socket to `remote`; the first such path is [`PathId`] 0. Nothing is sent yet.
    pub fn to(mut self, remote: SocketAddr) -> Self {
        self.add_path(0, remote);
        self
    }

    /// A path from socket number `socket` to `remote`; `None` when the table is full or there is no such socket.
    pub fn add_path(&mut self, socket: usize, remote: SocketAddr) -> Option<PathId> {
        let known = self.sockets.get(socket)?.as_ref()?;
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
            let Some(socket) = socket else { continue };
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
        let socket = self.sockets.get(socket).and_then(Option::as_ref).ok_or(io::ErrorKind::NotFound)?;
        socket.socket.local_addr()
    }

    /// What went through it.
    pub fn stats(&self) -> PortStats {
        self.stats
    }

    pub(crate) fn descriptors(&self) -> Vec<(usize, BorrowedFd<'_>)> {
        let sockets = self.sockets.iter().enumerate();
        sockets.filter_map(|(place, socket)| Some((place, socket.as_ref()?.socket.as_fd()))).collect()
    }

    pub(crate) fn remote(&self, path: PathId) -> Option<SocketAddr> {
        self.paths.remote(path)
    }

    pub(crate) fn receive(
        &mut self,
        index: usize,
        clock: &Clock,
        uses: &dyn Fn(PathId) -> bool,
        buffers: &mut ReceiveBuffers,
    ) {
        let mut leaving = [None; GATHERED];
        for (place, batch) in leaving.iter_mut().zip(&self.batches) {
            *place = (batch.datagrams > 0).then_some(batch.transmit.path);
        }
        let uses = |path| leaving.contains(&Some(path)) || uses(path);
        let Some(Some(socket)) = self.sockets.get(index) else { return };
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
                let (mut first, mut strangers) = (reading.now, 0);
                for (chunk, meta) in metas[..count].iter().enumerate() {
                    let at = match meta.timestamp.filter(|_| stamped) {
                        Some(stamp) => reading.at(WallTime::from_nanos(stamp.as_nanos() as u64)),
                        None => reading.now,
                    };
                    first = first.min(at);
                    let local = meta.dst_ip.filter(|_| wildcard);
                    let heard = self.heard(index, at, meta, local, &uses);
                    let knows = |heard: PathHeard| self.paths.knows(heard.path, &uses);
                    if !heard.is_some_and(knows) {
                        strangers += datagrams(meta).1 as u64;
                    }
                    if let Some(heard) = heard {
                        self.take(at, meta, heard, chunk, buffers);
                    }
                }
                let Some(socket) = &mut self.sockets[index] else { return };
                let waited = !stamped || first < socket.read || count > 1;
                socket.expected = if waited { ReceiveBuffers::COUNT } else { 1 };
                (socket.read, buffers.read) = (reading.now, reading.now);
                socket.guard.heard(strangers);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.stats.receive_errors += 1,
        }
    }

    pub(crate) fn guard(&mut self, now: Time, uses: &dyn Fn(PathId) -> bool) {
        for (index, socket) in self.sockets.iter_mut().enumerate() {
            if let Some(socket) = socket {
                let drops = socket.guard.look(now, &socket.socket, || self.paths.known(index, uses));
                self.stats.flooded += drops.flooded;
                self.stats.buffer_full += drops.full;
            }
        }
    }

    pub(crate) fn poll_flood(&mut self) -> Option<FloodNote> {
        self.sockets.iter_mut().flatten().find_map(|socket| socket.guard.poll_note())
    }

    fn heard(
        &mut self,
        socket: usize,
        at: Time,
        meta: &RecvMeta,
        local: Option<IpAddr>,
        uses: &dyn Fn(PathId) -> bool,
    ) -> Option<PathHeard> {
        let heard = self.paths.heard(at, socket, meta.addr, local, uses);
        match heard {
            Some(heard) => self.stats.paths_reused += u64::from(heard.is_reused),
            None => self.stats.paths_full += datagrams(meta).1 as u64,
        }
        heard
    }

    /// Notes the datagrams in a chunk of the buffers: one, or several of one size that the kernel has put together.
    fn take(
        &mut self,
        at: Time,
        meta: &RecvMeta,
        heard: PathHeard,
        chunk: usize,
        buffers: &mut ReceiveBuffers,
    ) {
        let (stride, datagrams) = datagrams(meta);
        self.stats.datagrams_received += datagrams as u64;
        self.stats.bytes_received += meta.len as u64;
        let (ecn, begin) =
            (Ecn::from_code_point(meta.ecn.map_or(0, |mark| mark as u8)), chunk * ReceiveBuffers::SIZE);
        buffers.datagrams.extend((0..datagrams).map(|index| {
            let (offset, first) = (index * stride, index == 0);
            Received {
                at,
                path: heard.path,
                origin: heard.origin.filter(|_| first),
                is_reused: heard.is_reused && first,
                ecn,
                start: begin + offset,
                len: stride.min(meta.len - offset),
            }
        }));
    }

    pub(crate) fn transmit(&mut self, transmit: Transmit, buffer: &mut Vec<u8>) -> Result<(), Blocked> {
        let at = self.gathers(transmit.path);
        let padded = buffer.len() + transmit.padding as usize;
        let joins = self.batches[at].takes(&transmit, padded, self.config.offload);
        if !joins {
            self.flush_one(at)?;
        }
        // Not before there is room: who finds none tries again with the same buffer.
        buffer.resize(padded, 0);
        if joins {
            self.batches[at].append(buffer);
        } else {
            self.batches[at].begin(transmit, buffer);
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), Blocked> {
        (0..self.batches.len()).try_for_each(|at| self.flush_one(at))
    }

    /// The batch of this path; one that has none yet gets that of another.
    fn gathers(&mut self, path: PathId) -> usize {
        let its = |batch: &Batch| batch.datagrams > 0 && batch.transmit.path == path;
        let free = |batch: &Batch| batch.datagrams == 0;
        let known = self.batches.iter().position(its).or_else(|| self.batches.iter().position(free));
        known.unwrap_or_else(|| {
            if self.batches.len() < GATHERED {
                self.batches.push(Batch::default());
                return self.batches.len() - 1;
            }
            usize::from(path.0) % GATHERED
        })
    }

    fn flush_one(&mut self, at: usize) -> Result<(), Blocked> {
        let batch = &mut self.batches[at];
        if batch.datagrams == 0 {
            return Ok(());
        }
        let path = self.paths.get_mut(batch.transmit.path);
        let to = path.and_then(|path| Some((self.sockets.get_mut(path.socket)?.as_mut()?, path)));
        let Some((socket, path)) = to else {
            self.stats.no_path += batch.datagrams as u64;
            batch.clear();
            return Ok(());
        };
        path.answered = true;
        let sent = socket.send(batch, path.remote, path.local, self.config.dscp);
        match sent {
            Ok(()) => {
                self.stats.datagrams_sent += batch.datagrams as u64;
                self.stats.bytes_sent += batch.bytes.len() as u64;
                self.stats.batches_sent += u64::from(batch.datagrams > 1);
            }
            Err(Errno::EAGAIN | Errno::ENOBUFS) => {
                self.stats.blocked += 1;
                if self.config.waits {
                    return Err(Blocked);
                }
                self.stats.send_errors += batch.datagrams as u64;
            }
            // EIO and EINVAL: the device or the kernel cannot cut it up.
            Err(Errno::EIO | Errno::EINVAL) if batch.datagrams > 1 => {
                self.config.offload = false;
                return self.send_one_by_one(at);
            }
            Err(_) => self.stats.send_errors += batch.datagrams as u64,
        }
        batch.clear();
        Ok(())
    }

    fn send_one_by_one(&mut self, at: usize) -> Result<(), Blocked> {
        let whole = std::mem::take(&mut self.batches[at]);
        for datagram in whole.bytes.chunks(whole.segment) {
            let mut one = datagram.to_vec();
            self.batches[at].begin(whole.transmit, &mut one);
            // It happens once in the life of a port: what the socket cannot take now is lost and counted.
            if self.flush_one(at).is_err() {
                self.stats.send_errors += 1;
                self.batches[at].clear();
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

/// The length of each, and how many there are.
fn datagrams(meta: &RecvMeta) -> (usize, usize) {
    let stride = meta.stride.clamp(1, meta.len.max(1));
    (stride, meta.len.div_ceil(stride).max(1))
}

/// An IPv6 socket knows IPv4 addresses by their mapped form (RFC 4291 section 2.5.5.2).
fn mapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
        SocketAddr::V6(_) => address,
    }
}
