//! Who looks on: everything that a session does and carries, for measurements, records and tests.

use std::collections::VecDeque;
use std::fmt;

use taut_core::{Event, Message, SendError, StreamId, Time, Transport, passes_on};
use taut_session::{ChannelId, ClockEstimate, OperatorEvent, RobotEvent, SendRefused, State, StateError};

use crate::Measured;

/// What is seen of one end of a session.
#[derive(Clone, Copy, Debug)]
pub enum Observed<'a> {
    /// The transport took a message.
    Sent {
        /// The sender's number for it.
        tag: u64,
        /// Where it goes.
        stream: StreamId,
    },
    /// The transport told something: a message arrived, it is connected.
    Transport(&'a Event),
    /// The operator's device made a state, and this is its number or why it was not taken. Comes before it is sent.
    Made(&'a State, Result<u64, StateError>),
    /// The operator's device makes no more.
    DeviceDone,
    /// Resume was pressed, and is on its way.
    ResumePressed,
    /// The emergency stop was pressed while so many states waited.
    StopPressed {
        /// States.
        waiting: usize,
    },
    /// A message was made for a channel of this end's; its number or why it was not taken. Comes before it is sent.
    Message {
        /// Which channel.
        channel: ChannelId,
        /// Its bytes.
        payload: &'a [u8],
        /// That.
        taken: Result<u64, SendRefused>,
    },
    /// The operator's session told something.
    Operator(&'a OperatorEvent),
    /// The robot's session told something; what it knows of the operator's clock.
    Robot(&'a RobotEvent, Option<ClockEstimate>),
    /// The robot's device measured this.
    Measured(&'a Measured),
    /// Of that, this goes back to the operator; its number or why it was not taken.
    Feedback(&'a State, Result<u64, StateError>),
}

/// Looks on. It is called by the agent, between a datagram and its answer: what takes long makes that late.
pub trait SessionObserver {
    /// At `now`, by the agent's clock, this was seen.
    fn on_event(&mut self, now: Time, event: Observed<'_>);
    /// Is it shown each message, too: [`Observed::Sent`] and [`Event::Received`]? Of every one that arrives that costs a copy.
    fn reads_messages(&self) -> bool;
}

impl<O: SessionObserver + ?Sized> SessionObserver for Box<O> {
    fn on_event(&mut self, now: Time, event: Observed<'_>) {
        (**self).on_event(now, event);
    }
    fn reads_messages(&self) -> bool {
        (**self).reads_messages()
    }
}

/// An observer, or nobody.
#[derive(Default)]
pub(crate) struct Eye(Option<Box<dyn SessionObserver>>);

impl Eye {
    pub(crate) fn new(observer: Box<dyn SessionObserver>) -> Self {
        Self(Some(observer))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    fn reads_messages(&self) -> bool {
        self.0.as_ref().is_some_and(|observer| observer.reads_messages())
    }

    #[inline]
    pub(crate) fn show(&mut self, now: Time, event: Observed<'_>) {
        if let Some(observer) = &mut self.0 {
            observer.on_event(now, event);
        }
    }

    /// Shows what went through the transport meanwhile.
    pub(crate) fn show_all<T>(&mut self, now: Time, transport: &mut Watched<T>) {
        while let Some(seen) = transport.seen.pop_front() {
            match &seen {
                Passed::Sent { tag, stream } => self.show(now, Observed::Sent { tag: *tag, stream: *stream }),
                Passed::Told(event) => self.show(now, Observed::Transport(event)),
            }
        }
    }
}

impl fmt::Debug for Eye {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Eye").field(&self.is_open()).finish()
    }
}

#[derive(Debug)]
enum Passed {
    Sent { tag: u64, stream: StreamId },
    Told(Event),
}

/// The transport of an agent, which remembers what goes through it until the agent has shown that to its observer: after every
/// verb, so that it stays short. Where nobody looks on, nothing is remembered.
#[derive(Debug)]
pub struct Watched<T> {
    transport: T,
    watched: bool,
    reads_messages: bool,
    seen: VecDeque<Passed>,
}

impl<T> Watched<T> {
    /// A transport without who looks on.
    pub fn new(transport: T) -> Self {
        Self { transport, watched: false, reads_messages: false, seen: VecDeque::new() }
    }

    pub(crate) fn watch(&mut self, eye: &Eye) {
        (self.watched, self.reads_messages) = (eye.is_open(), eye.reads_messages());
    }

    pub(crate) fn seen_by(transport: T, eye: &Eye) -> Self {
        let mut watched = Self::new(transport);
        watched.watch(eye);
        watched
    }

    /// Apart from where it is asked, for mostly nothing came.
    #[inline(never)]
    fn remember(&mut self, event: &Event) {
        if self.reads_messages || !matches!(event, Event::Received { .. }) {
            self.seen.push_back(Passed::Told(event.clone()));
        }
    }

    pub(crate) fn has_seen(&self) -> bool {
        !self.seen.is_empty()
    }

    /// The transport.
    pub fn inner(&self) -> &T {
        &self.transport
    }

    /// The transport, for what the contract does not have.
    pub fn inner_mut(&mut self) -> &mut T {
        &mut self.transport
    }

    pub(crate) fn into_inner(self) -> T {
        self.transport
    }
}

impl<T: Transport> Transport for Watched<T> {
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        let sent = Passed::Sent { tag: message.tag, stream: message.stream };
        self.transport.send(now, message)?;
        self.seen.extend(self.reads_messages.then_some(sent));
        Ok(())
    }
    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        let event = self.transport.poll_event()?;
        if self.watched {
            self.remember(&event);
        }
        Some(event)
    }
    passes_on!(self, self.transport => handle_input handle_timeout poll_transmit poll_timeout close);
    passes_on!(self, self.transport => add_path remove_path set_origin uses_path round_trip send_rate delivered waiting);
}
