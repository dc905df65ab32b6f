//! The contract of transports.

use crate::{Bitrate, Bytes, Deadline, DropCause, Duration, Ecn, Origin, PathId, Time};

/// Carries messages between two endpoints. Sans-IO: the driver owns the socket or the simulated link.
///
/// No method has a default: a transport around another one that forgot to hand a call on would lose it in silence.
pub trait Transport {
    /// Offers a message. What cannot be kept is refused now or reported later by [`Event::Dropped`], never lost silently.
    ///
    /// # Errors
    /// See [`SendError`].
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError>;
    /// A datagram arrived.
    fn handle_input(&mut self, now: Time, input: Datagram<'_>);
    /// The deadline has come.
    fn handle_timeout(&mut self, now: Time);
    /// The next datagram to send; its bytes are appended to `buffer`, which the caller has cleared.
    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit>;
    /// What happened.
    fn poll_event(&mut self) -> Option<Event>;
    /// When `handle_timeout` has something to do, and what.
    fn poll_timeout(&self) -> Option<Deadline>;
    /// Says goodbye: what can still be told to the peer leaves by `poll_transmit`, and [`Event::Closed`] follows. A
    /// transport without a connection has nothing to say.
    fn close(&mut self, now: Time);
    /// Gives up what waits, without a word to the peer: [`Event::Dropped`] tells of each message, and nothing but events is asked for
    /// afterwards. For what is around a transport and has no way to the peer any more; one that nothing is around has nothing to do.
    fn abandon(&mut self) {}
    /// A path came into being, such as an interface that is up: may be used from now on. False when there is no use for it:
    /// it is known, there are too many, or this transport has one path and follows its peer by itself.
    fn add_path(&mut self, now: Time, path: PathId) -> bool;
    /// A path is no more: nothing is sent there from now on. A transport of one path has nothing to do.
    fn remove_path(&mut self, now: Time, path: PathId);
    /// What is behind `path` from now on, until the path is removed or told another origin; said before the first datagram from
    /// there. What a transport asked of an address, or gave out there, counts for that address alone, whatever number its path
    /// has. Of a path of which this was not said, nobody else ever has the number. A transport that proves no addresses has
    /// nothing to do.
    fn set_origin(&mut self, path: PathId, origin: Origin);
    /// Is the peer known to be on `path`, so that what has nothing to do with an answer may go there? A driver with a bounded
    /// table of addresses gives the place of one that is not in use to a newcomer, and calls [`Transport::remove_path`] first.
    /// True of any path from a transport that cannot know.
    fn uses_path(&self, path: PathId) -> bool;
    /// Network round trip of one packet, without repetition and without waiting for the window: that of the latest ones.
    /// `None` from a transport whose messages go at once and are never repeated, which tell by themselves, and before the first
    /// measurement.
    fn round_trip(&self) -> Option<Duration>;
    /// What it holds messages to that are not urgent, their headers included, where it holds them to a rate by a law of its own. `None` from one
    /// that takes what it is given, whose window is not a rate, or that has no connection yet.
    fn send_rate(&self) -> Option<Bitrate>;
    /// A number that changes when its peer tells that more of what was sent has arrived, whatever order and repetitions make of that above:
    /// packets, as `tcpi_delivered` of Linux. `None` from one that is told of nothing or cannot say.
    fn delivered(&self) -> Option<u64>;
    /// What, as urgent as samples, waits here until a congestion control lets it go, the transport's own or the kernel's. Asked when
    /// [`Transport::poll_transmit`] has nothing more to give.
    fn waiting(&self) -> Waiting;
}

/// What waits in a transport that is as urgent as samples, which of it counts first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waiting {
    /// Nothing does.
    #[default]
    Nothing,
    /// Samples, until a rate of the transport's own lets the next one go: newer ones take their places, and what is given meanwhile is not in the
    /// network.
    Samples,
    /// One that no newer message replaces. Meanwhile samples are better kept by the caller, who can replace them.
    Irreplaceable,
}

impl Waiting {
    /// Of a transport whose samples do not take each other's place, or of which this is all that waits.
    pub fn irreplaceable(does: bool) -> Self {
        if does { Self::Irreplaceable } else { Self::Nothing }
    }
}

/// How urgent, 0 first. An emergency stop is 0, samples are 1 and 2, everything else comes after: a newer message takes the place
/// of a sample that waits, and of nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(pub u8);

impl Priority {
    /// The least urgent that samples have.
    const LAST_SAMPLE: Self = Self(2);

    /// Is it as urgent as samples, or more?
    pub fn is_sample_or_above(self) -> bool {
        self <= Self::LAST_SAMPLE
    }
}

/// Which of a session's logical streams a message belongs to. Reliable messages of one stream arrive in order; streams
/// do not wait for each other where the transport can keep them apart (QUIC, SCTP), and do over TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u16);

/// What happens when it is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reliability {
    /// It is lost.
    #[default]
    Unreliable,
    /// It is sent again until it arrives or its deadline passes.
    Reliable,
}

/// A message: bytes with an age, a deadline and a priority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The bytes.
    pub data: Vec<u8>,
    /// When the sample in it was made; age counts from here.
    pub created: Time,
    /// The age at which it is worthless. `None`: never.
    pub deadline: Option<Duration>,
    /// The age at which it is to be there, as far as paths and copies are chosen by that; one that comes later is not late. `None`: `deadline`.
    pub wanted: Option<Duration>,
    /// How urgent.
    pub priority: Priority,
    /// Which logical stream it belongs to.
    pub stream: StreamId,
    /// What happens when it is lost.
    pub reliability: Reliability,
    /// The caller's own number for it, returned in events.
    pub tag: u64,
    /// It is a sample of this series, whatever its priority: a newer one of the series takes its place, and none of another series does.
    pub series: Option<u8>,
}

impl Message {
    /// May a newer one take its place? What comes after the samples is a part of something longer, unless it is of a series.
    pub fn is_sample(&self) -> bool {
        let is_sample = self.series.is_some() || self.priority.is_sample_or_above();
        self.reliability == Reliability::Unreliable && is_sample
    }

    /// Is it as urgent as samples, and will no newer message replace it?
    pub fn is_irreplaceable(&self) -> bool {
        self.priority.is_sample_or_above() && !self.is_sample()
    }

    /// Has it reached the age at which it is worthless?
    pub fn is_late(&self, now: Time) -> bool {
        self.deadline.is_some_and(|deadline| now.saturating_since(self.created) >= deadline)
    }
}

/// A datagram as the driver received it.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Over which path.
    pub path: PathId,
    /// How it was marked.
    pub ecn: Ecn,
    /// What was stored of it.
    pub data: &'a [u8],
    /// Zeros that follow `data` on the wire and were not stored; 0 from a real socket.
    pub padding: u32,
}

/// What a [`Transport`] that does not tell paths apart does when they come and go, as methods of its implementation: they are not its
/// business. Whether it uses one it says itself.
#[macro_export]
macro_rules! ignores_paths {
    () => {
        fn add_path(&mut self, _: $crate::Time, _: $crate::PathId) -> bool {
            false
        }
        fn remove_path(&mut self, _: $crate::Time, _: $crate::PathId) {}
        fn set_origin(&mut self, _: $crate::PathId, _: $crate::Origin) {}
    };
}

/// Methods of a [`Transport`] that a wrapper passes on to what it wraps, by their names: none goes by itself.
///
/// ```
/// use taut_core::{Datagram, Event, Message, SendError, Time, Transport, passes_on};
/// struct Counting<T> {
///     inner: T,
///     sent: u64,
/// }
/// impl<T: Transport> Transport for Counting<T> {
///     fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
///         self.sent += 1;
///         self.inner.send(now, message)
///     }
///     passes_on!(self, self.inner => handle_input handle_timeout poll_transmit poll_event poll_timeout close);
///     passes_on!(self, self.inner => add_path remove_path set_origin uses_path round_trip send_rate delivered waiting);
/// }
/// ```
#[macro_export]
macro_rules! passes_on {
    ($self:ident, $inner:expr => $($method:ident)+) => { $($crate::passes_on!(@$method $self, $inner);)+ };
    (@send $self:ident, $inner:expr) => {
        fn send(&mut $self, now: $crate::Time, message: $crate::Message) -> Result<(), $crate::SendError> {
            $inner.send(now, message)
        }
    };
    (@handle_input $self:ident, $inner:expr) => {
        fn handle_input(&mut $self, now: $crate::Time, input: $crate::Datagram<'_>) {
            $inner.handle_input(now, input);
        }
    };
    (@handle_timeout $self:ident, $inner:expr) => {
        fn handle_timeout(&mut $self, now: $crate::Time) {
            $inner.handle_timeout(now);
        }
    };
    (@poll_transmit $self:ident, $inner:expr) => {
        fn poll_transmit(&mut $self, now: $crate::Time, buffer: &mut Vec<u8>) -> Option<$crate::Transmit> {
            $inner.poll_transmit(now, buffer)
        }
    };
    (@poll_event $self:ident, $inner:expr) => {
        fn poll_event(&mut $self) -> Option<$crate::Event> {
            $inner.poll_event()
        }
    };
    (@poll_timeout $self:ident, $inner:expr) => {
        fn poll_timeout(&$self) -> Option<$crate::Deadline> {
            $inner.poll_timeout()
        }
    };
    (@close $self:ident, $inner:expr) => {
        fn close(&mut $self, now: $crate::Time) {
            $inner.close(now);
        }
    };
    (@abandon $self:ident, $inner:expr) => {
        fn abandon(&mut $self) {
            $inner.abandon();
        }
    };
    (@add_path $self:ident, $inner:expr) => {
        fn add_path(&mut $self, now: $crate::Time, path: $crate::PathId) -> bool {
            $inner.add_path(now, path)
        }
    };
    (@remove_path $self:ident, $inner:expr) => {
        fn remove_path(&mut $self, now: $crate::Time, path: $crate::PathId) {
            $inner.remove_path(now, path);
        }
    };
    (@set_origin $self:ident, $inner:expr) => {
        fn set_origin(&mut $self, path: $crate::PathId, origin: $crate::Origin) {
            $inner.set_origin(path, origin);
        }
    };
    (@uses_path $self:ident, $inner:expr) => {
        fn uses_path(&$self, path: $crate::PathId) -> bool {
            $inner.uses_path(path)
        }
    };
    (@round_trip $self:ident, $inner:expr) => {
        fn round_trip(&$self) -> Option<$crate::Duration> {
            $inner.round_trip()
        }
    };
    (@send_rate $self:ident, $inner:expr) => {
        fn send_rate(&$self) -> Option<$crate::Bitrate> {
            $inner.send_rate()
        }
    };
    (@delivered $self:ident, $inner:expr) => {
        fn delivered(&$self) -> Option<u64> {
            $inner.delivered()
        }
    };
    (@waiting $self:ident, $inner:expr) => {
        fn waiting(&$self) -> $crate::Waiting {
            $inner.waiting()
        }
    };
}

/// Makes a type that is one of several transports a [`Transport`]: it says which one by `fn whichever(&self) -> &dyn Transport` and
/// `fn whichever_mut`, and each call goes there at once, however many types are between.
#[macro_export]
macro_rules! dispatch_transport {
    ($any:ty) => {
        impl $crate::Transport for $any {
            $crate::passes_on!(self, self.whichever_mut() => send handle_input handle_timeout poll_transmit poll_event);
            $crate::passes_on!(self, self.whichever_mut() => close abandon add_path remove_path set_origin);
            $crate::passes_on!(self, self.whichever() => poll_timeout uses_path round_trip send_rate delivered waiting);
        }
    };
}

/// A datagram to send: the bytes are in the caller's buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transmit {
    /// Over which path.
    pub path: PathId,
    /// How to mark it.
    pub ecn: Ecn,
    /// Zeros that follow the bytes on the wire; a driver with a real socket appends them.
    pub padding: u32,
}

/// What a transport has to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Messages may flow both ways.
    Connected,
    /// A message arrived.
    Received {
        /// Its bytes.
        data: Vec<u8>,
        /// Over which path.
        path: PathId,
        /// On which logical stream; 0 from a transport that carries only one.
        stream: StreamId,
    },
    /// A message that was offered here will not arrive.
    Dropped {
        /// The caller's number for it.
        tag: u64,
        /// Why.
        cause: DropCause,
    },
    /// A datagram that arrived was of no use.
    Refused(DropCause),
    /// A number that moves, for plots.
    Gauge {
        /// Which, with its unit.
        name: &'static str,
        /// Its new value.
        value: f64,
    },
    /// A path can be used.
    PathUp(PathId),
    /// A path cannot be used any more.
    PathDown(PathId),
    /// Nothing flows any more.
    Closed,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The send buffer is full; it holds this much.
    #[error("the send buffer of {0} is full")]
    BufferFull(Bytes),
    /// The message is longer than this transport carries.
    #[error("a message of {size} is longer than this transport carries ({limit})")]
    TooLarge {
        /// Its length.
        size: Bytes,
        /// The longest that is carried.
        limit: Bytes,
    },
    /// It is older than its deadline already.
    #[error("older than its deadline")]
    TooLate,
    /// The transport is closed.
    #[error("closed")]
    Closed,
}

impl SendError {
    /// The same as the cause of a drop, for a message that was taken before somebody below refused it.
    pub const fn cause(self) -> DropCause {
        match self {
            Self::BufferFull(_) => DropCause::SendBufferFull,
            Self::TooLarge { .. } => DropCause::TooBig,
            Self::TooLate => DropCause::TooLate,
            Self::Closed => DropCause::Abandoned,
        }
    }
}
