//! A stop that survives: what is latched is written beside the robot before the stop is acknowledged.

use taut_core::{Deadline, Duration, Time, Transport};
use taut_wire::session::{Answer, Body, Command};

use super::{Robot, RobotEvent};
use crate::port::Parcel;
use crate::safety::Latch;

/// A disk that takes longer has failed, as far as an operator's stop is concerned.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was given out to be written, and the stop that waits for it.
#[derive(Debug)]
pub(super) struct Keeping {
    on: bool,
    given: Option<Latch>,
    number: u64,
    /// The last that was written, or failed.
    answered: u64,
    ok: bool,
    waiting: Option<UnkeptStop>,
}

/// An emergency stop that is not acknowledged yet.
#[derive(Clone, Copy, Debug)]
struct UnkeptStop {
    command: Command,
    /// Written with this one, or a later one.
    number: u64,
    until: Time,
}

impl Keeping {
    pub(super) fn new(on: bool, given: Option<Latch>) -> Self {
        Self { on, given, number: 0, answered: 0, ok: true, waiting: None }
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.waiting.map(|waiting| Deadline::new(waiting.until, "stop not kept"))
    }

    /// The answer to a stop that is done; `None`: it waits to be written.
    pub(super) fn answer(&mut self, now: Time, command: &Command) -> Option<Answer> {
        if !self.on {
            return Some(Answer::NotKept);
        }
        if self.answered >= self.number {
            return Some(if self.ok { Answer::Done } else { Answer::NotKept });
        }
        let until = self.waiting.map_or(now + PATIENCE, |waiting| waiting.until);
        self.waiting = Some(UnkeptStop { command: *command, number: self.number, until });
        None
    }
}

impl<T: Transport> Robot<T> {
    /// What is latched, as of [`RobotEvent::Keep`] `number`, was written and synced (`ok`), or could not be, or is lost (0: what was
    /// written before the first). The stop holds either way; an operator that waits for its acknowledgement gets it.
    pub fn kept(&mut self, now: Time, number: u64, ok: bool) {
        self.check(now);
        // Whoever could not write it may try again, and what was written may be deleted.
        if number < self.keeping.answered {
            return;
        }
        self.keeping.answered = number;
        self.keeping.ok = ok;
        if let Some(waiting) = self.keeping.waiting.take_if(|waiting| waiting.number <= number) {
            let answer = if ok { Answer::Done } else { Answer::NotKept };
            self.acknowledge_stop(now, &waiting.command, answer);
        }
        self.settle(now);
    }

    pub(super) fn keep_latch(&mut self, now: Time) {
        let latch = self.safety.latch();
        if self.keeping.on && latch != self.keeping.given {
            self.keeping.given = latch;
            self.keeping.number += 1;
            self.events.push_back(RobotEvent::Keep { number: self.keeping.number, latch });
        }
        self.now = self.now.max(now);
    }

    pub(super) fn give_up_keeping(&mut self, now: Time) {
        if let Some(waiting) = self.keeping.waiting.take_if(|waiting| now >= waiting.until) {
            self.acknowledge_stop(now, &waiting.command, Answer::NotKept);
        }
    }

    pub(super) fn forget_unanswered(&mut self) {
        self.keeping.waiting = None;
    }

    pub(super) fn acknowledge_stop(&mut self, now: Time, command: &Command, answer: Answer) {
        let answer = self.answer(now, command, answer);
        // When it cannot be sent, the operator repeats the command.
        let _ = self.port.send(now, &Body::EmergencyStopAck(answer), Parcel::urgent(now));
    }
}
