//! What a led hand feels in a session, over whole periods of its sines.

use taut_core::{Duration, Time};
use taut_report::result::FeltResult;

use crate::scenario::Teleop;
use crate::sines::{BASE, Felt, Moment, WARM, truth};

/// More than this of the periods without a measurement, per cent, and nothing is told: what lies between two is not known.
const MOST_SKIPPED: f64 = 5.0;

/// Of hand and arm.
#[derive(Debug)]
pub(super) struct Led {
    since: Option<Time>,
    period: f64,
    /// The force that a state tells is held in the period that begins, as a law's is, not in the one before.
    is_held_on: bool,
    /// Of the whole bases, and of the one that is not over.
    whole: Felt,
    part: Felt,
    bases: u64,
    last: Option<State>,
    /// Of the arm: where it is, m, and what it meets, N.
    arm: [f64; 2],
}

/// What was measured at one time, along x.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Since the first, s.
    seconds: f64,
    /// Of the hand, m, and on it, N.
    hand: f64,
    force: f64,
    /// Of the arm from it, m, and on that, N.
    apart: f64,
    met: f64,
}

impl Led {
    /// What warms up and one base.
    pub(super) const SHORTEST: Duration = Duration::from_millis(20_100);

    pub(super) fn new(teleop: &Teleop) -> Self {
        Self {
            since: None,
            period: teleop.period.as_secs_f64(),
            is_held_on: teleop.coupling().is_some(),
            whole: Felt::default(),
            part: Felt::default(),
            bases: 0,
            last: None,
            arm: [0.0; 2],
        }
    }

    /// Where the hand is along x, m, and what pushes it, N. It may be late: the force was held from one such time to the next.
    pub(super) fn device(&mut self, now: Time, position: f64, force: f64) {
        let seconds = now.saturating_since(*self.since.get_or_insert(now)).as_secs_f64();
        let [place, met] = self.arm;
        let state = State { seconds, hand: position, force, apart: place - position, met };
        let Some(last) = self.last.replace(state) else { return };
        let passed = seconds - last.seconds;
        if passed <= 0.0 {
            return;
        }
        let middle = f64::midpoint(last.seconds, seconds);
        let base = (middle / BASE) as u64;
        if base > self.bases {
            if self.bases >= WARM {
                self.whole.plus(&self.part);
            }
            (self.part, self.bases) = (Felt::default(), base);
        }
        let State { force, apart, met, .. } = if self.is_held_on { last } else { state };
        self.part.add(&Moment {
            middle,
            felt: force,
            hand: f64::midpoint(last.hand, position),
            apart,
            met,
            periods: passed / self.period,
        });
    }

    pub(super) fn arm(&mut self, position: f64, force: f64) {
        self.arm = [position, force];
    }

    /// `None`: it was not led for long enough, or the host was late too often.
    pub(super) fn felt(&self, teleop: &Teleop) -> Option<FeltResult> {
        // What turns back within hysteresis is not linear.
        let is_linear = teleop.environment.hysteresis() == 0.0;
        let truth = teleop.touch().filter(|_| is_linear).map(|touch| truth(&touch));
        let is_told = !self.whole.is_empty() && self.whole.skipped_percent() <= MOST_SKIPPED;
        is_told.then(|| self.whole.result(truth.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use crate::sines::Sines;

    /// Led for 21 s against a spring of 1000 N/m, under a law, asked in all periods but these.
    fn led(is_missed: impl Fn(u64) -> bool) -> Option<FeltResult> {
        let text = format!("{}law = {{ wave = {{}} }}\nenvironment = \"wall\"\n", crate::map::BASE);
        let teleop = Scenario::parse("led", &text).unwrap().teleop.unwrap();
        let (mut led, sines) = (Led::new(&teleop), Sines::new());
        for step in (0..21_000u64).filter(|step| !is_missed(*step)) {
            let at = sines.at(step as f64 / 1e3).position[0];
            led.device(Time::ZERO + Duration::from_millis(step), at, -1_000.0 * at);
        }
        led.felt(&teleop)
    }

    #[test]
    fn periods_that_were_missed_change_little_and_many_leave_nothing_to_tell() {
        let every = led(|_| false).unwrap();
        assert!(every.skipped_percent == 0.0 && (every.slow_n_m - 1_000.0).abs() < 1.0, "{every:?}");
        // 20 ms in every second: without a weight the mean force, ten times the sines, would leak into them.
        let some = led(|step| step % 1_000 >= 980).unwrap();
        assert!((some.skipped_percent - 2.0).abs() < 0.1, "{some:?}");
        assert!((some.slow_n_m - 1_000.0).abs() < 10.0 && some.unfitted_percent < 3.0, "{some:?}");
        assert!(led(|step| step % 1_000 >= 920).is_none());
    }
}
