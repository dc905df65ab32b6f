//! Judges a session from outside: by the states that were made, the frames that went by, and what the robot did.
//!
//! It shares no counter with the session. What it demands:
//! - a state is applied at most once, in order, by a robot that moves, and is younger than its deadline;
//! - a robot moves only after a resume was pressed that came after its last stop, and applies no state from before both;
//! - `made = applied + dropped at the operator + refused at the robot + lost + in flight`, each state being one of them.

use std::collections::VecDeque;

use taut_core::{DropCause, Duration, Time};

/// States that are remembered; one that was pushed out of memory before its fate was known counts as lost.
const REMEMBERED: usize = 1 << 17;
/// Violations that are told in words.
const MOST_TOLD: usize = 20;

/// Streams of a session: 0 emergency, 1 high, 2 and 3 normal in turn.
pub(super) const STREAMS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Made, and nothing else known.
    Open,
    /// Dropped by the operator's end.
    Dropped(DropCause),
    /// Arrived, and not judged yet.
    Arrived,
    Applied,
    /// Arrived, and of no use.
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct State {
    made: Time,
    fate: Fate,
    stream: u8,
}

/// What became of the states of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) arrived: u64,
    pub(super) applied: u64,
    pub(super) lost: u64,
    pub(super) in_flight: u64,
    pub(super) dropped: [u64; DropCause::ALL.len()],
    pub(super) refused: [u64; DropCause::ALL.len()],
    pub(super) duplicates: u64,
    pub(super) reordered: u64,
}

impl Tally {
    /// All that it accounts for.
    pub(super) fn sum(&self) -> u64 {
        let of = |counts: &[u64]| counts.iter().sum::<u64>();
        self.applied + self.lost + self.in_flight + of(&self.dropped) + of(&self.refused)
    }
}

pub(super) struct Checker {
    /// Sequence of the first that is remembered.
    first: u64,
    states: VecDeque<State>,
    pub(super) made: u64,
    pub(super) tallies: [Tally; STREAMS],
    /// The newest that arrived.
    newest: u64,
    applied: u64,
    moves: bool,
    resumed: Option<Time>,
    stopped: Option<Time>,
    deadline: Option<Duration>,
    violations: Vec<String>,
    untold: u64,
}

impl Checker {
    /// No state may be applied at an age of `deadline`.
    pub(super) fn new(deadline: Option<Duration>) -> Self {
        Self {
            first: 1,
            states: VecDeque::new(),
            made: 0,
            tallies: [Tally::default(); STREAMS],
            newest: 0,
            applied: 0,
            moves: false,
            resumed: None,
            stopped: None,
            deadline,
            violations: Vec::new(),
            untold: 0,
        }
    }

    pub(super) fn violate(&mut self, what: String) {
        if self.violations.len() < MOST_TOLD {
            self.violations.push(format!("session: {what}"));
        } else {
            self.untold += 1;
        }
    }

    fn state(&mut self, sequence: u64) -> Option<&mut State> {
        self.states.get_mut(usize::try_from(sequence.checked_sub(self.first)?).ok()?)
    }

    /// When a state was made; `None` when nobody made it, or so long ago that it is forgotten.
    pub(super) fn made_at(&mut self, sequence: u64) -> Option<Time> {
        self.state(sequence).map(|state| state.made)
    }

    /// The device made a state, and the session took it.
    pub(super) fn made(&mut self, now: Time, sequence: u64, stream: u8) {
        self.made += 1;
        if sequence != self.first + self.states.len() as u64 {
            self.violate(format!("state {sequence} has not the number after the one before"));
        }
        self.states.push_back(State { made: now, fate: Fate::Open, stream });
        if self.states.len() > REMEMBERED {
            self.forget();
        }
    }

    fn forget(&mut self) {
        let Some(state) = self.states.pop_front() else { return };
        self.first += 1;
        if state.fate == Fate::Open {
            self.tallies[usize::from(state.stream) % STREAMS].lost += 1;
        }
    }

    /// The device made a state, and the session did not take it.
    pub(super) fn not_taken(&mut self, stream: u8, cause: DropCause) {
        self.made += 1;
        self.tallies[usize::from(stream) % STREAMS].dropped[cause as usize] += 1;
    }

    /// A state was given to the transport, on this stream.
    pub(super) fn sent(&mut self, sequence: u64, stream: u8) {
        if let Some(state) = self.state(sequence) {
            state.stream = stream;
        }
    }

    /// The operator's end says that a state will not arrive. When that was made, where nothing else is known of it.
    pub(super) fn dropped(&mut self, sequence: u64, cause: DropCause) -> Option<Time> {
        if sequence < self.first {
            return None;
        }
        let Some(state) = self.state(sequence) else {
            self.violate(format!("state {sequence} was dropped and never made"));
            return None;
        };
        if state.fate != Fate::Open {
            return None;
        }
        state.fate = Fate::Dropped(cause);
        let (made, stream) = (state.made, usize::from(state.stream) % STREAMS);
        self.tallies[stream].dropped[cause as usize] += 1;
        Some(made)
    }

    /// A copy of a state arrived at the robot. True for the first.
    pub(super) fn arrived(&mut self, sequence: u64) -> bool {
        let newest = self.newest;
        let Some(state) = self.state(sequence) else {
            if sequence >= self.first {
                self.violate(format!("state {sequence} arrived and was never made"));
            }
            return false;
        };
        let (before, stream) = (state.fate, usize::from(state.stream) % STREAMS);
        match before {
            Fate::Open => {}
            // A transport that gave up may have been heard all the same.
            Fate::Dropped(cause) => self.tallies[stream].dropped[cause as usize] -= 1,
            _ => {
                self.tallies[stream].duplicates += 1;
                return false;
            }
        }
        if let Some(state) = self.state(sequence) {
            state.fate = Fate::Arrived;
        }
        self.newest = newest.max(sequence);
        let tally = &mut self.tallies[stream];
        tally.arrived += 1;
        tally.reordered += u64::from(sequence < newest);
        true
    }

    /// The robot does not apply a state that arrived.
    pub(super) fn refused(&mut self, sequence: u64, cause: DropCause) {
        let Some(state) = self.state(sequence) else { return };
        match state.fate {
            Fate::Arrived => {
                state.fate = Fate::Refused;
                let stream = usize::from(state.stream) % STREAMS;
                self.tallies[stream].refused[cause as usize] += 1;
            }
            // A copy of one that was judged before.
            Fate::Applied | Fate::Refused => {}
            Fate::Open | Fate::Dropped(_) => {
                self.violate(format!("state {sequence} was refused and never arrived"));
            }
        }
    }

    /// The robot applies a state. `slack` is by how much it may misjudge ages: as its estimate of the clocks is off.
    pub(super) fn applied(&mut self, now: Time, sequence: u64, slack: Option<Duration>) {
        if !self.moves {
            self.violate(format!("state {sequence} was applied by a robot that does not move"));
        }
        if sequence <= self.applied {
            self.violate(format!("state {sequence} was applied after {}", self.applied));
        }
        self.applied = self.applied.max(sequence);
        let (resumed, stopped, deadline) = (self.resumed, self.stopped, self.deadline);
        if sequence < self.first {
            return;
        }
        let Some(state) = self.state(sequence) else {
            return self.violate(format!("state {sequence} was applied and never made"));
        };
        let (made, fate, stream) = (state.made, state.fate, usize::from(state.stream) % STREAMS);
        state.fate = Fate::Applied;
        if fate != Fate::Arrived {
            self.violate(format!("state {sequence} was applied when it was {fate:?}"));
        }
        self.tallies[stream].applied += 1;
        let since = |event: Option<Time>| event.is_none_or(|at| made >= at);
        if !since(resumed) && !since(stopped) {
            self.violate(format!("state {sequence} is from before the stop, and was applied after it"));
        }
        let age = now.saturating_since(made);
        if let (Some(deadline), Some(slack)) = (deadline, slack)
            && age >= deadline + slack
        {
            let allowed = format!("more than {deadline}, and its clock was {slack} off at most");
            self.violate(format!("state {sequence} was {age} old when it was applied: {allowed}"));
        }
    }

    /// The operator pressed resume.
    pub(super) fn resume_pressed(&mut self, now: Time) {
        self.resumed = Some(now);
    }

    /// The robot says that it moves.
    pub(super) fn enabled(&mut self, now: Time) {
        let allowed =
            self.resumed.is_some_and(|resumed| self.stopped.is_none_or(|stopped| resumed >= stopped));
        if !allowed {
            self.violate(format!("the robot moves at {now} and nobody pressed resume after it stopped"));
        }
        self.moves = true;
    }

    /// The robot says that it stands.
    pub(super) fn stopped(&mut self, now: Time) {
        self.moves = false;
        self.stopped = Some(now);
    }

    /// Closes the books: what has not arrived was made after the newest that did, and is in flight, or is lost; what
    /// arrived and was not judged waits in a slow robot.
    pub(super) fn close(&mut self) {
        let newest = self.newest;
        for (sequence, state) in (self.first..).zip(&self.states) {
            let tally = &mut self.tallies[usize::from(state.stream) % STREAMS];
            match state.fate {
                Fate::Open if sequence < newest => tally.lost += 1,
                Fate::Open | Fate::Arrived => tally.in_flight += 1,
                Fate::Dropped(_) | Fate::Applied | Fate::Refused => {}
            }
        }
        let accounted: u64 = self.tallies.iter().map(Tally::sum).sum();
        if accounted != self.made {
            self.violate(format!("{} states were made, and {accounted} are accounted for", self.made));
        }
    }

    /// What was not as it must be, in words.
    pub(super) fn violations(&self) -> Vec<String> {
        let more = (self.untold > 0).then(|| format!("session: and {} more", self.untold));
        self.violations.iter().cloned().chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::ZERO + MS * ms
    }

    /// A session in which states 1 to 5 were made, 1 was applied, and the robot moves.
    fn running() -> Checker {
        let mut checker = Checker::new(Some(MS * 50));
        checker.resume_pressed(at(0));
        checker.enabled(at(5));
        (1..=5).for_each(|n| checker.made(at(n), n, 2));
        assert!(checker.arrived(1));
        checker.applied(at(10), 1, Some(Duration::ZERO));
        assert_eq!(checker.violations(), Vec::<String>::new());
        checker
    }

    fn told(checker: &Checker) -> String {
        checker.violations().join("; ")
    }

    #[test]
    fn every_state_has_one_fate() {
        let mut checker = running();
        checker.dropped(2, DropCause::Superseded);
        assert!(checker.arrived(4) && !checker.arrived(1) && !checker.arrived(4));
        checker.refused(4, DropCause::TooLate);
        checker.not_taken(1, DropCause::Stopped);
        checker.close();
        assert_eq!(told(&checker), "");
        let tally = checker.tallies[2];
        assert_eq!((tally.applied, tally.lost, tally.in_flight, tally.duplicates), (1, 1, 1, 2));
        assert_eq!((tally.sum(), checker.tallies[1].sum(), checker.made), (5, 1, 6));
    }

    #[test]
    fn a_state_applied_twice_is_found() {
        let mut checker = running();
        checker.applied(at(11), 1, None);
        assert!(told(&checker).contains("state 1 was applied after 1"));
    }

    #[test]
    fn a_state_applied_after_a_stop_is_found() {
        let mut checker = running();
        checker.stopped(at(11));
        checker.arrived(2);
        checker.applied(at(12), 2, None);
        assert!(told(&checker).contains("does not move"));
        let mut checker = running();
        checker.stopped(at(11));
        checker.enabled(at(12));
        assert!(told(&checker).contains("nobody pressed resume"));
        let mut checker = running();
        checker.stopped(at(11));
        checker.resume_pressed(at(12));
        checker.enabled(at(13));
        checker.arrived(2);
        checker.applied(at(14), 2, None);
        assert!(told(&checker).contains("from before the stop"));
    }

    #[test]
    fn a_state_older_than_its_deadline_is_found() {
        let mut checker = running();
        checker.arrived(2);
        checker.applied(at(52), 2, Some(MS));
        assert_eq!(told(&checker), "");
        checker.arrived(3);
        checker.applied(at(54), 3, Some(MS));
        assert!(told(&checker).contains("state 3 was 51"), "{}", told(&checker));
    }

    #[test]
    fn a_state_that_vanishes_from_the_books_is_found() {
        let mut checker = running();
        checker.made += 1;
        checker.close();
        assert!(told(&checker).contains("6 states were made, and 5"));
    }

    #[test]
    fn memory_is_bounded_and_what_is_forgotten_is_lost() {
        let mut checker = Checker::new(None);
        let many = REMEMBERED as u64 + 1000;
        (1..=many).for_each(|n| checker.made(at(n), n, 2));
        checker.close();
        assert!(checker.states.len() <= REMEMBERED);
        assert_eq!((told(&checker), checker.tallies[2].lost), (String::new(), 1000));
    }
}
