//! Bulk transfers over the kernel's TCP: zeros, as many as it takes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::libc;
use socket2::{Domain, Protocol, Socket, Type};
use taut_core::{Bytes, Datagram, Deadline, Time, Transmit};

use super::socket::reset_on_close;
use crate::driver::poller::{Interest, Poller, Ready};
use crate::{Alarm, Machine};

/// Sockets of a bulk transfer. Nagle's algorithm, buffers that grow and everything else are as the kernel has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkConfig {
    /// `TCP_CONGESTION` (tcp(7)): `"reno"`, `"cubic"`, `"bbr"`.
    pub congestion: &'static str,
    /// Length of a full IPv4 packet, IP and TCP headers and options included (`TCP_MAXSEG`): 128 to 32 807 B.
    pub segment: Bytes,
    /// Differentiated services code point (RFC 2474), 0 to 63.
    pub dscp: u8,
}

/// One end of a bulk transfer over IPv4: it sends zeros for as long as the kernel takes any, or takes all that comes. As a [`Machine`]
/// it owns its sockets: [`Bulk::descriptor`] is its port. A connection that fails or ends stays so.
#[derive(Debug)]
pub struct Bulk {
    role: Role,
    /// One descriptor for the driver for as long as this lives.
    poller: Poller,
    ready: Vec<Ready>,
    buffer: Box<[u8]>,
    /// What was counted when the connection ended.
    ended: BulkStats,
}

#[derive(Debug)]
enum Role {
    /// Connects to the peer when it is time.
    Begins(Socket, SocketAddr, Time),
    Sends(TcpStream),
    Waits(TcpListener),
    Takes(TcpStream),
    Over,
}

/// What the kernel has counted of one end (`TCP_INFO`): its own packets, also those without data, and what arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkStats {
    /// Packets sent.
    pub packets_sent: u64,
    /// Their bytes, IP and TCP headers included.
    pub bytes_sent: u64,
    /// Packets that arrived.
    pub packets_received: u64,
    /// Their bytes, headers included; of what came twice, one.
    pub bytes_received: u64,
    /// Segments that were sent again.
    pub retransmissions: u64,
}

/// Written or read in one call.
const CHUNK: usize = 65_536;
/// `TCP_NOTSENT_LOWAT`: unsent bytes below which the kernel takes more.
const NOT_SENT: u32 = 131_072;
/// Bytes of an IPv4 and a TCP header.
const HEADERS: u64 = 40;
/// Calls in one turn, before others have theirs.
const CALLS: usize = 16;

impl Bulk {
    /// The end that sends, from `local` to `remote`, from `start` of the driver's clock on. Call it where the socket is to be: in a
    /// namespace.
    ///
    /// # Errors
    /// When the kernel has no such congestion control, or `local` is taken.
    pub fn sender(
        local: SocketAddr,
        remote: SocketAddr,
        start: Time,
        config: &BulkConfig,
    ) -> io::Result<Self> {
        let socket = socket(local, config)?;
        socket.set_tcp_notsent_lowat(NOT_SENT)?;
        Self::new(Role::Begins(socket, remote, start))
    }

    /// The end that takes what one peer sends to `local`. Call it where the socket is to be.
    ///
    /// # Errors
    /// As of [`sender`](Self::sender).
    pub fn receiver(local: SocketAddr, config: &BulkConfig) -> io::Result<Self> {
        let socket = socket(local, config)?;
        socket.listen(1)?;
        Self::new(Role::Waits(socket.into()))
    }

    fn new(role: Role) -> io::Result<Self> {
        let poller = Poller::new()?;
        if let Role::Waits(listener) = &role {
            poller.add(listener.as_fd(), 0, Interest::Readable)?;
        }
        let buffer = vec![0; CHUNK].into();
        Ok(Self { role, poller, ready: Vec::new(), buffer, ended: BulkStats::default() })
    }

    /// What the driver waits for: readable when there is something to do.
    ///
    /// # Errors
    /// When the process may open no more descriptors.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.poller.as_fd().try_clone_to_owned()
    }

    /// What the kernel has counted so far.
    pub fn stats(&self) -> BulkStats {
        match &self.role {
            Role::Sends(stream) | Role::Takes(stream) => stats(stream),
            Role::Begins(..) | Role::Waits(_) | Role::Over => self.ended,
        }
    }

    /// Does the next thing that there is to do; false when there is none for now.
    fn step(&mut self, now: Time) -> io::Result<bool> {
        match &mut self.role {
            Role::Begins(_, _, start) if *start > now => Ok(false),
            Role::Begins(socket, remote, _) => {
                match socket.connect(&(*remote).into()) {
                    Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
                    Ok(()) | Err(_) => {}
                }
                let stream = TcpStream::from(socket.try_clone()?);
                self.poller.add(stream.as_fd(), 0, Interest::ReadableOrWritable)?;
                self.role = Role::Sends(stream);
                Ok(false)
            }
            Role::Sends(stream) => stream.write(&self.buffer).map(|_| true),
            Role::Waits(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                self.poller.add(stream.as_fd(), 0, Interest::Readable)?;
                self.role = Role::Takes(stream);
                Ok(true)
            }
            Role::Takes(stream) => match stream.read(&mut self.buffer)? {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                _ => Ok(true),
            },
            Role::Over => Ok(false),
        }
    }
}

impl Machine for Bulk {
    type Command = ();
    type Event = ();

    fn handle_input(&mut self, _now: Time, _input: Datagram<'_>) {}

    fn handle_timeout(&mut self, now: Time) {
        // Nothing is read from it, but an epoll instance that is not asked stays readable.
        let _ = self.poller.wait(Some(taut_core::Duration::ZERO), &mut self.ready);
        for _ in 0..CALLS {
            match self.step(now) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Not connected yet, or nothing more for now.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) =>
                {
                    return;
                }
                Err(_) => {
                    self.ended = self.stats();
                    self.role = Role::Over;
                    return;
                }
            }
        }
    }

    fn handle_command(&mut self, _now: Time, (): ()) {}

    fn handle_alarm(&mut self, _now: Time, _alarm: Alarm) {}

    fn alarm_voids((): &()) -> bool {
        false
    }

    fn poll_transmit(&mut self, _now: Time, _buffer: &mut Vec<u8>) -> Option<Transmit> {
        None
    }

    fn poll_event(&mut self, _now: Time) -> Option<()> {
        None
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        match &self.role {
            Role::Begins(_, _, start) => Some(Deadline::new(*start, "bulk transfer begins")),
            _ => None,
        }
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        if let Role::Sends(stream) | Role::Takes(stream) = &self.role {
            reset_on_close(stream);
        }
    }
}

fn socket(local: SocketAddr, config: &BulkConfig) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_congestion(config.congestion.as_bytes())?;
    socket.set_tcp_mss((config.segment.get().saturating_sub(HEADERS)) as u32)?;
    socket.set_tos_v4(u32::from(config.dscp & 0x3f) << 2)?;
    socket.bind(&local.into())?;
    Ok(socket)
}

/// `TCP_INFO`, by the places of its numbers in `struct tcp_info` of Linux 4.19 and newer (linux/tcp.h): libc's ends before them.
fn stats(stream: &TcpStream) -> BulkStats {
    let mut info = [0u8; 232];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the call writes at most `length` bytes to `info`, which has as many and lives until it returns. No crate of this
    // workspace wraps it.
    #[allow(unsafe_code)]
    let status = unsafe {
        let to = info.as_mut_ptr().cast();
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut length)
    };
    if status != 0 {
        return BulkStats::default();
    }
    let short = |at: usize| u64::from(u32::from_ne_bytes(std::array::from_fn(|i| info[at + i])));
    let long = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| info[at + i]));
    // Timestamps (RFC 7323) take twelve bytes of every packet.
    let headers = HEADERS + if info[5] & 1 != 0 { 12 } else { 0 };
    let (packets_sent, packets_received) = (short(136), short(140));
    BulkStats {
        packets_sent,
        bytes_sent: long(200) + packets_sent * headers,
        packets_received,
        bytes_received: long(128) + packets_received * headers,
        retransmissions: short(100),
    }
}
