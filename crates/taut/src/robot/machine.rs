//! A robot for a loop of the caller's own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use taut_agent::{Alarm, RobotCommand, RobotNote};
use taut_core::{Datagram, Ecn, Time, Transport};
use taut_session::{ChannelId, RobotLife};
use taut_transport::stack::{Side, Stack};

use super::builder::{Parts, RobotBuilder};
use super::event::{RobotEvent, Told};
use crate::body::Body;
use crate::coupled::Led;
use crate::error::Error;
use crate::host::{Addresses, Inbox, Maker, driven_by_caller, rng};
use crate::status::Status;
use crate::time::{at, ours};

/// A robot without sockets, threads and clock: the caller has these. Made by [`RobotBuilder::build`], on the thread that drives it.
///
/// `now` is a reading of a clock that never goes back, since any moment of your choice: the same for all calls. After every
/// `handle_…` call [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event) until both give `None`, then
/// [`poll_timeout`](Self::poll_timeout): by then the next call has to come. A late call never moves anything: every one looks at the
/// watchdog first. But when *no* call comes nothing here stops the devices, and each stops by itself: so all of them have to
/// [keep the lease](crate::RobotDevice::keeps_lease). When this is dropped, they are stopped.
pub struct RobotMachine {
    agent: taut_agent::Robot<Stack, Led>,
    body: Arc<Body>,
    told: Arc<Told>,
    maker: Maker,
    addresses: Addresses,
    inbox: Inbox<RobotCommand>,
    now: Time,
}

impl RobotBuilder {
    /// For a loop of your own: no socket, no thread, no clock is touched, but for the operating system's randomness. `unix` is what the wall
    /// clock says at `now`, since 1970.
    ///
    /// # Errors
    /// When a setting is missing or cannot be, or a device does not keep its lease. Each says what to do.
    pub fn build(mut self, now: Duration, unix: Duration) -> Result<RobotMachine, Error> {
        let has_state = {
            #[cfg(feature = "sockets")]
            let named = self.common.state.is_some();
            #[cfg(not(feature = "sockets"))]
            let named = false;
            named
        };
        if has_state {
            return Err(Error::invalid(
                "keeps_stops_in",
                "a loop of your own keeps stops itself: see `record`",
            ));
        }
        let record = self.record.take();
        if record.is_none() && !self.forgets_stops {
            let how = "a latched stop has to survive this process: give what was kept by `record(…)`, or, where nobody can be hurt, \
                       say `forgets_stops()`";
            return Err(Error::Missing { what: "the record of stops", how });
        }
        let Parts { known, mut session, body, plant, told, .. } = self.parts()?;
        if !taut_agent::RobotDevice::lease(&plant) {
            let why = "nothing but the device itself stops it when your loop stands still: it has to keep the lease, and say so by \
                       `keeps_lease` (closures: `with_lease`); or let `start` run the loop";
            return Err(Error::invalid("device", why));
        }
        if let Some(last) = record {
            session = session.keeps_latch(true).latched(RobotLife::next(last.as_deref()));
        }
        let maker = Maker::new(known, Side::Waits, now, unix)?;
        let stack = maker.make()?;
        let agent = taut_agent::Robot::new(at(now), stack, rng("robot"), session, plant);
        let agent = agent.reports_by_time(ours(Duration::from_millis(100)));
        let inbox = Inbox::new();
        connect(&inbox, &told, &body);
        let addresses = Addresses::to(None);
        Ok(RobotMachine { agent, body, told, maker, addresses, inbox, now: at(now) })
    }
}

fn connect(inbox: &Inbox<RobotCommand>, told: &Told, body: &Body) {
    for (at, port) in told.ports.0.iter().enumerate() {
        let Some(port) = port else { continue };
        let (inbox, channel) = (inbox.clone(), ChannelId(at as u8));
        port.start(Box::new(move |payload| {
            inbox.push(RobotCommand::Send { channel, created: None, payload })
        }));
    }
    let inbox = inbox.clone();
    body.tells(Box::new(move |channel, motion| _ = inbox.push(RobotCommand::Measured { channel, motion })));
}

impl RobotMachine {
    driven_by_caller!(RobotCommand, RobotEvent);

    /// A datagram came from there.
    pub fn handle_input(&mut self, now: Duration, from: SocketAddr, data: &[u8]) {
        let now = self.begin(now);
        let transport = self.agent.transport();
        let heard = self.addresses.heard(now, from, &|path| transport.uses_path(path));
        let Some(heard) = heard else {
            self.addresses.strange += 1;
            return;
        };
        if heard.is_reused {
            self.agent.remove_path(now, heard.path);
        }
        if let Some(origin) = heard.origin {
            self.agent.transport_mut().set_origin(heard.path, origin);
        }
        self.agent.handle_input(now, Datagram { path: heard.path, ecn: Ecn::NotCapable, data, padding: 0 });
        self.finish(now);
    }

    /// The emergency stop beside the robot: see [`Robot::stop`](crate::Robot).
    pub fn stop(&mut self, now: Duration) {
        let now = self.begin(now);
        self.agent.handle_alarm(now, Alarm::Pressed);
        self.finish(now);
    }

    /// Lets go of what [`stop`](Self::stop) latched. Nothing moves by that.
    pub fn release(&mut self, now: Duration) {
        self.command(now, RobotCommand::Release);
    }

    /// What [`RobotEvent::Keep`] gave under this number was written, or could not be.
    pub fn kept(&mut self, now: Duration, number: u64, ok: bool) {
        self.command(now, RobotCommand::Kept { number, ok });
    }

    /// Stops the devices, and says goodbye; [`RobotEvent::Ended`] follows.
    pub fn close(&mut self, now: Duration) {
        self.command(now, RobotCommand::Close);
    }

    /// It ends in order, when the goodbye is said: what its next life is given as its [record](RobotBuilder::record).
    pub fn bury(mut self) -> String {
        self.agent.bury().to_string()
    }

    /// How it is.
    pub fn status(&self) -> Status {
        self.told.board.count(&self.agent.status(self.now));
        self.addresses.counted(self.told.board.get())
    }

    /// Hears what happened, and does what is a host's.
    fn finish(&mut self, now: Time) {
        while let Some(note) = self.agent.poll_event(now) {
            match note {
                RobotNote::Reconnect => self.reconnect(now),
                RobotNote::Ended => self.told.end(),
                note => self.told.note(note),
            }
        }
    }

    /// The conversation is over: what waits for the next one.
    fn reconnect(&mut self, now: Time) {
        let next = self.maker.make().expect("it could be made before");
        let last = self.agent.reconnect(now, next);
        // It knows what was replayed, and may have begun the next conversation already.
        if last.serves_again() {
            drop(self.agent.reconnect(now, last));
        }
    }
}

impl Drop for RobotMachine {
    fn drop(&mut self) {
        self.body.end();
        self.told.end();
    }
}

impl std::fmt::Debug for RobotMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RobotMachine").field(&self.body).finish()
    }
}
