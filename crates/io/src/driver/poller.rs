//! Waiting for descriptors and for the time, whichever comes first.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use taut_core::Duration;

use crate::clock::timespec;

/// An epoll instance (epoll(7)), level-triggered: what is not read is reported again.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

/// What became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) token: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Readable,
    /// Or an error: both end the wait for a full buffer.
    ReadableOrWritable,
}

/// Reported in one call at most; the others wait for the next one.
const EVENTS: usize = 64;

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)? })
    }

    pub(crate) fn add(&self, descriptor: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, descriptor, EventData::new_u64(token), interest.flags())?)
    }

    pub(crate) fn change(
        &self,
        descriptor: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, descriptor, EventData::new_u64(token), interest.flags())?)
    }

    pub(crate) fn remove(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, descriptor)?)
    }

    /// Waits for `timeout` at most, `None`: without end. `epoll_pwait2` (Linux 5.11) counts nanoseconds.
    pub(crate) fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let timeout = timeout.map(timespec);
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS];
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => ready.extend(events.iter().map(|event| {
                let flags = event.flags;
                let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
                Ready {
                    token: event.data.u64(),
                    readable: failed || flags.contains(EventFlags::IN),
                    writable: failed || flags.contains(EventFlags::OUT),
                }
            })),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl AsFd for Poller {
    /// Itself readable when one of its descriptors is ready: an epoll instance can be polled.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Interest {
    const fn flags(self) -> EventFlags {
        match self {
            Self::Readable => EventFlags::IN,
            Self::ReadableOrWritable => EventFlags::IN.union(EventFlags::OUT),
        }
    }
}
