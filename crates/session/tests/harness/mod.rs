//! An operator and a robot, each with its own clock, and a chain of link elements each way, in virtual time.
#![allow(dead_code, unreachable_pub)]

use std::collections::VecDeque;

use taut_core::{
    Bytes, Datagram, DropCause, Duration, Ecn, Link, LinkEvent, Packet, PacketMeta, PathId, Seed, Time,
    Transport,
};
use taut_link::Chain;
use taut_session::{
    Operator, OperatorConfig, OperatorEvent, Robot, RobotConfig, RobotEvent, RobotState, State,
};
use taut_transport::tcp::{Tcp, TcpConfig};
use taut_transport::udp::{Udp, UdpConfig};

pub const MS: Duration = Duration::from_millis(1);
pub const OPERATOR: usize = 0;
pub const ROBOT: usize = 1;
/// IPv4 and UDP.
const HEADERS: u64 = 28;
/// An epoch well away from zero, as real monotonic clocks have it.
pub const START: Time = Time::from_nanos(10_000_000_000);

pub fn at_ms(ms: u64) -> Time {
    START + MS * ms
}

/// A clock that is off, drifts, and may be set forward.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    pub offset: Duration,
    pub drift_ppb: i64,
}

impl Clock {
    pub fn read(&self, truth: Time) -> Time {
        let nanos = i128::from(truth.as_nanos());
        Time::from_nanos((nanos + nanos * i128::from(self.drift_ppb) / 1_000_000_000) as u64) + self.offset
    }

    /// The earliest true time at which the clock reads `reading`, or later by a nanosecond or two.
    fn when(&self, reading: Time) -> Time {
        let nanos = i128::from(reading.saturating_since(Time::ZERO + self.offset).as_nanos());
        let truth = nanos * 1_000_000_000 / (1_000_000_000 + i128::from(self.drift_ppb));
        let mut truth = Time::from_nanos(truth as u64);
        while self.read(truth) < reading && reading < Time::MAX {
            truth += Duration::from_nanos(1);
        }
        truth
    }
}

/// Sees everything, in true time.
pub trait Observer {
    fn transmitted(&mut self, _now: Time, _from: usize, _id: u64, _bytes: &[u8]) {}
    fn network(&mut self, _now: Time, _from: usize, _event: &LinkEvent) {}
    fn corrupted(&mut self, _id: u64, _from: usize) {}
    fn made(&mut self, _now: Time, _sequence: u64) {}
    fn operator(&mut self, _now: Time, _event: &OperatorEvent) {}
    /// What the robot knows of the clocks when a datagram comes: as in [`robot`](Self::robot).
    fn clocks(&mut self, _now: Time, _clocks: Option<[Duration; 2]>) {}
    /// What the hand holds at this time.
    fn hand(&self, _now: Time) -> [f32; 3] {
        [0.0; 3]
    }
    /// Where the arm is now.
    fn arm(&mut self, _now: Time) -> [f32; 3] {
        [0.0; 3]
    }
    /// `clocks`: how far the robot's estimate of the operator's clock is off, and how far it says that it may be.
    fn robot(&mut self, _now: Time, _event: &RobotEvent, _clocks: Option<[Duration; 2]>) {}
}

/// Keeps every event.
#[derive(Default)]
pub struct Log {
    pub operator: Vec<(Time, OperatorEvent)>,
    pub robot: Vec<(Time, RobotEvent)>,
    pub datagrams: [u64; 2],
    /// FNV-1a over all bytes that were sent, and when.
    pub fingerprint: u64,
    /// The last datagrams of each end.
    pub sent: [Vec<Vec<u8>>; 2],
}

impl Observer for Log {
    fn transmitted(&mut self, now: Time, from: usize, _id: u64, bytes: &[u8]) {
        self.datagrams[from] += 1;
        if self.sent[from].len() < 1_000 {
            self.sent[from].push(bytes.to_vec());
        }
        for byte in bytes.iter().chain(&now.as_nanos().to_be_bytes()) {
            self.fingerprint = (self.fingerprint ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn operator(&mut self, now: Time, event: &OperatorEvent) {
        self.operator.push((now, event.clone()));
    }

    fn robot(&mut self, now: Time, event: &RobotEvent, _clocks: Option<[Duration; 2]>) {
        self.robot.push((now, event.clone()));
    }
}

impl Log {
    /// When and which states were applied.
    pub fn applied(&self) -> Vec<(Time, u64)> {
        let applied = self.robot.iter().filter_map(|(at, event)| match event {
            RobotEvent::Apply { sequence, .. } => Some((*at, *sequence)),
            _ => None,
        });
        applied.collect()
    }

    pub fn robot_at(&self, is: impl Fn(&RobotEvent) -> bool) -> Option<Time> {
        self.robot.iter().find(|(_, event)| is(event)).map(|(at, _)| *at)
    }

    pub fn operator_at(&self, is: impl Fn(&OperatorEvent) -> bool) -> Option<Time> {
        self.operator.iter().find(|(_, event)| is(event)).map(|(at, _)| *at)
    }
}

/// Two ends and the network between them.
pub struct World<T, O> {
    pub now: Time,
    pub operator: Operator<T>,
    pub robot: Robot<T>,
    pub clocks: [Clock; 2],
    /// `links[0]` leads from the operator to the robot.
    pub links: [Chain; 2],
    pub observer: O,
    /// Whoever moves takes what it is enabled by.
    pub takes: bool,
    /// How often the operator's device makes a sample.
    pub sampling: Option<Duration>,
    /// How often the robot measures.
    pub measuring: Option<Duration>,
    /// The enabling input of the operator's device.
    pub enabling: bool,
    /// On which path the robot sees the operator.
    pub seen_on: PathId,
    /// How long the robot's disk takes; `None`: it fails.
    pub disk: Option<Duration>,
    writing: VecDeque<(Time, u64)>,
    frozen: Option<usize>,
    backlog: Vec<Vec<u8>>,
    next_sample: Time,
    next_measurement: Time,
    next_id: u64,
    buffer: Vec<u8>,
}

pub fn udp(_end: usize) -> Udp {
    Udp::new(UdpConfig::new())
}

pub fn tcp(end: usize) -> Tcp {
    if end == OPERATOR { Tcp::client(TcpConfig::default(), 1) } else { Tcp::server(TcpConfig::default(), 2) }
}

impl<T: Transport, O: Observer> World<T, O> {
    pub fn new(
        transport: impl Fn(usize) -> T,
        operator: OperatorConfig,
        robot: RobotConfig,
        links: [Chain; 2],
        observer: O,
    ) -> Self {
        let seed = Seed::new(11);
        Self {
            now: START,
            operator: Operator::new(transport(OPERATOR), operator, seed.stream("operator")),
            robot: Robot::new(transport(ROBOT), robot, seed.stream("robot")),
            clocks: [Clock::default(); 2],
            links,
            observer,
            takes: true,
            sampling: None,
            measuring: None,
            enabling: true,
            seen_on: PathId(0),
            disk: Some(Duration::ZERO),
            writing: VecDeque::new(),
            frozen: None,
            backlog: Vec::new(),
            next_sample: START,
            next_measurement: START,
            next_id: 0,
            buffer: Vec::new(),
        }
    }

    pub fn local(&self, end: usize) -> Time {
        self.clocks[end].read(self.now)
    }

    /// Runs from now on until `end`, inclusive.
    pub fn run_until(&mut self, end: Time) {
        self.wake();
        while let Some(next) = self.next_time().filter(|next| *next <= end) {
            self.now = next.max(self.now);
            self.wake();
        }
        self.now = end;
    }

    /// One of the clocks is set forward.
    pub fn jump(&mut self, end: usize, by: Duration) {
        self.clocks[end].offset += by;
        self.wake();
    }

    /// An end does nothing for so long, and its clock stands still; what comes meanwhile waits for it.
    pub fn freeze(&mut self, end: usize, time: Duration) {
        self.frozen = Some(end);
        let thaws = self.now + time;
        self.run_until(thaws);
        self.frozen = None;
        self.clocks[end].offset -= time;
        for datagram in std::mem::take(&mut self.backlog) {
            self.input(end, PathId(0), &datagram);
        }
        self.wake();
    }

    /// Everything that is due now.
    pub fn wake(&mut self) {
        loop {
            let delivered = self.deliver(0) | self.deliver(1);
            if !delivered {
                break;
            }
        }
        let [operator, robot] = [self.local(OPERATOR), self.local(ROBOT)];
        let arm = self.observer.arm(self.now);
        if self.frozen != Some(ROBOT) {
            self.robot.measure(robot, arm);
            self.write_latches();
            self.robot.handle_timeout(robot);
        }
        if self.frozen != Some(OPERATOR) {
            self.operator.handle_timeout(operator);
        }
        self.make_samples();
        self.drain();
    }

    /// What was to be written is, when the disk has had its time.
    fn write_latches(&mut self) {
        while let Some((_, number)) = self.writing.pop_front_if(|(at, _)| *at <= self.now) {
            self.robot.kept(self.local(ROBOT), number, self.disk.is_some());
        }
    }

    fn next_time(&self) -> Option<Time> {
        let ends = [self.operator.poll_timeout(), self.robot.poll_timeout()];
        let due = |end: usize| {
            let deadline = ends[end].filter(|_| self.frozen != Some(end));
            deadline.map(|deadline| self.clocks[end].when(deadline.at))
        };
        let link = |i: usize| self.links[i].poll_timeout().map(|deadline| deadline.at);
        let sample = self.sampling.filter(|_| self.frozen != Some(OPERATOR)).map(|_| self.next_sample);
        let measurement =
            self.measuring.filter(|_| self.frozen != Some(ROBOT)).map(|_| self.next_measurement);
        let written = self.writing.front().map(|(at, _)| *at);
        [due(0), due(1), link(0), link(1), sample, measurement, written].into_iter().flatten().min()
    }

    /// Gives out what left a link; false when nothing did.
    fn deliver(&mut self, from: usize) -> bool {
        let mut any = false;
        while let Some(packet) = self.links[from].poll_transmit(self.now) {
            any = true;
            if packet.meta.corrupted {
                // The checksum of UDP or TCP finds it.
                self.observer.corrupted(packet.meta.id, from);
                continue;
            }
            if self.frozen == Some(1 - from) {
                self.backlog.push(packet.payload);
            } else {
                let path = if from == OPERATOR { self.seen_on } else { PathId(0) };
                self.input(1 - from, path, &packet.payload);
            }
        }
        while let Some(event) = self.links[from].poll_event() {
            self.observer.network(self.now, from, &event);
        }
        any
    }

    /// A datagram reaches an end.
    pub fn input(&mut self, to: usize, path: PathId, data: &[u8]) {
        let now = self.local(to);
        let input = Datagram { path, ecn: Ecn::NotCapable, data, padding: 0 };
        if to == ROBOT {
            let clocks = self.robot_clock_error();
            self.observer.clocks(self.now, clocks);
            self.robot.handle_input(now, input);
        } else {
            self.operator.handle_input(now, input);
        }
        self.drain();
    }

    fn make_samples(&mut self) {
        if let Some(period) =
            self.sampling.filter(|_| self.frozen != Some(OPERATOR) && self.next_sample <= self.now)
        {
            self.next_sample = self.now + period;
            let position = self.observer.hand(self.now);
            self.send(State { position, enabling: self.enabling, ..State::at(self.local(OPERATOR)) });
        }
        if let Some(period) =
            self.measuring.filter(|_| self.frozen != Some(ROBOT) && self.next_measurement <= self.now)
        {
            self.next_measurement = self.now + period;
            let now = self.local(ROBOT);
            let position = self.observer.arm(self.now);
            let _ =
                self.robot.send_feedback(now, State { position, force: [0.0, 0.0, 2.0], ..State::at(now) });
        }
    }

    /// The device makes a state.
    pub fn send(&mut self, state: State) -> Option<u64> {
        self.send_made_at(self.now, state)
    }

    /// The device made a state at this true time.
    pub fn send_made_at(&mut self, made: Time, state: State) -> Option<u64> {
        let sent = self.operator.send_state(self.local(OPERATOR), state);
        if let Ok(sequence) = sent {
            self.observer.made(made, sequence);
        }
        self.drain();
        sent.ok()
    }

    /// Lets go of a latched stop, when that is possible.
    pub fn reset(&mut self) -> bool {
        let reset = self.operator.reset(self.local(OPERATOR)).is_ok();
        self.drain();
        reset
    }

    /// Presses resume, when that is possible.
    pub fn resume(&mut self) -> bool {
        let resumed = self.operator.resume(self.local(OPERATOR)).is_ok();
        self.drain();
        resumed
    }

    pub fn emergency_stop(&mut self) {
        self.operator.emergency_stop(self.local(OPERATOR));
        self.drain();
    }

    pub fn drain(&mut self) {
        while self.drain_once() {}
    }

    /// True: a resume was taken, and its answer waits.
    fn drain_once(&mut self) -> bool {
        for from in [OPERATOR, ROBOT] {
            while let Some(packet) = self.poll_packet(from) {
                self.links[from].handle_input(self.now, packet);
                while let Some(event) = self.links[from].poll_event() {
                    self.observer.network(self.now, from, &event);
                }
            }
        }
        while let Some(event) = self.operator.poll_event() {
            self.observer.operator(self.now, &event);
        }
        let mut taken = false;
        while let Some(event) = self.robot.poll_event() {
            if let RobotEvent::Keep { number, .. } = event {
                self.writing.push_back((self.now + self.disk.unwrap_or(Duration::ZERO), number));
            }
            let clocks = self.robot_clock_error();
            self.observer.robot(self.now, &event, clocks);
            if let RobotEvent::Enabled { epoch } = event
                && self.takes
            {
                self.robot.enabled(self.local(ROBOT), epoch);
                taken = true;
            }
        }
        taken
    }

    /// How far the robot's estimate of the operator's clock is off, and how far it says that it may be.
    pub fn robot_clock_error(&self) -> Option<[Duration; 2]> {
        let [operator, robot] = [self.local(OPERATOR), self.local(ROBOT)];
        let estimate = self.robot.clock(robot)?;
        let truth = operator.as_nanos() as i64 - robot.as_nanos() as i64;
        Some([Duration::from_nanos(estimate.offset_ns.abs_diff(truth)), estimate.uncertainty])
    }

    fn poll_packet(&mut self, from: usize) -> Option<Packet> {
        let now = self.local(from);
        self.buffer.clear();
        let transmit = if from == OPERATOR {
            self.operator.poll_transmit(now, &mut self.buffer)?
        } else {
            self.robot.poll_transmit(now, &mut self.buffer)?
        };
        assert_eq!(transmit.padding, 0, "a session has no virtual bytes");
        self.next_id += 1;
        self.observer.transmitted(self.now, from, self.next_id, &self.buffer);
        let size = Bytes::new(self.buffer.len() as u64 + HEADERS);
        let meta = PacketMeta { id: self.next_id, sent: self.now, size, ..PacketMeta::default() };
        Some(Packet { meta, payload: self.buffer.clone() })
    }

    /// Connects and resumes; samples and measurements every millisecond from then on.
    pub fn start(&mut self) {
        let patience = self.now + MS * 5_000;
        while self.now < patience && self.robot.state() != RobotState::Enabled {
            self.run_until(self.now + MS * 100);
            self.resume();
            self.sampling = Some(MS);
            self.next_sample = self.now;
            self.run_until(self.now + MS * 100);
        }
        assert_eq!(self.robot.state(), RobotState::Enabled, "no session");
        self.measure();
    }

    /// The robot measures every millisecond from the beginning on; so long after the operator is connected the robot is resumed, and samples come from
    /// when it is enabled.
    pub fn start_after(&mut self, wait: Duration) {
        self.measure();
        let patience = self.now + wait + MS * 5_000;
        let run = |world: &mut Self, until: &dyn Fn(&Self) -> bool| {
            while !until(world) {
                assert!(world.now < patience, "no session");
                world.run_until(world.now + MS);
            }
        };
        run(self, &|world| world.robot.has_operator());
        self.run_until(self.now + wait);
        run(self, &|world| world.operator.robot().0 == RobotState::Paused);
        assert!(self.resume());
        run(self, &|world| world.operator.robot().0 == RobotState::Enabled);
        (self.sampling, self.next_sample) = (Some(MS), self.now);
    }

    /// Connects an operator who only looks on: measurements every millisecond from then on, and no sample.
    pub fn look_on(&mut self) {
        self.run_until(self.now + MS * 1_000);
        assert_eq!(self.robot.state(), RobotState::Paused, "no session");
        self.measure();
    }

    fn measure(&mut self) {
        self.measuring = Some(MS);
        self.next_measurement = self.now;
    }
}

/// Drops by cause at one end, summed over all states.
pub fn dropped(status: &taut_session::Status, cause: DropCause) -> u64 {
    status.dropped.get(cause.name()).copied().unwrap_or(0)
}
