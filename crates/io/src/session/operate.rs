//! The sockets, files and thread around an operator.

use std::fmt;

use taut_agent::{
    EndedBy, Ending, Operator, OperatorDevice, OperatorNote, OperatorSettings, Progress, SessionObserver,
    Trouble,
};
use taut_core::{Time, Transport};
use taut_session::OperatorConfig;

use super::endpoint::{Endpoint, EndpointError};
use super::entropy::os_seed;
use super::machines::OperatorMachine;
use super::paths::PathWatch;
use super::record::OperatorRecord;
use super::{Remote, Told};
use crate::{Driver, DriverError, MachineId, StateWriter};

/// How an operator is run.
pub struct OperateConfig {
    session: OperatorConfig,
    agent: OperatorSettings,
    record: Option<OperatorRecord>,
    observer: Option<Box<dyn SessionObserver + Send>>,
}

impl OperateConfig {
    /// A session so, and around it an agent so.
    pub fn new(session: OperatorConfig, agent: OperatorSettings) -> Self {
        Self { session, agent, record: None, observer: None }
    }

    /// Where an emergency stop that was not acknowledged survives this process. Default: nowhere.
    pub fn record(mut self, record: OperatorRecord) -> Self {
        self.record = Some(record);
        self
    }

    /// Shows everything to `observer`, on the driver's thread. Default: nobody looks on.
    pub fn observed(mut self, observer: Box<dyn SessionObserver + Send>) -> Self {
        self.observer = Some(observer);
        self
    }
}

impl fmt::Debug for OperateConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperateConfig").field("agent", &self.agent).finish_non_exhaustive()
    }
}

/// A session that could not be had, or could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperateError {
    /// There was none within 5 s, or it was refused.
    #[error("{0}")]
    NotConnected(Trouble),
    /// It was lost, and did not come back within 5 s; what was measured until then.
    #[error("{0}")]
    Lost(Trouble, Box<Progress>),
    /// An endpoint refused.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The driver cannot go on.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// There is nothing that would write a stop down.
    #[error("the thread that keeps stops: {0}")]
    Keeper(std::io::Error),
}

/// Runs an operator with `device` on this thread until it is done, or closed through the [`Remote`] that `started` is
/// given. A link that is lost is connected again for 5 s; the robot stays stopped meanwhile and, but for
/// [`ResumePolicy::Always`](taut_agent::ResumePolicy::Always), afterwards. Gives everything that was measured.
///
/// # Errors
/// See [`OperateError`].
pub fn operate<D: OperatorDevice>(
    mut driver: Driver<OperatorMachine<D>>,
    endpoint: &Endpoint,
    config: OperateConfig,
    device: D,
    started: impl FnOnce(Remote<OperatorMachine<D>>),
    tell: &mut dyn FnMut(Time, Told<OperatorNote>),
) -> Result<Progress, OperateError> {
    let _span = tracing::info_span!("operator", transport = endpoint.kind().name()).entered();
    let (carrier, port) = endpoint.open()?;
    let (now, rng) = (driver.clock().now(), os_seed().stream("operator"));
    let mut machine = Operator::new(now, carrier, rng, config.session, device, config.agent);
    if let Some(observer) = config.observer {
        machine = machine.observed(observer);
    }
    let mut keeper = None;
    if let Some(record) = config.record {
        if record.is_unacknowledged() {
            machine.press_again(now);
        }
        // What becomes of it nobody waits for: the stop itself is on its way.
        keeper = Some(StateWriter::start(record.file, |_, _| true).map_err(OperateError::Keeper)?);
    }
    let id = driver.add(machine, port)?;
    started(Remote::new(driver.mailbox(), id));
    let paths = endpoint.watch();
    if let Some(changes) = paths.as_ref().and_then(PathWatch::descriptor) {
        driver.watch(changes)?;
    }
    let mut this = Loop { driver, id, endpoint, paths, keeper, tell };
    let Ending { why, progress } = this.run()?;
    match why {
        EndedBy::Goodbye => Ok(progress),
        EndedBy::NotConnected(trouble) => Err(OperateError::NotConnected(trouble)),
        EndedBy::Lost(trouble) => Err(OperateError::Lost(trouble, Box::new(progress))),
    }
}

struct Loop<'a, D: OperatorDevice> {
    driver: Driver<OperatorMachine<D>>,
    id: MachineId,
    endpoint: &'a Endpoint,
    paths: Option<PathWatch>,
    keeper: Option<StateWriter>,
    tell: &'a mut dyn FnMut(Time, Told<OperatorNote>),
}

impl<D: OperatorDevice> Loop<'_, D> {
    fn run(&mut self) -> Result<Ending, OperateError> {
        loop {
            let until = self.look();
            let (mut reconnects, mut ending) = (false, None);
            let (clock, tell, keeper) = (self.driver.clock(), &mut self.tell, &self.keeper);
            self.driver.turn(until, &mut |_, note| match note {
                OperatorNote::Reconnect => reconnects = true,
                OperatorNote::Ended(end) => ending = Some(*end),
                OperatorNote::Keep { number, life } => {
                    if let Some(keeper) = keeper {
                        keeper.write(number, life.to_string());
                    }
                }
                note => tell(clock.now(), Told::Note(note)),
            })?;
            if let Some(note) = self.driver.poll_flood(self.id) {
                (self.tell)(clock.now(), Told::Flood(note));
            }
            if let Some(ending) = ending {
                return Ok(ending);
            }
            if reconnects {
                self.reconnect()?;
            }
        }
    }

    /// Looks for interfaces that came or went, and tells when to look again.
    fn look(&mut self) -> Time {
        let Some(paths) = &mut self.paths else { return Time::MAX };
        let (now, tell) = (self.driver.clock().now(), &mut self.tell);
        paths.look(now, &mut self.driver, self.id, &mut |machine, note| {
            let transport = machine.transport_mut();
            match note.missing {
                None => _ = transport.add_path(now, note.path),
                Some(_) => transport.remove_path(now, note.path),
            }
            tell(now, Told::Path(note));
        });
        paths.due()
    }

    /// A new carrier and a new port, under the same number.
    fn reconnect(&mut self) -> Result<(), OperateError> {
        let (carrier, port) = self.endpoint.open()?;
        let (mut machine, _) = self.driver.remove(self.id).expect("it is there");
        machine.reconnect(self.driver.clock().now(), carrier);
        if let Some(paths) = &mut self.paths {
            paths.forget();
        }
        let id = self.driver.add(machine, port)?;
        assert_eq!(id, self.id, "the only machine gets the number that has become free");
        Ok(())
    }
}
