//! What waits between a session's thread, which never waits for Python, and the threads that call a Python object.

use std::time::Duration;

use taut::StopCause;

/// What was said longer ago is not known any more: of what is asked for once a period, what was asked for in the last one is.
pub(crate) fn lifetime(period: Duration) -> Duration {
    Duration::from_millis(50).max(2 * period)
}

/// A target that waits for Python.
#[derive(Debug)]
struct Target<M> {
    motion: M,
    /// When it came.
    came: Duration,
    /// When its lease ends.
    until: Duration,
    /// When the lease ends of the first that waited; newer ones took its place.
    first_until: Duration,
}

/// What a Python object is asked to do next.
#[derive(Debug, PartialEq)]
pub(crate) struct Work<M> {
    /// The newest target whose lease is not over, and what is left of that.
    pub(crate) apply: Option<(M, Duration)>,
    pub(crate) measure: bool,
    /// Stops until now.
    stopped: u64,
}

/// How long targets waited for Python, in steps of 10 µs, and the last for what was longer.
#[derive(Debug)]
struct Waits([u64; 101]);

impl Default for Waits {
    fn default() -> Self {
        Self([0; 101])
    }
}

impl Waits {
    const STEP: Duration = Duration::from_micros(10);

    fn count(&mut self, waited: Duration) {
        let step = waited.as_nanos() / Self::STEP.as_nanos();
        self.0[usize::try_from(step).unwrap_or(usize::MAX).min(100)] += 1;
    }

    /// The end of the step in which this share of them is reached.
    fn quantile(&self, share: f64) -> Option<Duration> {
        let all: u64 = self.0.iter().sum();
        let mut below = 0;
        let step = self.0.iter().position(|count| {
            below += count;
            below > 0 && below as f64 >= share * all as f64
        });
        step.map(|step| Self::STEP * (step as u32 + 1))
    }
}

/// Hands over targets, readings and stops. Every time is a reading of one clock. Of targets only the newest waits, and of stops each cause
/// once, so that nothing grows while Python is held up.
#[derive(Debug)]
pub(crate) struct Desk<M> {
    target: Option<Target<M>>,
    /// When the lease ends of what `apply` was called with.
    applying: Option<Duration>,
    waits: Waits,
    wants_measure: bool,
    measured: Option<(M, Duration)>,
    lifetime: Duration,
    /// Causes that `stop` was not called with yet.
    stops: Vec<StopCause>,
    /// `stop` returned without an exception from the word that the session's host ends, and nothing was to move since: the same word again, from
    /// each of those that stop at the end, says nothing new. What else stops it is told every time.
    told_end: bool,
    stopped: u64,
    /// `stop` is being called with this, and it was told to move meanwhile or not.
    stopping: Option<(StopCause, bool)>,
    /// A method failed, and the session does not know it yet.
    failure: Option<String>,
    /// `measure` failed when it was called last.
    blind: Option<String>,
    /// `stop` failed: nothing moves any more.
    broken: Option<String>,
    ended: bool,
}

impl<M> Desk<M> {
    /// Of a session that asks at a rate with this period.
    pub(crate) fn new(period: Duration) -> Self {
        Self {
            lifetime: lifetime(period),
            target: None,
            applying: None,
            waits: Waits::default(),
            wants_measure: false,
            measured: None,
            stops: Vec::new(),
            told_end: false,
            stopped: 0,
            stopping: None,
            failure: None,
            blind: None,
            broken: None,
            ended: false,
        }
    }
}

/// The session's side.
impl<M: Clone> Desk<M> {
    /// # Errors
    /// Why it must not move.
    pub(crate) fn enable(&mut self, now: Duration) -> Result<(), String> {
        // What failed before has another chance; what is not measured has none.
        self.failure = None;
        if let Some(why) = self.broken.as_ref().or(self.blind.as_ref()) {
            return Err(why.clone());
        }
        if !self.is_stopped() {
            return Err("its `stop` has not returned".to_owned());
        }
        if self.applying.is_some() {
            return Err("its `apply` from before has not returned".to_owned());
        }
        self.overdue(now)
    }

    /// # Errors
    /// Why it does not move: a method failed, or an earlier target was not applied within its lease.
    pub(crate) fn apply(&mut self, now: Duration, motion: M, lease: Duration) -> Result<(), String> {
        if let Some(why) = self.broken.clone().or_else(|| self.failure.take()) {
            return Err(why);
        }
        self.overdue(now)?;
        let until = now + lease;
        let first_until = self.target.as_ref().map_or(until, |waiting| waiting.first_until);
        self.target = Some(Target { motion, came: now, until, first_until });
        Ok(())
    }

    fn overdue(&self, now: Duration) -> Result<(), String> {
        let waiting = self.target.as_ref().map(|target| target.first_until);
        if self.applying.into_iter().chain(waiting).any(|until| now >= until) {
            return Err("`apply` did not return within its lease: Python is held up".to_owned());
        }
        Ok(())
    }

    /// The last reading, unless that is old. Asks for the next.
    pub(crate) fn measure(&mut self, now: Duration) -> Option<M> {
        self.wants_measure = true;
        let (motion, at) = self.measured.as_ref()?;
        (now.saturating_sub(*at) <= self.lifetime).then(|| motion.clone())
    }

    /// No target that came before is handed over any more.
    pub(crate) fn stop(&mut self, cause: StopCause) {
        self.stopped += 1;
        self.target = None;
        let is_known = cause == StopCause::Host && self.told_end;
        if !self.stops.contains(&cause) && !is_known {
            self.stops.push(cause);
        }
    }

    /// Nothing more is asked, but for stops that wait.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.target = None;
    }

    /// Every stop has been told, and has returned.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stops.is_empty() && self.stopping.is_none()
    }
}

/// Python's side.
impl<M: Clone> Desk<M> {
    /// Is there anything for [`take`](Self::take)?
    pub(crate) fn has_work(&self) -> bool {
        self.target.is_some() || self.wants_measure || self.ended
    }

    /// What to do now; `None`: nothing, ever again.
    pub(crate) fn take(&mut self, now: Duration) -> Option<Work<M>> {
        if self.ended {
            return None;
        }
        let target = self.target.take().filter(|target| target.until > now);
        self.applying = target.as_ref().map(|target| target.until);
        if let Some(target) = &target {
            self.told_end = false;
            self.stopping.iter_mut().for_each(|(_, moved)| *moved = true);
            self.waits.count(now.saturating_sub(target.came));
        }
        let apply = target.map(|target| (target.motion, target.until.saturating_sub(now)));
        Some(Work { apply, measure: std::mem::take(&mut self.wants_measure), stopped: self.stopped })
    }

    /// `apply` of this work returned. What was stopped meanwhile is stopped once more: what was applied may have come after that.
    pub(crate) fn applied(&mut self, work: &Work<M>) {
        self.applying = None;
        if self.stopped != work.stopped {
            self.told_end = false;
            self.stop(StopCause::Host);
        }
    }

    pub(crate) fn measured(&mut self, now: Duration, motion: Option<M>) {
        self.measured = motion.map(|motion| (motion, now));
        self.blind = None;
    }

    /// `apply` failed: it is stopped, and the session is told when it asks next.
    pub(crate) fn failed(&mut self, why: String) {
        self.failure.get_or_insert(why);
        self.stop(StopCause::Device);
    }

    /// `measure` failed, which is the same while it moves. True: it was stopped.
    pub(crate) fn unmeasured(&mut self, why: String) -> bool {
        self.measured = None;
        let first = self.blind.replace(why.clone()).is_none();
        if first {
            self.failed(why);
        }
        first
    }

    /// The next stop to tell.
    pub(crate) fn take_stop(&mut self) -> Option<StopCause> {
        if self.stops.is_empty() {
            return None;
        }
        let cause = self.stops.remove(0);
        self.stopping = Some((cause, false));
        Some(cause)
    }

    /// `stop` returned.
    pub(crate) fn told_stop(&mut self, failed: Option<String>) {
        let told = self.stopping.take();
        match (failed, told) {
            (Some(why), _) => _ = self.broken.get_or_insert(why),
            (None, Some((StopCause::Host, false))) => self.told_end = true,
            _ => {}
        }
    }

    /// How long this share of the targets waited for Python at most; what waited longer than a millisecond counts as a little more.
    pub(crate) fn waited(&self, share: f64) -> Option<Duration> {
        self.waits.quantile(share)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use taut::State;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(x: f32) -> State {
        State::at([x, 0.0, 0.0])
    }

    #[test]
    fn of_targets_the_newest_is_handed_over_with_what_is_left_of_its_lease() {
        let mut desk = Desk::<State>::new(ms(1));
        desk.apply(ms(0), at(1.0), ms(100)).unwrap();
        desk.apply(ms(1), at(2.0), ms(100)).unwrap();
        assert_eq!(desk.take(ms(11)).unwrap().apply, Some((at(2.0), ms(90))));
        assert_eq!(desk.take(ms(12)).unwrap().apply, None);
    }

    #[test]
    fn it_is_known_how_long_targets_waited() {
        let mut desk = Desk::<State>::new(ms(1));
        assert_eq!(desk.waited(0.5), None);
        for (at, waited) in [(0, 25), (1_000, 25), (2_000, 5_000)] {
            desk.apply(Duration::from_micros(at), self::at(0.0), ms(100)).unwrap();
            let _ = desk.take(Duration::from_micros(at + waited));
        }
        assert_eq!(desk.waited(0.5), Some(Duration::from_micros(30)));
        assert_eq!(desk.waited(0.99), Some(Duration::from_micros(1_010)));
    }

    #[test]
    fn a_target_whose_lease_is_over_is_not_handed_over() {
        let mut desk = Desk::<State>::new(ms(1));
        desk.apply(ms(0), at(1.0), ms(100)).unwrap();
        assert_eq!(desk.take(ms(100)).unwrap().apply, None);
    }

    #[test]
    fn a_target_that_waits_for_python_beyond_its_lease_is_an_error_however_new_the_next_is() {
        let mut desk = Desk::<State>::new(ms(1));
        for now in 0..100 {
            desk.apply(ms(now), at(1.0), ms(100)).unwrap();
        }
        assert!(desk.apply(ms(100), at(1.0), ms(100)).is_err());
        desk.stop(StopCause::Device);
        assert_eq!(desk.take(ms(101)).unwrap().apply, None);
    }

    #[test]
    fn an_apply_that_does_not_return_is_an_error_and_is_stopped_once_more_when_it_does() {
        let mut desk = Desk::<State>::new(ms(1));
        desk.apply(ms(0), at(1.0), ms(100)).unwrap();
        let work = desk.take(ms(1)).unwrap();
        assert!(desk.apply(ms(99), at(1.0), ms(100)).is_ok());
        assert!(desk.apply(ms(100), at(1.0), ms(100)).is_err());
        desk.stop(StopCause::Device);
        assert!(desk.enable(ms(101)).is_err());
        assert_eq!(desk.take_stop(), Some(StopCause::Device));
        desk.told_stop(None);
        assert!(desk.enable(ms(102)).is_err(), "`apply` has not returned");
        desk.applied(&work);
        assert_eq!(desk.take_stop(), Some(StopCause::Host));
        assert!(desk.enable(ms(103)).is_err(), "`stop` has not returned");
        desk.told_stop(None);
        assert_eq!(desk.enable(ms(104)), Ok(()));
    }

    #[test]
    fn an_apply_from_before_a_stop_holds_up_a_resume_until_it_has_returned() {
        let mut desk = Desk::<State>::new(ms(1));
        desk.apply(ms(0), at(1.0), ms(100)).unwrap();
        let work = desk.take(ms(1)).unwrap();
        desk.stop(StopCause::Watchdog);
        assert_eq!(desk.take_stop(), Some(StopCause::Watchdog));
        desk.told_stop(None);
        assert!(desk.enable(ms(2)).is_err());
        desk.applied(&work);
        assert_eq!(desk.take_stop(), Some(StopCause::Host));
        desk.told_stop(None);
        assert_eq!(desk.enable(ms(3)), Ok(()));
    }

    #[test]
    fn nothing_is_applied_after_a_stop_that_failed() {
        let mut desk = Desk::<State>::new(ms(1));
        desk.stop(StopCause::Watchdog);
        assert_eq!(desk.take_stop(), Some(StopCause::Watchdog));
        desk.told_stop(Some("`stop` raised".to_owned()));
        assert_eq!(desk.apply(ms(0), at(1.0), ms(100)), Err("`stop` raised".to_owned()));
    }

    #[test]
    fn a_reading_is_known_for_fifty_milliseconds() {
        let mut desk = Desk::<State>::new(ms(1));
        assert_eq!(desk.measure(ms(0)), None);
        assert!(desk.take(ms(0)).unwrap().measure);
        desk.measured(ms(1), Some(at(1.0)));
        assert_eq!(desk.measure(ms(51)), Some(at(1.0)));
        assert_eq!(desk.measure(ms(52)), None);
    }

    #[test]
    fn of_a_slow_robot_what_it_was_asked_for_a_period_ago_is_known() {
        let mut desk = Desk::<State>::new(ms(100));
        assert_eq!(desk.measure(ms(0)), None);
        desk.measured(ms(1), Some(at(1.0)));
        assert_eq!(desk.measure(ms(100)), Some(at(1.0)));
        assert_eq!(desk.measure(ms(202)), None);
    }

    #[test]
    fn a_failure_is_told_once_and_a_failed_stop_for_good() {
        let mut desk = Desk::<State>::new(ms(1));
        desk.failed("RuntimeError: hot".to_owned());
        assert_eq!(desk.apply(ms(0), at(1.0), ms(100)), Err("RuntimeError: hot".to_owned()));
        assert_eq!(desk.take_stop(), Some(StopCause::Device));
        desk.told_stop(None);
        assert_eq!(desk.enable(ms(1)), Ok(()));
        desk.stop(StopCause::Watchdog);
        assert_eq!(desk.take_stop(), Some(StopCause::Watchdog));
        desk.told_stop(Some("`stop` raised".to_owned()));
        assert!(desk.enable(ms(2)).is_err() && desk.enable(ms(3)).is_err());
    }

    #[test]
    fn what_cannot_be_measured_is_stopped_once_and_moves_when_it_is_measured_again() {
        let mut desk = Desk::<State>::new(ms(1));
        assert!(
            desk.unmeasured("OSError: unplugged".to_owned())
                && !desk.unmeasured("OSError: unplugged".to_owned())
        );
        assert_eq!(desk.take_stop(), Some(StopCause::Device));
        desk.told_stop(None);
        assert_eq!(desk.take_stop(), None);
        assert!(desk.enable(ms(1)).is_err());
        desk.measured(ms(2), Some(at(1.0)));
        assert_eq!(desk.enable(ms(3)), Ok(()));
    }

    #[test]
    fn what_stands_is_not_told_of_the_end_again_until_it_was_told_to_move_and_of_all_else_is() {
        let mut desk = Desk::<State>::new(ms(1));
        let told = |desk: &mut Desk<State>, cause| {
            desk.stop(cause);
            let told = desk.take_stop();
            desk.told_stop(None);
            told
        };
        assert_eq!(told(&mut desk, StopCause::Host), Some(StopCause::Host));
        assert_eq!(told(&mut desk, StopCause::Host), None);
        for cause in [StopCause::Watchdog, StopCause::Emergency, StopCause::Device] {
            assert_eq!([told(&mut desk, cause), told(&mut desk, cause)], [Some(cause); 2]);
        }
        desk.apply(ms(0), at(1.0), ms(100)).unwrap();
        assert!(desk.take(ms(1)).unwrap().apply.is_some());
        assert_eq!(told(&mut desk, StopCause::Host), Some(StopCause::Host));
        // It moves while `stop` is called: that was not the last word.
        desk.apply(ms(1), at(1.0), ms(100)).unwrap();
        assert!(desk.take(ms(2)).unwrap().apply.is_some());
        desk.stop(StopCause::Host);
        assert_eq!(desk.take_stop(), Some(StopCause::Host));
        desk.apply(ms(2), at(1.0), ms(100)).unwrap();
        assert!(desk.take(ms(3)).unwrap().apply.is_some());
        desk.told_stop(None);
        assert_eq!(told(&mut desk, StopCause::Host), Some(StopCause::Host));
        // And one that failed is tried again.
        desk.apply(ms(4), at(1.0), ms(100)).unwrap();
        assert!(desk.take(ms(5)).unwrap().apply.is_some());
        desk.stop(StopCause::Host);
        assert_eq!(desk.take_stop(), Some(StopCause::Host));
        desk.told_stop(Some("`stop` raised".to_owned()));
        assert_eq!(told(&mut desk, StopCause::Host), Some(StopCause::Host));
    }

    #[test]
    fn of_stops_each_cause_waits_once() {
        let mut desk = Desk::<State>::new(ms(1));
        for _ in 0..1_000 {
            desk.stop(StopCause::Watchdog);
            desk.stop(StopCause::Host);
        }
        assert_eq!(desk.take_stop(), Some(StopCause::Watchdog));
        assert_eq!(desk.take_stop(), Some(StopCause::Host));
        assert_eq!(desk.take_stop(), None);
    }
}
