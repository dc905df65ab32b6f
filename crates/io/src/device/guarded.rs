//! A device with what stops it from another thread, as one device.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use taut_agent::{DeviceFailure, Measured, RobotDevice, SetPoint};
use taut_core::Duration;
use taut_session::motion::Motion;
use taut_session::{ChannelId, StopCause};

use super::{Deadman, Stoppable, Stopper};

/// A device and its [`Deadman`]: it is stopped also when the session that moves it says nothing in time, and is then
/// [`Overdue`](DeviceFailure::Overdue).
#[derive(Debug)]
pub struct Guarded<P> {
    device: P,
    deadman: Deadman,
    /// That it is overdue was told, since it was enabled.
    told: bool,
    /// What the device said meanwhile.
    said: Option<DeviceFailure>,
}

impl<P: Stoppable> Guarded<P> {
    /// Starts the deadman.
    ///
    /// # Errors
    /// When the system has no thread, timer or descriptor left.
    pub fn start(device: P) -> io::Result<Self> {
        let deadman = Deadman::start(device.stopper())?;
        Ok(Self { device, deadman, told: false, said: None })
    }
}

impl<P: RobotDevice> RobotDevice for Guarded<P> {
    taut_agent::forward_robot_device!(self => self.device);

    fn enable(&mut self) -> Result<(), DeviceFailure> {
        self.said = None;
        if !self.deadman.rearm() {
            return Err(DeviceFailure::Overdue);
        }
        self.told = false;
        self.device.enable()
    }

    fn apply(&mut self, point: &SetPoint) -> bool {
        self.deadman.feed(point.lease) && self.device.apply(point)
    }

    fn drive(&mut self, channel: ChannelId, motion: &Motion, lease: Duration) -> bool {
        self.deadman.feed(lease) && self.device.drive(channel, motion, lease)
    }

    fn stop(&mut self, cause: StopCause) {
        self.device.stop(cause);
        self.deadman.disarm();
    }

    fn measure(&mut self) -> Option<Measured> {
        self.device.measure()
    }

    fn failure(&mut self) -> Option<DeviceFailure> {
        if self.deadman.is_over() && !self.told {
            self.told = true;
            self.said = self.device.failure();
            return Some(DeviceFailure::Overdue);
        }
        self.device.failure().or_else(|| self.said.take())
    }
}

/// A device of this process whose verbs do not block, such as a simulation: stopped from another thread, it stops with the next
/// thing that it is asked.
#[derive(Debug)]
pub struct InProcess<P> {
    device: P,
    pressed: Arc<Pressed>,
}

/// Somebody stopped it.
#[derive(Debug, Default)]
struct Pressed(AtomicBool);

impl Stopper for Pressed {
    fn stop(&self, _: StopCause) {
        self.0.store(true, Ordering::Release);
    }
}

impl<P: RobotDevice> InProcess<P> {
    /// Nobody has stopped it.
    pub fn new(device: P) -> Self {
        Self { device, pressed: Arc::default() }
    }

    /// The device.
    pub fn device(&self) -> &P {
        &self.device
    }

    fn look(&mut self) {
        if self.pressed.0.swap(false, Ordering::AcqRel) {
            self.device.stop(StopCause::Watchdog);
        }
    }
}

impl<P: RobotDevice> Stoppable for InProcess<P> {
    fn stopper(&self) -> Arc<dyn Stopper> {
        Arc::clone(&self.pressed) as Arc<dyn Stopper>
    }
}

impl<P: RobotDevice> RobotDevice for InProcess<P> {
    taut_agent::forward_robot_device!(self => self.device);

    fn enable(&mut self) -> Result<(), DeviceFailure> {
        self.look();
        self.device.enable()
    }

    fn apply(&mut self, point: &SetPoint) -> bool {
        self.look();
        self.device.apply(point)
    }

    fn drive(&mut self, channel: ChannelId, motion: &Motion, lease: Duration) -> bool {
        self.look();
        self.device.drive(channel, motion, lease)
    }

    fn stop(&mut self, cause: StopCause) {
        self.device.stop(cause);
    }

    fn measure(&mut self) -> Option<Measured> {
        self.look();
        self.device.measure()
    }

    fn failure(&mut self) -> Option<DeviceFailure> {
        self.device.failure()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_agent::DeviceMessage;
    use taut_core::Time;
    use taut_session::State;

    /// Moves while it is enabled; says that it stopped by itself.
    #[derive(Default)]
    struct Arm {
        enabled: bool,
        said: Option<DeviceFailure>,
    }

    impl RobotDevice for Arm {
        fn period(&self) -> Duration {
            Duration::from_millis(1)
        }
        fn enable(&mut self) -> Result<(), DeviceFailure> {
            self.enabled = true;
            Ok(())
        }
        fn apply(&mut self, _: &SetPoint) -> bool {
            self.enabled
        }
        fn drive(&mut self, _: ChannelId, _: &Motion, _: Duration) -> bool {
            self.enabled
        }
        fn stop(&mut self, _: StopCause) {
            self.enabled = false;
        }
        fn measure(&mut self) -> Option<Measured> {
            None
        }
        fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
        fn limit_bitrate(&mut self, _: taut_core::Bitrate) {}
        fn poll_message(&mut self) -> Option<DeviceMessage> {
            None
        }
        fn feeds_back(&mut self) -> bool {
            false
        }
        fn failure(&mut self) -> Option<DeviceFailure> {
            self.said.take()
        }
        fn lease(&self) -> bool {
            false
        }
        fn stiffness(&self) -> Option<f32> {
            None
        }
        fn limit_force(&mut self, _: f32) -> bool {
            false
        }
        fn is_real(&self) -> bool {
            false
        }
    }

    fn point(lease_ms: u64) -> SetPoint {
        SetPoint {
            state: State::at(Time::ZERO),
            age: Duration::ZERO,
            lease: Duration::from_millis(lease_ms),
            fresh: Duration::MAX,
        }
    }

    #[test]
    fn a_stop_from_another_thread_holds_against_what_is_applied_at_that_moment() {
        let mut device = InProcess::new(Arm::default());
        let stopper = device.stopper();
        assert!(device.enable().is_ok() && device.apply(&point(50)));
        std::thread::spawn(move || stopper.stop(StopCause::Watchdog)).join().unwrap();
        assert!(!device.apply(&point(50)) && !device.device().enabled);
        assert!(device.enable().is_ok() && device.apply(&point(50)));
    }

    #[test]
    fn who_lets_the_lease_pass_is_overdue_once_and_moves_nothing_until_it_is_enabled() {
        let mut device = Guarded::start(InProcess::new(Arm::default())).unwrap();
        assert!(device.enable().is_ok() && device.apply(&point(20)));
        device.device.device.said = Some(DeviceFailure::NotTaken);
        std::thread::park_timeout(std::time::Duration::from_millis(30));
        assert!(!device.apply(&point(20)), "it is stopped, or is being stopped");
        assert_eq!(device.failure(), Some(DeviceFailure::Overdue));
        assert_eq!(device.failure(), Some(DeviceFailure::NotTaken), "what the device says is not lost");
        assert_eq!(device.failure(), None);
        while device.enable().is_err() {
            std::thread::yield_now();
        }
        assert!(device.apply(&point(10_000)));
    }
}
