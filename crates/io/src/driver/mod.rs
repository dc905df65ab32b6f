//! The loop around machines: wait for a datagram or a deadline, call the machine, send what it has to say.

mod busy;
mod config;
mod notes;
pub(crate) mod poller;
mod slot;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use taut_core::{Duration, PathId, Time};

use self::busy::BusyPoll;
use self::poller::{Interest, Poller, Ready};
use self::slot::Slot;
use crate::mailbox::{self, Inbox, Mailbox, Running};
use crate::port::ReceiveBuffers;
use crate::{Clock, FloodNote, Machine, Port, PortError, PortStats, UdpPort};

pub use self::config::DriverConfig;

/// Drives machines on the thread that calls it. See the [crate](crate) for an example.
///
/// Each machine has a [`Port`] of its own. What a machine costs does not depend on how many there are: descriptors wait
/// in one epoll instance, deadlines in one ordered set.
///
/// # Order
/// In a turn an [`Alarm`](crate::Alarm) comes first, then descriptors that are ready, one batch of datagrams each, and the
/// mailbox, then deadlines. An alarm that is rung meanwhile comes before the next descriptor or command. A
/// machine's time never goes back: a datagram that the kernel received before the machine was last called counts as of
/// that call.
///
/// # Bounds
/// A machine that never stops transmitting is interrupted after [`Driver::BUDGET`] datagrams and goes on in the next
/// turn, after the others. When a socket's buffer is full, the datagram waits, the machine is not asked for more, and
/// its own queue applies its own policy.
pub struct Driver<M: Machine> {
    clock: Clock,
    config: DriverConfig,
    poller: Poller,
    slots: Vec<Option<Slot<M>>>,
    /// When each machine is due, once for each that has a deadline.
    agenda: BTreeSet<(Time, usize)>,
    inbox: Inbox<M::Command>,
    buffers: ReceiveBuffers,
    ready: Vec<Ready>,
    /// All sockets, when they are so few that a thread that spins does better to read them than to ask which to read.
    polled_sockets: Vec<Ready>,
    /// Turns since it asked.
    unasked: u32,
    /// A machine owns descriptors beside its port: there is no way around asking.
    asks: bool,
    /// A descriptor that is watched was ready.
    watched_ready: bool,
    /// The latest reading of the clock: a turn needs few, for what becomes due meanwhile is the next one's.
    now: Time,
    busy: BusyPoll,
    /// Alarms that machines were told of: see [`Bell::rings`](crate::alarm::Bell::rings).
    alarms_told: u64,
    stopped: bool,
    stats: DriverStats,
}

/// Which of a driver's machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub(crate) usize);

/// What a driver did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverStats {
    /// Times that it waited or looked.
    pub turns: u64,
    /// Deadlines that came.
    pub timeouts: u64,
    /// By how much the machines were called after their deadlines, in all.
    pub late: Duration,
    /// The most for one deadline.
    pub late_max: Duration,
    /// Commands taken from the mailbox.
    pub commands: u64,
    /// Commands for machines that are not there.
    pub commands_astray: u64,
    /// Commands that would have let go of an alarm that was rung after they were sent.
    pub commands_void: u64,
    /// Alarms that machines were told of.
    pub alarms: u64,
}

/// A driver that cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
pub struct DriverError {
    what: &'static str,
    error: io::Error,
}

impl DriverError {
    fn of(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self { what, error }
    }
}

/// Sockets that are read without asking whether there is anything, by a thread that spins.
const FEW: usize = 4;
/// Turns after which it asks all the same, for the mailbox and for sockets that take datagrams again.
const ASK_EVERY: u32 = 16;
/// The inbox's descriptor; those of machines are numbered from 0.
const INBOX: u64 = u64::MAX;
/// Descriptors that are watched.
const WATCHED: u64 = u64::MAX - 1;
/// Beside the sockets of a machine's port: a descriptor of its own.
const OWN: usize = 0xffff;

impl<M: Machine> fmt::Debug for Driver<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("config", &self.config)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Driver<M> {
    /// Datagrams that one machine may send in one go.
    pub const BUDGET: usize = 1_024;

    /// A driver without machines. Its clock starts.
    ///
    /// # Errors
    /// When the process may open no more descriptors.
    pub fn new(config: DriverConfig) -> Result<Self, DriverError> {
        let inbox = Inbox::new().map_err(DriverError::of("the mailbox's eventfd"))?;
        let poller = Poller::new().map_err(DriverError::of("epoll"))?;
        poller.add(inbox.as_fd(), INBOX, Interest::Readable).map_err(DriverError::of("epoll"))?;
        Ok(Self {
            clock: Clock::start(),
            config,
            poller,
            slots: Vec::new(),
            agenda: BTreeSet::new(),
            inbox,
            buffers: ReceiveBuffers::new(),
            ready: Vec::new(),
            polled_sockets: Vec::new(),
            unasked: 0,
            asks: false,
            watched_ready: false,
            now: Time::ZERO,
            busy: BusyPoll::new(&config),
            alarms_told: 0,
            stopped: false,
            stats: DriverStats::default(),
        })
    }

    /// With this clock instead of its own, for machines that were made with readings of it.
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The clock that machines are told.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// What it did.
    pub fn stats(&self) -> DriverStats {
        self.stats
    }

    /// Takes a machine in; its first calls come with the next turn.
    ///
    /// # Errors
    /// When a descriptor cannot be waited for.
    pub fn add(&mut self, machine: M, port: impl Into<Port>) -> Result<MachineId, DriverError> {
        let port = port.into();
        let free = self.slots.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        for (socket, descriptor) in port.descriptors() {
            let added = self.poller.add(descriptor, token(index, socket), Interest::Readable);
            added.map_err(DriverError::of("waiting for a socket"))?;
        }
        self.slots[index] = Some(Slot::new(machine, port));
        self.set_due(index, Time::ZERO);
        self.note_sockets();
        Ok(MachineId(index))
    }

    /// Takes a machine out, with its port. Its number may be given to another one.
    pub fn remove(&mut self, id: MachineId) -> Option<(M, Port)> {
        let slot = self.slots.get_mut(id.0)?.take()?;
        self.agenda.remove(&(slot.due, id.0));
        for (_, descriptor) in slot.port.descriptors() {
            // Also when it fails the descriptor is gone from the set once it is closed.
            let _ = self.poller.remove(descriptor);
        }
        self.note_sockets();
        Some((slot.machine, slot.port))
    }

    /// Puts a socket in a place of a machine's [`UdpPort`](crate::UdpPort::add_place), instead of the one that is there, or
    /// takes that away.
    ///
    /// # Errors
    /// When there is no such place, the socket refuses an option, or cannot be waited for; then there is none.
    pub fn set_socket(
        &mut self,
        id: MachineId,
        place: usize,
        socket: Option<UdpSocket>,
    ) -> Result<(), PortError> {
        let Some(Some(slot)) = self.slots.get_mut(id.0) else { return Err(PortError::NoSuchPlace) };
        let interest = if slot.is_blocked() { Interest::ReadableOrWritable } else { Interest::Readable };
        let Port::Udp(port) = &mut slot.port else { return Err(PortError::NoSuchPlace) };
        let descriptor =
            |port: &UdpPort| port.descriptors().into_iter().position(|(known, _)| known == place);
        if let Some(at) = descriptor(port) {
            // Also when it fails the descriptor is gone from the set once it is closed.
            let _ = self.poller.remove(port.descriptors()[at].1);
        }
        port.set_socket(place, socket)?;
        let added = descriptor(port)
            .map_or(Ok(()), |at| self.poller.add(port.descriptors()[at].1, token(id.0, place), interest));
        if let Err(error) = added {
            port.set_socket(place, None)?;
            return Err(PortError::Refused { what: "waiting for a socket", error });
        }
        self.note_sockets();
        Ok(())
    }

    /// Calls a machine's [`handle_timeout`](Machine::handle_timeout) also when `descriptor` is readable, until that is
    /// closed: one that the machine owns beside its port.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn wake_on(&mut self, id: MachineId, descriptor: BorrowedFd<'_>) -> Result<(), DriverError> {
        self.asks = true;
        self.note_sockets();
        let added = self.poller.add(descriptor, token(id.0, OWN), Interest::Readable);
        added.map_err(DriverError::of("waiting for a descriptor"))
    }

    /// Ends a turn when `descriptor` is readable, which is for whoever calls [`Driver::turn`] and
    /// [`Driver::take_watched_ready`], until it is closed.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn watch(&mut self, descriptor: BorrowedFd<'_>) -> Result<(), DriverError> {
        let added = self.poller.add(descriptor, WATCHED, Interest::Readable);
        added.map_err(DriverError::of("waiting for a descriptor"))
    }

    /// Was a watched descriptor readable since it was last asked?
    pub fn take_watched_ready(&mut self) -> bool {
        std::mem::take(&mut self.watched_ready)
    }

    /// A machine, to look at it.
    pub fn machine(&self, id: MachineId) -> Option<&M> {
        self.slots.get(id.0)?.as_ref().map(|slot| &slot.machine)
    }

    /// A machine, to call it: the next turn begins with what it has to say.
    pub fn machine_mut(&mut self, id: MachineId) -> Option<&mut M> {
        self.slots.get(id.0)?.as_ref()?;
        self.set_due(id.0, Time::ZERO);
        self.slots[id.0].as_mut().map(|slot| &mut slot.machine)
    }

    /// What went through a machine's port.
    pub fn port_stats(&self, id: MachineId) -> Option<PortStats> {
        self.slots.get(id.0)?.as_ref().map(|slot| slot.port.stats())
    }

    /// What is to be told of a flood at a machine's port, after each turn.
    pub fn poll_flood(&mut self, id: MachineId) -> Option<FloodNote> {
        self.slots.get_mut(id.0)?.as_mut()?.port.poll_flood()
    }

    /// Where a path of a machine's port leads, for as long as the port remembers.
    pub fn remote(&self, id: MachineId, path: PathId) -> Option<SocketAddr> {
        self.slots.get(id.0)?.as_ref()?.port.remote(path)
    }

    /// Gives a machine a command, from the driver's own thread. What follows from it comes with the next turn.
    pub fn command(&mut self, id: MachineId, command: M::Command) {
        let now = self.clock.now();
        if let Some(Some(slot)) = self.slots.get_mut(id.0) {
            self.stats.commands += 1;
            slot.command(now, command);
            self.set_due(id.0, Time::ZERO);
        } else {
            self.stats.commands_astray += 1;
        }
    }

    /// A way to reach the machines from other threads. It can be copied.
    pub fn mailbox(&self) -> Mailbox<M> {
        self.inbox.mailbox()
    }

    /// Somebody asked the driver to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Waits for datagrams, commands and deadlines, until `until` at most, and handles what came. Events go to `events`.
    /// A driver that spins returns also when nothing came.
    ///
    /// # Errors
    /// When the system cannot wait. What goes wrong with one socket is counted in its [`PortStats`].
    pub fn turn(
        &mut self,
        until: Time,
        events: &mut impl FnMut(MachineId, M::Event),
    ) -> Result<(), DriverError> {
        self.wait(until).map_err(DriverError::of("epoll"))?;
        self.stats.turns += 1;
        self.inbox.count_turn();
        for index in 0..self.ready.len() {
            self.take_alarm(events);
            let Ready { token, readable, writable } = self.ready[index];
            let (index, socket) = ((token >> 16) as usize, (token & 0xffff) as usize);
            match token {
                INBOX => self.take_notes(events),
                WATCHED => self.watched_ready = true,
                _ => self.handle_ready(index, socket, readable, writable, events),
            }
        }
        self.take_alarm(events);
        self.handle_due(events);
        Ok(())
    }

    /// Turns until [`Mailbox::stop`].
    ///
    /// # Errors
    /// As [`Driver::turn`].
    pub fn run(&mut self, events: &mut impl FnMut(MachineId, M::Event)) -> Result<(), DriverError> {
        while !self.stopped {
            self.turn(Time::MAX, events)?;
        }
        Ok(())
    }

    /// Runs on a thread of its own, scheduled as the configuration says.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn spawn(self) -> Result<Running<M>, DriverError>
    where
        M: Send + 'static,
        M::Command: Send,
        M::Event: Send,
    {
        let options = self.config.thread;
        mailbox::spawn(self, options).map_err(DriverError::of("starting the driver's thread"))
    }

    /// Sleeps or spins until a descriptor is ready or the first deadline has come.
    fn wait(&mut self, until: Time) -> io::Result<()> {
        let due = self.agenda.first().map_or(until, |(due, _)| (*due).min(until));
        loop {
            let now = self.clock.now();
            self.now = now;
            let polls = self.busy.polls(now);
            let spins = polls || now + self.config.early >= due;
            if spins && !self.polled_sockets.is_empty() && self.unasked < ASK_EVERY {
                self.unasked += 1;
                self.ready.clone_from(&self.polled_sockets);
                return Ok(());
            }
            self.unasked = 0;
            let timeout = match due {
                _ if spins => Some(Duration::ZERO),
                Time::MAX => None,
                due => Some(due.saturating_since(now) - self.config.early),
            };
            self.poller.wait(timeout, &mut self.ready)?;
            if !self.ready.is_empty() || now >= due {
                return Ok(());
            }
            // Whoever slept until the deadline need not look at the sockets once more.
            if polls && self.busy.yields() {
                std::thread::yield_now();
                self.busy.looked(now, self.clock.now());
            }
            self.now = self.clock.now();
            if self.now >= due {
                return Ok(());
            }
        }
    }

    fn handle_ready(
        &mut self,
        index: usize,
        socket: usize,
        readable: bool,
        writable: bool,
        events: &mut impl FnMut(MachineId, M::Event),
    ) {
        let Some(Some(slot)) = self.slots.get_mut(index) else { return };
        let mut tell = |event| events(MachineId(index), event);
        let was_blocked = slot.is_blocked();
        let mut called = was_blocked && writable;
        if called {
            slot.unblock(&self.clock, &mut tell);
        }
        if socket == OWN {
            slot.timeout(&self.clock, &mut tell);
            self.busy.heard(self.now);
            called = true;
        } else if readable && slot.receive(socket, &self.clock, &mut self.buffers, &mut tell) {
            self.now = self.now.max(self.buffers.read);
            self.busy.heard(self.now);
            called = true;
        }
        if called {
            self.settle(index, was_blocked);
        }
    }

    fn handle_due(&mut self, events: &mut impl FnMut(MachineId, M::Event)) {
        let now = self.now;
        // Once for each at most: who is due again at once waits for the next turn.
        for _ in 0..self.agenda.len() {
            let Some(&(due, index)) = self.agenda.first().filter(|(due, _)| *due <= now) else { return };
            if due > Time::ZERO {
                let late = now.saturating_since(due);
                self.stats.timeouts += 1;
                self.stats.late += late;
                self.stats.late_max = self.stats.late_max.max(late);
            }
            let slot = self.slots[index].as_mut().expect("only machines that are there are due");
            let was_blocked = slot.is_blocked();
            slot.timeout(&self.clock, &mut |event| events(MachineId(index), event));
            self.settle(index, was_blocked);
        }
    }

    /// After a machine was called: notes when it is due, and whether it waits for its socket.
    fn settle(&mut self, index: usize, was_blocked: bool) {
        let Some(Some(slot)) = self.slots.get(index) else { return };
        if slot.is_blocked() != was_blocked {
            let interest = if was_blocked { Interest::Readable } else { Interest::ReadableOrWritable };
            for (socket, descriptor) in slot.port.descriptors() {
                // It was added, so that it can be changed.
                let changed = self.poller.change(descriptor, token(index, socket), interest);
                debug_assert!(changed.is_ok(), "{changed:?} of descriptor {}", descriptor.as_raw_fd());
            }
        }
        let due = slot.next_due();
        self.set_due(index, due);
    }

    fn note_sockets(&mut self) {
        self.polled_sockets.clear();
        if self.asks || self.busy.yields() {
            return;
        }
        for (index, slot) in self.slots.iter().enumerate() {
            let Some(slot) = slot else { continue };
            let sockets: Vec<usize> = slot.port.descriptors().into_iter().map(|(socket, _)| socket).collect();
            // The machine of a lone descriptor looks for itself what there is, which is no cheaper.
            if matches!(slot.port, Port::Descriptor(_)) || self.polled_sockets.len() + sockets.len() > FEW {
                return self.polled_sockets.clear();
            }
            let readable = |socket| Ready { token: token(index, socket), readable: true, writable: false };
            self.polled_sockets.extend(sockets.into_iter().map(readable));
        }
    }

    fn set_due(&mut self, index: usize, due: Time) {
        let Some(Some(slot)) = self.slots.get_mut(index) else { return };
        if slot.due != due {
            self.agenda.remove(&(slot.due, index));
            slot.due = due;
            if due < Time::MAX {
                self.agenda.insert((due, index));
            }
        }
    }
}

/// A machine's port has 65 535 descriptors at most.
const fn token(index: usize, socket: usize) -> u64 {
    (index as u64) << 16 | socket as u64
}
