//! What a led hand feels in a session, over whole periods of its sines.

use taut_core::{Duration, Time};
use taut_report::result::FeltResult;

use crate::scenario::Teleop;
use crate::sines::{BASE, Felt, Moment, WARM, truth};

/// Of hand and arm.
#[derive(Debug)]
pub(super) struct Led {
    since: Option<Time>,
    /// From a state's time to the middle of the time in which its force is held, s: a law's force is of the period that begins.
    ahead: f64,
    /// Of the whole bases, and of the one that is not over.
    whole: Felt,
    part: Felt,
    bases: u64,
    last: Option<(Time, f64)>,
    /// Of the arm: where it is, m, and what it meets, N.
    arm: [f64; 2],
}

impl Led {
    /// What warms up and one base.
    pub(super) const SHORTEST: Duration = Duration::from_millis(20_100);

    pub(super) fn new(teleop: &Teleop) -> Self {
        let half = teleop.period.as_secs_f64() / 2.0;
        Self {
            since: None,
            ahead: if teleop.coupling().is_some() { half } else { -half },
            whole: Felt::default(),
            part: Felt::default(),
            bases: 0,
            last: None,
            arm: [0.0; 2],
        }
    }

    /// Where the hand is along x, m, and what pushes it, N.
    pub(super) fn device(&mut self, now: Time, position: f64, force: f64) {
        let seconds = now.saturating_since(*self.since.get_or_insert(now)).as_secs_f64();
        let base = (seconds / BASE) as u64;
        if base > self.bases {
            if self.bases >= WARM {
                self.whole.plus(&self.part);
            }
            (self.part, self.bases) = (Felt::default(), base);
        }
        let speed = self.last.map_or(0.0, |(before, place)| {
            let passed = now.saturating_since(before).as_secs_f64();
            if passed > 0.0 { (position - place) / passed } else { 0.0 }
        });
        self.last = Some((now, position));
        self.part.add(&Moment {
            middle: seconds + self.ahead,
            felt: force,
            hand: position + speed * self.ahead,
            apart: self.arm[0] - position,
            met: self.arm[1],
        });
    }

    pub(super) fn arm(&mut self, position: f64, force: f64) {
        self.arm = [position, force];
    }

    /// `None`: it was not led for long enough.
    pub(super) fn felt(&self, teleop: &Teleop) -> Option<FeltResult> {
        let truth = teleop.touch().map(|touch| truth(&touch));
        (!self.whole.is_empty()).then(|| self.whole.result(truth.as_ref()))
    }
}
