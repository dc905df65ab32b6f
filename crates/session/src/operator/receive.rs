//! What the robot says, as the operator understands it.

use taut_core::{Deadline, DropCause, Duration, Time, Transport};
use taut_wire::session::{
    Ack, Answer, Body, ClockReply, ClockRequest, CommandAck, DataHeader, Error, Feedback, Frame, Hello,
    RefusalReason, RobotState, Role, StopCause,
};

use super::{Arrivals, Operator, OperatorEvent, Phase};
use crate::codec::Codec;
use crate::command::Kind;
use crate::motion::shorten;
use crate::port::Parcel;
use crate::robot::REFUSAL_INTERVAL;
use crate::sending::{News, Report};
use crate::state::State;
use crate::sync::RelativeAge;
use crate::window::{Sighting, Window, completed};
use taut_core::PeerTime;

/// How the robot is, by its newest epoch: reports overtake each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct RobotView {
    pub(super) state: RobotState,
    pub(super) cause: StopCause,
    pub(super) epoch: u32,
}

impl Default for RobotView {
    fn default() -> Self {
        Self { state: RobotState::Disabled, cause: StopCause::Start, epoch: 0 }
    }
}

/// The force that the hand is given, and until when.
#[derive(Debug, Default)]
pub(super) struct FeedbackWatch {
    window: Window,
    relative: RelativeAge,
    /// When the last fresh one came, while the hand holds its force.
    fresh: Option<Time>,
    /// The age at which the robot says that its feedback is worthless, µs; 0 for never.
    deadline_us: u32,
}

impl FeedbackWatch {
    pub(super) fn poll_timeout(&self, watchdog: Duration) -> Option<Deadline> {
        self.fresh.map(|fresh| Deadline::new(fresh + watchdog, "feedback watchdog"))
    }

    /// True once when the last force has become too old to hold.
    pub(super) fn check(&mut self, now: Time, watchdog: Duration) -> bool {
        self.fresh.take_if(|fresh| now >= *fresh + watchdog).is_some()
    }
}

impl<T: Transport> Operator<T> {
    pub(super) fn handle_frame(&mut self, now: Time, frame: &Frame) {
        if let (Body::Refusal(reason), Phase::Greeting) = (&frame.body, self.phase)
            && let Some(error) = self.mismatch(*reason)
        {
            return self.handle_incompatible(now, error);
        }
        if frame.session != self.port.session {
            // Meant for somebody else who came over the same way.
            return self.refuse(DropCause::Unauthenticated);
        }
        if self.phase == Phase::Open && !matches!(frame.body, Body::Refusal(_)) {
            self.heard = Some(now);
        }
        match (&frame.body, self.phase) {
            (_, Phase::Closed | Phase::Connecting) => {}
            (Body::Hello(hello), Phase::Greeting) => self.handle_hello(now, hello),
            (Body::Hello(_), Phase::Open) => {}
            (Body::Refusal(reason), _) => self.handle_refusal(now, *reason),
            (_, Phase::Greeting) => {}
            (Body::Ack(ack), Phase::Open) => self.handle_ack(now, ack),
            (Body::EmergencyStopAck(ack) | Body::ResumeAck(ack) | Body::ResetAck(ack), Phase::Open) => {
                self.handle_answer(now, ack);
            }
            (Body::ClockRequest(request), Phase::Open) => self.tell_time(now, *request),
            (Body::ClockReply(reply), Phase::Open) => {
                if let Some(rtt) = self.sync.answered(now, reply) {
                    self.round_trip.record(rtt);
                    self.sending.round_trip(rtt);
                }
            }
            (Body::Status(status), Phase::Open) => self.see(status.epoch, status.state, status.cause),
            (Body::Feedback(feedback), Phase::Open) => self.handle_feedback(now, feedback),
            (Body::Goodbye, Phase::Open) => {
                self.events.push_back(OperatorEvent::RobotLeft);
                self.port.transport.close(now);
                self.end();
            }
            // What only operators say.
            (
                Body::State(_)
                | Body::AcknowledgingState(..)
                | Body::Arrivals(_)
                | Body::EmergencyStop(_)
                | Body::Resume(_)
                | Body::Reset(_),
                Phase::Open,
            ) => self.refuse(DropCause::Malformed),
        }
    }

    /// A frame of channels.
    pub(super) fn handle_data(&mut self, now: Time, header: &DataHeader, frame: &[u8]) {
        if header.session != self.port.session {
            return self.refuse(DropCause::Unauthenticated);
        }
        if self.phase != Phase::Open {
            return;
        }
        self.heard = Some(now);
        let transport = &self.port.transport;
        let taken = self.sending.handle_data(now, header, frame, &mut self.sync, || transport.round_trip());
        if let Err(cause) = taken {
            self.refuse(cause);
        }
    }

    /// What this refusal says about both ends, if anything. A robot that does not understand this end names no session of it.
    const fn mismatch(&self, reason: RefusalReason) -> Option<Error> {
        match (reason, self.config.turns) {
            (RefusalReason::Turns, false) => Some(Error::Turning { theirs: true }),
            (RefusalReason::UnsupportedVersion, true) => Some(Error::Turning { theirs: false }),
            // It is of an earlier version, and knows no hello with a law.
            (RefusalReason::Turns | RefusalReason::UnsupportedVersion, _) => match self.config.control_law {
                Some(ours) => Some(Error::LawUnsaid { ours }),
                None => None,
            },
            _ => None,
        }
    }

    fn refuse(&mut self, cause: DropCause) {
        self.counters.refused.add(cause);
        self.events.push_back(OperatorEvent::Refused(cause));
    }

    fn handle_hello(&mut self, now: Time, hello: &Hello) {
        if hello.role != Role::Robot {
            return self.refuse(DropCause::Malformed);
        }
        if hello.turns != self.config.turns {
            return self.handle_incompatible(now, Error::Turning { theirs: hello.turns });
        }
        let (theirs, ours) = (hello.law, self.config.control_law);
        if theirs != ours {
            return self.handle_incompatible(now, Error::OtherLaw { theirs, ours });
        }
        self.heard = Some(now);
        self.robot = RobotView { state: hello.state, cause: hello.cause, epoch: hello.epoch };
        // What is felt goes on from here, or ends here.
        self.feedback = FeedbackWatch {
            deadline_us: hello.deadline_us,
            fresh: self.feedback.fresh,
            ..FeedbackWatch::default()
        };
        self.arrivals = Arrivals::default();
        // An upper bound, better than none: it is not known which hello was answered.
        if let Some(greeted) = self.greeted.filter(|_| self.round_trip.smoothed().is_none()) {
            self.round_trip.record(now.saturating_since(greeted));
        }
        self.open(now, hello);
        self.events.push_back(OperatorEvent::Robot { state: hello.state, cause: hello.cause });
    }

    fn handle_refusal(&mut self, now: Time, reason: RefusalReason) {
        // From a robot that goes on with this session it is an old one, of before that began; whoever refuses it says so again.
        if self.phase == Phase::Open && self.heard.is_some_and(|heard| now - heard < REFUSAL_INTERVAL) {
            return;
        }
        self.events.push_back(OperatorEvent::RefusedByRobot(reason));
        if self.phase == Phase::Open {
            // The robot does not know this session any more: it began anew, or another operator came between. Nobody watches the force meanwhile.
            if self.feedback.fresh.take().is_some() {
                self.events.push_back(OperatorEvent::FeedbackLost);
            }
            self.phase = Phase::Greeting;
            self.hellos = 0;
            self.next_hello = now;
        }
    }

    /// The robot's state as of an epoch.
    fn see(&mut self, epoch: u32, state: RobotState, cause: StopCause) {
        let ahead = epoch.wrapping_sub(self.robot.epoch) as i32;
        if ahead < 0 {
            return;
        }
        let changed = (state, cause) != (self.robot.state, self.robot.cause);
        self.robot = RobotView { state, cause, epoch };
        if changed {
            self.events.push_back(OperatorEvent::Robot { state, cause });
        }
    }

    fn handle_ack(&mut self, now: Time, ack: &Ack) {
        let (sequence, arrived) = match self.config.codec {
            Codec::Native => {
                self.see(ack.epoch, ack.state, ack.cause);
                let sequence = completed(self.sending.next_sequence(), ack.sequence as u32);
                (sequence, self.sync.peer_time(now, (ack.received_ns / 1_000) as u32))
            }
            Codec::Omni71 => (ack.sequence, None),
        };
        let held = Duration::from_micros(ack.held_us.into());
        let report = Report { sequence, echo_ns: Some(ack.echo_ns), arrived, held, seen: ack.seen };
        let transport = &self.port.transport;
        if let Some(News { sent, rtt }) = self.sending.acknowledged(now, &report, || transport.round_trip()) {
            self.round_trip.record(rtt);
            self.rtt.record(rtt);
            self.sync.carried(now);
            let clock = self.sync.estimate(now);
            if let Some((clock, arrived)) = clock.zip(arrived) {
                self.one_way.record(clock.to_local(arrived).saturating_since(sent));
            }
            self.events.push_back(OperatorEvent::Acknowledged { sequence, rtt, verdict: ack.verdict });
        }
        self.account_all(now);
    }

    fn handle_answer(&mut self, now: Time, ack: &CommandAck) {
        if self.config.codec == Codec::Native {
            self.see(ack.epoch, ack.state, ack.cause);
        }
        let Some(mut pending) = self.command.take_if(|pending| pending.number == ack.command) else { return };
        if let Some(rtt) = pending.round_trip(now, ack.echo_ns, self.config.codec.resolution()) {
            self.round_trip.record(rtt);
        }
        let after = now.saturating_since(pending.created);
        let native = self.config.codec == Codec::Native;
        self.events.push_back(match (pending.kind, ack.answer) {
            (Kind::EmergencyStop, _) => {
                if !native {
                    self.robot.state = RobotState::Fault;
                }
                OperatorEvent::EmergencyStopped { after, kept: native && ack.answer == Answer::Done }
            }
            (Kind::Reset, Answer::Done) => {
                if !native {
                    self.robot.state = RobotState::Paused;
                }
                OperatorEvent::WasReset
            }
            (Kind::Resume, Answer::Done) if !native || self.robot.state == RobotState::Enabled => {
                if !native {
                    self.robot.state = RobotState::Enabled;
                }
                OperatorEvent::Resumed
            }
            // The robot compares clocks at this moment: the next copy finds it ready.
            (_, Answer::ClockUnknown) => {
                pending.hurry_again(now);
                return self.command = Some(pending);
            }
            (Kind::Reset, answer) => OperatorEvent::ResetRefused { answer: Some(answer) },
            // It has stopped since: that was told ahead of this answer, or by it.
            (Kind::Resume, answer) => {
                let answer = if answer == Answer::Done { Answer::Superseded } else { answer };
                let age = Duration::from_micros(ack.age_us.into());
                OperatorEvent::ResumeRefused { answer: Some(answer), age }
            }
        });
    }

    fn tell_time(&mut self, now: Time, request: ClockRequest) {
        let at = now.as_nanos();
        let reply = ClockReply { echo_ns: request.sent_ns, received_ns: at, sent_ns: at };
        let _ = self.port.send(now, &Body::ClockReply(reply), Parcel::passing(now, 1));
    }

    fn handle_feedback(&mut self, now: Time, feedback: &Feedback) {
        let mut feedback = *feedback;
        if self.config.codec == Codec::Native {
            let wire = &mut feedback.state;
            wire.sequence = completed(self.feedback.window.highest().unwrap_or(0), wire.sequence as u32);
            wire.deadline_us = self.feedback.deadline_us;
            if let Some(created) = self.sync.peer_time(now, (wire.created_ns / 1_000) as u32) {
                wire.created_ns = created.0;
                self.sending.came(now, State::sent_on(wire));
            }
            if feedback.applied != 0 {
                feedback.applied = completed(self.sending.next_sequence(), feedback.applied as u32);
            }
        }
        if let Some(ack) = &feedback.ack {
            self.handle_ack(now, ack);
        }
        let wire = &feedback.state;
        let sighting = self.feedback.window.record(wire.sequence);
        if self.config.codec == Codec::Native {
            self.arrivals.record(now, wire.sequence, &self.feedback.window);
        }
        let stream = self.counters.stream(wire.stream);
        stream.received += 1;
        let cause = match sighting {
            Sighting::Duplicate | Sighting::TooOld => {
                stream.duplicate += 1;
                Some(DropCause::Duplicate)
            }
            Sighting::Reordered => {
                stream.reordered += 1;
                Some(DropCause::Superseded)
            }
            Sighting::Newest if !wire.is_finite() => Some(DropCause::NotFinite),
            Sighting::Newest => None,
        };
        let age = match self.config.codec {
            Codec::Native => self.sync.age(now, PeerTime(wire.created_ns), State::sent_on(wire)),
            Codec::Omni71 => Some(self.feedback.relative.age(now, wire.created_ns)),
        };
        let age = age.map(|age| age.likely);
        let deadline = Duration::from_micros(wire.deadline_us.into());
        let is_fresh = |age: &Duration| wire.deadline_us == 0 || *age < deadline;
        let verdict = match (cause, age.filter(is_fresh)) {
            (Some(cause), _) => Err(cause),
            (None, None) => Err(DropCause::TooLate),
            (None, Some(age)) => Ok(age),
        };
        match verdict {
            Err(cause) => self.counters.stream(wire.stream).dropped.add(cause),
            Ok(age) => {
                self.feedback.fresh = Some(now);
                let mut state = State::from_wire(wire, now - age).as_sent(self.config.turns);
                shorten(&mut state.force, self.config.feedback_force);
                state.turning.iter_mut().for_each(|it| shorten(&mut it.torque, self.config.feedback_torque));
                let (sequence, applied) = (wire.sequence, feedback.applied);
                self.events.push_back(OperatorEvent::Feedback { sequence, applied, state, age });
            }
        }
    }
}
