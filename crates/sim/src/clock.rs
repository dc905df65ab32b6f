//! A node's own clock: what it reads when the simulation's time is known.

use taut_core::{Duration, Time};

/// An offset and a drift against the simulation's time. The node is handed its own `now`, so that clock estimation is
/// tested, not assumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeClock {
    /// What the clock reads at the simulation's time zero.
    pub offset: Duration,
    /// How much faster it runs, in parts per thousand million (10 ppm = 10 000); in (−10⁹, 10⁹).
    pub drift_ppb: i32,
}

const ONE: i128 = 1_000_000_000;

impl NodeClock {
    /// What the clock reads at `now` of the simulation.
    pub fn read(self, now: Time) -> Time {
        if self.drift_ppb == 0 {
            return now + self.offset;
        }
        let elapsed = i128::from(now.as_nanos()) * (ONE + i128::from(self.drift_ppb)) / ONE;
        Time::from_nanos(elapsed as u64) + self.offset
    }

    /// The simulation's time at which the clock first reads at least `reading`.
    pub fn when(self, reading: Time) -> Time {
        let elapsed = reading.saturating_since(Time::ZERO + self.offset);
        if self.drift_ppb == 0 || reading == Time::MAX {
            return Time::ZERO + elapsed;
        }
        let rate = ONE + i128::from(self.drift_ppb);
        let nanos = (i128::from(elapsed.as_nanos()) * ONE + rate - 1) / rate;
        Time::from_nanos(nanos.min(i128::from(u64::MAX)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_met_and_not_early_whatever_the_drift() {
        for drift_ppb in [-200_000, -1, 0, 1, 50_000, 333_333] {
            let clock = NodeClock { offset: Duration::from_millis(123), drift_ppb };
            for nanos in [123_000_000, 123_000_001, 5_000_000_000, 86_400_000_000_007] {
                let reading = Time::from_nanos(nanos);
                let due = clock.when(reading);
                assert!(clock.read(due) >= reading, "{drift_ppb} {nanos}");
                if due > Time::ZERO {
                    assert!(clock.read(due - Duration::from_nanos(2)) < reading, "{drift_ppb} {nanos}");
                }
            }
        }
    }
}
