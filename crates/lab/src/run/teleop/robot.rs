//! The robot's node: arm, environment, and the session's end.

use taut_core::{Datagram, Deadline, DropCause, Duration, Node, NodeEvent, Packet, Time, earliest};
use taut_session::{Robot, RobotEvent, State, StateError};
use taut_sim::{NodeClock, Peer};

use super::books::RobotBook;
use super::record::{Shared, Transit};
use super::wire::{Seen, Wire};
use crate::robot::SimulatedRobot;
use crate::scenario::{Direction, Teleop};

pub(super) struct RobotNode {
    session: Robot<Wire>,
    clock: NodeClock,
    /// The operator's, to know how far the robot's estimate of it is off.
    operator_clock: NodeClock,
    peer: Peer,
    arm: SimulatedRobot,
    book: RobotBook,
    period: Duration,
    /// Between two of feedback; `None`: there is none.
    feedback: Option<Duration>,
    next_feedback: Time,
    /// When the arm is computed next; `None` before there is an operator.
    next_step: Option<Time>,
    now: Time,
    transit: Option<Transit>,
    /// [`clock_error`](Self::clock_error) before what happens at present.
    known: Option<[Duration; 2]>,
    spare: Vec<u8>,
}

impl RobotNode {
    pub(super) fn new(
        session: Robot<Wire>,
        (clock, operator_clock): (NodeClock, NodeClock),
        peer: Peer,
        arm: SimulatedRobot,
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
            book: RobotBook::new(teleop, record),
            period: teleop.period,
            feedback: (teleop.feedback > 0).then(|| interval(teleop.feedback)),
            next_feedback: Time::ZERO,
            next_step: None,
            now: Time::ZERO,
            transit: None,
            known: None,
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
            if self.book.record.borrow().finished {
                self.next_step = None;
                return;
            }
            self.arm.step(self.period);
            let (now, arm) = (self.truth(), &self.arm);
            self.book.record.borrow_mut().control.arm(now, arm.position(), arm.told(), arm.force());
            self.measure();
        }
    }

    fn measure(&mut self) {
        let Some(interval) = self.feedback.filter(|_| self.now >= self.next_feedback) else { return };
        self.next_feedback = self.next_feedback.max(self.now - interval) + interval;
        let single = |vector: [f64; 3]| vector.map(|part| part as f32);
        let state = State {
            position: single(self.arm.position()),
            velocity: single(self.arm.velocity()),
            force: single(self.arm.force()),
            ..State::at(self.now)
        };
        let taken = self.session.send_feedback(self.now, state).map_err(StateError::cause);
        self.book.measured(self.truth(), taken);
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
        self.book.see(self.truth(), self.transit, seen);
    }

    fn hear(&mut self, event: RobotEvent) {
        match event {
            RobotEvent::Connected { .. } => _ = self.next_step.get_or_insert(self.now),
            RobotEvent::Apply { state, .. } => {
                self.arm.follow(state.position.map(f64::from), state.velocity.map(f64::from));
            }
            RobotEvent::Stop { .. } => self.arm.hold(),
            _ => {}
        }
        // Where the packet brought more than one answer, the state may have been judged by an estimate that is neither what was
        // known before nor what is known now: then what the robot says of it counts, and else how far it is off.
        let clock = self.clock_error();
        let misjudged =
            clock.max(self.known).map(|[error, said]| if clock == self.known { error } else { said });
        self.book.hear(self.truth(), &event, clock, misjudged);
    }
}

impl Node for RobotNode {
    fn handle_input(&mut self, now: Time, packet: Packet) {
        self.now = now;
        if packet.meta.corrupted {
            return self.book.events.push_back(NodeEvent::Refused(None, DropCause::Corrupted));
        }
        self.transit = Some(self.book.record.borrow().transit(self.truth(), &packet.meta));
        self.known = self.clock_error();
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
            self.known = self.clock_error();
            self.session.handle_timeout(now);
            self.drain();
        }
        self.act();
        self.drain();
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        let transmit = self.session.poll_transmit(now, &mut self.spare)?;
        let packet = self.peer.packet(std::mem::take(&mut self.spare), transmit);
        self.book.record.borrow_mut().sent(Direction::Backward, packet.meta.size);
        Some(packet)
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        if self.book.events.is_empty() {
            self.drain();
        }
        self.book.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let step = self.next_step.map(|at| Deadline::new(at, "arm"));
        earliest(step, self.session.poll_timeout())
    }
}
