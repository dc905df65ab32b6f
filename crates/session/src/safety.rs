//! May the robot move? One small state machine that knows nothing of networks.
//!
//! ```text
//!              connect                    resume
//!  DISABLED ────────────► PAUSED ◄──────────────────► ENABLED
//!      ▲                    │ ▲    watchdog, goodbye      │
//!      │ leave    emergency │ │ reset                     │ emergency
//!      └──────── PAUSED     ▼ │                           │
//!                         FAULT ◄─────────────────────────┘
//! ```
//!
//! An emergency stop is latched (FAULT). Letting go of it and moving again are two acts (ISO 13850, 4.1.4: "resetting shall not
//! by itself initiate a restart"): a reset leads to PAUSED, and only a resume from there to ENABLED. What was pressed at the
//! robot is reset at the robot.
//!
//! Every change of state, and every emergency stop, begins a new epoch. A reset or a resume names the epoch that it has seen,
//! and releases nothing else: one that was on its way while the robot stopped once more does nothing.
//!
//! Nobody is told of ENABLED before the device has [taken](Safety::taken) it, and nothing moves the device. A resume that it does not take, or of which it says nothing
//! within the watchdog's time, is answered as one that a stop overtook.

use std::collections::BTreeMap;

use taut_core::{Deadline, Duration, Time};
use taut_wire::session::{Answer, RobotState, Status as Report, StopCause};

/// What of a robot's stop has to survive its process: kept in a file beside the robot, and given back to the next life by
/// [`RobotConfig::latched`](crate::RobotConfig::latched).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latch {
    /// Why it stopped.
    pub cause: StopCause,
    /// It was pressed at the robot, and only there it can be let go.
    pub held_locally: bool,
    /// An operator pressed it, or it was found after a restart: an operator resets it.
    pub held_remotely: bool,
}

/// Where motion comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// The session's own states.
    States,
    /// A channel, by its place.
    Channel(u8),
}

#[derive(Clone, Debug)]
pub(crate) struct Safety {
    state: RobotState,
    cause: StopCause,
    epoch: u32,
    watchdog: Duration,
    /// When the last motion that was applied was made, of each source that has moved since the resume; and when that came.
    moved: BTreeMap<Source, Time>,
    /// When those that have not moved it yet were heard first since the resume.
    begun: BTreeMap<Source, Time>,
    resumed: Time,
    held_locally: bool,
    /// The operator's emergency stop, or a kept one, which an operator resets.
    held_remotely: bool,
    /// It was latched while the present operator was there: who cannot name an epoch may reset it.
    known: bool,
    /// The last command obeyed, and the answer to it.
    last: Option<(u64, Answer)>,
    /// The resume that the device has not taken yet, and how the robot was before.
    offered: Option<(u64, Report)>,
    /// The last resume of this motion.
    moves_by: Option<u64>,
}

impl Safety {
    /// Begins at a random epoch, so that a resume meant for an earlier life of this robot releases nothing. A stop that was
    /// latched in that life holds in this one.
    pub(crate) fn new(watchdog: Duration, epoch: u32, latched: Option<Latch>) -> Self {
        Self {
            state: if latched.is_some() { RobotState::Fault } else { RobotState::Disabled },
            cause: latched.map_or(StopCause::Start, |latch| latch.cause),
            epoch,
            watchdog,
            moved: BTreeMap::new(),
            begun: BTreeMap::new(),
            resumed: Time::ZERO,
            held_locally: latched.is_some_and(|latch| latch.held_locally),
            held_remotely: latched.is_some_and(|latch| latch.held_remotely),
            known: false,
            last: None,
            offered: None,
            moves_by: None,
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

    /// How the robot is, as the operator is told.
    pub(crate) fn told(&self) -> Report {
        let Self { state, cause, epoch, .. } = *self;
        self.offered.map_or(Report { state, cause, epoch }, |(_, before)| before)
    }

    /// Does this resume wait for the device?
    pub(crate) fn is_offered(&self, resume: u64) -> bool {
        self.offered.is_some_and(|(offered, _)| offered == resume)
    }

    /// Does any?
    pub(crate) fn is_waiting(&self) -> bool {
        self.offered.is_some()
    }

    /// The device moves by the resume that was offered to it and began this epoch; false: there is none (any more). The watchdog counts from then.
    pub(crate) fn taken(&mut self, now: Time, epoch: u32) -> bool {
        let taken = epoch == self.epoch && self.offered.take().is_some();
        if taken {
            self.resumed = now;
        }
        taken
    }

    /// What has to survive this process; `None`: nothing is latched.
    pub(crate) fn latch(&self) -> Option<Latch> {
        let Self { cause, held_locally, held_remotely, .. } = *self;
        (self.state == RobotState::Fault).then_some(Latch { cause, held_locally, held_remotely })
    }

    /// There is a (new) operator. A latched emergency stop stays.
    pub(crate) fn connect(&mut self) {
        self.last = None;
        self.known = false;
        if self.state == RobotState::Disabled {
            self.enter(RobotState::Paused);
        }
    }

    /// The operator is gone. A latched emergency stop stays, and so does the memory of one that nobody resumed from, and of a hand that turned away.
    pub(crate) fn leave(&mut self, cause: StopCause) {
        self.last = None;
        if self.state != RobotState::Fault {
            // The next operator resumes by itself after no stop that asks for a person.
            if !self.cause.is_emergency() && self.cause != StopCause::TurnedApart {
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
    fn latch_for(&mut self, cause: StopCause) {
        self.cause = cause;
        self.known = true;
        self.enter(RobotState::Fault);
    }

    /// The button at the robot, or what counts as one.
    pub(crate) fn stop_locally(&mut self, cause: StopCause) {
        self.held_locally = true;
        self.latch_for(cause);
    }

    /// The button at the robot is released; motion still waits for a resume, and for the reset of a stop that was pressed
    /// elsewhere. True when it was pressed.
    pub(crate) fn release_local(&mut self, has_operator: bool) -> bool {
        if !std::mem::take(&mut self.held_locally) {
            return false;
        }
        if self.held_remotely {
            self.cause = StopCause::Emergency;
            self.enter(RobotState::Fault);
        } else {
            self.enter(if has_operator { RobotState::Paused } else { RobotState::Disabled });
        }
        true
    }

    /// The operator's emergency stop. False when it is a repetition, or older than a command obeyed since.
    pub(crate) fn stop(&mut self, command: u64) -> bool {
        if self.last.is_some_and(|(last, _)| command <= last) {
            return false;
        }
        self.last = Some((command, Answer::Done));
        self.held_remotely = true;
        // A stop pressed at the robot stays the cause: it is the one that has to be released there.
        let cause = if self.held_locally { self.cause } else { StopCause::Emergency };
        self.latch_for(cause);
        true
    }

    /// An emergency stop without a number of its own: one more of them stops once more. True when nothing was latched.
    pub(crate) fn stop_unnumbered(&mut self) -> bool {
        let fresh = self.state != RobotState::Fault;
        self.held_remotely = true;
        if fresh {
            self.latch_for(StopCause::Emergency);
        }
        fresh
    }

    /// What was answered before, when this command came before or is older than one that did.
    fn answered(&self, command: u64) -> Option<Answer> {
        match self.last? {
            (last, answer) if command == last => Some(answer),
            (last, _) if command < last => Some(Answer::Superseded),
            _ => None,
        }
    }

    /// Does this name what there is? `None`: from a codec that has no epochs, which may mean a stop of its own session only.
    fn is_seen(&self, epoch: Option<u32>) -> bool {
        epoch.map_or(self.known || self.state != RobotState::Fault, |epoch| epoch == self.epoch)
    }

    /// The operator lets go of a latched stop: what becomes of that. Nothing moves by it. `epoch` is the one that the operator
    /// has seen, `None` from a codec that has none.
    pub(crate) fn reset(&mut self, command: u64, epoch: Option<u32>) -> Answer {
        if let Some(answer) = self.answered(command) {
            return answer;
        }
        let answer = if self.held_locally {
            Answer::HeldLocally
        } else if !self.is_seen(epoch) {
            Answer::Superseded
        } else {
            Answer::Done
        };
        self.last = Some((command, answer));
        if answer == Answer::Done && self.state == RobotState::Fault {
            self.held_remotely = false;
            self.enter(RobotState::Paused);
        }
        answer
    }

    /// The operator's resume: what becomes of it. `epoch` is the one that the operator has seen, `None` from a codec
    /// that has none.
    pub(crate) fn resume(&mut self, now: Time, command: u64, epoch: Option<u32>) -> Answer {
        if let Some(answer) = self.answered(command) {
            return answer;
        }
        let answer = if self.held_locally {
            Answer::HeldLocally
        } else if self.state == RobotState::Fault {
            Answer::Latched
        } else if !self.is_seen(epoch) {
            Answer::Superseded
        } else {
            Answer::Done
        };
        self.last = Some((command, answer));
        if answer == Answer::Done && !self.is_enabled() {
            let before = self.told();
            self.enter(RobotState::Enabled);
            self.offered = Some((command, before));
            self.moved.clear();
            self.begun.clear();
            self.resumed = now;
        }
        if answer == Answer::Done {
            self.moves_by = Some(command);
        }
        answer
    }

    /// A command that was refused before it came here; its copies get the same answer.
    pub(crate) fn refuse(&mut self, command: u64, answer: Answer) -> Answer {
        self.answered(command).unwrap_or_else(|| {
            self.last = Some((command, answer));
            answer
        })
    }

    /// Motion that was made at `created` is applied: the watchdog counts from then, wherever it was on its way. Of several sources
    /// that have moved since the resume each has to go on: one whose motion stays out is not made up for by the others.
    pub(crate) fn feed(&mut self, source: Source, created: Time) {
        self.moved.insert(source, created);
    }

    /// As long as it has not moved the robot since the resume its motion begins where the robot is; since when it has been heard then.
    pub(crate) fn begins(&mut self, source: Source, now: Time) -> Option<Time> {
        (!self.moved.contains_key(&source)).then(|| *self.begun.entry(source).or_insert(now))
    }

    /// Has any other source?
    pub(crate) fn has_moved_by_others(&self, source: Source) -> bool {
        self.moved.keys().any(|other| *other != source)
    }

    /// Stops a robot that was silent for too long; true when it did.
    pub(crate) fn check(&mut self, now: Time) -> bool {
        self.poll_timeout().is_some_and(|deadline| now >= deadline.at) && self.pause(StopCause::Watchdog)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Deadline> {
        let oldest = self.moved.values().min().map_or(self.resumed, |moved| {
            // Motion does not feed it before the device has taken the resume.
            if self.is_waiting() { self.resumed.min(*moved) } else { *moved }
        });
        self.is_enabled().then(|| Deadline::new(oldest + self.watchdog, "watchdog"))
    }

    fn enter(&mut self, state: RobotState) {
        self.offered = None;
        // A copy of it, whose first answer may be lost, is not told that the robot moves.
        if let (Some(resume), Some((last, answer))) = (self.moves_by.take(), &mut self.last)
            && resume == *last
        {
            *answer = Answer::Superseded;
        }
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
        let mut safety = Safety::new(Duration::from_millis(100), 77, None);
        safety.connect();
        safety
    }

    #[test]
    fn silence_stops_and_only_a_resume_moves_again() {
        let mut safety = connected();
        assert_eq!(safety.state(), RobotState::Paused);
        assert_eq!(safety.resume(at(0), 1, Some(safety.epoch())), Answer::Done);
        assert!(safety.taken(at(0), safety.epoch()));
        safety.feed(Source::States, at(50));
        assert!(!safety.check(at(149)));
        assert!(safety.check(at(150)) && !safety.check(at(151)));
        assert_eq!((safety.state(), safety.cause()), (RobotState::Paused, StopCause::Watchdog));
        safety.feed(Source::States, at(160));
        assert!(!safety.is_enabled());
        assert_eq!(safety.resume(at(200), 2, Some(safety.epoch())), Answer::Done);
        assert!(safety.is_enabled());
    }

    #[test]
    fn a_resume_from_before_the_stop_releases_nothing() {
        let mut safety = connected();
        let seen = safety.epoch();
        safety.resume(at(0), 1, Some(seen));
        assert!(safety.taken(at(0), safety.epoch()));
        let seen = safety.epoch();
        assert!(safety.check(at(100)));
        assert_eq!(safety.resume(at(101), 1, Some(safety.epoch())), Answer::Superseded, "a repetition");
        assert!(!safety.is_enabled(), "does nothing");
        assert_eq!(safety.resume(at(101), 2, Some(seen)), Answer::Superseded);
        assert!(!safety.is_enabled());
    }

    #[test]
    fn a_resume_is_answered_as_done_only_while_the_robot_moves_by_it() {
        let mut safety = connected();
        for (command, again) in [(1, false), (2, true)] {
            let now = at(1_000 * command);
            assert_eq!(safety.resume(now, command, Some(safety.epoch())), Answer::Done);
            assert!(safety.taken(now, safety.epoch()));
            assert_eq!(safety.resume(now, command, Some(safety.epoch())), Answer::Done, "a copy");
            // A second one of a robot that moves already.
            let last = if again { command + 1 } else { command };
            assert_eq!(safety.resume(now, last, Some(safety.epoch())), Answer::Done);
            assert!(safety.pause(StopCause::Watchdog));
            assert_eq!(
                safety.resume(now, last, Some(safety.epoch())),
                Answer::Superseded,
                "it stopped since"
            );
        }
        // What was answered of a reset stays.
        assert_eq!(safety.resume(at(9_000), 4, Some(safety.epoch())), Answer::Done);
        assert_eq!(safety.reset(5, Some(safety.epoch())), Answer::Done, "there is nothing to reset");
        assert!(safety.pause(StopCause::Watchdog));
        assert_eq!(safety.reset(5, Some(safety.epoch())), Answer::Done);
    }

    #[test]
    fn a_resume_that_the_device_does_not_take_is_told_to_nobody_and_answered_as_one_that_a_stop_overtook() {
        let mut safety = connected();
        let before = safety.told();
        assert_eq!(safety.resume(at(0), 1, Some(before.epoch)), Answer::Done);
        assert!(safety.is_offered(1) && safety.is_enabled() && safety.told() == before);
        assert!(safety.pause(StopCause::Device) && !safety.taken(at(0), safety.epoch()));
        assert_eq!(safety.resume(at(1), 1, Some(before.epoch)), Answer::Superseded, "a copy");
        let Report { state, cause, epoch } = safety.told();
        assert_eq!((state, cause), (RobotState::Paused, StopCause::Device));
        assert_eq!(safety.resume(at(2), 2, Some(epoch)), Answer::Done);
        assert!(safety.taken(at(2), safety.epoch()) && !safety.is_offered(2));
        assert_eq!(safety.told().state, RobotState::Enabled);
        // A stop that overtakes it is answered for itself.
        assert!(safety.pause(StopCause::Released));
        assert_eq!(safety.resume(at(3), 3, Some(safety.epoch())), Answer::Done);
        assert!(safety.stop(4) && !safety.taken(at(3), safety.epoch()));
        assert_eq!(safety.reset(4, None), Answer::Done, "the stop's own answer");
    }

    #[test]
    fn a_resume_is_taken_by_its_own_epoch_alone_and_nothing_feeds_the_watchdog_before() {
        let mut safety = connected();
        // In a codec without epochs.
        assert_eq!(safety.resume(at(0), 1, None), Answer::Done);
        let first = safety.epoch();
        assert!(safety.pause(StopCause::Released));
        assert_eq!(safety.resume(at(10), 2, None), Answer::Done);
        assert!(
            !safety.taken(at(10), first) && safety.is_waiting() && safety.told().state == RobotState::Paused
        );
        safety.feed(Source::States, at(60));
        assert_eq!(safety.poll_timeout().map(|due| due.at), Some(at(110)));
        assert!(safety.taken(at(10), safety.epoch()));
        assert!(!safety.check(at(110)) && safety.check(at(160)));
        assert_eq!(safety.resume(at(200), 3, None), Answer::Done);
        safety.feed(Source::States, at(290));
        assert!(safety.check(at(300)), "nobody took it");
        assert_eq!(safety.resume(at(301), 3, None), Answer::Superseded, "a copy");
    }

    #[test]
    fn a_repeated_stop_does_not_undo_the_resume_after_it() {
        let mut safety = connected();
        assert!(safety.stop(1) && !safety.stop(1));
        assert_eq!(safety.state(), RobotState::Fault);
        assert_eq!(safety.reset(2, Some(safety.epoch())), Answer::Done);
        assert_eq!(safety.resume(at(0), 3, Some(safety.epoch())), Answer::Done);
        assert!(!safety.stop(1));
        assert!(safety.is_enabled());
    }

    #[test]
    fn resetting_a_stop_and_moving_again_are_two_acts() {
        let mut safety = connected();
        safety.stop(1);
        assert_eq!(safety.resume(at(0), 2, Some(safety.epoch())), Answer::Latched);
        assert_eq!(safety.state(), RobotState::Fault);
        assert_eq!(safety.reset(3, Some(safety.epoch())), Answer::Done);
        assert_eq!(safety.state(), RobotState::Paused);
        assert_eq!(
            safety.resume(at(0), 2, Some(safety.epoch())),
            Answer::Superseded,
            "a late copy moves nothing"
        );
        assert_eq!(safety.resume(at(0), 4, Some(safety.epoch())), Answer::Done);
        assert!(safety.is_enabled());
        assert_eq!(safety.reset(5, Some(safety.epoch())), Answer::Done, "there is nothing to reset");
        assert!(safety.is_enabled());
    }

    #[test]
    fn a_stop_that_an_operator_has_not_seen_is_not_reset_by_it() {
        let mut safety = connected();
        let seen = safety.epoch();
        safety.stop(1);
        assert_eq!(safety.reset(2, Some(seen)), Answer::Superseded);
        // Who cannot name an epoch resets what was pressed in its own session alone.
        safety.connect();
        assert_eq!(safety.reset(1, None), Answer::Superseded);
        assert_eq!(safety.state(), RobotState::Fault);
        assert!(!safety.stop_unnumbered());
        assert_eq!(safety.reset(2, None), Answer::Superseded, "it may have meant the stop before");
        assert_eq!(safety.reset(3, Some(safety.epoch())), Answer::Done);
        assert!(safety.stop_unnumbered());
        assert_eq!(safety.reset(4, None), Answer::Done);
    }

    #[test]
    fn what_was_latched_in_an_earlier_life_holds() {
        let watchdog = Duration::from_millis(100);
        let kept = Latch { cause: StopCause::LocalEmergency, held_locally: true, held_remotely: false };
        let mut safety = Safety::new(watchdog, 1, Some(kept));
        assert_eq!((safety.state(), safety.latch()), (RobotState::Fault, Some(kept)));
        safety.connect();
        assert_eq!(safety.reset(1, Some(safety.epoch())), Answer::HeldLocally);
        safety.release_local(true);
        assert_eq!((safety.state(), safety.latch()), (RobotState::Paused, None));

        let kept = Latch { cause: StopCause::Restart, held_locally: false, held_remotely: true };
        let mut safety = Safety::new(watchdog, 1, Some(kept));
        safety.connect();
        assert_eq!(safety.resume(at(0), 1, Some(safety.epoch())), Answer::Latched);
        assert_eq!(safety.reset(2, Some(safety.epoch())), Answer::Done);
        assert_eq!(safety.resume(at(0), 3, Some(safety.epoch())), Answer::Done);
    }

    #[test]
    fn a_stop_pressed_at_both_ends_is_let_go_at_both() {
        let mut safety = connected();
        safety.stop(1);
        safety.stop_locally(StopCause::LocalEmergency);
        // Also across a restart in between.
        let mut safety = Safety::new(Duration::from_millis(100), 9, safety.latch());
        safety.connect();
        safety.release_local(true);
        assert_eq!((safety.state(), safety.cause()), (RobotState::Fault, StopCause::Emergency));
        assert_eq!(safety.reset(2, Some(safety.epoch())), Answer::Done);
        assert_eq!(safety.state(), RobotState::Paused);
    }

    #[test]
    fn a_resume_of_a_robot_that_moves_feeds_no_watchdog() {
        let mut safety = connected();
        safety.resume(at(0), 1, Some(safety.epoch()));
        safety.feed(Source::States, at(10));
        assert_eq!(safety.resume(at(100), 2, Some(safety.epoch())), Answer::Done);
        assert!(safety.check(at(110)));
    }

    #[test]
    fn the_watchdog_counts_from_when_motion_was_made() {
        let mut safety = connected();
        safety.resume(at(900), 1, Some(safety.epoch()));
        safety.feed(Source::States, at(850));
        assert!(!safety.check(at(949)) && safety.check(at(950)));
    }

    #[test]
    fn what_was_pressed_at_the_robot_is_released_there() {
        let mut safety = connected();
        safety.stop_locally(StopCause::LocalEmergency);
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
        assert_eq!(safety.reset(1, Some(safety.epoch())), Answer::Done, "a new operator counts anew");
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
        safety.stop_locally(StopCause::LocalEmergency);
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
        fn only_a_resume_enables(steps in prop::collection::vec((0u8..9, 0u64..6, 0u32..3), 0..60)) {
            let (mut safety, mut now) = (Safety::new(Duration::from_millis(20), 5, None), 0);
            for (step, command, behind) in steps {
                now += 7;
                let (before, held) = (safety.is_enabled(), safety.held_locally);
                let (state, epoch) = (safety.state(), safety.epoch());
                let named = epoch.wrapping_sub(behind);
                match step {
                    0 => safety.connect(),
                    1 => safety.leave(StopCause::OperatorLeft),
                    2 => { safety.pause(StopCause::Watchdog); }
                    3 => safety.stop_locally(StopCause::LocalEmergency),
                    4 => { safety.release_local(true); }
                    5 => { safety.stop(command); }
                    6 => { safety.check(at(now)); }
                    7 => { safety.reset(command, Some(named)); }
                    _ => { safety.resume(at(now), command, Some(named)); }
                }
                if safety.is_enabled() && !before {
                    prop_assert!(step == 8 && behind == 0 && !held && state != RobotState::Fault);
                }
                if state == RobotState::Fault && safety.state() != state {
                    prop_assert!(step == 4 && held || step == 7 && behind == 0 && !held);
                    prop_assert!(matches!(safety.state(), RobotState::Paused));
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
