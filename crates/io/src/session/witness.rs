//! Who looks on: everything that a session does and carries, for measurements.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use taut_core::{Event, StreamId, Time};
use taut_session::{ClockEstimate, OperatorEvent, RobotEvent, State, StateError};

/// What is seen of one end of a session.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// The transport took a message.
    Sent {
        /// The sender's number for it.
        tag: u64,
        /// Where it goes.
        stream: StreamId,
    },
    /// The transport told something: a message arrived, it is connected.
    Transport(&'a Event),
    /// The device made a state, and this is its number or why it was not taken.
    Made(&'a State, Result<u64, StateError>),
    /// The device makes no more.
    DeviceDone,
    /// Resume was pressed, and is on its way.
    ResumePressed,
    /// The emergency stop was pressed while so many states waited.
    StopPressed {
        /// States.
        waiting: usize,
    },
    /// The operator's session told something.
    Operator(&'a OperatorEvent),
    /// The robot's session told something; what it knows of the operator's clock.
    Robot(&'a RobotEvent, Option<ClockEstimate>),
    /// The robot measured this, and this is its number or why it was not taken.
    Feedback(&'a State, Result<u64, StateError>),
}

/// Looks on. It is called on the driver's thread, between a datagram and its answer: what takes long makes that late.
pub trait Look: Send {
    /// At `now`, by the driver's clock, this was seen.
    fn look(&mut self, now: Time, seen: Seen<'_>);
}

/// Somebody who looks on, shared between an endpoint, its conversations and their machines.
#[derive(Clone)]
pub struct Witness(Arc<Mutex<dyn Look>>);

impl Witness {
    /// Shared with whoever holds the same `Arc`. While others hold its lock, the session waits.
    pub fn new(look: Arc<Mutex<dyn Look>>) -> Self {
        Self(look)
    }

    pub(super) fn look(&self, now: Time, seen: Seen<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).look(now, seen);
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Witness").finish_non_exhaustive()
    }
}
