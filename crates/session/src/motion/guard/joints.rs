//! The guard of `taut/Joints`.

use taut_core::{Duration, Time};
use taut_wire::session::Verdict;

use super::Admission;
use super::set_point::{Bounds, Reached, SetPoint};
use super::vector::single;
use crate::motion::{JointLimits, Joints, JointsLimits, LimitPolicy};

/// Holds the set point of every joint within its [`JointLimits`], each by itself: where one is held back, the others go on.
#[derive(Clone, Debug)]
pub struct JointsGuard {
    pub(super) admission: Admission,
    policy: LimitPolicy,
    joints: Vec<Joint>,
}

#[derive(Clone, Debug)]
struct Joint {
    limits: JointLimits,
    point: SetPoint<1>,
}

/// What one joint is asked for, or told; what is not told of it is none.
#[derive(Clone, Copy)]
struct Target {
    position: f32,
    velocity: Option<f32>,
    effort: Option<f32>,
}

impl JointsGuard {
    /// What the robot measured counts for `measured_for`.
    pub(super) fn new(limits: &JointsLimits, measured_for: Duration) -> Self {
        Self {
            admission: Admission::new(limits.rate),
            policy: limits.policy,
            joints: limits.joints.iter().map(|limits| Joint::new(*limits, measured_for)).collect(),
        }
    }

    pub(super) fn measure(&mut self, now: Time, measured: &Joints) {
        if measured.position.len() == self.joints.len() {
            for (joint, position) in self.joints.iter_mut().zip(&measured.position) {
                joint.point.measure(now, [*position]);
            }
        }
    }

    pub(super) fn enable(&mut self, now: Time) {
        self.joints.iter_mut().for_each(|joint| joint.point.enable(now));
    }

    pub(super) fn check(&self, now: Time, asked: &Joints) -> Result<(), Verdict> {
        self.limited(now, asked).map(|_| ())
    }

    pub(super) fn bound(&mut self, now: Time, asked: &Joints) -> Result<Joints, Verdict> {
        let (told, reached) = self.limited(now, asked)?;
        for (joint, reached) in self.joints.iter_mut().zip(reached) {
            joint.point.advance(now, reached);
        }
        Ok(told)
    }

    /// What joints are told, and where each set point comes to.
    fn limited(&self, now: Time, asked: &Joints) -> Result<(Joints, Vec<Reached<1>>), Verdict> {
        if asked.position.len() != self.joints.len() {
            return Err(Verdict::OutOfLimits);
        }
        let mut told = asked.clone();
        let mut all_reached = Vec::with_capacity(self.joints.len());
        for (i, joint) in self.joints.iter().enumerate() {
            let target = Target {
                position: asked.position[i],
                velocity: asked.velocity.get(i).copied(),
                effort: asked.effort.get(i).copied(),
            };
            let (target, reached) = joint.limited(now, target, asked.locked)?;
            told.position[i] = target.position;
            if let Some(velocity) = target.velocity {
                told.velocity[i] = velocity;
            }
            if let Some(effort) = target.effort {
                told.effort[i] = effort;
            }
            all_reached.push(reached);
        }
        if self.policy == LimitPolicy::Refuse && !asked.locked && told != *asked {
            return Err(Verdict::OutOfLimits);
        }
        Ok((told, all_reached))
    }
}

impl Joint {
    fn new(limits: JointLimits, measured_for: Duration) -> Self {
        let reach = limits.stiffness.filter(|_| limits.effort.is_finite());
        let bounds = Bounds {
            least: [f64::from(limits.least)],
            largest: [f64::from(limits.largest)],
            speed: f64::from(limits.velocity),
            acceleration: f64::from(limits.acceleration),
            step: f64::from(limits.step),
            reach: reach.map(|stiffness| f64::from(limits.effort) / f64::from(stiffness)),
        };
        Self { limits, point: SetPoint::new(bounds, measured_for) }
    }

    fn limited(&self, now: Time, asked: Target, locked: bool) -> Result<(Target, Reached<1>), Verdict> {
        let limits = &self.limits;
        let within = |number: f32, largest: f32| number.clamp(-largest, largest);
        let wanted = f64::from(asked.position);
        let velocity = asked.velocity.map(|velocity| within(velocity, limits.velocity));
        let wanted_velocity = f64::from(velocity.unwrap_or(0.0));
        let reached = self.point.next(now, [wanted], [wanted_velocity], locked)?;
        let mut told = Target {
            position: asked.position,
            velocity,
            effort: asked.effort.map(|effort| within(effort, limits.effort)),
        };
        if locked {
            told.velocity = told.velocity.map(|_| 0.0);
            told.effort = told.effort.map(|_| 0.0);
        }
        if (reached.place[0] - wanted).abs() > 0.0 {
            told.position = single(reached.place[0]);
            // The velocity that goes with the set point is that of the set point, not the one that was asked for.
            if self.point.bounds.needs_place() {
                told.velocity = told.velocity.map(|_| within(single(reached.velocity[0]), limits.velocity));
            }
        }
        // At an end of the range, none leads out of it.
        if told.position >= limits.largest {
            told.velocity = told.velocity.map(|velocity| velocity.min(0.0));
        }
        if told.position <= limits.least {
            told.velocity = told.velocity.map(|velocity| velocity.max(0.0));
        }
        Ok((told, reached))
    }
}

#[cfg(test)]
mod tests;
