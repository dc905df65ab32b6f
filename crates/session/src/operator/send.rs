//! What the operator says: hellos, commands, states; and what becomes of the states.

use taut_core::{DropCause, Duration, Reliability, Time, Transport};
use taut_wire::session::{Body, Hello, Limits, RobotState, Role, StopCause};

use super::{Operator, OperatorEvent, Phase};
use crate::codec::Codec;
use crate::command::Kind;
use crate::counters::stream_of;
use crate::port::{NO_TAG, Parcel, channel_number};
use crate::queue::{Dropped, Waiting};
use crate::state::Priority;
use crate::tracker::Outcome;

/// Copies of an emergency stop after which the operator is told that nobody answers.
const UNANSWERED: u32 = 10;
/// A reset or resume that was not answered for so long is given up: nobody expects the robot to move any more.
const RESUME_PATIENCE: Duration = Duration::from_secs(1);
/// An early hello is worthless when it does not leave at once.
const EARLY: Duration = Duration::from_millis(5);
/// The longest time between two hellos.
const HELLO_LONGEST: Duration = Duration::from_secs(1);

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
            limits: Limits::default(),
            channels: self.channels.declarations(),
        }
    }

    pub(super) fn repeat_command(&mut self, now: Time) {
        if self.phase != Phase::Open {
            return;
        }
        let Some(pending) = &mut self.command else { return };
        let kind = pending.kind;
        if kind != Kind::EmergencyStop && now.saturating_since(pending.created) >= RESUME_PATIENCE {
            self.command = None;
            return self.events.push_back(match kind {
                Kind::Reset => OperatorEvent::ResetRefused { answer: None },
                _ => OperatorEvent::ResumeRefused { answer: None, age: Duration::ZERO },
            });
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

    pub(super) fn transmit(&mut self, now: Time, item: &Waiting, stream: u8) {
        let Waiting { sequence, state, .. } = *item;
        let wire = state.to_wire(now, sequence, stream, self.config.deadline);
        let urgent = self.config.reliable || state.priority == Priority::Emergency;
        let parcel = Parcel {
            stream,
            reliability: if urgent { Reliability::Reliable } else { Reliability::Unreliable },
            created: state.created,
            deadline: self.config.deadline,
            tag: sequence,
        };
        match self.port.send(now, &Body::State(wire), parcel) {
            Ok(()) => {
                self.counters.stream(stream).sent += 1;
                // What is urgent waits for no window, but is under way like the rest.
                let number = self.flight.sent(now);
                if let Some(outcome) = self.tracker.sent(now, (sequence, number), wire.created_ns, stream) {
                    self.account(now, outcome);
                }
            }
            Err(error) => {
                self.flight.refused();
                self.dropped.push(item.dropped(error.cause()));
            }
        }
    }

    pub(super) fn compare_clocks(&mut self, now: Time) {
        if self.config.codec == Codec::Native
            && let Some(request) = self.sync.poll(now)
        {
            let _ = self.port.send(now, &Body::ClockRequest(request), Parcel::passing(now, 1));
        }
    }

    pub(super) fn give_up(&mut self, now: Time) {
        let patience = self.round_trip.timeout().saturating_mul(2);
        while let Some(outcome) = self.tracker.give_up(now, patience) {
            self.account(now, outcome);
        }
    }

    /// It is known what became of a state.
    pub(super) fn account(&mut self, now: Time, outcome: Outcome) {
        let stream = self.counters.stream(outcome.stream);
        match (outcome.delivered, outcome.late) {
            (true, false) => stream.delivered += 1,
            (true, true) => {
                stream.delivered += 1;
                stream.late += 1;
                stream.lost -= 1;
                return;
            }
            (false, _) => stream.lost += 1,
        }
        if self.adapter.record(now, outcome.sent, outcome.delivered) {
            self.outbox.set_interval(self.adapter.interval(), self.adapter.is_reduced());
            self.events.push_back(OperatorEvent::Rate { hz: self.adapter.hz() });
        }
    }

    pub(super) fn report_drops(&mut self) {
        for Dropped { sequence, priority, cause } in self.dropped.drain(..) {
            self.counters.stream(stream_of(priority)).dropped.add(cause);
            self.events.push_back(OperatorEvent::Dropped { sequence, cause });
        }
    }

    /// The transport dropped a message.
    pub(super) fn dropped_by_transport(&mut self, tag: u64, cause: DropCause) {
        if let Some(number) = channel_number(tag) {
            return self.channels.dropped(number);
        }
        if tag == NO_TAG {
            return;
        }
        if let Some(stream) = self.tracker.dropped(tag) {
            let stream = self.counters.stream(stream);
            stream.sent -= 1;
            stream.dropped.add(cause);
            self.events.push_back(OperatorEvent::Dropped { sequence: tag, cause });
        }
    }
}
