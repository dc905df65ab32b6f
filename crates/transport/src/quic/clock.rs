//! Between the driver's time and quinn's.

use std::sync::LazyLock;
use std::time::Instant;

use taut_core::Time;

/// What stands for [`Time::ZERO`]. An [`Instant`] cannot be had but from the clock; it is read once in the life of the
/// process, and only differences to it are ever used, so that what the clock said changes nothing.
#[expect(clippy::disallowed_methods, reason = "the only way to an Instant; its value does not matter")]
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// That time as quinn wants it.
pub(super) fn instant(time: Time) -> Instant {
    *EPOCH + std::time::Duration::from_nanos(time.as_nanos())
}

/// That instant as the driver wants it.
pub(super) fn time(instant: Instant) -> Time {
    let nanos = instant.saturating_duration_since(*EPOCH).as_nanos();
    Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_way_there_and_back() {
        for nanos in [0, 1, 999_999_999, 1_000_000_001, 1 << 60] {
            assert_eq!(time(instant(Time::from_nanos(nanos))), Time::from_nanos(nanos));
        }
    }
}
