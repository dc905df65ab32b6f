//! The user's device as the session's.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use taut_agent::{DeviceMessage, Resume, Sample};
use taut_core::Time;
use taut_session::ChannelId;

use crate::device::OperatorDevice;
use crate::motion::State;

/// A device, or none: then nothing is sampled, and messages alone move the robot.
pub(crate) struct Hand {
    device: Option<Box<dyn OperatorDevice>>,
    last: State,
    readings: u64,
}

impl Hand {
    pub(crate) fn new(device: Option<Box<dyn OperatorDevice>>) -> Self {
        Self { device, last: State::default(), readings: 0 }
    }
}

impl taut_agent::OperatorDevice for Hand {
    fn sample(&mut self, now: Time) -> Option<Sample> {
        // What the device did not read anew has an old number, and is not sent.
        if let Some(state) = self.device.as_mut().and_then(|device| device.sample()) {
            (self.last, self.readings) = (state, self.readings + 1);
        }
        Some(Sample { state: self.last.made_at(now), reading: self.readings })
    }

    fn skip(&mut self, periods: u64) -> u64 {
        if self.device.is_some() { periods } else { 0 }
    }

    fn resumed(&mut self, resume: Resume) {
        if let Some(device) = self.device.as_mut().filter(|_| resume == Resume::Asked) {
            device.resumed();
        }
    }

    fn feel(&mut self, _: Time, state: &taut_session::State) {
        if let Some(device) = &mut self.device {
            device.feel(&State::of_session(state));
        }
    }

    /// Messages go by [`Sender`](crate::Sender) and [`Receiver`](crate::Receiver).
    fn receive(&mut self, _: ChannelId, _: Option<taut_core::Duration>, _: &[u8]) {}

    fn limit_bitrate(&mut self, _: taut_core::Bitrate) {}
    fn poll_message(&mut self, _: Time) -> Option<DeviceMessage> {
        None
    }

    fn lost(&mut self) {
        let Some(device) = &mut self.device else { return };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| device.lost())) {
            self.device = None;
            // It is called while a panic unwinds, too: a second one would end the process.
            if !std::thread::panicking() {
                resume_unwind(panic);
            }
        }
    }
}
