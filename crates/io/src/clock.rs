//! The operating system's clocks.

use std::fmt;

use rustix::time::{ClockId, Timespec, clock_gettime};
use taut_core::{Duration, Time};

/// The clock that never goes back, as [`Time`] since the moment at which this clock was started.
///
/// It is Linux' `CLOCK_BOOTTIME`: slewed by NTP but not set, and it goes on while the machine is suspended, so that what was
/// fresh before is not taken for fresh after it. Reading it takes some 20 ns and no system call. A copy tells the same time.
///
/// ```
/// let clock = taut_io::Clock::start();
/// let before = clock.now();
/// assert!(clock.now() >= before);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Since the machine was started, at [`Time::ZERO`].
    epoch: Time,
}

/// A reading of the wall clock: nanoseconds since 1970-01-01 00:00 UTC, leap seconds not counted. For people and files
/// only: it can be set, forwards and backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime(u64);

impl Clock {
    /// A clock that shows zero now.
    pub fn start() -> Self {
        Self { epoch: Self::since_boot() }
    }

    /// The time.
    #[inline]
    pub fn now(&self) -> Time {
        Time::ZERO + Self::since_boot().saturating_since(self.epoch)
    }

    /// Since the machine was started, suspended or not (`CLOCK_BOOTTIME`): for what must not wait for longer because the
    /// machine slept.
    #[inline]
    pub fn since_boot() -> Time {
        Time::from_nanos(nanos(clock_gettime(ClockId::Boottime)))
    }

    /// The wall clock.
    pub fn wall(&self) -> WallTime {
        WallTime(nanos(clock_gettime(ClockId::Realtime)))
    }

    /// When the kernel's stamp, of the wall clock, was taken: not later than now, [`Time::ZERO`] at the earliest.
    ///
    /// Both clocks are read for it, so that a wall clock that is set shifts only the stamps that were on their way.
    pub fn at(&self, stamp: WallTime) -> Time {
        self.read().at(stamp)
    }

    /// Both clocks, for several stamps.
    pub(crate) fn read(&self) -> Reading {
        Reading { wall: self.wall(), now: self.now() }
    }
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) now: Time,
    wall: WallTime,
}

impl Reading {
    /// See [`Clock::at`].
    pub(crate) fn at(&self, stamp: WallTime) -> Time {
        self.now - Duration::from_nanos(self.wall.0.saturating_sub(stamp.0))
    }
}

impl WallTime {
    /// From nanoseconds since 1970.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since 1970.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

impl fmt::Display for WallTime {
    /// Seconds since 1970 with nine decimals, as `candump` and `tcpdump -tt` write them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// For how long the machine was suspended since it started: where it knows that from a clock of whole seconds only, [`Clock`] is off by
/// as much afterwards. A little less where this thread was held up while it asked, never more.
pub(crate) fn time_suspended() -> Duration {
    let with = nanos(clock_gettime(ClockId::Boottime));
    Duration::from_nanos(with.saturating_sub(nanos(clock_gettime(ClockId::Monotonic))))
}

/// How long ago the kernel's stamp, of the wall clock, was taken.
pub(crate) fn time_since(stamp: WallTime) -> Duration {
    Duration::from_nanos(nanos(clock_gettime(ClockId::Realtime)).saturating_sub(stamp.0))
}

fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// For system calls that take one.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    let nanos = duration.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as _ }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_of_the_wall_clock_becomes_the_time_at_which_it_was_taken() {
        let clock = Clock::start();
        let before = clock.now();
        let stamp = clock.wall();
        let after = clock.now();
        let at = clock.at(stamp);
        let slack = Duration::from_millis(1); // NTP may slew between the two readings; nobody sets the clock.
        assert!(at + slack >= before && at <= after + slack, "{before} ≤ {at} ≤ {after}");
    }

    /// A time namespace in which the machine was suspended for a day: its two clocks differ by that.
    #[test]
    fn the_clock_goes_on_while_the_machine_is_suspended() {
        let day = 86_400_000_000_000;
        if std::env::var_os("TAUT_SUSPENDED").is_some() {
            let monotonic = nanos(clock_gettime(ClockId::Monotonic));
            let ahead = Clock::start().epoch.as_nanos() - monotonic;
            assert!((day..day + day / 2).contains(&ahead), "{ahead} ns ahead of a clock that stood still");
            return;
        }
        let mut again = std::process::Command::new("unshare");
        again.args(["--time", "--fork", "--boottime", "86400"]);
        let probe = std::process::Command::new("unshare").args(["--time", "--fork", "true"]).status();
        if !probe.is_ok_and(|status| status.success()) {
            println!("skipped: a time namespace needs root and unshare");
            return;
        }
        let me = std::env::current_exe().expect("this test has a program");
        let name = "clock::tests::the_clock_goes_on_while_the_machine_is_suspended";
        let status = again.arg(me).args(["--exact", name]).env("TAUT_SUSPENDED", "1").status();
        assert!(status.expect("it was tried").success());
    }

    #[test]
    fn a_stamp_from_the_future_is_now() {
        let clock = Clock::start();
        let ahead = WallTime::from_nanos(clock.wall().as_nanos() + 1_000_000_000);
        assert!(clock.at(ahead) <= clock.now());
    }

    #[test]
    fn wall_time_is_written_in_seconds() {
        assert_eq!(WallTime::from_nanos(1_500_000_000_000_000_007).to_string(), "1500000000.000000007");
    }
}
