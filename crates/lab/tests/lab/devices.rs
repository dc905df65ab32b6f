//! Devices of a program's own at the ends of a simulated session.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use taut_agent::{
    DeviceFailure, DeviceMessage, Lease, Measured, OperatorDevice, Resume, RobotDevice, Sample, SetPoint,
};
use taut_core::{Bitrate, Duration, Seed, Time};
use taut_lab::hand::SimulatedHand;
use taut_lab::job::run_json;
use taut_lab::robot::SimulatedArm;
use taut_lab::run::{Devices, RunClock, run, run_devices};
use taut_lab::scenario::Scenario;
use taut_report::result::{ControlResult, RunResult};
use taut_session::motion::Motion;
use taut_session::{ChannelId, MotionLimits, State, StopCause};

const SCENARIO: &str = r#"title = "devices of one's own"
duration = "2s"
drain = "1s"

[links.there]
from = "operator"
to = "robot"
chain = [{ delay = "10ms" }, { jitter = { distribution = "uniform", mean = "2ms", spread = "2ms" } }, { loss = { bernoulli = "1%" } }]

[links.back]
from = "robot"
to = "operator"
chain = [{ delay = "10ms" }, { loss = { bernoulli = "1%" } }]

[teleop]
operator = "operator"
robot = "robot"
feedback = 500
"#;

fn scenario() -> Scenario {
    Scenario::parse("devices.toml", SCENARIO).unwrap_or_else(|error| panic!("{error}"))
}

/// What was called, and when.
type Log = Rc<RefCell<Vec<(Time, String)>>>;

/// A gripper that is at once where it is told to be, and holds still when its lease is over.
struct Gripper {
    clock: RunClock,
    lease: Lease,
    state: State,
    log: Log,
}

impl Gripper {
    fn log(&self, what: impl Into<String>) {
        self.log.borrow_mut().push((self.clock.now(), what.into()));
    }
}

impl RobotDevice for Gripper {
    fn period(&self) -> Duration {
        Duration::from_secs(1) // The scenario's counts.
    }
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        self.lease.enable();
        Ok(())
    }
    fn apply(&mut self, point: &SetPoint) -> bool {
        let follows = self.lease.grant(self.clock.now(), point.lease);
        if follows {
            self.state = State { force: [0.0, 0.0, 1.5], ..point.state };
            self.log(format!("apply {:?}", point.state.position));
        }
        follows
    }
    fn drive(&mut self, _: ChannelId, _: &Motion, _: Duration) -> bool {
        false
    }
    fn stop(&mut self, cause: StopCause) {
        self.lease.stop();
        self.log(format!("stop {}", cause.name()));
    }
    fn measure(&mut self) -> Option<Measured> {
        self.log("measure");
        Some(Measured { state: self.state, controller_force: None, feedback: None })
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
        false
    }
    fn is_real(&self) -> bool {
        false
    }
}

/// A hand that moves along x with time.
struct Slide {
    clock: RunClock,
    log: Log,
}

impl OperatorDevice for Slide {
    fn sample(&mut self, now: Time) -> Option<Sample> {
        let run = self.clock.now();
        let position = [run.as_nanos() as f32 / 1e10, 0.0, 0.0];
        Some(Sample { state: State { position, ..State::at(now) }, reading: 1 + run.as_nanos() / 1_000_000 })
    }
    fn skip(&mut self, periods: u64) -> u64 {
        periods
    }
    fn resumed(&mut self, _: Resume) {
        self.log.borrow_mut().push((self.clock.now(), "resumed".to_owned()));
    }
    fn feel(&mut self, _: Time, state: &State) {
        self.log.borrow_mut().push((self.clock.now(), format!("feel {:?}", state.force)));
    }
    fn lost(&mut self) {
        self.log.borrow_mut().push((self.clock.now(), "lost".to_owned()));
    }
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: Bitrate) {}
    fn poll_message(&mut self, _: Time) -> Option<DeviceMessage> {
        None
    }
}

fn of_own(seed: u64, limits: Option<MotionLimits>) -> (RunResult, Vec<(Time, String)>) {
    let (clock, log) = (RunClock::default(), Log::default());
    let state = State::at(Time::ZERO);
    let gripper = Gripper { clock: clock.clone(), lease: Lease::default(), state, log: log.clone() };
    let slide = Slide { clock: clock.clone(), log: log.clone() };
    let devices = Devices {
        operator: Some(Box::new(slide)),
        robot: Some(Box::new(gripper)),
        coupling: None,
        limits,
        clock,
    };
    let run = run_devices(&scenario(), Seed::new(seed), devices, &mut |_| ControlFlow::Continue(()));
    let run = run.unwrap_or_else(|error| panic!("{error}")).expect("nobody broke it off");
    (run, log.take())
}

fn control(run: &RunResult) -> &ControlResult {
    run.teleop.as_ref().and_then(|teleop| teleop.control.as_ref()).expect("it moved")
}

#[test]
fn a_run_of_own_devices_is_a_function_of_the_seed_call_by_call() {
    let ((first, calls), (again, same), (other, others)) =
        (of_own(7, None), of_own(7, None), of_own(8, None));
    assert_eq!(run_json(&first).unwrap(), run_json(&again).unwrap());
    assert!(calls == same && calls != others);
    assert_ne!(run_json(&first).unwrap(), run_json(&other).unwrap());
    assert!(first.conservation.holds, "{:?}", first.conservation.violations);
    assert!(calls.iter().zip(&calls[1..]).all(|(a, b)| a.0 <= b.0), "time never goes back");
}

#[test]
fn own_devices_are_asked_as_the_scenario_says_and_stopped_at_its_end() {
    let (run, calls) = of_own(7, None);
    let count = |what: &str| calls.iter().filter(|(_, call)| call.starts_with(what)).count();
    assert!((1_900..=2_000).contains(&count("apply")), "{}", count("apply"));
    assert!((2_900..=3_001).contains(&count("measure")), "3 s in steps of 1 ms: {}", count("measure"));
    assert!((900..=1_001).contains(&count("feel")), "500 a second: {}", count("feel"));
    assert!(count("stop") >= 1 && calls.iter().any(|(_, call)| call == "feel [0.0, 0.0, 1.5]"));
    let applied = calls.iter().filter(|(_, call)| call.starts_with("apply"));
    assert!(applied.clone().all(|(at, _)| *at < Time::ZERO + Duration::from_millis(2_100)));
    let teleop = run.teleop.as_ref().unwrap();
    assert_eq!(teleop.own_devices, ["operator", "robot"]);
    let control = control(&run);
    assert!(control.touch.is_none() && control.environment == "its own");
    assert!((control.force_max_n - 1.5).abs() < 1e-6 && control.force_error_rms_n < Some(0.5), "{control:?}");
}

#[test]
fn limits_hold_in_the_simulator_as_they_do_at_a_robot() {
    let limits = MotionLimits::new().position([-0.05; 3], [0.05; 3]).velocity(1.0).force(20.0);
    let (_, calls) = of_own(7, Some(limits));
    let applied = calls.iter().filter_map(|(_, call)| call.strip_prefix("apply ["));
    let x = applied.map(|rest| rest.split(',').next().unwrap().parse::<f32>().unwrap());
    let largest = x.fold(0.0f32, f32::max);
    assert!((0.0499..=0.05001).contains(&largest), "{largest}");
}

#[test]
fn the_simulated_devices_as_own_ones_give_the_run_that_they_give() {
    let (scenario, seed) = (scenario(), Seed::new(3));
    let teleop = scenario.teleop.as_ref().unwrap();
    let hand = SimulatedHand::of_run(teleop, seed);
    let arm = SimulatedArm::of_run(teleop, seed, hand.position());
    let devices =
        Devices { operator: Some(Box::new(hand)), robot: Some(Box::new(arm)), ..Devices::default() };
    let own = run_devices(&scenario, seed, devices, &mut |_| ControlFlow::Continue(())).unwrap().unwrap();
    let simulated = run(&scenario, seed, &mut |_| {}).unwrap();
    assert_eq!(own.media, simulated.media);
    assert_eq!(own.flows, simulated.flows);
    let (own, simulated) = (control(&own), control(&simulated));
    assert_eq!(own.tracking_rms_mm.to_bits(), simulated.tracking_rms_mm.to_bits());
    let force = |control: &ControlResult| control.force_error_rms_n.unwrap();
    assert!((force(own) - force(simulated)).abs() < 1e-3, "{own:?} {simulated:?}");
}

#[test]
fn a_caller_breaks_a_run_off() {
    let mut told = 0;
    let mut first = |_| {
        told += 1;
        ControlFlow::Break(())
    };
    let done = run_devices(&scenario(), Seed::new(1), Devices::default(), &mut first);
    assert!(matches!(done, Ok(None)) && told == 1);
}

#[test]
fn a_led_hand_feels_less_than_its_twin_without_a_network_and_no_device_of_ones_own_is_led() {
    let text = SCENARIO.replace("duration = \"2s\"", "duration = \"22s\"")
        + "led = true\ndevice_force = 40.0\nenvironment = \"wall\"\nlaw = { wave = {} }\n";
    let scenario = Scenario::parse("led.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let result = run(&scenario, Seed::new(1), &mut |_| {}).unwrap();
    let control = control(&result);
    let (felt, twin) = (control.felt.unwrap(), control.felt_twin.unwrap());
    // 1500 N/m of a wall behind the arm, k/(1 + kT/(2b)) of them over some 25 ms.
    assert!((1_300.0..1_600.0).contains(&twin.slow_n_m), "{twin:?}");
    assert!((400.0..1_100.0).contains(&felt.slow_n_m) && felt.skipped_percent == 0.0, "{felt:?}");
    assert!(control.touch.as_ref().unwrap().calm.is_none());
    let hand = SimulatedHand::new(Seed::new(1), Duration::from_millis(1));
    let devices = Devices { operator: Some(Box::new(hand)), ..Devices::default() };
    let refused = run_devices(&scenario, Seed::new(1), devices, &mut |_| ControlFlow::Continue(()));
    assert!(refused.unwrap_err().to_string().contains("teleop.led"));
}

#[test]
fn without_a_session_own_devices_are_refused() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/demo.toml");
    let without = Scenario::read(&path).unwrap_or_else(|error| panic!("{error}"));
    let seed = Seed::new(1);
    let hand = SimulatedHand::new(seed, Duration::from_millis(1));
    let devices = Devices { operator: Some(Box::new(hand)), ..Devices::default() };
    let refused = run_devices(&without, seed, devices, &mut |_| ControlFlow::Continue(()));
    assert!(refused.unwrap_err().to_string().contains("[teleop]"));
}

#[test]
fn through_the_encoder_of_an_arm_a_session_hears_steps_and_a_late_velocity() {
    let control = |law: &str, arm: &str| {
        let text = format!("{SCENARIO}environment = \"free\"\nlaw = \"{law}\"\narm = {{ {arm} }}\n");
        let scenario = Scenario::parse("arm.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        control(&run(&scenario, Seed::new(1), &mut |_| {}).unwrap()).clone()
    };
    // In free motion the bodies move alike: what differs is how the arm is read, by up to half a step along each axis.
    let [exact, stepped] = ["", "encoder = 0.005"].map(|arm| control("position_force", arm));
    let squares =
        stepped.tracking_rms_mm * stepped.tracking_rms_mm - exact.tracking_rms_mm * exact.tracking_rms_mm;
    assert!((1.0..8.0).contains(&squares), "{exact:?} {stepped:?}");
    assert!(stepped.tracking_max_mm < exact.tracking_max_mm + 2.5 * 3.0f64.sqrt() + 1e-6);
    // A velocity that comes late is another force on the hand.
    let [exact, late] = ["", "velocity_filter = \"100ms\""].map(|arm| control("position_position", arm));
    let force = |control: &ControlResult| control.force_error_rms_n.unwrap();
    assert!((force(&late) - force(&exact)).abs() > 0.02 * force(&exact), "{exact:?} {late:?}");
}
