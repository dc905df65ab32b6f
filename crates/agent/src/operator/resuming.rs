//! When an operator lets the robot move without being asked.

use taut_core::{Deadline, Duration, Time};
use taut_session::{Answer, OperatorEvent, RobotState, StopCause};

use super::{OperatorSettings, ResumePolicy};

/// Between two attempts to resume.
pub const RETRY: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Resuming {
    policy: ResumePolicy,
    delay: Duration,
    /// It moved at least once.
    started: bool,
    /// The emergency button was pressed here, and no resume since.
    pressed: bool,
    /// The next attempt.
    at: Option<Time>,
}

impl Resuming {
    pub(super) fn new(settings: &OperatorSettings) -> Self {
        let (policy, delay) = (settings.policy, settings.resume_delay);
        Self { policy, delay, started: false, pressed: false, at: None }
    }

    /// The emergency button was pressed here.
    pub(super) fn stop_pressed(&mut self) {
        (self.at, self.pressed) = (None, true);
    }

    /// A person resumed.
    pub(super) fn person_resumed(&mut self) {
        self.pressed = false;
    }

    /// Nobody moves the robot any more: it stays where it is.
    pub(super) fn end(&mut self) {
        (self.policy, self.at) = (ResumePolicy::Never, None);
    }

    /// The session told something.
    pub(super) fn notice(&mut self, now: Time, event: &OperatorEvent) {
        let always = self.policy == ResumePolicy::Always;
        let begins = always || self.policy == ResumePolicy::Start && !self.started;
        match event {
            OperatorEvent::Connected { .. } => self.at = begins.then_some(now),
            OperatorEvent::Robot { state: RobotState::Paused, .. } if always && self.started => {
                self.at = Some(now + self.delay);
            }
            OperatorEvent::Resumed => (self.at, self.started) = (None, true),
            // Only a person lets go of a stop.
            OperatorEvent::ResumeRefused { answer: Some(Answer::Latched), .. } => self.at = None,
            // A path that is too slow may be faster in a while; who did not ask for motion at all times is not surprised by it then.
            OperatorEvent::ResumeRefused { answer: Some(Answer::PathTooSlow), .. } => {
                self.at = always.then_some(now + RETRY);
            }
            OperatorEvent::ResumeRefused { .. } => self.at = begins.then_some(now + RETRY),
            _ => {}
        }
    }

    /// Is it time to resume a robot that is so? After an emergency stop only a person does, and where a hand turned away, who sees which way round it is turned. A device that
    /// did not take a resume may take one when nobody expects it.
    pub(super) fn is_due(&mut self, now: Time, state: RobotState, cause: StopCause) -> bool {
        let due = self.at.take_if(|at| now >= *at).is_some();
        let asks_a_person = cause.is_emergency() || cause == StopCause::TurnedApart;
        let refuses = cause == StopCause::Device && self.policy != ResumePolicy::Always;
        due && !self.pressed && state != RobotState::Fault && !asks_a_person && !refuses
    }

    /// It was not possible at present.
    pub(super) fn again(&mut self, now: Time) {
        self.at = Some(now + RETRY);
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.at.map(|at| Deadline::new(at, "resume"))
    }
}
