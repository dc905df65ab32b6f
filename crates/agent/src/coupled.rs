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

#[cfg(test)]
mod tests {
    use taut_control::Wave;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SERVO: Servo = Servo { stiffness: 3_000.0, damping: 45.0 };

    /// An arm that goes where it is told, at once.
    #[derive(Default)]
    struct Obedient {
        state: Option<State>,
        told: u32,
        stops: u32,
    }

    impl RobotDevice for Obedient {
        fn period(&self) -> Duration {
            MS
        }
        fn enable(&mut self) -> Result<(), DeviceFailure> {
            Ok(())
        }
        fn apply(&mut self, point: &SetPoint) -> bool {
            (self.state, self.told) = (Some(point.state), self.told + 1);
            true
        }
        fn drive(&mut self, _: ChannelId, _: &Motion, _: Duration) -> bool {
            false
        }
        fn stop(&mut self, _: StopCause) {
            self.stops += 1;
        }
        fn measure(&mut self) -> Option<Measured> {
            let state = self.state.unwrap_or(State::at(Time::ZERO));
            Some(Measured { state, controller_force: None, feedback: None })
        }
        fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
        fn limit_bitrate(&mut self, _: Bitrate) {}
        fn poll_message(&mut self) -> Option<DeviceMessage> {
            None
        }
        fn feeds_back(&mut self) -> bool {
            true
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

    /// One that moves by waves, and how often it is told where to go in so many periods.
    fn moving() -> CoupledArm<Obedient> {
        let mut arm = CoupledArm::new(Obedient::default(), Law::Wave(Wave::default()), SERVO);
        arm.measure();
        arm.enable().unwrap();
        let state = State { velocity: [0.1, 0.0, 0.0], energy: Some(0.01), ..State::at(Time::ZERO) };
        assert!(arm.apply(&SetPoint { state, lease: MS * 20 }));
        arm
    }

    fn told(arm: &mut CoupledArm<Obedient>, periods: u32) -> u32 {
        let before = arm.device.told;
        (0..periods).for_each(|_| assert!(arm.measure().is_some()));
        arm.device.told - before
    }

    #[test]
    fn an_arm_is_led_between_set_points_for_its_lease_and_no_longer() {
        let mut arm = moving();
        assert_eq!(told(&mut arm, 19), 19);
        assert!(arm.device.state.is_some_and(|state| state.position[0] > 0.0), "it moves");
        assert!(told(&mut arm, 100) <= 1, "nothing leads it when nothing more is heard");
        let state = State { energy: Some(0.02), ..State::at(Time::ZERO) };
        assert!(!arm.apply(&SetPoint { state, lease: MS * 20 }), "nobody enabled it again");
    }

    #[test]
    fn a_stop_reaches_the_device_and_nothing_leads_it_until_it_is_enabled() {
        let mut arm = moving();
        assert_eq!(told(&mut arm, 5), 5);
        arm.stop(StopCause::Watchdog);
        assert_eq!((arm.device.stops, told(&mut arm, 50)), (1, 0));
        arm.enable().unwrap();
        assert_eq!(told(&mut arm, 50), 0, "what was heard before the stop is gone");
    }

    #[test]
    fn what_goes_back_under_a_passive_law_says_its_energy() {
        let mut arm = moving();
        let feedback = arm.measure().and_then(|measured| measured.feedback);
        assert!(feedback.is_some_and(|state| state.energy.is_some()));
    }
}
