//! Channels over real sockets, under keys: a camera's frames, a battery, and joints that move.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration as StdDuration, Instant};

use taut_agent::{
    DeviceFailure, DeviceMessage, Measured, OperatorCommand, OperatorNote, OperatorSettings, ResumePolicy,
    RobotCommand, RobotDevice, RobotNote, SetPoint,
};
use taut_core::{Duration, Time};
use taut_io::device::{Stoppable, Stopper};
use taut_io::session::{
    Credentials, Endpoint, OperateConfig, OperatorMachine, Remote, RobotMachine, StackSpec, Told, operate,
    os_identity, serve,
};
use taut_io::{Clock, Driver, DriverConfig};
use taut_session::motion::{JointLimits, Joints, JointsLimits, Motion, Schema as MotionSchema};
use taut_session::{
    Channel, ChannelEvent, ChannelId, ChannelKind, Direction, Encoding, OperatorConfig, OperatorEvent,
    RobotConfig, Schema, State, StopCause,
};
use taut_transport::identity::Trust;
use taut_transport::quic::QuicConfig;
use taut_transport::udp::UdpConfig;

const CAMERA: ChannelId = ChannelId(0);
const ARM: ChannelId = ChannelId(1);
const PATIENCE: StdDuration = StdDuration::from_secs(30);

/// Two joints, as they were told last.
#[derive(Clone, Default)]
struct Arm(Arc<Mutex<Vec<Joints>>>);

impl Stopper for Arm {
    fn stop(&self, _: StopCause) {}
}

impl Stoppable for Arm {
    fn stopper(&self) -> Arc<dyn Stopper> {
        Arc::new(self.clone())
    }
}

impl RobotDevice for Arm {
    fn period(&self) -> Duration {
        Duration::from_millis(5)
    }
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        Ok(())
    }
    fn apply(&mut self, _: &SetPoint) -> bool {
        false
    }
    fn drive(&mut self, channel: ChannelId, motion: &Motion, lease: Duration) -> bool {
        assert!(channel == ARM && !lease.is_zero());
        let Motion::Joints(joints) = motion else { panic!("the guard lets joints through") };
        self.0.lock().unwrap().push(joints.clone());
        true
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
        false
    }
    fn is_real(&self) -> bool {
        false
    }
}

fn channels() -> (Channel, Channel) {
    let schema = Schema::new("foxglove.CompressedVideo", Encoding::Protobuf);
    let camera = Channel::new("camera", Direction::ToOperator, ChannelKind::Video, schema)
        .deadline(Duration::from_secs(5));
    // A busy machine takes its time.
    let arm = Channel::motion_of("arm/servo_jp", MotionSchema::Joints).deadline(Duration::from_secs(5));
    (camera, arm)
}

/// A hand that does not move, and reads nothing new: no state of it is sent.
struct Resting;

impl taut_agent::OperatorDevice for Resting {
    fn sample(&mut self, now: Time) -> Option<taut_agent::Sample> {
        Some(taut_agent::Sample { state: State::at(now), reading: 0 })
    }
    fn skip(&mut self, periods: u64) -> u64 {
        periods
    }
    fn resumed(&mut self, _: taut_agent::Resume) {}
    fn feel(&mut self, _: Time, _: &State) {}
    fn lost(&mut self) {}
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: taut_core::Bitrate) {}
    fn poll_message(&mut self, _: Time) -> Option<DeviceMessage> {
        None
    }
}

/// The operator's end, until it is told to close; what comes over channels goes to `events`.
fn steer(
    endpoint: &Endpoint,
    clock: Clock,
    started: Sender<Remote<OperatorMachine<Resting>>>,
    events: &Sender<ChannelEvent>,
) {
    let driver = Driver::new(DriverConfig::new()).unwrap().with_clock(clock);
    let (camera, arm) = channels();
    let session = OperatorConfig::new().channel(camera).unwrap().channel(arm).unwrap();
    let agent = OperatorSettings::new(Duration::from_millis(5)).resumes(ResumePolicy::Always);
    let tell = &mut |_, told| {
        if let Told::Note(OperatorNote::Event(OperatorEvent::Channel(event))) = told {
            let _ = events.send(event);
        }
    };
    let started = |remote| started.send(remote).unwrap();
    let _ = operate(driver, endpoint, OperateConfig::new(session, agent), Resting, started, tell);
}

fn pictures_one_way_and_joints_the_other(spec: StackSpec) {
    let clock = Clock::start();
    let [own, peer] = [os_identity(), os_identity()];
    let [trusts_own, trusts_peer] = [&own, &peer].map(|identity| Trust::only(identity.fingerprint()));
    let robots = Credentials { identity: peer, trust: trusts_own };
    let endpoint =
        Endpoint::listen(spec.clone(), "127.0.0.1:0".parse().unwrap(), Some(robots), &clock).unwrap();
    let address = endpoint.local_addr().unwrap();
    let arm = Arm::default();
    let told = arm.clone();
    let (sender, robots) = channel::<Remote<RobotMachine<Arm>>>();
    let robot_end = std::thread::spawn(move || {
        let driver = Driver::new(DriverConfig::new()).unwrap().with_clock(clock);
        let (camera, servo) = channels();
        let limits = JointsLimits::all(2, JointLimits::new().velocity(1.0)).unwrap();
        let session = RobotConfig::new().channel(camera).unwrap().motion(servo, limits).unwrap();
        let session = session.watchdog(Duration::from_secs(5));
        let started = |remote| sender.send(remote).unwrap();
        serve(driver, &endpoint, session.into(), arm, started, &mut |_, _: Told<RobotNote>| {}).unwrap();
    });
    let robot = robots.recv().unwrap();
    let operators = Credentials { identity: own, trust: trusts_peer };
    let endpoint = Endpoint::connect(spec, address, Some(operators), &clock).unwrap();
    let (sender, operators) = channel();
    let (events, came): (Sender<ChannelEvent>, Receiver<ChannelEvent>) = channel();
    let operator_end = std::thread::spawn(move || steer(&endpoint, clock, sender, &events));
    let operator = operators.recv().unwrap();

    let picture: Vec<u8> = (0..60_000u32).map(|at| (at * 31 / 8) as u8).collect();
    let joints = |at: f32| Motion::Joints(Joints::new(&[at, -at]).unwrap());
    let (begin, mut pictures) = (Instant::now(), 0);
    while pictures < 3 || told.0.lock().unwrap().len() < 50 {
        assert!(
            begin.elapsed() < PATIENCE,
            "{pictures} pictures, {} of joints",
            told.0.lock().unwrap().len()
        );
        robot.send(RobotCommand::Measured { channel: ARM, motion: joints(0.0) });
        robot.send(RobotCommand::Send { channel: CAMERA, created: None, payload: picture.clone() });
        for _ in 0..10 {
            operator.send(OperatorCommand::Move { channel: ARM, motion: joints(0.1) });
            std::thread::park_timeout(StdDuration::from_millis(5));
        }
        for event in came.try_iter() {
            if let ChannelEvent::Received { channel: CAMERA, payload, .. } = event {
                assert!(payload == picture, "{} bytes", payload.len());
                pictures += 1;
            }
        }
    }
    let told = told.0.lock().unwrap().clone();
    assert!(told.iter().all(|joints| joints.position()[0] <= 0.1 && joints.position()[1] >= -0.1));
    operator.send(OperatorCommand::Close);
    robot.send(RobotCommand::Close);
    operator_end.join().unwrap();
    robot_end.join().unwrap();
}

#[test]
fn pictures_one_way_and_joints_the_other_over_udp() {
    pictures_one_way_and_joints_the_other(StackSpec::Udp(UdpConfig::new()));
}

#[test]
fn pictures_one_way_and_joints_the_other_over_quic() {
    pictures_one_way_and_joints_the_other(StackSpec::Quic(QuicConfig::new()));
}
