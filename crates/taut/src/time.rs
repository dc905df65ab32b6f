//! Durations of the standard library, and ours.

use std::time::Duration;

use taut_core::Time;

/// Saturates at 584 years.
pub(crate) fn ours(duration: Duration) -> taut_core::Duration {
    duration.into()
}

pub(crate) fn theirs(duration: taut_core::Duration) -> Duration {
    duration.into()
}

/// A reading of the caller's clock.
pub(crate) fn at(now: Duration) -> Time {
    Time::ZERO + ours(now)
}

pub(crate) fn since_zero(time: Time) -> Duration {
    theirs(time.saturating_since(Time::ZERO))
}
