//! What stops a device on threads: beside its session, and when that session is held up.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Stopper`], [`Stoppable`] | stops a device from any thread, also while [`RobotDevice::apply`] blocks |
//! | [`Deadman`] | a thread that stops a device whose session fell silent: frozen, blocked in the device or in a disk |
//! | [`Guarded`] | a device and its deadman, as one device |
//! | [`InProcess`] | a device of this process that looks whether somebody stopped it: a simulation |
//! | [`ProcessDevice`], [`ProcessInput`] | a robot's and an operator's device in a process of its own, told and heard by [`frame`]s |
//! | [`DeviceSocket`] | the other end of those, for devices in Rust |
//! | [`evdev`] | what happens on input devices of Linux, such as gamepads |
//! | [`LineInput`] | an operator's device that is [`lines`] on standard input |
//!
//! Three things stop a device whose session is late, each without the others: the session's watchdog, the deadman beside
//! it in the same process, and the [lease](taut_agent::Lease) in the device, which alone remains when that process is frozen or killed.

pub mod base64;
mod deadman;
pub mod evdev;
pub mod frame;
mod guarded;
mod input;
pub mod lines;
mod messages;
mod motion;
mod orders;
mod parts;
mod process;
mod process_input;
mod program;
mod socket;
pub mod spacemouse;
mod splitter;

use std::sync::Arc;

use taut_agent::{CoupledArm, RobotDevice};
use taut_session::StopCause;

pub use self::deadman::{Deadman, Fed, Look, Switch};
pub use self::guarded::{Guarded, InProcess};
pub use self::input::{InputLines, LineInput, lines_of};
pub use self::messages::{DeviceDrops, Drops, LineChannel, LineChannels};
pub use self::process::{ProcessDevice, ProcessError};
pub use self::process_input::{Buttons, Pressed, ProcessInput};
pub use self::program::DESCRIPTOR;
pub use self::socket::{DeviceSocket, Told};

/// Stops a device, from any thread.
pub trait Stopper: Send + Sync {
    /// As [`RobotDevice::stop`]: not even what is being applied at this moment moves the device before it is enabled again.
    fn stop(&self, cause: StopCause);
}

/// A device that can be stopped from any thread.
pub trait Stoppable: RobotDevice {
    /// The way to do it.
    fn stopper(&self) -> Arc<dyn Stopper>;
}

/// The device itself stops, and what leads it finds that it does not follow.
impl<P: Stoppable> Stoppable for CoupledArm<P> {
    fn stopper(&self) -> Arc<dyn Stopper> {
        self.device().stopper()
    }
}

impl<P: Stoppable + ?Sized> Stoppable for Box<P> {
    fn stopper(&self) -> Arc<dyn Stopper> {
        (**self).stopper()
    }
}
