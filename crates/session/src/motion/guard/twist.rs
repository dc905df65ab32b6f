//! The guard of `taut/Twist`.

use taut_core::Time;
use taut_wire::session::Verdict;

use super::Admission;
use super::moment::Moments;
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
    /// What the robot was told, m/s and rad/s.
    told: Moments<Velocities>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Velocities {
    linear: Vector<3>,
    angular: Vector<3>,
}

impl TwistGuard {
    pub(super) fn new(limits: TwistLimits) -> Self {
        Self { admission: Admission::new(limits.rate), limits, told: Moments::new(Velocities::default()) }
    }

    pub(super) fn enable(&mut self, now: Time) {
        self.told.begin(now, Velocities::default());
    }

    pub(super) fn check(&self, now: Time, asked: &Twist) -> Result<(), Verdict> {
        self.limited(now, asked).map(|_| ())
    }

    pub(super) fn bound(&mut self, now: Time, asked: &Twist) -> Result<Twist, Verdict> {
        let (twist, told) = self.limited(now, asked)?;
        if asked.locked {
            self.told.begin(now, told);
        } else {
            self.told.tell(now, told);
        }
        Ok(twist)
    }

    fn limited(&self, now: Time, asked: &Twist) -> Result<(Twist, Velocities), Verdict> {
        if asked.locked {
            let rest = Twist { linear: [0.0; 3], angular: [0.0; 3], ..*asked };
            return Ok((rest, Velocities::default()));
        }
        let (before, dt) = self.told.from(now);
        let last = self.told.last();
        let told = Velocities {
            linear: self.limits.linear.approach([before.linear, last.linear], asked.linear, dt),
            angular: self.limits.angular.approach([before.angular, last.angular], asked.angular, dt),
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
    /// As near to `asked` as the limits let it come in `dt`, s, from what was told before this moment and from what was told last.
    fn approach(&self, [before, last]: [Vector<3>; 2], asked: [f32; 3], dt: f64) -> Vector<3> {
        let mut target = std::array::from_fn(|i| if self.axes[i] { f64::from(asked[i]) } else { 0.0 });
        limit(&mut target, f64::from(self.speed));
        // Infinitely much in no time is infinitely much here.
        let change =
            if self.acceleration.is_finite() { f64::from(self.acceleration) * dt } else { f64::INFINITY };
        towards(last, towards(before, target, change), change)
    }
}

/// `told` as it is sent, and exactly what was asked for where it is that.
fn as_asked(told: Vector<3>, asked: [f32; 3]) -> [f32; 3] {
    if distance(told, asked.map(f64::from)) > 0.0 { told.map(single) } else { asked }
}

#[cfg(test)]
mod tests;
