//! How late this host wakes up.
//!
//! A copy at the last moment is in time if it leaves then. In virtual time it does. A host wakes up late, by 50 µs when it is
//! idle and by milliseconds when others want its CPUs: so much is to be spared.

use taut_core::{Duration, Time, Transport};

use super::Mtip;
use super::deadline::STILL;
use super::estimate::Delays;

/// How much later than asked for this end was called, lately.
#[derive(Clone, Debug, Default)]
pub(super) struct Wakes {
    lateness: Delays,
    /// When something last happened that may have moved the deadline.
    moved: Time,
    margin: Duration,
}

impl Wakes {
    pub(super) fn moved(&mut self, now: Time) {
        self.moved = self.moved.max(now);
    }

    /// This end asked to be called at `due`, and is called now. What was due already when it could have asked says nothing.
    fn called(&mut self, now: Time, due: Time) {
        if self.moved < due && due <= now {
            self.lateness.record(now.saturating_since(due));
            self.margin = self.lateness.quantile(STILL).unwrap_or_default();
        }
        self.moved(now);
    }

    /// What to spare, so that of the copies at the last moment as many leave in time as are to arrive in time.
    pub(super) const fn margin(&self) -> Duration {
        self.margin
    }
}

impl Mtip {
    /// It is called, at the latest, because it asked for it.
    pub(super) fn measure_lateness(&mut self, now: Time) {
        match self.poll_timeout() {
            Some(deadline) => self.wakes.called(now, deadline.at),
            None => self.wakes.moved(now),
        }
        let margin = self.wakes.margin();
        if let Some(scheduler) = &mut self.chooser.deadline {
            scheduler.margin = margin;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Time {
        Time::ZERO + Duration::from_micros(us)
    }

    #[test]
    fn the_margin_is_what_99_of_100_calls_were_late_by_and_old_ones_are_forgotten() {
        let mut wakes = Wakes::default();
        assert_eq!(wakes.margin(), Duration::ZERO);
        for n in 1..=200 {
            wakes.called(us(1_000 * n + if n % 150 == 0 { 900 } else { 80 }), us(1_000 * n));
        }
        assert_eq!(wakes.margin(), Duration::from_micros(80));
        (201..=203).for_each(|n| wakes.called(us(1_000 * n + 400), us(1_000 * n)));
        assert_eq!(wakes.margin(), Duration::from_micros(400));
        (204..=500).for_each(|n| wakes.called(us(1_000 * n), us(1_000 * n)));
        assert_eq!(wakes.margin(), Duration::ZERO);
    }

    #[test]
    fn what_was_due_before_anybody_could_ask_says_nothing_of_the_host() {
        let mut wakes = Wakes::default();
        wakes.called(us(50_000), us(0));
        wakes.moved(us(60_000));
        wakes.called(us(70_000), us(60_000));
        assert_eq!(wakes.margin(), Duration::ZERO, "due at once");
        wakes.called(us(80_000), us(90_000));
        assert_eq!(wakes.margin(), Duration::ZERO, "early is not late");
        wakes.called(us(91_000), us(90_000));
        assert_eq!(wakes.margin(), Duration::from_millis(1));
    }
}
