//! The loop around a robot.

use taut_core::{Duration, Time};
use taut_session::{Robot, RobotConfig, RobotEvent, Status};

use super::Remote;
use super::carrier::{Carrier, Refused};
use super::endpoint::{Endpoint, EndpointError};
use super::entropy::os_seed;
use super::paths::PathWatch;
use super::record::RobotRecord;
use super::robot::{RobotCommand, RobotMachine, RobotNote};
use crate::device::{Deadman, Plant};
use crate::{Driver, DriverError, MachineId, StateWriter};

/// A robot that could not be run any more.
#[derive(Debug, thiserror::Error)]
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
    /// There is nothing that would write what is latched.
    #[error("the thread that keeps stops: {0}")]
    Keeper(std::io::Error),
}

/// How a robot is run.
#[derive(Debug, Default)]
pub struct ServeConfig {
    /// The session's. With a record, what that one kept is latched.
    pub session: RobotConfig,
    /// Report so often while there is an operator.
    pub report_period: Option<Duration>,
    /// Where what is latched survives this process; `None`: nowhere.
    pub record: Option<RobotRecord>,
}

impl From<RobotConfig> for ServeConfig {
    fn from(session: RobotConfig) -> Self {
        Self { session, ..Self::default() }
    }
}

/// A goodbye that takes longer does not arrive any more.
const GOODBYE: Duration = Duration::from_millis(1_500);

/// Runs a robot around `plant` on this thread until it is closed through the [`Remote`] that `started` is given. One
/// operator follows another. Gives what was measured in the last session.
///
/// # Errors
/// See [`ServeError`].
pub fn serve<P: Plant + 'static>(
    mut driver: Driver<RobotMachine<P>>,
    endpoint: &Endpoint,
    config: ServeConfig,
    plant: P,
    started: impl FnOnce(Remote<RobotMachine<P>>),
    tell: &mut dyn FnMut(Time, RobotNote),
) -> Result<Status, ServeError> {
    let (carrier, port) = endpoint.open()?;
    let deadman = Deadman::start(plant.stopper()).map_err(ServeError::Deadman)?;
    let ServeConfig { mut session, report_period, record } = config;
    if let Some(record) = &record {
        session = session.keeps_latch(true).latched(record.latch());
    }
    let robot = Robot::new(carrier, session, os_seed().stream("robot"));
    let mut machine = RobotMachine::new(robot, plant).kept_by(deadman);
    if let Some(period) = report_period {
        machine = machine.reports_by_time(period);
    }
    if let Some(witness) = endpoint.witness() {
        machine = machine.witnessed(witness.clone());
    }
    let id = driver.add(machine, port)?;
    let remote = Remote::new(driver.mailbox(), id);
    if let Some(record) = record {
        let keeper = keeper(record, remote.clone()).map_err(ServeError::Keeper)?;
        driver.machine_mut(id).expect("it was added").write_by(keeper);
    }
    started(remote);
    let mut paths = endpoint.watch();
    if let Some(changes) = paths.as_ref().and_then(PathWatch::descriptor) {
        driver.watch(changes)?;
    }
    let mut closed = false;
    loop {
        let until = look(&mut paths, &mut driver, id, tell);
        turn(&mut driver, id, until, &mut closed, tell)?;
        if machine_of(&driver, id).is_closing() {
            break;
        }
        if std::mem::take(&mut closed)
            && renew(&mut driver, id, endpoint)?
            && let Some(paths) = &mut paths
        {
            paths.forget();
        }
    }
    let until = driver.clock().now() + GOODBYE;
    while machine_of(&driver, id).lingers() && driver.clock().now() < until {
        turn(&mut driver, id, until, &mut closed, tell)?;
    }
    let now = driver.clock().now();
    let machine = driver.machine_mut(id).expect("it is there until it is replaced");
    let kept = machine.bury();
    let status = machine.status(now);
    if kept { Ok(status) } else { Err(ServeError::NotKept(Box::new(status))) }
}

/// Writes off this thread, and tells the machine.
fn keeper<P: Plant>(record: RobotRecord, remote: Remote<RobotMachine<P>>) -> std::io::Result<StateWriter>
where
    RobotMachine<P>: 'static,
{
    StateWriter::start(record.file, move |number, written| {
        // Where the mailbox is full, the session gives the stop up as not kept after a second.
        remote.send(RobotCommand::Kept { number, ok: written.is_ok() });
    })
}

/// Looks for interfaces that came or went, and tells when to look again.
fn look<P: Plant>(
    paths: &mut Option<PathWatch>,
    driver: &mut Driver<RobotMachine<P>>,
    id: MachineId,
    tell: &mut dyn FnMut(Time, RobotNote),
) -> Time {
    let Some(paths) = paths else { return Time::MAX };
    let now = driver.clock().now();
    paths.look(now, driver, id, &mut |_, note| tell(now, RobotNote::Path(note)));
    paths.due()
}

fn machine_of<P: Plant>(driver: &Driver<RobotMachine<P>>, id: MachineId) -> &RobotMachine<P> {
    driver.machine(id).expect("it is there until it is replaced")
}

fn turn<P: Plant>(
    driver: &mut Driver<RobotMachine<P>>,
    id: MachineId,
    until: Time,
    closed: &mut bool,
    tell: &mut dyn FnMut(Time, RobotNote),
) -> Result<(), DriverError> {
    let (clock, mut strangers) = (driver.clock(), Vec::new());
    driver.turn(until, &mut |_, note| {
        *closed |= matches!(note, RobotNote::Event(RobotEvent::Closed));
        match note {
            // Where it is, only the port knows.
            RobotNote::Refused { who: Some(Refused { path: Some(_), .. }), .. } => {
                strangers.push((clock.now(), note));
            }
            note => tell(clock.now(), note),
        }
    })?;
    for (at, mut note) in strangers {
        if let RobotNote::Refused { who: Some(Refused { path, address, .. }), .. } = &mut note {
            *address = path.and_then(|path| driver.remote(id, path));
        }
        tell(at, note);
    }
    Ok(())
}

/// The conversation is over: gets ready for the next one. A transport that waits for it by itself stays; it knows what
/// was replayed, and may have begun it already. Is the port a new one?
fn renew<P: Plant>(
    driver: &mut Driver<RobotMachine<P>>,
    id: MachineId,
    endpoint: &Endpoint,
) -> Result<bool, ServeError> {
    let (mut machine, mut port) = driver.remove(id).expect("it is there");
    let (now, mut renewed) = (driver.clock().now(), false);
    let old = machine.reconnect(now, Carrier::Absent);
    let carrier = if old.serves_again() {
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
