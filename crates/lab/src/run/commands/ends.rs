//! Who makes commands and who takes them: devices that do nothing, for an operator and a robot whose session has one channel.

use taut_agent::{
    DeviceFailure, DeviceMessage, Measured, MessageSource, OperatorDevice, RobotDevice, Sample, SetPoint,
};
use taut_core::{Duration, Time};
use taut_session::motion::Motion;
use taut_session::{ChannelId, State, StopCause};

use crate::scenario::{Commands, Scenario};

/// A hand that does not move: its readings stand still, and no state is sent after the first.
#[derive(Clone, Copy, Debug)]
pub struct StillHand {
    until: Time,
}

impl StillHand {
    /// It is there until what the scenario's commands left on their way has had its time; the run began at `began`.
    pub fn of_run(scenario: &Scenario, began: Time) -> Self {
        Self { until: began + scenario.duration + scenario.drain }
    }
}

impl OperatorDevice for StillHand {
    fn sample(&mut self, now: Time) -> Option<Sample> {
        (now < self.until).then(|| Sample { state: State::at(now), reading: 0 })
    }
    fn skip(&mut self, periods: u64) -> u64 {
        periods
    }
    fn feel(&mut self, _: Time, _: &State) {}
    fn lost(&mut self) {}
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn poll_message(&mut self, _: Time) -> Option<DeviceMessage> {
        None
    }
}

/// Makes a command whenever it is asked: so many bytes.
#[derive(Clone, Copy, Debug)]
pub struct CommandMaker {
    size: usize,
    until: Time,
    last: Option<Time>,
}

impl CommandMaker {
    /// As the scenario's commands are; the run began at `began`.
    pub fn of_run(scenario: &Scenario, commands: &Commands, began: Time) -> Self {
        Self { size: commands.size.get() as usize, until: began + scenario.duration, last: None }
    }
}

impl MessageSource for CommandMaker {
    fn message(&mut self, now: Time) -> Option<(ChannelId, Vec<u8>)> {
        let is_due = now < self.until && self.last.replace(now) != Some(now);
        is_due.then(|| (ChannelId(0), vec![0; self.size]))
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
