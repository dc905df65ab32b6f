//! Control laws of a `[teleop]` session.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_control::{Law, Oracle};
pub use taut_control::{Tdpa, Wave};
use taut_core::HoldTarget;
use taut_session::Codec;

use super::channel::{PlayoutBounds, PlayoutSpec};
use super::teleop::{Environment, Teleop};
use super::validate::{Checked, fault, within};

/// By which rule force and motion of hand and arm follow from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LawSpec {
    /// The arm follows the hand, and the hand is pushed with the force that the arm met.
    #[default]
    PositionForce,
    /// Each follows the other by a spring and a damper as the arm's controller.
    PositionPosition,
    /// Wave variables, calm over any delay.
    Wave(Wave),
    /// Time-domain passivity, which gives no more energy than came in.
    Tdpa(Tdpa),
    /// The true model of the environment, without its friction, rendered beside the hand: a bound for the others, for no robot knows the truth.
    Oracle,
}

impl LawSpec {
    /// Its name, as in a scenario: `"wave"`.
    pub fn name(&self) -> &'static str {
        self.anywhere().name()
    }

    /// All, with what they are by themselves.
    pub fn all() -> [Self; 5] {
        [
            Self::PositionForce,
            Self::PositionPosition,
            Self::Wave(Wave::default()),
            Self::Tdpa(Tdpa::default()),
            Self::Oracle,
        ]
    }

    /// How long what it hears is held where nobody says so.
    pub fn hold(&self) -> HoldTarget {
        self.anywhere().hold()
    }

    /// The law, whatever is touched.
    fn anywhere(&self) -> Law {
        self.law(&Environment::Free).unwrap_or_default()
    }

    /// The law, where it is not that of the devices themselves, for an arm that touches this.
    pub fn law(&self, environment: &Environment) -> Option<Law> {
        match *self {
            Self::PositionForce => None,
            Self::PositionPosition => Some(Law::PositionPosition),
            Self::Wave(wave) => Some(Law::Wave(wave)),
            Self::Tdpa(tdpa) => Some(Law::Tdpa(tdpa)),
            Self::Oracle => {
                let [stiffness, damping, _] = environment.surface().unwrap_or_default();
                Some(Law::Oracle(Oracle { stiffness, damping, ..Oracle::default() }))
            }
        }
    }
}

impl PlayoutSpec {
    /// Of what a control law hears.
    pub const fn hold(self) -> HoldTarget {
        match self {
            Self::Fixed(delay) => HoldTarget::Fixed(delay),
            Self::Adaptive(PlayoutBounds { min, max }) => HoldTarget::Quantile { min, max },
        }
    }
}

impl Teleop {
    /// The control law, where it is not that of the devices themselves.
    pub fn coupling(&self) -> Option<Law> {
        // The devices themselves hold nothing.
        let held = self.playout.map(|_| Law::PositionForce);
        self.law.law(&self.environment).or(held)
    }

    /// How long what the law hears is held at each end.
    pub fn hold(&self) -> HoldTarget {
        self.playout.map_or_else(|| self.law.hold(), PlayoutSpec::hold)
    }
}

impl FromStr for LawSpec {
    type Err = String;

    /// By its [name](Self::name), with what it is by itself.
    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::all().into_iter().find(|law| law.name() == text);
        let names = || Self::all().map(|law| law.name()).join(", ");
        known.ok_or_else(|| format!("`{text}` is no control law; there are {}", names()))
    }
}

fn in_range<T: PartialOrd + Display>(key: String, value: T, range: RangeInclusive<T>) -> Checked {
    let (low, high) = range.into_inner();
    within(key, value, low, high)
}

pub(super) fn check(teleop: &Teleop) -> Checked {
    let key = |name: &str| format!("teleop.law.{name}");
    match teleop.law {
        LawSpec::PositionForce | LawSpec::PositionPosition | LawSpec::Oracle => {}
        LawSpec::Wave(Wave { impedance, filter, correction, reserve }) => {
            in_range(key("wave.impedance"), impedance, Wave::IMPEDANCE)?;
            in_range(key("wave.filter"), filter, Wave::FILTER)?;
            in_range(key("wave.correction"), correction, Wave::CORRECTION)?;
            in_range(key("wave.reserve"), reserve, Wave::RESERVE)?;
        }
        LawSpec::Tdpa(Tdpa { reserve, correction }) => {
            in_range(key("tdpa.reserve"), reserve, Tdpa::RESERVE)?;
            in_range(key("tdpa.correction"), correction, Tdpa::CORRECTION)?;
        }
    }
    if teleop.playout.is_some_and(|playout| !playout.is_possible()) {
        return fault("teleop.playout", PlayoutSpec::RANGE);
    }
    if teleop.codec == Codec::Omni71 && teleop.coupling().is_some() {
        return fault("teleop.law", "needs `codec = \"native\"`: omni71 has no place for a law's energy");
    }
    if teleop.turns && teleop.codec == Codec::Omni71 {
        return fault("teleop.turns", "needs `codec = \"native\"`: omni71 has no place for a torque");
    }
    if teleop.turns && teleop.environment.surface().is_some_and(|[.., friction]| friction > 0.0) {
        let kind = teleop.environment.name();
        let rubs = format!("what is turned against a {kind} does not slide on it: say `friction = 0.0`");
        return fault("teleop.turns", rubs);
    }
    Ok(())
}
