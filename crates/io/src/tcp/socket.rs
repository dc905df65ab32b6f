//! The kernel's TCP sockets and their options.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use nix::libc;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use taut_core::{Bytes, Duration};

use super::KernelTcpConfig;

/// A socket that is connecting.
pub(super) fn connect(remote: SocketAddr, config: &KernelTcpConfig) -> io::Result<TcpStream> {
    let socket = new(remote, config)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&remote.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    let stream = TcpStream::from(socket);
    set_up(&stream, config)?;
    Ok(stream)
}

/// A socket that peers connect to.
pub(super) fn listen(local: SocketAddr, config: &KernelTcpConfig) -> io::Result<TcpListener> {
    let socket = new(local, config)?;
    socket.set_reuse_address(true)?;
    socket.bind(&local.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Peers that may wait to be accepted or sent away.
const BACKLOG: i32 = 128;

fn new(address: SocketAddr, config: &KernelTcpConfig) -> io::Result<Socket> {
    let protocol = if config.multipath { Protocol::MPTCP } else { Protocol::TCP };
    Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))
}

/// Asks for a socket of Multipath TCP.
pub(super) fn multipath() -> io::Result<()> {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).map(drop)
}

/// What waits unsent in the kernel's Multipath TCP, at least.
const SEVERAL: Bytes = Bytes::new(4_096);

/// Sets every option that the configuration asks for.
pub(super) fn set_up(stream: &TcpStream, config: &KernelTcpConfig) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    // Multipath TCP has some options from some version of Linux on.
    let unless_multipath = |done: io::Result<()>| if config.multipath { Ok(()) } else { done };
    // Of several paths one may be full while another is not: what waits for either is a few packets.
    let not_sent = if config.multipath { config.not_sent.max(SEVERAL) } else { config.not_sent };
    let not_sent = u32::try_from(not_sent.get()).unwrap_or(u32::MAX);
    unless_multipath(socket.set_tcp_notsent_lowat(not_sent))?;
    socket.set_send_buffer_size(to_usize(config.send_buffer))?;
    let user_timeout = std::time::Duration::from(config.user_timeout);
    unless_multipath(socket.set_tcp_user_timeout((!user_timeout.is_zero()).then_some(user_timeout)))?;
    if let Some(name) = config.congestion {
        socket.set_tcp_congestion(name.as_bytes()).map_err(|error| {
            let what = format!("congestion control `{name}` (`modprobe tcp_{name}` loads it): {error}");
            io::Error::new(error.kind(), what)
        })?;
    }
    if config.dscp > 0 {
        let class = u32::from(config.dscp) << 2;
        let ipv4 = stream.local_addr()?.is_ipv4();
        if ipv4 { socket.set_tos_v4(class)? } else { socket.set_tclass_v6(class)? }
    }
    Ok(())
}

/// `TCP_QUICKACK`; the kernel forgets it.
pub(super) fn acknowledge_at_once(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_tcp_quickack(true)
}

/// Closing will send a reset: nothing lingers in the kernel.
pub(super) fn reset_on_close(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO)); // Otherwise the kernel lingers.
}

/// Bytes that the kernel took and the peer's kernel has not acknowledged (`SIOCOUTQ`, tcp(7)); also of a connection that
/// has ended.
pub(super) fn unacknowledged(stream: &TcpStream) -> u64 {
    // Who cannot be asked has acknowledged nothing, as far as anyone knows.
    queued(stream, libc::TIOCOUTQ).unwrap_or(u64::MAX)
}

/// Bytes that the kernel took and has not sent (`SIOCOUTQNSD`, linux/sockios.h).
pub(super) fn unsent(stream: &TcpStream) -> u64 {
    queued(stream, libc::SIOCOUTQNSD).unwrap_or(0)
}

fn queued(stream: &TcpStream, request: libc::Ioctl) -> Option<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: both requests write one `int` to `bytes`, which lives until the call returns. No crate of this workspace
    // wraps them.
    #[allow(unsafe_code)]
    let status = unsafe { libc::ioctl(stream.as_raw_fd(), request, &raw mut bytes) };
    if status == 0 { u64::try_from(bytes).ok() } else { None }
}

/// What the kernel knows of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// `tcpi_rtt`. `None` before there is one.
    pub(super) smoothed_rtt: Option<Duration>,
    /// Segments of which the peer's kernel told that they arrived, in order or by SACK (`tcpi_delivered`).
    pub(super) delivered: u64,
}

/// By a system call, about a microsecond.
pub(super) fn known(stream: &TcpStream) -> Option<Known> {
    let info = info(stream)?;
    let rtt = Duration::from_micros(u64::from(info.tcpi_rtt));
    Some(Known {
        smoothed_rtt: Some(rtt).filter(|rtt| !rtt.is_zero()),
        delivered: info.tcpi_delivered.into(),
    })
}

/// `TCP_INFO`, tcp(7).
fn info(stream: &TcpStream) -> Option<libc::tcp_info> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the call writes at most `length` bytes to `info`, which has as many and lives until it returns; all of them
    // are integers, for which zeros stand until then. No crate of this workspace wraps it.
    #[allow(unsafe_code)]
    unsafe {
        let to = info.as_mut_ptr().cast();
        let status =
            libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut length);
        // An older kernel says less.
        let says_all =
            length as usize >= std::mem::offset_of!(libc::tcp_info, tcpi_delivered) + size_of::<u32>();
        (status == 0 && says_all).then(|| info.assume_init())
    }
}

fn to_usize(bytes: Bytes) -> usize {
    usize::try_from(bytes.get()).unwrap_or(usize::MAX)
}
