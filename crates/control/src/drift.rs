//! Where a line of waves would have the robot's reference, and where it is.

use taut_core::Duration;

use crate::reserve::Reserve;
use crate::vector::{Vector, dot, plus, times};
use crate::wave::{filtered, wave_energy};

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
    /// The waves that left here, in the mean over a round trip, √W.
    left: Vector,
    /// What is to be made up for, √W·s.
    owed: Vector,
}

impl Drift {
    /// Nothing was heard.
    pub(crate) const NONE: Self = Self { age: 0.0, is_news: false, left: [0.0; 3], owed: [0.0; 3] };

    /// A message came, or was played, that is so old. What goes back is taken to be as old when it is heard: the round trip is twice that.
    pub(crate) fn hear(&mut self, age: Duration) {
        /// s.
        const OLDEST: f64 = 1.0;
        (self.age, self.is_news) = (age.as_secs_f64().min(OLDEST), true);
    }

    /// This is the way from the reference to the hand; where nothing was heard since it was asked last it says nothing.
    pub(crate) fn measure(&mut self, impedance: f64, way: &Vector) {
        if std::mem::take(&mut self.is_news) {
            self.owed = plus(&times((2.0 * impedance).sqrt(), way), 2.0 * self.age, &self.left);
        }
    }

    /// This wave leaves.
    pub(crate) fn send(&mut self, wave: &Vector, period: f64) {
        // Half a round trip: as late in the mean as the mean over all of it.
        self.left = filtered(&self.left, wave, Duration::from_secs_f64(self.age), period);
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
