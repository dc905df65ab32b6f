//! How soon a session's states and feedback are to be at the other end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::Duration;

use super::teleop::{MINUTE, Teleop};
use super::validate::{Checked, fault, within};

/// At which age states and feedback are to be there, as far as MTIP chooses paths and copies by that; what comes later is worthless at the session's deadline and
/// no sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WantedSpec {
    /// All the same. 100us to 1min.
    Fixed(Duration),
    /// Before a reserve of the control law is spent, of `wave` and `tdpa`.
    Reserve(ReserveSpec),
}

/// Before which reserve is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReserveSpec {
    /// Whose.
    pub of: ReserveOf,
    /// The least that is asked for, whatever is left: less than a path takes no path can do. 100us to 1min.
    pub least: Duration,
}

/// Whose reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReserveOf {
    /// The sender's.
    Sender,
    /// The receiver's, as of this moment: no sender can know it, so that it is a bound for what a receiver could tell.
    Receiver,
}

pub(super) fn check(teleop: &Teleop) -> Checked {
    let least = Duration::from_micros(100);
    match teleop.wanted {
        None => Ok(()),
        Some(WantedSpec::Fixed(age)) => within("teleop.wanted.fixed".into(), age, least, MINUTE),
        Some(WantedSpec::Reserve(reserve)) => {
            if !teleop.coupling().is_some_and(|law| law.is_passive()) {
                return fault(
                    "teleop.wanted.reserve",
                    "needs the law `wave` or `tdpa`: the others have no reserve",
                );
            }
            within("teleop.wanted.reserve.least".into(), reserve.least, least, MINUTE)
        }
    }
}
