//! The guard of `taut/State`, and of the states that frames carry.

use taut_core::{Duration, Orientation, Time};
use taut_wire::session::Verdict;

use super::Admission;
use super::set_point::{Bounds, LONGEST_STEP, Reached, SetPoint};
use super::turn::{Turn, Turned};
use super::vector::{distance, shorten, single};
use crate::motion::{self, LimitPolicy, MotionLimits};
use crate::state::State;

/// Holds the set point of a hand within [`MotionLimits`], by the robot's own clock and by where the robot measures itself.
#[derive(Clone, Debug)]
pub struct StateGuard {
    limits: MotionLimits,
    pub(super) admission: Admission,
    point: SetPoint<3>,
    turn: Turn,
    /// What the gripper was told last, and where it was measured last: a robot that does not measure it says that it is open.
    gripper: Option<u16>,
    measured_gripper: Option<u16>,
}

/// What a state becomes within the limits.
#[derive(Clone, Copy)]
struct Limited {
    state: motion::State,
    reached: Reached<3>,
    turned: Turned,
}

impl StateGuard {
    /// What the robot measured counts for `measured_for`.
    pub(crate) fn new(limits: MotionLimits, measured_for: Duration) -> Self {
        let wire = &limits.wire;
        let reach = limits.stiffness.filter(|_| wire.force.is_finite());
        let bounds = Bounds {
            least: wire.position_min.map(f64::from),
            largest: wire.position_max.map(f64::from),
            speed: f64::from(wire.velocity),
            acceleration: f64::from(wire.acceleration),
            step: f64::from(wire.step),
            reach: reach.map(|stiffness| f64::from(wire.force / stiffness)),
        };
        Self {
            admission: Admission::new(wire.rate),
            point: SetPoint::new(bounds, measured_for),
            turn: Turn::new(f64::from(limits.angular_velocity), measured_for),
            gripper: None,
            measured_gripper: None,
            limits,
        }
    }

    /// Where the robot is, m. What is not finite changes nothing.
    pub(crate) fn measure(&mut self, now: Time, position: [f32; 3]) {
        self.point.measure(now, position);
    }

    /// How the robot is turned. What is no orientation changes nothing.
    pub(crate) fn measure_orientation(&mut self, now: Time, orientation_wxyz: [f32; 4]) {
        self.turn.measure(now, Orientation::new(orientation_wxyz));
    }

    pub(super) fn measure_motion(&mut self, now: Time, measured: &motion::State) {
        self.measure(now, measured.position);
        self.measure_orientation(now, measured.orientation_wxyz);
        self.measured_gripper = Some(measured.gripper);
    }

    /// Does this lead it to be turned further from how it measures itself than [hand and arm may be](taut_core::FARTHEST_TURN)?
    pub(crate) fn is_apart(&self, now: Time, asked: &State) -> bool {
        !asked.locked
            && Orientation::new(asked.orientation_wxyz).is_some_and(|wanted| self.turn.is_apart(now, wanted))
    }

    /// It was resumed: the set point begins where the robot is.
    pub(crate) fn enable(&mut self, now: Time) {
        self.point.enable(now);
        self.turn.enable(now);
    }

    /// States that come since then, and have not been let through, begin where the robot is now, with the time that they have waited.
    pub(crate) fn begin(&mut self, now: Time, since: Time) {
        self.enable(since.max(now - LONGEST_STEP));
    }

    /// May one more state come? Then it counts.
    pub(crate) fn admits(&mut self, now: Time) -> bool {
        self.admission.admits(now)
    }

    /// Could `asked`, which is finite, be taken if it were applied at `now`? Nothing changes.
    ///
    /// # Errors
    /// As [`bound`](Self::bound).
    pub(crate) fn check(&self, now: Time, asked: &State) -> Result<(), Verdict> {
        self.check_motion(now, &asked.into())
    }

    pub(super) fn check_motion(&self, now: Time, asked: &motion::State) -> Result<(), Verdict> {
        self.limited(now, asked).map(|_| ())
    }

    /// `asked`, which is finite, within the limits, with its orientation a unit quaternion. What comes out is finite, and the
    /// set point from now on. A device that is locked leaves the set point, the orientation and the gripper where they are.
    ///
    /// # Errors
    /// [`Verdict::NotFinite`] where the orientation is none; [`Verdict::OutOfLimits`] under [`LimitPolicy::Refuse`], and
    /// where a limit begins at a place that nobody knows.
    pub(crate) fn bound(&mut self, now: Time, asked: &State) -> Result<State, Verdict> {
        let told = self.bound_motion(now, &asked.into())?;
        let is_free = !self.turn.is_limited() && !asked.locked;
        let orientation = Orientation::new(asked.orientation_wxyz).filter(|_| is_free);
        Ok(State {
            position: told.position,
            velocity: told.velocity,
            force: told.force,
            orientation_wxyz: orientation.map_or(told.orientation_wxyz, Orientation::wxyz),
            gripper: told.gripper,
            turning: told.turning,
            ..*asked
        })
    }

    /// As [`bound`](Self::bound), of a payload: a device that is locked moves neither the orientation nor the gripper.
    pub(super) fn bound_motion(
        &mut self,
        now: Time,
        asked: &motion::State,
    ) -> Result<motion::State, Verdict> {
        let Limited { state, reached, turned } = self.limited(now, asked)?;
        self.point.advance(now, reached);
        self.turn.advance(now, turned);
        self.gripper = Some(state.gripper);
        Ok(state)
    }

    fn limited(&self, now: Time, asked: &motion::State) -> Result<Limited, Verdict> {
        let wanted_orientation = Orientation::new(asked.orientation_wxyz).ok_or(Verdict::NotFinite)?;
        let wanted = asked.position.map(f64::from);
        let mut state = *asked;
        shorten(&mut state.velocity, self.limits.wire.velocity);
        shorten(&mut state.force, self.limits.wire.force);
        let reached = self.point.next(now, wanted, state.velocity.map(f64::from), asked.locked)?;
        let turned = self.turn.next(now, wanted_orientation, asked.locked)?;
        if asked.locked {
            (state.velocity, state.force) = ([0.0; 3], [0.0; 3]);
            state.gripper = self.gripper.or(self.measured_gripper).unwrap_or(asked.gripper);
        }
        if distance(reached.place, wanted) > 0.0 {
            state.position = reached.place.map(single);
            // The velocity that goes with the set point is that of the set point, not the one that was asked for.
            if self.point.bounds.needs_place() {
                state.velocity = reached.velocity.map(single);
                shorten(&mut state.velocity, self.limits.wire.velocity);
            }
        }
        self.stay_in_box(&mut state);
        self.limit_turning(&mut state, turned);
        let is_within = state == *asked && turned.limited.is_none();
        if self.limits.policy == LimitPolicy::Refuse && !asked.locked && !is_within {
            return Err(Verdict::OutOfLimits);
        }
        state.orientation_wxyz = turned.orientation.wxyz();
        Ok(Limited { state, reached, turned })
    }

    fn limit_turning(&self, state: &mut motion::State, turned: Turned) {
        let Some(turning) = &mut state.turning else { return };
        if state.locked {
            *turning = motion::Turning::default();
        }
        if let Some(velocity) = turned.limited {
            turning.velocity = velocity.map(single);
        }
        shorten(&mut turning.velocity, self.limits.angular_velocity);
        shorten(&mut turning.torque, self.limits.torque);
    }

    /// On a face of the box, no velocity leads out of it.
    fn stay_in_box(&self, state: &mut motion::State) {
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

#[cfg(test)]
mod tests;
