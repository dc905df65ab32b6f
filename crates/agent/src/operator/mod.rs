//! An operator with a device: samples at a rate, the buttons, what the hand feels, and what is worth telling.

mod connecting;
mod note;
mod reports;
mod resuming;
mod sampler;
mod settings;
mod silence;

use std::cell::Cell;
use std::collections::VecDeque;

use taut_core::{Datagram, Deadline, Duration, PathId, Rng, Time, Transmit, earliest};
use taut_session::motion::Motion;
use taut_session::{ChannelEvent, ChannelId, OperatorEvent, OperatorLife, ResumeError, RobotState, State};

pub use self::connecting::PATIENCE;
use self::connecting::{Connecting, Step};
pub use self::note::{EndedBy, Ending, OperatorCommand, OperatorNote, Progress, RoundTrips};
use self::reports::Reports;
pub use self::resuming::RETRY;
use self::resuming::Resuming;
use self::sampler::{Sampler, Turn};
pub use self::settings::{OperatorSettings, ResumePolicy, SampleFrom};
pub use self::silence::Standing;
use self::silence::{Change, Silence};
use crate::device::LostOnDrop;
use crate::diagnostics;
use crate::observer::Eye;
use crate::{
    Alarm, Conversation, DeviceMessage, GOODBYE, MOST_MESSAGES, Observed, OperatorDevice, Resume,
    SessionObserver, Trouble, Watched,
};

/// An operator, the device in its hand, and a clock that asks the device at a rate: sans-IO, over any transport.
///
/// It has the five verbs towards its host, which calls them as [`taut_core`] says, and besides:
/// [`handle_command`](Self::handle_command) and [`handle_alarm`](Self::handle_alarm) for the buttons. What it tells by
/// [`OperatorNote::Keep`] the host writes down, and where it asks by [`OperatorNote::Reconnect`] the host hands in a new
/// transport. The device feels what the robot feels, and is [told](OperatorDevice::lost) when nothing fresh is known of that, when
/// the session ends, and with the agent's end.
#[derive(Debug)]
pub struct Operator<T, D: OperatorDevice> {
    session: taut_session::Operator<Watched<T>>,
    /// When that is due, as long as nothing has happened since it was asked.
    session_due: Cell<Time>,
    device: LostOnDrop<D>,
    settings: OperatorSettings,
    now: Time,
    connecting: Connecting,
    sampler: Sampler,
    resuming: Resuming,
    reports: Reports,
    silence: Silence,
    /// Once channels have been open: when the device is asked next for what it has for them.
    next_exchange: Option<Time>,
    /// Until when the enabling input counts as held, where it comes by commands.
    held_until: Time,
    /// Where the robot is, and what it feels while that is fresh.
    robot_position: [f32; 3],
    robot_force: Option<[f32; 3]>,
    robot_torque: Option<[f32; 3]>,
    /// Of the records that were given out.
    kept: u64,
    /// Not told yet.
    notes: VecDeque<OperatorNote>,
    closing: Option<Closing>,
    eye: Eye,
}

/// It was closed here.
#[derive(Debug)]
struct Closing {
    /// When nobody waits for the goodbye any more.
    until: Time,
    /// `None`: the end has been told.
    progress: Option<Progress>,
}

/// What was given up may still be acknowledged, by a robot whose machine was busy: so long after the last sample.
const LATEST: Duration = Duration::from_millis(250);

impl<T: Conversation, D: OperatorDevice> Operator<T, D> {
    /// An operator over `transport`, which tries to connect from `now` on. `rng` gives the session its number.
    pub fn new(
        now: Time,
        transport: T,
        rng: Rng,
        session: taut_session::OperatorConfig,
        device: D,
        settings: OperatorSettings,
    ) -> Self {
        Self {
            session: taut_session::Operator::new(Watched::new(transport), session, rng),
            session_due: Cell::new(Time::ZERO),
            device: LostOnDrop(device),
            settings,
            now,
            connecting: Connecting::new(now),
            sampler: Sampler::new(&settings),
            resuming: Resuming::new(&settings),
            reports: Reports::new(&settings),
            silence: Silence::default(),
            next_exchange: None,
            held_until: Time::ZERO,
            robot_position: [0.0; 3],
            robot_force: None,
            robot_torque: None,
            kept: 0,
            notes: VecDeque::new(),
            closing: None,
            eye: Eye::default(),
        }
    }

    /// Shows everything to `observer`. Default: nobody looks on.
    pub fn observed(mut self, observer: Box<dyn SessionObserver>) -> Self {
        self.eye = Eye::new(observer);
        self.session.transport_mut().watch(&self.eye);
        self
    }

    /// An emergency stop of an earlier life was never acknowledged: it is pressed again.
    pub fn press_again(&mut self, now: Time) {
        self.press_stop(now);
    }

    fn press_stop(&mut self, now: Time) {
        self.resuming.stop_pressed();
        self.eye.show(now, Observed::StopPressed { waiting: self.session.waiting() });
        self.session.emergency_stop(now);
        self.keep(true);
    }

    fn keep(&mut self, unacknowledged: bool) {
        self.kept += 1;
        let life = OperatorLife { unacknowledged };
        self.notes.push_back(OperatorNote::Keep { number: self.kept, life });
    }

    /// The session.
    pub fn session(&self) -> &taut_session::Operator<Watched<T>> {
        &self.session
    }

    /// The device.
    pub fn device(&self) -> &D {
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

    /// Everything so far.
    pub fn progress(&self, now: Time) -> Progress {
        let heard = self.session.heard();
        let mut status = self.session.status(now);
        // Streams have their own count: no datagram of them passes here.
        if let Some((sent, _)) = self.transport().stream_bytes()
            && status.elapsed_s > 0.0
        {
            status.throughput_bps = sent as f64 * 8.0 / status.elapsed_s;
        }
        Progress {
            status,
            standing: self.silence.standing(heard, self.session.robot().0),
            silence: heard.map(|heard| now.saturating_since(heard)),
            round_trips: self.reports.round_trips(),
            made: self.sampler.made,
            missed: self.sampler.missed,
            stale: self.sampler.stale,
            robot_position: self.robot_position,
            robot_force: self.robot_force,
            robot_torque: self.robot_torque,
            choices: self.transport().choices(),
            copies: self.transport().copies(),
        }
    }

    /// Says goodbye.
    fn close(&mut self, now: Time) {
        if self.closing.is_some() {
            return;
        }
        self.closing = Some(Closing { until: now + GOODBYE, progress: Some(self.progress(now)) });
        self.connecting.end();
        self.sampler.end();
        self.next_exchange = None;
        self.resuming.end();
        self.let_go();
        self.session.close(now);
    }

    /// Nothing fresh is known of the robot.
    fn let_go(&mut self) {
        (self.robot_force, self.robot_torque) = (None, None);
        self.device.0.lost();
    }

    /// Goes on over another transport, asked for by [`OperatorNote::Reconnect`]. Gives the last one back.
    pub fn reconnect(&mut self, now: Time, transport: T) -> T {
        self.now = now;
        self.connecting.reconnected();
        let old = self.session.reconnect(now, Watched::seen_by(transport, &self.eye));
        self.look(now);
        old.into_inner()
    }

    /// A path is no more; see [`taut_core::Transport::remove_path`].
    pub fn remove_path(&mut self, now: Time, path: PathId) {
        self.transport_mut().remove_path(now, path);
    }

    /// After each verb: shows what went through the transport.
    fn look(&mut self, now: Time) {
        self.session_due.set(Time::ZERO);
        if self.session.transport().has_seen() {
            self.eye.show_all(now, self.session.transport_mut());
        }
    }

    /// Asks the device, when it is time.
    fn sample(&mut self, now: Time) {
        let sample = match self.sampler.poll(now) {
            Turn::Wait => return,
            Turn::End => None,
            Turn::Sample { late } => {
                if late > 0 {
                    self.sampler.missed(self.device.0.skip(late));
                }
                self.device.0.sample(now)
            }
        };
        let Some(sample) = sample else {
            self.sampler.drain(now);
            self.resuming.end();
            self.eye.show(now, Observed::DeviceDone);
            return;
        };
        if !self.sampler.is_new(&sample) {
            return;
        }
        let state = sample.state;
        let state = State { created: now, enabling: self.is_held(now, state.enabling), ..state };
        let state = self.session.as_sent(state);
        // Why one is refused is in the counters.
        let taken = self.session.send_state(now, state);
        self.eye.show(now, Observed::Made(&state, taken));
        self.sampler.sent(taken.is_ok());
    }

    /// Takes what the device has for channels, when it is time.
    fn exchange(&mut self, now: Time) {
        let Some(due) = self.next_exchange.filter(|due| now >= *due) else { return };
        // As samples are: a host that is late asks no less often.
        let period = self.settings.period;
        let behind = (now - due) / period;
        self.next_exchange = Some(due + period * (behind + 1));
        self.session.miss(behind);
        if let Some(rate) = self.session.channel_bitrate() {
            self.device.0.limit_bitrate(rate);
        }
        for _ in 0..MOST_MESSAGES {
            match self.device.0.poll_message(now) {
                Some(DeviceMessage::Payload { channel, payload }) => self.send(now, channel, now, &payload),
                Some(DeviceMessage::Motion { channel, motion }) => self.send_motion(now, channel, &motion),
                None => break,
            }
        }
    }

    /// Why one is refused is in the counters.
    fn send(&mut self, now: Time, channel: ChannelId, created: Time, payload: &[u8]) {
        let taken = self.session.send(now, channel, created, payload);
        self.eye.show(now, Observed::Message { channel, payload, taken });
    }

    fn send_motion(&mut self, now: Time, channel: ChannelId, motion: &Motion) {
        let motion = motion.with_enabling(self.is_held(now, motion.enabling()));
        let taken = self.session.send_motion(now, channel, now, &motion);
        if self.eye.is_open() {
            let mut payload = Vec::with_capacity(motion.len());
            motion.emit(&mut payload);
            self.eye.show(now, Observed::Message { channel, payload: &payload, taken });
        }
    }

    /// Does the enabling input count as held, of a device that says so or not? Where there is a key for it, that decides.
    fn is_held(&self, now: Time, says: bool) -> bool {
        self.settings.hold.map_or(says, |_| now < self.held_until)
    }

    fn press_resume(&mut self, now: Time) -> Result<(), ResumeError> {
        let moves = self.session.moves();
        self.session.resume(now)?;
        if !moves {
            self.device.0.resumed(Resume::Asked);
        }
        self.eye.show(now, Observed::ResumePressed);
        Ok(())
    }

    /// Lets the robot move without being asked, when it is time.
    fn resume(&mut self, now: Time) {
        let (state, cause) = self.session.robot();
        if self.resuming.is_due(now, state, cause) && self.press_resume(now).is_err() {
            self.resuming.again(now);
        }
    }

    /// What an event means here; `None` when nobody else needs to know.
    fn notice(&mut self, now: Time, event: OperatorEvent) -> Option<OperatorNote> {
        match event {
            OperatorEvent::Acknowledged { rtt, .. } => {
                self.reports.round_trip(rtt);
                return None;
            }
            OperatorEvent::Feedback { state, .. } => {
                self.robot_position = state.position;
                self.robot_force = Some(state.force);
                self.robot_torque = state.turning.map(|turning| turning.torque);
                self.device.0.feel(now, &state);
                return None;
            }
            OperatorEvent::Dropped { .. } | OperatorEvent::Refused(_) => return None,
            // What the robot does not keep is kept here until it is let go.
            OperatorEvent::EmergencyStopped { kept, .. } => self.keep(!kept),
            OperatorEvent::WasReset => self.keep(false),
            OperatorEvent::FeedbackLost => self.let_go(),
            // Told once.
            OperatorEvent::Incompatible(ref error)
                if !self.connecting.refused(now, Trouble::Ended(error.to_string())) =>
            {
                return None;
            }
            OperatorEvent::Channel(ChannelEvent::Opened { .. }) => {
                self.next_exchange.get_or_insert(now);
            }
            OperatorEvent::Channel(ChannelEvent::Received { channel, age, ref payload, .. }) => {
                self.device.0.receive(channel, age, payload);
            }
            OperatorEvent::RobotLeft => self.connecting.robot_left(),
            OperatorEvent::Closed => {
                self.connecting.closed(now);
                self.silence.closed();
                self.let_go();
            }
            OperatorEvent::Connected { watchdog, .. } => {
                self.connecting.connected();
                self.silence.connected(watchdog);
                self.reports.begin(now);
                self.sampler.begin(now, SampleFrom::Connected);
            }
            // It may be all that is heard of a resume whose answer is lost.
            OperatorEvent::Robot { state: RobotState::Enabled, .. } => self.device.0.resumed(Resume::Done),
            OperatorEvent::Resumed => {
                // What the hand did before it is asked for the first time moves nothing.
                if self.sampler.begin(now, SampleFrom::Resumed) {
                    self.device.0.resumed(Resume::Asked);
                }
                self.device.0.resumed(Resume::Done);
            }
            _ => {}
        }
        self.resuming.notice(now, &event);
        Some(OperatorNote::Event(event))
    }

    /// Do the robot's answers stay out, or come again?
    fn poll_silence(&mut self, now: Time) -> Option<OperatorNote> {
        let (heard, rtt) = (self.session.heard(), self.session.smoothed_rtt());
        Some(match self.silence.poll(now, heard, rtt)? {
            Change::Silent(silence) => OperatorNote::NoAnswer { silence },
            Change::Answered(silence) => OperatorNote::AnswersAgain { silence },
        })
    }

    /// A report, when it is time for one.
    fn poll_report(&mut self, now: Time) -> Option<OperatorNote> {
        if !self.reports.poll(now, self.sampler.sent) {
            return None;
        }
        let progress = self.progress(now);
        self.reports.told();
        Some(OperatorNote::Progress(Box::new(progress)))
    }

    /// Is it known what became of every sample? Then it says goodbye.
    fn poll_done(&mut self, now: Time) -> Option<OperatorNote> {
        let since = self.sampler.look(now)?;
        let status = self.session.status(now);
        let known = self.session.waiting() == 0 && status.delivered + status.lost >= status.messages;
        let patience = match known {
            false => self.settings.drain,
            true if status.lost > 0 => self.settings.drain.min(LATEST),
            true => Duration::ZERO,
        };
        if now.saturating_since(since) < patience {
            return None;
        }
        self.sampler.end();
        if !self.settings.stays {
            self.close(now);
        }
        Some(OperatorNote::Done)
    }

    /// Is there a session, or still one to be had?
    fn poll_link(&mut self, now: Time) -> Option<OperatorNote> {
        let transport = self.session.transport().inner();
        match self.connecting.poll(now, self.session.heard(), || transport.trouble())? {
            Step::Reconnect => Some(OperatorNote::Reconnect),
            Step::GiveUp { was_connected } => {
                let trouble = self.connecting.why(transport.trouble());
                if self.connecting.is_refused() {
                    // It does not wait for this end.
                    self.session.close(now);
                }
                let why = if was_connected { EndedBy::Lost(trouble) } else { EndedBy::NotConnected(trouble) };
                let progress = self.progress(now);
                self.closing = Some(Closing { until: now, progress: None });
                self.sampler.end();
                self.resuming.end();
                self.let_go();
                Some(OperatorNote::Ended(Box::new(Ending { why, progress })))
            }
        }
    }

    /// Was the goodbye said?
    fn poll_goodbye(&mut self, now: Time) -> Option<OperatorNote> {
        let lingers = self.transport().lingers();
        let closing = self.closing.as_mut().filter(|closing| !lingers || now >= closing.until)?;
        let progress = closing.progress.take()?;
        Some(OperatorNote::Ended(Box::new(Ending { why: EndedBy::Goodbye, progress })))
    }

    /// A datagram arrived.
    pub fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.now = now;
        self.session.handle_input(now, input);
        self.look(now);
    }

    /// The deadline has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        if self.session_due.get() <= now || self.transport().wakes_early() {
            self.session.handle_timeout(now);
            self.look(now);
        }
        self.resume(now);
        self.sample(now);
        self.exchange(now);
        self.look(now);
    }

    /// A person asks for something.
    pub fn handle_command(&mut self, now: Time, command: OperatorCommand) {
        self.now = now;
        let done = match command {
            // Refused while there is no session or the stop is not acknowledged: the person presses again.
            OperatorCommand::Reset => self.session.reset(now).map_err(OperatorNote::NotReset),
            OperatorCommand::Resume => {
                let resumed = self.press_resume(now).inspect(|()| self.resuming.person_resumed());
                resumed.map_err(OperatorNote::NotResumed)
            }
            OperatorCommand::Hold => {
                self.held_until = now + self.settings.hold.unwrap_or(Duration::ZERO);
                Ok(())
            }
            OperatorCommand::LetGo => {
                self.held_until = now;
                Ok(())
            }
            OperatorCommand::Send { channel, created, payload } => {
                self.send(now, channel, created.unwrap_or(now), &payload);
                Ok(())
            }
            OperatorCommand::Move { channel, motion } => {
                self.send_motion(now, channel, &motion);
                Ok(())
            }
            OperatorCommand::Reconnect => {
                if self.closing.is_none() {
                    self.connecting.left(now);
                    self.session.close(now);
                }
                Ok(())
            }
            OperatorCommand::Close => {
                self.close(now);
                Ok(())
            }
        };
        if let Err(note) = done {
            let kind = std::mem::discriminant(&note);
            self.notes.retain(|known| std::mem::discriminant(known) != kind);
            self.notes.push_back(note);
        }
        self.look(now);
    }

    /// The emergency button, ahead of every command.
    pub fn handle_alarm(&mut self, now: Time, _: Alarm) {
        self.now = now;
        self.press_stop(now);
        self.look(now);
    }

    /// The next datagram to send; its bytes are appended to `buffer`, which is empty.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.session.poll_transmit(now, buffer)
    }

    /// What happened.
    pub fn poll_event(&mut self, now: Time) -> Option<OperatorNote> {
        self.now = now;
        let note = self.poll_note(now);
        self.look(now);
        if let Some(note) = &note {
            diagnostics::operator_note(note);
        }
        note
    }

    fn poll_note(&mut self, now: Time) -> Option<OperatorNote> {
        if let Some(note) = self.notes.pop_front() {
            return Some(note);
        }
        while let Some(event) = self.session.poll_event() {
            self.look(now);
            self.eye.show(now, Observed::Operator(&event));
            diagnostics::operator_event(&event);
            if let Some(note) = self.notice(now, event) {
                return Some(note);
            }
        }
        let told = self.poll_silence(now).or_else(|| self.poll_report(now));
        let told = told.or_else(|| self.poll_done(now)).or_else(|| self.poll_link(now));
        told.or_else(|| self.poll_goodbye(now))
    }

    /// When `handle_timeout` has something to do, and what.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let silent = self.silence.due(self.session.heard(), self.session.smoothed_rtt());
        let silent = silent.map(|at| Deadline::new(at, "silence"));
        let ends = self.closing.as_ref().filter(|closing| closing.progress.is_some());
        let ends = ends.map(|closing| Deadline::new(closing.until, "goodbye"));
        let own = earliest(self.sampler.poll_timeout(), self.resuming.poll_timeout());
        let own = earliest(own, earliest(self.reports.poll_timeout(), silent));
        let own = earliest(own, self.next_exchange.map(|at| Deadline::new(at, "messages")));
        let own = earliest(own, earliest(self.connecting.poll_timeout(self.now), ends));
        let session = self.session.poll_timeout();
        self.session_due.set(session.map_or(Time::ZERO, |due| due.at));
        earliest(session, own)
    }
}
