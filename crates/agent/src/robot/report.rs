//! How fast and how hard a robot moved.

use taut_control::PlayerCounts;
use taut_core::Duration;

use crate::{LawFeedback, Measured};

/// What the device says of its own motion, largest values since the robot was started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceReport {
    /// Its speed, m/s.
    pub speed: f64,
    /// The largest.
    pub speed_max: f64,
    /// The magnitude of its controller's force, N; `None` where nobody measures it.
    pub controller_force: Option<f64>,
    /// The largest.
    pub controller_force_max: Option<f64>,
    /// States that the session let through and the device did not get: it was stopped at the same moment, or no time of
    /// the watchdog was left.
    pub not_applied: u64,
    /// Periods in which the limits held back the reference of its [control law](crate::CoupledArm), where it has one.
    pub law_limited: u64,
    /// Periods and states that its law refused, for a number was not finite.
    pub law_refused: u64,
    /// How long its law holds states that took the shortest way, and what became of states there, where it has one.
    pub law_played: Option<(Duration, PlayerCounts)>,
}

impl DeviceReport {
    /// It measured once more.
    pub fn measured(&mut self, measured: &Measured) {
        self.speed = magnitude(measured.state.velocity);
        self.speed_max = self.speed_max.max(self.speed);
        self.controller_force = measured.controller_force.map(magnitude);
        let largest = [self.controller_force_max, self.controller_force].into_iter().flatten();
        self.controller_force_max = largest.reduce(f64::max);
        if let Some(LawFeedback { limited, refused, held, played, .. }) = measured.feedback {
            (self.law_limited, self.law_refused) = (limited, refused);
            self.law_played = Some((held, played));
        }
    }
}

fn magnitude(vector: [f32; 3]) -> f64 {
    vector.iter().map(|part| f64::from(*part) * f64::from(*part)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Time;
    use taut_session::State;

    #[test]
    fn the_largest_are_kept_and_what_nobody_measures_is_not_known() {
        let mut report = DeviceReport::default();
        for (speed, force) in [(3.0, None), (4.0, Some([0.0, 6.0, 8.0])), (1.0, Some([0.0; 3]))] {
            let state = State { velocity: [0.0, 0.0, speed], ..State::at(Time::ZERO) };
            report.measured(&Measured { state, controller_force: force, feedback: None });
        }
        assert_eq!((report.speed, report.speed_max), (1.0, 4.0));
        assert_eq!((report.controller_force, report.controller_force_max), (Some(0.0), Some(10.0)));
    }
}
