//! Datagrams with the time that they waited in the kernel.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use taut_core::Duration;

use crate::clock::{self, WallTime};

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamped {
    pub(super) len: usize,
    pub(super) from: Option<SocketAddr>,
    pub(super) waited: Duration,
}

/// Room for one stamp, a `timespec`, behind its header.
const CONTROL: usize = 64;

/// The kernel is to stamp what arrives here. Where it does not, nothing seems to wait.
pub(super) fn ask(socket: &UdpSocket) {
    let _ = setsockopt(socket, sockopt::ReceiveTimestampns, &true);
}

/// The next datagram, into `buffer`.
pub(super) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Stamped> {
    let mut control = Control([0; CONTROL]);
    let mut parts = [IoSliceMut::new(buffer)];
    let got =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control.0), MsgFlags::empty())?;
    let stamp = |message| match message {
        ControlMessageOwned::ScmTimestampns(at) => {
            Some(WallTime::from_nanos(at.tv_sec() as u64 * 1_000_000_000 + at.tv_nsec() as u64))
        }
        _ => None,
    };
    let stamp = got.cmsgs().ok().and_then(|mut messages| messages.find_map(stamp));
    let waited = stamp.map_or(Duration::ZERO, clock::time_since);
    Ok(Stamped { len: got.bytes, from: got.address.as_ref().and_then(address), waited })
}

/// Aligned as a `cmsghdr` is.
#[repr(align(8))]
struct Control([u8; CONTROL]);

fn address(of: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = of.as_sockaddr_in().map(|v4| SocketAddrV4::from(*v4).into());
    v4.or_else(|| of.as_sockaddr_in6().map(|v6| SocketAddrV6::from(*v6).into()))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a datagram waits in the kernel in real time")]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn what_waits_in_the_kernel_grows_older() {
        for ip in [Ipv4Addr::LOCALHOST.into(), std::net::IpAddr::from(Ipv6Addr::LOCALHOST)] {
            let Ok(socket) = UdpSocket::bind((ip, 0)) else {
                println!("skipped: there is no {ip}");
                continue;
            };
            ask(&socket);
            // The kernel begins to stamp a little after it is first asked.
            let (to, mut buffer) = (socket.local_addr().expect("bound"), [0; 16]);
            std::thread::sleep(std::time::Duration::from_millis(50));
            socket.send_to(b"go", to).expect("loopback takes it");
            std::thread::sleep(std::time::Duration::from_millis(100));
            let got = receive(&socket, &mut buffer).expect("it is there");
            assert_eq!((got.len, got.from), (2, Some(to)));
            assert!(got.waited >= Duration::from_millis(90), "{}", got.waited);
            socket.set_nonblocking(true).expect("a socket");
            let none = receive(&socket, &mut buffer).expect_err("there is no more");
            assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        }
    }
}
