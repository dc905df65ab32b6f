//! The robot's node: arm, environment, and the session's end.

use std::collections::VecDeque;

use taut_core::{
    Bytes, Datagram, Deadline, DropCause, Duration, Medium, Node, NodeEvent, Packet, Sample, Time, earliest,
};
use taut_session::{Robot, RobotEvent, State, StopCause};
use taut_sim::{NodeClock, Peer};

use super::bodies::Arm;
use super::record::{Shared, Transit};
use super::wire::{Seen, Wire};
use crate::scenario::{CodecSpec, Direction, Teleop};

pub(super) struct RobotNode {
    session: Robot<Wire>,
    clock: NodeClock,
    /// The operator's, to know how far the robot's estimate of it is off.
    operator_clock: NodeClock,
    peer: Peer,
    arm: Arm,
    record: Shared,
    period: Duration,
    /// Between two of feedback; `None`: there is none.
    feedback: Option<Duration>,
    next_feedback: Time,
    /// When the arm is computed next; `None` before there is an operator.
    next_step: Option<Time>,
    /// States are judged by comparing clocks, at once or later.
    compares: bool,
    immediate: bool,
    largest_error: Duration,
    now: Time,
    transit: Option<Transit>,
    events: VecDeque<NodeEvent>,
    spare: Vec<u8>,
}

/// Clocks drift between two comparisons, and a time on a clock is a whole nanosecond.
const SLACK: Duration = Duration::from_micros(100);

impl RobotNode {
    pub(super) fn new(
        session: Robot<Wire>,
        (clock, operator_clock): (NodeClock, NodeClock),
        peer: Peer,
        arm: Arm,
        teleop: &Teleop,
        record: Shared,
    ) -> Self {
        let interval = |hz: u32| Duration::from_nanos(1_000_000_000 / u64::from(hz));
        Self {
            session,
            clock,
            operator_clock,
            peer,
            arm,
            record,
            period: teleop.period,
            feedback: (teleop.feedback > 0).then(|| interval(teleop.feedback)),
            next_feedback: Time::ZERO,
            next_step: None,
            compares: teleop.codec == CodecSpec::Native,
            immediate: teleop.processing.is_none(),
            largest_error: Duration::ZERO,
            now: Time::ZERO,
            transit: None,
            events: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    fn truth(&self) -> Time {
        self.clock.when(self.now)
    }

    /// How far the estimate of the operator's clock is off, and how far it says that it may be.
    fn clock_error(&self) -> Option<[Duration; 2]> {
        let estimate = self.session.clock(self.now)?;
        let truth = self.operator_clock.read(self.truth()).as_nanos() as i64 - self.now.as_nanos() as i64;
        Some([Duration::from_nanos(estimate.offset_ns.abs_diff(truth)), estimate.uncertainty])
    }

    /// The arm moves, and measures.
    fn act(&mut self) {
        while let Some(at) = self.next_step.filter(|at| *at <= self.now) {
            self.next_step = Some(at + self.period);
            if self.record.borrow().finished {
                self.next_step = None;
                return;
            }
            self.arm.step(self.period.as_secs_f64());
            let (now, arm) = (self.truth(), &self.arm);
            self.record.borrow_mut().control.arm(now, arm.body.position, arm.told(), arm.force);
            self.measure();
        }
    }

    fn measure(&mut self) {
        let Some(interval) = self.feedback.filter(|_| self.now >= self.next_feedback) else { return };
        self.next_feedback = self.next_feedback.max(self.now - interval) + interval;
        let single = |vector: [f64; 3]| vector.map(|part| part as f32);
        let state = State {
            position: single(self.arm.body.position),
            velocity: single(self.arm.body.velocity),
            force: single(self.arm.force),
            ..State::at(self.now)
        };
        let (created, taken) = (self.truth(), self.session.send_feedback(self.now, state));
        let sequence = *taken.as_ref().unwrap_or(&0);
        let sample = Sample { medium: Medium::Haptic, sequence, created, size: Bytes::ZERO };
        self.events.push_back(NodeEvent::Made(sample));
        match taken {
            Ok(sequence) => self.record.borrow_mut().feedback_made(created, sequence),
            Err(error) => self.events.push_back(NodeEvent::Dropped(sample, error.cause())),
        }
    }

    fn drain(&mut self) {
        while let Some(seen) = self.session.transport_mut().take_seen() {
            self.see(seen);
        }
        while let Some(event) = self.session.poll_event() {
            while let Some(seen) = self.session.transport_mut().take_seen() {
                self.see(seen);
            }
            self.hear(event);
        }
    }

    fn see(&mut self, seen: Seen) {
        let now = self.truth();
        let mut record = self.record.borrow_mut();
        match seen {
            Seen::State { sequence, stream, bytes } => match record.arrived(now, sequence, stream) {
                Some(created) => {
                    record.brought(Direction::Forward, bytes);
                    let size = Bytes::new(bytes as u64);
                    let sample = Sample { medium: Medium::Haptic, sequence, created, size };
                    self.events.push_back(NodeEvent::Delivered(sample));
                }
                None => {
                    let duplicate = NodeEvent::Refused(Some(Medium::Haptic), DropCause::Duplicate);
                    self.events.push_back(duplicate);
                }
            },
            Seen::Stop => record.stop_arrived(self.transit),
            Seen::Gauge { name, value } => self.events.push_back(NodeEvent::Gauge { name, value }),
            Seen::Connected | Seen::Sent { .. } | Seen::Feedback { .. } | Seen::StopAck => {}
        }
    }

    fn hear(&mut self, event: RobotEvent) {
        let now = self.truth();
        match event {
            RobotEvent::Connected { .. } => {
                self.next_step.get_or_insert(self.now);
            }
            RobotEvent::Enabled => self.record.borrow_mut().enabled(now),
            RobotEvent::Apply { sequence, state, .. } => {
                self.arm.go(state.position, state.velocity);
                let slack = self.slack();
                self.record.borrow_mut().applied(now, sequence, slack);
            }
            RobotEvent::Stop { why } => {
                self.arm.stop();
                self.record.borrow_mut().stopped(now, why == StopCause::Watchdog);
            }
            RobotEvent::Dropped { sequence, cause } => {
                self.record.borrow_mut().checker.refused(sequence, cause);
                if cause != DropCause::Duplicate {
                    self.events.push_back(NodeEvent::Refused(Some(Medium::Haptic), cause));
                }
            }
            RobotEvent::FeedbackDropped { sequence, cause } => {
                let created = self.record.borrow_mut().take_feedback(sequence).unwrap_or(now);
                let sample = Sample { medium: Medium::Haptic, sequence, created, size: Bytes::ZERO };
                self.events.push_back(NodeEvent::Dropped(sample, cause));
            }
            RobotEvent::Refused(cause) => self.events.push_back(NodeEvent::Refused(None, cause)),
            RobotEvent::Closed => _ = self.record.borrow_mut().closed.get_or_insert(now),
            _ => {}
        }
    }

    /// By how much the robot may misjudge the age of a state; `None` when it does not compare clocks. It must not be off by
    /// more than it says.
    fn slack(&mut self) -> Option<Duration> {
        if !self.compares {
            return None;
        }
        let [error, said] = self.clock_error()?;
        let mut record = self.record.borrow_mut();
        if error > said + SLACK {
            record.checker.violate(format!("the robot's clock is {error} off, and said at most {said}"));
        }
        record.clock = Some([error, said]);
        self.largest_error = self.largest_error.max(error);
        // A slow robot judges an age when the state arrives, by what it knew then.
        Some(if self.immediate { error } else { self.largest_error } + SLACK)
    }
}

impl Node for RobotNode {
    fn handle_input(&mut self, now: Time, packet: Packet) {
        self.now = now;
        if packet.meta.corrupted {
            return self.events.push_back(NodeEvent::Refused(None, DropCause::Corrupted));
        }
        self.transit = Some(self.record.borrow().transit(self.truth(), &packet.meta));
        let padding = Peer::padding(&packet);
        let (path, ecn) = (packet.meta.path, packet.meta.ecn);
        self.session.handle_input(now, Datagram { path, ecn, data: &packet.payload, padding });
        self.spare = packet.payload;
        self.spare.clear();
        self.drain();
        self.transit = None;
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        if self.session.poll_timeout().is_none_or(|deadline| deadline.at <= now) {
            self.session.handle_timeout(now);
            self.drain();
        }
        self.act();
        self.drain();
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        let transmit = self.session.poll_transmit(now, &mut self.spare)?;
        let packet = self.peer.packet(std::mem::take(&mut self.spare), transmit);
        self.record.borrow_mut().sent(Direction::Backward, packet.meta.size);
        Some(packet)
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        if self.events.is_empty() {
            self.drain();
        }
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let step = self.next_step.map(|at| Deadline::new(at, "arm"));
        earliest(step, self.session.poll_timeout())
    }
}
