//! The end that moves.

mod acks;
mod enabling;
mod event;
mod keep;
mod motion;
mod processing;
mod receive;

use std::collections::{BTreeMap, VecDeque};

use taut_core::{Bitrate, Datagram, Deadline, DropCause, Duration, Rng, Time, Transmit, Transport, earliest};
use taut_wire::session::{Answer, Body, Command, Feedback, RobotState, Role, StopCause, Verdict};

use self::acks::Acks;
pub use self::event::RobotEvent;
use self::keep::Keeping;
use self::processing::Processor;
pub use self::receive::patience;
use crate::channel::{ChannelId, Channels, SendRefused};
use crate::codec::Codec;
use crate::config::RobotConfig;
use crate::counters::{Counters, Drops};
use crate::latency::Latencies;
use crate::motion::StateGuard;
use crate::motion::{Guard, Limits, Motion};
use crate::operator::StateError;
use crate::port::{Heard, NO_TAG, Parcel, Port, channel_number};
use crate::safety::{Latch, Safety, Source};
use crate::sending::{Dropped, Order, Pace, QueuedState, Sending, Settings};
use crate::state::State;
use crate::status::{Account, Status};
use crate::sync::{Age, ClockSync, RelativeAge};
use crate::window::Window;
use taut_core::ClockEstimate;

/// The robot's end of a session over any transport: sans-IO, with a transport's verbs towards its driver.
///
/// Whatever moves obeys its events: [`RobotEvent::Enabled`], which it [takes](Self::enabled) or not, [`RobotEvent::Apply`] and [`RobotEvent::Stop`]. Whatever measures calls
/// [`send_feedback`](Self::send_feedback). A button beside the robot calls [`emergency_stop`](Self::emergency_stop).
///
/// The driver must call [`handle_timeout`](Self::handle_timeout) when [`poll_timeout`](Self::poll_timeout) says so: the
/// watchdog is one of its deadlines. When it is late, no state gets past the watchdog all the same: every verb looks at it
/// first.
///
/// ```
/// use taut_core::{Duration, Seed, Time};
/// use taut_session::{MotionLimits, Robot, RobotConfig, RobotState};
/// use taut_transport::udp::{Udp, UdpConfig};
///
/// let config = RobotConfig::new()
///     .watchdog(Duration::from_millis(50))
///     .limits(MotionLimits::new().velocity(0.5).force(20.0));
/// let mut robot = Robot::new(Udp::new(UdpConfig::new()), config, Seed::new(1).stream("robot"));
/// robot.handle_timeout(Time::ZERO);
/// assert_eq!(robot.state(), RobotState::Disabled);
/// robot.emergency_stop(Time::ZERO);
/// assert_eq!(robot.state(), RobotState::Fault);
/// ```
#[derive(Debug)]
pub struct Robot<T> {
    config: RobotConfig,
    port: Port<T>,
    /// What came and is looked at after all emergency stops: empty, but for its room.
    batch: Vec<Heard>,
    now: Time,
    safety: Safety,
    /// When the operator was heard last, while there is one.
    operator: Option<Time>,
    /// When the first session was opened.
    began: Option<Time>,
    events: VecDeque<RobotEvent>,
    closed: bool,
    /// The transport is connected: what came before may have been recorded and sent again.
    connected: bool,

    window: Window,
    /// States that never arrived, of the operators before.
    missed: u64,
    /// The highest sequence that was accepted, and the highest that was applied.
    newest: u64,
    applied: u64,
    /// States made before this, on the operator's clock, are from before the last resume.
    floor_ns: u64,
    guard: StateGuard,
    /// Of each channel of motion.
    guards: BTreeMap<u8, Guard>,
    processor: Processor,
    dropped: Vec<Dropped>,

    sending: Sending,
    feedback_drops: Drops,

    next_status: Time,
    next_refusal: Time,
    next_foreign: Time,
    keeping: Keeping,
    /// The last reset: its copies are no resumes.
    last_reset: Option<u64>,
    /// The resume that waits for the device, and how old it was.
    resume: Option<(Command, Option<[Age; 2]>)>,
    acks: Acks,
    /// The age at which the operator says that its states are worthless, µs; 0 for never.
    state_deadline_us: u32,
    sync: ClockSync,
    relative: RelativeAge,
    rtt: Latencies,
    one_way: Latencies,
    counters: Counters,
}

/// A guard for each channel of motion.
fn guards(config: &RobotConfig) -> BTreeMap<u8, Guard> {
    let guard = |(at, limits): (&u8, &Limits)| (*at, Guard::new(limits.clone(), config.watchdog));
    config.guarded.iter().map(guard).collect()
}

/// A clock that steps by a quarter of the largest age, or of the watchdog, stops the robot. What is less is within what both allow.
const STEP_SHARE: u64 = 4;

/// The least time between two refusals: strangers are not helped to flood somebody.
pub(crate) const REFUSAL_INTERVAL: Duration = Duration::from_millis(50);

impl<T: Transport> Robot<T> {
    /// A robot over `transport`. `rng` draws the first epoch of its stops and simulated processing times.
    pub fn new(transport: T, config: RobotConfig, mut rng: Rng) -> Self {
        let mut port = Port::new(transport, config.codec, Role::Robot);
        port.sample_length = config.sample_length;
        port.session = u32::from(config.codec == Codec::Omni71);
        let interval = Duration::from_nanos(1_000_000_000 / u64::from(config.feedback_rate));
        let epoch = (rng.next_u64() >> 32) as u32;
        let sending = Settings {
            queue: config.queue,
            order: Order::Newest,
            interval,
            deadline: Some(config.feedback_deadline),
            reliable: false,
            acknowledged: config.codec == Codec::Native,
            window: config.window,
            congestion: config.congestion,
            channel_rate: config.channel_rate,
            headers: config.headers,
        };
        let channels = Channels::new(Role::Robot, &config.channels, &config.packing, config.headers);
        Self {
            now: Time::ZERO,
            safety: Safety::new(config.watchdog, epoch, config.latched),
            operator: None,
            began: None,
            events: VecDeque::new(),
            closed: false,
            connected: false,
            window: Window::default(),
            missed: 0,
            newest: 0,
            applied: 0,
            floor_ns: 0,
            guard: StateGuard::new(config.limits, config.watchdog),
            guards: guards(&config),
            processor: Processor::new(config.processing, config.queue, config.order, rng),
            dropped: Vec::new(),
            sending: Sending::new(sending, channels),
            feedback_drops: Drops::default(),
            next_status: Time::ZERO,
            next_refusal: Time::ZERO,
            next_foreign: Time::ZERO,
            keeping: Keeping::new(config.keeps_latch, config.latched),
            last_reset: None,
            resume: None,
            acks: Acks::new(config.codec == Codec::Native),
            state_deadline_us: 0,
            sync: ClockSync::new(config.clock_interval),
            relative: RelativeAge::default(),
            rtt: Latencies::default(),
            one_way: Latencies::default(),
            counters: Counters::default(),
            config,
            port,
            batch: Vec::new(),
        }
    }

    /// Where the robot is, m: where motion begins after a resume, and what the limit of the force counts from.
    /// [`send_feedback`](Self::send_feedback) says it as well. A position that is not finite changes nothing; one that is older than
    /// the watchdog's time says nothing any more.
    pub fn measure(&mut self, now: Time, position: [f32; 3]) {
        self.guard.measure(now, position);
    }

    /// How the robot is turned: what [turns](crate::OperatorConfig::turns) is judged by, as long as it is not older than the watchdog's time.
    /// [`send_feedback`](Self::send_feedback) says it as well. What is no orientation changes nothing.
    pub fn measure_orientation(&mut self, now: Time, orientation_wxyz: [f32; 4]) {
        self.guard.measure_orientation(now, orientation_wxyz);
    }

    /// Where the robot is, as far as a channel of motion moves it: where that motion begins after a resume, and what the limit of its
    /// effort counts from. Of another schema, or not finite, it changes nothing.
    pub fn measure_motion(&mut self, now: Time, channel: ChannelId, measured: &Motion) {
        if let Some(guard) = self.guards.get_mut(&channel.0) {
            guard.measure(now, measured);
        }
    }

    /// Sends what the robot measures, its force above all, to the operator's hand; at most at the configured rate, the
    /// newest first.
    ///
    /// # Errors
    /// When there is no operator, when a number is not finite, or when it is too old already.
    pub fn send_feedback(&mut self, now: Time, state: State) -> Result<u64, StateError> {
        self.check(now);
        let state = self.as_sent(State { created: state.created.min(now), ..state });
        // Another number that is not finite takes nothing from these.
        self.measure(state.created, state.position);
        self.measure_orientation(state.created, state.orientation_wxyz);
        if !state.is_finite() {
            self.feedback_drops.add(DropCause::NotFinite);
            return Err(StateError::NotFinite);
        }
        let item = self.sending.item(state);
        let error = if self.operator.is_none() || self.closed {
            Some(StateError::NotConnected)
        } else {
            item.is_late(now).then_some(StateError::TooLate)
        };
        if let Some(error) = error {
            self.feedback_drops.add(error.cause());
            return Err(error);
        }
        let sequence = item.sequence;
        if let Some(urgent) = self.sending.take(now, item) {
            self.transmit_urgent(now, &urgent);
        }
        self.settle(now);
        Ok(sequence)
    }

    /// Is there an operator, who proved who he is where the transport asks for that?
    pub const fn has_operator(&self) -> bool {
        self.operator.is_some()
    }

    /// This state as it is sent: without how it turns, unless [both ends tell that](crate::OperatorConfig::turns).
    pub fn as_sent(&self, state: State) -> State {
        state.as_sent(self.config.turns)
    }

    /// The device was not asked for so many samples, because its host was late: what a [`Packing`](crate::Packing) lets travel along with
    /// them goes all the same, so that a late host does not slow down sound and pictures.
    pub fn miss(&mut self, samples: u64) {
        self.sending.channels.miss(samples);
    }

    /// Takes a message of a channel, made at `created`: a time that is still to come counts as `now`. Its number in the channel;
    /// what becomes of it is told by a [`ChannelEvent`](crate::ChannelEvent).
    ///
    /// # Errors
    /// See [`SendRefused`]; each refusal is counted.
    pub fn send(
        &mut self,
        now: Time,
        channel: ChannelId,
        created: Time,
        payload: &[u8],
    ) -> Result<u64, SendRefused> {
        self.check(now);
        let sent = self.sending.channels.send(now, channel, created, payload, false);
        self.settle(now);
        sent
    }

    /// The button beside the robot: stops it and latches. Only [`release`](Self::release) lets go of it, and then motion
    /// waits for the operator's resume. The operator is told at once.
    pub fn emergency_stop(&mut self, now: Time) {
        self.stop(now, StopCause::LocalEmergency);
    }

    /// Whatever beside the robot demands a stop: its emergency button or what counts as one
    /// ([`StopCause::is_emergency`]), which is latched as by [`emergency_stop`](Self::emergency_stop), or a device or host that
    /// failed, after which the operator's resume is enough. True when it moved.
    pub fn stop(&mut self, now: Time, cause: StopCause) -> bool {
        let moved = self.safety.is_enabled();
        if cause.is_emergency() {
            self.safety.stop_locally(cause);
            self.halt(now, cause);
        } else if self.safety.pause(cause) {
            self.halt(now, cause);
        }
        self.settle(now);
        moved
    }

    /// The button beside the robot is released. The robot stays stopped until the operator resumes.
    pub fn release(&mut self, now: Time) {
        if self.safety.release_local(self.operator.is_some()) {
            self.events.push_back(RobotEvent::LetGo { here: true });
        }
        self.next_status = now;
        self.settle(now);
    }

    /// Stops, says goodbye and closes the transport.
    pub fn close(&mut self, now: Time) {
        if self.operator.is_some() {
            let _ = self.port.send(now, &Body::Goodbye, Parcel::urgent(now));
        }
        self.port.transport.close(now);
        self.end(now);
        self.settle(now);
    }

    /// Waits for an operator over another transport, when the first one has closed. A latched emergency stop stays
    /// latched, wherever it was pressed. Gives the first transport back.
    pub fn reconnect(&mut self, now: Time, transport: T) -> T {
        self.lose_operator(now, StopCause::LinkClosed);
        // A transport that outlives its conversations may have told of the next one already.
        self.closed = false;
        let old = self.port.replace(transport);
        self.sending.reconnected(None);
        self.settle(now);
        old
    }

    fn end(&mut self, now: Time) {
        self.connected = false;
        if !self.closed {
            self.closed = true;
            self.lose_operator(now, StopCause::LinkClosed);
            self.events.push_back(RobotEvent::Closed);
        }
    }

    /// A datagram arrived.
    pub fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.check(now);
        self.port.handle_input(now, input);
        self.settle(now);
    }

    /// The deadline has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.check(now);
        self.port.transport.handle_timeout(now);
        self.settle(now);
    }

    /// The next datagram to send; its bytes are appended to `buffer`, which the caller has cleared.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let transmit = self.port.poll_transmit(now, buffer);
        if transmit.is_some() || !self.port.take_freed() || self.operator.is_none() || self.closed {
            return transmit;
        }
        self.pump(now);
        self.port.poll_transmit(now, buffer)
    }

    /// What happened, in the order in which it did.
    pub fn poll_event(&mut self) -> Option<RobotEvent> {
        // What has come meanwhile is behind what waits to be told.
        if self.events.is_empty() {
            self.listen(self.now);
            self.report_drops();
        }
        let event = self.events.pop_front();
        event.or_else(|| self.sending.channels.poll_event().map(RobotEvent::Channel))
    }

    /// When `handle_timeout` has something to do, and what.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let own = earliest(self.safety.poll_timeout(), self.processor.poll_timeout());
        let own = earliest(earliest(own, self.acks.poll_timeout()), self.keeping.poll_timeout());
        let own = earliest(own, self.sending.poll_states(self.port.is_blocked()));
        let periodic = (self.operator.is_some() && self.config.codec == Codec::Native).then(|| {
            let channels = self.sending.poll_channels(self.sync.timeout());
            let status = earliest(Some(Deadline::new(self.next_status, "status")), channels);
            earliest(status, Some(self.sync.poll_timeout()))
        });
        earliest(earliest(self.port.poll_timeout(), own), periodic.flatten())
    }

    /// When the watchdog stops the robot unless something fresh is applied: so long a device may go on by itself. `None`
    /// while the robot does not move; then nothing that waits may be applied any more.
    pub fn watchdog_due(&self) -> Option<Time> {
        self.safety.poll_timeout().map(|deadline| deadline.at)
    }

    /// How the robot is.
    pub fn state(&self) -> RobotState {
        self.safety.state()
    }

    /// What is latched, and has to survive this process.
    pub fn latch(&self) -> Option<Latch> {
        self.safety.latch()
    }

    /// Why it has stopped, where [`poll_event`](Self::poll_event) has not told that yet.
    pub fn untold_stop(&self) -> Option<StopCause> {
        self.events.iter().find_map(|event| match event {
            RobotEvent::Stop { why } => Some(*why),
            _ => None,
        })
    }

    /// Why it stopped last.
    pub fn cause(&self) -> StopCause {
        self.safety.cause()
    }

    /// All measures since the first session was opened.
    pub fn status(&self, now: Time) -> Status {
        let account = Account {
            elapsed: self.began.map_or(Duration::ZERO, |began| now.saturating_since(began)),
            state: self.safety.state(),
            cause: self.safety.cause(),
            counters: &self.counters,
            traffic: &self.port.traffic,
            headers: self.config.headers,
            rtt: &self.rtt,
            one_way: &self.one_way,
            clock: self.sync.estimate(now),
        };
        Status {
            allowed_hz: f64::from(self.config.feedback_rate),
            unmatched_echoes: self.sync.unmatched(),
            clock_steps: self.sync.steps(),
            emergency: self.safety.state() == RobotState::Fault,
            feedback_dropped: self.feedback_drops.by_name(),
            channels: self.sending.channels.summaries(),
            ..account.robot(self.missed + self.window.missing())
        }
    }

    /// The operator's clock against this one, once they were compared.
    pub fn clock(&self, now: Time) -> Option<ClockEstimate> {
        self.sync.estimate(now)
    }

    /// What channels to the operator may send at present, once it was found: the rate for the camera's encoder.
    pub fn channel_bitrate(&self) -> Option<Bitrate> {
        self.sending.channel_bitrate(self.port.transport.send_rate())
    }

    /// States that arrived and were neither applied nor dropped yet.
    pub fn waiting(&self) -> usize {
        self.processor.waiting()
    }

    /// The transport, to look at.
    pub fn transport(&self) -> &T {
        &self.port.transport
    }

    /// The transport, for what the contract does not have. Sending through it breaks the session.
    pub fn transport_mut(&mut self) -> &mut T {
        &mut self.port.transport
    }

    /// Comes before everything else: has the robot been left alone for too long?
    fn check(&mut self, now: Time) {
        self.now = self.now.max(now);
        if self.safety.check(now) {
            self.halt(now, StopCause::Watchdog);
        }
    }

    /// A clock that was set, or stood still, by more than a part of the age that motion may have: how old is what was on its way
    /// nobody can tell.
    fn check_clocks(&mut self, now: Time) {
        let step = self.sync.take_step().max(self.relative.take_step());
        if step >= self.config.oldest() / STEP_SHARE && self.safety.pause(StopCause::ClockStepped) {
            self.halt(now, StopCause::ClockStepped);
        }
    }

    /// The robot was stopped: nothing that waits may move it any more, and the operator shall know.
    fn halt(&mut self, now: Time, why: StopCause) {
        self.processor.flush(&mut self.dropped);
        // What was dropped is told before the stop: in the order in which it happened to the robot.
        self.report_drops();
        self.events.push_back(RobotEvent::Stop { why });
        self.next_status = now;
        // One that the device had not taken yet.
        self.answer_resume(now, Answer::Superseded);
        // The device first, then what is written of it.
        self.keep_latch(now);
    }

    fn lose_operator(&mut self, now: Time, why: StopCause) {
        if self.safety.pause(why) {
            self.halt(now, why);
        }
        self.safety.leave(why);
        self.sending.channels.close();
        self.sending.flush(DropCause::Abandoned);
        self.acks.forget();
        self.operator = None;
        self.forget_unanswered();
    }

    /// Takes what came, then does what is due.
    fn settle(&mut self, now: Time) {
        self.check(now);
        self.listen(now);
        self.keep_latch(now);
        self.give_up_keeping(now);
        while let Some(item) = self.processor.poll(now, &mut self.dropped) {
            self.apply(now, item);
        }
        if self.operator.is_some() && !self.closed {
            self.report(now);
            if self.acks.is_due(now) {
                self.send_ack(now);
            }
            if self.sync.is_due(now) {
                self.compare_clocks(now);
            }
            self.pump(now);
        }
        self.report_drops();
    }

    /// A state is ready for the device.
    fn apply(&mut self, now: Time, item: QueuedState) {
        let bounded = if !self.safety.is_enabled() {
            Err(Verdict::Stopped)
        } else if item.is_late(now) {
            Err(Verdict::TooLate)
        } else if item.sequence <= self.applied {
            Err(Verdict::Superseded)
        } else {
            // Something else has moved the robot since the resume: motion begins where it is now.
            if self.safety.has_moved_by_others(Source::States)
                && let Some(since) = self.safety.begins(Source::States, now)
            {
                self.guard.begin(now, since);
            }
            self.guard.bound(now, &item.state)
        };
        let state = match bounded {
            Ok(state) => state,
            Err(verdict) => {
                let cause = verdict.cause().expect("what is not taken has a cause");
                return self.dropped.push(item.dropped(cause));
            }
        };
        // The watchdog waits for motion, not for what was to become motion, and counts the time that it was on its way.
        self.safety.feed(Source::States, item.state.created);
        let sequence = item.sequence;
        self.applied = sequence;
        self.counters.stream(crate::counters::stream_of(state.priority)).delivered += 1;
        let age = now.saturating_since(state.created);
        let left = item.expires.map_or(Duration::MAX, |expires| expires.saturating_since(now));
        self.events.push_back(RobotEvent::Apply { sequence, state, age, left });
    }

    fn report(&mut self, now: Time) {
        if now < self.next_status {
            return;
        }
        self.next_status = now + self.sync.stretched(self.config.status_interval);
        let _ = self.port.send(now, &Body::Status(self.safety.told()), Parcel::passing(now, 0));
    }

    fn compare_clocks(&mut self, now: Time) {
        if self.config.codec == Codec::Native
            && let Some(request) = self.sync.poll(now)
        {
            let _ = self.port.send(now, &Body::ClockRequest(request), Parcel::passing(now, 1));
        }
    }

    /// Feedback of priority emergency goes at once.
    fn transmit_urgent(&mut self, now: Time, item: &QueuedState) {
        let ack = self.acks.take_along(now, &self.window);
        let body = |state| Body::Feedback(Feedback { state, applied: self.applied, ack });
        if self.sending.transmit(now, &mut self.port, item, 0, body) {
            self.counters.stream(0).sent += 1;
        }
    }

    /// Sends what may go; the acknowledgement that waits travels along.
    fn pump(&mut self, now: Time) {
        let pace = || Pace { rtt: self.sync.best_rtt(), timeout: self.sync.timeout() };
        let (applied, counters, acks) = (self.applied, &mut self.counters, &mut self.acks);
        let body =
            |state| Body::Feedback(Feedback { state, applied, ack: acks.take_along(now, &self.window) });
        self.sending.pump(now, &mut self.port, pace, body, |stream| counters.stream(stream).sent += 1);
        // Only the operator adapts to what became of its states.
        if self.sending.has_outcomes() {
            drop(self.sending.outcomes());
        }
    }

    fn report_drops(&mut self) {
        for Dropped { sequence, priority, cause } in self.dropped.drain(..) {
            self.counters.stream(crate::counters::stream_of(priority)).dropped.add(cause);
            self.events.push_back(RobotEvent::Dropped { sequence, cause });
        }
        if !self.sending.has_dropped() {
            return;
        }
        for Dropped { sequence, cause, .. } in self.sending.dropped() {
            self.feedback_drops.add(cause);
            self.events.push_back(RobotEvent::FeedbackDropped { sequence, cause });
        }
    }

    fn hear(&mut self, now: Time, heard: Heard) {
        match heard {
            Heard::Connected => self.connected = true,
            Heard::Frame(frame) => {
                self.handle_frame(now, &frame);
                self.check_clocks(now);
            }
            Heard::Data(header, frame) => {
                self.handle_data(now, &header, &frame);
                self.port.give_back(frame);
                self.check_clocks(now);
            }
            Heard::Foreign(error) => self.handle_foreign(now, error),
            Heard::Dropped { tag: NO_TAG, .. } => {}
            Heard::Dropped { tag, cause } if let Some(number) = channel_number(tag) => {
                self.sending.data_dropped_by_transport(now, number, cause)
            }
            Heard::Dropped { tag, cause } => {
                if let Some(stream) = self.sending.dropped_by_transport(tag) {
                    self.counters.stream(stream).sent -= 1;
                }
                self.feedback_drops.add(cause);
                self.events.push_back(RobotEvent::FeedbackDropped { sequence: tag, cause });
            }
            Heard::Refused(cause) => self.refuse(cause),
            Heard::PathUp(path) => {
                self.sending.path(now, path, true);
                self.events.push_back(RobotEvent::PathUp(path));
            }
            Heard::PathDown(path) => {
                self.sending.path(now, path, false);
                self.events.push_back(RobotEvent::PathDown(path));
            }
            Heard::Closed => self.end(now),
        }
    }

    fn refuse(&mut self, cause: DropCause) {
        self.counters.refused.add(cause);
        self.events.push_back(RobotEvent::Refused(cause));
    }
}
