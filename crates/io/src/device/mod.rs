//! What a robot moves, and how it stops when nobody tells it to.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Plant`] | the contract: what a session asks of a device, simulated or real |
//! | [`Stopper`] | stops it from any thread, also while [`Plant::apply`] blocks |
//! | [`Lease`] | for how long a device may go on by itself: its own watchdog, sans-IO |
//! | [`Deadman`] | a thread that stops a device whose session fell silent: frozen, blocked in the device or in a disk |
//! | [`ProcessDevice`] | a device in a process of its own, told and read by JSON [`lines`] |
//!
//! Three things stop a device whose session is late, each without the others: the session's watchdog, the deadman beside
//! it in the same process, and the lease in the device, which alone remains when that process is frozen or killed.

mod deadman;
mod lease;
pub mod lines;
mod orders;
mod process;

use std::fmt;
use std::sync::Arc;

use taut_core::{Duration, printable};
use taut_session::{State, StopCause};

pub use self::deadman::{Deadman, Fed, Look, Switch};
pub use self::lease::Lease;
pub use self::process::{ProcessDevice, ProcessError};

/// Where to go, and for how long without hearing more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetPoint {
    /// Fresh, finite, and within the limits.
    pub state: State,
    /// From now on: after that the device stops by itself. It is what is left of the session's watchdog.
    pub lease: Duration,
}

/// What a device says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Where it is, how fast it moves, and what it feels. Its time of creation does not matter.
    pub state: State,
    /// The force that its controller makes, N; `None` where nobody measures it.
    pub controller_force: Option<[f32; 3]>,
}

/// Stops a device, from any thread.
pub trait Stopper: Send + Sync {
    /// Stop, and stay: nothing moves the device before the next [`Plant::enable`], not even what is being applied at this
    /// moment. Whether it holds, brakes or cuts the power (categories 2, 1 and 0 of IEC 60204-1) is the device's choice. It
    /// does not wait for the device, and may be called again.
    fn stop(&self, cause: StopCause);
}

/// Why a device does not do what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceFailure {
    /// Its process is gone. It does not come back.
    Ended(String),
    /// It reads or writes no more. It does not come back.
    Closed,
    /// So many lines of it so far were no report.
    Junk(u64),
    /// It did not read what it was told before its lease was over.
    NotTaken,
    /// It stopped by itself, and says why.
    Stopped(String),
}

impl DeviceFailure {
    /// Does it never move again?
    pub const fn is_lasting(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Closed)
    }
}

impl fmt::Display for DeviceFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(how) => write!(f, "its process ended: {how}"),
            Self::Closed => f.write_str("it closed its input or its output"),
            Self::Junk(lines) => write!(f, "it wrote what is no report: {lines} lines so far"),
            Self::NotTaken => f.write_str("it did not read in time what it was told"),
            // Whoever wrote this is not to write to a terminal.
            Self::Stopped(why) => write!(f, "it stopped by itself: {}", printable(why)),
        }
    }
}

/// A device that moves: a simulation, or the way to a controller.
///
/// The session that calls it may be frozen or killed at any moment. A device that keeps its [`SetPoint::lease`] itself stops
/// all the same; one that cannot says so by [`lease`](Self::lease). No method has a default that a wrapper could forget to
/// forward.
pub trait Plant {
    /// How often it is stepped, at least 1 µs.
    fn period(&self) -> Duration;
    /// The operator resumed: set points follow.
    fn enable(&mut self);
    /// Go there. Nothing happens unless it was [enabled](Self::enable) and not stopped since.
    fn apply(&mut self, point: &SetPoint);
    /// See [`Stopper::stop`].
    fn stop(&mut self, cause: StopCause);
    /// One [`Plant::period`] passes; what was measured since it was asked last.
    fn step(&mut self) -> Option<Measured>;
    /// Is what was measured last told to the operator?
    fn feeds_back(&mut self) -> bool;
    /// What went wrong since it was asked last. What cannot be mended is told every time.
    fn failure(&mut self) -> Option<DeviceFailure>;
    /// The way to stop it from other threads.
    fn stopper(&self) -> Arc<dyn Stopper>;
    /// Does the device itself keep the lease?
    fn lease(&self) -> bool;
    /// Of its position controller, N/m; `None` where nobody knows.
    fn stiffness(&self) -> Option<f32>;
    /// Its controller makes no more force than this, in magnitude. False when the device cannot keep to that.
    fn limit_force(&mut self, newtons: f32) -> bool;
    /// Can it hurt somebody? Such a device is not moved without limits.
    fn is_real(&self) -> bool;
}

impl<P: Plant + ?Sized> Plant for Box<P> {
    fn period(&self) -> Duration {
        (**self).period()
    }
    fn enable(&mut self) {
        (**self).enable();
    }
    fn apply(&mut self, point: &SetPoint) {
        (**self).apply(point);
    }
    fn stop(&mut self, cause: StopCause) {
        (**self).stop(cause);
    }
    fn step(&mut self) -> Option<Measured> {
        (**self).step()
    }
    fn feeds_back(&mut self) -> bool {
        (**self).feeds_back()
    }
    fn failure(&mut self) -> Option<DeviceFailure> {
        (**self).failure()
    }
    fn stopper(&self) -> Arc<dyn Stopper> {
        (**self).stopper()
    }
    fn lease(&self) -> bool {
        (**self).lease()
    }
    fn stiffness(&self) -> Option<f32> {
        (**self).stiffness()
    }
    fn limit_force(&mut self, newtons: f32) -> bool {
        (**self).limit_force(newtons)
    }
    fn is_real(&self) -> bool {
        (**self).is_real()
    }
}

/// A device that is stopped when whoever moved it is gone, however that ended: a panic unwinds through here as well.
#[derive(Debug)]
pub(crate) struct Kept<P: Plant>(pub(crate) P);

impl<P: Plant> Drop for Kept<P> {
    fn drop(&mut self) {
        self.0.stop(StopCause::Host);
    }
}
