//! What the operator says, as the robot understands it.

use taut_core::{DropCause, Duration, Reliability, Time, Transport, nearest};
use taut_wire::session::{
    Ack, Answer, Arrivals, Body, ClockReply, ClockRequest, Command, CommandAck, ControlLaw, DataHeader,
    Error, Frame, Hello, RefusalReason, RobotState, Role, State as Wire, Status, StopCause, Verdict,
};

use super::{REFUSAL_INTERVAL, Robot, RobotEvent};
use crate::codec::{Codec, OMNI71_COMMAND};
use crate::operator::INCOMPATIBLE_INTERVAL;
use crate::port::{Heard, Parcel};
use crate::sending::{QueuedState, Report};
use crate::state::{Priority, State};
use crate::sync::{Age, RelativeAge};
use crate::window::{Sighting, completed};
use taut_core::PeerTime;

/// What arrived in one call and is no emergency: looked at after all emergencies were.
const BATCH: usize = 64;

/// Acknowledgements of normal states are never further apart than this.
const LONGEST_ACK_SPACING: Duration = Duration::from_millis(10);
/// The largest age, and the watchdog, that a robot needs at least for motion that takes `age` to it, its uncertainty included: half
/// as much again for what jitter and losses add, in whole hundredths of a second.
///
/// ```
/// use taut_core::Duration;
/// assert_eq!(taut_session::patience(Duration::from_millis(118)), Duration::from_millis(180));
/// ```
pub fn patience(age: Duration) -> Duration {
    const UNIT: Duration = Duration::from_millis(10);
    UNIT * ((age + age / 2) / UNIT + 1)
}

impl<T: Transport> Robot<T> {
    /// Takes what came, emergency stops first: they are obeyed and acknowledged before anything that came with them.
    pub(super) fn listen(&mut self, now: Time) {
        loop {
            let mut batch = std::mem::take(&mut self.batch);
            while batch.len() < BATCH
                && let Some(event) = self.port.transport.poll_event()
            {
                match self.port.hear(event) {
                    Some(stop @ Heard::Frame(Frame { body: Body::EmergencyStop(_), .. })) => {
                        self.hear(now, stop)
                    }
                    heard => batch.extend(heard),
                }
            }
            let is_full = batch.len() == BATCH;
            batch.drain(..).for_each(|heard| self.hear(now, heard));
            self.batch = batch;
            if !is_full {
                return;
            }
        }
    }

    pub(super) fn handle_frame(&mut self, now: Time, frame: &Frame) {
        if self.closed {
            return;
        }
        if let Body::Hello(hello) = &frame.body {
            return self.handle_hello(now, frame.session, hello);
        }
        if self.config.codec == Codec::Omni71 && self.operator.is_none() {
            self.adopt(now, frame.session);
        }
        if self.operator.is_none() || frame.session != self.port.session {
            return self.handle_stranger(now, frame.session);
        }
        self.operator = Some(now);
        match &frame.body {
            Body::State(state) => self.handle_state(now, state),
            Body::AcknowledgingState(state, arrivals) => {
                self.handle_arrivals(now, *arrivals);
                self.handle_state(now, state);
            }
            Body::Arrivals(arrivals) => self.handle_arrivals(now, *arrivals),
            Body::EmergencyStop(command) => self.handle_stop(now, command),
            // Early data (RFC 8446 section 8): nothing that comes in it sets a robot in motion.
            Body::Resume(_) if !self.connected => self.refuse(DropCause::Unauthenticated),
            Body::Resume(command) if self.is_reset(command) => self.handle_reset(now, command),
            Body::Resume(command) => self.handle_resume(now, command),
            Body::Reset(_) if !self.connected => self.refuse(DropCause::Unauthenticated),
            Body::Reset(command) => self.handle_reset(now, command),
            Body::ClockRequest(request) => self.tell_time(now, *request),
            Body::ClockReply(reply) => {
                if let Some(rtt) = self.sync.answered(now, reply) {
                    self.rtt.record(rtt);
                }
            }
            Body::Goodbye => self.lose_operator(now, StopCause::OperatorLeft),
            // What only robots say.
            _ => self.refuse(DropCause::Malformed),
        }
    }

    /// A frame of channels.
    pub(super) fn handle_data(&mut self, now: Time, header: &DataHeader, frame: &[u8]) {
        if self.closed {
            return;
        }
        if self.operator.is_none() || header.session != self.port.session {
            return self.handle_stranger(now, header.session);
        }
        // Early data (RFC 8446 section 8) may have been recorded: what asks for something to be done is not taken from it.
        if !self.connected {
            return self.refuse(DropCause::Unauthenticated);
        }
        self.operator = Some(now);
        self.check_release(now, header, frame);
        let transport = &self.port.transport;
        let taken = self.sending.handle_data(now, header, frame, &mut self.sync, || transport.round_trip());
        if let Err(cause) = taken {
            self.refuse(cause);
        }
        self.move_by_channels(now);
    }

    /// One operator at a time: another one is taken when the present one has been silent for long enough.
    fn handle_hello(&mut self, now: Time, session: u32, hello: &Hello) {
        if hello.role != Role::Operator {
            return self.refuse(DropCause::Malformed);
        }
        let known = self.operator.is_some() && session == self.port.session;
        if !known && self.is_busy(now) {
            return self.handle_stranger(now, session);
        }
        if hello.turns != self.config.turns {
            let ours =
                if self.config.turns { RefusalReason::Turns } else { RefusalReason::UnsupportedVersion };
            return self.handle_incompatible(now, Error::Turning { theirs: hello.turns }, session, ours);
        }
        if hello.law != self.config.control_law {
            return self.handle_other_law(now, hello.law, session);
        }
        if !known {
            if self.operator.is_some() {
                self.lose_operator(now, StopCause::OperatorLeft);
            }
            self.adopt(now, session);
            self.state_deadline_us = hello.deadline_us;
            // A hello may be a recorded one: how long ago it was sent, nobody knows.
            self.sending.channels.open(&hello.channels, None);
        }
        self.operator = Some(now);
        let answer = self.hello();
        // When it does not arrive, the operator says hello again. Unreliable, it may go before the handshake is over.
        let parcel = Parcel { reliability: Reliability::Unreliable, ..Parcel::urgent(now) };
        let _ = self.port.send(now, &Body::Hello(answer), parcel);
    }

    /// Is there an operator that was heard of late?
    fn is_busy(&self, now: Time) -> bool {
        self.operator.is_some_and(|heard| now.saturating_since(heard) < self.config.takeover)
    }

    fn hello(&self) -> Hello {
        let Status { state, cause, epoch } = self.safety.told();
        Hello {
            role: Role::Robot,
            state,
            cause,
            epoch,
            rate_mhz: self.config.feedback_rate.saturating_mul(1_000),
            watchdog_us: self.config.watchdog.as_micros_u32(),
            max_age_us: self.config.oldest().as_micros_u32(),
            deadline_us: self.config.feedback_deadline.as_micros_u32().max(1),
            hold_to_run: self.config.hold_to_run,
            turns: self.config.turns,
            law: self.config.control_law,
            limits: self.config.limits.wire,
            channels: self.sending.channels.declarations(),
        }
    }

    fn adopt(&mut self, now: Time, session: u32) {
        self.port.session = session;
        self.operator = Some(now);
        self.began.get_or_insert(now);
        self.missed += std::mem::take(&mut self.window).missing();
        (self.newest, self.applied, self.floor_ns) = (0, 0, 0);
        self.relative = RelativeAge::default();
        self.sync.restart(now);
        self.last_reset = None;
        self.sending.restart();
        self.safety.connect();
        self.next_status = now;
        self.events.push_back(RobotEvent::Connected { session });
    }

    /// Somebody who is not the operator. The answer goes the way that the transport goes; an operator to whom it does not
    /// apply sees by the session that it does not.
    fn handle_stranger(&mut self, now: Time, session: u32) {
        self.refuse(DropCause::Unauthenticated);
        if now < self.next_refusal {
            return;
        }
        self.next_refusal = now + REFUSAL_INTERVAL;
        let reason =
            if self.operator.is_some() { RefusalReason::Busy } else { RefusalReason::UnknownSession };
        self.port.refuse(now, session, reason);
    }

    /// A peer of another version gets a frame of this one: its first bytes say which that is.
    pub(super) fn handle_foreign(&mut self, now: Time, error: Error) {
        let reason = if self.config.turns { RefusalReason::Turns } else { RefusalReason::UnsupportedVersion };
        self.handle_incompatible(now, error, 1, reason);
    }

    fn handle_incompatible(&mut self, now: Time, error: Error, session: u32, reason: RefusalReason) {
        self.answer_incompatible(now, error, session, &Body::Refusal(reason));
    }

    /// This end's hello says which law it has. It makes no session: the operator's end finds the same.
    fn handle_other_law(&mut self, now: Time, theirs: Option<ControlLaw>, session: u32) {
        let error = Error::OtherLaw { theirs, ours: self.config.control_law };
        self.answer_incompatible(now, error, session, &Body::Hello(self.hello()));
    }

    fn answer_incompatible(&mut self, now: Time, error: Error, session: u32, answer: &Body) {
        self.counters.refused.add(DropCause::Malformed);
        if now >= self.next_foreign {
            self.next_foreign = now + INCOMPATIBLE_INTERVAL;
            self.events.push_back(RobotEvent::Incompatible(error));
        }
        if now >= self.next_refusal {
            self.next_refusal = now + REFUSAL_INTERVAL;
            self.port.answer(now, session, answer);
        }
    }

    fn handle_stop(&mut self, now: Time, command: &Command) {
        // Whoever knows nothing of commands counts these with its states.
        let numbered = self.config.codec == Codec::Native || command.command & OMNI71_COMMAND != 0;
        // Nor does anybody say hello there: a number that came before may be another operator's, who began anew.
        let fresh = numbered && self.safety.stop(command.command)
            || self.config.codec == Codec::Omni71 && self.safety.stop_unnumbered();
        if fresh {
            self.halt(now, StopCause::Emergency);
        }
        if let Some(answer) = self.keeping.answer(now, command) {
            self.acknowledge_stop(now, command, answer);
        }
    }

    /// In a codec that has one command for both, what is latched is reset first.
    fn is_reset(&self, command: &Command) -> bool {
        self.config.codec == Codec::Omni71
            && (self.safety.state() == RobotState::Fault || self.last_reset == Some(command.command))
    }

    /// How old a command is: that it was made, and that this copy of it was sent.
    fn ages(&mut self, now: Time, command: &Command) -> Option<[Age; 2]> {
        let (created, sent) = (PeerTime(command.created_ns), PeerTime(command.sent_ns));
        match self.config.codec {
            Codec::Native => Some([self.sync.age(now, created, sent)?, self.sync.age(now, sent, sent)?]),
            Codec::Omni71 => Some([self.relative.age(now, command.created_ns); 2]),
        }
    }

    /// The epoch that a command names, where its codec has one.
    fn seen(&self, command: &Command) -> Option<u32> {
        (self.config.codec == Codec::Native).then_some(command.epoch)
    }

    fn handle_reset(&mut self, now: Time, command: &Command) {
        let ages = self.ages(now, command);
        let epoch = self.safety.epoch();
        let answer = match ages {
            None => Answer::ClockUnknown,
            Some([made, _]) if made.likely >= self.config.command_age => Answer::TooLate,
            Some(_) => self.safety.reset(command.command, self.seen(command)),
        };
        if self.safety.epoch() != epoch {
            self.next_status = now;
            self.events.push_back(RobotEvent::LetGo { here: false });
        }
        self.last_reset = Some(command.command);
        self.answer_command(now, command, answer, ages, Body::ResetAck);
    }

    fn handle_resume(&mut self, now: Time, command: &Command) {
        let ages = self.ages(now, command);
        let was_enabled = self.safety.is_enabled();
        let limit = self.config.oldest();
        let answer = match ages {
            None => Answer::ClockUnknown,
            Some([made, _]) if made.likely >= self.config.command_age => Answer::TooLate,
            // Motion would be too old when it comes, or so old that the watchdog waits no longer.
            Some([_, way]) if way.most() >= limit => {
                let known = self.safety.refuse(command.command, Answer::PathTooSlow);
                if known == Answer::PathTooSlow {
                    self.events.push_back(RobotEvent::PathTooSlow { age: way.most() });
                }
                known
            }
            Some(_) => self.safety.resume(now, command.command, self.seen(command)),
        };
        if self.safety.is_enabled() && !was_enabled {
            // Motion tells when it was made in whole µs.
            self.floor_ns = command.created_ns / 1_000 * 1_000;
            self.events.push_back(RobotEvent::Enabled { epoch: self.safety.epoch() });
            self.resume = Some((*command, ages));
        }
        if !self.safety.is_offered(command.command) {
            self.answer_command(now, command, answer, ages, Body::ResumeAck);
        }
    }

    pub(super) fn answer_command(
        &mut self,
        now: Time,
        command: &Command,
        answer: Answer,
        ages: Option<[Age; 2]>,
        body: fn(CommandAck) -> Body,
    ) {
        // An acknowledgement of `omni71` says that it was done, and nothing else.
        if self.config.codec == Codec::Omni71 && answer != Answer::Done {
            return;
        }
        let way = ages.map_or(Duration::ZERO, |[_, way]| way.most());
        let answer = CommandAck { age_us: way.as_micros_u32(), ..self.answer(now, command, answer) };
        let _ = self.port.send(now, &body(answer), Parcel::urgent(now));
    }

    pub(super) fn answer(&self, now: Time, command: &Command, answer: Answer) -> CommandAck {
        let Status { state, cause, epoch } = self.safety.told();
        CommandAck {
            command: command.command,
            echo_ns: command.sent_ns,
            received_ns: now.as_nanos(),
            epoch,
            answer,
            state,
            cause,
            age_us: 0,
        }
    }

    fn tell_time(&mut self, now: Time, request: ClockRequest) {
        let at = now.as_nanos();
        let reply = ClockReply { echo_ns: request.sent_ns, received_ns: at, sent_ns: at };
        let _ = self.port.send(now, &Body::ClockReply(reply), Parcel::passing(now, 1));
    }

    fn handle_state(&mut self, now: Time, wire: &Wire) {
        let mut wire = *wire;
        if self.config.codec == Codec::Native {
            wire.sequence = completed(self.window.highest().unwrap_or(0), wire.sequence as u32);
            wire.deadline_us = self.state_deadline_us;
            if let Some(created) = self.sync.peer_time(now, (wire.created_ns / 1_000) as u32) {
                wire.created_ns = created.0;
                self.sending.came(now, State::sent_on(&wire));
            }
        }
        let wire = &wire;
        let stream = self.counters.stream(wire.stream);
        stream.received += 1;
        self.sync.carried(now);
        // Nothing in a state with such a number is to be believed, its sequence included.
        let judged = if wire.is_finite() {
            let sighting = self.window.record(wire.sequence);
            match sighting {
                Sighting::Newest => {}
                Sighting::Reordered => stream.reordered += 1,
                // So far behind that nobody can tell: taken for a copy.
                Sighting::Duplicate | Sighting::TooOld => stream.duplicate += 1,
            }
            self.judge(now, wire, sighting)
        } else {
            Err(Verdict::NotFinite)
        };
        self.acknowledge(now, wire, judged.as_ref().err().copied());
        let item = match judged {
            Ok(item) => item,
            Err(verdict) => {
                let cause = verdict.cause().expect("what is not taken has a cause");
                self.counters.stream(wire.stream).dropped.add(cause);
                return self.events.push_back(RobotEvent::Dropped { sequence: wire.sequence, cause });
            }
        };
        self.newest = wire.sequence;
        let ready = if wire.priority == Priority::Emergency {
            Some(item)
        } else {
            self.processor.take(now, item, &mut self.dropped)
        };
        if let Some(item) = ready {
            self.apply(now, item);
        }
    }

    /// May this state go to the robot?
    fn judge(&mut self, now: Time, wire: &Wire, sighting: Sighting) -> Result<QueuedState, Verdict> {
        if matches!(sighting, Sighting::Duplicate | Sighting::TooOld) {
            return Err(Verdict::Duplicate);
        }
        let waited = Duration::from_micros(wire.waited_us.into());
        let age = match self.config.codec {
            Codec::Native => self.sync.age(now, PeerTime(wire.created_ns), State::sent_on(wire)),
            Codec::Omni71 => Some(self.relative.age(now, wire.created_ns)),
        };
        self.check_enabling(now, wire, age.is_some());
        // Nobody knows how old it is: it may be of any age.
        let age = age.ok_or(Verdict::TooLate)?;
        self.one_way.record(age.likely.saturating_sub(waited));
        let left = self.time_left(wire, age).ok_or(Verdict::TooLate)?;
        if !self.safety.is_enabled() || wire.created_ns < self.floor_ns {
            return Err(Verdict::Stopped);
        }
        if wire.sequence <= self.newest {
            return Err(Verdict::Superseded);
        }
        if !self.guard.admits(now) {
            return Err(Verdict::RateLimited);
        }
        let state = State::from_wire(wire, now - age.likely).as_sent(self.config.turns);
        if self.config.turns && self.guard.is_apart(now, &state) && self.safety.pause(StopCause::TurnedApart)
        {
            self.halt(now, StopCause::TurnedApart);
            return Err(Verdict::Stopped);
        }
        if self.safety.is_waiting() {
            return Err(Verdict::Stopped);
        }
        // Where the robot will be when those before it were applied, nobody knows yet.
        if self.processor.waiting() == 0 {
            self.guard.check(now, &state)?;
        }
        Ok(QueuedState { sequence: wire.sequence, state, expires: Some(now + left) })
    }

    /// A state since the resume says that the enabling input is not held: that stops a robot which demands it, however old it is,
    /// and whatever overtook it. While the clocks are not compared nobody knows when it was made, and it counts as well.
    fn check_enabling(&mut self, now: Time, wire: &Wire, is_dated: bool) {
        let is_of_now = !is_dated || wire.created_ns >= self.floor_ns;
        if self.config.hold_to_run && !wire.enabling && is_of_now && self.safety.pause(StopCause::Released) {
            self.halt(now, StopCause::Released);
        }
    }

    /// How long a state may still be used: until the operator's deadline, and until it may be of the robot's largest age.
    fn time_left(&self, wire: &Wire, age: Age) -> Option<Duration> {
        let deadline = match wire.deadline_us {
            0 => Duration::MAX,
            micros => Duration::from_micros(micros.into()),
        };
        let left = deadline.saturating_sub(age.likely).min(self.config.oldest().saturating_sub(age.most()));
        (!left.is_zero()).then_some(left)
    }

    fn acknowledge(&mut self, now: Time, wire: &Wire, refused: Option<Verdict>) {
        let Status { state, cause, epoch } = self.safety.told();
        let ack = Ack {
            sequence: wire.sequence,
            echo_ns: wire.created_ns,
            received_ns: now.as_nanos(),
            held_us: 0,
            seen: 0,
            epoch,
            verdict: refused.unwrap_or(Verdict::Taken),
            state,
            cause,
        };
        if self.acks.is_full(&ack) {
            self.send_ack(now);
        }
        let (stream, spacing) = (wire.stream, self.ack_spacing());
        let is_held_back = self.sending.has_window() || self.port.is_blocked();
        if self.acks.hold(now, ack, stream, spacing, is_held_back) || refused.is_some() || stream < 2 {
            self.send_ack(now);
        }
    }

    /// The least time between two acknowledgements of normal states: a hundredth of the round trip, which nobody notices.
    /// Each costs a packet, and in QUIC, both ways, a list of what was lost within a round trip: on a long, lossy and
    /// narrow path these would be more than the states.
    fn ack_spacing(&self) -> Duration {
        match self.config.codec {
            Codec::Native => {
                self.sync.smoothed_rtt().map_or(Duration::ZERO, |rtt| (rtt / 100).min(LONGEST_ACK_SPACING))
            }
            // Its acknowledgement is of one state alone.
            Codec::Omni71 => Duration::ZERO,
        }
    }

    pub(super) fn send_ack(&mut self, now: Time) {
        let Some((ack, stream)) = self.acks.take(now, &self.window) else { return };
        let _ = self.port.send(now, &Body::Ack(ack), Parcel::passing(now, stream));
    }

    /// The operator tells of feedback that arrived.
    fn handle_arrivals(&mut self, now: Time, arrivals: Arrivals) {
        let known = self.sending.next_sequence();
        let low = u32::from(arrivals.sequence);
        let report = Report {
            sequence: nearest(known, low, 16).unwrap_or(low.into()),
            echo_ns: None,
            arrived: self.sync.peer_time(now, arrivals.received_us),
            held: Duration::from_micros(arrivals.held_us.into()),
            seen: arrivals.seen,
        };
        let transport = &self.port.transport;
        self.sending.acknowledged(now, &report, || transport.round_trip());
    }
}
