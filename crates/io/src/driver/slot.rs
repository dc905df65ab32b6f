//! One machine and its port.

use taut_core::{Duration, Time, Transmit};

use crate::port::ReceiveBuffers;
use crate::{Alarm, Clock, Driver, Machine, Port};

/// A machine whose socket is full is called again for what was due already no sooner than this.
const BLOCKED_AGAIN: Duration = Duration::from_millis(1);

/// One machine and its port.
#[derive(Debug)]
pub(super) struct Slot<M> {
    pub(super) machine: M,
    pub(super) port: Port,
    /// When the driver's agenda has it; [`Time::MAX`] for not at all.
    pub(super) due: Time,
    /// When it was last called.
    last: Time,
    /// When it was last told the time alone.
    told: Time,
    /// Where it writes its datagrams.
    buffer: Vec<u8>,
    /// A datagram that the port could not take, its bytes in `buffer`; or nothing but the port's own batch waits.
    held: Option<Option<Transmit>>,
    /// It was interrupted while it had more to say.
    unfinished: bool,
    /// It has not been told the time yet.
    new: bool,
}

impl<M: Machine> Slot<M> {
    pub(super) fn new(machine: M, port: Port) -> Self {
        Self {
            machine,
            port,
            due: Time::MAX,
            last: Time::ZERO,
            told: Time::ZERO,
            buffer: Vec::new(),
            held: None,
            unfinished: false,
            new: true,
        }
    }

    /// It waits for its socket's send buffer.
    pub(super) fn is_blocked(&self) -> bool {
        self.held.is_some()
    }

    /// When it wants to be called.
    pub(super) fn next_due(&self) -> Time {
        if self.new || (self.unfinished && !self.is_blocked()) {
            return Time::ZERO;
        }
        let mut due = self.machine.poll_timeout().map_or(Time::MAX, |deadline| deadline.at);
        if self.is_blocked() {
            // Where it was told already, it cannot send what is due.
            due = due.max(self.told + BLOCKED_AGAIN);
        }
        due.max(Time::from_nanos(1)) // Zero is for those that have no deadline and are due all the same.
    }

    /// Reads one batch and lets the machine answer each datagram; false when there was none.
    pub(super) fn receive(
        &mut self,
        socket: usize,
        clock: &Clock,
        buffers: &mut ReceiveBuffers,
        tell: &mut dyn FnMut(M::Event),
    ) -> bool {
        if let Port::Descriptor(_) = self.port {
            self.timeout(clock, tell);
            return true;
        }
        let (machine, held) = (&self.machine, self.held.flatten().map(|transmit| transmit.path));
        let uses = |path| held == Some(path) || machine.uses_path(path);
        self.port.receive(socket, clock, &uses, buffers);
        for index in 0..buffers.len() {
            let (at, datagram) = buffers.get(index);
            let at = self.tick(at);
            let (is_reused, origin) = buffers.news_of_path(index);
            if is_reused {
                self.machine.remove_path(at, datagram.path);
            }
            if let Some(origin) = origin {
                self.machine.set_origin(datagram.path, origin);
            }
            self.machine.handle_input(at, datagram);
            self.poll(clock, tell);
        }
        self.flush();
        buffers.len() > 0
    }

    pub(super) fn timeout(&mut self, clock: &Clock, tell: &mut dyn FnMut(M::Event)) {
        let now = self.tick(clock.now());
        (self.new, self.told) = (false, now);
        self.machine.handle_timeout(now);
        self.pump(clock, tell);
        let machine = &self.machine;
        self.port.guard(now, &|path| machine.has_peer() && machine.uses_path(path));
    }

    pub(super) fn command(&mut self, now: Time, command: M::Command) {
        let now = self.tick(now);
        self.machine.handle_command(now, command);
    }

    pub(super) fn alarm(&mut self, now: Time, alarm: Alarm) {
        let now = self.tick(now);
        self.machine.handle_alarm(now, alarm);
    }

    /// The socket takes datagrams again.
    pub(super) fn unblock(&mut self, clock: &Clock, tell: &mut dyn FnMut(M::Event)) {
        let Some(held) = self.held.take() else { return };
        let sent = match held {
            Some(transmit) => self.port.transmit(transmit, &mut self.buffer),
            None => self.port.flush(),
        };
        match sent {
            Ok(()) => self.pump(clock, tell),
            Err(_) => self.held = Some(held),
        }
    }

    /// Polls transmissions and events until both are empty, and sends.
    pub(super) fn pump(&mut self, clock: &Clock, tell: &mut dyn FnMut(M::Event)) {
        self.poll(clock, tell);
        self.flush();
    }

    /// Polls transmissions and events until both are empty: transmissions once more after an event only, for nothing else
    /// makes new ones. The last transmission may wait for [`Slot::flush`].
    fn poll(&mut self, clock: &Clock, tell: &mut dyn FnMut(M::Event)) {
        let mut left = Driver::<M>::BUDGET;
        loop {
            let now = self.tick(clock.now());
            let mut idle = true;
            while self.held.is_none() && left > 0 {
                let Some(transmit) = self.machine.poll_transmit(now, &mut self.buffer) else { break };
                left -= 1;
                if self.port.transmit(transmit, &mut self.buffer).is_err() {
                    self.held = Some(Some(transmit));
                }
            }
            while let Some(event) = self.machine.poll_event(now) {
                idle = false;
                tell(event);
            }
            self.unfinished = left == 0;
            if idle || self.unfinished {
                return;
            }
        }
    }

    fn flush(&mut self) {
        if self.held.is_none() && self.port.flush().is_err() {
            self.held = Some(None);
        }
    }

    fn tick(&mut self, now: Time) -> Time {
        self.last = now.max(self.last);
        self.last
    }
}
