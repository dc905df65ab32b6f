//! What stands between a state that was taken and the device: the set point never leaves the limits, whatever is asked.

use taut_core::{Duration, LeakyBucket, Time};
use taut_wire::session::Verdict;

use crate::limits::{LimitPolicy, MotionLimits};
use crate::state::State;

type Vector = [f64; 3];

/// Holds the set point within [`MotionLimits`], by the robot's own clock and by where the robot measures itself.
///
/// A target in the box and within force / stiffness of the measured position is approached with the acceleration, so that the
/// way is left to brake. What that leads to is brought into the box and the force's reach once more, and at last no way is longer
/// than the speed times the time since the set point moved last, or than a step. So in doubt the acceleration gives way first, then
/// the reach, where the arm was pushed away; never the speed, and never the box: it is convex, and the set point only moves towards
/// what is in it.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    limits: MotionLimits,
    rate: LeakyBucket,
    /// Where the robot measured itself last, and when.
    measured: Option<(Vector, Time)>,
    /// What was measured longer ago says nothing.
    measured_for: Duration,
    /// Where the robot was told to be last, or was when it was resumed.
    set_point: Option<Vector>,
    /// How fast the set point moved there, m/s, and when.
    velocity: Vector,
    since: Time,
}

/// A quaternion shorter than this points nowhere.
const LEAST_NORM: f64 = 1e-3;

/// The set point moves at most as far as the speed leads in this time, however long the silence before.
const LONGEST_STEP: Duration = Duration::from_millis(50);

/// This part of a second's states may come at once.
const BURST: f64 = 0.1;

impl Guard {
    /// What the robot measured counts for `measured_for`.
    pub(crate) fn new(limits: MotionLimits, measured_for: Duration) -> Self {
        let rate = f64::from(limits.wire.rate).min(1e9);
        Self {
            limits,
            rate: LeakyBucket::new(Duration::from_nanos((1e9 / rate) as u64), (rate * BURST).max(1.0) as u64),
            measured: None,
            measured_for,
            set_point: None,
            velocity: [0.0; 3],
            since: Time::ZERO,
        }
    }

    /// Where the robot is, m. What is not finite changes nothing.
    pub(crate) fn measure(&mut self, now: Time, position: [f32; 3]) {
        if position.iter().all(|x| x.is_finite()) {
            self.measured = Some((position.map(f64::from), now));
        }
    }

    /// Where the robot is, as far as that is known.
    fn measured(&self, now: Time) -> Option<Vector> {
        let fresh = |(_, at): &(Vector, Time)| now.saturating_since(*at) <= self.measured_for;
        self.measured.filter(fresh).map(|(position, _)| position)
    }

    /// It was resumed: the set point begins where the robot is.
    pub(crate) fn enable(&mut self, now: Time) {
        self.set_point = self.measured(now);
        self.velocity = [0.0; 3];
        self.since = now;
    }

    /// May one more state come? Then it counts.
    pub(crate) fn admits(&mut self, now: Time) -> bool {
        self.limits.wire.rate.is_infinite() || self.rate.take(now)
    }

    /// Could `asked`, which is finite, be taken if it were applied at `now`? Nothing changes.
    ///
    /// # Errors
    /// As [`bound`](Self::bound).
    pub(crate) fn check(&self, now: Time, asked: &State) -> Result<(), Verdict> {
        self.limited(now, asked).map(|_| ())
    }

    /// `asked`, which is finite, within the limits, with its orientation a unit quaternion. What comes out is finite, and the
    /// set point from now on. A device that is locked leaves the set point where it is.
    ///
    /// # Errors
    /// [`Verdict::NotFinite`] where the orientation is none; [`Verdict::OutOfLimits`] under [`LimitPolicy::Refuse`], and
    /// where a limit begins at a place that nobody knows.
    pub(crate) fn bound(&mut self, now: Time, asked: &State) -> Result<State, Verdict> {
        let (state, place, velocity) = self.limited(now, asked)?;
        self.set_point = Some(place);
        self.velocity = velocity;
        self.since = now;
        Ok(state)
    }

    fn limited(&self, now: Time, asked: &State) -> Result<(State, Vector, Vector), Verdict> {
        let norm = magnitude(&asked.orientation_wxyz.map(f64::from));
        if norm < LEAST_NORM {
            return Err(Verdict::NotFinite);
        }
        let wanted = asked.position.map(f64::from);
        let place = self.set_point.or(self.measured(now));
        let mut state = *asked;
        shorten(&mut state.velocity, self.limits.wire.velocity);
        shorten(&mut state.force, self.limits.wire.force);
        let (reached, velocity) = if asked.locked {
            let place = place.ok_or(Verdict::OutOfLimits)?;
            (state.velocity, state.force) = ([0.0; 3], [0.0; 3]);
            (place, [0.0; 3])
        } else if self.limits.needs_place() {
            self.approach(now, place.ok_or(Verdict::OutOfLimits)?, wanted, state.velocity.map(f64::from))?
        } else {
            (self.in_box(wanted), state.velocity.map(f64::from))
        };
        if distance(reached, wanted) > 0.0 {
            state.position = reached.map(|x| x as f32);
            // The velocity that goes with the set point is that of the set point, not the one that was asked for.
            if self.limits.needs_place() {
                state.velocity = velocity.map(|v| v as f32);
                shorten(&mut state.velocity, self.limits.wire.velocity);
            }
            self.stay_in_box(&mut state);
        }
        if self.limits.policy == LimitPolicy::Refuse && !asked.locked && state != *asked {
            return Err(Verdict::OutOfLimits);
        }
        state.orientation_wxyz = asked.orientation_wxyz.map(|part| (f64::from(part) / norm) as f32);
        Ok((state, reached, velocity))
    }

    /// As far from `place` towards `wanted` as the limits let it come by `now`, and how fast that is.
    fn approach(
        &self,
        now: Time,
        place: Vector,
        wanted: Vector,
        wanted_velocity: Vector,
    ) -> Result<(Vector, Vector), Verdict> {
        let wire = &self.limits.wire;
        let target =
            towards(place, self.in_box(self.in_reach(now, self.in_box(wanted))?), f64::from(wire.step));
        // What was saved up in a silence is not spent in one step.
        let dt = now.saturating_since(self.since).min(LONGEST_STEP).as_secs_f64();
        if wire.velocity.is_infinite() && wire.acceleration.is_infinite() {
            return Ok((target, wanted_velocity));
        }
        if dt <= 0.0 {
            return Ok((place, self.velocity));
        }
        let mut velocity = std::array::from_fn(|i| (target[i] - place[i]) / dt);
        if wire.acceleration.is_finite() {
            let way: Vector = std::array::from_fn(|i| target[i] - place[i]);
            velocity = self.accelerate(velocity, way, wanted_velocity, dt);
        }
        let mut reached = std::array::from_fn(|i| place[i] + velocity[i] * dt);
        // Nothing but rounding is between the two: what can be reached exactly is.
        if distance(reached, target) <= 1e-9 {
            reached = target;
        }
        // Whatever it took to brake: neither the box nor the force's reach is left, and then no way is too long for its time.
        reached = self.no_further_out(place, self.in_reach(now, reached)?);
        reached = towards(place, reached, (f64::from(wire.velocity) * dt).min(f64::from(wire.step)));
        Ok((reached, std::array::from_fn(|i| (reached[i] - place[i]) / dt)))
    }

    /// `position`, or what is nearest to it from where the arm's controller makes no more than the largest force.
    fn in_reach(&self, now: Time, position: Vector) -> Result<Vector, Verdict> {
        let force = self.limits.wire.force;
        let Some(stiffness) = self.limits.stiffness.filter(|_| force.is_finite()) else {
            return Ok(position);
        };
        let measured = self.measured(now).ok_or(Verdict::OutOfLimits)?;
        Ok(towards(measured, position, f64::from(force / stiffness)))
    }

    /// `position` in the box; where `from` is outside already, no further out than that.
    fn no_further_out(&self, from: Vector, position: Vector) -> Vector {
        let wire = &self.limits.wire;
        std::array::from_fn(|i| {
            let least = f64::from(wire.position_min[i]).min(from[i]);
            position[i].clamp(least, f64::from(wire.position_max[i]).max(from[i]))
        })
    }

    /// The velocity nearest to `velocity` that acceleration leads to within `dt`, and from which it can still brake before
    /// the end of `way`, beyond the target's own velocity along it: v dt + v² / 2a = way.
    fn accelerate(&self, velocity: Vector, way: Vector, wanted_velocity: Vector, dt: f64) -> Vector {
        let acceleration = f64::from(self.limits.wire.acceleration);
        let length = magnitude(&way);
        let mut velocity = velocity;
        if length > 0.0 {
            let along = (0..3).map(|i| wanted_velocity[i] * way[i]).sum::<f64>() / length;
            let brakes = if acceleration > 0.0 {
                acceleration * ((dt * dt + 2.0 * length / acceleration).sqrt() - dt)
            } else {
                0.0
            };
            limit(&mut velocity, along.max(0.0) + brakes);
        }
        let mut change: Vector = std::array::from_fn(|i| velocity[i] - self.velocity[i]);
        limit(&mut change, acceleration * dt);
        std::array::from_fn(|i| self.velocity[i] + change[i])
    }

    fn in_box(&self, position: Vector) -> Vector {
        let wire = &self.limits.wire;
        std::array::from_fn(|i| {
            position[i].clamp(f64::from(wire.position_min[i]), f64::from(wire.position_max[i]))
        })
    }

    /// On a face of the box, no velocity leads out of it.
    fn stay_in_box(&self, state: &mut State) {
        let wire = &self.limits.wire;
        for i in 0..3 {
            if state.position[i] >= wire.position_max[i] {
                state.velocity[i] = state.velocity[i].min(0.0);
            }
            if state.position[i] <= wire.position_min[i] {
                state.velocity[i] = state.velocity[i].max(0.0);
            }
        }
    }
}

fn distance(a: Vector, b: Vector) -> f64 {
    magnitude(&[a[0] - b[0], a[1] - b[1], a[2] - b[2]])
}

/// `to`, or the point `longest` on the way there.
fn towards(from: Vector, to: Vector, longest: f64) -> Vector {
    let length = distance(from, to);
    if length <= longest {
        return to;
    }
    std::array::from_fn(|i| from[i] + (to[i] - from[i]) * (longest / length))
}

/// Makes `vector` no longer than `longest`.
fn limit(vector: &mut Vector, longest: f64) {
    let length = magnitude(vector);
    if length > longest {
        *vector = vector.map(|part| part * (longest / length));
    }
}

/// Makes `vector` no longer than `longest`.
pub(crate) fn shorten(vector: &mut [f32; 3], longest: f32) {
    let mut exact = vector.map(f64::from);
    if magnitude(&exact) > f64::from(longest) {
        limit(&mut exact, f64::from(longest));
        *vector = exact.map(|part| part as f32);
    }
}

fn magnitude(vector: &[f64]) -> f64 {
    vector.iter().map(|part| part * part).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests;
