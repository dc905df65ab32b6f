//! What a user says of a control law, checked.

use std::ops::RangeInclusive;
use std::time::Duration;

use taut_control::{Law, Servo, Tdpa, UnknownLaw, Wave};

use super::Coupling;

/// By which control law the arm is led and the hand is pushed. What both ends need alike, the law, the arm's controller, the impedance of waves, is compared
/// when they meet: two that differ have no session, and either is told so.
///
/// | law | the hand feels | calm over any delay |
/// | --- | --- | --- |
/// | `"position_force"` | what the arm met, as without a law | no |
/// | `"position_position"` | a spring and a damper to where the arm was | no |
/// | `"wave"` | the arm's controller through a line of waves | yes |
/// | `"tdpa"` | the arm's controller, damped when energy runs out: time-domain passivity | yes |
///
/// | setting | default |
/// | --- | --- |
/// | [`servo`](Self::servo) | none: has to be set, but for `"position_force"` that neither holds nor turns |
/// | [`turning_servo`](Self::turning_servo) | none: has to be set where turns are coupled |
/// | [`playout`](Self::playout) | 100 ms of `"wave"`, of others nothing is held |
/// | [`impedance`](Self::impedance), [`filter`](Self::filter) | of `"wave"`: 30 N·s/m, none |
/// | [`reserve`](Self::reserve), [`correction`](Self::correction) | of `"wave"` and `"tdpa"`: 0.02 J, 200 ms |
///
/// Limits, watchdog and stops are the session's, as without a law.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    law: String,
    servo: Option<Servo>,
    turning_servo: Option<Servo>,
    playout: Option<Duration>,
    impedance: Option<f64>,
    filter: Option<Duration>,
    correction: Option<Duration>,
    reserve: Option<f64>,
}

/// Why ends cannot be coupled so.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ControlError {
    /// No law is called so.
    #[error(transparent)]
    Law(#[from] UnknownLaw),
    /// Nobody said what the arm's controller does.
    #[error(
        "{law} leads a robot by a controller of its own: say what that does by `{setting}`, stiffness and damping in {units}, the same at both ends"
    )]
    NoServo {
        /// The law.
        law: &'static str,
        /// What sets it.
        setting: &'static str,
        /// Of both.
        units: &'static str,
    },
    /// Nothing that turns is coupled.
    #[error("`turning_servo` is of ends that turn: set `turns`, at both ends, or leave it out")]
    NothingTurns,
    /// The law has no such setting.
    #[error("{law} has no `{setting}`: leave it out")]
    NotOfLaw {
        /// The law.
        law: &'static str,
        /// What it does not have.
        setting: &'static str,
    },
    /// A setting beyond what it may be.
    #[error("`{setting}` is {given}, which is not {range}")]
    Range {
        /// Which.
        setting: &'static str,
        /// What it is.
        given: String,
        /// What it may be.
        range: String,
    },
}

/// What is heard is held no longer.
const LONGEST_PLAYOUT: Duration = Duration::from_secs(10);

impl Control {
    /// By this law.
    pub fn new(law: impl Into<String>) -> Self {
        Self {
            law: law.into(),
            servo: None,
            turning_servo: None,
            playout: None,
            impedance: None,
            filter: None,
            correction: None,
            reserve: None,
        }
    }

    /// What the controller of the arm's position does, the same at both ends: [stiffness](Servo::STIFFNESS), N/m, and [damping](Servo::dampings), N·s/m.
    pub fn servo(mut self, stiffness: f64, damping: f64) -> Self {
        self.servo = Some(Servo { stiffness, damping });
        self
    }

    /// The same of how the arm is turned, where both ends couple turns: [N·m/rad](Servo::TURNING_STIFFNESS) and N·m·s/rad.
    pub fn turning_servo(mut self, stiffness: f64, damping: f64) -> Self {
        self.turning_servo = Some(Servo { stiffness, damping });
        self
    }

    /// The longest that this end holds what its law hears, to play it in even time; 0: nothing is held. At most 10 s.
    pub fn playout(mut self, most: Duration) -> Self {
        self.playout = Some(most);
        self
    }

    /// Of `"wave"`, the same at both ends, N·s/m: small makes free motion light, large makes what is touched stiff. 0.1 to 1000.
    pub fn impedance(mut self, newton_seconds_per_metre: f64) -> Self {
        self.impedance = Some(newton_seconds_per_metre);
        self
    }

    /// Of `"wave"`: the time constant of a low-pass on what arrives. 0 to 1 s.
    pub fn filter(mut self, time: Duration) -> Self {
        self.filter = Some(time);
        self
    }

    /// The time constant by which the arm makes up for its drift. 1 ms to 1 min.
    pub fn correction(mut self, time: Duration) -> Self {
        self.correction = Some(time);
        self
    }

    /// What this end may give beyond what it was told of, J: what a wait for a late message costs. 0 to 10.
    pub fn reserve(mut self, joules: f64) -> Self {
        self.reserve = Some(joules);
        self
    }

    /// How the devices of an end are coupled, whose turns are coupled too or not. `None`: they are by themselves.
    ///
    /// # Errors
    /// When a setting is missing, cannot be, or is none of the law's.
    pub fn coupling(&self, turns: bool) -> Result<Option<Coupling>, ControlError> {
        let law = self.set_law()?;
        let of = |servo: Option<Servo>, stiffnesses, setting| {
            servo.map(|servo| possible(servo, stiffnesses, setting)).transpose()
        };
        let servo = of(self.servo, Servo::STIFFNESS, "servo")?;
        let turning = of(self.turning_servo, Servo::TURNING_STIFFNESS, "turning_servo")?;
        if turning.is_some() && !turns {
            return Err(ControlError::NothingTurns);
        }
        let unknown = Servo { stiffness: 1.0, damping: 1.0 };
        let coupling = Coupling::new(law, servo.unwrap_or(unknown));
        let coupling = match self.playout {
            Some(most) => {
                within(most, Duration::ZERO..=LONGEST_PLAYOUT, "playout")?;
                coupling.playout_within(most.into())
            }
            None => coupling,
        };
        let coupling = if turns { coupling.turning(turning.unwrap_or(unknown)) } else { coupling };
        let needed = coupling.if_needed();
        let missing = |setting, units| ControlError::NoServo { law: law.name(), setting, units };
        if needed.is_some() && servo.is_none() {
            return Err(missing("servo", "N/m and N·s/m"));
        }
        if needed.is_some() && turns && turning.is_none() {
            return Err(missing("turning_servo", "N·m/rad and N·m·s/rad"));
        }
        Ok(needed)
    }

    fn set_law(&self) -> Result<Law, ControlError> {
        let mut law: Law = self.law.parse()?;
        let name = law.name();
        let of_waves = [("impedance", self.impedance.is_some()), ("filter", self.filter.is_some())];
        let of_passive = [("correction", self.correction.is_some()), ("reserve", self.reserve.is_some())];
        let (waves, passive) = match &mut law {
            Law::Wave(Wave { impedance, filter, correction, reserve }) => {
                set(impedance, self.impedance, Wave::IMPEDANCE, "impedance")?;
                set_time(filter, self.filter, Wave::FILTER, "filter")?;
                set_time(correction, self.correction, Wave::CORRECTION, "correction")?;
                set(reserve, self.reserve, Wave::RESERVE, "reserve")?;
                (true, true)
            }
            Law::Tdpa(Tdpa { reserve, correction }) => {
                set_time(correction, self.correction, Tdpa::CORRECTION, "correction")?;
                set(reserve, self.reserve, Tdpa::RESERVE, "reserve")?;
                (false, true)
            }
            Law::PositionForce | Law::PositionPosition | Law::Oracle(_) => (false, false),
        };
        let foreign = of_waves.iter().filter(|_| !waves).chain(of_passive.iter().filter(|_| !passive));
        match foreign.into_iter().find(|(_, given)| *given) {
            Some((setting, _)) => Err(ControlError::NotOfLaw { law: name, setting }),
            None => Ok(law),
        }
    }
}

fn possible(
    servo: Servo,
    stiffnesses: RangeInclusive<f64>,
    setting: &'static str,
) -> Result<Servo, ControlError> {
    within(servo.stiffness, stiffnesses, setting)?;
    within(servo.damping, Servo::dampings(servo.stiffness), setting)?;
    Ok(servo)
}

/// What is no number is within nothing.
fn within<T: PartialOrd + std::fmt::Debug>(
    given: T,
    range: RangeInclusive<T>,
    setting: &'static str,
) -> Result<T, ControlError> {
    if range.contains(&given) {
        return Ok(given);
    }
    let (low, high) = range.into_inner();
    Err(ControlError::Range { setting, given: format!("{given:?}"), range: format!("{low:?} to {high:?}") })
}

fn set(
    of_law: &mut f64,
    given: Option<f64>,
    range: RangeInclusive<f64>,
    setting: &'static str,
) -> Result<(), ControlError> {
    if let Some(given) = given {
        *of_law = within(given, range, setting)?;
    }
    Ok(())
}

fn set_time(
    of_law: &mut taut_core::Duration,
    given: Option<Duration>,
    range: RangeInclusive<taut_core::Duration>,
    setting: &'static str,
) -> Result<(), ControlError> {
    if let Some(given) = given {
        let range = (*range.start()).into()..=(*range.end()).into();
        *of_law = within(given, range, setting)?.into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(law: &str) -> Control {
        Control::new(law).servo(1_000.0, 60.0)
    }

    fn refused(control: &Control, turns: bool) -> String {
        control.coupling(turns).expect_err("it cannot be").to_string()
    }

    #[test]
    fn settings_reach_their_law() {
        let servo = Servo { stiffness: 1_000.0, damping: 60.0 };
        let wave = Wave { impedance: 20.0, reserve: 0.5, ..Wave::default() };
        let asked = control("wave").impedance(20.0).reserve(0.5).playout(Duration::ZERO);
        let expected = Coupling::new(Law::Wave(wave), servo).playout_within(taut_core::Duration::ZERO);
        assert_eq!(asked.coupling(false), Ok(Some(expected)));
        let turning = control("tdpa").turning_servo(30.0, 1.5).coupling(true).unwrap().unwrap();
        assert_eq!(turning.told().unwrap().turning_servo, [30_000, 1_500]);
        assert_eq!(
            Control::new("position_force").coupling(false),
            Ok(None),
            "the devices do that by themselves"
        );
    }

    #[test]
    fn what_cannot_be_says_what_to_do() {
        assert!(
            refused(&control("oracle"), false)
                .contains("there are position_force, position_position, wave, tdpa")
        );
        assert!(refused(&Control::new("tdpa"), false).contains("by `servo`, stiffness and damping in N/m"));
        assert!(refused(&control("tdpa"), true).contains("by `turning_servo`"));
        assert!(refused(&Control::new("position_force"), true).contains("by `servo`"));
        assert!(refused(&control("tdpa").turning_servo(1.0, 1.0), false).contains("set `turns`"));
        assert!(refused(&control("tdpa").impedance(30.0), false).contains("tdpa has no `impedance`"));
        assert!(refused(&control("position_position").reserve(0.1), false).contains("has no `reserve`"));
        for wrong in [
            control("wave").impedance(0.0),
            control("wave").filter(Duration::from_secs(2)),
            control("tdpa").reserve(f64::NAN),
            control("tdpa").correction(Duration::ZERO),
            control("tdpa").playout(Duration::from_secs(11)),
            Control::new("tdpa").servo(f64::INFINITY, 1.0),
            Control::new("tdpa").servo(1.0, 0.0),
        ] {
            assert!(refused(&wrong, false).contains("which is not"), "{wrong:?}");
        }
    }
}
