//! An orientation that turns no faster than it may.

use taut_core::{Duration, FARTHEST_TURN, Time};
use taut_wire::session::Verdict;

use super::moment::Moments;
use super::vector::{Vector, limit, magnitude};

/// A unit quaternion: w, x, y, z.
pub(super) type Quaternion = [f64; 4];

/// How a robot is told to be turned, brought towards what is asked for within the angular speed, by the robot's own clock.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// rad/s; infinite where there is no limit.
    speed: f64,
    measured: Option<(Quaternion, Time)>,
    measured_for: Duration,
    /// How it was told to be turned, or was when it was resumed.
    told: Moments<Option<Quaternion>>,
}

/// How a set point comes to be turned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turned {
    pub(super) orientation: Quaternion,
    /// rad/s, where it does not come as far as was asked for.
    pub(super) limited: Option<Vector<3>>,
    /// It rests so, and nothing before counts any more.
    rests: bool,
}

impl Turn {
    pub(super) const fn new(speed: f64, measured_for: Duration) -> Self {
        Self { speed, measured: None, measured_for, told: Moments::new(None) }
    }

    /// Is there a limit at all?
    pub(super) const fn is_limited(&self) -> bool {
        self.speed.is_finite()
    }

    /// How the robot is turned. What is no orientation changes nothing.
    pub(super) fn measure(&mut self, now: Time, orientation: Option<Quaternion>) {
        if let Some(orientation) = orientation {
            self.measured = Some((orientation, now));
        }
    }

    fn measured(&self, now: Time) -> Option<Quaternion> {
        let fresh = |(_, at): &(Quaternion, Time)| now.saturating_since(*at) <= self.measured_for;
        self.measured.filter(fresh).map(|(orientation, _)| orientation)
    }

    /// Is this too far from how the robot measures itself?
    pub(super) fn is_apart(&self, now: Time, wanted: Quaternion) -> bool {
        self.measured(now).is_some_and(|measured| magnitude(&rotation(measured, wanted)) > FARTHEST_TURN)
    }

    pub(super) fn enable(&mut self, now: Time) {
        self.told.begin(now, self.measured(now));
    }

    /// How the set point could be turned at `now`. What is locked stays as it is, where somebody knows how that is.
    ///
    /// # Errors
    /// [`Verdict::OutOfLimits`] where there is a limit and nobody knows how the robot is turned.
    pub(super) fn next(&self, now: Time, wanted: Quaternion, locked: bool) -> Result<Turned, Verdict> {
        let known = |told: Option<Quaternion>| told.or(self.measured(now));
        if locked {
            let stays = known(self.told.last()).or((!self.is_limited()).then_some(wanted));
            let orientation = stays.ok_or(Verdict::OutOfLimits)?;
            return Ok(Turned { orientation, limited: None, rests: true });
        }
        if !self.is_limited() {
            return Ok(Turned { orientation: wanted, limited: None, rests: false });
        }
        let allowance = self.told.allowance(now);
        let (before, dt) = (known(allowance.before).ok_or(Verdict::OutOfLimits)?, allowance.time);
        let from = known(self.told.last()).unwrap_or(before);
        let most = (self.speed * dt - allowance.gone).max(0.0);
        let mut way = rotation(from, wanted);
        if magnitude(&way) <= most {
            return Ok(Turned { orientation: wanted, limited: None, rests: false });
        }
        limit(&mut way, most);
        let orientation = rotated(from, way);
        let velocity = if dt > 0.0 { rotation(before, orientation).map(|part| part / dt) } else { [0.0; 3] };
        Ok(Turned { orientation, limited: Some(velocity), rests: false })
    }

    pub(super) fn advance(&mut self, now: Time, turned: Turned) {
        let Turned { orientation, rests, .. } = turned;
        if rests {
            self.told.begin(now, Some(orientation));
        } else {
            let way = self.told.last().map_or(0.0, |last| magnitude(&rotation(last, orientation)));
            self.told.tell(now, Some(orientation), way);
        }
    }
}

/// A quaternion shorter than this points nowhere.
const LEAST_NORM: f64 = 1e-3;

/// The orientation that these numbers stand for, unless they stand for none.
pub(super) fn unit(orientation_wxyz: [f32; 4]) -> Option<Quaternion> {
    let exact = orientation_wxyz.map(f64::from);
    let norm = magnitude(&exact);
    // Neither does what is not finite.
    (norm >= LEAST_NORM && norm.is_finite()).then(|| exact.map(|part| part / norm))
}

/// The shorter way from `from` to `to`: the axis, as long as the angle in rad.
pub(super) fn rotation(from: Quaternion, to: Quaternion) -> Vector<3> {
    let [w, x, y, z] = product(to, [from[0], -from[1], -from[2], -from[3]]);
    // A quaternion and its negative are the same orientation; with w ≥ 0 the angle is no more than half a turn.
    let sign = if w < 0.0 { -1.0 } else { 1.0 };
    let sine = magnitude(&[x, y, z]);
    if sine <= 0.0 {
        return [0.0; 3];
    }
    let angle = 2.0 * sine.atan2(w.abs());
    [x, y, z].map(|part| part * (sign * angle / sine))
}

/// `from`, turned by `rotation`.
fn rotated(from: Quaternion, rotation: Vector<3>) -> Quaternion {
    let angle = magnitude(&rotation);
    if angle <= 0.0 {
        return from;
    }
    let (sine, cosine) = (angle / 2.0).sin_cos();
    let [x, y, z] = rotation.map(|part| part * (sine / angle));
    let turned = product([cosine, x, y, z], from);
    // Rounding does not add up.
    let norm = magnitude(&turned);
    turned.map(|part| part / norm)
}

fn product(a: Quaternion, b: Quaternion) -> Quaternion {
    [
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    ]
}

#[cfg(test)]
mod tests;
