//! A stop that needs no Python: bytes that are written when a robot stops.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

/// Bytes and where they go. Writing never waits: what is not taken at once is lost, and the next stop writes again.
pub(crate) struct Brake {
    to: To,
    bytes: Vec<u8>,
}

enum To {
    File(File),
    Udp(UdpSocket),
}

impl Brake {
    /// `to` is `udp:HOST:PORT`, or a file that can be written: a serial line, a FIFO, `/dev/fd/N`.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn open(to: &str, bytes: Vec<u8>) -> std::io::Result<Self> {
        let to = match to.strip_prefix("udp:") {
            Some(address) => {
                let any = if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                socket.set_nonblocking(true)?;
                To::Udp(socket)
            }
            None => {
                let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
                To::File(OpenOptions::new().append(true).custom_flags(flags).open(to)?)
            }
        };
        Ok(Self { to, bytes })
    }

    pub(crate) fn pull(&self) {
        let _ = match &self.to {
            To::File(file) => (&mut &*file).write(&self.bytes),
            To::Udp(socket) => socket.send(&self.bytes),
        };
    }
}
