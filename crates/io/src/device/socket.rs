//! The device's end of its socket, for devices in Rust.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::frame::{Frame, FrameError, LONGEST_TO_DEVICE};
use super::program::DESCRIPTOR;

/// The socket of a process that was started as a device.
#[derive(Debug)]
pub struct DeviceSocket(OwnedFd);

/// What came over it.
#[derive(Debug)]
pub enum Told {
    /// A frame; or what is none: whoever says what nobody understands may have meant a stop.
    Frame(Result<Frame, FrameError>),
    /// Nothing for now.
    Nothing,
    /// Whoever started this process is gone: the device stops.
    Ended,
}

impl DeviceSocket {
    /// That of this process, which is its standard input.
    ///
    /// # Errors
    /// Where nobody started this process as a device.
    pub fn of_process() -> io::Result<Self> {
        if std::env::var(DESCRIPTOR).is_ok_and(|number| number == "0") {
            return Ok(Self(io::stdin().as_fd().try_clone_to_owned()?));
        }
        Err(io::Error::other(format!(
            "{DESCRIPTOR} is not set: `taut robot --robot exec:` starts devices with it"
        )))
    }

    /// What came, without waiting.
    pub fn recv(&self) -> Told {
        let mut buffer = [0; LONGEST_TO_DEVICE];
        match retry_on_intr(|| recv(&self.0, &mut buffer[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC)) {
            Ok((_, 0)) => Told::Ended,
            Ok((_, length)) => Told::Frame(match buffer.get(..length) {
                Some(frame) => Frame::parse(frame),
                None => Err(FrameError::Length { needed: LONGEST_TO_DEVICE, found: length }),
            }),
            Err(Errno::AGAIN) => Told::Nothing,
            Err(_) => Told::Ended,
        }
    }

    /// Says this, unless nobody makes room for it. True: it was said.
    pub fn send(&self, frame: &Frame) -> bool {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        retry_on_intr(|| send(&self.0, &frame.to_bytes(), flags)).is_ok()
    }
}

impl AsFd for DeviceSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
