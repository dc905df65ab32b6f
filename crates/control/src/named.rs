//! What laws are called, how they may be set, and what goes with each where nobody says otherwise.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use taut_core::{Duration, HoldTarget};

use crate::{Law, Servo, Tdpa, Wave};

/// By waves, where nobody says how long.
const MOST_HELD: Duration = Duration::from_millis(100);

impl Law {
    /// Those that a robot can go by, with what they are by themselves: not [`Law::Oracle`], for no robot knows the truth.
    pub fn all() -> [Self; 4] {
        [
            Self::PositionForce,
            Self::PositionPosition,
            Self::Wave(Wave::default()),
            Self::Tdpa(Tdpa::default()),
        ]
    }

    /// Its name: `"wave"`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PositionForce => "position_force",
            Self::PositionPosition => "position_position",
            Self::Wave(_) => "wave",
            Self::Tdpa(_) => "tdpa",
            Self::Oracle(_) => "oracle",
        }
    }

    /// How long what it hears is [held](crate::Player) where nobody says so.
    pub const fn hold(&self) -> HoldTarget {
        match self {
            // It needs a constant delay more than a short one.
            Self::Wave(_) => HoldTarget::Quantile { min: Duration::ZERO, max: MOST_HELD },
            Self::PositionForce | Self::PositionPosition | Self::Tdpa(_) | Self::Oracle(_) => {
                HoldTarget::Fixed(Duration::ZERO)
            }
        }
    }
}

impl Wave {
    /// What its impedance may be, N·s/m.
    pub const IMPEDANCE: RangeInclusive<f64> = 0.1..=1_000.0;
    /// What its filter may be.
    pub const FILTER: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(1);
    /// What its correction may be.
    pub const CORRECTION: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);
    /// What its reserve may be, J.
    pub const RESERVE: RangeInclusive<f64> = 0.0..=10.0;
}

impl Tdpa {
    /// What its reserve may be, J.
    pub const RESERVE: RangeInclusive<f64> = Wave::RESERVE;
    /// What its correction may be.
    pub const CORRECTION: RangeInclusive<Duration> = Wave::CORRECTION;
}

impl Servo {
    /// What its stiffness may be, N/m: what is softer gives way by 10 cm to 1 N, and no arm is stiffer.
    pub const STIFFNESS: RangeInclusive<f64> = 10.0..=100_000.0;
    /// The same of what turns, N·m/rad, at the end of 10 cm.
    pub const TURNING_STIFFNESS: RangeInclusive<f64> = 0.1..=1_000.0;

    /// What its damping may be over this stiffness, N·s/m or N·m·s/rad: what has no mass comes to rest within 1 ms to 1 s. A law that is asked once a millisecond
    /// sees nothing shorter, and what takes longer holds no place.
    pub fn dampings(stiffness: f64) -> RangeInclusive<f64> {
        0.001 * stiffness..=stiffness
    }
}

/// No law is called so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLaw(String);

impl fmt::Display for UnknownLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no control law; there are {}", self.0, Law::all().map(|law| law.name()).join(", "))
    }
}

impl std::error::Error for UnknownLaw {}

impl FromStr for Law {
    type Err = UnknownLaw;

    /// One of [those that a robot can go by](Self::all), by its [name](Self::name).
    fn from_str(text: &str) -> Result<Self, UnknownLaw> {
        let known = Self::all().into_iter().find(|law| law.name() == text);
        known.ok_or_else(|| UnknownLaw(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_is_known_by_its_name_and_the_truth_is_none_that_a_robot_can_have() {
        for law in Law::all() {
            assert_eq!(law.name().parse(), Ok(law));
        }
        let why = "oracle".parse::<Law>().expect_err("no robot knows the truth").to_string();
        assert!(
            why.contains("`oracle`") && why.ends_with("position_force, position_position, wave, tdpa"),
            "{why}"
        );
    }
}
