//! An operator, a robot, and a network of 5 ms between them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use taut_agent::{
    Conversation, DeviceFailure, DeviceMessage, Grip, Measured, Operator, OperatorDevice, OperatorNote,
    OperatorSettings, Rate, RateInput, Refused, Relative, Resume, ResumePolicy, Robot, RobotDevice,
    RobotNote, Sample, SetPoint, Trouble,
};
use taut_core::{
    Bitrate, Datagram, Deadline, Duration, Ecn, Event, Message, Origin, PathId, Seed, SendError, Time,
    Transmit, Transport, Waiting,
};
use taut_session::motion::Motion;
use taut_session::{ChannelId, OperatorConfig, RobotConfig, RobotEvent, State, StopCause};
use taut_transport::mtip::ChoiceReport;
use taut_transport::udp::{Udp, UdpConfig};

pub(crate) const MS: Duration = Duration::from_millis(1);

pub(crate) fn at(ms: u64) -> Time {
    Time::ZERO + MS * ms
}

/// UDP that can be told to end, and why.
pub(crate) struct Line {
    udp: Udp,
    pub(crate) trouble: Trouble,
    pub(crate) ends: bool,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self { udp: Udp::new(UdpConfig::new()), trouble: Trouble::NoAnswer, ends: false }
    }

    pub(crate) fn end(&mut self, trouble: Trouble) {
        (self.trouble, self.ends) = (trouble, true);
    }
}

impl Transport for Line {
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        self.udp.send(now, message)
    }
    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.udp.handle_input(now, input);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.udp.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.udp.poll_transmit(now, buffer)
    }
    fn poll_event(&mut self) -> Option<Event> {
        std::mem::take(&mut self.ends).then_some(Event::Closed).or_else(|| self.udp.poll_event())
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        self.udp.poll_timeout()
    }
    fn close(&mut self, now: Time) {
        self.udp.close(now);
    }
    fn add_path(&mut self, now: Time, path: PathId) -> bool {
        self.udp.add_path(now, path)
    }
    fn remove_path(&mut self, now: Time, path: PathId) {
        self.udp.remove_path(now, path);
    }
    fn set_origin(&mut self, path: PathId, origin: Origin) {
        self.udp.set_origin(path, origin);
    }
    fn uses_path(&self, path: PathId) -> bool {
        self.udp.uses_path(path)
    }
    fn round_trip(&self) -> Option<Duration> {
        self.udp.round_trip()
    }

    fn send_rate(&self) -> Option<Bitrate> {
        self.udp.send_rate()
    }

    fn delivered(&self) -> Option<u64> {
        self.udp.delivered()
    }

    fn waiting(&self) -> Waiting {
        self.udp.waiting()
    }
}

impl Conversation for Line {
    fn trouble(&self) -> Trouble {
        self.trouble.clone()
    }
    fn wakes_early(&self) -> bool {
        false
    }
    fn lingers(&self) -> bool {
        false
    }
    fn busy(&self) -> u64 {
        0
    }
    fn take_stranger(&mut self) -> Option<Refused> {
        None
    }
    fn copies(&self) -> Option<(u64, u64)> {
        None
    }
    fn choices(&self) -> Option<ChoiceReport> {
        None
    }
    fn stream_bytes(&self) -> Option<(u64, u64)> {
        None
    }
}

/// What a device was told, and what it is to say: shared with the test.
pub(crate) struct Seen<T>(Rc<RefCell<T>>);

impl<T> Clone for Seen<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T: Default> Seen<T> {
    pub(crate) fn new() -> Self {
        Self(Rc::default())
    }
}

impl<T> Seen<T> {
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.0.borrow_mut())
    }
}

/// A key that is held.
#[derive(Debug)]
pub(crate) struct Key;

impl RateInput for Key {
    fn grip(&mut self) -> Grip {
        Grip::Held(Rate { linear: [0.1, 0.0, 0.0], ..Rate::default() })
    }
}

/// A hand that writes down what it feels.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    pub(crate) asked: u64,
    pub(crate) skipped: u64,
    /// It has read nothing new since.
    pub(crate) stuck: bool,
    /// What it was told of resumes, and how often it had been asked by then.
    pub(crate) resumed: Vec<(Resume, u64)>,
    /// In place of a hand.
    pub(crate) key: Option<Relative<Key>>,
    /// Turned so, where it turns.
    pub(crate) orientation: Option<[f32; 4]>,
    pub(crate) felt: u64,
    pub(crate) force: Option<[f32; 3]>,
    pub(crate) lost: u64,
    /// What it has for channels, and what came.
    pub(crate) gives: VecDeque<DeviceMessage>,
    pub(crate) received: Vec<(ChannelId, Vec<u8>)>,
}

impl OperatorDevice for Seen<Hand> {
    fn sample(&mut self, now: Time) -> Option<Sample> {
        self.with(|hand| {
            hand.asked += 1;
            if let Some(key) = &mut hand.key {
                return key.sample(now);
            }
            let reading = if hand.stuck { 0 } else { hand.asked };
            let upright = State::at(now);
            let orientation_wxyz = hand.orientation.unwrap_or(upright.orientation_wxyz);
            Some(Sample { state: State { orientation_wxyz, ..upright }, reading })
        })
    }
    fn skip(&mut self, periods: u64) -> u64 {
        self.with(|hand| hand.skipped += periods);
        periods
    }
    fn resumed(&mut self, resume: Resume) {
        self.with(|hand| {
            hand.resumed.push((resume, hand.asked));
            hand.key.iter_mut().for_each(|key| key.resumed(resume));
        });
    }
    fn feel(&mut self, now: Time, state: &State) {
        self.with(|hand| {
            (hand.felt, hand.force) = (hand.felt + 1, Some(state.force));
            hand.key.iter_mut().for_each(|key| key.feel(now, state));
        });
    }
    fn lost(&mut self) {
        self.with(|hand| {
            (hand.lost, hand.force) = (hand.lost + 1, None);
            hand.key.iter_mut().for_each(OperatorDevice::lost);
        });
    }
    fn receive(&mut self, channel: ChannelId, _: Option<Duration>, payload: &[u8]) {
        self.with(|hand| hand.received.push((channel, payload.to_vec())));
    }
    fn limit_bitrate(&mut self, _: taut_core::Bitrate) {}
    fn poll_message(&mut self, _: Time) -> Option<DeviceMessage> {
        self.with(|hand| hand.gives.pop_front())
    }
}

/// An arm that writes down what it is told.
#[derive(Debug, Default)]
pub(crate) struct Arm {
    pub(crate) enabled: bool,
    pub(crate) applied: u64,
    /// Where to, along x.
    pub(crate) went: Vec<f32>,
    pub(crate) longest_lease: Duration,
    pub(crate) measured: u64,
    /// Of these, while it was to move: then one under a law leads.
    pub(crate) led: u64,
    pub(crate) stops: Vec<StopCause>,
    /// By channels of motion, and for how long.
    pub(crate) driven: Vec<(Motion, Duration)>,
    /// What it has for channels, and what came.
    pub(crate) gives: VecDeque<DeviceMessage>,
    pub(crate) received: Vec<(ChannelId, Vec<u8>)>,
    /// Said once.
    pub(crate) fails: Option<DeviceFailure>,
    /// What it measures does not go back.
    pub(crate) mute: bool,
    /// Said whenever it is to move.
    pub(crate) refuses: Option<DeviceFailure>,
    /// So long it takes to be enabled.
    pub(crate) takes: Duration,
}

impl RobotDevice for Seen<Arm> {
    fn period(&self) -> Duration {
        MS
    }
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        self.with(|arm| {
            arm.enabled = arm.refuses.is_none();
            arm.refuses.clone().map_or(Ok(()), Err)
        })
    }
    fn apply(&mut self, point: &SetPoint) -> bool {
        self.with(|arm| {
            arm.applied += u64::from(arm.enabled);
            arm.went.extend(Some(point.state.position[0]).filter(|_| arm.enabled));
            arm.longest_lease = arm.longest_lease.max(point.lease);
            arm.enabled
        })
    }
    fn drive(&mut self, _: ChannelId, motion: &Motion, lease: Duration) -> bool {
        self.with(|arm| {
            arm.driven.push((motion.clone(), lease));
            arm.enabled
        })
    }
    fn stop(&mut self, cause: StopCause) {
        self.with(|arm| {
            arm.enabled = false;
            arm.stops.push(cause);
        });
    }
    fn measure(&mut self) -> Option<Measured> {
        let x = self.with(|arm| {
            arm.measured += 1;
            arm.led += u64::from(arm.enabled);
            arm.went.last().copied().unwrap_or_default()
        });
        let state = State { position: [x, 0.0, 0.0], force: [0.0, 0.0, 2.0], ..State::at(Time::ZERO) };
        Some(Measured { state, controller_force: None, feedback: None })
    }
    fn receive(&mut self, channel: ChannelId, _: Option<Duration>, payload: &[u8]) {
        self.with(|arm| arm.received.push((channel, payload.to_vec())));
    }
    fn limit_bitrate(&mut self, _: taut_core::Bitrate) {}
    fn poll_message(&mut self) -> Option<DeviceMessage> {
        self.with(|arm| arm.gives.pop_front())
    }
    fn feeds_back(&mut self) -> bool {
        self.with(|arm| !arm.mute)
    }
    fn failure(&mut self) -> Option<DeviceFailure> {
        self.with(|arm| arm.fails.take())
    }
    fn lease(&self) -> bool {
        true
    }
    fn stiffness(&self) -> Option<f32> {
        None
    }
    fn limit_force(&mut self, _: f32) -> bool {
        true
    }
    fn is_real(&self) -> bool {
        false
    }
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) operator: Operator<Line, Seen<Hand>>,
    pub(crate) robot: Robot<Line, Seen<Arm>>,
    pub(crate) hand: Seen<Hand>,
    pub(crate) arm: Seen<Arm>,
    pub(crate) cut: bool,
    /// Nothing goes to the operator.
    pub(crate) cut_down: bool,
    /// Each way.
    pub(crate) delay: Duration,
    /// Datagrams under way, when they arrive, and whether at the robot.
    wire: VecDeque<(Time, bool, Vec<u8>)>,
    pub(crate) told: Vec<(Time, OperatorNote)>,
    pub(crate) robot_told: Vec<RobotNote>,
    /// Does the host hand in a new transport when it is asked to?
    pub(crate) hands_in: bool,
}

impl World {
    pub(crate) fn new(policy: ResumePolicy) -> Self {
        Self::with(OperatorSettings::new(MS).resumes(policy))
    }

    pub(crate) fn with(settings: OperatorSettings) -> Self {
        Self::of(settings, OperatorConfig::new(), RobotConfig::new())
    }

    pub(crate) fn of(settings: OperatorSettings, operator: OperatorConfig, robot: RobotConfig) -> Self {
        let (hand, arm, now) = (Seen::new(), Seen::new(), at(1_000));
        let rng = |name| Seed::new(1).stream(name);
        Self {
            now,
            operator: Operator::new(now, Line::new(), rng("operator"), operator, hand.clone(), settings),
            robot: Robot::new(now, Line::new(), rng("robot"), robot, arm.clone()),
            hand,
            arm,
            cut: false,
            cut_down: false,
            delay: MS * 5,
            wire: VecDeque::new(),
            told: Vec::new(),
            robot_told: Vec::new(),
            hands_in: true,
        }
    }

    /// Lets so many milliseconds pass, one after the other.
    pub(crate) fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now += MS;
            while let Some((_, to_robot, data)) = self.wire.pop_front_if(|(due, ..)| *due <= self.now) {
                let input = Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &data, padding: 0 };
                if to_robot {
                    self.robot.handle_input(self.now, input);
                } else {
                    self.operator.handle_input(self.now, input);
                }
                self.settle();
            }
            self.operator.handle_timeout(self.now);
            self.robot.handle_timeout(self.now);
            self.settle();
        }
    }

    /// Nothing arrives for so many milliseconds, of what is under way neither.
    pub(crate) fn lose(&mut self, ms: u64) {
        self.wire.clear();
        self.cut = true;
        self.run(ms);
        self.cut = false;
    }

    /// As a host does after each verb.
    pub(crate) fn settle(&mut self) {
        loop {
            let (now, mut data) = (self.now, Vec::new());
            let sent = if self.operator.poll_transmit(now, &mut data).is_some() {
                Some(true)
            } else {
                self.robot.poll_transmit(now, &mut data).map(|_| false)
            };
            if let Some(to_robot) = sent {
                if !self.cut && (to_robot || !self.cut_down) {
                    self.wire.push_back((now + self.delay, to_robot, data));
                }
            } else if let Some(note) = self.operator.poll_event(now) {
                if matches!(note, OperatorNote::Reconnect) && self.hands_in {
                    self.operator.reconnect(now, Line::new());
                }
                self.told.push((now, note));
            } else if let Some(note) = self.robot.poll_event(now) {
                if matches!(note, RobotNote::Event(RobotEvent::Enabled { .. })) {
                    self.now += self.arm.with(|arm| arm.takes);
                }
                self.robot_told.push(note);
            } else {
                return;
            }
        }
    }

    /// How many such notes the operator told.
    pub(crate) fn count(&self, is: impl Fn(&OperatorNote) -> bool) -> usize {
        self.told.iter().filter(|(_, note)| is(note)).count()
    }

    /// A world in which the robot moves.
    pub(crate) fn moving(policy: ResumePolicy) -> Self {
        let mut world = Self::new(policy);
        world.run(300);
        assert!(world.arm.with(|arm| arm.enabled && arm.applied > 100), "{:?}", world.told);
        world
    }
}
