//! A whole session at both ends: devices, agents, sessions, and a transport between them.
//!
//! States go there and feedback comes back at 1 kHz each, independently: a round trip is the way of a state from when the operator's
//! device was asked to when the robot's was told, and that of what the robot measured.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use hdrhistogram::Histogram;
use taut_agent::{
    DeviceFailure, DeviceMessage, Measured, OperatorDevice, OperatorSettings, ResumePolicy, RobotCommand,
    RobotDevice, Sample, SetPoint,
};
use taut_core::{Duration, Seed, Time};
use taut_io::device::InProcess;
use taut_io::session::{Credentials, Endpoint, OperateConfig, ServeConfig, TransportKind, operate, serve};
use taut_io::{Clock, Driver, DriverConfig};
use taut_session::motion::Motion;
use taut_session::{ChannelId, OperatorConfig, RobotConfig, State, StopCause};
use taut_transport::identity::{Identity, Trust};

use crate::Outcome;
use crate::round_trips::Course;
use crate::site::{End, Site};

/// One way: when the last one was made, and how long each took.
struct Way {
    made: AtomicU64,
    took: Mutex<Histogram<u64>>,
}

impl Way {
    fn new() -> Outcome<Arc<Self>> {
        let took = Mutex::new(Histogram::new_with_bounds(1, 30_000_000_000, 3)?);
        Ok(Arc::new(Self { made: AtomicU64::new(0), took }))
    }

    fn made(&self, clock: &Clock) {
        self.made.store(clock.now().as_nanos(), Ordering::Release);
    }

    /// The first time that it is told of what was made last.
    fn came(&self, clock: &Clock) {
        let made = self.made.swap(0, Ordering::AcqRel);
        if made > 0 {
            let mut took = self.took.lock().unwrap_or_else(PoisonError::into_inner);
            took.saturating_record(clock.now().as_nanos().saturating_sub(made));
        }
    }

    fn p50(&self) -> u64 {
        self.took.lock().unwrap_or_else(PoisonError::into_inner).value_at_quantile(0.5)
    }
}

/// What both devices know.
#[derive(Clone)]
struct Ways {
    clock: Clock,
    there: Arc<Way>,
    back: Arc<Way>,
}

struct Hand {
    ways: Ways,
    left: u64,
}

impl OperatorDevice for Hand {
    fn sample(&mut self, now: Time) -> Option<Sample> {
        self.left = self.left.checked_sub(1)?;
        self.ways.there.made(&self.ways.clock);
        Some(Sample { state: State::at(now), reading: self.left + 1 })
    }
    fn skip(&mut self, periods: u64) -> u64 {
        let skipped = periods.min(self.left);
        self.left -= skipped;
        skipped
    }
    fn resumed(&mut self, _: taut_agent::Resume) {}
    fn feel(&mut self, _: Time, _: &State) {
        self.ways.back.came(&self.ways.clock);
    }
    fn lost(&mut self) {}
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: taut_core::Bitrate) {}
    fn poll_message(&mut self, _: Time) -> Option<DeviceMessage> {
        None
    }
}

struct Arm {
    ways: Ways,
    period: Duration,
}

impl RobotDevice for Arm {
    fn period(&self) -> Duration {
        self.period
    }
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        Ok(())
    }
    fn apply(&mut self, _: &SetPoint) -> bool {
        self.ways.there.came(&self.ways.clock);
        true
    }
    fn drive(&mut self, _: ChannelId, _: &Motion, _: Duration) -> bool {
        false
    }
    fn stop(&mut self, _: StopCause) {}
    fn measure(&mut self) -> Option<Measured> {
        self.ways.back.made(&self.ways.clock);
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

/// The medians of both ways together, of one session.
pub(crate) fn block(kind: TransportKind, site: &Site, course: Course) -> Outcome<u64> {
    let period = course.period.ok_or("a session has a period")?;
    let ways = Ways { clock: Clock::start(), there: Way::new()?, back: Way::new()? };
    let known = |name: &str, peer: &str| Credentials {
        identity: Identity::from_seed(Seed::new(1), name),
        trust: Trust::only(Identity::from_seed(Seed::new(1), peer).fingerprint()),
    };
    let busy = if course.spin { Duration::MAX } else { Duration::ZERO };
    let config = DriverConfig::new().busy_poll(busy);
    std::thread::scope(|scope| {
        let (tell, told) = sync_channel(1);
        let robot = ways.clone();
        let robot = scope.spawn(move || -> Outcome<()> {
            End::Server.pin();
            let (clock, arm) = (robot.clock, Arm { ways: robot, period });
            let listen =
                || Endpoint::listen(kind, ([0, 0, 0, 0], 0).into(), known("robot", "operator"), &clock);
            let endpoint = site.at_the_server(listen)??;
            let address = endpoint.local_addr()?;
            let config_of_session = ServeConfig::new(RobotConfig::new().watchdog(Duration::from_secs(5)));
            let started = |remote| drop(tell.send((remote, address)));
            let driver = Driver::new(config)?.with_clock(clock);
            serve(driver, &endpoint, config_of_session, InProcess::new(arm), started, &mut |_, _| {})?;
            Ok(())
        });
        let (remote, address) = told.recv().map_err(|_| "the robot did not start")?;
        let hand = ways.clone();
        let operator = scope.spawn(move || -> Outcome<()> {
            let (clock, hand) = (hand.clock, Hand { ways: hand, left: course.rounds });
            let to = site.to_the_server(address.port());
            let agent = OperatorSettings::new(period).resumes(ResumePolicy::Start).drains(Duration::ZERO);
            let session = OperateConfig::new(OperatorConfig::new(), agent);
            // TCP opens its socket only when it connects.
            site.at_the_client(|| -> Outcome<()> {
                End::Client.pin();
                let endpoint = Endpoint::connect(kind, to, known("operator", "robot"), &clock)?;
                let driver = Driver::new(config)?.with_clock(clock);
                operate(driver, &endpoint, session, hand, |_| {}, &mut |_, _| {})?;
                Ok(())
            })?
        });
        let ended = operator.join().expect("it does not panic");
        remote.send(RobotCommand::Close);
        robot.join().expect("it does not panic")?;
        ended?;
        Ok(ways.there.p50() + ways.back.p50())
    })
}
