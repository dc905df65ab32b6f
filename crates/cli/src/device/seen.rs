//! Where a device says that its hand is, for whoever draws it.

use std::sync::{Arc, Mutex};

use taut_agent::{DeviceFailure, Measured, RobotDevice, SetPoint};
use taut_core::Duration;
use taut_io::device::{Stoppable, Stopper};
use taut_session::motion::Motion;
use taut_session::{ChannelId, StopCause};

use crate::host::lock;

/// The newest place of a hand, m, and the force on it, N.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    newest: Arc<Mutex<([f32; 3], f32)>>,
    touches: bool,
}

impl Seen {
    /// `touches`: something fills x > 0.
    pub(super) fn new(touches: bool) -> Self {
        Self { touches, ..Self::default() }
    }

    pub(crate) fn touches(&self) -> bool {
        self.touches
    }

    pub(crate) fn newest(&self) -> ([f32; 3], f32) {
        *lock(&self.newest)
    }
}

/// A device that is seen.
pub(super) struct Looked<D> {
    pub(super) device: D,
    pub(super) seen: Seen,
}

impl<D: Stoppable> Stoppable for Looked<D> {
    fn stopper(&self) -> Arc<dyn Stopper> {
        self.device.stopper()
    }
}

impl<D: RobotDevice> RobotDevice for Looked<D> {
    taut_agent::forward_robot_device!(self => self.device);

    fn enable(&mut self) -> Result<(), DeviceFailure> {
        self.device.enable()
    }

    fn apply(&mut self, point: &SetPoint) -> bool {
        self.device.apply(point)
    }

    fn drive(&mut self, channel: ChannelId, motion: &Motion, lease: Duration) -> bool {
        self.device.drive(channel, motion, lease)
    }

    fn stop(&mut self, cause: StopCause) {
        self.device.stop(cause);
    }

    fn measure(&mut self) -> Option<Measured> {
        let measured = self.device.measure();
        // Whoever draws holds nobody up: the next one is seen.
        if let (Some(measured), Ok(mut newest)) = (&measured, self.seen.newest.try_lock()) {
            let force = measured.state.force;
            *newest = (measured.state.position, force.map(|part| part * part).iter().sum::<f32>().sqrt());
        }
        measured
    }

    fn failure(&mut self) -> Option<DeviceFailure> {
        self.device.failure()
    }
}
