//! An operator with a device: samples at a rate, the buttons, and what is worth telling.

use taut_core::{Datagram, Deadline, Duration, Origin, PathId, Time, Transmit, Transport, earliest};
use taut_session::{Answer, Operator, OperatorEvent, OperatorLife, ResumeError, RobotState, State, Status};
use taut_transport::mtip::ChoiceReport;

use super::carrier::{Carrier, Trouble};
use super::operate::OperateConfig;
use super::paths::PathNote;
use super::silence::{Change, Silence, Standing};
use super::witness::{Seen, Witness};
use crate::{Alarm, Machine, StateWriter};

/// When an operator lets the robot move by itself. Whatever the policy: after an emergency stop, at either end and in this
/// session or an earlier one, only a person does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResumePolicy {
    /// Never: a person does, by [`OperatorCommand::Resume`].
    #[default]
    Never,
    /// Once, when it has connected.
    Start,
    /// After every other stop: for measurements over links that fail. Not beside people.
    Always,
}

/// What an operator is asked from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorCommand {
    /// Let go of the stop that is latched at the robot. Nothing moves by it.
    Reset,
    /// Let the robot move again. The emergency button is [`Remote::stop`](super::Remote::stop).
    Resume,
    /// The enabling input is held: for [`OperateConfig::hold_to_run`], or until the next of these.
    Hold,
    /// It is let go.
    LetGo,
    /// Say goodbye.
    Close,
}

/// What a device says when it is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Where it is. Its time of creation is when it was asked.
    pub state: State,
    /// The device's own count, or time, of its readings. One that does not change says that the device read nothing new, whether or
    /// not its values change: such a sample is not sent, and the robot's watchdog stops the robot.
    pub reading: u64,
}

impl Sample {
    /// Of a device that has a new reading whenever it is asked: a simulation, or a recording.
    pub fn counted(states: impl Iterator<Item = State>) -> impl Iterator<Item = Self> {
        (0..).zip(states).map(|(reading, state)| Self { state, reading })
    }
}

/// How a session goes.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Since it began.
    pub status: Status,
    /// How the robot is, as far as is known here.
    pub standing: Standing,
    /// Since the robot said something last; `None`: it has not yet.
    pub silence: Option<Duration>,
    /// Round trips since the last such report.
    pub round_trips: RoundTrips,
    /// Samples that the device made, whether or not they could be sent.
    pub made: u64,
    /// Samples that the device should have made while this host was too late to ask it.
    pub missed: u64,
    /// Samples of a device that had read nothing new: these are not sent.
    pub stale: u64,
    /// Where the robot says it is, m.
    pub robot_position: [f32; 3],
    /// What the robot feels, N; `None` while nothing fresh is known of it: the hand is given none.
    pub robot_force: Option<[f32; 3]>,
    /// How messages were spread over paths, and why: [`Carrier::choices`].
    pub choices: Option<ChoiceReport>,
}

/// Round trips of some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoundTrips {
    /// How many.
    pub count: u64,
    /// Their mean, ms; 0 when there were none.
    pub mean_ms: f64,
    /// The longest, ms.
    pub max_ms: f64,
}

/// What an operator tells those around it. What happens a thousand times a second is summed up.
#[derive(Clone, Debug)]
pub enum OperatorNote {
    /// Something happened.
    Event(OperatorEvent),
    /// The robot has said nothing for longer than its watchdog and a round trip: if it hears as little, it stops.
    NoAnswer {
        /// For so long.
        silence: Duration,
    },
    /// The robot answers again.
    AnswersAgain {
        /// After so long.
        silence: Duration,
    },
    /// It is time for a report.
    Progress(Box<Progress>),
    /// An interface of ours came or went, and with it a path.
    Path(PathNote),
    /// A person asked for what is not possible at present.
    NotDone(ResumeError),
    /// All samples were made, and it is known what became of them.
    Done,
}

/// An operator, the device in its hand, and a clock that asks the device at a rate.
///
/// Samples are made from the first resume on, whatever happens then: a hand does not hold still because the robot does.
#[derive(Debug)]
pub struct OperatorMachine<I> {
    operator: Operator<Carrier>,
    device: I,
    period: Duration,
    policy: ResumePolicy,
    /// Samples that are still to be sent; `None`: without end.
    left: Option<u64>,
    report_messages: Option<u64>,
    report_period: Option<Duration>,

    started: bool,
    next_sample: Option<Time>,
    /// The device's last reading.
    reading: Option<u64>,
    /// How long the enabling input counts as held, and until when it does; `None`: the device says it with each state.
    hold: Option<Duration>,
    held_until: Time,
    next_report: Option<Time>,
    /// Sent, for reports by number.
    sent: u64,
    reported: u64,
    /// Another attempt to resume.
    retry: Option<Time>,
    /// The emergency button was pressed here, and no resume since.
    pressed: bool,
    /// Since when all that is to be sent was sent.
    drained: Option<Time>,
    next_look: Time,
    done: bool,
    /// Why the last reset or resume that a person asked for was not possible, until it is told.
    not_done: Option<ResumeError>,
    closing: bool,

    silence: Silence,
    progress: Progress,
    sum_ms: f64,
    witness: Option<Witness>,
    /// Writes down that a stop was pressed and not acknowledged, by number.
    keeper: Option<StateWriter>,
    kept: u64,
    /// When nothing more is waited for.
    drain: Duration,
}

/// Between two attempts to resume.
const RETRY: Duration = Duration::from_millis(100);
/// What was given up may still be acknowledged, by a robot whose machine was busy: so long after the last sample.
const LATEST: Duration = Duration::from_millis(250);
/// How often it is looked whether everything is known.
const LOOK: Duration = Duration::from_millis(10);

impl<I: Iterator<Item = Sample>> OperatorMachine<I> {
    /// An operator whose device is asked every `period`, at least 1 µs, for its next sample. The device ends when it has no more, or after `limit` samples that could be sent.
    pub fn new(operator: Operator<Carrier>, device: I, period: Duration, limit: Option<u64>) -> Self {
        Self {
            operator,
            device,
            period: period.max(Duration::from_micros(1)),
            policy: ResumePolicy::default(),
            left: limit,
            report_messages: None,
            report_period: None,
            started: false,
            next_sample: None,
            reading: None,
            hold: None,
            held_until: Time::ZERO,
            next_report: None,
            sent: 0,
            reported: 0,
            retry: None,
            pressed: false,
            drained: None,
            next_look: Time::ZERO,
            done: false,
            not_done: None,
            closing: false,
            silence: Silence::default(),
            progress: Progress::default(),
            sum_ms: 0.0,
            witness: None,
            keeper: None,
            kept: 0,
            drain: OperateConfig::DRAIN,
        }
    }

    /// When it resumes by itself. Default: never.
    pub fn resumes(mut self, policy: ResumePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// The enabling input comes by [`OperatorCommand::Hold`], each for so long. Default: with the device's states.
    pub fn holds_to_run(mut self, hold: Option<Duration>) -> Self {
        self.hold = hold;
        self
    }

    /// Waits so long to know what became of every sample, when all were sent. Default [`OperateConfig::DRAIN`].
    pub fn drains(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Reports every so many samples sent; at least 1. Default: not.
    pub fn reports_by_number(mut self, samples: u64) -> Self {
        self.report_messages = Some(samples.max(1));
        self
    }

    /// Reports every so often; at least 1 ms. Default: not.
    pub fn reports_by_time(mut self, period: Duration) -> Self {
        self.report_period = Some(period.max(Duration::from_millis(1)));
        self
    }

    /// Shows everything to `witness`. Default: nobody looks on.
    pub fn witnessed(mut self, witness: Witness) -> Self {
        self.witness = Some(witness);
        self
    }

    /// An emergency stop that is not acknowledged is written by `keeper`. One of an earlier life is pressed again.
    pub(super) fn keep_by(&mut self, now: Time, keeper: StateWriter, pressed: bool) {
        self.keeper = Some(keeper);
        if pressed {
            self.press_stop(now);
        }
    }

    fn keep(&mut self, unacknowledged: bool) {
        if let Some(keeper) = &self.keeper {
            self.kept += 1;
            keeper.write(self.kept, OperatorLife { unacknowledged }.to_string());
        }
    }

    fn press_stop(&mut self, now: Time) {
        (self.retry, self.pressed) = (None, true);
        self.show(now, Seen::StopPressed { waiting: self.operator.waiting() });
        self.operator.emergency_stop(now);
        self.keep(true);
    }

    fn show(&self, now: Time, seen: Seen<'_>) {
        if let Some(witness) = &self.witness {
            witness.look(now, seen);
        }
    }

    /// The session.
    pub fn operator(&self) -> &Operator<Carrier> {
        &self.operator
    }

    /// Why there is no session, as far as this end can know.
    pub fn trouble(&self) -> Trouble {
        self.operator.transport().trouble()
    }

    /// Everything so far.
    pub fn progress(&self, now: Time) -> Progress {
        let mut progress = self.progress.clone();
        progress.status = self.operator.status(now);
        progress.choices = self.operator.transport().choices();
        let heard = self.operator.heard();
        progress.standing = self.silence.standing(heard, self.operator.robot().0);
        progress.silence = heard.map(|heard| now.saturating_since(heard));
        // The kernel's TCP has its own count: no datagram of it passes here.
        if let Some((sent, _)) = self.operator.transport().stream_bytes()
            && progress.status.elapsed_s > 0.0
        {
            progress.status.throughput_bps = sent as f64 * 8.0 / progress.status.elapsed_s;
        }
        progress
    }

    /// Says goodbye.
    pub(super) fn close(&mut self, now: Time) {
        self.next_sample = None;
        self.closing = true;
        self.operator.close(now);
    }

    /// Was it closed here?
    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Goes on over another carrier.
    pub(super) fn reconnect(&mut self, now: Time, carrier: Carrier) {
        self.operator.reconnect(now, carrier);
    }

    /// A path that begins here came or went.
    pub(super) fn path_changed(&mut self, now: Time, note: &PathNote) {
        let transport = self.operator.transport_mut();
        match note.missing {
            None => {
                transport.add_path(now, note.path);
            }
            Some(_) => transport.remove_path(now, note.path),
        }
    }

    pub(super) fn lingers(&self) -> bool {
        self.operator.transport().lingers()
    }

    fn make(&mut self, now: Time) {
        let Some(due) = self.next_sample else { return };
        if now < due {
            return;
        }
        // What the hand did while this host was too late to look is gone, in a recording as in a real one. One sample is
        // made up for: the session's limit of the rate lets it pass.
        let behind = now.saturating_since(due) / self.period;
        let past = behind.saturating_sub(1);
        let samples = self.device.by_ref().take(usize::try_from(past).unwrap_or(usize::MAX));
        // Behind the end of a recording there is nothing to miss.
        self.progress.missed += samples.count() as u64;
        self.next_sample = Some(due + self.period * (past + 1));
        self.make_one(now);
    }

    fn make_one(&mut self, now: Time) {
        let sample = if self.left == Some(0) { None } else { self.device.next() };
        let Some(Sample { state, reading }) = sample else {
            self.next_sample = None;
            self.drained = Some(now);
            self.show(now, Seen::DeviceDone);
            return;
        };
        if self.reading.replace(reading) == Some(reading) {
            self.progress.stale += 1;
            return;
        }
        self.progress.made += 1;
        // Why one is refused is in the counters.
        let enabling = if self.hold.is_some() { now < self.held_until } else { state.enabling };
        let state = State { created: now, enabling, ..state };
        let taken = self.operator.send_state(now, state);
        self.show(now, Seen::Made(&state, taken));
        if taken.is_ok() {
            self.left = self.left.map(|left| left - 1);
            self.sent += 1;
        }
    }

    /// Lets the robot move without being asked.
    fn resume(&mut self, now: Time) {
        let (state, cause) = self.operator.robot();
        if self.pressed || state == RobotState::Fault || cause.is_emergency() {
            self.retry = None;
            return;
        }
        self.retry = match self.operator.resume(now) {
            Ok(()) => {
                self.show(now, Seen::ResumePressed);
                None
            }
            Err(_) => Some(now + RETRY),
        };
    }

    /// What an event means here; `None` when nobody else needs to know.
    fn notice(&mut self, now: Time, event: OperatorEvent) -> Option<OperatorNote> {
        match event {
            OperatorEvent::Acknowledged { rtt, .. } => {
                let ms = rtt.as_millis_f64();
                let trips = &mut self.progress.round_trips;
                (trips.count, trips.max_ms) = (trips.count + 1, trips.max_ms.max(ms));
                self.sum_ms += ms;
                return None;
            }
            OperatorEvent::Feedback { state, .. } => {
                self.progress.robot_position = state.position;
                self.progress.robot_force = Some(state.force);
                return None;
            }
            // What the robot does not keep is kept here until it is let go.
            OperatorEvent::EmergencyStopped { kept, .. } => self.keep(!kept),
            OperatorEvent::WasReset => self.keep(false),
            OperatorEvent::FeedbackLost => self.progress.robot_force = None,
            OperatorEvent::Closed => {
                self.silence.closed();
                self.progress.robot_force = None;
            }
            OperatorEvent::Dropped { .. } | OperatorEvent::Refused(_) => return None,
            OperatorEvent::Connected { watchdog, .. } => {
                self.silence.connected(watchdog);
                if self.next_report.is_none() {
                    self.next_report = self.report_period.map(|period| now + period);
                }
                match self.policy {
                    ResumePolicy::Start if !self.started => self.resume(now),
                    ResumePolicy::Always => self.resume(now),
                    _ => {}
                }
            }
            OperatorEvent::Robot { state: RobotState::Paused, .. }
                if self.policy == ResumePolicy::Always && self.started =>
            {
                self.resume(now);
            }
            OperatorEvent::Resumed => {
                self.retry = None;
                if !self.started {
                    self.started = true;
                    self.next_sample = Some(now);
                }
            }
            // Trying again changes nothing of these.
            OperatorEvent::ResumeRefused { answer: Some(Answer::PathTooSlow | Answer::Latched), .. } => {
                self.retry = None;
            }
            OperatorEvent::ResumeRefused { .. } => {
                let again = self.policy == ResumePolicy::Always
                    || self.policy == ResumePolicy::Start && !self.started;
                self.retry = again.then_some(now + RETRY);
            }
            _ => {}
        }
        Some(OperatorNote::Event(event))
    }

    /// Do the robot's answers stay out, or come again?
    fn poll_silence(&mut self, now: Time) -> Option<OperatorNote> {
        let (heard, rtt) = (self.operator.heard(), self.operator.smoothed_rtt());
        Some(match self.silence.poll(now, heard, rtt)? {
            Change::Silent(silence) => OperatorNote::NoAnswer { silence },
            Change::Answered(silence) => OperatorNote::AnswersAgain { silence },
        })
    }

    fn report(&mut self, now: Time) -> OperatorNote {
        let trips = &mut self.progress.round_trips;
        trips.mean_ms = if trips.count == 0 { 0.0 } else { self.sum_ms / trips.count as f64 };
        let progress = self.progress(now);
        (self.progress.round_trips, self.sum_ms) = (RoundTrips::default(), 0.0);
        OperatorNote::Progress(Box::new(progress))
    }

    /// A report, when it is time for one.
    fn poll_report(&mut self, now: Time) -> Option<OperatorNote> {
        if let Some(every) = self.report_messages
            && self.sent >= self.reported + every
        {
            self.reported += every;
            return Some(self.report(now));
        }
        let (period, due) = (self.report_period?, self.next_report?);
        if now < due {
            return None;
        }
        self.next_report = Some((due + period).max(now));
        Some(self.report(now))
    }

    /// Is it known what became of every sample?
    fn poll_done(&mut self, now: Time) -> Option<OperatorNote> {
        let since = self.drained?;
        if self.done || now < self.next_look {
            return None;
        }
        self.next_look = now + LOOK;
        let status = self.operator.status(now);
        let known = self.operator.waiting() == 0 && status.delivered + status.lost >= status.messages;
        let patience = if !known {
            self.drain
        } else if status.lost > 0 {
            self.drain.min(LATEST)
        } else {
            Duration::ZERO
        };
        if now.saturating_since(since) < patience {
            return None;
        }
        self.done = true;
        Some(OperatorNote::Done)
    }
}

impl<I: Iterator<Item = Sample>> Machine for OperatorMachine<I> {
    type Command = OperatorCommand;
    type Event = OperatorNote;

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.operator.handle_input(now, input);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.operator.handle_timeout(now);
        if self.retry.is_some_and(|at| now >= at) {
            self.resume(now);
        }
        self.make(now);
    }

    fn handle_command(&mut self, now: Time, command: OperatorCommand) {
        match command {
            // Refused while there is no session or the stop is not acknowledged: the person presses again.
            OperatorCommand::Reset => self.not_done = self.operator.reset(now).err(),
            OperatorCommand::Resume => match self.operator.resume(now) {
                Ok(()) => {
                    self.pressed = false;
                    self.show(now, Seen::ResumePressed);
                }
                Err(error) => self.not_done = Some(error),
            },
            OperatorCommand::Hold => self.held_until = now + self.hold.unwrap_or(Duration::ZERO),
            OperatorCommand::LetGo => self.held_until = now,
            OperatorCommand::Close => self.close(now),
        }
    }

    fn handle_alarm(&mut self, now: Time, _alarm: Alarm) {
        self.press_stop(now);
    }

    fn alarm_voids(command: &OperatorCommand) -> bool {
        matches!(command, OperatorCommand::Reset | OperatorCommand::Resume)
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.operator.poll_transmit(now, buffer)
    }

    fn poll_event(&mut self, now: Time) -> Option<OperatorNote> {
        while let Some(event) = self.operator.poll_event() {
            self.show(now, Seen::Operator(&event));
            if let Some(note) = self.notice(now, event) {
                return Some(note);
            }
        }
        if let Some(error) = self.not_done.take() {
            return Some(OperatorNote::NotDone(error));
        }
        let told = self.poll_silence(now).or_else(|| self.poll_report(now));
        told.or_else(|| self.poll_done(now))
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let at = |at: Option<Time>, why| at.map(|at| Deadline::new(at, why));
        let look = self.drained.filter(|_| !self.done).map(|_| self.next_look);
        let own = earliest(at(self.next_sample, "sample"), at(self.next_report, "report"));
        let own = earliest(own, earliest(at(self.retry, "resume"), at(look, "look")));
        let silent = self.silence.due(self.operator.heard(), self.operator.smoothed_rtt());
        let own = earliest(own, at(silent, "silence"));
        earliest(self.operator.poll_timeout(), own)
    }

    fn uses_path(&self, path: PathId) -> bool {
        self.operator.transport().uses_path(path)
    }

    fn remove_path(&mut self, now: Time, path: PathId) {
        self.operator.transport_mut().remove_path(now, path);
    }

    fn set_origin(&mut self, path: PathId, origin: Origin) {
        self.operator.transport_mut().set_origin(path, origin);
    }
}
