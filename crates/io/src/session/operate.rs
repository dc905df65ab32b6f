//! The loop around an operator.

use taut_core::{Duration, Time};
use taut_session::{Operator, OperatorConfig};

use super::Remote;
use super::carrier::Trouble;
use super::endpoint::{Endpoint, EndpointError, PATIENCE};
use super::entropy::os_seed;
use super::operator::{OperatorMachine, OperatorNote, Progress, ResumePolicy, Sample};
use super::paths::PathWatch;
use super::record::OperatorRecord;
use crate::{Driver, DriverError, MachineId, StateWriter};

/// How an operator is run.
#[derive(Debug)]
pub struct OperateConfig {
    /// The session's.
    pub session: OperatorConfig,
    /// Time between two samples of the device.
    pub period: Duration,
    /// Samples to send; `None`: until the device has no more, or somebody closes.
    pub limit: Option<u64>,
    /// When it resumes by itself.
    pub resume: ResumePolicy,
    /// The enabling input comes by [`OperatorCommand::Hold`](super::OperatorCommand::Hold), each for so long; `None`: with the
    /// device's states.
    pub hold_to_run: Option<Duration>,
    /// Report every so many samples.
    pub report_messages: Option<u64>,
    /// Report every so often.
    pub report_period: Option<Duration>,
    /// Where an emergency stop that was not acknowledged survives this process; `None`: nowhere.
    pub record: Option<OperatorRecord>,
    /// When all samples were sent and it is not known what became of them, wait so long for it.
    pub drain: Duration,
}

impl OperateConfig {
    /// Long enough to hear of what can still be of use.
    pub const DRAIN: Duration = Duration::from_secs(2);
}

/// A session that could not be had, or could not go on.
#[derive(Debug, thiserror::Error)]
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

/// Between two attempts to connect again.
const AGAIN: Duration = Duration::from_millis(200);
/// For so long a robot may take somebody for its operator that has vanished.
const BUSY: Duration = Duration::from_millis(2_500);
/// A goodbye that takes longer does not arrive any more.
const GOODBYE: Duration = Duration::from_millis(1_500);

/// Runs an operator with `device` on this thread until it is done, or closed through the [`Remote`] that `started` is
/// given. A link that is lost is connected again for 5 s; the robot stays stopped meanwhile and, but for
/// [`ResumePolicy::Always`], afterwards. Gives everything that was measured.
///
/// # Errors
/// See [`OperateError`].
pub fn operate<I: Iterator<Item = Sample>>(
    driver: Driver<OperatorMachine<I>>,
    endpoint: &Endpoint,
    config: OperateConfig,
    device: I,
    started: impl FnOnce(Remote<OperatorMachine<I>>),
    tell: &mut dyn FnMut(Time, OperatorNote),
) -> Result<Progress, OperateError> {
    let (carrier, port) = endpoint.open()?;
    let operator = Operator::new(carrier, config.session.clone(), os_seed().stream("operator"));
    let mut machine = OperatorMachine::new(operator, device, config.period, config.limit)
        .resumes(config.resume)
        .holds_to_run(config.hold_to_run)
        .drains(config.drain);
    if let Some(witness) = endpoint.witness() {
        machine = machine.witnessed(witness.clone());
    }
    if let Some(samples) = config.report_messages {
        machine = machine.reports_by_number(samples);
    }
    if let Some(period) = config.report_period {
        machine = machine.reports_by_time(period);
    }
    let mut driver = driver;
    if let Some(record) = config.record {
        let pressed = record.is_unacknowledged();
        // What becomes of it nobody waits for: the stop itself is on its way.
        let keeper = StateWriter::start(record.file, |_, _| ()).map_err(OperateError::Keeper)?;
        machine.keep_by(driver.clock().now(), keeper, pressed);
    }
    let id = driver.add(machine, port)?;
    started(Remote::new(driver.mailbox(), id));
    let paths = endpoint.watch();
    if let Some(changes) = paths.as_ref().and_then(PathWatch::descriptor) {
        driver.watch(changes)?;
    }
    let mut this = Loop { driver, id, endpoint, paths, tell };
    this.run()?;
    // The goodbye is not part of what is measured.
    let now = this.driver.clock().now();
    let progress = this.machine().progress(now);
    this.say_goodbye()?;
    Ok(progress)
}

/// Will it not help to try again?
fn is_final(trouble: &Trouble, was_connected: bool, waited: Duration, closed: bool) -> bool {
    match trouble {
        Trouble::NoAnswer => false,
        Trouble::NotTrusted | Trouble::WrongPeer => closed,
        // A robot lets go of an operator that has vanished after a second or two.
        Trouble::Busy => waited >= if was_connected { PATIENCE } else { BUSY },
        // Strangers that crowd the robot may have been in the way.
        Trouble::SentAway => closed && !was_connected && waited >= BUSY,
        Trouble::Unreachable | Trouble::Ended(_) => closed && !was_connected,
    }
}

struct Loop<'a, I: Iterator<Item = Sample>> {
    driver: Driver<OperatorMachine<I>>,
    id: MachineId,
    endpoint: &'a Endpoint,
    paths: Option<PathWatch>,
    tell: &'a mut dyn FnMut(Time, OperatorNote),
}

/// What a turn brought.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    connected: bool,
    closed: bool,
    done: bool,
}

impl<I: Iterator<Item = Sample>> Loop<'_, I> {
    fn machine(&self) -> &OperatorMachine<I> {
        self.driver.machine(self.id).expect("it is there until it is replaced")
    }

    fn turn(&mut self, until: Time) -> Result<Seen, DriverError> {
        use taut_session::OperatorEvent::{Closed, Connected};
        let (mut seen, clock, tell) = (Seen::default(), self.driver.clock(), &mut self.tell);
        let mut until = until;
        if let Some(paths) = &mut self.paths {
            let now = clock.now();
            paths.look(now, &mut self.driver, self.id, &mut |machine, note| {
                machine.path_changed(now, &note);
                tell(now, OperatorNote::Path(note));
            });
            until = until.min(paths.due());
        }
        self.driver.turn(until, &mut |_, note| {
            match &note {
                OperatorNote::Event(Connected { .. }) => seen.connected = true,
                OperatorNote::Event(Closed) => seen.closed = true,
                OperatorNote::Done => seen.done = true,
                _ => {}
            }
            tell(clock.now(), note);
        })?;
        Ok(seen)
    }

    /// Until it is done, closed from here, or lost.
    fn run(&mut self) -> Result<(), OperateError> {
        let mut waits = Some(self.driver.clock().now());
        let mut was_connected = false;
        loop {
            let until = waits.map_or(Time::MAX, |since| since + PATIENCE);
            let seen = self.turn(until)?;
            let now = self.driver.clock().now();
            if seen.connected {
                (was_connected, waits) = (true, None);
            }
            if seen.done || self.machine().is_closing() {
                return Ok(());
            }
            if seen.closed {
                waits.get_or_insert(now);
            }
            let Some(since) = waits else { continue };
            let trouble = self.machine().trouble();
            if now >= until || is_final(&trouble, was_connected, now - since, seen.closed) {
                if !was_connected {
                    return Err(OperateError::NotConnected(trouble));
                }
                return Err(OperateError::Lost(trouble, Box::new(self.machine().progress(now))));
            }
            if seen.closed {
                self.wait((now + AGAIN).min(since + PATIENCE))?;
                if self.machine().is_closing() {
                    return Ok(());
                }
                self.reconnect()?;
            }
        }
    }

    fn wait(&mut self, until: Time) -> Result<(), DriverError> {
        while self.driver.clock().now() < until && !self.machine().is_closing() {
            self.turn(until)?;
        }
        Ok(())
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

    fn say_goodbye(&mut self) -> Result<(), DriverError> {
        let now = self.driver.clock().now();
        if !self.machine().is_closing()
            && let Some(machine) = self.driver.machine_mut(self.id)
        {
            machine.close(now);
        }
        let until = now + GOODBYE;
        self.turn(now)?;
        while self.machine().lingers() && self.driver.clock().now() < until {
            self.turn(until)?;
        }
        Ok(())
    }
}
