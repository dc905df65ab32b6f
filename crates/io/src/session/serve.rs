//! The sockets, files and thread around a robot.

use std::fmt;

use taut_agent::{Refused, Robot, RobotCommand, RobotNote, SessionObserver};
use taut_core::{Duration, Time};
use taut_session::{RobotConfig, Status};

use super::carrier::Carrier;
use super::endpoint::{Endpoint, EndpointError};
use super::entropy::os_seed;
use super::machines::RobotMachine;
use super::paths::PathWatch;
use super::record::RobotRecord;
use super::{Remote, Told};
use crate::device::{Guarded, Stoppable};
use crate::{Driver, DriverError, MachineId, StateFileError, StateWriter};

/// A robot that could not be run any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An endpoint refused.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The driver cannot go on.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// There is nothing that would stop the device when this thread is held up.
    #[error("the device's deadman: {0}")]
    Deadman(std::io::Error),
    /// It ended in order, and that could not be written: it starts with a latched stop the next time. What was measured.
    #[error("that it ended in order could not be written: it starts with a latched stop the next time")]
    NotKept(Box<Status>),
    /// What is latched cannot be written.
    #[error(transparent)]
    Record(#[from] StateFileError),
    /// There is nothing that would write what is latched.
    #[error("the thread that keeps stops: {0}")]
    Keeper(std::io::Error),
}

/// How a robot is run.
#[derive(Default)]
pub struct ServeConfig {
    session: RobotConfig,
    report_period: Option<Duration>,
    record: Option<RobotRecord>,
    observer: Option<Box<dyn SessionObserver + Send>>,
}

impl ServeConfig {
    /// A session so. With a record, what that one kept is latched.
    pub fn new(session: RobotConfig) -> Self {
        Self { session, ..Self::default() }
    }

    /// Reports so often while there is an operator, and while there is none when it comes to be otherwise. Default: not.
    pub fn reports_by_time(mut self, period: Duration) -> Self {
        self.report_period = Some(period);
        self
    }

    /// Where what is latched survives this process, which is in use from when it is served: where that cannot be written nothing starts. Default:
    /// nowhere.
    pub fn record(mut self, record: RobotRecord) -> Self {
        self.record = Some(record);
        self
    }

    /// Shows everything to `observer`, on the driver's thread. Default: nobody looks on.
    pub fn observed(mut self, observer: Box<dyn SessionObserver + Send>) -> Self {
        self.observer = Some(observer);
        self
    }
}

impl From<RobotConfig> for ServeConfig {
    fn from(session: RobotConfig) -> Self {
        Self::new(session)
    }
}

impl fmt::Debug for ServeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServeConfig").field("session", &self.session).finish_non_exhaustive()
    }
}

/// Runs a robot around `device` on this thread until it is closed through the [`Remote`] that `started` is given. One
/// operator follows another. Gives what was measured in the last session.
///
/// # Errors
/// See [`ServeError`].
pub fn serve<P: Stoppable + 'static>(
    driver: Driver<RobotMachine<P>>,
    endpoint: &Endpoint,
    config: ServeConfig,
    device: P,
    started: impl FnOnce(Remote<RobotMachine<P>>),
    tell: &mut dyn FnMut(Time, Told<RobotNote>),
) -> Result<Status, ServeError> {
    let _span = tracing::info_span!("robot", transport = endpoint.kind().name()).entered();
    // Whatever ends it, the device is stopped before anybody waits for the disk.
    let mut keeper = None;
    let mut driver = driver;
    let (carrier, port) = endpoint.open()?;
    let device = Guarded::start(device).map_err(ServeError::Deadman)?;
    let ServeConfig { mut session, report_period, record, observer } = config;
    if let Some(record) = &record {
        session = session.keeps_latch(true).latched(record.latch());
    }
    let rng = os_seed().stream("robot");
    let mut machine = Robot::new(driver.clock().now(), carrier, rng, session, device);
    if let Some(period) = report_period {
        machine = machine.reports_by_time(period);
    }
    if let Some(observer) = observer {
        machine = machine.observed(observer);
    }
    let id = driver.add(machine, port)?;
    let remote = Remote::new(driver.mailbox(), id);
    if let Some(mut record) = record {
        record.begin()?;
        keeper = Some(start_keeper(record, remote.clone()).map_err(ServeError::Keeper)?);
    }
    started(remote);
    let mut paths = endpoint.watch();
    if let Some(changes) = paths.as_ref().and_then(PathWatch::descriptor) {
        driver.watch(changes)?;
    }
    loop {
        let until = look(&mut paths, &mut driver, id, tell);
        let seen = turn(&mut driver, id, until, keeper.as_ref(), tell)?;
        if seen.ended {
            break;
        }
        if seen.reconnects
            && renew(&mut driver, id, endpoint)?
            && let Some(paths) = &mut paths
        {
            paths.forget();
        }
    }
    let now = driver.clock().now();
    // Whoever presses it from here on is told that nobody hears it: what is written is the last.
    let alarm = driver.close_alarms();
    let machine = driver.machine_mut(id).expect("it is there until it is replaced");
    if let Some(alarm) = alarm {
        machine.handle_alarm(now, alarm);
    }
    let life = machine.bury();
    let status = machine.status(now);
    let kept = keeper.is_none_or(|keeper| {
        // Waits for it, a second at most. What is not written lets the next life begin with a latched stop.
        keeper.write(u64::MAX, life.to_string());
        keeper.finish()
    });
    if kept { Ok(status) } else { Err(ServeError::NotKept(Box::new(status))) }
}

/// Writes off this thread, and tells the machine.
fn start_keeper<P: Stoppable + 'static>(
    record: RobotRecord,
    remote: Remote<RobotMachine<P>>,
) -> std::io::Result<StateWriter> {
    StateWriter::start(record.file, move |number, written| {
        // Where the mailbox is full, the session gives the stop up as not kept after a second, and hears of it later.
        remote.send(RobotCommand::Kept { number, ok: written.is_ok() })
    })
}

/// Looks for interfaces that came or went, and tells when to look again.
fn look<P: Stoppable>(
    paths: &mut Option<PathWatch>,
    driver: &mut Driver<RobotMachine<P>>,
    id: MachineId,
    tell: &mut dyn FnMut(Time, Told<RobotNote>),
) -> Time {
    let Some(paths) = paths else { return Time::MAX };
    let now = driver.clock().now();
    paths.look(now, driver, id, &mut |_, note| tell(now, Told::Path(note)));
    paths.due()
}

/// What a turn brought.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    reconnects: bool,
    ended: bool,
}

fn turn<P: Stoppable>(
    driver: &mut Driver<RobotMachine<P>>,
    id: MachineId,
    until: Time,
    keeper: Option<&StateWriter>,
    tell: &mut dyn FnMut(Time, Told<RobotNote>),
) -> Result<Seen, DriverError> {
    let (clock, mut strangers, mut seen) = (driver.clock(), Vec::new(), Seen::default());
    driver.turn(until, &mut |_, note| match note {
        RobotNote::Reconnect => seen.reconnects = true,
        RobotNote::Ended => seen.ended = true,
        RobotNote::Keep { number, life } => {
            if let Some(keeper) = keeper {
                keeper.write(number, life.to_string());
            }
        }
        // Where it is, only the port knows.
        RobotNote::Refused { who: Some(Refused { path: Some(_), .. }), .. } => {
            strangers.push((clock.now(), note));
        }
        note => tell(clock.now(), Told::Note(note)),
    })?;
    for (at, mut note) in strangers {
        if let RobotNote::Refused { who: Some(Refused { path, address, .. }), .. } = &mut note {
            *address = path.and_then(|path| driver.remote(id, path));
        }
        tell(at, Told::Note(note));
    }
    if let Some(note) = driver.poll_flood(id) {
        tell(clock.now(), Told::Flood(note));
    }
    Ok(seen)
}

/// The conversation is over: gets ready for the next one. A transport that waits for it by itself stays; it knows what
/// was replayed, and may have begun it already. Is the port a new one?
fn renew<P: Stoppable>(
    driver: &mut Driver<RobotMachine<P>>,
    id: MachineId,
    endpoint: &Endpoint,
) -> Result<bool, ServeError> {
    let (mut machine, mut port) = driver.remove(id).expect("it is there");
    let (now, mut renewed) = (driver.clock().now(), false);
    let old = machine.reconnect(now, Carrier::ABSENT);
    let is_of_another = endpoint.take_switched();
    let carrier = if old.serves_again() && !is_of_another {
        // Its peers' addresses would fill the table of paths; unless one of them speaks, forget them.
        if !old.is_open() && !old.is_stream() {
            (port, renewed) = (endpoint.port()?, true);
        }
        old
    } else {
        // The old one's socket is closed before a new one takes its place.
        drop(old);
        let (carrier, new) = endpoint.open()?;
        (port, renewed) = (new, true);
        carrier
    };
    machine.reconnect(now, carrier);
    let again = driver.add(machine, port)?;
    assert_eq!(again, id, "the only machine gets the number that has become free");
    Ok(renewed)
}
