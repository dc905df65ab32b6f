//! How strictly the gate is steered.

use std::fmt;
use std::str::FromStr;

/// What the control loop does about drops in the queue.
///
/// The first three are the source's (Yuan 2024); they limit how many bytes may pass in an interval. [`Policy::Deadline`] is
/// taut's own.
///
/// ```
/// use taut_link::frame_gate::Policy;
/// assert_eq!("aimd3".parse(), Ok(Policy::Aimd(3)));
/// assert_eq!(Policy::Dyna(5).to_string(), "dyna5");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `step`: k falls by 0.01 with drops, however many.
    Step,
    /// `dyna1` to `dyna5`: k falls by 0.001 to 0.005 for every drop; beyond 5 by as many thousandths.
    Dyna(u8),
    /// `aimd1` to `aimd5`: k is multiplied by 0.9, 0.8, 0.7, 0.6, 0.5 when there are drops; from 10 on by 0. The source
    /// settled on `aimd3`.
    Aimd(u8),
    /// `deadline`: no frame begins that cannot arrive in time at the measured rate; see the module.
    Deadline,
}

/// A policy that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no policy of the gate: step, dyna1 to dyna5, aimd1 to aimd5, deadline")]
pub struct UnknownPolicy(String);

impl Policy {
    /// Every policy.
    pub const ALL: [Self; 12] = [
        Self::Step,
        Self::Dyna(1),
        Self::Dyna(2),
        Self::Dyna(3),
        Self::Dyna(4),
        Self::Dyna(5),
        Self::Aimd(1),
        Self::Aimd(2),
        Self::Aimd(3),
        Self::Aimd(4),
        Self::Aimd(5),
        Self::Deadline,
    ];

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
        match self {
            Self::Step => k.saturating_sub(Self::RAISE),
            Self::Dyna(index) => k.saturating_sub(drops.saturating_mul(1_000 * u64::from(index))),
            Self::Aimd(index) => k * 10_u64.saturating_sub(index.into()) / 10,
            Self::Deadline => k,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step => f.write_str("step"),
            Self::Dyna(index) => write!(f, "dyna{index}"),
            Self::Aimd(index) => write!(f, "aimd{index}"),
            Self::Deadline => f.write_str("deadline"),
        }
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let found = Self::ALL.into_iter().find(|policy| policy.to_string() == text);
        found.ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_beyond_those_of_the_source_are_only_stricter() {
        for policy in [Policy::Aimd(10), Policy::Aimd(11), Policy::Aimd(255)] {
            assert_eq!(policy.next(Policy::ONE, 1), 0, "{policy}");
        }
        assert_eq!(Policy::Aimd(9).next(Policy::ONE, 1), 100_000);
        assert_eq!(Policy::Dyna(255).next(Policy::ONE, 1), 745_000);
        assert_eq!(Policy::Dyna(255).next(Policy::ONE, u64::MAX), 0);
    }
}
