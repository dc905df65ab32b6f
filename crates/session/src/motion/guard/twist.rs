//! The guard of `taut/Twist`.

use taut_core::Time;
use taut_wire::session::Verdict;

use super::Admission;
use super::set_point::elapsed;
use super::vector::{Vector, distance, limit, single, towards};
use crate::motion::limits::VelocityLimits;
use crate::motion::{LimitPolicy, Twist, TwistLimits};

/// Holds a commanded velocity within [`TwistLimits`], by the robot's own clock. It needs no measurement: motion begins at rest.
///
/// None of its limits contradict: what is between two velocities within the speed is within it too.
#[derive(Clone, Debug)]
pub struct TwistGuard {
    pub(super) admission: Admission,
    limits: TwistLimits,
    /// What the robot was told last, m/s and rad/s, and when.
    told: Velocities,
    since: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct Velocities {
    linear: Vector<3>,
    angular: Vector<3>,
}

impl TwistGuard {
    pub(super) fn new(limits: TwistLimits) -> Self {
        Self {
            admission: Admission::new(limits.rate),
            limits,
            told: Velocities::default(),
            since: Time::ZERO,
        }
    }

    pub(super) fn enable(&mut self, now: Time) {
        self.told = Velocities::default();
        self.since = self.since.max(now);
    }

    pub(super) fn check(&self, now: Time, asked: &Twist) -> Result<(), Verdict> {
        self.limited(now, asked).map(|_| ())
    }

    pub(super) fn bound(&mut self, now: Time, asked: &Twist) -> Result<Twist, Verdict> {
        let (twist, told) = self.limited(now, asked)?;
        self.told = told;
        self.since = self.since.max(now);
        Ok(twist)
    }

    fn limited(&self, now: Time, asked: &Twist) -> Result<(Twist, Velocities), Verdict> {
        if asked.locked {
            let rest = Twist { linear: [0.0; 3], angular: [0.0; 3], ..*asked };
            return Ok((rest, Velocities::default()));
        }
        let dt = elapsed(now, self.since);
        let told = Velocities {
            linear: self.limits.linear.approach(self.told.linear, asked.linear, dt),
            angular: self.limits.angular.approach(self.told.angular, asked.angular, dt),
        };
        let twist = Twist {
            linear: as_asked(told.linear, asked.linear),
            angular: as_asked(told.angular, asked.angular),
            ..*asked
        };
        if self.limits.policy == LimitPolicy::Refuse && twist != *asked {
            return Err(Verdict::OutOfLimits);
        }
        Ok((twist, told))
    }
}

impl VelocityLimits {
    /// As near to `asked` as the limits let it come from `last` in `dt`, s.
    fn approach(&self, last: Vector<3>, asked: [f32; 3], dt: f64) -> Vector<3> {
        let mut target = std::array::from_fn(|i| if self.axes[i] { f64::from(asked[i]) } else { 0.0 });
        limit(&mut target, f64::from(self.speed));
        // Infinitely much in no time is infinitely much here.
        let change =
            if self.acceleration.is_finite() { f64::from(self.acceleration) * dt } else { f64::INFINITY };
        towards(last, target, change)
    }
}

/// `told` as it is sent, and exactly what was asked for where it is that.
fn as_asked(told: Vector<3>, asked: [f32; 3]) -> [f32; 3] {
    if distance(told, asked.map(f64::from)) > 0.0 { told.map(single) } else { asked }
}

#[cfg(test)]
mod tests;
