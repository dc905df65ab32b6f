//! An orientation that turns no faster than it may.

use taut_core::{Duration, FARTHEST_TURN, Orientation, Time};
use taut_wire::session::Verdict;

use super::moment::Moments;
use super::vector::{Vector, limit, magnitude};

/// How a robot is told to be turned, brought towards what is asked for within the angular speed, by the robot's own clock.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// rad/s; infinite where there is no limit.
    speed: f64,
    measured: Option<(Orientation, Time)>,
    measured_for: Duration,
    /// How it was told to be turned, or was when it was resumed.
    told: Moments<Option<Orientation>>,
}

/// How a set point comes to be turned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turned {
    pub(super) orientation: Orientation,
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
    pub(super) fn measure(&mut self, now: Time, orientation: Option<Orientation>) {
        if let Some(orientation) = orientation {
            self.measured = Some((orientation, now));
        }
    }

    fn measured(&self, now: Time) -> Option<Orientation> {
        let fresh = |(_, at): &(Orientation, Time)| now.saturating_since(*at) <= self.measured_for;
        self.measured.filter(fresh).map(|(orientation, _)| orientation)
    }

    /// Is this too far from how the robot measures itself?
    pub(super) fn is_apart(&self, now: Time, wanted: Orientation) -> bool {
        self.measured(now).is_some_and(|measured| measured.angle(wanted) > FARTHEST_TURN)
    }

    pub(super) fn enable(&mut self, now: Time) {
        self.told.begin(now, self.measured(now));
    }

    /// How the set point could be turned at `now`. What is locked stays as it is, where somebody knows how that is.
    ///
    /// # Errors
    /// [`Verdict::OutOfLimits`] where there is a limit and nobody knows how the robot is turned.
    pub(super) fn next(&self, now: Time, wanted: Orientation, locked: bool) -> Result<Turned, Verdict> {
        let known = |told: Option<Orientation>| told.or(self.measured(now));
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
        let mut way = from.rotation(wanted);
        if magnitude(&way) <= most {
            return Ok(Turned { orientation: wanted, limited: None, rests: false });
        }
        limit(&mut way, most);
        let orientation = from.turned(way);
        let velocity = if dt > 0.0 { before.rotation(orientation).map(|part| part / dt) } else { [0.0; 3] };
        Ok(Turned { orientation, limited: Some(velocity), rests: false })
    }

    pub(super) fn advance(&mut self, now: Time, turned: Turned) {
        let Turned { orientation, rests, .. } = turned;
        if rests {
            self.told.begin(now, Some(orientation));
        } else {
            let way = self.told.last().map_or(0.0, |last| last.angle(orientation));
            self.told.tell(now, Some(orientation), way);
        }
    }
}

#[cfg(test)]
mod tests;
