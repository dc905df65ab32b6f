//! Wakes a loop that waits for file descriptors, such as asyncio's.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd(2): readable when it was rung.
pub(crate) struct Bell(OwnedFd);

impl Bell {
    /// # Errors
    /// When the system has no file descriptors left.
    pub(crate) fn new() -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    pub(crate) fn fd(&self) -> i32 {
        self.0.as_raw_fd()
    }

    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes()); // Full, it is readable as well.
    }

    pub(crate) fn quiet(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]); // Nothing was rung.
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
