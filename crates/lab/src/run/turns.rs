//! How punctual a device was asked that makes something once a period: on real sockets the host decides.

use std::collections::BTreeMap;

use taut_core::{Duration, Time};

/// When a device made something, turn by turn.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    period: Duration,
    made: Vec<Time>,
}

/// The turns' phase is known to this part of a period.
const BINS: u64 = 50;
/// Some are asked for sooner than most, by so many of these parts at most.
const MARGIN: u64 = 2;

impl Turns {
    pub(super) fn new(period: Duration) -> Self {
        Self { period, made: Vec::new() }
    }

    /// From now on somebody waits for what it makes.
    pub(super) fn begin(&mut self) {
        self.made.clear();
    }

    /// It made something. What is made at one time is one turn's.
    pub(super) fn made(&mut self, now: Time) {
        if self.made.last() != Some(&now) {
            self.made.push(now);
        }
    }

    /// How many turns passed without it, and how late it was asked in the others: what the host is to blame for, and neither the
    /// session nor the network.
    pub(super) fn counters(&self) -> BTreeMap<String, u64> {
        let (missed, mut late) = self.lateness();
        if late.is_empty() {
            return BTreeMap::new();
        }
        late.sort_unstable();
        let at = |percent: usize| late[(late.len() - 1) * percent / 100] / 1_000;
        let counters = [
            ("device_missed", missed),
            ("device_late_p50_us", at(50)),
            ("device_late_p99_us", at(99)),
            ("device_late_max_us", at(100)),
        ];
        counters.map(|(name, count)| (name.to_owned(), count)).into()
    }

    /// Turns without anything, and by how many nanoseconds each of the others was late.
    fn lateness(&self) -> (u64, Vec<u64>) {
        let (Some(first), period) = (self.made.first(), self.period.as_nanos()) else {
            return (0, Vec::new());
        };
        let phase = self.phase(*first);
        let (mut missed, mut next, mut late) = (0, 0, Vec::with_capacity(self.made.len()));
        for now in &self.made {
            // From the turn before the first, so that the phase may be on either side of it.
            let passed = (*now - *first).as_nanos() + period - phase;
            let turn = passed / period;
            if late.is_empty() {
                next = turn;
            }
            if turn < next {
                // It makes up for one that had passed.
                missed = u64::saturating_sub(missed, 1);
                late.push(passed - turn * period);
            } else {
                missed += turn - next;
                late.push(passed - next * period);
                next = turn + 1;
            }
        }
        (missed, late)
    }

    /// When in a period turns are due, counted from the first one's time: a little before most of them are asked for.
    fn phase(&self, first: Time) -> u64 {
        let period = self.period.as_nanos();
        let at = |now: &Time| (*now - first).as_nanos() % period;
        let mut bins = [0_u64; BINS as usize];
        for now in &self.made {
            bins[(at(now) * BINS / period) as usize] += 1;
        }
        let most = (0..BINS).rev().max_by_key(|bin| bins[*bin as usize]).unwrap_or(0);
        let due = (most + BINS - MARGIN) % BINS * period / BINS;
        let soonest = self.made.iter().map(|now| (at(now) + period - due) % period).min();
        (due + soonest.unwrap_or(0)) % period
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(micros: &[u64]) -> (u64, Vec<u64>) {
        let mut turns = Turns::new(Duration::from_millis(1));
        micros.iter().for_each(|at| turns.made(Time::ZERO + Duration::from_micros(*at)));
        let (missed, late) = turns.lateness();
        (missed, late.into_iter().map(|nanos| nanos / 1_000).collect())
    }

    #[test]
    fn a_punctual_device_misses_nothing_and_is_never_late() {
        assert_eq!(turns(&[500, 1_500, 2_500, 3_500]), (0, vec![0; 4]));
    }

    #[test]
    fn a_turn_that_passed_is_missed_and_the_next_was_late_by_it() {
        // Due at 1500, 2500, …: 2500 was asked for at 3800, instead of the turn of 3500.
        assert_eq!(turns(&[500, 1_500, 3_800, 4_500, 5_501]), (1, vec![0, 0, 1_300, 0, 1]));
    }

    #[test]
    fn the_first_may_be_late_and_what_is_made_at_once_is_one_turn() {
        assert_eq!(turns(&[900, 900, 1_500, 2_500, 3_500, 4_600]), (0, vec![400, 0, 0, 0, 100]));
    }

    #[test]
    fn one_that_makes_up_for_a_turn_is_late_twice() {
        assert_eq!(turns(&[0, 1_000, 3_010, 3_020, 4_000]), (0, vec![0, 0, 1_010, 20, 0]));
    }
}
