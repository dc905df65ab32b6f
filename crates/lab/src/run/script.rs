//! What a scenario's operator presses, and when: all on the operator's clock. Where a stop is latched, resume is pressed after the
//! reset; what is not possible at present is pressed again. The first resume goes without saying, as soon as there is a session.

use std::collections::VecDeque;

use taut_agent::{Alarm, Operator, OperatorCommand, OperatorDevice, OperatorNote, RETRY};
use taut_core::{Deadline, Duration, Time, earliest};
use taut_session::{OperatorEvent, ResumeError};
use taut_sim::NodeClock;

use super::flows::Counted;
use crate::scenario::Teleop;

/// A button that somebody pressed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Press {
    Stop,
    Command(OperatorCommand),
}

impl Press {
    pub(super) fn on(self, agent: &mut Operator<Counted, Box<dyn OperatorDevice>>, now: Time) {
        match self {
            Self::Stop => agent.handle_alarm(now, Alarm::Pressed),
            Self::Command(command) => agent.handle_command(now, command),
        }
    }
}

const RESUME: Press = Press::Command(OperatorCommand::Resume);
const RESET: Press = Press::Command(OperatorCommand::Reset);

/// By default nothing is pressed.
#[derive(Default)]
pub(super) struct Script {
    /// In order of time.
    presses: VecDeque<(Time, Press)>,
    /// A person wants the robot to move, and it does not yet.
    wants: bool,
    /// What is pressed next for that, and when.
    next: Option<(Time, Press)>,
}

impl Script {
    pub(super) fn new(teleop: &Teleop, clock: NodeClock) -> Self {
        let at = |press: Press| move |after: &Duration| (clock.read(Time::ZERO + *after), press.clone());
        let stops = teleop.stops.iter().map(at(Press::Stop));
        let mut presses: Vec<_> = stops.chain(teleop.resumes.iter().map(at(RESUME))).collect();
        presses.sort_by_key(|(at, _)| *at);
        Self { presses: presses.into(), wants: teleop.resume_after.is_none(), next: None }
    }

    /// What is pressed by `now`.
    pub(super) fn poll(&mut self, now: Time) -> Option<Press> {
        if let Some((_, press)) = self.presses.pop_front_if(|(at, _)| *at <= now) {
            (self.wants, self.next) = (press == RESUME, None);
            return Some(press);
        }
        self.next.take_if(|(at, _)| *at <= now).map(|(_, press)| press)
    }

    /// What came of it.
    pub(super) fn notice(&mut self, now: Time, note: &OperatorNote) {
        if !self.wants {
            return;
        }
        match note {
            OperatorNote::NotResumed(ResumeError::Latched) => self.next = Some((now, RESET)),
            OperatorNote::NotResumed(_) | OperatorNote::NotReset(_) => {
                self.next = Some((now + RETRY, RESUME))
            }
            OperatorNote::Event(event) => match event {
                OperatorEvent::Connected { .. } => self.next = Some((now, RESUME)),
                OperatorEvent::WasReset => self.next = Some((now, RESUME)),
                OperatorEvent::ResetRefused { .. } | OperatorEvent::ResumeRefused { .. } => {
                    self.next = Some((now + RETRY, RESUME));
                }
                OperatorEvent::Resumed => (self.wants, self.next) = (false, None),
                _ => {}
            },
            _ => {}
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        let press = self.presses.front().map(|(at, _)| Deadline::new(*at, "press"));
        earliest(press, self.next.as_ref().map(|(at, _)| Deadline::new(*at, "press again")))
    }
}
