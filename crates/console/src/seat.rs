//! Who is in control, and what is held. Sans-IO.

use taut_agent::{Grip, Rate};
use taut_core::{Duration, Time};

/// Whoever sits there says fifty times a second what it holds. One that has said nothing for so long counts for gone long since, and the robot has stopped.
pub const ABSENT: Duration = Duration::from_secs(3);

/// A page, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageId(pub u64);

/// The one seat from which the robot is moved. What is held there moves it until it is let go, or until what the page said last is older than
/// the input lease, by when it was so at the page: then it is let go at once, and after another lease the page counts as gone. What was held before
/// a stop, a lapse or a change of hands never counts again: it has to be let go first. Whoever sits there and says nothing for [`ABSENT`] keeps nobody else from it.
///
/// ```
/// use taut_agent::{Grip, Rate};
/// use taut_console::seat::{PageId, Seat};
/// use taut_core::{Duration, Time};
/// let (mut seat, page, ms) = (Seat::new(Duration::from_millis(120)), PageId(1), Duration::from_millis(1));
/// assert!(seat.take(Time::ZERO, page));
/// seat.input(Time::ZERO, page, Time::ZERO, None);
/// seat.input(Time::ZERO, page, Time::ZERO, Some(Rate::default()));
/// assert!(matches!(seat.grip(Time::ZERO + ms * 120), Grip::Held(_)));
/// assert_eq!(seat.grip(Time::ZERO + ms * 121), Grip::Released);
/// assert_eq!(seat.grip(Time::ZERO + ms * 241), Grip::Lost);
/// ```
#[derive(Debug)]
pub struct Seat {
    lease: Duration,
    limit: Duration,
    holder: Option<PageId>,
    /// When it sat down, or said last what it holds.
    seen: Time,
    /// When that was so what the holder said last.
    heard: Option<Time>,
    held: Option<Rate>,
    /// Nothing was held since the last stop, lapse or change of hands.
    armed: bool,
    /// What is held there still, for all that the page knows, was let go here.
    untold: bool,
    lapses: u64,
    hold_to_run: bool,
}

impl Seat {
    /// An empty one.
    pub const fn new(lease: Duration) -> Self {
        Self {
            lease,
            limit: Duration::MAX,
            holder: None,
            seen: Time::ZERO,
            heard: None,
            held: None,
            armed: false,
            untold: false,
            lapses: 0,
            hold_to_run: false,
        }
    }

    /// The robot takes nothing that is older: neither does the lease.
    pub fn limit_lease(&mut self, max_age: Duration) {
        self.limit = max_age;
    }

    /// The robot is resumed only while something is held.
    pub fn holds_to_run(&mut self, hold_to_run: bool) {
        self.hold_to_run = hold_to_run;
    }

    /// The robot is resumed. What is held moves it only where it had to be.
    pub fn resumed(&mut self) {
        if !self.hold_to_run {
            self.let_go();
        }
    }

    /// Who sits there.
    pub const fn holder(&self) -> Option<PageId> {
        self.holder
    }

    /// How often a lease lapsed while something was held.
    pub const fn lapses(&self) -> u64 {
        self.lapses
    }

    /// Was something let go, since this was asked last, that is held still for all that the page in control knows? It is to be told.
    pub fn is_untold(&mut self) -> bool {
        std::mem::take(&mut self.untold)
    }

    /// May another one sit down? Nobody sits there, or one that is hidden, hung, or gone by a way that nobody has missed yet.
    pub fn is_free(&self, now: Time) -> bool {
        self.holder.is_none() || now.saturating_since(self.seen) > ABSENT
    }

    /// It sits down. False: another one sits there.
    pub fn take(&mut self, now: Time, page: PageId) -> bool {
        if self.holder != Some(page) && self.is_free(now) {
            (self.holder, self.seen, self.heard, self.untold) = (Some(page), now, None, false);
            self.disarm();
        }
        self.holder == Some(page)
    }

    /// It is gone. True: it sat there.
    pub fn leave(&mut self, page: PageId) -> bool {
        let sat = self.holder == Some(page);
        if sat {
            (self.holder, self.heard, self.untold) = (None, None, false);
            self.disarm();
        }
        sat
    }

    fn disarm(&mut self) {
        (self.held, self.armed) = (None, false);
    }

    /// What is held now does not count any more: it has to be let go first.
    pub fn let_go(&mut self) {
        self.untold |= self.held.is_some();
        self.disarm();
    }

    /// What a page held when its clock, which is the gateway's, said `made`. One that is not in control holds nothing.
    pub fn input(&mut self, now: Time, page: PageId, made: Time, held: Option<Rate>) {
        if self.holder != Some(page) {
            return;
        }
        self.seen = now;
        // Nobody may have looked since it lapsed.
        self.lapse(now);
        // Nobody says what will be.
        self.heard = Some(made.min(now));
        self.armed |= held.is_none();
        self.untold &= held.is_some();
        self.held = held.filter(|_| self.armed);
        self.lapse(now);
    }

    /// What the robot is to do at `now`.
    pub fn grip(&mut self, now: Time) -> Grip {
        self.lapse(now);
        match (self.heard, self.held) {
            (None, _) => Grip::Lost,
            (Some(heard), _) if now.saturating_since(heard) > self.lease() * 2 => Grip::Lost,
            (Some(_), Some(rate)) => Grip::Held(rate),
            (Some(_), None) => Grip::Released,
        }
    }

    fn lease(&self) -> Duration {
        self.lease.min(self.limit)
    }

    fn lapse(&mut self, now: Time) {
        if self.heard.is_some_and(|heard| now.saturating_since(heard) > self.lease()) {
            self.lapses += u64::from(self.held.is_some());
            self.let_go();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PageId = PageId(1);
    const OTHER: PageId = PageId(2);
    const RATE: Rate = Rate { linear: [0.1, 0.0, 0.0], angular: [0.0; 3], gripper: 0.0, in_hand: false };

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn held() -> Seat {
        let mut seat = Seat::new(Duration::from_millis(120));
        assert!(seat.take(at(0), ONE));
        seat.input(at(0), ONE, at(0), None);
        seat.input(at(0), ONE, at(0), Some(RATE));
        assert_eq!(seat.grip(at(0)), Grip::Held(RATE));
        seat
    }

    #[test]
    fn what_lapsed_does_not_count_before_it_was_let_go_whether_or_not_somebody_looked_meanwhile() {
        for looks in [true, false] {
            let mut seat = held();
            if looks {
                assert_eq!(seat.grip(at(121)), Grip::Released);
            }
            seat.input(at(130), ONE, at(130), Some(RATE));
            assert_eq!((seat.grip(at(130)), seat.lapses()), (Grip::Released, 1));
            assert!(seat.is_untold());
            seat.input(at(140), ONE, at(140), None);
            seat.input(at(150), ONE, at(150), Some(RATE));
            assert_eq!(seat.grip(at(150)), Grip::Held(RATE));
        }
    }

    #[test]
    fn what_comes_late_from_the_page_is_as_old_as_it_is_and_never_from_what_will_be() {
        // A page, or the way from it, that lags by 130 ms, and says something all the time.
        let mut seat = held();
        for now in (0..1_000).step_by(20) {
            seat.input(at(130 + now), ONE, at(now), Some(RATE));
            assert_eq!(seat.grip(at(130 + now)), Grip::Released);
        }
        let mut seat = held();
        seat.input(at(10), ONE, at(5_000), Some(RATE));
        assert_eq!((seat.grip(at(130)), seat.grip(at(131))), (Grip::Held(RATE), Grip::Released));
    }

    #[test]
    fn what_was_held_before_a_stop_does_not_move_the_robot_after_it() {
        let mut seat = held();
        seat.let_go();
        assert!(seat.is_untold() && !seat.is_untold());
        seat.input(at(10), ONE, at(10), Some(RATE));
        assert_eq!(seat.grip(at(10)), Grip::Released);
    }

    #[test]
    fn what_was_held_before_a_resume_moves_only_a_robot_that_is_not_resumed_without() {
        for hold_to_run in [false, true] {
            let mut seat = held();
            seat.holds_to_run(hold_to_run);
            seat.resumed();
            assert_eq!(seat.grip(at(1)) == Grip::Held(RATE), hold_to_run);
            // Once.
            assert_eq!((seat.is_untold(), seat.is_untold()), (!hold_to_run, false));
        }
    }

    #[test]
    fn one_page_is_in_control_and_its_end_is_that_of_the_samples() {
        let mut seat = held();
        assert!(!seat.take(at(0), OTHER));
        seat.input(at(1), OTHER, at(1), None);
        assert_eq!(seat.grip(at(1)), Grip::Held(RATE));
        assert!(!seat.leave(OTHER) && seat.leave(ONE));
        assert_eq!(seat.grip(at(1)), Grip::Lost);
        assert!(seat.take(at(1), OTHER));
        seat.input(at(2), OTHER, at(2), Some(RATE));
        assert_eq!(seat.grip(at(2)), Grip::Released);
    }

    #[test]
    fn a_page_that_says_nothing_for_seconds_keeps_nobody_from_the_seat_and_moves_nothing_when_it_is_back() {
        let mut seat = held();
        assert!(!seat.is_free(at(3_000)) && !seat.take(at(3_000), OTHER));
        assert!(seat.is_free(at(3_001)) && seat.take(at(3_001), OTHER));
        for held in [None, Some(RATE)] {
            seat.input(at(3_002), ONE, at(3_002), held);
        }
        assert_eq!((seat.holder(), seat.grip(at(3_002))), (Some(OTHER), Grip::Lost));
        // One that is late is there all the same, and so is one that has said nothing yet.
        assert!(!seat.take(at(6_001), ONE));
        seat.input(at(6_002), OTHER, at(10), None);
        assert!(!seat.take(at(9_002), ONE) && seat.take(at(9_003), ONE));
    }

    #[test]
    fn a_page_that_goes_on_saying_nothing_counts_as_gone() {
        let mut seat = held();
        assert_eq!((seat.grip(at(240)), seat.grip(at(241))), (Grip::Released, Grip::Lost));
    }

    #[test]
    fn the_lease_is_no_longer_than_what_the_robot_takes() {
        let mut seat = held();
        seat.limit_lease(Duration::from_millis(40));
        assert_eq!(seat.grip(at(41)), Grip::Released);
    }
}
