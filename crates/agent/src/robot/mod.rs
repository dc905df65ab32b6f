//! A robot with something that moves.

mod note;
mod refusals;
mod report;

use std::cell::Cell;
use std::collections::VecDeque;

use taut_core::{Bitrate, Datagram, Deadline, DropCause, Duration, PathId, Rng, Time, Transmit, earliest};
use taut_session::{
    ChannelEvent, ChannelId, RobotConfig, RobotEvent, RobotLife, RobotState, SendRefused, State, Status,
    StopCause,
};
use taut_transport::stranger::is_remembered;

pub use self::note::{RobotCommand, RobotNote};
use self::refusals::Refusals;
pub use self::report::DeviceReport;
use crate::device::Kept;
use crate::diagnostics;
use crate::observer::Eye;
use crate::{
    Alarm, Conversation, DeviceFailure, DeviceMessage, GOODBYE, MOST_MESSAGES, Observed, Refused,
    RobotDevice, SessionObserver, SetPoint, Watched,
};

/// A robot and what moves, asked at its rate; what it measures is fed back while there is an operator. Sans-IO, over any
/// transport.
///
/// It has the five verbs towards its host, which calls them as [`taut_core`] says, and besides:
/// [`handle_command`](Self::handle_command) and [`handle_alarm`](Self::handle_alarm) for the buttons. What it tells by
/// [`RobotNote::Keep`] the host writes down, and where it asks by [`RobotNote::Reconnect`] the host hands in what waits for the
/// next operator. The device is stopped with its value, whatever ends that.
#[derive(Debug)]
pub struct Robot<T, P: RobotDevice> {
    session: taut_session::Robot<Watched<T>>,
    /// When that is due, as long as nothing has happened since it was asked.
    session_due: Cell<Time>,
    device: Kept<P>,
    report: DeviceReport,
    not_kept: Option<u64>,
    /// It was told already.
    failed: Option<DeviceFailure>,
    /// It was told the stop that the session tells next.
    stands: bool,
    /// The device has taken the resume of this epoch, and the session has not been told: enabling takes its time, and the next verb says what time it is.
    taken: Option<u32>,
    /// Not told yet.
    notes: VecDeque<RobotNote>,
    /// When the device is asked next.
    next_step: Time,
    /// When a state was applied last, since the last resume.
    applied: Option<Time>,
    position: [f32; 3],
    /// For channels that can wait, as it was told last.
    told_rate: Option<Bitrate>,
    has_operator: bool,
    /// Since when, and how long there were operators before.
    began: Time,
    served: Duration,
    /// It was closed here: when nobody waits for the goodbye any more, and whether its end was told.
    closing: Option<Time>,
    ended: bool,
    report_period: Option<Duration>,
    next_report: Time,
    /// How the robot was when it was reported last.
    reported: (RobotState, StopCause),
    refusals: Refusals,
    busy: u64,
    stranger: Option<Refused>,
    eye: Eye,
}

/// Steps at once, when the host was late, are of so long at most; those beyond are left out: the device stood still. A guard lets a set point go as far at
/// once, and a law that leads the device goes a step in each.
const LONGEST_STEPS: Duration = Duration::from_millis(50);
/// And so many.
const MOST_STEPS: u64 = 100;

/// Is it worth telling? A change of less than a thirty-second is not.
fn is_news(rate: Option<Bitrate>, told: Option<Bitrate>) -> bool {
    match (rate, told) {
        (Some(rate), Some(told)) => rate.as_bps().abs_diff(told.as_bps()) > told.as_bps() / 32,
        (rate, told) => rate != told,
    }
}

impl<T: Conversation, P: RobotDevice> Robot<T, P> {
    /// A robot around `device` over `transport`, from `now` on. `rng` draws the first epoch of its stops.
    pub fn new(now: Time, transport: T, rng: Rng, session: RobotConfig, device: P) -> Self {
        Self {
            session: taut_session::Robot::new(Watched::new(transport), session, rng),
            session_due: Cell::new(Time::ZERO),
            device: Kept(device),
            report: DeviceReport::default(),
            not_kept: None,
            failed: None,
            notes: VecDeque::new(),
            next_step: now,
            applied: None,
            position: [0.0; 3],
            told_rate: None,
            has_operator: false,
            stands: false,
            taken: None,
            began: Time::ZERO,
            served: Duration::ZERO,
            closing: None,
            ended: false,
            report_period: None,
            next_report: Time::ZERO,
            reported: (RobotState::Disabled, StopCause::Start),
            refusals: Refusals::default(),
            busy: 0,
            stranger: None,
            eye: Eye::default(),
        }
    }

    /// Reports every so often while there is an operator, at least 1 ms, and while there is none when it comes to be otherwise. Default: not.
    pub fn reports_by_time(mut self, period: Duration) -> Self {
        self.report_period = Some(period.max(Duration::from_millis(1)));
        self
    }

    /// Shows everything to `observer`. Default: nobody looks on.
    pub fn observed(mut self, observer: Box<dyn SessionObserver>) -> Self {
        self.eye = Eye::new(observer);
        self.session.transport_mut().watch(&self.eye);
        self
    }

    /// It ends in order: the device is stopped. What its next life has to know.
    pub fn bury(&mut self) -> RobotLife {
        self.device.0.stop(StopCause::Host);
        RobotLife { ended: true, latch: self.session.latch() }
    }

    /// The session.
    pub fn session(&self) -> &taut_session::Robot<Watched<T>> {
        &self.session
    }

    /// The device.
    pub fn device(&self) -> &P {
        &self.device.0
    }

    /// The transport, to look at.
    pub fn transport(&self) -> &T {
        self.session.transport().inner()
    }

    /// The transport, for what the contract does not have. Sending through it breaks the session.
    pub fn transport_mut(&mut self) -> &mut T {
        self.session_due.set(Time::ZERO);
        self.session.transport_mut().inner_mut()
    }

    /// Everything of all sessions; time and rates are of that during which there was an operator.
    pub fn status(&self, now: Time) -> Status {
        let mut status = self.session.status(now);
        let received = match self.transport().stream_bytes() {
            Some((_, received)) => received as f64 * 8.0,
            // The session's time goes on between operators.
            None => status.throughput_bps * status.elapsed_s,
        };
        let current = if self.has_operator { now.saturating_since(self.began) } else { Duration::ZERO };
        status.elapsed_s = (self.served + current).as_secs_f64();
        let per_second = |count: f64| if status.elapsed_s > 0.0 { count / status.elapsed_s } else { 0.0 };
        (status.rate_hz, status.throughput_bps) = (per_second(status.messages as f64), per_second(received));
        status
    }

    /// There is an operator, or there is none any more.
    fn serves(&mut self, now: Time, has_operator: bool) {
        if self.has_operator {
            self.served += now.saturating_since(self.began);
        }
        (self.has_operator, self.began) = (has_operator, now);
    }

    /// Waits for the next operator over another transport, or over the last one where that waits by itself. Gives the last one back.
    pub fn reconnect(&mut self, now: Time, transport: T) -> T {
        // Another port has other numbers for addresses.
        self.stranger = None;
        let old = self.session.reconnect(now, Watched::seen_by(transport, &self.eye));
        self.look(now);
        old.into_inner()
    }

    /// A path is no more; see [`taut_core::Transport::remove_path`].
    pub fn remove_path(&mut self, now: Time, path: PathId) {
        self.transport_mut().remove_path(now, path);
        self.stranger.take_if(|stranger| stranger.path == Some(path));
    }

    /// How many operators were sent away since this was asked last, because there is another one.
    fn newly_busy(&mut self) -> u64 {
        let all = self.transport().busy();
        let before = std::mem::replace(&mut self.busy, all);
        // Another transport counts anew.
        if all < before { all } else { all - before }
    }

    fn remember_stranger(&mut self) {
        let Some(stranger) = self.transport_mut().take_stranger() else { return };
        if is_remembered(stranger.key, self.stranger.and_then(|known| known.key)) {
            self.stranger = Some(stranger);
        }
    }

    /// After each verb: shows what went through the transport.
    fn look(&mut self, now: Time) {
        self.session_due.set(Time::ZERO);
        // In the clear no transport closes when one has said goodbye.
        if self.has_operator && !self.session.has_operator() {
            self.serves(now, false);
        }
        if self.session.transport().has_seen() {
            self.eye.show_all(now, self.session.transport_mut());
        }
    }

    /// Asks the device, when it is time.
    fn step(&mut self, now: Time) {
        if now < self.next_step {
            return;
        }
        // Whoever runs it has not asked what happened yet.
        if !self.stands
            && let Some(why) = self.session.untold_stop()
        {
            self.stands = true;
            self.device.0.stop(why);
        }
        let period = self.device.0.period().max(Duration::from_micros(1));
        let behind = (now - self.next_step) / period;
        let steps = (behind + 1).min((LONGEST_STEPS / period).clamp(1, MOST_STEPS));
        let mut newest = None;
        for _ in 0..steps {
            newest = self.device.0.measure().or(newest);
        }
        self.next_step += period * (behind + 1);
        self.session.miss(behind);
        if let Some(mut measured) = newest {
            measured.state = self.session.as_sent(measured.state);
            self.report.measured(&measured);
            self.eye.show(now, Observed::Measured(&measured));
            let state = measured.state;
            self.position = state.position;
            self.session.measure(now, state.position);
            self.session.measure_orientation(now, state.orientation_wxyz);
            if self.device.0.feeds_back() && self.has_operator {
                let state = State { created: now, ..measured.feedback.map_or(state, |law| law.state) };
                // Why one is refused is in the counters.
                let taken = self.session.send_feedback(now, state);
                self.eye.show(now, Observed::Feedback(&state, taken));
            }
        }
        let rate = self.session.channel_bitrate();
        if let Some(rate) = rate {
            self.device.0.limit_bitrate(rate);
        }
        if is_news(rate, self.told_rate) {
            self.told_rate = rate;
            self.notes.push_back(RobotNote::Bitrate(rate));
        }
        for _ in 0..MOST_MESSAGES {
            let Some(message) = self.device.0.poll_message() else { break };
            match message {
                DeviceMessage::Payload { channel, payload } => _ = self.send(now, channel, now, &payload),
                DeviceMessage::Motion { channel, motion } => {
                    self.session.measure_motion(now, channel, &motion);
                }
            }
        }
        // Did it stop, or fail? Then the session stands as well.
        if let Some(failure) = self.device.0.failure() {
            self.device_failed(now, failure);
        }
    }

    /// Why one is refused is in the counters.
    fn send(
        &mut self,
        now: Time,
        channel: ChannelId,
        created: Time,
        payload: &[u8],
    ) -> Result<(), SendRefused> {
        let taken = self.session.send(now, channel, created, payload);
        self.eye.show(now, Observed::Message { channel, payload, taken });
        taken.map(drop)
    }

    fn device_failed(&mut self, now: Time, failure: DeviceFailure) {
        let cause = failure.cause();
        let moved = self.session.stop(now, cause);
        // The stop says it.
        if cause != StopCause::Device {
            return;
        }
        let kind = std::mem::discriminant(&failure);
        let known = self.failed.as_ref().is_some_and(|known| std::mem::discriminant(known) == kind);
        // One that stopped because the session did has not failed.
        let idle = !moved && matches!(failure, DeviceFailure::Stopped(_));
        if moved || !(known || idle) {
            self.notes.push_back(RobotNote::DeviceFailed(failure.clone()));
        }
        self.failed = Some(failure);
    }

    /// At the next verb that says how late it is: the device has taken a resume.
    fn tell_taken(&mut self, now: Time) {
        if let Some(epoch) = self.taken.take() {
            self.session.enabled(now, epoch);
            self.look(now);
        }
    }

    /// Somebody resumed: the device may move, unless it cannot, or is being stopped at this moment. May it?
    fn enable(&mut self, now: Time, epoch: u32) -> bool {
        // What it said until now is of the motion before.
        let lasting = self.device.0.failure().filter(DeviceFailure::is_lasting);
        match lasting.map_or_else(|| self.device.0.enable(), Err) {
            Ok(()) => {
                self.failed = None;
                self.stands = false;
                self.taken = Some(epoch);
                true
            }
            Err(failure) => {
                self.device_failed(now, failure);
                false
            }
        }
    }

    /// What is left of the watchdog's time.
    fn lease(&self, now: Time) -> Duration {
        self.session.watchdog_due().map_or(Duration::ZERO, |due| due.saturating_since(now))
    }

    /// The device gets what is left of the watchdog's time, and nothing when that is over or the robot stopped since.
    fn apply(&mut self, now: Time, state: State, age: Duration, fresh: Duration) {
        let lease = self.lease(now);
        let applied = !lease.is_zero() && self.device.0.apply(&SetPoint { state, age, lease, fresh });
        self.count_applied(now, applied, lease);
    }

    /// What nobody does keeps no robot enabled.
    fn count_applied(&mut self, now: Time, applied: bool, lease: Duration) {
        self.report.not_applied += u64::from(!applied);
        if applied || lease.is_zero() {
            return;
        }
        match self.device.0.failure() {
            Some(failure) => self.device_failed(now, failure),
            None => _ = self.session.stop(now, StopCause::Device),
        }
    }

    /// Does what an event says; `None` when nobody else needs to know.
    fn notice(&mut self, now: Time, event: RobotEvent) -> Option<RobotNote> {
        match event {
            RobotEvent::Apply { state, age, left, .. } => {
                self.apply(now, state, age, left);
                // Then the watchdog was fed; a busy host tells of it later.
                self.applied = Some((state.created + age).min(now));
                return None;
            }
            RobotEvent::Move { channel, motion, age, .. } => {
                let lease = self.lease(now);
                let moves = !lease.is_zero() && self.device.0.drive(channel, &motion, lease);
                self.count_applied(now, moves, lease);
                self.applied = Some((now - age).max(self.applied.unwrap_or(Time::ZERO)));
                return None;
            }
            RobotEvent::Channel(ChannelEvent::Received { channel, age, ref payload, .. }) => {
                self.device.0.receive(channel, age, payload);
            }
            RobotEvent::Stop { why } => {
                if !std::mem::take(&mut self.stands) {
                    self.device.0.stop(why);
                }
                self.notes.push_back(RobotNote::Device(self.report));
                let silence = self.applied.take().map(|applied| now.saturating_since(applied));
                return Some(RobotNote::Stopped { why, silence, position: self.position });
            }
            // Nobody is told that a robot moves whose device does not, but what is wrong with it.
            RobotEvent::Enabled { epoch } if !self.enable(now, epoch) => return self.notes.pop_front(),
            RobotEvent::Keep { number, latch } => {
                return Some(RobotNote::Keep { number, life: RobotLife { ended: false, latch } });
            }
            RobotEvent::Connected { .. } => {
                self.serves(now, true);
                // Whoever comes is told at once how the robot is.
                self.next_step = self.next_step.min(now);
                self.next_report = self.report_period.map_or(Time::MAX, |period| now + period);
            }
            RobotEvent::Closed => {
                self.serves(now, false);
                if self.closing.is_none() {
                    self.notes.push_back(RobotNote::Reconnect);
                }
            }
            RobotEvent::Refused(cause) => {
                self.refusals.count(cause);
                self.remember_stranger();
                return None;
            }
            RobotEvent::Dropped { .. } | RobotEvent::FeedbackDropped { .. } => return None,
            _ => {}
        }
        Some(RobotNote::Event(event))
    }

    /// A datagram arrived.
    pub fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.tell_taken(now);
        self.session.handle_input(now, input);
        self.look(now);
    }

    /// The deadline has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.tell_taken(now);
        if self.session_due.get() <= now || self.transport().wakes_early() {
            self.session.handle_timeout(now);
            self.look(now);
        }
        self.step(now);
        self.look(now);
    }

    /// A person beside it, or its host, asks for something.
    pub fn handle_command(&mut self, now: Time, command: RobotCommand) {
        match command {
            RobotCommand::Release => self.session.release(now),
            RobotCommand::Kept { number, ok } => {
                self.session.kept(now, number, ok);
                // It is tried again, and told once.
                if ok {
                    self.not_kept = None;
                } else if self.not_kept.replace(number) != Some(number) {
                    self.notes.push_back(RobotNote::NotKept);
                }
            }
            RobotCommand::Send { channel, created, payload } => {
                let taken = self.send(now, channel, created.unwrap_or(now), &payload);
                if let Err(why) = taken
                    && why != SendRefused::NotOpen
                {
                    self.notes.push_back(RobotNote::NotSent { channel, why });
                }
            }
            RobotCommand::Measured { channel, motion } => self.session.measure_motion(now, channel, &motion),
            RobotCommand::Reconnect => self.session.close(now),
            RobotCommand::Close => {
                self.closing.get_or_insert(now + GOODBYE);
                self.session.close(now);
            }
        }
        self.look(now);
    }

    /// The emergency button beside it, ahead of every command.
    pub fn handle_alarm(&mut self, now: Time, alarm: Alarm) {
        let cause = match alarm {
            Alarm::Pressed => StopCause::LocalEmergency,
            Alarm::Lost => StopCause::ButtonLost,
        };
        self.session.stop(now, cause);
        self.look(now);
    }

    /// The next datagram to send; its bytes are appended to `buffer`, which is empty.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.tell_taken(now);
        self.session.poll_transmit(now, buffer)
    }

    /// What happened.
    pub fn poll_event(&mut self, now: Time) -> Option<RobotNote> {
        let note = self.poll_note(now);
        self.look(now);
        if let Some(note) = &note {
            diagnostics::robot_note(note);
        }
        note
    }

    fn poll_note(&mut self, now: Time) -> Option<RobotNote> {
        if let Some(note) = self.notes.pop_front() {
            return Some(note);
        }
        while let Some(event) = self.session.poll_event() {
            self.look(now);
            self.eye.show(now, Observed::Robot(&event, self.session.clock(now)));
            diagnostics::robot_event(&event);
            if let Some(note) = self.notice(now, event) {
                return Some(note);
            }
        }
        if let Some((cause, count)) = self.refusals.poll(now) {
            let busy = if cause == DropCause::Unauthenticated { self.newly_busy().min(count) } else { 0 };
            let who = if cause == DropCause::Unauthenticated { self.stranger.take() } else { None };
            return Some(RobotNote::Refused { cause, count, busy, who });
        }
        let is = (self.session.state(), self.session.cause());
        let reports = if self.has_operator { now >= self.next_report } else { is != self.reported };
        if let Some(period) = self.report_period.filter(|_| reports) {
            self.next_report = (self.next_report + period).max(now);
            self.reported = is;
            self.notes.push_back(RobotNote::Device(self.report));
            return Some(RobotNote::Progress(Box::new(self.status(now))));
        }
        let ends = self.closing.is_some_and(|until| now >= until || !self.transport().lingers());
        (ends && !std::mem::replace(&mut self.ended, ends)).then_some(RobotNote::Ended)
    }

    /// When `handle_timeout` has something to do, and what.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let report = (self.has_operator && self.report_period.is_some())
            .then(|| Deadline::new(self.next_report, "report"));
        let refusals = self.refusals.due().map(|at| Deadline::new(at, "refusals"));
        let own = earliest(Some(Deadline::new(self.next_step, "step")), earliest(report, refusals));
        let ends = self.closing.filter(|_| !self.ended).map(|until| Deadline::new(until, "goodbye"));
        let own = earliest(own, self.taken.map(|_| Deadline::new(Time::ZERO, "enabled")));
        let session = self.session.poll_timeout();
        self.session_due.set(session.map_or(Time::ZERO, |due| due.at));
        earliest(session, earliest(own, ends))
    }
}
