//! Hands and arms that move as nothing with a mass can, so that no law is helped by the plant.

use taut_control::{Motion, Place, Vector};
use taut_core::Rng;

use crate::{SECONDS, power};

/// How a hand or an arm goes, seen at the end of the lever of what turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By chance, and shaken by more than its velocity says.
    Wanders,
    /// To and fro at 0.3 m/s, another way in every period.
    Trembles,
    /// To and fro at 0.3 m/s, for 1 to 40 periods at a time.
    Reverses,
    /// With whatever pushes it, the faster the harder, and in between at 0.3 m/s elsewhere.
    Yields,
    /// Stands for 20 periods, and is 0.8 mm further in the next.
    Jumps,
    /// Not at all.
    Stands,
}

impl Way {
    pub(crate) const ALL: [Self; 6] =
        [Self::Wanders, Self::Trembles, Self::Reverses, Self::Yields, Self::Jumps, Self::Stands];
}

/// m/s.
const SPEED: f64 = 0.3;
/// Of force, where it yields: m/s for a newton.
const YIELDS: f64 = 0.02;
/// From the middle, m.
const REACH: f64 = 0.05;

pub(crate) struct Mover<P> {
    rng: Rng,
    way: Way,
    motion: Motion<P>,
    /// Until it goes elsewhere, periods; and where.
    left: u64,
    heading: Vector,
}

impl<P: Place> Mover<P> {
    pub(crate) fn new(rng: Rng, way: Way) -> Self {
        let motion = Motion { position: P::ORIGIN, velocity: [0.0; 3] };
        Self { rng, way, motion, left: 0, heading: [0.0; 3] }
    }

    /// After a period in which it was pushed with this.
    pub(crate) fn next(&mut self, force: &Vector) -> Motion<P> {
        let lever = P::LEVER_SQUARED.sqrt();
        let velocity = match self.way {
            Way::Wanders => return self.wander(),
            Way::Trembles => {
                self.turn(200);
                if self.left.is_multiple_of(2) { self.heading } else { self.heading.map(|part| -part) }
            }
            Way::Reverses => {
                self.turn(40);
                self.heading
            }
            Way::Yields => {
                self.turn(80);
                let speed = power(force, force).sqrt() / lever * YIELDS;
                let share = if speed > SPEED { SPEED / speed } else { 1.0 };
                if self.left % 80 < 40 {
                    force.map(|part| part / lever * YIELDS * share)
                } else {
                    self.heading
                }
            }
            Way::Jumps => {
                self.turn(20);
                if self.left == 0 { self.heading.map(|part| part / SPEED * 0.8) } else { [0.0; 3] }
            }
            Way::Stands => [0.0; 3],
        };
        let velocity = velocity.map(|part| part / lever);
        let way = velocity.map(|part| part * SECONDS);
        self.motion = Motion { position: self.motion.position.after(1.0, &way), velocity };
        self.motion
    }

    /// Heads elsewhere now and then: to the middle where it is too far from it.
    fn turn(&mut self, most: u64) {
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        self.left = match self.way {
            Way::Jumps => most,
            _ => self.rng.below(most),
        };
        let lever = P::LEVER_SQUARED.sqrt();
        let away = self.motion.position.way_from(&P::ORIGIN).map(|part| part * lever);
        let is_far = power(&away, &away) > REACH * REACH;
        let to: Vector =
            if is_far { away.map(|part| -part) } else { std::array::from_fn(|_| self.rng.normal()) };
        let size = power(&to, &to).sqrt();
        self.heading = to.map(|part| SPEED * part / size);
    }

    fn wander(&mut self) -> Motion<P> {
        let lever = P::LEVER_SQUARED.sqrt();
        let mut jump = |size: f64| -> Vector { std::array::from_fn(|_| size / lever * self.rng.normal()) };
        let (push, shake) = (jump(0.02), jump(0.0002));
        let Motion { position, velocity } = &mut self.motion;
        let from_middle = position.way_from(&P::ORIGIN);
        let way: Vector = std::array::from_fn(|axis| {
            velocity[axis] += push[axis] - 0.01 * velocity[axis] - 0.2 * from_middle[axis];
            velocity[axis] * SECONDS + shake[axis]
        });
        *position = position.after(1.0, &way);
        self.motion
    }
}
