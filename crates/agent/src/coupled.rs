//! A device under a control law.

use taut_control::{
    Law, Message, Motion as Moved, OperatorEnd, OperatorOutput, RobotEnd, RobotOutput, Servo, Surroundings,
    Vector,
};
use taut_core::{Bitrate, Duration, Time};
use taut_session::motion::Motion;
use taut_session::{ChannelId, State, StopCause};

use crate::{DeviceFailure, DeviceMessage, Lease, Measured, OperatorDevice, RobotDevice, Sample, SetPoint};

/// A device in the hand, and its end of a law: the robot's must be of the same.
#[derive(Debug)]
pub struct CoupledHand<D> {
    device: D,
    end: OperatorEnd,
}

/// An arm and its end of a law: the operator's must be of the same.
///
/// The law makes a reference of its own of what the operator's end says. Under a [passive](Law::is_passive) law that is no position that
/// the session's limits have seen: the device must keep limits itself.
#[derive(Debug)]
pub struct CoupledArm<D> {
    device: D,
    end: RobotEnd,
    /// By the count of periods.
    now: Time,
    lease: Lease,
    newest: Option<State>,
    measured: Option<Surroundings>,
}

impl<D: OperatorDevice> CoupledHand<D> {
    /// Asked every `period`, it pushes with `limit` N at most. `servo`: of the arm.
    pub fn new(device: D, law: Law, servo: Servo, period: Duration, limit: f64) -> Self {
        Self { device, end: OperatorEnd::new(law, servo, period).limit_force(limit) }
    }
}

impl<D: RobotDevice> CoupledArm<D> {
    /// It is led by this servo.
    pub fn new(device: D, law: Law, servo: Servo) -> Self {
        let end = RobotEnd::new(law, servo, device.period());
        Self { device, end, now: Time::ZERO, lease: Lease::default(), newest: None, measured: None }
    }

    /// To the reference, for as long as the newest set point allows.
    fn lead(&mut self) -> Option<Message> {
        if self.lease.expire(self.now) {
            self.end.begin_again();
        }
        let RobotOutput { reference, message, .. } = self.end.step(&self.measured?);
        if let (true, Some(newest), Some(due)) = (self.lease.is_enabled(), self.newest, self.lease.due()) {
            let Moved { position, velocity } = reference;
            let state = State { position: single(&position), velocity: single(&velocity), ..newest };
            self.device.apply(&SetPoint { state, lease: due.saturating_since(self.now) });
        }
        Some(message)
    }
}

impl<D: OperatorDevice> OperatorDevice for CoupledHand<D> {
    fn sample(&mut self, now: Time) -> Option<Sample> {
        let Sample { state, reading } = self.device.sample(now)?;
        let OperatorOutput { force, message } = self.end.step(&moved(&state));
        self.device.feel(now, &State { force: single(&force), ..state });
        let energy = self.end.law().is_passive().then_some(message.energy);
        Some(Sample { state: State { force: single(&force), energy, ..state }, reading })
    }
    fn skip(&mut self, periods: u64) -> u64 {
        self.device.skip(periods)
    }
    fn resumed(&mut self) {
        self.device.resumed();
    }
    fn feel(&mut self, _: Time, state: &State) {
        self.end.receive(&message(state));
    }
    fn lost(&mut self) {
        self.end.lost();
        self.device.lost();
    }
    fn receive(&mut self, channel: ChannelId, age: Option<Duration>, payload: &[u8]) {
        self.device.receive(channel, age, payload);
    }
    fn limit_bitrate(&mut self, rate: Bitrate) {
        self.device.limit_bitrate(rate);
    }
    fn poll_message(&mut self, now: Time) -> Option<DeviceMessage> {
        self.device.poll_message(now)
    }
}

impl<D: RobotDevice> RobotDevice for CoupledArm<D> {
    crate::forward_robot_device!(self => self.device);
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        self.device.enable()?;
        self.end.begin_again();
        self.newest = None;
        self.lease.enable();
        Ok(())
    }
    fn apply(&mut self, point: &SetPoint) -> bool {
        let follows = self.lease.grant(self.now, point.lease);
        if follows {
            self.newest = Some(point.state);
            self.end.receive(&message(&point.state));
        }
        follows
    }
    /// States alone move what is under a law.
    fn drive(&mut self, _: ChannelId, _: &Motion, _: Duration) -> bool {
        false
    }
    fn stop(&mut self, cause: StopCause) {
        self.lease.stop();
        self.end.begin_again();
        self.device.stop(cause);
    }
    fn measure(&mut self) -> Option<Measured> {
        let said = self.lead();
        self.now += self.device.period();
        let measured = self.device.measure()?;
        self.measured =
            Some(Surroundings { arm: moved(&measured.state), force: wide(&measured.state.force) });
        let said = said.filter(|_| self.end.law().is_passive());
        let feedback = said.map(|said| State {
            velocity: single(&said.velocity),
            force: single(&said.force),
            energy: Some(said.energy),
            ..measured.state
        });
        Some(Measured { feedback, ..measured })
    }
    fn failure(&mut self) -> Option<DeviceFailure> {
        self.device.failure()
    }
}

fn moved(state: &State) -> Moved {
    Moved { position: wide(&state.position), velocity: wide(&state.velocity) }
}

fn message(state: &State) -> Message {
    let Moved { position, velocity } = moved(state);
    Message { position, velocity, force: wide(&state.force), energy: state.energy.unwrap_or_default() }
}

fn wide(vector: &[f32; 3]) -> Vector {
    vector.map(f64::from)
}

fn single(vector: &Vector) -> [f32; 3] {
    vector.map(|part| part as f32)
}
