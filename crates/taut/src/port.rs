//! One end of a channel, between the user's handle and the session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use taut_session::motion::Motion;
use taut_session::{ChannelEvent, ChannelKind, Direction};

use crate::channel::Channel;
use crate::error::{Error, SendError};
use crate::message::{Message, Schema};
use crate::queue::Queue;

/// Messages or events that wait for their reader at most.
pub(crate) const WAITING: usize = 256;
/// Of what comes in order: a message that is late holds up all behind it, 512 at most, and then the session gives them on at once.
const WAITING_IN_ORDER: usize = 1_024;
/// But of those beyond the first 256 no more bytes than so many of the longest: twice what the session holds up.
const WAITING_LARGEST: usize = 16;

/// Hands a payload to the session; false when it does not keep up.
pub(crate) type Outlet = Box<dyn Fn(Vec<u8>) -> bool + Send + Sync>;

/// One end of a channel, shared by a handle and the session.
pub(crate) struct Port {
    pub(crate) channel: Channel,
    schema: Schema,
    /// This end does.
    pub(crate) sends: bool,
    taken: AtomicBool,
    state: Mutex<State>,
    outlet: OnceLock<Outlet>,
    pub(crate) came: Queue<Vec<u8>>,
}

#[derive(Clone, Debug)]
enum State {
    NotStarted,
    Waits,
    Open,
    Refused(String),
    Ended,
}

impl Port {
    pub(crate) fn new(channel: Channel, schema: Schema, sends: bool) -> Arc<Self> {
        Arc::new(Self {
            channel,
            schema,
            sends,
            taken: AtomicBool::new(false),
            state: Mutex::new(State::NotStarted),
            outlet: OnceLock::new(),
            came: Queue::weighed(WAITING, Vec::len),
        })
    }

    /// As it is declared by the end that sends `direction`.
    pub(crate) fn declared(&self, sends: Direction) -> taut_session::Channel {
        let receives = if sends == Direction::ToRobot { Direction::ToOperator } else { Direction::ToRobot };
        self.channel.declared(&self.schema, if self.sends { sends } else { receives })
    }

    /// It belongs to one session.
    pub(crate) fn take(&self) -> Result<(), Error> {
        if self.taken.swap(true, Ordering::AcqRel) {
            let why = format!("`{}` is used already: make another sender or receiver", self.channel.name);
            return Err(Error::invalid("channel", why));
        }
        Ok(())
    }

    pub(crate) fn moves(&self) -> bool {
        self.channel.kind == ChannelKind::Motion
    }

    pub(crate) fn start(&self, outlet: Outlet) {
        let _ = self.outlet.set(outlet); // It is taken once.
        self.set(State::Waits);
    }

    /// What its payload moves; `None`: nothing, or a number in it is not finite.
    pub(crate) fn motion(&self, payload: &[u8]) -> Option<Motion> {
        let schema = taut_session::motion::Schema::from_name(self.schema.name())?;
        Motion::parse(schema, payload).ok().filter(Motion::is_finite)
    }

    /// No more may wait for the reader.
    fn is_full(&self, waiting: usize, bytes: usize) -> bool {
        waiting >= WAITING
            && (!self.channel.is_in_order()
                || waiting >= WAITING_IN_ORDER
                || bytes > WAITING_LARGEST * self.channel.largest)
    }

    fn set(&self, state: State) {
        let mut known = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*known, State::Ended) {
            *known = state;
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state(), State::Open)
    }

    fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn send<M: Message>(&self, message: &M) -> Result<(), SendError> {
        let name = || self.channel.name.clone();
        match self.state() {
            State::NotStarted => return Err(SendError::NotStarted(name())),
            State::Waits => return Err(SendError::NotConnected(name())),
            State::Refused(why) => return Err(SendError::Refused { channel: name(), why }),
            State::Ended => return Err(SendError::Ended),
            State::Open => {}
        }
        let mut payload = Vec::new();
        message.encode(&mut payload).map_err(|error| SendError::Unwritable(error.to_string()))?;
        let (bytes, largest) = (payload.len(), self.channel.largest);
        if bytes > largest {
            return Err(SendError::TooLarge { channel: name(), bytes, largest });
        }
        if self.moves() && self.motion(&payload).is_none() {
            return Err(SendError::Unwritable("it is no motion, or a number in it is not finite".to_owned()));
        }
        let taken = self.outlet.get().is_some_and(|outlet| outlet(payload));
        if taken { Ok(()) } else { Err(SendError::Full) }
    }
}

/// The ends of all channels of a session, by their number there; `None`: a device's.
#[derive(Default)]
pub(crate) struct Ports(pub(crate) Vec<Option<Arc<Port>>>);

impl Ports {
    fn get(&self, at: u8) -> Option<&Port> {
        self.0.get(usize::from(at))?.as_deref()
    }

    fn all(&self) -> impl Iterator<Item = &Port> {
        self.0.iter().flatten().map(|port| &**port)
    }

    /// Passes on what a channel has to tell; gives the name of one that stays closed, and why.
    pub(crate) fn notice(&self, event: &ChannelEvent, motion: &[String]) -> Option<(String, String)> {
        match event {
            ChannelEvent::Opened { channel } => self.get(channel.0)?.set(State::Open),
            ChannelEvent::Received { channel, payload, .. } => {
                let port = self.get(channel.0)?;
                port.came.push_unless(payload.clone(), |waiting, bytes| port.is_full(waiting, bytes));
            }
            ChannelEvent::Refused { channel, why } => {
                let why = why.to_string();
                let Some(port) = self.get(channel.0) else {
                    return motion.get(usize::from(channel.0)).map(|name| (name.clone(), why));
                };
                port.set(State::Refused(why.clone()));
                return Some((port.channel.name.clone(), why));
            }
            _ => {}
        }
        None
    }

    pub(crate) fn disconnected(&self) {
        self.all().for_each(|port| port.set(State::Waits));
    }

    pub(crate) fn end(&self) {
        for port in self.all() {
            port.set(State::Ended);
            port.came.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use taut_session::ChannelId;

    use super::*;

    /// How many of so many messages, which the session gives on at once, are there when their reader comes.
    fn waiting(channel: Channel, count: usize, bytes: usize) -> usize {
        let port = Port::new(channel, <Vec<u8> as Message>::SCHEMA, false);
        let ports = Ports(vec![Some(Arc::clone(&port))]);
        for sequence in 0..count as u64 {
            let (channel, payload) = (ChannelId(0), vec![0; bytes]);
            ports.notice(&ChannelEvent::Received { channel, sequence, age: None, payload }, &[]);
        }
        let mut taken = 0;
        while port.came.try_pop().is_ok() {
            taken += 1;
        }
        assert_eq!(port.came.dropped(), (count - taken) as u64);
        taken
    }

    #[test]
    fn as_many_in_order_wait_as_one_that_was_late_held_up_and_no_more_bytes_than_that() {
        assert_eq!(waiting(Channel::command("jobs"), 600, 100), 600);
        assert_eq!(
            waiting(Channel::telemetry("heat").delivery(taut_session::Delivery::Reliable), 600, 100),
            600
        );
        assert_eq!(waiting(Channel::command("jobs"), 2_000, 100), WAITING_IN_ORDER);
        assert_eq!(waiting(Channel::command("jobs").largest(100), 600, 100), WAITING);
        assert_eq!(waiting(Channel::telemetry("heat"), 600, 100), WAITING);
    }

    #[test]
    fn long_messages_that_follow_many_short_ones_push_out_as_many_bytes() {
        let largest = 100;
        let port = Port::new(Channel::command("jobs").largest(largest), <Vec<u8> as Message>::SCHEMA, false);
        let ports = Ports(vec![Some(Arc::clone(&port))]);
        for sequence in 0..2 * 1_023 {
            let (channel, payload) = (ChannelId(0), vec![0; if sequence < 1_023 { 1 } else { largest }]);
            ports.notice(&ChannelEvent::Received { channel, sequence, age: None, payload }, &[]);
        }
        let waiting = std::iter::from_fn(|| port.came.try_pop().ok()).count();
        assert_eq!((waiting, port.came.dropped()), (WAITING, 2 * 1_023 - WAITING as u64));
    }
}
