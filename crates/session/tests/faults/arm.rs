//! A hand that moves and jumps, and an arm whose controller never pulls harder than its limit.

use std::collections::VecDeque;

use taut_core::Time;

use crate::harness::START;
use crate::{FORCE, STIFFNESS};

/// How the hand moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hand {
    /// Not at all.
    Rests,
    /// In a circle, and twice in three seconds it is somewhere else at once.
    Moves,
}

impl Hand {
    pub(crate) fn at(self, now: Time) -> [f32; 3] {
        if self == Self::Rests {
            return [0.0; 3];
        }
        let s = now.saturating_since(START).as_secs_f64();
        let aside = if s % 3.0 > 1.5 { 0.3 } else { -0.1 };
        [0.1 * (2.0 * s).sin() + aside, 0.1 * (2.0 * s).cos(), 0.05].map(|x| x as f32)
    }
}

/// N s/m: what the arm moves in.
const DRAG: f64 = 20.0;

/// Without mass, in something thick: it moves as fast as its controller pulls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arm {
    pub(crate) at: [f64; 3],
    /// Where it was told to be, and when; `None`: it holds still.
    pub(crate) set_point: Option<([f64; 3], Time)>,
    /// When it was told to go lately, and how far since it was resumed, there and back counted twice.
    pub(crate) path: VecDeque<(Time, f64)>,
    pub(crate) fastest: f64,
    pub(crate) strongest: f64,
    now: Time,
}

impl Arm {
    pub(crate) fn pass(&mut self, now: Time) {
        let mut left = now.saturating_since(self.now).as_secs_f64();
        self.now = self.now.max(now);
        let Some((target, _)) = self.set_point else { return };
        // It holds where it was told to be long before this ends.
        left = left.min(1.0);
        while left > 0.0 {
            let dt = left.min(1e-3);
            left -= dt;
            let way = distance(target, self.at);
            if way < 1e-9 {
                return;
            }
            // Saturated in the device.
            let pull = (f64::from(STIFFNESS) * way).min(f64::from(FORCE));
            let speed = pull / DRAG;
            self.strongest = self.strongest.max(pull);
            self.fastest = self.fastest.max(speed);
            let part = (speed * dt / way).min(1.0);
            self.at = std::array::from_fn(|i| self.at[i] + (target[i] - self.at[i]) * part);
        }
    }
}

pub(crate) fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    (0..3).map(|i| (a[i] - b[i]).powi(2)).sum::<f64>().sqrt()
}
