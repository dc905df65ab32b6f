//! The guard of `taut/Gripper`.

use taut_core::{Duration, Time};
use taut_wire::session::Verdict;

use super::Admission;
use super::set_point::{Bounds, Reached, SetPoint};
use super::vector::single;
use crate::motion::{Gripper, GripperLimits, LimitPolicy};

/// Holds the set point of a gripper within [`GripperLimits`], by the robot's own clock and by how far the gripper is closed.
#[derive(Clone, Debug)]
pub struct GripperGuard {
    pub(super) admission: Admission,
    limits: GripperLimits,
    point: SetPoint<1>,
    /// How hard it was told to hold last, N.
    max_effort: Option<f32>,
}

impl GripperGuard {
    /// What the robot measured counts for `measured_for`.
    pub(super) fn new(limits: GripperLimits, measured_for: Duration) -> Self {
        let bounds = Bounds {
            least: [f64::from(limits.least)],
            largest: [f64::from(limits.largest)],
            speed: f64::from(limits.speed),
            acceleration: f64::INFINITY,
            step: f64::INFINITY,
            reach: None,
        };
        Self {
            admission: Admission::new(limits.rate),
            limits,
            point: SetPoint::new(bounds, measured_for),
            max_effort: None,
        }
    }

    pub(super) fn measure(&mut self, now: Time, measured: &Gripper) {
        self.point.measure(now, [measured.position]);
    }

    pub(super) fn enable(&mut self, now: Time) {
        self.point.enable(now);
    }

    pub(super) fn check(&self, now: Time, asked: &Gripper) -> Result<(), Verdict> {
        self.limited(now, asked).map(|_| ())
    }

    pub(super) fn bound(&mut self, now: Time, asked: &Gripper) -> Result<Gripper, Verdict> {
        let (told, reached) = self.limited(now, asked)?;
        self.point.advance(now, reached);
        self.max_effort = Some(told.max_effort);
        Ok(told)
    }

    fn limited(&self, now: Time, asked: &Gripper) -> Result<(Gripper, Reached<1>), Verdict> {
        let wanted = f64::from(asked.position);
        let reached = self.point.next(now, [wanted], [0.0], asked.locked)?;
        let mut told = *asked;
        told.max_effort = asked.max_effort.clamp(0.0, self.limits.effort);
        if asked.locked {
            // Neither does it let go of what it holds.
            told.max_effort = self.max_effort.unwrap_or(told.max_effort);
        }
        if (reached.place[0] - wanted).abs() > 0.0 {
            told.position = single(reached.place[0]);
        }
        if self.limits.policy == LimitPolicy::Refuse && !asked.locked && told != *asked {
            return Err(Verdict::OutOfLimits);
        }
        Ok((told, reached))
    }
}

#[cfg(test)]
mod tests;
