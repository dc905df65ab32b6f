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
    /// The deadline that had come already by then.
    missed: Option<Time>,
}

impl Wakes {
    /// Something happens that may move the deadline, `due` until now.
    fn moves(&mut self, now: Time, due: Time) {
        if self.moved < due && due < now {
            self.missed = Some(due);
        }
        self.moved = self.moved.max(now);
    }

    /// This end asked to be called at `due`, and is called now. What was due already when it could have asked says nothing.
    fn called(&mut self, now: Time, due: Time) {
        let asked = self.moved < due || self.missed == Some(due);
        if asked && due <= now {
            self.lateness.record(now.saturating_since(due));
        }
        (self.moved, self.missed) = (self.moved.max(now), None);
    }

    /// What to spare, so that of the copies at the last moment as many leave in time as are to arrive in time.
    fn margin(&self) -> Duration {
        self.lateness.quantile(STILL).unwrap_or_default()
    }
}

impl Mtip {
    /// It is called, at the latest, because it asked for it. Only the deadline scheduler wants to know.
    pub(super) fn measure_lateness(&mut self, now: Time) {
        let due = self.due();
        if let Some(scheduler) = &mut self.chooser.deadline {
            self.wakes.called(now, due);
            scheduler.margin = self.wakes.margin();
        }
    }

    /// Something happens that may move the deadline.
    pub(super) fn moves_deadline(&mut self, now: Time) {
        if self.chooser.deadline.is_some() {
            self.wakes.moves(now, self.due());
        }
    }

    fn due(&self) -> Time {
        self.poll_timeout().map_or(Time::MAX, |deadline| deadline.at)
    }
}

#[cfg(test)]
mod tests {
    use taut_core::{Datagram, Ecn, PathId};

    use super::*;
    use crate::mtip::MtipConfig;

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
    fn a_datagram_that_arrives_while_the_host_is_late_does_not_hide_that_it_is() {
        let mut mtip = Mtip::client(MtipConfig::new(), 7);
        mtip.add_path(us(0), PathId(0));
        mtip.handle_timeout(us(0));
        let due = mtip.poll_timeout().expect("a link is asked for again").at;
        let late = |late: u64| due + Duration::from_micros(late);
        let input = Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: b"?", padding: 0 };
        mtip.handle_input(late(400), input);
        mtip.handle_timeout(late(900));
        assert_eq!(mtip.wakes.margin(), Duration::from_micros(900));
    }

    #[test]
    fn what_was_due_before_anybody_could_ask_says_nothing_of_the_host() {
        let mut wakes = Wakes::default();
        wakes.called(us(50_000), us(0));
        wakes.moves(us(60_000), us(0));
        wakes.called(us(70_000), us(60_000));
        assert_eq!(wakes.margin(), Duration::ZERO, "due at once");
        wakes.called(us(80_000), us(90_000));
        assert_eq!(wakes.margin(), Duration::ZERO, "early is not late");
        wakes.called(us(91_000), us(90_000));
        assert_eq!(wakes.margin(), Duration::from_millis(1));
        wakes.moves(us(102_000), us(100_000));
        wakes.called(us(109_000), us(108_000));
        assert_eq!(wakes.margin(), Duration::from_millis(1), "the one that was missed is of no use any more");
    }
}
