//! Where a line of waves would have the robot's reference, and where it is.

use taut_core::Duration;

use crate::reserve::Reserve;
use crate::vector::{Vector, dot, plus, times};
use crate::wave::wave_energy;

/// How far the robot's reference is from there.
///
/// What left the hand and what came to it, both summed from the beginning, are √(2b) times the hand's place together, and what came to the robot and what left it √(2b) times that of
/// the reference. Where nothing is lost, held or repeated, what came to the robot is what had left the hand when it said where it was, and what had come to the hand then is what had left the robot a
/// round trip ago. So, whatever is at either end,
///
/// √(2b) (hand − reference) + ∫w dt over the last round trip = 0,
///
/// w being the waves that left the robot; what this is not 0 by is the drift. It needs a place that every message says, and nothing that is summed for longer: what was heard of the other
/// end's force, summed, is not what that did once messages are lost, or held while the network stands still. (Niemeyer, Slotine 1991 have places in integrals of waves; a
/// place that is sent beside them: Chopra, Spong, Ortega, Barabanov, *On tracking performance in bilateral teleoperation*, IEEE Trans. Robotics 22(4), 2006.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drift {
    /// How old what was heard last was then, s.
    age: f64,
    /// Was anything heard since it was measured?
    is_news: bool,
    left: Left,
    /// What is to be made up for, √W·s.
    owed: Vector,
}

impl Drift {
    /// Nothing was heard.
    pub(crate) const NONE: Self = Self { age: 0.0, is_news: false, left: Left::NOTHING, owed: [0.0; 3] };

    /// A message came, or was played, that is so old. What goes back is taken to be as old when it is heard: the round trip is twice that.
    pub(crate) fn hear(&mut self, age: Duration) {
        (self.age, self.is_news) = (age.as_secs_f64(), true);
    }

    /// This is the way from the reference to the hand; where nothing was heard since it was asked last it says nothing.
    pub(crate) fn measure(&mut self, impedance: f64, way: &Vector, period: f64) {
        if std::mem::take(&mut self.is_news) {
            self.owed = plus(&self.left.within(2.0 * self.age, period), (2.0 * impedance).sqrt(), way);
        }
    }

    /// This wave leaves.
    pub(crate) fn send(&mut self, wave: &Vector, period: f64) {
        self.left.add(wave, period);
    }

    /// The wave that arrives, and as much of what is owed as is made up for with this time constant; but no more than what is left pays for, spent with half of that. What opposes
    /// the wave costs nothing.
    pub(crate) fn make_up(&mut self, wave: &Vector, seconds: f64, reserve: &Reserve, period: f64) -> Vector {
        let wanted = times(seconds.recip(), &self.owed);
        let watts = 2.0 * (reserve.left() - wave_energy(wave, period)).max(0.0) / seconds;
        // Of the share s the cost is s w·c + ½ s² c².
        let (lean, square) = (dot(wave, &wanted), dot(&wanted, &wanted));
        let share = if lean + square / 2.0 <= watts {
            1.0
        } else {
            (((lean * lean + 2.0 * square * watts).sqrt() - lean) / square).clamp(0.0, 1.0)
        };
        self.owed = plus(&self.owed, -period * share, &wanted);
        plus(wave, share, &wanted)
    }
}

/// The integral of the waves that left, now and a while ago.
#[derive(Clone, Copy, Debug)]
struct Left {
    /// √W·s.
    sum: Vector,
    /// Over which that is.
    periods: u64,
    /// What it was after every so many periods, the newest of them, round and round.
    past: [Vector; Self::KEPT],
}

impl Left {
    const KEPT: usize = 256;
    /// As far as is looked back, s.
    const SPAN: f64 = 1.0;
    const NOTHING: Self = Self { sum: [0.0; 3], periods: 0, past: [[0.0; 3]; Self::KEPT] };

    /// Periods from one that is kept to the next.
    fn stride(period: f64) -> u64 {
        (Self::SPAN / (period * Self::KEPT as f64)).ceil().max(1.0) as u64
    }

    fn add(&mut self, wave: &Vector, period: f64) {
        self.sum = plus(&self.sum, period, wave);
        self.periods += 1;
        let stride = Self::stride(period);
        if self.periods.is_multiple_of(stride) {
            self.past[self.kept(self.periods / stride)] = self.sum;
        }
    }

    const fn kept(&self, number: u64) -> usize {
        (number % Self::KEPT as u64) as usize
    }

    /// What left within so many seconds, or since the oldest that is kept: a straight line between two that are.
    fn within(&self, seconds: f64, period: f64) -> Vector {
        let stride = Self::stride(period);
        let newest = self.periods / stride;
        let oldest = newest.saturating_sub(Self::KEPT as u64 - 1);
        let at = (self.periods as f64 - seconds / period) / stride as f64;
        let at = at.max(oldest as f64);
        let number = (at as u64).min(newest);
        let before = self.past[self.kept(number)];
        let (after, width) = if number < newest {
            (self.past[self.kept(number + 1)], 1.0)
        } else {
            (self.sum, (self.periods % stride) as f64 / stride as f64)
        };
        let share = if width > 0.0 { (at - number as f64) / width } else { 0.0 };
        let then = plus(&times(1.0 - share, &before), share, &after);
        plus(&self.sum, -1.0, &then)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_left_within_a_while_is_the_integral_over_it() {
        // Of the chord of a curve: 7 h²/8, with h from one that is kept to the next.
        for (period, exact) in [(0.001, 1.5e-5), (0.05, 2.5e-3)] {
            let wave = |seconds: f64| (7.0 * seconds).sin();
            let integral = |from: f64, to: f64| ((7.0 * from).cos() - (7.0 * to).cos()) / 7.0;
            let mut left = Left::NOTHING;
            for step in 1..=(4.0 / period) as u32 {
                let now = f64::from(step) * period;
                // In the mean over the period.
                left.add(&[integral(now - period, now) / period, 0.0, wave(0.0)], period);
                for seconds in [0.0, 0.0035, 0.02, 0.3, 0.99] {
                    let [found, _, still] = left.within(seconds, period);
                    let expected = integral((now - seconds).max(0.0), now);
                    assert!(
                        (found - expected).abs() < exact && still.abs() < 1e-12,
                        "{now} s, {seconds} s: {found}, not {expected}"
                    );
                }
            }
        }
    }
}
