//! May the robot move? One small state machine that knows nothing of networks.
//!
//! ```text
//!              connect                    resume
//!  DISABLED ────────────► PAUSED ◄──────────────────► ENABLED
//!      ▲                    │      watchdog, goodbye      │
//!      │ leave              │ emergency                   │ emergency
//!      └──────── PAUSED     ▼                             │
//!                         FAULT ◄─────────────────────────┘
//!                           │ resume (after release_local where it was pressed at the robot) → ENABLED
//! ```
//!
//! Every change of state, and every emergency stop, begins a new epoch. A resume names the epoch that it has seen, and
//! releases nothing else: one that was on its way while the robot stopped once more does nothing.

use taut_core::{Deadline, Duration, Time};
use taut_wire::session::{Answer, RobotState, StopCause};

#[derive(Clone, Debug)]
pub(crate) struct Safety {
    state: RobotState,
    cause: StopCause,
    epoch: u32,
    watchdog: Duration,
    /// The last fresh motion, or the resume.
    moved: Time,
    held_locally: bool,
    /// The last command obeyed, and the answer to it.
    last: Option<(u64, Answer)>,
}

impl Safety {
    /// Begins at a random epoch, so that a resume meant for an earlier life of this robot releases nothing.
    pub(crate) fn new(watchdog: Duration, epoch: u32) -> Self {
        Self {
            state: RobotState::Disabled,
            cause: StopCause::Start,
            epoch,
            watchdog,
            moved: Time::ZERO,
            held_locally: false,
            last: None,
        }
    }

    pub(crate) fn state(&self) -> RobotState {
        self.state
    }

    pub(crate) fn cause(&self) -> StopCause {
        self.cause
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.state == RobotState::Enabled
    }

    /// There is a (new) operator. A latched emergency stop stays.
    pub(crate) fn connect(&mut self) {
        self.last = None;
        if self.state == RobotState::Disabled {
            self.enter(RobotState::Paused);
        }
    }

    /// The operator is gone. A latched emergency stop stays, and so does the memory of one that nobody resumed from.
    pub(crate) fn leave(&mut self, cause: StopCause) {
        self.last = None;
        if self.state != RobotState::Fault {
            if !self.cause.is_emergency() {
                self.cause = cause;
            }
            self.enter(RobotState::Disabled);
        }
    }

    /// Stops a robot that moves; true when it did.
    pub(crate) fn pause(&mut self, cause: StopCause) -> bool {
        let moved = self.is_enabled();
        if moved {
            self.cause = cause;
            self.enter(RobotState::Paused);
        }
        moved
    }

    /// Stops, and latches, whatever the state.
    fn latch(&mut self, cause: StopCause) {
        self.cause = cause;
        self.enter(RobotState::Fault);
    }

    /// The button at the robot.
    pub(crate) fn stop_locally(&mut self) {
        self.held_locally = true;
        self.latch(StopCause::LocalEmergency);
    }

    /// The line of the button at the robot was lost: as if it were pressed.
    pub(crate) fn lose_button(&mut self) {
        self.held_locally = true;
        self.latch(StopCause::ButtonLost);
    }

    /// The button at the robot is released; motion still waits for a resume.
    pub(crate) fn release_local(&mut self, has_operator: bool) {
        if std::mem::take(&mut self.held_locally) {
            self.enter(if has_operator { RobotState::Paused } else { RobotState::Disabled });
        }
    }

    /// The operator's emergency stop. False when it is a repetition, or older than a command obeyed since.
    pub(crate) fn stop(&mut self, command: u64) -> bool {
        if self.last.is_some_and(|(last, _)| command <= last) {
            return false;
        }
        self.last = Some((command, Answer::Done));
        // A stop pressed at the robot stays the cause: it is the one that has to be released there.
        let cause = if self.held_locally { StopCause::LocalEmergency } else { StopCause::Emergency };
        self.latch(cause);
        true
    }

    /// An emergency stop without a number of its own: one more of them stops once more. True when nothing was latched.
    pub(crate) fn stop_unnumbered(&mut self) -> bool {
        let fresh = self.state != RobotState::Fault;
        if fresh {
            self.latch(StopCause::Emergency);
        }
        fresh
    }

    /// The operator's resume: what becomes of it. `epoch` is the one that the operator has seen, `None` from a codec
    /// that has none.
    pub(crate) fn resume(&mut self, now: Time, command: u64, epoch: Option<u32>) -> Answer {
        match self.last {
            Some((last, answer)) if command == last => return answer,
            Some((last, _)) if command < last => return Answer::Superseded,
            _ => {}
        }
        let answer = if self.held_locally {
            Answer::HeldLocally
        } else if epoch.is_some_and(|epoch| epoch != self.epoch) {
            Answer::Superseded
        } else {
            Answer::Done
        };
        self.last = Some((command, answer));
        if answer == Answer::Done {
            if !self.is_enabled() {
                self.enter(RobotState::Enabled);
            }
            self.moved = now;
        }
        answer
    }

    /// Fresh motion arrived.
    pub(crate) fn feed(&mut self, now: Time) {
        self.moved = now;
    }

    /// Stops a robot that was silent for too long; true when it did.
    pub(crate) fn check(&mut self, now: Time) -> bool {
        self.poll_timeout().is_some_and(|deadline| now >= deadline.at) && self.pause(StopCause::Watchdog)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Deadline> {
        self.is_enabled().then(|| Deadline::new(self.moved + self.watchdog, "watchdog"))
    }

    fn enter(&mut self, state: RobotState) {
        self.state = state;
        self.epoch = self.epoch.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn connected() -> Safety {
        let mut safety = Safety::new(Duration::from_millis(100), 77);
        safety.connect();
        safety
    }

    #[test]
    fn silence_stops_and_only_a_resume_moves_again() {
        let mut safety = connected();
        assert_eq!(safety.state(), RobotState::Paused);
        assert_eq!(safety.resume(at(0), 1, Some(safety.epoch())), Answer::Done);
        safety.feed(at(50));
        assert!(!safety.check(at(149)));
        assert!(safety.check(at(150)) && !safety.check(at(151)));
        assert_eq!((safety.state(), safety.cause()), (RobotState::Paused, StopCause::Watchdog));
        safety.feed(at(160));
        assert!(!safety.is_enabled());
        assert_eq!(safety.resume(at(200), 2, Some(safety.epoch())), Answer::Done);
        assert!(safety.is_enabled());
    }

    #[test]
    fn a_resume_from_before_the_stop_releases_nothing() {
        let mut safety = connected();
        let seen = safety.epoch();
        safety.resume(at(0), 1, Some(seen));
        let seen = safety.epoch();
        assert!(safety.check(at(100)));
        assert_eq!(safety.resume(at(101), 1, Some(safety.epoch())), Answer::Done, "a repetition is answered");
        assert!(!safety.is_enabled(), "and does nothing");
        assert_eq!(safety.resume(at(101), 2, Some(seen)), Answer::Superseded);
        assert!(!safety.is_enabled());
    }

    #[test]
    fn a_repeated_stop_does_not_undo_the_resume_after_it() {
        let mut safety = connected();
        assert!(safety.stop(1) && !safety.stop(1));
        assert_eq!(safety.state(), RobotState::Fault);
        assert_eq!(safety.resume(at(0), 2, Some(safety.epoch())), Answer::Done);
        assert!(!safety.stop(1));
        assert!(safety.is_enabled());
    }

    #[test]
    fn what_was_pressed_at_the_robot_is_released_there() {
        let mut safety = connected();
        safety.stop_locally();
        safety.stop(1);
        assert_eq!(safety.resume(at(0), 2, Some(safety.epoch())), Answer::HeldLocally);
        safety.release_local(true);
        assert_eq!(safety.state(), RobotState::Paused);
        assert_eq!(safety.resume(at(0), 2, None), Answer::HeldLocally, "a late copy of the refused one");
        assert_eq!(safety.resume(at(0), 3, Some(safety.epoch())), Answer::Done);
    }

    #[test]
    fn a_fault_outlives_its_operator() {
        let mut safety = connected();
        safety.stop(1);
        safety.leave(StopCause::OperatorLeft);
        assert_eq!(safety.state(), RobotState::Fault);
        safety.connect();
        assert_eq!(safety.state(), RobotState::Fault);
        assert_eq!(safety.resume(at(0), 1, Some(safety.epoch())), Answer::Done, "a new operator counts anew");
    }

    #[test]
    fn a_stop_without_a_number_stops_after_any_command() {
        let mut safety = connected();
        assert_eq!(safety.resume(at(0), 1 << 63 | 9, None), Answer::Done);
        assert!(safety.stop_unnumbered() && !safety.stop_unnumbered());
        assert_eq!((safety.state(), safety.cause()), (RobotState::Fault, StopCause::Emergency));
    }

    #[test]
    fn what_was_released_at_the_robot_is_remembered_until_somebody_resumes() {
        let mut safety = connected();
        safety.stop_locally();
        safety.release_local(true);
        safety.leave(StopCause::LinkClosed);
        safety.connect();
        assert_eq!((safety.state(), safety.cause()), (RobotState::Paused, StopCause::LocalEmergency));
        safety.resume(at(0), 1, Some(safety.epoch()));
        safety.pause(StopCause::LinkClosed);
        safety.leave(StopCause::LinkClosed);
        assert_eq!(safety.cause(), StopCause::LinkClosed);
    }

    proptest! {
        /// Nothing but a resume in the present epoch makes a robot move that did not, and every stop stops.
        #[test]
        fn only_a_resume_enables(steps in prop::collection::vec((0u8..8, 0u64..6, 0u32..3), 0..60)) {
            let (mut safety, mut now) = (Safety::new(Duration::from_millis(20), 5), 0);
            for (step, command, behind) in steps {
                now += 7;
                let (before, held) = (safety.is_enabled(), safety.held_locally);
                let (state, epoch) = (safety.state(), safety.epoch());
                let named = epoch.wrapping_sub(behind);
                match step {
                    0 => safety.connect(),
                    1 => safety.leave(StopCause::OperatorLeft),
                    2 => { safety.pause(StopCause::Watchdog); }
                    3 => safety.stop_locally(),
                    4 => safety.release_local(true),
                    5 => { safety.stop(command); }
                    6 => { safety.check(at(now)); }
                    _ => { safety.resume(at(now), command, Some(named)); }
                }
                if safety.is_enabled() && !before {
                    prop_assert!(step == 7 && behind == 0 && !held);
                }
                if matches!(step, 1..=3) {
                    prop_assert!(!safety.is_enabled());
                }
                if safety.state() != state {
                    prop_assert_ne!(safety.epoch(), epoch);
                }
            }
        }
    }
}
