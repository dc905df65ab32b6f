//! One run.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

use taut_agent::{
    Observed, OperatorCommand, OperatorDevice, OperatorNote, Progress, RobotCommand, RobotDevice,
    SessionObserver,
};
use taut_core::{Duration, Seed, Time};
use taut_io::device::InProcess;
use taut_io::session::{
    Credentials, Endpoint, OperateConfig, OperatorMachine, PathSpec, Remote, RobotMachine, Security,
    ServeConfig, Told, TransportConfig, operate, serve,
};
use taut_io::tcp::KernelTcpConfig;
use taut_io::{Clock, Driver, DriverConfig, ThreadOptions, Warning};
use taut_lab::hand::SimulatedHand;
use taut_lab::robot::SimulatedArm;
use taut_lab::run::{
    CommandNotes, CommandRun, Inputs, MediaNotes, Notes, StillHand, StillRobot, Way, account,
    account_commands, account_cross, account_media, settings,
};
use taut_lab::scenario::{Commands, Scenario, Session, TcpSpec, Teleop, TransportSpec};
use taut_report::result::RunResult;
use taut_session::MotionLimits;
use taut_transport::identity::{Identity, Trust};

use crate::between::{Middle, Network};
use crate::cross::{Books, Cross};
use crate::possible::{congestion, prepare};
use crate::window::{Window, of_session};
use crate::{Between, RealError, possible};

/// How scenarios are run for real.
///
/// | option | default |
/// | --- | --- |
/// | [`between`](Self::between) | the emulator |
/// | [`spin`](Self::spin) | on |
/// | [`scheduling`](Self::scheduling) | as any thread |
#[derive(Clone, Copy, Debug)]
pub struct Options {
    between: Between,
    spin: bool,
    thread: ThreadOptions,
    warn: fn(&Warning),
}

impl Default for Options {
    fn default() -> Self {
        Self { between: Between::default(), spin: true, thread: ThreadOptions::new(), warn: |_| {} }
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// What carries packets between the two ends. Default: the emulator.
    pub fn between(mut self, between: Between) -> Self {
        self.between = between;
        self
    }

    /// May a thread spin for the last 100 µs before it is due, to be on time? Default: yes. Off where time passes only
    /// while nobody works, as in a kernel under time travel: there a thread that spins waits for ever.
    pub fn spin(mut self, on: bool) -> Self {
        self.spin = on;
        self
    }

    /// How the threads of both ends and of the emulator are scheduled. Default: as any other.
    pub fn scheduling(mut self, options: ThreadOptions) -> Self {
        self.thread = options;
        self
    }

    /// Is told what the system refuses of the scheduling. Default: nobody is.
    pub fn warnings(mut self, warn: fn(&Warning)) -> Self {
        self.warn = warn;
        self
    }

    /// See [`Options::between`].
    pub fn is_between(&self) -> Between {
        self.between
    }

    pub(crate) fn spins(&self) -> bool {
        self.spin
    }

    pub(crate) fn thread(&self) -> ThreadOptions {
        self.thread
    }

    pub(crate) fn warn(&self, warnings: impl IntoIterator<Item = Warning>) {
        warnings.into_iter().for_each(|warning| (self.warn)(&warning));
    }
}

/// Ends a run from elsewhere: a signal handler's thread. Copies are the same.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// The run ends, with [`RealError::Interrupted`].
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Was it asked to?
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Runs a scenario (without variants) with a seed over real sockets. `progress` is told how far it is, from 0 to 1.
///
/// The seed decides what the hand does and what is random in the emulated links, as in a simulated run; keys and times are
/// the host's. It takes as long as the device makes states, and until it is known what became of them: at most the
/// scenario's `drain`, or 60 s. With cross traffic it takes the scenario's duration at least, and up to a second of its `drain`.
///
/// # Errors
/// See [`RealError`]. Namespaces, devices and threads are gone when this returns, whatever happens.
pub fn run(
    scenario: &Scenario,
    seed: Seed,
    options: &Options,
    cancel: &Cancel,
    progress: &mut dyn FnMut(f64),
) -> Result<RunResult, RealError> {
    possible(scenario)?;
    if cancel.is_cancelled() {
        return Err(RealError::Interrupted);
    }
    let mut inputs = Inputs::default();
    let cross = Cross::of(scenario, seed, &mut inputs)?;
    let is_beside = cross.is_some();
    let books = cross.as_ref().map_or_else(|| Books::new(scenario, &[]), |cross| cross.books().clone());
    let (network, middle) = options.between.join(scenario, seed, options, &mut inputs, &books)?;
    prepare(scenario, &network)?;
    let mut window = Window::new(scenario, &*middle, &books, options.between.sees_packets());
    let job = Job::of(scenario);
    if let Some(TransportSpec::Mptcp(_)) = job.as_ref().map(Job::transport) {
        network.announce_paths()?;
    }
    let (clock, network) = (network.clock, &network);
    let setup = |job| Setup { scenario, job, seed, options, network, clock };
    let mut violations = Vec::new();
    let mut result = match job {
        Some(job @ Job::Teleop(teleop)) => {
            let notes = [Notes::of_operator(teleop), Notes::of_robot(teleop)];
            let (ended, ends) = setup(job).run(notes, cross, &mut window, cancel, progress)?;
            let mut paths = of_session(window.counted()?, stopped(middle, &mut violations)?, &books);
            paths[0][0].counters.insert("device_missed".to_owned(), ended.progress.missed);
            account(scenario, seed.get(), ended.began, ends, &paths, inputs.list())
        }
        Some(job @ Job::Commands(commands)) => {
            let notes = <[CommandNotes; 2]>::default();
            let (ended, ends) = setup(job).run(notes, cross, &mut window, cancel, progress)?;
            let paths = of_session(window.counted()?, stopped(middle, &mut violations)?, &books);
            let Ended { began, progress } = ended;
            let choices = progress.choices.map(|report| report.stats);
            let run = CommandRun { began, paths, copies: progress.copies, choices, inputs: inputs.list() };
            account_commands(scenario, commands, seed.get(), ends, run)
        }
        Some(job @ Job::Media(session)) => {
            let notes = <[MediaNotes; 2]>::default();
            let (ended, ends) = setup(job).run(notes, cross, &mut window, cancel, progress)?;
            let paths = of_session(window.counted()?, stopped(middle, &mut violations)?, &books);
            account_media(scenario, session, seed.get(), ended.began, ends, &paths, inputs.list())
        }
        None => {
            let began = clock.now();
            middle.begin(began);
            let start = |cross: Cross| cross.start(network, options, began);
            let running = cross.map(start).transpose()?;
            running.map_or(Ok(()), |running| running.finish(cancel, progress))?;
            let paths = stopped(middle, &mut violations)?;
            account_cross(scenario, seed, &books.lock(), &paths, inputs.list())
        }
    };
    if job.is_some() && is_beside {
        books.lock().add_to(&mut result);
    }
    result.conservation.violations.extend(violations);
    result.conservation.holds = result.conservation.violations.is_empty();
    if cancel.is_cancelled() {
        return Err(RealError::Interrupted);
    }
    Ok(RunResult { ran: options.between.ran(), ..result })
}

/// What each path carried, and what of that does not add up.
fn stopped(middle: Box<dyn Middle>, violations: &mut Vec<String>) -> Result<Vec<[Way; 2]>, RealError> {
    let paths = middle.stop()?;
    violations.extend(paths.iter().flatten().filter_map(Way::violation));
    Ok(paths)
}

/// What the session carries.
#[derive(Clone, Copy)]
enum Job<'a> {
    Teleop(&'a Teleop),
    Commands(&'a Commands),
    Media(&'a Session),
}

impl<'a> Job<'a> {
    /// The only one of a scenario.
    fn of(scenario: &'a Scenario) -> Option<Self> {
        let (teleop, commands) = (scenario.teleop.as_ref(), scenario.commands.as_ref());
        let one = teleop.map(Self::Teleop).or(commands.map(Self::Commands));
        one.or(scenario.session.as_ref().map(Self::Media))
    }

    fn transport(&self) -> &TransportSpec {
        match self {
            Self::Teleop(teleop) => &teleop.transport,
            Self::Commands(commands) => &commands.transport,
            Self::Media(session) => &session.transport,
        }
    }
}

/// What both ends need.
struct Setup<'a> {
    scenario: &'a Scenario,
    job: Job<'a>,
    seed: Seed,
    options: &'a Options,
    network: &'a Network,
    clock: Clock,
}

/// How it went.
struct Ended {
    began: Time,
    progress: Progress,
}

type Hand = Box<dyn OperatorDevice + Send>;
type Arm = Box<dyn RobotDevice + Send>;
type RobotRemote = Remote<RobotMachine<InProcess<Arm>>>;
type OperatorRemote = Remote<OperatorMachine<Hand>>;

/// The notes of one end: taken on its thread, and read when that has ended.
struct Shared<N>(Arc<Mutex<Option<N>>>);

impl<N> Shared<N> {
    fn new(notes: N) -> Self {
        Self(Arc::new(Mutex::new(Some(notes))))
    }

    fn share(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    /// Once, when whoever took them has gone.
    fn take(self) -> N {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().expect("they are read once")
    }
}

impl<N: SessionObserver> SessionObserver for Shared<N> {
    fn on_event(&mut self, now: Time, event: Observed<'_>) {
        if let Some(notes) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            notes.on_event(now, event);
        }
    }
    fn reads_messages(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(N::reads_messages)
    }
}

/// How often it is looked how far a run is.
const LOOK: Duration = Duration::from_millis(50);
/// How often the operator's end says how far it is.
const PROGRESS: Duration = Duration::from_millis(50);
const PORT: u16 = 4_433;

impl Setup<'_> {
    /// Runs both ends, each on a thread of its own; gives their notes.
    fn run<N: SessionObserver + Send + 'static>(
        &self,
        notes: [N; 2],
        cross: Option<Cross>,
        window: &mut Window<'_>,
        cancel: &Cancel,
        progress: &mut dyn FnMut(f64),
    ) -> Result<(Ended, [N; 2]), RealError> {
        let [operator, robot] = notes.map(Shared::new);
        let asked = AtomicU64::new(0);
        let ended = std::thread::scope(|scope| {
            let (sender, remotes) = channel();
            let observer = Box::new(robot.share());
            let robot_end = scope.spawn(|| {
                self.network.robot.run(|| self.robot(observer, sender)).map_err(RealError::from).flatten()
            });
            let Ok(robot_remote) = remotes.recv() else {
                return Err(join(robot_end).err().unwrap_or(RealError::Interrupted));
            };
            let (sender, remotes) = channel();
            let began = self.clock.now();
            window.begin(began);
            let (observer, asked) = (Box::new(operator.share()), &asked);
            let beside = cross.map(|cross| cross.start(self.network, self.options, began)).transpose();
            let ended = beside.and_then(|beside| {
                let operator_end = scope.spawn(move || {
                    self.network
                        .operator
                        .run(|| self.operator(began, observer, asked, sender))
                        .map_err(RealError::from)
                        .flatten()
                });
                self.watch(&operator_end, &remotes, asked, window, cancel, progress);
                let ended = join(operator_end);
                beside.map_or(Ok(()), |beside| beside.finish(cancel, &mut |_| {}))?;
                ended
            });
            robot_remote.send(RobotCommand::Close);
            join(robot_end)?;
            Ok(Ended { began, progress: ended? })
        });
        if cancel.is_cancelled() {
            return Err(RealError::Interrupted);
        }
        Ok((ended?, [operator.take(), robot.take()]))
    }

    /// Until the operator has ended; asks it to when the run is cancelled.
    fn watch(
        &self,
        operator: &ScopedJoinHandle<'_, Result<Progress, RealError>>,
        remotes: &Receiver<OperatorRemote>,
        asked: &AtomicU64,
        window: &mut Window<'_>,
        cancel: &Cancel,
        progress: &mut dyn FnMut(f64),
    ) {
        let mut remote = None;
        let limit = self.limit();
        while !operator.is_finished() {
            let wait = std::time::Duration::from(LOOK.min(window.look(self.clock.now())));
            match remotes.recv_timeout(wait) {
                Ok(one) => remote = Some(one),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::park_timeout(wait),
            }
            progress((asked.load(Ordering::Relaxed) as f64 / limit as f64).min(1.0));
            if let (true, Some(remote)) = (cancel.is_cancelled(), &remote) {
                remote.send(OperatorCommand::Close);
            }
        }
    }

    /// How often the device is asked.
    fn limit(&self) -> u64 {
        let times = match self.job {
            Job::Teleop(teleop) => {
                let within = self.scenario.duration / teleop.period;
                teleop.messages.map_or(within, |messages| messages.min(within))
            }
            Job::Commands(commands) => (self.scenario.duration + self.scenario.drain) / commands.period,
            Job::Media(session) => {
                let agent = settings::media_agent(session, self.scenario.drain);
                (self.scenario.duration + self.scenario.drain) / agent.period()
            }
        };
        times.max(1)
    }

    fn robot(
        &self,
        observer: Box<dyn SessionObserver + Send>,
        started: Sender<RobotRemote>,
    ) -> Result<(), RealError> {
        let trusted = Trust::only(Identity::from_seed(self.seed, "operator").fingerprint());
        // Subflows of Multipath TCP come to each of its addresses, other packets to one.
        let address = match self.job.transport() {
            TransportSpec::Mptcp(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            _ => self.address(),
        };
        let security = self.security("robot", trusted);
        let endpoint = Endpoint::listen(self.transport(), (address, PORT).into(), security, &self.clock)?;
        let (arm, session): (Arm, _) = match self.job {
            Job::Teleop(teleop) => {
                let arm = arm(teleop, self.seed);
                let arm: Arm = match settings::coupling(teleop) {
                    Some(coupling) => Box::new(coupling.arm(arm, MotionLimits::new(), teleop.watchdog)),
                    None => Box::new(arm),
                };
                (arm, settings::robot(teleop))
            }
            Job::Commands(commands) => (Box::new(StillRobot::silent()), settings::commanded(commands)),
            Job::Media(session) => {
                let robot =
                    StillRobot::of_session(self.scenario, session, self.seed, &mut Inputs::default())?;
                (Box::new(robot), settings::media_robot(session))
            }
        };
        let config = ServeConfig::new(session).observed(observer);
        let (driver, device) = (self.driver()?, InProcess::new(arm));
        let started = |remote| drop(started.send(remote));
        serve(driver, &endpoint, config, device, started, &mut |_, _| {})?;
        Ok(())
    }

    fn operator(
        &self,
        began: Time,
        observer: Box<dyn SessionObserver + Send>,
        asked: &AtomicU64,
        started: Sender<OperatorRemote>,
    ) -> Result<Progress, RealError> {
        let trusted = Trust::only(Identity::from_seed(self.seed, "robot").fingerprint());
        let remote = (self.address(), PORT).into();
        let security = self.security("operator", trusted);
        let endpoint =
            Endpoint::connect(self.transport(), remote, security, &self.clock)?.over(&self.interfaces())?;
        let drain = self.scenario.drain.max(Duration::from_secs(1));
        let (hand, config): (Hand, _) = match self.job {
            Job::Teleop(teleop) => {
                let hand = SimulatedHand::of_run(teleop, self.seed).ends_after(Some(self.limit()));
                let agent = settings::agent(teleop, drain).reports_by_time(PROGRESS);
                let hand: Hand = match settings::coupling(teleop) {
                    Some(coupling) => Box::new(coupling.hand(hand, teleop.period, settings::most(teleop))),
                    None => Box::new(hand),
                };
                (hand, OperateConfig::new(settings::operator(teleop), agent))
            }
            Job::Commands(commands) => {
                let agent = settings::commanding(commands, drain).reports_by_time(PROGRESS);
                let config = OperateConfig::new(settings::commander(commands), agent);
                (Box::new(StillHand::of_commands(self.scenario, commands, began)), config)
            }
            Job::Media(session) => {
                let agent = settings::media_agent(session, drain).reports_by_time(PROGRESS);
                let config = OperateConfig::new(settings::media_operator(session), agent);
                let mut inputs = Inputs::default();
                let hand = StillHand::of_session(self.scenario, session, began, self.seed, &mut inputs)?;
                (Box::new(hand), config)
            }
        };
        let config = config.observed(observer);
        let driver = self.driver()?;
        let started = |remote| drop(started.send(remote));
        let tell = &mut |_, told| {
            if let Told::Note(OperatorNote::Progress(progress)) = told {
                asked.store(progress.made + progress.stale, Ordering::Relaxed);
            }
        };
        Ok(operate(driver, &endpoint, config, hand, started, tell)?)
    }

    fn driver<M: taut_io::Machine>(&self) -> Result<Driver<M>, RealError> {
        self.options.warn(self.options.thread.apply());
        Ok(Driver::new(DriverConfig::new())?.with_clock(self.clock))
    }

    /// In the clear there is nobody else in the namespaces.
    fn security(&self, name: &str, trust: Trust) -> Security {
        let secure = matches!(self.job, Job::Teleop(teleop) if teleop.secure);
        if secure || matches!(self.job.transport(), TransportSpec::Quic(_) | TransportSpec::Mpquic(_)) {
            return Credentials { identity: Identity::from_seed(self.seed, name), trust }.into();
        }
        Security::PlaintextAnywhere
    }

    /// The robot's, whichever path leads there.
    fn address(&self) -> IpAddr {
        self.network.paths[0].robot
    }

    /// Where the paths of the session begin, where it has several; the kernel's Multipath TCP finds its own.
    fn interfaces(&self) -> Vec<PathSpec> {
        let transport = self.job.transport();
        let uses = transport.is_multipath()
            && !matches!(transport, TransportSpec::Mptcp(_))
            && self.network.paths.len() > 1;
        let paths = self.network.paths.iter().filter(|_| uses);
        paths.map(|path| PathSpec::Interface(path.device.clone())).collect()
    }

    fn transport(&self) -> TransportConfig {
        match self.job.transport() {
            TransportSpec::Tcp(spec) => kernel_tcp(spec).into(),
            TransportSpec::Mptcp(spec) => kernel_tcp(&spec.subflow).multipath(true).into(),
            _ => match self.job {
                Job::Teleop(teleop) => settings::session(teleop).into(),
                Job::Commands(commands) => settings::commands(commands, false).into(),
                Job::Media(session) => settings::media(session).into(),
            },
        }
    }
}

/// It begins where the hand does: else it would leap there, and what is led is judged from the first state on.
fn arm(teleop: &Teleop, seed: Seed) -> SimulatedArm {
    SimulatedArm::of_run(teleop, seed, SimulatedHand::of_run(teleop, seed).position())
}

/// The host's default congestion control may be any; the scenario's is not.
fn kernel_tcp(spec: &TcpSpec) -> KernelTcpConfig {
    KernelTcpConfig::new().congestion(congestion(spec.congestion))
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_whose_hand_is_led_begins_where_that_is() {
        let text = "title = \"led\"\nduration = \"21s\"\n[links.wire]\nbetween = [\"a\", \"b\"]\nchain = [{ delay = \"1ms\" }]\n\
                    [teleop]\noperator = \"a\"\nrobot = \"b\"\nled = true\n";
        let scenario = Scenario::parse("led.toml", text).unwrap();
        let (teleop, seed) = (scenario.teleop.as_ref().unwrap(), Seed::new(1));
        let hand = SimulatedHand::of_run(teleop, seed).position();
        let begins_at = arm(teleop, seed).measure().unwrap().state.position;
        let apart = hand.iter().zip(begins_at).map(|(hand, arm)| (hand - f64::from(arm)).abs());
        let apart = apart.fold(0.0, f64::max);
        assert!(apart < 1e-3, "{apart} m");
    }
}
