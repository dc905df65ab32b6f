//! An operator on a thread of ours.

use std::sync::Arc;

use taut_agent::{Alarm, OperatorCommand};
use taut_io::lines::operator_summary;
use taut_io::session::{
    Endpoint, OperateConfig, OperateError, OperatorMachine, OperatorRecord, Remote, Told as Note, operate,
};
use taut_io::{Clock, Driver, DriverConfig};

use super::builder::{OperatorBuilder, Parts};
use super::event::{OperatorEvent, Told};
use super::machine::command;
use crate::coupled::Felt;
use crate::error::Error;
use crate::identity::Fingerprint;
use crate::recorded::Recorded;
use crate::running::{Running, of_handles, resolve, system};

/// An operator that runs, on a thread of ours. Made by [`OperatorBuilder::start`].
///
/// A link that is lost is connected again for five seconds; the robot stays stopped meanwhile, and afterwards until it is resumed. When
/// this is dropped, it says goodbye, and the robot stops.
#[must_use = "dropped, it ends at once"]
pub struct Operator {
    running: Running<OperatorMachine<Felt>>,
    told: Arc<Told>,
    fingerprint: Fingerprint,
}

impl OperatorBuilder {
    /// Runs it on a thread of ours, which owns its sockets. Whether there is a session is told by its [events](Operator::events).
    ///
    /// # Errors
    /// When a setting is missing or cannot be, or the system refuses a socket, a file or a thread. Each says what to do.
    pub fn start(mut self) -> Result<Operator, Error> {
        let remote = resolve("connect", self.address()?)?;
        if self.record.is_some() {
            let why = "is for `build`; here `keeps_stops_in` names a file";
            return Err(Error::invalid("record", why));
        }
        let state = self.common.state_file()?;
        let Parts { known, session, settings, hand, told, about } = self.parts()?;
        let clock = Clock::start();
        let fingerprint = known.identity.fingerprint();
        let endpoint = Endpoint::connect(known.transport(), remote, known.credentials(), &clock);
        let endpoint = self.common.over(endpoint.map_err(system)?)?;
        let mut config = OperateConfig::new(session, settings);
        if let Some(path) = state {
            config = config.record(OperatorRecord::open(&path).map_err(system)?);
        }
        let ended = Arc::clone(&told);
        let failed = move |why| ended.events.queue.push(OperatorEvent::RecordingEnded { why });
        let mut recorded = Recorded::start(&self.common, clock, about, failed)?;
        if let Some(observer) = recorded.observer() {
            config = config.observed(observer);
        }
        let (theirs, ends) = (Arc::clone(&told), Arc::clone(&told));
        let work = move |started: Box<dyn FnOnce(Remote<OperatorMachine<Felt>>)>| {
            let driver = Driver::new(DriverConfig::new()).map_err(system)?.with_clock(clock);
            let started = |remote: Remote<OperatorMachine<Felt>>| {
                connect(&remote, &theirs);
                started(remote);
            };
            let tell = &mut |at, note| {
                recorded.operator(at, &note);
                if let Note::Note(note) = note {
                    theirs.note(note);
                }
            };
            let ended = operate(driver, &endpoint, config, hand, started, tell);
            recorded.finish(match &ended {
                Ok(progress) => Some(operator_summary(progress)),
                Err(OperateError::Lost(_, progress)) => Some(operator_summary(progress)),
                Err(_) => None,
            });
            let ended = ended.map_err(|error| match &error {
                OperateError::NotConnected(trouble) => theirs.not_connected(trouble),
                OperateError::Lost(trouble, _) => Error::Lost(trouble.to_string()),
                other => system(other),
            });
            theirs.end(ended.as_ref().err().cloned());
            theirs.board.count(&ended?.status);
            Ok(())
        };
        // Whatever else ends it is a panic: the handle says which.
        let at_end = move || ends.end(Some(Error::Panicked("see `Operator::join`".to_owned())));
        let running = Running::start("taut operator", work, at_end)?;
        Ok(Operator { running, told, fingerprint })
    }
}

/// From here on what is sent goes to the session.
fn connect(remote: &Remote<OperatorMachine<Felt>>, told: &Told) {
    for (at, port) in told.ports.0.iter().enumerate() {
        let Some(port) = port else { continue };
        let (remote, give) = (remote.clone(), command(port, at));
        port.start(Box::new(move |payload| give(payload).is_none_or(|command| remote.send(command))));
    }
}

of_handles!(Operator, OperatorEvent);

impl Operator {
    /// Sets an operator.
    pub fn builder() -> OperatorBuilder {
        OperatorBuilder::new()
    }

    /// What robots trust it by.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The emergency stop: ahead of everything, sent until it is acknowledged, and latched at the robot until [`reset`](Self::reset).
    pub fn stop(&self) {
        self.running.remote.stop(Alarm::Pressed);
    }

    /// Lets go of the stop that is latched at the robot. Nothing moves by it.
    pub fn reset(&self) {
        self.running.remote.insist(OperatorCommand::Reset);
    }

    /// Lets the robot move. What comes of it is told by its [events](Self::events).
    pub fn resume(&self) {
        self.running.remote.insist(OperatorCommand::Resume);
    }

    /// Says goodbye: the robot stops. [`join`](Self::join) waits for that.
    pub fn close(&self) {
        self.running.remote.insist(OperatorCommand::Close);
    }
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator").field("robot", &self.told.there.0).finish_non_exhaustive()
    }
}
