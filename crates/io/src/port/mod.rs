//! What a machine's datagrams leave and arrive through.

mod dccp;
mod guard;
mod socket;
mod udp;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use taut_core::{Datagram, Ecn, Origin, PathId, Time, Transmit};

use crate::Clock;

pub use self::dccp::DccpPort;
pub use self::guard::{FloodChange, FloodNote, kernel_drops};
pub use self::udp::{UdpPort, UdpPortConfig};

/// What a machine's datagrams leave and arrive through.
#[derive(Debug)]
pub enum Port {
    /// UDP sockets.
    Udp(UdpPort),
    /// A raw socket for DCCP.
    Dccp(DccpPort),
    /// The machine owns its socket and does its own input and output, as [`tcp::KernelTcp`](crate::tcp::KernelTcp)
    /// does. When this descriptor is readable, the machine's `handle_timeout` is called.
    Descriptor(OwnedFd),
}

/// What went through a port. Everything that was dropped here is in one of the counters below `datagrams_sent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Datagrams given to the machine.
    pub datagrams_received: u64,
    /// Their payload.
    pub bytes_received: u64,
    /// Datagrams that the kernel took.
    pub datagrams_sent: u64,
    /// Their payload.
    pub bytes_sent: u64,
    /// System calls that sent several datagrams at once (GSO).
    pub batches_sent: u64,
    /// System calls that received.
    pub receive_calls: u64,
    /// How often the socket's send buffer was full. The datagram waits, and so does the machine; nothing is lost, unless
    /// [`UdpPortConfig::waits`] is off.
    pub blocked: u64,
    /// Datagrams that the kernel refused to send: too long for the path, no route, a peer that is not there.
    pub send_errors: u64,
    /// Errors reported on receiving, such as a peer's ICMP port unreachable.
    pub receive_errors: u64,
    /// Datagrams from addresses for which the table of paths had no room: all of them are in use.
    pub paths_full: u64,
    /// New addresses that took the place of one that was not in use.
    pub paths_reused: u64,
    /// Datagrams that a machine wanted to send on a path that does not exist, or has no socket just now.
    pub no_path: u64,
    /// Datagrams that the kernel dropped while strangers flooded a socket: theirs, and anybody's where the buffer was full all the same.
    pub flooded: u64,
    /// Datagrams that the kernel dropped otherwise: its buffer was full.
    pub buffer_full: u64,
    /// Datagrams that are not of the protocol, or not for this port number (raw sockets see those of others).
    pub not_ours: u64,
}

/// A port that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The system refused.
    #[error("{what}: {error}")]
    Refused {
        /// What was asked of it.
        what: &'static str,
        /// What it said.
        error: io::Error,
    },
    /// Raw sockets are for root.
    #[error(
        "a raw socket for DCCP needs CAP_NET_RAW: run it as root, or `setcap cap_net_raw+ep` the program"
    )]
    NotPermitted,
    /// More sockets than a port can have.
    #[error("a port has at most {0} sockets")]
    TooManySockets(usize),
    /// It was not made for sockets that come and go.
    #[error("there is no such place for a socket")]
    NoSuchPlace,
}

impl PortError {
    pub(crate) fn refused(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Refused { what, error }
    }
}

/// The kernel's buffer is full: wait until the socket is writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocked;

/// What a port receives into: shared by all ports of a driver, as nothing in it outlives a turn.
#[derive(Debug)]
pub(crate) struct ReceiveBuffers {
    bytes: Box<[u8]>,
    datagrams: Vec<Received>,
    /// When datagrams were read into them.
    pub(crate) read: Time,
}

/// One datagram in the buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// When it arrived.
    pub(crate) at: Time,
    path: PathId,
    /// The path's address, before its first datagram.
    origin: Option<Origin>,
    /// The path's number was another address's before this datagram.
    is_reused: bool,
    ecn: Ecn,
    start: usize,
    len: usize,
}

impl ReceiveBuffers {
    /// Buffers in one call to receive.
    const COUNT: usize = 8;
    /// Bytes in each: what the kernel coalesces at most.
    const SIZE: usize = 65_536;

    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; Self::COUNT * Self::SIZE].into(), datagrams: Vec::new(), read: Time::ZERO }
    }

    /// How many datagrams the last call received.
    pub(crate) fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// When it came, and itself.
    pub(crate) fn get(&self, index: usize) -> (Time, Datagram<'_>) {
        let Received { at, path, ecn, start, len, .. } = self.datagrams[index];
        (at, Datagram { path, ecn, data: &self.bytes[start..start + len], padding: 0 })
    }

    /// What is to be said of its path first: whether the number was another address's before, and the address when it is new.
    pub(crate) fn news_of_path(&self, index: usize) -> (bool, Option<Origin>) {
        let Received { is_reused, origin, .. } = self.datagrams[index];
        (is_reused, origin)
    }
}

impl Port {
    /// What went through it; nothing for a descriptor.
    pub fn stats(&self) -> PortStats {
        match self {
            Self::Udp(port) => port.stats(),
            Self::Dccp(port) => port.stats(),
            Self::Descriptor(_) => PortStats::default(),
        }
    }

    /// Where a path leads, for as long as it is remembered; nothing for a descriptor.
    pub(crate) fn remote(&self, path: PathId) -> Option<SocketAddr> {
        match self {
            Self::Udp(port) => port.remote(path),
            Self::Dccp(port) => port.remote(path),
            Self::Descriptor(_) => None,
        }
    }

    /// With the number of each.
    pub(crate) fn descriptors(&self) -> Vec<(usize, BorrowedFd<'_>)> {
        match self {
            Self::Udp(port) => port.descriptors(),
            Self::Dccp(port) => vec![(0, port.as_fd())],
            Self::Descriptor(descriptor) => vec![(0, descriptor.as_fd())],
        }
    }

    /// Reads what is there, one batch, into `buffers`. The address of a path that the machine `uses` gives way to no other.
    pub(crate) fn receive(
        &mut self,
        socket: usize,
        clock: &Clock,
        uses: &dyn Fn(PathId) -> bool,
        buffers: &mut ReceiveBuffers,
    ) {
        buffers.datagrams.clear();
        match self {
            Self::Udp(port) => port.receive(socket, clock, uses, buffers),
            Self::Dccp(port) => port.receive(clock, uses, buffers),
            Self::Descriptor(_) => {}
        }
    }

    /// Time has passed: does a flood begin, or end?
    pub(crate) fn guard(&mut self, now: Time, uses: &dyn Fn(PathId) -> bool) {
        if let Self::Udp(port) = self {
            port.guard(now, uses);
        }
    }

    /// What is to be told of a flood.
    pub(crate) fn poll_flood(&mut self) -> Option<FloodNote> {
        match self {
            Self::Udp(port) => port.poll_flood(),
            Self::Dccp(_) | Self::Descriptor(_) => None,
        }
    }

    /// Takes a datagram to send. It is gone when this returns, or waits for more of its size until `flush`; `buffer` is
    /// empty again.
    pub(crate) fn transmit(&mut self, transmit: Transmit, buffer: &mut Vec<u8>) -> Result<(), Blocked> {
        match self {
            Self::Udp(port) => port.transmit(transmit, buffer),
            Self::Dccp(port) => port.transmit(transmit, buffer),
            Self::Descriptor(_) => {
                buffer.clear(); // A machine that owns its socket has nothing to transmit.
                Ok(())
            }
        }
    }

    /// Sends what waits.
    pub(crate) fn flush(&mut self) -> Result<(), Blocked> {
        match self {
            Self::Udp(port) => port.flush(),
            Self::Dccp(port) => port.flush(),
            Self::Descriptor(_) => Ok(()),
        }
    }
}

impl From<UdpPort> for Port {
    fn from(port: UdpPort) -> Self {
        Self::Udp(port)
    }
}

impl From<DccpPort> for Port {
    fn from(port: DccpPort) -> Self {
        Self::Dccp(port)
    }
}

impl From<OwnedFd> for Port {
    fn from(descriptor: OwnedFd) -> Self {
        Self::Descriptor(descriptor)
    }
}
