//! The operator's node: hand, device, buttons, and the session's end.

use std::collections::VecDeque;

use taut_core::{
    Datagram, Deadline, DropCause, Duration, Node, NodeEvent, Packet, Probability, Rng, Time, earliest,
};
use taut_session::{Operator, OperatorEvent, Priority, RobotState, StateError, StopCause};
use taut_sim::{NodeClock, Peer};

use super::books::OperatorBook;
use super::hand::Hand;
use super::record::{Shared, Transit};
use super::wire::{Seen, Wire};
use crate::scenario::{Direction, Teleop};

/// What the operator does, and when: all on the operator's clock. Where a stop is latched, resume is pressed after the reset.
pub(super) struct Script {
    /// Presses of the emergency stop and of resume, in order of time.
    presses: VecDeque<(Time, Press)>,
    resume_after: Option<Duration>,
    period: Duration,
    /// States that the device still makes; `None`: until `end`.
    left: Option<u64>,
    end: Time,
    high: Probability,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Press {
    Stop,
    Resume,
}

/// When a resume was refused, or the robot was not ready for one, it is tried again after so long.
const AGAIN: Duration = Duration::from_millis(50);

impl Script {
    pub(super) fn new(teleop: &Teleop, duration: Duration, clock: NodeClock) -> Self {
        let at = |press| move |after: &Duration| (clock.read(Time::ZERO + *after), press);
        let stops = teleop.stops.iter().map(at(Press::Stop));
        let mut presses: Vec<_> = stops.chain(teleop.resumes.iter().map(at(Press::Resume))).collect();
        presses.sort_by_key(|(at, _)| *at);
        Self {
            presses: presses.into(),
            resume_after: teleop.resume_after,
            period: teleop.period,
            left: teleop.messages,
            end: clock.read(Time::ZERO + duration),
            high: teleop.high,
        }
    }
}

pub(super) struct OperatorNode {
    session: Operator<Wire>,
    clock: NodeClock,
    peer: Peer,
    hand: Hand,
    script: Script,
    priorities: Rng,
    book: OperatorBook,
    /// When the device makes its next state; `None` before there is a session, and after the last.
    next_state: Option<Time>,
    /// When to press resume, while the operator wants the robot to move and it does not.
    resume_at: Option<Time>,
    now: Time,
    /// How long the packet took that is being handled.
    transit: Option<Transit>,
    spare: Vec<u8>,
}

impl OperatorNode {
    pub(super) fn new(
        session: Operator<Wire>,
        (clock, peer): (NodeClock, Peer),
        hand: Hand,
        script: Script,
        priorities: Rng,
        record: Shared,
    ) -> Self {
        Self {
            session,
            clock,
            peer,
            hand,
            script,
            priorities,
            book: OperatorBook::new(record),
            next_state: None,
            resume_at: None,
            now: Time::ZERO,
            transit: None,
            spare: Vec::new(),
        }
    }

    fn truth(&self) -> Time {
        self.clock.when(self.now)
    }

    /// Everything that hand and buttons do by now.
    fn act(&mut self) {
        while let Some((_, press)) = self.script.presses.pop_front_if(|(at, _)| *at <= self.now) {
            match press {
                Press::Stop => {
                    self.resume_at = None;
                    self.book
                        .record
                        .borrow_mut()
                        .stop_pressed(self.clock.when(self.now), self.session.waiting());
                    self.session.emergency_stop(self.now);
                }
                Press::Resume => self.resume_at = Some(self.now),
            }
        }
        if self.resume_at.is_some_and(|at| at <= self.now) {
            self.resume_at = Some(self.now + AGAIN);
            let state = self.session.robot().0;
            if state == RobotState::Enabled {
                self.resume_at = None;
            } else if state == RobotState::Fault && self.session.reset(self.now).is_ok() {
                // What comes of it is told by an event.
                self.resume_at = None;
            } else if self.session.resume(self.now).is_ok() {
                // What comes of it is told by an event.
                self.resume_at = None;
                self.book.record.borrow_mut().checker.resume_pressed(self.clock.when(self.now));
            }
        }
        while let Some(at) = self.next_state.filter(|at| *at <= self.now) {
            self.next_state = Some(at + self.script.period);
            self.make();
            let left = &mut self.script.left;
            *left = left.map(|left| left - 1);
            if *left == Some(0) || at + self.script.period >= self.script.end {
                self.next_state = None;
                self.book.record.borrow_mut().finished = true;
            }
        }
    }

    /// The device makes a state.
    fn make(&mut self) {
        let script = &self.script;
        let state = self.hand.state(self.now, script.period, script.high, &mut self.priorities);
        let (body, force) = (self.hand.body, self.hand.force);
        let urgent = state.priority == Priority::High;
        let taken = self.session.send_state(self.now, state).map_err(StateError::cause);
        self.book.made(self.truth(), urgent, [body.position, body.velocity, force], taken);
    }

    /// What the session did, and what went by.
    fn drain(&mut self) {
        while let Some(seen) = self.session.transport_mut().take_seen() {
            self.see(seen);
        }
        while let Some(event) = self.session.poll_event() {
            self.hear(event);
        }
        // Events are told when they are asked for, and asking may bring more from the transport.
        while let Some(seen) = self.session.transport_mut().take_seen() {
            self.see(seen);
        }
    }

    fn see(&mut self, seen: Seen) {
        self.book.see(self.truth(), self.transit, seen);
    }

    fn hear(&mut self, event: OperatorEvent) {
        let is_first = self.book.record.borrow().opened.is_none();
        self.book.hear(self.truth(), &event);
        match event {
            OperatorEvent::Connected { .. } if is_first => {
                self.next_state = Some(self.now).filter(|now| *now < self.script.end);
                self.resume_at = Some(self.now);
            }
            OperatorEvent::Robot { state: RobotState::Paused, cause: StopCause::Watchdog } => {
                // A robot that nobody moves any more stays where it is.
                let goes_on = self.next_state.is_some();
                self.resume_at = self.script.resume_after.filter(|_| goes_on).map(|after| self.now + after);
            }
            OperatorEvent::WasReset => self.resume_at = Some(self.now),
            OperatorEvent::ResetRefused { .. } | OperatorEvent::ResumeRefused { .. } => {
                self.resume_at = Some(self.now + AGAIN)
            }
            OperatorEvent::Feedback { state, .. } => self.hand.feel(state.force),
            OperatorEvent::FeedbackLost => self.hand.feel([0.0; 3]),
            _ => {}
        }
    }
}

impl Node for OperatorNode {
    fn handle_input(&mut self, now: Time, packet: Packet) {
        self.now = now;
        if packet.meta.corrupted {
            return self.book.events.push_back(NodeEvent::Refused(None, DropCause::Corrupted));
        }
        self.transit = Some(self.book.record.borrow().transit(self.truth(), &packet.meta));
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
        self.book.record.borrow_mut().sent(Direction::Forward, packet.meta.size);
        Some(packet)
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        if self.book.events.is_empty() {
            self.drain();
        }
        self.book.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let device = self.next_state.map(|at| Deadline::new(at, "device"));
        let press = self.script.presses.front().map(|(at, _)| Deadline::new(*at, "press"));
        let resume = self.resume_at.map(|at| Deadline::new(at, "resume"));
        earliest(earliest(device, press), earliest(resume, self.session.poll_timeout()))
    }
}
