//! What the device beside the session has to say in it.

use taut_core::{Time, Transport};
use taut_wire::session::StopCause;

use super::Robot;

impl<T: Transport> Robot<T> {
    /// When the watchdog stops the robot unless something fresh is applied: so long a device may go on by itself. `None`
    /// while the robot does not move; then nothing that waits may be applied any more.
    pub fn watchdog_due(&self) -> Option<Time> {
        self.safety.poll_timeout().map(|deadline| deadline.at)
    }

    /// The device failed, or stopped by itself: the robot stands until the operator resumes. True when it moved.
    pub fn halt_device(&mut self, now: Time, cause: StopCause) -> bool {
        let moved = self.safety.pause(cause);
        if moved {
            self.halt(now, cause);
        }
        self.settle(now);
        moved
    }
}
