//! A set point that moves within limits: what the guards of places have in common.

use taut_core::{Duration, Time};
use taut_wire::session::Verdict;

use super::moment::Moments;
use super::vector::{Vector, difference, distance, limit, magnitude, towards};

/// The set point moves at most as far as the speed leads in this time, however long the silence before.
pub(super) const LONGEST_STEP: Duration = Duration::from_millis(50);

/// The time from `since` to `now`, s, as far as something may move in one step for it: what was saved up in a silence is not
/// spent at once.
pub(super) fn elapsed(now: Time, since: Time) -> f64 {
    now.saturating_since(since).min(LONGEST_STEP).as_secs_f64()
}

/// Limits of a set point, in the units of its axes; infinite where there is none.
#[derive(Clone, Debug)]
pub(super) struct Bounds<const N: usize> {
    /// The box.
    pub(super) least: Vector<N>,
    pub(super) largest: Vector<N>,
    /// Of the whole vector, at least 0.
    pub(super) speed: f64,
    pub(super) acceleration: f64,
    pub(super) step: f64,
    /// How far it may be from where the robot measures itself.
    pub(super) reach: Option<f64>,
}

impl<const N: usize> Bounds<N> {
    /// Must somebody know where the robot is before it may be told to move?
    pub(super) fn needs_place(&self) -> bool {
        [self.speed, self.acceleration, self.step].iter().any(|limit| limit.is_finite())
            || self.reach.is_some()
    }

    pub(super) fn in_box(&self, position: Vector<N>) -> Vector<N> {
        std::array::from_fn(|i| position[i].clamp(self.least[i], self.largest[i]))
    }

    /// `position` in the box; where `from` is outside already, no further out than that.
    fn no_further_out(&self, from: Vector<N>, position: Vector<N>) -> Vector<N> {
        std::array::from_fn(|i| {
            let least = self.least[i].min(from[i]);
            position[i].clamp(least, self.largest[i].max(from[i]))
        })
    }
}

/// Where a robot is told to be, brought towards what is asked for within [`Bounds`], by the robot's own clock and by where the
/// robot measures itself.
///
/// A target in the box and within reach of the measured place is approached with the acceleration, so that the way is left to
/// brake. What that leads to is brought into the box and the reach once more, and at last no way is longer than the speed times
/// the time since the set point moved last, or than a step. What comes within a [moment](super::moment) has its time together, where no acceleration is limited. So in doubt the acceleration gives way first, then the reach, where the
/// robot was pushed away; never the speed, and never the box: it is convex, and the set point only moves towards what is in it.
#[derive(Clone, Debug)]
pub(super) struct SetPoint<const N: usize> {
    pub(super) bounds: Bounds<N>,
    /// Where the robot measured itself last, and when.
    measured: Option<(Vector<N>, Time)>,
    /// What was measured longer ago says nothing.
    measured_for: Duration,
    /// Where the robot was told to be, or was when it was resumed, and how fast the set point moved there.
    told: Moments<(Option<Vector<N>>, Vector<N>)>,
}

/// Where a set point comes to, and how fast, per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached<const N: usize> {
    pub(super) place: Vector<N>,
    pub(super) velocity: Vector<N>,
    /// It rests there, and nothing before counts any more.
    rests: bool,
}

impl<const N: usize> SetPoint<N> {
    /// What the robot measured counts for `measured_for`.
    pub(super) fn new(bounds: Bounds<N>, measured_for: Duration) -> Self {
        Self { bounds, measured: None, measured_for, told: Moments::new((None, [0.0; N])) }
    }

    /// Where the robot is. What is not finite changes nothing.
    pub(super) fn measure(&mut self, now: Time, place: [f32; N]) {
        if place.iter().all(|x| x.is_finite()) {
            self.measured = Some((place.map(f64::from), now));
        }
    }

    /// Where the robot is, as far as that is known.
    fn measured(&self, now: Time) -> Option<Vector<N>> {
        let fresh = |(_, at): &(Vector<N>, Time)| now.saturating_since(*at) <= self.measured_for;
        self.measured.filter(fresh).map(|(place, _)| place)
    }

    /// It was resumed: the set point begins where the robot is.
    pub(super) fn enable(&mut self, now: Time) {
        self.told.begin(now, (self.measured(now), [0.0; N]));
    }

    /// Where the set point could be at `now`, when `wanted` is asked for, with `wanted_velocity` there. What is locked stays where
    /// it is. Nothing changes.
    ///
    /// # Errors
    /// [`Verdict::OutOfLimits`] where a limit begins at a place that nobody knows.
    pub(super) fn next(
        &self,
        now: Time,
        wanted: Vector<N>,
        wanted_velocity: Vector<N>,
        locked: bool,
    ) -> Result<Reached<N>, Verdict> {
        if locked {
            let place = self.told.last().0.or(self.measured(now)).ok_or(Verdict::OutOfLimits)?;
            return Ok(Reached { place, velocity: [0.0; N], rests: true });
        }
        if self.bounds.needs_place() {
            return self.approach(now, wanted, wanted_velocity);
        }
        Ok(Reached { place: self.bounds.in_box(wanted), velocity: wanted_velocity, rests: false })
    }

    /// The robot is told to be at `reached` from `now` on.
    pub(super) fn advance(&mut self, now: Time, reached: Reached<N>) {
        let Reached { place, velocity, rests } = reached;
        if rests {
            self.told.begin(now, (Some(place), velocity));
        } else {
            let way = self.told.last().0.map_or(0.0, |last| distance(last, place));
            self.told.tell(now, (Some(place), velocity), way);
        }
    }

    /// As far towards `wanted` as the limits let it come by `now`, and how fast that is.
    fn approach(
        &self,
        now: Time,
        wanted: Vector<N>,
        wanted_velocity: Vector<N>,
    ) -> Result<Reached<N>, Verdict> {
        let Bounds { speed, acceleration, step, .. } = self.bounds;
        let known = |place: Option<Vector<N>>| place.or(self.measured(now)).ok_or(Verdict::OutOfLimits);
        let place = known(self.told.last().0)?;
        let in_reach = self.bounds.in_box(self.in_reach(now, self.bounds.in_box(wanted))?);
        let target = towards(place, in_reach, step);
        if speed.is_infinite() && acceleration.is_infinite() {
            return Ok(Reached { place: target, velocity: wanted_velocity, rests: false });
        }
        let counts_alone = acceleration.is_finite();
        let allowance = if counts_alone { self.told.since_last(now) } else { self.told.allowance(now) };
        let ((before, moved), dt) = (allowance.before, allowance.time);
        if dt <= 0.0 {
            return Ok(Reached { place, velocity: moved, rests: false });
        }
        let mut reached = target;
        if counts_alone {
            let way = difference(target, place);
            let velocity = self.accelerate(moved, way.map(|part| part / dt), way, wanted_velocity, dt);
            reached = std::array::from_fn(|i| place[i] + velocity[i] * dt);
            // Nothing but rounding is between the two: what can be reached exactly is.
            if distance(reached, target) <= 1e-9 {
                reached = target;
            }
        }
        // Whatever it took to brake: neither the box nor the reach is left, and then no way is too long for its time.
        reached = self.bounds.no_further_out(place, self.in_reach(now, reached)?);
        reached = towards(place, reached, (speed * dt - allowance.gone).max(0.0).min(step));
        let velocity = difference(reached, known(before)?).map(|part| part / dt);
        Ok(Reached { place: reached, velocity, rests: false })
    }

    /// `position`, or what is nearest to it from where the robot's controller pulls no harder than it may.
    fn in_reach(&self, now: Time, position: Vector<N>) -> Result<Vector<N>, Verdict> {
        let Some(reach) = self.bounds.reach else { return Ok(position) };
        let measured = self.measured(now).ok_or(Verdict::OutOfLimits)?;
        Ok(towards(measured, position, reach))
    }

    /// The velocity nearest to `velocity` that acceleration leads to from `moved` within `dt`, and from which it can still brake before
    /// the end of `way`, beyond the target's own velocity along it: v dt + v² / 2a = way.
    fn accelerate(
        &self,
        moved: Vector<N>,
        velocity: Vector<N>,
        way: Vector<N>,
        wanted_velocity: Vector<N>,
        dt: f64,
    ) -> Vector<N> {
        let acceleration = self.bounds.acceleration;
        let length = magnitude(&way);
        let mut velocity = velocity;
        if length > 0.0 {
            let along = (0..N).map(|i| wanted_velocity[i] * way[i]).sum::<f64>() / length;
            let brakes = if acceleration > 0.0 {
                acceleration * ((dt * dt + 2.0 * length / acceleration).sqrt() - dt)
            } else {
                0.0
            };
            limit(&mut velocity, along.max(0.0) + brakes);
        }
        let mut change = difference(velocity, moved);
        limit(&mut change, acceleration * dt);
        std::array::from_fn(|i| moved[i] + change[i])
    }
}
