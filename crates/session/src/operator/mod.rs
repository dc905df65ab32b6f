//! The end with the device.

mod event;
mod receive;
mod send;

use std::collections::VecDeque;

use taut_core::{
    Bitrate, Datagram, Deadline, DropCause, Duration, Event, Rng, Time, Transmit, Transport, earliest,
};
use taut_wire::session::{Body, Error, Hello, Limits, RobotState, Role, StopCause};

pub use self::event::{OperatorEvent, ResumeError, StateError};
use self::receive::{FeedbackWatch, RobotView};
use self::send::Arrivals;
use crate::channel::{ChannelId, Channels, SendRefused};
use crate::codec::{Codec, OMNI71_COMMAND};
use crate::command::{Kind, Pending};
use crate::config::OperatorConfig;
use crate::counters::{Counters, stream_of};
use crate::latency::{Latencies, RoundTrip};
use crate::motion::Motion;
use crate::port::{Heard, Parcel, Port};
use crate::rate::RateAdapter;
use crate::sending::{QueuedState, Sending, Settings};
use crate::state::{Priority, State};
use crate::status::{Account, Status};
use crate::sync::ClockSync;
use taut_core::ClockEstimate;

/// The operator's end of a session over any transport: sans-IO, with a transport's verbs towards its driver.
///
/// The driver calls them as [`taut_core`] says, and besides: [`send_state`](Self::send_state) for each sample of the
/// device, [`emergency_stop`](Self::emergency_stop) and [`resume`](Self::resume) for the buttons.
///
/// ```
/// use taut_core::{Bitrate, Datagram, Ecn, PathId, Seed, Time, Transport};
/// use taut_session::{Operator, OperatorConfig, Robot, RobotConfig, RobotEvent, State};
/// use taut_transport::udp::{Udp, UdpConfig};
///
/// let udp = || Udp::new(UdpConfig::new());
/// let mut operator = Operator::new(udp(), OperatorConfig::new(), Seed::new(1).stream("operator"));
/// let mut robot = Robot::new(udp(), RobotConfig::new(), Seed::new(1).stream("robot"));
///
/// // A network without delay, for as long as anybody has something to say.
/// fn run(now: Time, operator: &mut Operator<Udp>, robot: &mut Robot<Udp>) {
///     let mut data = Vec::new();
///     loop {
///         if operator.poll_transmit(now, &mut data).is_some() {
///             robot.handle_input(now, Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &data, padding: 0 });
///         } else if robot.poll_transmit(now, &mut data).is_some() {
///             operator.handle_input(now, Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &data, padding: 0 });
///         } else {
///             return;
///         }
///         data.clear();
///     }
/// }
///
/// let now = Time::from_nanos(1_000_000_000);
/// operator.handle_timeout(now);
/// run(now, &mut operator, &mut robot);
/// operator.resume(now)?;
/// run(now, &mut operator, &mut robot);
/// while let Some(event) = robot.poll_event() {
///     // No state is for a device before it has taken the resume.
///     if let RobotEvent::Enabled { epoch } = event {
///         robot.enabled(now, epoch);
///     }
/// }
/// run(now, &mut operator, &mut robot);
/// operator.send_state(now, State { position: [0.1, 0.0, 0.0], ..State::at(now) })?;
/// run(now, &mut operator, &mut robot);
///
/// let mut applied = None;
/// while let Some(event) = robot.poll_event() {
///     if let RobotEvent::Apply { sequence, .. } = event {
///         applied = Some(sequence);
///     }
/// }
/// assert_eq!(applied, Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Operator<T> {
    config: OperatorConfig,
    port: Port<T>,
    phase: Phase,
    now: Time,
    /// When the session was opened.
    began: Option<Time>,
    events: VecDeque<OperatorEvent>,

    sending: Sending,
    adapter: RateAdapter,
    arrivals: Arrivals,

    command: Option<Pending>,
    next_command: u64,
    /// The emergency stop was pressed and nothing was resumed since.
    latched: bool,
    /// The enabling input was held since the last resume, and then it was let go: until the next one it counts as that.
    was_held: bool,
    let_go: bool,
    /// A state said so to the transport, ahead of all that waits.
    said_let_go: bool,
    /// The robot demands the enabling input.
    hold_to_run: bool,
    next_foreign: Time,
    next_hello: Time,
    hellos: u32,
    /// When the first of them was said over this transport; `None`: not even as early data.
    greeted: Option<Time>,

    robot: RobotView,
    /// When it said something last.
    heard: Option<Time>,
    feedback: FeedbackWatch,
    sync: ClockSync,
    round_trip: RoundTrip,
    rtt: Latencies,
    one_way: Latencies,
    counters: Counters,
}

/// The least time between two reports of a peer with which no session can be.
pub const INCOMPATIBLE_INTERVAL: Duration = Duration::from_secs(1);

/// How far the session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The transport connects.
    Connecting,
    /// Hello was said.
    Greeting,
    /// Both know each other.
    Open,
    /// It is over.
    Closed,
}

impl<T: Transport> Operator<T> {
    /// An operator over `transport`; `rng` gives the session its number.
    pub fn new(transport: T, config: OperatorConfig, mut rng: Rng) -> Self {
        let adapter = RateAdapter::new(config.rate, config.least_rate, config.adaptive);
        let mut port = Port::new(transport, config.codec, Role::Operator);
        port.sample_length = config.sample_length;
        let native = config.codec == Codec::Native;
        let sending = Settings {
            queue: config.queue,
            order: config.order,
            interval: adapter.interval(),
            deadline: config.deadline,
            reliable: config.reliable,
            acknowledged: true,
            window: config.window,
            congestion: config.congestion,
            channel_rate: config.channel_rate,
            headers: config.headers,
        };
        port.session = if native { (rng.next_u64() >> 32) as u32 | 1 } else { 1 };
        let channels = Channels::new(Role::Operator, &config.channels, &config.packing, config.headers);
        Self {
            phase: Phase::Connecting,
            now: Time::ZERO,
            began: None,
            events: VecDeque::new(),
            sending: Sending::new(sending, channels),
            adapter,
            arrivals: Arrivals::default(),
            command: None,
            next_command: if native { 1 } else { OMNI71_COMMAND | 1 },
            latched: false,
            was_held: false,
            let_go: false,
            said_let_go: false,
            hold_to_run: false,
            next_foreign: Time::ZERO,
            next_hello: Time::ZERO,
            hellos: 0,
            greeted: None,
            robot: RobotView::default(),
            heard: None,
            feedback: FeedbackWatch::default(),
            sync: ClockSync::new(config.clock_interval),
            round_trip: RoundTrip::default(),
            rtt: Latencies::default(),
            one_way: Latencies::default(),
            counters: Counters::default(),
            config,
            port,
        }
    }

    /// Takes a sample of the device and gives it its sequence number. It goes at once when the rate allows; otherwise it
    /// waits, and [`Dropped`](OperatorEvent::Dropped) tells when it has to make way. A time of creation that is still to
    /// come counts as `now`.
    ///
    /// # Errors
    /// See [`StateError`]; each refusal is counted.
    pub fn send_state(&mut self, now: Time, state: State) -> Result<u64, StateError> {
        let enabling = self.enables(state.enabling);
        let mut state = self.as_sent(State { created: state.created.min(now), enabling, ..state });
        // That the enabling input is let go waits for no turn, where the robot demands it: once, but however often that is refused.
        let releases = self.let_go && self.hold_to_run && !self.said_let_go;
        if releases {
            state.priority = Priority::Emergency;
        }
        let item = self.sending.item(state);
        if let Err(error) = self.admit(now, &item) {
            self.counters.stream(stream_of(state.priority)).dropped.add(error.cause());
            return Err(error);
        }
        let sequence = item.sequence;
        if let Some(urgent) = self.sending.take(now, item) {
            self.said_let_go |= self.transmit_urgent(now, &urgent) && releases;
        }
        self.settle(now);
        Ok(sequence)
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
        if self.sending.channels.motion(channel).is_some() {
            return Err(self.sending.channels.refuse(channel, SendRefused::OtherSchema));
        }
        let sent = self.sending.channels.send(now, channel, created, payload, false);
        self.settle(now);
        sent
    }

    /// Takes motion for a channel of its schema, made at `created`, as [`send`](Self::send). The robot's guard judges it; what
    /// says that the enabling input was let go counts so until the next resume.
    ///
    /// # Errors
    /// See [`SendRefused`]; each refusal is counted.
    pub fn send_motion(
        &mut self,
        now: Time,
        channel: ChannelId,
        created: Time,
        motion: &Motion,
    ) -> Result<u64, SendRefused> {
        let enabling = self.enables(motion.enabling());
        let refused = if self.sending.channels.motion(channel) != Some(motion.schema()) {
            Some(SendRefused::OtherSchema)
        } else if self.latched {
            Some(SendRefused::Stopped)
        } else {
            (!motion.is_finite()).then_some(SendRefused::NotFinite)
        };
        if let Some(refused) = refused {
            return Err(self.sending.channels.refuse(channel, refused));
        }
        let mut payload = Vec::with_capacity(motion.len());
        motion.with_enabling(enabling).emit(&mut payload);
        // That the enabling input is let go waits for no turn.
        let sent = self.sending.channels.send(now, channel, created, &payload, self.let_go);
        self.settle(now);
        sent
    }

    /// Does the enabling input count as held, when it says so?
    fn enables(&mut self, held: bool) -> bool {
        self.let_go |= self.was_held && !held;
        self.was_held |= held;
        held && !self.let_go
    }

    fn admit(&self, now: Time, item: &QueuedState) -> Result<(), StateError> {
        if self.phase != Phase::Open {
            Err(StateError::NotConnected)
        } else if self.latched {
            Err(StateError::Stopped)
        } else if !item.state.is_finite() {
            Err(StateError::NotFinite)
        } else if item.is_late(now) {
            Err(StateError::TooLate)
        } else if item.state.priority == Priority::Emergency && self.config.codec == Codec::Omni71 {
            Err(StateError::Codec)
        } else {
            Ok(())
        }
    }

    /// Stops the robot and keeps it stopped until [`resume`](Self::resume). Goes at once, ahead of everything, and again
    /// and again until it is acknowledged; states that wait are dropped. Before there is a session it is kept and goes
    /// as soon as there is one. Pressed again before that, it is the same stop, of which one more copy goes: whoever holds
    /// the button down is answered as well.
    pub fn emergency_stop(&mut self, now: Time) {
        self.latched = true;
        self.begin_command(now, Kind::EmergencyStop, 0);
        self.sending.channels.flush_motion(DropCause::Stopped);
        self.sending.flush(DropCause::Stopped);
        self.settle(now);
    }

    /// Lets go of the robot's latched emergency stop: of the one that the operator knows of, and of none that comes between. The
    /// robot does not move by that. [`WasReset`](OperatorEvent::WasReset) or [`ResetRefused`](OperatorEvent::ResetRefused)
    /// follows.
    ///
    /// # Errors
    /// See [`ResumeError`].
    pub fn reset(&mut self, now: Time) -> Result<(), ResumeError> {
        self.may_command()?;
        self.begin_command(now, Kind::Reset, self.robot.epoch);
        self.settle(now);
        Ok(())
    }

    fn may_command(&self) -> Result<(), ResumeError> {
        if self.phase != Phase::Open {
            return Err(ResumeError::NotConnected);
        }
        if self.command.as_ref().is_some_and(|pending| pending.kind == Kind::EmergencyStop) {
            return Err(ResumeError::StopPending);
        }
        Ok(())
    }

    /// Lets the robot move again, after whatever stop the operator knows of; a stop that comes between is not released, and
    /// one that is latched has to be [reset](Self::reset) first.
    /// [`Resumed`](OperatorEvent::Resumed) or [`ResumeRefused`](OperatorEvent::ResumeRefused) follows. States may be sent
    /// from now on; what was made before is not applied any more.
    ///
    /// # Errors
    /// See [`ResumeError`].
    pub fn resume(&mut self, now: Time) -> Result<(), ResumeError> {
        self.may_command()?;
        if self.robot.state == RobotState::Fault {
            let is_local = matches!(self.robot.cause, StopCause::LocalEmergency | StopCause::ButtonLost);
            return Err(if is_local { ResumeError::HeldLocally } else { ResumeError::Latched });
        }
        self.latched = false;
        self.was_held = false;
        self.let_go = false;
        self.said_let_go = false;
        self.sending.channels.flush_motion(DropCause::Stopped);
        self.sending.flush(DropCause::Stopped);
        self.begin_command(now, Kind::Resume, self.robot.epoch);
        self.settle(now);
        Ok(())
    }

    /// Goes on over another transport, when the first one has closed: says hello again. What was latched stays latched,
    /// and an emergency stop that was not acknowledged goes as soon as it can. Gives the first transport back.
    pub fn reconnect(&mut self, now: Time, transport: T) -> T {
        let old = self.port.replace(transport);
        // Without comparisons of clocks no round trip follows that says whether it is another path.
        let known = self.round_trip.at_best().filter(|_| self.config.codec == Codec::Native);
        self.sending.reconnected(known);
        self.phase = Phase::Connecting;
        self.sending.channels.close();
        self.give_command_up();
        self.sending.flush(DropCause::Abandoned);
        (self.hellos, self.greeted) = (0, None);
        self.settle(now);
        old
    }

    /// Asked for again before it can be answered, it is the same one, of which one more copy goes.
    fn begin_command(&mut self, now: Time, kind: Kind, epoch: u32) {
        let timeout = self.round_trip.timeout();
        match &mut self.command {
            Some(pending) if pending.is(now, kind, epoch, timeout) => pending.hurry(now),
            pending => {
                if pending.as_ref().is_some_and(|pending| pending.kind != kind) {
                    self.give_command_up();
                }
                self.command = Some(Pending::new(now, kind, self.next_command, epoch));
                self.next_command += 1;
            }
        }
        self.repeat_command(now);
    }

    /// Says goodbye, on which the robot stops, and closes the transport.
    pub fn close(&mut self, now: Time) {
        if self.phase == Phase::Open {
            // Where this does not arrive, the watchdog stops the robot.
            let _ = self.port.send(now, &Body::Goodbye, Parcel::urgent(now));
        }
        self.port.transport.close(now);
        self.end();
        self.settle(now);
    }

    fn end(&mut self) {
        if self.phase != Phase::Closed {
            self.phase = Phase::Closed;
            self.give_command_up();
            self.sending.flush(DropCause::Abandoned);
            self.sending.channels.close();
            self.events.push_back(OperatorEvent::Closed);
        }
    }

    /// A datagram arrived.
    pub fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.port.handle_input(now, input);
        self.settle(now);
    }

    /// The deadline has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.port.transport.handle_timeout(now);
        self.settle(now);
    }

    /// The next datagram to send; its bytes are appended to `buffer`, which the caller has cleared.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let transmit = self.port.poll_transmit(now, buffer);
        if transmit.is_some() || !self.port.take_freed() || self.phase != Phase::Open {
            return transmit;
        }
        self.pump(now);
        self.port.poll_transmit(now, buffer)
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<OperatorEvent> {
        // What has come meanwhile is behind what waits to be told.
        if self.events.is_empty() {
            self.listen(self.now);
            self.report_drops();
        }
        let event = self.events.pop_front();
        event.or_else(|| self.sending.channels.poll_event().map(OperatorEvent::Channel))
    }

    /// When `handle_timeout` has something to do, and what.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let transport = self.port.poll_timeout();
        let own = match self.phase {
            Phase::Connecting | Phase::Closed => None,
            Phase::Greeting => Some(Deadline::new(self.next_hello, "hello")),
            Phase::Open => {
                let command = self.command.as_ref().map(Pending::poll_timeout);
                let sync = (self.config.codec == Codec::Native).then(|| self.sync.poll_timeout());
                let watch = self.feedback.poll_timeout(self.config.feedback_watchdog);
                let sending = self.sending.poll_timeout(self.round_trip.timeout(), self.port.is_blocked());
                let sending = earliest(sending, self.arrivals.poll_timeout());
                earliest(earliest(command, sending), earliest(sync, watch))
            }
        };
        earliest(transport, own)
    }

    /// All measures since the session was opened.
    pub fn status(&self, now: Time) -> Status {
        let account = Account {
            elapsed: self.began.map_or(Duration::ZERO, |began| now.saturating_since(began)),
            state: self.robot.state,
            cause: self.robot.cause,
            counters: &self.counters,
            traffic: &self.port.traffic,
            headers: self.config.headers,
            rtt: &self.rtt,
            one_way: &self.one_way,
            clock: self.sync.estimate(now),
        };
        Status {
            allowed_hz: self.adapter.hz(),
            unmatched_echoes: self.sending.unmatched() + self.sync.unmatched(),
            clock_steps: self.sync.steps(),
            emergency: self.latched,
            channels: self.sending.channels.summaries(),
            ..account.operator()
        }
    }

    /// The robot's clock against this one, once they were compared.
    pub fn clock(&self, now: Time) -> Option<ClockEstimate> {
        self.sync.estimate(now)
    }

    /// How the robot was when it last said so, and why it stopped last.
    pub fn robot(&self) -> (RobotState, StopCause) {
        (self.robot.state, self.robot.cause)
    }

    /// The robot moves, as it said last: a resume changes nothing. False where nobody would know, for robots of omni71 do not tell of their stops.
    pub fn moves(&self) -> bool {
        self.config.codec == Codec::Native && self.robot.state == RobotState::Enabled
    }

    /// When the robot said something last that belongs to this session, whatever it was; `None`: nothing yet.
    pub fn heard(&self) -> Option<Time> {
        self.heard
    }

    /// The smoothed round trip, once there was a measurement.
    pub fn smoothed_rtt(&self) -> Option<Duration> {
        self.round_trip.smoothed()
    }

    /// What channels to the robot may send at present, once it was found: the rate for whatever makes pictures or sound for them.
    pub fn channel_bitrate(&self) -> Option<Bitrate> {
        self.sending.channel_bitrate(self.port.transport.send_rate())
    }

    /// States that wait for their turn here.
    pub fn waiting(&self) -> usize {
        self.sending.waiting()
    }

    /// The transport, to look at.
    pub fn transport(&self) -> &T {
        &self.port.transport
    }

    /// The transport, for what the contract does not have. Sending through it breaks the session.
    pub fn transport_mut(&mut self) -> &mut T {
        &mut self.port.transport
    }

    /// Takes what came, then does what is due, most urgent first.
    fn settle(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.listen(now);
        match self.phase {
            Phase::Connecting => self.greet_early(now),
            Phase::Closed => {}
            Phase::Greeting => self.greet(now),
            Phase::Open => {
                if self.command.is_some() {
                    self.repeat_command(now);
                }
                if self.sync.is_due(now) {
                    self.compare_clocks(now);
                }
                self.pump(now);
                if self.feedback.check(now, self.config.feedback_watchdog) {
                    self.events.push_back(OperatorEvent::FeedbackLost);
                }
            }
        }
        self.report_drops();
    }

    /// Takes all that came.
    fn listen(&mut self, now: Time) {
        while let Some(event) = self.port.transport.poll_event() {
            self.hear(now, event);
        }
    }

    fn hear(&mut self, now: Time, event: Event) {
        let Some(heard) = self.port.hear(event) else { return };
        match heard {
            Heard::Connected => self.connected(now),
            Heard::Frame(frame) => self.handle_frame(now, &frame),
            Heard::Data(header, frame) => {
                self.handle_data(now, &header, &frame);
                self.port.give_back(frame);
            }
            Heard::Foreign(error) => self.handle_incompatible(now, error),
            Heard::Dropped { tag, cause } => self.dropped_by_transport(now, tag, cause),
            Heard::Refused(cause) => {
                self.counters.refused.add(cause);
                self.events.push_back(OperatorEvent::Refused(cause));
            }
            Heard::PathUp(path) => {
                self.sending.path(now, path, true);
                self.events.push_back(OperatorEvent::PathUp(path));
            }
            Heard::PathDown(path) => {
                self.sending.path(now, path, false);
                self.events.push_back(OperatorEvent::PathDown(path));
            }
            Heard::Closed => self.end(),
        }
    }

    pub(super) fn handle_incompatible(&mut self, now: Time, error: Error) {
        self.counters.refused.add(DropCause::Malformed);
        if now >= self.next_foreign {
            self.next_foreign = now + INCOMPATIBLE_INTERVAL;
            self.events.push_back(OperatorEvent::Incompatible(error));
        }
    }

    fn connected(&mut self, now: Time) {
        if self.phase != Phase::Connecting {
            return;
        }
        if self.config.codec == Codec::Native {
            self.phase = Phase::Greeting;
            self.next_hello = now;
        } else {
            self.open(now, &Hello { limits: Limits::default(), watchdog_us: 0, ..self.hello() });
        }
    }

    /// There is a session with a robot that is set so.
    fn open(&mut self, now: Time, robot: &Hello) {
        self.phase = Phase::Open;
        self.hold_to_run = robot.hold_to_run;
        // It answers nobody whom it has not heard.
        self.sending.channels.open(&robot.channels, self.greeted);
        self.began.get_or_insert(now);
        self.sync.restart(now);
        if let Some(pending) = &mut self.command {
            pending.hurry(now);
        }
        self.events.push_back(OperatorEvent::Connected {
            limits: robot.limits,
            watchdog: Duration::from_micros(robot.watchdog_us.into()),
            max_age: Duration::from_micros(robot.max_age_us.into()),
            hold_to_run: robot.hold_to_run,
        });
    }
}
