//! The watchdog in the device.

use taut_core::{Duration, Time};

/// For how long a device may move by itself. Every set point brings a lease; when it runs out, or after a stop, the device
/// stands until it is enabled once more. Sans-IO: the device's own clock is read outside.
///
/// ```
/// use taut_core::{Duration, Time};
/// use taut_agent::Lease;
/// let (mut lease, ms) = (Lease::default(), Duration::from_millis(1));
/// lease.enable();
/// assert!(lease.grant(Time::ZERO, ms * 100));
/// assert!(!lease.expire(Time::ZERO + ms * 99) && lease.expire(Time::ZERO + ms * 100));
/// assert!(!lease.grant(Time::ZERO + ms * 101, ms * 100), "it waits to be enabled");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Lease {
    enabled: bool,
    until: Option<Time>,
}

impl Lease {
    /// Set points may follow.
    pub fn enable(&mut self) {
        *self = Self { enabled: true, until: None };
    }

    /// It stops. False when it stood already.
    pub fn stop(&mut self) -> bool {
        std::mem::take(self).enabled
    }

    /// A set point came. False when it is not to be followed: the device stands, or its last lease is over and it has to
    /// [stop](Self::expire).
    pub fn grant(&mut self, now: Time, lease: Duration) -> bool {
        let follows = self.enabled && !lease.is_zero() && self.until.is_none_or(|until| now < until);
        if follows {
            self.until = Some(now + lease);
        }
        follows
    }

    /// Is it over? True once.
    pub fn expire(&mut self, now: Time) -> bool {
        self.until.is_some_and(|until| now >= until) && self.stop()
    }

    /// When it is over.
    pub fn due(&self) -> Option<Time> {
        self.until
    }

    /// May the device move?
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    const LEASE: Duration = Duration::from_millis(100);

    #[test]
    fn a_device_that_hears_nothing_more_stops_when_its_lease_is_over_and_once() {
        let mut lease = Lease::default();
        assert!(!lease.grant(at(0), LEASE), "nobody enabled it");
        lease.enable();
        assert!(lease.grant(at(0), LEASE) && lease.grant(at(60), LEASE));
        assert_eq!(lease.due(), Some(at(160)));
        assert!(!lease.expire(at(159)) && lease.expire(at(160)) && !lease.expire(at(161)));
    }

    #[test]
    fn a_set_point_that_comes_after_the_lease_does_not_revive_it() {
        let mut lease = Lease::default();
        lease.enable();
        assert!(lease.grant(at(0), LEASE));
        // Device and session were frozen; what was written meanwhile is read before the clock was looked at.
        assert!(!lease.grant(at(5_000), LEASE));
        assert!(lease.expire(at(5_000)));
        assert!(!lease.grant(at(5_001), LEASE));
        lease.enable();
        assert!(lease.grant(at(5_002), LEASE));
    }

    #[test]
    fn a_stop_holds_until_it_is_enabled_and_no_lease_is_no_lease() {
        let mut lease = Lease::default();
        lease.enable();
        assert!(!lease.grant(at(0), Duration::ZERO));
        assert!(lease.grant(at(0), LEASE));
        assert!(lease.stop() && !lease.stop());
        assert!(!lease.grant(at(1), LEASE) && !lease.expire(at(500)));
    }
}
