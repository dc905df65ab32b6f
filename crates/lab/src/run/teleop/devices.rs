//! Devices at the ends of a simulated session: the simulated ones, or the caller's own. Each ends as the scenario says.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use taut_agent::{
    Coupling, DeviceFailure, DeviceMessage, Measured, OperatorDevice, RobotDevice, Sample, SetPoint,
};
use taut_core::{Bitrate, Duration, Seed, Time};
use taut_session::motion::Motion;
use taut_session::{ChannelId, Direction, MotionLimits, RobotConfig, StopCause};

use super::reserves::{Reserves, TellingArm, TellingHand};
use crate::generator::Generators;
use crate::hand::SimulatedHand;
use crate::pace::Pace;
use crate::robot::SimulatedArm;
use crate::run::settings;
use crate::scenario::Teleop;

/// The time in a run, from its beginning on: the simulation's own, whatever the clocks of the two ends show.
#[derive(Clone, Debug, Default)]
pub struct RunClock(Rc<Cell<Time>>);

impl RunClock {
    /// While a device is called: when that is.
    pub fn now(&self) -> Time {
        self.0.get()
    }

    pub(super) fn advance(&self, now: Time) {
        self.0.set(self.0.get().max(now));
    }
}

/// The caller's own devices at the ends of a `[teleop]` session, as they are at the ends of a real one. Where there is none, the simulated
/// hand or arm is.
///
/// They are asked at the scenario's `period`, and end with its `duration` or after its `messages`. What the scenario's channels carry is
/// made for them, and a device may send more. A run is as reproducible as they are: they must take time from [`clock`](Self::clock) alone,
/// and chance from a seed.
#[derive(Default)]
pub struct Devices {
    /// In place of the simulated hand.
    pub operator: Option<Box<dyn OperatorDevice>>,
    /// In place of the simulated arm and of what that touches.
    pub robot: Option<Box<dyn RobotDevice>>,
    /// What the robot lets itself be told. Default: anything.
    pub limits: Option<MotionLimits>,
    /// How both ends are coupled. Default: by the scenario's law, over the simulated arm's controller.
    pub coupling: Option<Coupling>,
    /// What they may read the time from: give them copies of it.
    pub clock: RunClock,
}

impl Devices {
    /// The ends that have devices of their own, by their names in results.
    pub(in crate::run) fn own(&self) -> Vec<String> {
        let ends = [("operator", self.operator.is_some()), ("robot", self.robot.is_some())];
        ends.into_iter().filter(|(_, own)| *own).map(|(end, _)| end.to_owned()).collect()
    }
}

impl fmt::Debug for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Devices")
            .field("own", &self.own())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// The devices of both ends, which end together.
pub(super) struct Ends {
    devices: Devices,
    over: Over,
    reserves: Reserves,
}

impl Ends {
    pub(super) fn new(devices: Devices, reserves: Reserves) -> Self {
        Self { devices, over: Over::default(), reserves }
    }

    fn coupling(&self, teleop: &Teleop) -> Option<Coupling> {
        self.devices.coupling.or_else(|| settings::coupling(teleop))
    }

    pub(super) fn clock(&self) -> RunClock {
        self.devices.clock.clone()
    }

    /// What is in the operator's hand, whose clock reads `until` at the end.
    pub(super) fn hand(&mut self, teleop: &Teleop, seed: Seed, until: Time) -> Hand {
        let (period, left, over) = (teleop.period, teleop.messages, self.over.clone());
        let (device, generators) = match self.devices.operator.take() {
            Some(own) => (own, Generators::new(teleop, seed, Direction::ToRobot)),
            None => (Box::new(SimulatedHand::of_run(teleop, seed)) as _, Generators::default()),
        };
        let device = match self.coupling(teleop) {
            Some(coupling) => {
                let hand = coupling.hand(device, period, settings::most(teleop));
                Box::new(TellingHand(hand, self.reserves.clone())) as _
            }
            None => device,
        };
        Hand { device, period, left, until, over, reading: 0, generators }
    }

    /// What moves; the simulated one begins where the simulated hand does.
    pub(super) fn arm(&mut self, teleop: &Teleop, seed: Seed) -> Arm {
        let (own, over) = (self.devices.robot.take(), self.over.clone());
        let guest = own.is_some().then(|| Guest {
            period: teleop.period,
            feedback: Pace::per_second(teleop.feedback),
            generators: Generators::new(teleop, seed, Direction::ToOperator),
            clock: self.clock(),
        });
        let simulated = || {
            let begins_at = SimulatedHand::of_run(teleop, seed).position();
            Box::new(SimulatedArm::of_run(teleop, seed, begins_at)) as _
        };
        let device = own.unwrap_or_else(simulated);
        let device = match self.coupling(teleop) {
            Some(coupling) => {
                let limits = self.devices.limits.unwrap_or_default();
                let arm = coupling.arm(device, limits, teleop.watchdog);
                Box::new(TellingArm(arm, self.reserves.clone())) as _
            }
            None => device,
        };
        Arm { device, over, guest }
    }

    /// The robot's session.
    pub(super) fn robot(&self, teleop: &Teleop) -> RobotConfig {
        let robot = settings::robot(teleop);
        // The scenario's own rate is what is studied.
        self.devices.limits.into_iter().fold(robot, |robot, limits| robot.limits(limits.rate(f32::INFINITY)))
    }
}

/// Is set with the operator's last state: what comes back ends with what goes there.
type Over = Rc<Cell<bool>>;

/// What is in the operator's hand, until the scenario's end. Beside one of the caller's own it makes what the scenario's channels carry.
pub(super) struct Hand {
    device: Box<dyn OperatorDevice>,
    period: Duration,
    /// States that are still to be made.
    left: Option<u64>,
    /// On the operator's clock.
    until: Time,
    over: Over,
    reading: u64,
    generators: Generators,
}

impl OperatorDevice for Hand {
    taut_agent::forward_operator_device!(self, self.device => skip resumed feel lost receive);
    fn sample(&mut self, now: Time) -> Option<Sample> {
        let goes_on = self.left != Some(0) && now < self.until;
        let sample = if goes_on { self.device.sample(now) } else { None };
        let is_new = sample
            .is_some_and(|sample| std::mem::replace(&mut self.reading, sample.reading) != sample.reading);
        self.left = self.left.map(|left| left - u64::from(is_new));
        if sample.is_none() || self.left == Some(0) || now + self.period >= self.until {
            self.over.set(true);
        }
        sample
    }
    fn limit_bitrate(&mut self, rate: Bitrate) {
        self.generators.limit(rate);
        self.device.limit_bitrate(rate);
    }
    fn poll_message(&mut self, now: Time) -> Option<DeviceMessage> {
        if self.over.get() {
            return None;
        }
        self.device.poll_message(now).or_else(|| self.generators.poll(now))
    }
}

/// What moves, until the operator's end.
pub(super) struct Arm {
    device: Box<dyn RobotDevice>,
    over: Over,
    guest: Option<Guest>,
}

/// What the scenario says of a device of the caller's own: how often it is asked and tells of itself, and what its channels carry.
struct Guest {
    period: Duration,
    feedback: Pace,
    generators: Generators,
    clock: RunClock,
}

impl RobotDevice for Arm {
    fn period(&self) -> Duration {
        self.guest.as_ref().map_or_else(|| self.device.period(), |guest| guest.period)
    }
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
        if let Some(guest) = &mut self.guest {
            guest.feedback.pass(guest.period);
        }
        self.device.measure()
    }
    fn receive(&mut self, channel: ChannelId, age: Option<Duration>, payload: &[u8]) {
        self.device.receive(channel, age, payload);
    }
    fn limit_bitrate(&mut self, rate: Bitrate) {
        if let Some(guest) = &mut self.guest {
            guest.generators.limit(rate);
        }
        self.device.limit_bitrate(rate);
    }
    fn poll_message(&mut self) -> Option<DeviceMessage> {
        if self.over.get() {
            return None;
        }
        let own = self.device.poll_message();
        own.or_else(|| self.guest.as_mut().and_then(|guest| guest.generators.poll(guest.clock.now())))
    }
    fn feeds_back(&mut self) -> bool {
        let due = !self.over.get() && self.guest.as_mut().is_none_or(|guest| guest.feedback.take());
        due && self.device.feeds_back()
    }
    fn failure(&mut self) -> Option<DeviceFailure> {
        self.device.failure()
    }
    fn lease(&self) -> bool {
        self.device.lease()
    }
    fn stiffness(&self) -> Option<f32> {
        self.device.stiffness()
    }
    fn limit_force(&mut self, newtons: f32) -> bool {
        self.device.limit_force(newtons)
    }
    fn is_real(&self) -> bool {
        self.device.is_real()
    }
}
