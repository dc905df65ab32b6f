//! The simulated robot as a device beside a session.

use taut_agent::{DeviceFailure, DeviceMessage, Lease, Measured, RobotDevice, SetPoint};
use taut_core::{Bitrate, Duration, Seed, Time};
use taut_session::motion::Motion;
use taut_session::{ChannelId, Direction, State, StopCause};

use super::SimulatedRobot;
use crate::demo::plant::Body;
use crate::generator::Generators;
use crate::lever;
use crate::mechanism::Encoder;
use crate::pace::Pace;
use crate::scenario::Teleop;

/// A [`SimulatedRobot`] that keeps its lease by its own time, of which every step is one period. It holds when that is over,
/// and when it is told to stop.
#[derive(Clone, Debug)]
pub struct SimulatedArm {
    robot: SimulatedRobot,
    encoder: Encoder,
    period: Duration,
    now: Time,
    lease: Lease,
    feedback: Pace,
    generators: Generators,
    /// What is along x is told as a turn about it.
    turns: bool,
    telling: Option<Telling>,
}

/// What it says of where its hand is, over which channel, and when again.
#[derive(Clone, Copy, Debug)]
struct Telling {
    channel: ChannelId,
    says: fn([f32; 3]) -> Vec<u8>,
    next: Time,
}

/// Between two of these: no eye needs more.
const TELLS: Duration = Duration::from_millis(20);

impl SimulatedArm {
    /// At rest, waiting to be enabled.
    pub fn new(robot: SimulatedRobot, period: Duration) -> Self {
        let (now, lease) = (Time::ZERO, Lease::default());
        let body = Body { position: robot.position(), velocity: robot.velocity() };
        Self {
            encoder: Encoder::new(0.0, Duration::ZERO, &body),
            robot,
            period,
            now,
            lease,
            feedback: Pace::new(Some(period)),
            generators: Generators::default(),
            turns: false,
            telling: None,
        }
    }

    /// Fifty times a second sends over this channel what `says` makes of where the hand is. Default: nothing.
    pub fn telling(mut self, channel: ChannelId, says: fn([f32; 3]) -> Vec<u8>) -> Self {
        self.telling = Some(Telling { channel, says, next: self.now });
        self
    }

    /// The one of a run with this seed, at rest at `position`.
    pub fn of_run(teleop: &Teleop, seed: Seed, position: [f64; 3]) -> Self {
        let robot = SimulatedRobot::new(&teleop.environment, position).made(&teleop.arm);
        let body = Body { position, velocity: [0.0; 3] };
        let encoder = Encoder::new(teleop.arm.encoder, teleop.arm.velocity_filter, &body);
        let generators = Generators::new(teleop, seed, Direction::ToOperator);
        Self {
            encoder,
            feedback: Pace::per_second(teleop.feedback),
            generators,
            turns: teleop.turns,
            ..Self::new(robot, teleop.period)
        }
    }

    /// What it does along x it does as a turn about it, at the end of a lever of 10 cm. Default: no.
    pub fn turning(mut self) -> Self {
        self.turns = true;
        self
    }

    /// The arm.
    pub fn robot(&self) -> &SimulatedRobot {
        &self.robot
    }

    /// So long it was not simulated: it stood still, and the lease went on.
    pub fn skip(&mut self, time: Duration) {
        self.now += time;
        self.look();
    }

    /// May it move?
    pub fn is_enabled(&self) -> bool {
        self.lease.is_enabled()
    }

    /// Holds when the lease is over.
    fn look(&mut self) {
        if self.lease.expire(self.now) {
            self.robot.hold();
        }
    }
}

impl RobotDevice for SimulatedArm {
    fn period(&self) -> Duration {
        self.period
    }

    fn enable(&mut self) -> Result<(), DeviceFailure> {
        self.look();
        self.lease.enable();
        Ok(())
    }

    fn apply(&mut self, point: &SetPoint) -> bool {
        self.look();
        let follows = self.lease.grant(self.now, point.lease);
        if follows {
            let [position, velocity, _] = lever::at_lever(&point.state);
            self.robot.follow(position, velocity);
        }
        follows
    }

    /// States alone move it.
    fn drive(&mut self, _: ChannelId, _: &Motion, _: Duration) -> bool {
        false
    }

    fn stop(&mut self, _: StopCause) {
        self.lease.stop();
        self.robot.hold();
    }

    fn measure(&mut self) -> Option<Measured> {
        self.look();
        self.robot.step(self.period);
        self.now += self.period;
        self.feedback.pass(self.period);
        let body = Body { position: self.robot.position(), velocity: self.robot.velocity() };
        let read = self.encoder.read(&body, self.period.as_secs_f64());
        let single = |vector: [f64; 3]| vector.map(|part| part as f32);
        let state = State {
            position: single(read.position),
            velocity: single(read.velocity),
            force: single(self.robot.force()),
            ..State::at(Time::ZERO)
        };
        let state = if self.turns { lever::turned(state, &read.position, &read.velocity) } else { state };
        Some(Measured {
            state,
            controller_force: Some(single(self.robot.controller_force())),
            feedback: None,
        })
    }

    fn feeds_back(&mut self) -> bool {
        self.feedback.take()
    }

    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}

    fn limit_bitrate(&mut self, rate: Bitrate) {
        self.generators.limit(rate);
    }

    fn poll_message(&mut self) -> Option<DeviceMessage> {
        self.generators.poll(self.now).or_else(|| {
            let telling = self.telling.as_mut().filter(|telling| self.now >= telling.next)?;
            telling.next = self.now + TELLS;
            let payload = (telling.says)(self.robot.position().map(|part| part as f32));
            Some(DeviceMessage::Payload { channel: telling.channel, payload })
        })
    }

    fn failure(&mut self) -> Option<DeviceFailure> {
        None
    }

    fn lease(&self) -> bool {
        true
    }

    fn stiffness(&self) -> Option<f32> {
        Some(self.robot.stiffness() as f32)
    }

    fn limit_force(&mut self, newtons: f32) -> bool {
        self.robot.limit_force(f64::from(newtons));
        true
    }

    fn is_real(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Environment;

    const MS: Duration = Duration::from_millis(1);

    fn moving() -> SimulatedArm {
        let robot = SimulatedRobot::new(&Environment::Free, SimulatedRobot::REST);
        let mut device = SimulatedArm::new(robot, MS);
        device.enable().unwrap();
        device
    }

    fn point() -> SetPoint {
        let state = State { velocity: [0.2, 0.0, 0.0], ..State::at(Time::ZERO) };
        SetPoint { state, age: Duration::ZERO, lease: MS * 50, fresh: Duration::MAX }
    }

    fn steps(device: &mut SimulatedArm, count: u32) {
        for _ in 0..count {
            assert!(device.measure().is_some());
        }
    }

    fn speed(device: &SimulatedArm) -> f64 {
        device.robot().velocity().iter().map(|part| part.abs()).sum()
    }

    #[test]
    fn an_arm_that_is_told_nothing_more_holds_when_its_lease_is_over() {
        let mut device = moving();
        device.apply(&point());
        steps(&mut device, 20);
        assert!(device.is_enabled() && speed(&device) > 0.05);
        steps(&mut device, 500);
        assert!(!device.is_enabled() && speed(&device) < 1e-4, "{device:?}");
        let place = device.robot().position();
        device.apply(&point());
        device.measure();
        assert!((device.robot().position()[0] - place[0]).abs() < 1e-6, "nobody resumed");
    }

    #[test]
    fn time_in_which_nobody_simulated_counts_for_the_lease() {
        let mut device = moving();
        device.apply(&point());
        device.skip(MS * 49);
        assert!(device.is_enabled());
        device.skip(MS);
        assert!(!device.is_enabled());
    }

    #[test]
    fn feedback_keeps_its_rate_whatever_the_period() {
        let every = |interval: u64| {
            let mut device = SimulatedArm { feedback: Pace::new(Some(MS * interval / 2)), ..moving() };
            let told = (0..1_000).filter(|_| {
                device.measure();
                device.feeds_back()
            });
            told.count()
        };
        // Every 0.5 ms cannot be had; 1 ms, 1.5 ms and 2.5 ms, the first at once.
        assert_eq!([every(1), every(2), every(3), every(5)], [1_000, 1_000, 667, 401]);
        let mut silent = SimulatedArm { feedback: Pace::new(None), ..moving() };
        silent.measure();
        assert!(!silent.feeds_back());
    }
}
