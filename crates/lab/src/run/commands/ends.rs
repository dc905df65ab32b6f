//! Who makes commands and who takes them: devices that do nothing, for an operator and a robot whose session has one channel.

use taut_agent::{DeviceFailure, DeviceMessage, Measured, OperatorDevice, RobotDevice, Sample, SetPoint};
use taut_core::{Duration, Time};
use taut_session::motion::Motion;
use taut_session::{ChannelId, State, StopCause};

use crate::scenario::{Commands, Scenario};

/// A hand that does not move, and commands something whenever it is asked: so many bytes.
#[derive(Clone, Copy, Debug)]
pub struct Commander {
    size: usize,
    /// Until when it commands, and until when it is there: what it left on its way has its time.
    until: [Time; 2],
    last: Option<Time>,
}

impl Commander {
    /// As the scenario's commands are; the run began at `began`.
    pub fn of_run(scenario: &Scenario, commands: &Commands, began: Time) -> Self {
        let end = began + scenario.duration;
        Self { size: commands.size.get() as usize, until: [end, end + scenario.drain], last: None }
    }
}

impl OperatorDevice for Commander {
    fn sample(&mut self, now: Time) -> Option<Sample> {
        (now < self.until[1]).then(|| Sample { state: State::at(now), reading: 0 })
    }
    fn skip(&mut self, periods: u64) -> u64 {
        periods
    }
    fn feel(&mut self, _: Time, _: &State) {}
    fn lost(&mut self) {}
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: taut_core::Bitrate) {}

    fn poll_message(&mut self, now: Time) -> Option<DeviceMessage> {
        let is_due = now < self.until[0] && self.last.replace(now) != Some(now);
        is_due.then(|| DeviceMessage::Payload { channel: ChannelId(0), payload: vec![0; self.size] })
    }
}

/// A robot on which nothing moves.
#[derive(Clone, Copy, Debug, Default)]
pub struct StillRobot;

impl RobotDevice for StillRobot {
    fn period(&self) -> Duration {
        Duration::from_millis(100)
    }
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        Ok(())
    }
    fn apply(&mut self, _: &SetPoint) -> bool {
        true
    }
    fn drive(&mut self, _: ChannelId, _: &Motion, _: Duration) -> bool {
        false
    }
    fn stop(&mut self, _: StopCause) {}
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
        None
    }
    fn lease(&self) -> bool {
        true
    }
    fn stiffness(&self) -> Option<f32> {
        None
    }
    fn limit_force(&mut self, _: f32) -> bool {
        true
    }
    fn is_real(&self) -> bool {
        false
    }
}
