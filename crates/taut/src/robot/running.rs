//! A robot on a thread of ours.

use std::net::SocketAddr;
use std::sync::Arc;

use taut_agent::{Alarm, RobotCommand};
use taut_core::Duration;
use taut_io::lines::robot_summary;
use taut_io::session::{Endpoint, Remote, RobotMachine, RobotRecord, ServeConfig, Told as Note, serve};
use taut_io::{Clock, Driver, DriverConfig};
use taut_session::ChannelId;

use super::builder::{Parts, RobotBuilder};
use super::event::{RobotEvent, Told};
use crate::body::Body;
use crate::coupled::Led;
use crate::error::Error;
use crate::identity::Fingerprint;
use crate::recorded::Recorded;
use crate::running::{Running, of_handles, resolve, system};

/// How often the counts of [`Status`] are renewed.
pub(crate) const REPORTS: Duration = Duration::from_millis(100);

/// A robot that runs, on a thread of ours; one operator follows another. Made by [`RobotBuilder::start`].
///
/// When it is dropped, its devices are stopped first, then the operator is told, for two seconds at most.
#[must_use = "dropped, it ends at once"]
pub struct Robot {
    running: Running<RobotMachine<Led>>,
    body: Arc<Body>,
    told: Arc<Told>,
    address: SocketAddr,
    fingerprint: Fingerprint,
}

impl RobotBuilder {
    /// Runs it on a thread of ours, which owns its sockets. Nothing moves before an operator resumes.
    ///
    /// # Errors
    /// When a setting is missing or cannot be, or the system refuses a socket, a file or a thread. Each says what to do.
    pub fn start(mut self) -> Result<Robot, Error> {
        let listen = self.listen.take();
        let how = "say where by `listen(\"0.0.0.0:4433\")`";
        let listen = listen.ok_or(Error::Missing { what: "the address", how })?;
        if self.record.is_some() {
            let why = "is for `build`; here `keeps_stops_in` names a file";
            return Err(Error::invalid("record", why));
        }
        let state = self.common.state_file()?;
        if state.is_none() && !self.forgets_stops {
            let how = "a latched stop has to survive this process: name a file by `keeps_stops_in(…)`, or, where nobody can be hurt, \
                       say `forgets_stops()`";
            return Err(Error::Missing { what: "the file for stops", how });
        }
        let Parts { known, session, body, plant, told, about } = self.parts()?;
        let clock = Clock::start();
        let fingerprint = known.identity.fingerprint();
        let (transport, at) = (known.transport(), resolve("listen", &listen)?);
        let endpoint = Endpoint::listen(transport, at, known.credentials(), &clock).map_err(system)?;
        let endpoint = self.common.over(endpoint)?;
        let address = endpoint.local_addr().map_err(system)?;
        let mut config = ServeConfig::new(session).reports_by_time(REPORTS);
        if let Some(path) = state {
            config = config.record(RobotRecord::open(&path).map_err(system)?);
        }
        let ended = Arc::clone(&told);
        let failed = move |why| ended.events.queue.push(RobotEvent::RecordingEnded { why });
        let mut recorded = Recorded::start(&self.common, clock, about, failed)?;
        if let Some(observer) = recorded.observer() {
            config = config.observed(observer);
        }
        let (theirs, moved, ends) =
            (Arc::clone(&told), Arc::clone(&body), (Arc::clone(&told), Arc::clone(&body)));
        let work = move |started: Box<dyn FnOnce(Remote<RobotMachine<Led>>)>| {
            let driver = Driver::new(DriverConfig::new()).map_err(system)?.with_clock(clock);
            let started = |remote: Remote<RobotMachine<Led>>| {
                connect(&remote, &theirs, &moved);
                started(remote);
            };
            let tell = &mut |at, note| {
                recorded.robot(at, &note);
                if let Note::Note(note) = note {
                    theirs.note(note);
                }
            };
            let ended = serve(driver, &endpoint, config, plant, started, tell).map_err(system);
            recorded.finish(ended.as_ref().ok().map(robot_summary));
            theirs.board.count(&ended?);
            Ok(())
        };
        let at_end = move || {
            ends.1.end();
            ends.0.end();
        };
        let running = Running::start("taut robot", work, at_end)?;
        Ok(Robot { running, body, told, address, fingerprint })
    }
}

/// From here on what is sent goes to the session, and so does what devices measure.
fn connect(remote: &Remote<RobotMachine<Led>>, told: &Told, body: &Body) {
    for (at, port) in told.ports.0.iter().enumerate() {
        let Some(port) = port else { continue };
        let (remote, channel) = (remote.clone(), ChannelId(at as u8));
        port.start(Box::new(move |payload| {
            remote.send(RobotCommand::Send { channel, created: None, payload })
        }));
    }
    let remote = remote.clone();
    // One that is lost is followed by the next.
    body.tells(Box::new(move |channel, motion| _ = remote.send(RobotCommand::Measured { channel, motion })));
}

of_handles!(Robot, RobotEvent);

impl Robot {
    /// Sets a robot.
    pub fn builder() -> RobotBuilder {
        RobotBuilder::new()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What operators trust it by.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The emergency stop beside the robot: the devices are stopped here and now, on the thread that calls, and the stop is latched until
    /// [`release`](Self::release); then the operator resumes.
    pub fn stop(&self) {
        self.body.press(|| _ = self.running.remote.stop(Alarm::Pressed));
    }

    /// Lets go of what [`stop`](Self::stop) latched. Nothing moves by that.
    pub fn release(&self) {
        self.running.remote.insist(RobotCommand::Release);
    }

    /// Stops the devices, and says goodbye to the operator; [`join`](Self::join) waits for that.
    pub fn close(&self) {
        self.body.end();
        self.running.remote.insist(RobotCommand::Close);
    }
}

impl std::fmt::Debug for Robot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Robot")
            .field("address", &self.address)
            .field("devices", &self.body)
            .finish_non_exhaustive()
    }
}
