//! A device that blocks the session's thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration as StdDuration;

use taut_agent::{
    DeviceFailure, DeviceMessage, Measured, OperatorCommand, OperatorSettings, Playback, ResumePolicy,
    RobotCommand, RobotDevice, RobotNote, SetPoint,
};
use taut_core::{Duration, Time};
use taut_io::device::{Stoppable, Stopper};
use taut_io::session::{Endpoint, OperateConfig, Remote, RobotMachine, StackSpec, Told, operate, serve};
use taut_io::{Clock, Driver, DriverConfig};
use taut_session::motion::Motion;
use taut_session::{ChannelId, OperatorConfig, RobotConfig, State, StopCause};
use taut_transport::udp::UdpConfig;

/// What the device did.
struct Seen {
    stops: Mutex<Sender<(StopCause, bool)>>,
    blocks: AtomicBool,
    applied: AtomicU64,
}

impl Stopper for Seen {
    fn stop(&self, cause: StopCause) {
        let blocks = self.blocks.load(Ordering::SeqCst);
        let _ = self.stops.lock().unwrap().send((cause, blocks));
    }
}

/// Blocks in the tenth set point until it is let go.
struct Blocking {
    seen: Arc<Seen>,
    go: Receiver<()>,
}

impl Stoppable for Blocking {
    fn stopper(&self) -> Arc<dyn Stopper> {
        Arc::clone(&self.seen) as Arc<dyn Stopper>
    }
}

impl RobotDevice for Blocking {
    fn period(&self) -> Duration {
        Duration::from_millis(1)
    }
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        Ok(())
    }
    fn apply(&mut self, point: &SetPoint) -> bool {
        assert!(point.lease <= WATCHDOG && !point.lease.is_zero(), "{point:?}");
        if self.seen.applied.fetch_add(1, Ordering::SeqCst) == 9 {
            self.seen.blocks.store(true, Ordering::SeqCst);
            self.go.recv().unwrap();
            self.seen.blocks.store(false, Ordering::SeqCst);
        }
        true
    }
    fn drive(&mut self, _: ChannelId, _: &Motion, _: Duration) -> bool {
        false
    }
    fn stop(&mut self, cause: StopCause) {
        self.seen.stop(cause);
    }
    fn measure(&mut self) -> Option<Measured> {
        Some(Measured { state: State::at(Time::ZERO), controller_force: None, feedback: None })
    }
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: taut_core::Bitrate) {}
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
        false
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

/// Longer than a busy machine lets a thread wait.
const WATCHDOG: Duration = Duration::from_secs(2);
const PATIENCE: StdDuration = StdDuration::from_secs(30);

/// The operator's end, until it is told to close.
fn steer(
    remote: std::net::SocketAddr,
    clock: Clock,
    started: Sender<Remote<taut_io::session::OperatorMachine<Still>>>,
) {
    let endpoint = Endpoint::connect(StackSpec::Udp(UdpConfig::new()), remote, None, &clock).unwrap();
    let driver = Driver::new(DriverConfig::new()).unwrap().with_clock(clock);
    let agent = OperatorSettings::new(Duration::from_millis(2)).resumes(ResumePolicy::Start);
    let config = OperateConfig::new(OperatorConfig::new(), agent);
    let started = |remote| started.send(remote).unwrap();
    let _ = operate(driver, &endpoint, config, still(), started, &mut |_, _| {});
}

type Still = Playback<std::iter::Repeat<State>>;

/// A hand that stays where it is.
fn still() -> Still {
    Playback::new(std::iter::repeat(State::at(Time::ZERO)))
}

#[test]
fn a_device_that_blocks_the_session_is_stopped_within_the_watchdogs_time_until_a_resume() {
    let clock = Clock::start();
    let (stop_sender, stops) = channel();
    let (go, blocked) = channel();
    let (notes_sender, notes) = channel();
    let seen = Arc::new(Seen {
        stops: Mutex::new(stop_sender),
        blocks: AtomicBool::new(false),
        applied: AtomicU64::new(0),
    });
    let plant = Blocking { seen: Arc::clone(&seen), go: blocked };
    let udp = StackSpec::Udp(UdpConfig::new());
    let endpoint = Endpoint::listen(udp, "127.0.0.1:0".parse().unwrap(), None, &clock).unwrap();
    let address = endpoint.local_addr().unwrap();
    let (sender, remotes) = channel::<Remote<RobotMachine<Blocking>>>();
    let robot_end = std::thread::spawn(move || {
        let driver = Driver::new(DriverConfig::new()).unwrap().with_clock(clock);
        let started = |remote| sender.send(remote).unwrap();
        let tell = &mut |_, note| drop(notes_sender.send(note));
        serve(driver, &endpoint, RobotConfig::new().watchdog(WATCHDOG).into(), plant, started, tell).unwrap();
    });
    let robot = remotes.recv().unwrap();
    let (sender, remotes) = channel();
    let operator_end = std::thread::spawn(move || steer(address, clock, sender));
    let operator = remotes.recv().unwrap();
    // The session's thread waits in the device; somebody else stopped it.
    assert_eq!(stops.recv_timeout(PATIENCE), Ok((StopCause::Watchdog, true)));
    let applied = seen.applied.load(Ordering::SeqCst);
    go.send(()).unwrap();
    let why = loop {
        if let Told::Note(RobotNote::Stopped { why, .. }) = notes.recv_timeout(PATIENCE).unwrap() {
            break why;
        }
    };
    assert_eq!(why, StopCause::Watchdog);
    std::thread::park_timeout(StdDuration::from_millis(300));
    assert_eq!(seen.applied.load(Ordering::SeqCst), applied, "nobody resumed");
    operator.send(OperatorCommand::Resume);
    let end = clock.now() + Duration::from_secs(30);
    while seen.applied.load(Ordering::SeqCst) == applied {
        assert!(clock.now() < end, "a resume moves it again");
        std::thread::park_timeout(StdDuration::from_millis(5));
    }
    operator.send(OperatorCommand::Close);
    robot.send(RobotCommand::Close);
    operator_end.join().unwrap();
    robot_end.join().unwrap();
    // With the session's end the device was stopped, whatever else had happened.
    let last = stops.try_iter().last();
    assert_eq!(last.map(|(cause, _)| cause), Some(StopCause::Host));
}

#[test]
fn a_device_is_stopped_when_its_session_panics() {
    let clock = Clock::start();
    let (stop_sender, stops) = channel();
    let (_go, blocked) = channel();
    let seen = Arc::new(Seen {
        stops: Mutex::new(stop_sender),
        blocks: AtomicBool::new(false),
        applied: AtomicU64::new(0),
    });
    let plant = Blocking { seen, go: blocked };
    let udp = StackSpec::Udp(UdpConfig::new());
    let endpoint = Endpoint::listen(udp, "127.0.0.1:0".parse().unwrap(), None, &clock).unwrap();
    let session = std::thread::spawn(move || {
        let driver = Driver::new(DriverConfig::new()).unwrap().with_clock(clock);
        let started = |_: Remote<RobotMachine<Blocking>>| panic!("on purpose");
        let _ = serve(driver, &endpoint, RobotConfig::new().into(), plant, started, &mut |_, _| {});
    });
    assert!(session.join().is_err());
    assert_eq!(stops.try_recv(), Ok((StopCause::Host, false)));
}
