//! What the operator says: hellos, commands, states; and what becomes of the states.

use taut_core::{Deadline, DropCause, Duration, Reliability, Time, Transport};
use taut_wire::session::{self as wire, Body, Hello, Limits, RobotState, Role, StopCause};

use super::{Operator, OperatorEvent, Phase};
use crate::codec::Codec;
use crate::command::Kind;
use crate::counters::stream_of;
use crate::port::{NO_TAG, Parcel, channel_number};
use crate::sending::{Dropped, Pace, QueuedState};
use crate::window::Window;

/// Copies of an emergency stop after which the operator is told that nobody answers.
const UNANSWERED: u32 = 10;
/// A reset or resume that was not answered for so long is given up: nobody expects the robot to move any more.
const RESUME_PATIENCE: Duration = Duration::from_secs(1);
/// An early hello is worthless when it does not leave at once.
const EARLY: Duration = Duration::from_millis(5);
/// The longest time between two hellos.
const HELLO_LONGEST: Duration = Duration::from_secs(1);

/// Feedback that arrived and of which the robot was not told.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// The newest, and when it came.
    newest: Option<(u64, Time)>,
    /// Bit *i*: that of its number − 1 − *i* arrived.
    seen: u32,
    /// What has come since the robot was told last.
    untold: u32,
    due: Option<Time>,
}

/// The robot is told of feedback in the next state, or after so long in a frame of its own; and of no more at a time than can be told
/// once more in the next one.
const TELL_WITHIN: Duration = Duration::from_millis(10);
const TELL_EVERY: u32 = 16;

impl Arrivals {
    /// Feedback of this number came, newer than all before or not; `window` has it.
    pub(super) fn record(&mut self, now: Time, sequence: u64, window: &Window) {
        let newest = self.newest.filter(|newest| newest.0 > sequence).unwrap_or((sequence, now));
        self.newest = Some(newest);
        self.seen = window.before(newest.0) as u32;
        self.untold += 1;
        let due = if self.untold >= TELL_EVERY { now } else { now + TELL_WITHIN };
        self.due = Some(self.due.map_or(due, |known| known.min(due)));
    }

    fn is_due(&self, now: Time) -> bool {
        self.due.is_some_and(|due| now >= due)
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.due.map(|due| Deadline::new(due, "acknowledgement"))
    }

    /// What the robot is to be told now, if anything is new.
    fn take(&mut self, now: Time) -> Option<wire::Arrivals> {
        self.due.take()?;
        self.untold = 0;
        let (sequence, came) = self.newest?;
        Some(wire::Arrivals {
            sequence: sequence as u16,
            received_us: (came.as_nanos() / 1_000) as u32,
            held_us: now.saturating_since(came).as_micros_u32().min(u16::MAX.into()) as u16,
            seen: self.seen,
        })
    }
}

impl<T: Transport> Operator<T> {
    /// Before the transport is connected, once: where it has early data (QUIC's 0-RTT), the hello travels in its first
    /// packet. A hello may be repeated by anybody: it moves nothing. Elsewhere it grows too late and is dropped.
    pub(super) fn greet_early(&mut self, now: Time) {
        if self.greeted.is_none() && self.config.codec == Codec::Native {
            self.greeted = Some(now);
            let parcel = Parcel { deadline: Some(EARLY), ..Parcel::passing(now, 1) };
            let _ = self.port.send(now, &Body::Hello(self.hello()), parcel);
        }
    }

    pub(super) fn greet(&mut self, now: Time) {
        if now < self.next_hello {
            return;
        }
        self.greeted.get_or_insert(now);
        let hello = self.hello();
        // A transport that cannot take it now is asked again.
        let _ = self.port.send(now, &Body::Hello(hello), Parcel::urgent(now));
        let wait = self.round_trip.timeout().saturating_mul(1 << self.hellos.min(4));
        self.hellos = self.hellos.saturating_add(1);
        self.next_hello = now + wait.min(HELLO_LONGEST);
    }

    pub(super) fn hello(&self) -> Hello {
        Hello {
            role: Role::Operator,
            state: RobotState::Disabled,
            cause: StopCause::Start,
            epoch: 0,
            rate_mhz: self.config.rate.saturating_mul(1_000),
            watchdog_us: self.config.feedback_watchdog.as_micros_u32(),
            max_age_us: 0,
            deadline_us: self.config.deadline.map_or(0, |deadline| deadline.as_micros_u32().max(1)),
            hold_to_run: false,
            turns: self.config.turns,
            law: self.config.control_law,
            limits: Limits::default(),
            channels: self.sending.channels.declarations(),
        }
    }

    /// Nobody answers a reset or a resume any more. An emergency stop goes on.
    pub(super) fn give_command_up(&mut self) {
        let Some(pending) = self.command.take_if(|pending| pending.kind != Kind::EmergencyStop) else {
            return;
        };
        self.events.push_back(match pending.kind {
            Kind::Reset => OperatorEvent::ResetRefused { answer: None },
            _ => OperatorEvent::ResumeRefused { answer: None, age: Duration::ZERO },
        });
    }

    pub(super) fn repeat_command(&mut self, now: Time) {
        if self.phase != Phase::Open {
            return;
        }
        let Some(pending) = &mut self.command else { return };
        let kind = pending.kind;
        if kind != Kind::EmergencyStop && now.saturating_since(pending.created) >= RESUME_PATIENCE {
            return self.give_command_up();
        }
        let Some(command) = pending.poll(now, self.round_trip.timeout()) else { return };
        let copies = pending.copies();
        if kind == Kind::EmergencyStop && copies == UNANSWERED {
            self.events.push_back(OperatorEvent::EmergencyStopUnanswered);
        }
        let body = match kind {
            Kind::EmergencyStop => Body::EmergencyStop(command),
            Kind::Reset => Body::Reset(command),
            Kind::Resume => Body::Resume(command),
        };
        // Copies are the session's own repetitions. Where the transport can, they do not wait in its stream for the first,
        // which may be lost.
        let parcel = match copies {
            1 => Parcel::urgent(now),
            _ => Parcel { reliability: Reliability::Unreliable, ..Parcel::urgent(now) },
        };
        // A transport that cannot take it now gets the next copy.
        let _ = self.port.send(now, &body, parcel);
    }

    /// A state of priority emergency goes at once; false: the transport did not take it.
    pub(super) fn transmit_urgent(&mut self, now: Time, item: &QueuedState) -> bool {
        let taken = self.sending.transmit(now, &mut self.port, item, 0, Body::State);
        self.counters.stream(0).sent += u64::from(taken);
        taken
    }

    /// Sends what may go, and tells what became of what went.
    pub(super) fn pump(&mut self, now: Time) {
        let pace = || Pace { rtt: self.round_trip.at_best(), timeout: self.round_trip.timeout() };
        let (arrivals, counters) = (&mut self.arrivals, &mut self.counters);
        let body = |state| match arrivals.take(now) {
            Some(taken) => Body::AcknowledgingState(state, taken),
            None => Body::State(state),
        };
        self.sending.pump(now, &mut self.port, pace, body, |stream| counters.stream(stream).sent += 1);
        if arrivals.is_due(now)
            && let Some(taken) = arrivals.take(now)
        {
            let _ = self.port.send(now, &Body::Arrivals(taken), Parcel::passing(now, 1));
        }
        let patience = self.round_trip.timeout().saturating_mul(2);
        if self.sending.is_overdue(now, patience) {
            self.sending.give_up(now, patience);
        }
        if self.sending.has_outcomes() {
            self.account_all(now);
        }
    }

    /// It is known what became of some states.
    pub(super) fn account_all(&mut self, now: Time) {
        let Self { sending, counters, adapter, events, .. } = self;
        let mut changed = false;
        for outcome in sending.outcomes() {
            let stream = counters.stream(outcome.stream);
            match (outcome.delivered, outcome.late) {
                (true, false) => stream.delivered += 1,
                (true, true) => {
                    stream.delivered += 1;
                    stream.late += 1;
                    stream.lost -= 1;
                    continue;
                }
                (false, _) => stream.lost += 1,
            }
            if adapter.record(now, outcome.sent, outcome.delivered) {
                events.push_back(OperatorEvent::Rate { hz: adapter.hz() });
                changed = true;
            }
        }
        if changed {
            self.sending.set_interval(self.adapter.interval(), self.adapter.is_reduced());
        }
    }

    pub(super) fn compare_clocks(&mut self, now: Time) {
        if self.config.codec == Codec::Native
            && let Some(request) = self.sync.poll(now)
        {
            let _ = self.port.send(now, &Body::ClockRequest(request), Parcel::passing(now, 1));
        }
    }

    pub(super) fn report_drops(&mut self) {
        if !self.sending.has_dropped() {
            return;
        }
        for Dropped { sequence, priority, cause } in self.sending.dropped() {
            self.counters.stream(stream_of(priority)).dropped.add(cause);
            self.events.push_back(OperatorEvent::Dropped { sequence, cause });
        }
    }

    /// The transport dropped a message.
    pub(super) fn dropped_by_transport(&mut self, now: Time, tag: u64, cause: DropCause) {
        if let Some(number) = channel_number(tag) {
            return self.sending.data_dropped_by_transport(now, number, cause);
        }
        if tag == NO_TAG {
            return;
        }
        if let Some(stream) = self.sending.dropped_by_transport(tag) {
            let stream = self.counters.stream(stream);
            stream.sent -= 1;
            stream.dropped.add(cause);
            self.events.push_back(OperatorEvent::Dropped { sequence: tag, cause });
        }
    }
}
