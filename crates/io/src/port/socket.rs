//! One UDP socket, and how it sends.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg, setsockopt, sockopt};
use quinn_udp::UdpSocketState;
use socket2::SockRef;
use taut_core::Time;

use super::PortError;
use super::guard::Guard;
use super::udp::{Batch, UdpPortConfig};

#[derive(Debug)]
pub(super) struct Socket {
    pub(super) socket: UdpSocket,
    pub(super) state: UdpSocketState,
    /// It is connected to the peer of its only path, so that the kernel looks up no route.
    pub(super) connected: bool,
    /// Bound to all addresses: the answer must come from the one that was asked.
    pub(super) wildcard: bool,
    pub(super) ipv4: bool,
    /// What `IP_TOS` or `IPV6_TCLASS` is set to; `None`: as another conversation left it.
    class: Option<u8>,
    /// How many buffers the kernel is offered at once: one while datagrams come one by one, because it would look for a
    /// second one in vain.
    pub(super) expected: usize,
    /// When datagrams were read last: what had arrived by then and is read now says that they do not come one by one.
    pub(super) read: Time,
    pub(super) guard: Guard,
}

impl Socket {
    pub(super) fn new(socket: UdpSocket, config: &UdpPortConfig) -> Result<Self, PortError> {
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
            reference
                .set_busy_poll(config.busy_poll.as_micros_u32())
                .map_err(PortError::refused("SO_BUSY_POLL (needs CAP_NET_ADMIN)"))?;
        }
        let wildcard = local.ip().is_unspecified();
        ask_only_for(&socket, local.is_ipv4(), wildcard, config)
            .map_err(|error| PortError::Refused { what: "setting up the socket", error: error.into() })?;
        let guard = Guard::new(&socket);
        Ok(Self {
            socket,
            state,
            connected: false,
            wildcard,
            ipv4: local.is_ipv4(),
            class: None,
            expected: 1,
            read: Time::ZERO,
            guard,
        })
    }

    pub(super) fn send(
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
        if self.class != Some(class) {
            let reference = SockRef::from(&self.socket);
            let v6 = if self.ipv4 { Ok(()) } else { reference.set_tclass_v6(u32::from(class)) };
            // A socket for both versions needs both; one for IPv6 only refuses the other.
            let v4 = reference.set_tos_v4(u32::from(class));
            let set = if self.ipv4 { v4 } else { v6 };
            set.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EINVAL)))?;
            self.class = Some(class);
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
