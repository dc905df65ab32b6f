//! How strictly the gate is steered.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::named;

named! {
    /// What the frame gate's control loop does about drops in the queue: the source's policies (Yuan 2024), which limit how many bytes may pass
    /// in an interval, and taut's own `deadline`, by which no frame begins that cannot arrive in time at the measured rate.
    ///
    /// With drops `step` lowers k by 0.01, however many there were; `dyna1` to `dyna5` by 0.001 to 0.005 for each; `aimd1` to `aimd5` multiply it by
    /// 0.9, 0.8, 0.7, 0.6, 0.5. The source settled on `aimd3`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(rename = "GatePolicy")]
    #[expect(missing_docs, reason = "the documentation of the enum has them by their names")]
    pub enum Policy {
        Step = "step",
        Dyna1 = "dyna1",
        Dyna2 = "dyna2",
        Dyna3 = "dyna3",
        Dyna4 = "dyna4",
        Dyna5 = "dyna5",
        Aimd1 = "aimd1",
        Aimd2 = "aimd2",
        Aimd3 = "aimd3",
        Aimd4 = "aimd4",
        Aimd5 = "aimd5",
        Deadline = "deadline",
    }
}

/// A policy that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no policy of the gate: step, dyna1 to dyna5, aimd1 to aimd5, deadline")]
pub struct UnknownPolicy(String);

impl Policy {
    /// One in parts of k.
    pub const ONE: u64 = 1_000_000;
    /// The highest k.
    pub const HIGHEST: u64 = 1_050_000;
    const RAISE: u64 = 10_000;

    /// The next k, in millionths, after an interval with this many new drops.
    pub(super) fn next(self, k: u64, drops: u64) -> u64 {
        if drops == 0 {
            return (k + Self::RAISE).min(Self::HIGHEST);
        }
        let falls = |thousandths: u64| k.saturating_sub(drops.saturating_mul(1_000 * thousandths));
        let tenths = |tenths: u64| k * tenths / 10;
        match self {
            Self::Step => k.saturating_sub(Self::RAISE),
            Self::Dyna1 => falls(1),
            Self::Dyna2 => falls(2),
            Self::Dyna3 => falls(3),
            Self::Dyna4 => falls(4),
            Self::Dyna5 => falls(5),
            Self::Aimd1 => tenths(9),
            Self::Aimd2 => tenths(8),
            Self::Aimd3 => tenths(7),
            Self::Aimd4 => tenths(6),
            Self::Aimd5 => tenths(5),
            Self::Deadline => k,
        }
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == text);
        found.ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}
