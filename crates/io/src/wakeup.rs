//! Wakes a thread that waits for descriptors.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd, for poll(2): readable from when somebody wakes until that is acknowledged. Nothing here waits.
#[derive(Debug)]
pub(crate) struct Wakeup(pub(crate) OwnedFd);

impl Wakeup {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn wake(&self) {
        // Full means that it has been woken 2⁶⁴ − 2 times and has not looked: it will look.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Before whoever was woken looks: what comes after that wakes again.
    pub(crate) fn acknowledge(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}
