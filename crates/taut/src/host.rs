//! What a loop of the caller's own needs instead of sockets: addresses as paths, and transports one after the other.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use getrandom::SysRng;
use rand_core::{Rng as _, UnwrapErr};
use taut_agent::PATIENCE;
use taut_core::{PathHeard, PathId, PathTable, Rng, Seed, Time};
use taut_transport::entropy::Entropy;
use taut_transport::security::SecurityConfig;
use taut_transport::stack::{Part, Protection, Randomness, Side, Stack, StackSpec, TransportKind};

use crate::common::Known;
use crate::error::Error;
use crate::status::Status;
use crate::time::ours;

/// Addresses that are remembered; one that is not in use gives way to a newcomer.
const PATHS: usize = 64;

/// Makes transports.
pub(crate) struct Maker {
    spec: StackSpec,
    side: Side,
    protection: Protection,
}

impl Maker {
    /// `unix` is the wall clock at `now`, since 1970: what an end says must be newer than in its earlier lives.
    pub(crate) fn new(known: Known, side: Side, now: Duration, unix: Duration) -> Result<Self, Error> {
        let Known { identity, trust, kind } = known;
        if side == Side::Opens && trust.len() != 1 {
            return Err(Error::invalid("trust", "an operator trusts exactly one robot"));
        }
        let spec = StackSpec::for_sessions(kind, PATIENCE).filter(|_| kind != TransportKind::Tcp);
        let spec = spec.ok_or(Error::invalid(
            "transport",
            "tcp is the kernel's: `start` has it, `build` has the others",
        ))?;
        let epoch = ours(unix.saturating_sub(now)).as_nanos();
        let config = SecurityConfig::new().epoch(epoch).give_up(PATIENCE);
        let protection = Protection::new(identity.0, trust).config(config);
        Ok(Self { spec, side, protection })
    }

    pub(crate) fn make(&self) -> Result<Stack, Error> {
        let made = Stack::new(self.spec.clone(), self.side, Some(self.protection.clone()), OsRandomness);
        made.map_err(|error| Error::invalid("transport", error))
    }
}

/// That of the operating system.
struct OsRandomness;

impl Randomness for OsRandomness {
    fn entropy(&mut self, _: Part) -> Entropy {
        Entropy::new(UnwrapErr(SysRng))
    }
    fn rng(&mut self, part: Part) -> Rng {
        rng(part.name())
    }
}

/// Numbers that nobody can guess, and that need not be secret.
pub(crate) fn rng(name: &str) -> Rng {
    Seed::new(UnwrapErr(SysRng).next_u64()).stream(name)
}

/// What both ends' machines do alike, as methods of theirs: a caller drives `agent`, whose commands wait in `inbox`.
macro_rules! driven_by_caller {
    ($command:ty, $event:ty) => {
        /// The time of [`poll_timeout`](Self::poll_timeout) has come, or somebody sent a message. Too early is harmless.
        pub fn handle_timeout(&mut self, now: ::std::time::Duration) {
            let now = self.begin(now);
            self.agent.handle_timeout(now);
            self.finish(now);
        }

        /// The next datagram to send, and where to; `datagram` is overwritten.
        pub fn poll_transmit(
            &mut self,
            now: ::std::time::Duration,
            datagram: &mut Vec<u8>,
        ) -> Option<::std::net::SocketAddr> {
            let now = self.begin(now);
            loop {
                datagram.clear();
                let transmit = self.agent.poll_transmit(now, datagram)?;
                datagram.resize(datagram.len() + transmit.padding as usize, 0);
                if let Some(address) = self.addresses.answer(transmit.path) {
                    return Some(address);
                }
                self.addresses.nowhere += 1;
            }
        }

        /// What happened.
        pub fn poll_event(&mut self) -> Option<$event> {
            self.finish(self.now);
            self.told.events.try_recv().ok()
        }

        /// When to call [`handle_timeout`](Self::handle_timeout) at the latest; `None`: never, for it has ended.
        pub fn poll_timeout(&self) -> Option<::std::time::Duration> {
            if self.told.events.queue.has_ended() {
                return None;
            }
            let due = self.agent.poll_timeout()?.at;
            Some($crate::time::since_zero(if self.inbox.is_empty() { due } else { self.now }))
        }

        fn command(&mut self, now: ::std::time::Duration, command: $command) {
            let now = self.begin(now);
            self.agent.handle_command(now, command);
            self.finish(now);
        }

        /// A clock that goes back stands still.
        fn begin(&mut self, now: ::std::time::Duration) -> ::taut_core::Time {
            self.now = self.now.max($crate::time::at(now));
            while let Some(command) = self.inbox.pop() {
                self.agent.handle_command(self.now, command);
            }
            self.now
        }
    };
}
pub(crate) use driven_by_caller;

/// Addresses by the numbers of their paths.
#[derive(Debug)]
pub(crate) struct Addresses {
    table: PathTable,
    /// Datagrams from an address that is not taken.
    pub(crate) strange: u64,
    /// Datagrams of a path that has no address.
    pub(crate) nowhere: u64,
}

impl Addresses {
    /// Those of an operator: the robot's.
    pub(crate) fn to(remote: Option<SocketAddr>) -> Self {
        let mut table = PathTable::new(PATHS);
        if let Some(remote) = remote {
            table.add(0, remote);
        }
        Self { table, strange: 0, nowhere: 0 }
    }

    /// With what was dropped here.
    pub(crate) fn counted(&self, mut status: Status) -> Status {
        for (cause, count) in [("other_address", self.strange), ("no_address", self.nowhere)] {
            if count > 0 {
                status.dropped.insert(cause, count);
            }
        }
        status
    }

    pub(crate) fn heard(
        &mut self,
        now: Time,
        from: SocketAddr,
        uses: &dyn Fn(PathId) -> bool,
    ) -> Option<PathHeard> {
        self.table.heard(now, 0, from, None, uses)
    }

    /// Where a datagram of this path goes.
    pub(crate) fn answer(&mut self, path: PathId) -> Option<SocketAddr> {
        let entry = self.table.get_mut(path)?;
        entry.answered = true;
        Some(entry.remote)
    }
}

/// Commands of other threads for a machine that its caller drives.
#[derive(Debug)]
pub(crate) struct Inbox<C>(Arc<Mutex<VecDeque<C>>>);

impl<C> Clone for Inbox<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Commands that wait at most.
const CAPACITY: usize = 1_024;

impl<C> Inbox<C> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    /// False when it is full.
    pub(crate) fn push(&self, command: C) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = waiting.len() < CAPACITY;
        if fits {
            waiting.push_back(command);
        }
        fits
    }

    pub(crate) fn pop(&self) -> Option<C> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}
