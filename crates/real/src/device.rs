//! The robot of the simulations, as a device beside a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use taut_core::{Duration, Time};
use taut_io::device::{DeviceFailure, Lease, Measured, Plant, SetPoint, Stopper};
use taut_lab::robot::SimulatedRobot;
use taut_session::{State, StopCause};

/// A [`SimulatedRobot`] that keeps its lease by its own time, of which every step is one period. It holds when that is over,
/// and when it is told to stop.
#[derive(Debug)]
pub struct SimulatedDevice {
    robot: SimulatedRobot,
    period: Duration,
    now: Time,
    lease: Lease,
    pressed: Arc<Pressed>,
}

/// Somebody stopped it, from whatever thread; it looks before it moves.
#[derive(Debug, Default)]
struct Pressed(AtomicBool);

impl Stopper for Pressed {
    fn stop(&self, _: StopCause) {
        self.0.store(true, Ordering::Release);
    }
}

impl SimulatedDevice {
    /// At rest, waiting to be enabled.
    pub fn new(robot: SimulatedRobot, period: Duration) -> Self {
        let pressed = Arc::new(Pressed::default());
        Self { robot, period, now: Time::ZERO, lease: Lease::default(), pressed }
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

    /// Does what stops it. True when it moved until now.
    fn look(&mut self) -> bool {
        let pressed = self.pressed.0.swap(false, Ordering::AcqRel) && self.lease.stop();
        let stops = self.lease.expire(self.now) || pressed;
        if stops {
            self.robot.hold();
        }
        stops
    }
}

impl Plant for SimulatedDevice {
    fn period(&self) -> Duration {
        self.period
    }

    fn enable(&mut self) {
        self.look();
        self.lease.enable();
    }

    fn apply(&mut self, point: &SetPoint) {
        self.look();
        if self.lease.grant(self.now, point.lease) {
            let SetPoint { state, .. } = point;
            self.robot.follow(state.position.map(f64::from), state.velocity.map(f64::from));
        }
    }

    fn stop(&mut self, _: StopCause) {
        self.lease.stop();
        self.robot.hold();
    }

    fn step(&mut self) -> Option<Measured> {
        self.look();
        self.robot.step(self.period);
        self.now += self.period;
        let single = |vector: [f64; 3]| vector.map(|part| part as f32);
        let state = State {
            position: single(self.robot.position()),
            velocity: single(self.robot.velocity()),
            force: single(self.robot.force()),
            ..State::at(Time::ZERO)
        };
        Some(Measured { state, controller_force: Some(single(self.robot.controller_force())) })
    }

    fn feeds_back(&mut self) -> bool {
        true
    }

    fn failure(&mut self) -> Option<DeviceFailure> {
        None
    }

    fn stopper(&self) -> Arc<dyn Stopper> {
        Arc::clone(&self.pressed) as Arc<dyn Stopper>
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
    use taut_lab::scenario::Environment;

    const MS: Duration = Duration::from_millis(1);

    fn moving() -> SimulatedDevice {
        let robot = SimulatedRobot::new(&Environment::Free, SimulatedRobot::REST);
        let mut device = SimulatedDevice::new(robot, MS);
        device.enable();
        device
    }

    fn point() -> SetPoint {
        let state = State { velocity: [0.2, 0.0, 0.0], ..State::at(Time::ZERO) };
        SetPoint { state, lease: MS * 50 }
    }

    fn steps(device: &mut SimulatedDevice, count: u32) {
        for _ in 0..count {
            assert!(device.step().is_some());
        }
    }

    fn speed(device: &SimulatedDevice) -> f64 {
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
        device.step();
        assert!((device.robot().position()[0] - place[0]).abs() < 1e-6, "nobody resumed");
    }

    #[test]
    fn a_stop_from_another_thread_holds_against_what_is_applied_at_that_moment() {
        let mut device = moving();
        let stopper = device.stopper();
        device.apply(&point());
        std::thread::spawn(move || stopper.stop(StopCause::Watchdog)).join().unwrap();
        device.apply(&point());
        assert!(!device.is_enabled());
        device.enable();
        device.apply(&point());
        assert!(device.is_enabled());
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
}
