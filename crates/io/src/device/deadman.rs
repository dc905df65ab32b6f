//! Stops a device whose session says nothing: a thread of its own, which nothing else holds up.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use taut_core::{Duration, Time};
use taut_session::StopCause;

use super::Stopper;
use crate::Clock;
use crate::clock::timespec;
use crate::privileges::spawn_unprivileged;
use crate::thread::outrank;
use crate::wakeup::Wakeup;

/// When the device has to be stopped: one word that a session writes and a [`Deadman`] reads, neither waiting for the other.
/// Sans-IO: the time comes from outside, of one clock for both.
///
/// Who is late loses: once the deadline has passed, nothing that the session does moves it any more, until a resume.
#[derive(Debug, Default)]
pub struct Switch(AtomicU64);

const DISARMED: u64 = 0;
/// Deadlines are less.
const LATEST: u64 = u64::MAX - 2;
/// The device has been stopped, or is being stopped at this moment.
const FIRED: u64 = u64::MAX - 1;
const FIRING: u64 = u64::MAX;

/// What became of [`Switch::feed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// The deadline is the new one. Does the deadman have to be woken, because it sleeps for longer?
    Armed {
        /// It does.
        wake: bool,
    },
    /// The last deadline has passed: the device is stopped, and what was to be applied must not be.
    TooLate,
}

/// What a deadman does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Sleep until it is woken.
    Idle,
    /// Sleep until then.
    Until(Time),
    /// Stop the device now, then say so by [`Switch::stopped`].
    Fire,
}

impl Switch {
    /// The device is about to be told something, and may go on until `deadline`.
    pub fn feed(&self, now: Time, deadline: Time) -> Fed {
        let new = deadline.as_nanos().clamp(1, LATEST);
        let mut old = self.0.load(Ordering::Acquire);
        loop {
            if old > LATEST || (old != DISARMED && old <= now.as_nanos()) {
                return Fed::TooLate;
            }
            match self.0.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Fed::Armed { wake: old == DISARMED || new < old },
                Err(other) => old = other,
            }
        }
    }

    /// The session stopped the device itself. What has fired stays fired.
    pub fn disarm(&self) {
        let armed = |word| (word <= LATEST).then_some(DISARMED);
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, armed);
    }

    /// Somebody resumed. False while the device is being stopped: then it is not to be moved.
    pub fn rearm(&self) -> bool {
        let ready = |word| (word != FIRING).then_some(DISARMED);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, ready).is_ok()
    }

    /// Has the deadline passed since the last resume?
    pub fn is_over(&self, now: Time) -> bool {
        let word = self.0.load(Ordering::Acquire);
        word > LATEST || (word != DISARMED && word <= now.as_nanos())
    }

    /// What the deadman does next.
    pub fn look(&self, now: Time) -> Look {
        let over = |word| (word != DISARMED && word <= LATEST && word <= now.as_nanos()).then_some(FIRING);
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, over) {
            Ok(_) => Look::Fire,
            Err(DISARMED | FIRED | FIRING) => Look::Idle,
            Err(deadline) => Look::Until(Time::from_nanos(deadline)),
        }
    }

    /// The device has been stopped.
    pub fn stopped(&self) {
        self.0.store(FIRED, Ordering::Release);
    }

    fn fail(&self) {
        self.0.store(FIRING, Ordering::Release);
    }
}

/// A thread that stops a device when nobody says in time that it may go on: whatever the session's thread waits for, and
/// also after the machine was suspended (`CLOCK_BOOTTIME`). It ends with its value.
pub struct Deadman(Arc<Shared>);

struct Shared {
    switch: Switch,
    wake: Wakeup,
    ends: AtomicBool,
}

impl Deadman {
    /// Starts it, disarmed.
    ///
    /// # Errors
    /// When the system has no thread, timer or descriptor left.
    pub fn start(stopper: Arc<dyn Stopper>) -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let (switch, wake, ends) = (Switch::default(), Wakeup::new()?, AtomicBool::new(false));
        let shared = Arc::new(Shared { switch, wake, ends });
        let theirs = Arc::clone(&shared);
        // Whoever holds up the session must not hold up this thread too.
        spawn_unprivileged("taut deadman", outrank, move || {
            if theirs.watch(&timer, &*stopper).is_err() {
                // Nobody watches any more: the device stops, and is not enabled again.
                theirs.switch.fail();
                stopper.stop(StopCause::Host);
            }
        })?;
        Ok(Self(shared))
    }

    /// The device is about to be told something, and may go on for so long. False: it has been stopped, or is being.
    pub fn feed(&self, lease: Duration) -> bool {
        let now = Clock::since_boot();
        match self.0.switch.feed(now, now + lease) {
            Fed::Armed { wake } => {
                if wake {
                    self.0.wake.wake();
                }
                true
            }
            Fed::TooLate => false,
        }
    }

    /// See [`Switch::disarm`].
    pub fn disarm(&self) {
        self.0.switch.disarm();
    }

    /// See [`Switch::rearm`].
    pub fn rearm(&self) -> bool {
        self.0.switch.rearm()
    }

    /// See [`Switch::is_over`].
    pub fn is_over(&self) -> bool {
        self.0.switch.is_over(Clock::since_boot())
    }
}

impl Drop for Deadman {
    fn drop(&mut self) {
        // It is not waited for: it may be held up in the device.
        self.0.ends.store(true, Ordering::Release);
        self.0.wake.wake();
    }
}

impl std::fmt::Debug for Deadman {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Deadman").field(&self.0.switch).finish()
    }
}

impl Shared {
    fn watch(&self, timer: &OwnedFd, stopper: &dyn Stopper) -> io::Result<()> {
        while !self.ends.load(Ordering::Acquire) {
            let due = match self.switch.look(Clock::since_boot()) {
                Look::Fire => {
                    stopper.stop(StopCause::Watchdog);
                    self.switch.stopped();
                    continue;
                }
                Look::Until(at) => timespec(at.saturating_since(Time::ZERO)),
                // Zero disarms the timer.
                Look::Idle => timespec(Duration::ZERO),
            };
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let once = Itimerspec { it_interval: zero, it_value: due };
            timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once)?;
            let mut fds =
                [timer.as_fd(), self.wake.0.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            retry_on_intr(|| poll(&mut fds, None))?;
            self.wake.acknowledge();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn it_sleeps_until_the_newest_deadline_and_fires_when_that_has_passed() {
        let switch = Switch::default();
        assert_eq!(switch.look(at(1)), Look::Idle);
        assert_eq!(switch.feed(at(1), at(101)), Fed::Armed { wake: true });
        assert_eq!(
            switch.feed(at(50), at(150)),
            Fed::Armed { wake: false },
            "it wakes by itself, and looks again"
        );
        assert_eq!(switch.look(at(101)), Look::Until(at(150)));
        assert_eq!(switch.look(at(150)), Look::Fire);
        assert_eq!(switch.look(at(150)), Look::Idle, "once");
    }

    #[test]
    fn a_nearer_deadline_wakes_it() {
        let switch = Switch::default();
        switch.feed(at(1), at(500));
        assert_eq!(switch.feed(at(2), at(20)), Fed::Armed { wake: true });
    }

    #[test]
    fn what_comes_at_the_moment_of_the_deadline_comes_too_late_until_a_resume() {
        let switch = Switch::default();
        switch.feed(at(1), at(101));
        // Nobody has fired yet: whoever wakes up first, the stop wins.
        assert_eq!(switch.feed(at(101), at(201)), Fed::TooLate);
        assert!(switch.is_over(at(101)));
        assert_eq!(switch.look(at(101)), Look::Fire);
        switch.stopped();
        switch.disarm();
        assert!(switch.is_over(at(102)));
        assert_eq!(switch.feed(at(102), at(202)), Fed::TooLate);
        assert!(switch.rearm());
        assert_eq!(switch.feed(at(103), at(203)), Fed::Armed { wake: true });
    }

    #[test]
    fn nobody_resumes_while_the_device_is_being_stopped() {
        let switch = Switch::default();
        switch.feed(at(1), at(2));
        assert_eq!(switch.look(at(2)), Look::Fire);
        assert!(!switch.rearm(), "or that stop would come after the resume");
        switch.stopped();
        assert!(switch.rearm());
    }

    #[test]
    fn a_session_that_stopped_the_device_itself_needs_no_deadman() {
        let switch = Switch::default();
        switch.feed(at(1), at(101));
        switch.disarm();
        assert_eq!(switch.look(at(500)), Look::Idle);
        assert!(!switch.is_over(at(500)));
    }

    struct Told(Sender<(StopCause, Time)>);

    impl Stopper for Told {
        fn stop(&self, cause: StopCause) {
            self.0.send((cause, Clock::since_boot())).unwrap();
        }
    }

    #[test]
    fn a_thread_stops_the_device_after_its_deadline_and_not_before() {
        let (sender, stops) = channel();
        let deadman = Deadman::start(Arc::new(Told(sender))).unwrap();
        let lease = Duration::from_millis(30);
        for _ in 0..3 {
            assert!(deadman.rearm());
            let before = Clock::since_boot();
            assert!(deadman.feed(lease));
            let (cause, at) = stops.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
            assert_eq!(cause, StopCause::Watchdog);
            assert!(at >= before + lease, "{at} is before {before} + {lease}");
            assert!(deadman.is_over() && !deadman.feed(lease));
            while !deadman.rearm() {
                std::thread::yield_now();
            }
        }
        deadman.feed(lease);
        deadman.disarm();
        let quiet = stops.recv_timeout(std::time::Duration::from_millis(60));
        assert!(quiet.is_err(), "{quiet:?}");
    }
}
