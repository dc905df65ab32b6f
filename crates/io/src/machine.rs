//! What a driver drives.

use taut_core::{Datagram, Deadline, Event, Message, Origin, PathId, Time, Transmit, Transport};

use crate::Alarm;

/// A state machine with the five verbs of [`taut_core`], two more for the world outside its thread, and no input or
/// output of its own: a transport, a session, or an application around one.
///
/// The [`Driver`](crate::Driver) calls a `handle_*` verb, then `poll_transmit` and `poll_event` until both are empty in
/// one and the same round (an application may answer an event, inside `poll_event`, by sending), then `poll_timeout`.
///
/// [`Plain`] makes a machine of every [`Transport`]. It is a wrapper, and not an implementation for all transports, so
/// that types of other crates can be machines too without being transports.
pub trait Machine {
    /// What is asked of it from outside its thread.
    type Command;
    /// What it tells.
    type Event;

    /// A datagram arrived, at `now`: where the port is told to (see
    /// [`UdpPortConfig::kernel_stamps`](crate::UdpPortConfig::kernel_stamps)), when the kernel received it.
    fn handle_input(&mut self, now: Time, input: Datagram<'_>);
    /// The deadline has come, or the descriptor of a machine that owns its socket is ready.
    fn handle_timeout(&mut self, now: Time);
    /// Somebody outside asks for something.
    fn handle_command(&mut self, now: Time, command: Self::Command);
    /// Stop at once, if there is something that moves: the emergency button, ahead of every command. There is no default,
    /// so that a machine around another one cannot forget to pass it on.
    fn handle_alarm(&mut self, now: Time, alarm: Alarm);
    /// Would `command`, sent before an alarm and taken after it, let go of it? Then it is not taken.
    fn alarm_voids(command: &Self::Command) -> bool;
    /// The next datagram to send; its bytes are appended to `buffer`, which is empty.
    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit>;
    /// What happened.
    fn poll_event(&mut self, now: Time) -> Option<Self::Event>;
    /// When `handle_timeout` has something to do, and what.
    fn poll_timeout(&self) -> Option<Deadline>;
    /// See [`Transport::uses_path`]. Default: every one.
    fn uses_path(&self, _path: PathId) -> bool {
        true
    }
    /// Does it speak with somebody who proved who he is, so that [the paths that it uses](Self::uses_path) are his? Default: no, and nobody is kept out for anybody
    /// else.
    fn has_peer(&self) -> bool {
        false
    }
    /// See [`Transport::remove_path`]: the number of the path is another address's from now on.
    fn remove_path(&mut self, _now: Time, _path: PathId) {}
    /// See [`Transport::set_origin`].
    fn set_origin(&mut self, _path: PathId, _origin: Origin) {}
}

/// A transport by itself as a [`Machine`]: messages in, its events out. A message that it refuses at once is reported as
/// [`Event::Dropped`].
#[derive(Debug)]
pub struct Plain<T> {
    transport: T,
    refused: Option<Event>,
}

impl<T: Transport> Plain<T> {
    /// A machine that is `transport` and nothing more.
    pub const fn new(transport: T) -> Self {
        Self { transport, refused: None }
    }

    /// The transport.
    pub const fn transport(&self) -> &T {
        &self.transport
    }

    /// The transport, to call it directly; the driver notices at its next turn.
    pub const fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }
}

impl<T: Transport> Machine for Plain<T> {
    type Command = Message;
    type Event = Event;

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.transport.handle_input(now, input);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.transport.handle_timeout(now);
    }

    fn handle_command(&mut self, now: Time, message: Message) {
        let tag = message.tag;
        if let Err(error) = self.transport.send(now, message) {
            self.refused = Some(Event::Dropped { tag, cause: error.cause() });
        }
    }

    /// Nothing moves here.
    fn handle_alarm(&mut self, _now: Time, _alarm: Alarm) {}

    fn alarm_voids(_: &Message) -> bool {
        false
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.transport.poll_transmit(now, buffer)
    }

    fn poll_event(&mut self, _now: Time) -> Option<Event> {
        self.refused.take().or_else(|| self.transport.poll_event())
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.transport.poll_timeout()
    }

    fn uses_path(&self, path: PathId) -> bool {
        self.transport.uses_path(path)
    }

    fn remove_path(&mut self, now: Time, path: PathId) {
        self.transport.remove_path(now, path);
    }

    fn set_origin(&mut self, path: PathId, origin: Origin) {
        self.transport.set_origin(path, origin);
    }
}
