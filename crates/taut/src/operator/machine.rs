//! An operator for a loop of the caller's own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use taut_agent::{Alarm, OperatorCommand, OperatorNote};
use taut_core::{Datagram, Ecn, PathId, Time, Transport};
use taut_session::{ChannelId, OperatorLife};
use taut_transport::stack::{Side, Stack};

use super::builder::{OperatorBuilder, Parts};
use super::event::{OperatorEvent, Told};
use crate::coupled::Felt;
use crate::error::Error;
use crate::host::{Addresses, Inbox, Maker, driven_by_caller, rng};
use crate::port::Port;
use crate::status::Status;
use crate::time::at;

/// An operator without sockets, threads and clock: the caller has these. Made by [`OperatorBuilder::build`], on the thread that drives it, as a
/// [`RobotMachine`](crate::RobotMachine) is driven. When this is dropped, the hand lets go of its force, and the robot's watchdog stops the robot.
pub struct OperatorMachine {
    agent: taut_agent::Operator<Stack, Felt>,
    told: Arc<Told>,
    maker: Maker,
    addresses: Addresses,
    inbox: Inbox<OperatorCommand>,
    now: Time,
}

/// The number of an operator's only path.
const PATH: PathId = PathId(0);

impl OperatorBuilder {
    /// For a loop of your own: no socket, no thread, no clock is touched, but for the operating system's randomness. `unix` is what the wall
    /// clock says at `now`, since 1970. [`connect`](Self::connect) has to be an address here, not a name.
    ///
    /// # Errors
    /// When a setting is missing or cannot be. Each says what to do.
    pub fn build(mut self, now: Duration, unix: Duration) -> Result<OperatorMachine, Error> {
        let text = self.address()?;
        let remote: SocketAddr = text.parse().map_err(|_| {
            Error::invalid(
                "connect",
                format!("`{text}` is not ADDRESS:PORT; a loop of your own resolves names itself"),
            )
        })?;
        #[cfg(feature = "sockets")]
        if self.common.state.is_some() {
            return Err(Error::invalid(
                "keeps_stops_in",
                "a loop of your own keeps stops itself: see `record`",
            ));
        }
        let presses = self.record.as_ref().is_some_and(|last| OperatorLife::next(last.as_deref()));
        let Parts { known, session, settings, hand, told, .. } = self.parts()?;
        let maker = Maker::new(known, Side::Opens, now, unix)?;
        let mut stack = maker.make()?;
        stack.add_path(at(now), PATH);
        let mut agent = taut_agent::Operator::new(at(now), stack, rng("operator"), session, hand, settings);
        if presses {
            agent.press_again(at(now));
        }
        let inbox = Inbox::new();
        for (at, port) in told.ports.0.iter().enumerate() {
            let Some(port) = port else { continue };
            let (inbox, give) = (inbox.clone(), command(port, at));
            port.start(Box::new(move |payload| give(payload).is_none_or(|command| inbox.push(command))));
        }
        let addresses = Addresses::to(Some(remote));
        Ok(OperatorMachine { agent, told, maker, addresses, inbox, now: at(now) })
    }
}

/// What an operator is asked for a payload of this channel.
pub(super) fn command(
    port: &Arc<Port>,
    at: usize,
) -> impl Fn(Vec<u8>) -> Option<OperatorCommand> + Send + Sync + 'static {
    let (port, channel) = (Arc::downgrade(port), ChannelId(at as u8));
    move |payload| {
        let port = port.upgrade()?;
        if port.moves() {
            return Some(OperatorCommand::Move { channel, motion: port.motion(&payload)? });
        }
        Some(OperatorCommand::Send { channel, created: None, payload })
    }
}

impl OperatorMachine {
    driven_by_caller!(OperatorCommand, OperatorEvent);

    /// A datagram came from there.
    pub fn handle_input(&mut self, now: Duration, from: SocketAddr, data: &[u8]) {
        let now = self.begin(now);
        let transport = self.agent.transport();
        let heard = self.addresses.heard(now, from, &|path| transport.uses_path(path));
        // The robot answers from where it was called.
        let Some(heard) = heard.filter(|heard| heard.path == PATH) else {
            self.addresses.strange += 1;
            return;
        };
        self.agent.handle_input(now, Datagram { path: heard.path, ecn: Ecn::NotCapable, data, padding: 0 });
        self.finish(now);
    }

    /// The emergency stop: see [`Operator::stop`](crate::Operator).
    pub fn stop(&mut self, now: Duration) {
        let now = self.begin(now);
        self.agent.handle_alarm(now, Alarm::Pressed);
        self.finish(now);
    }

    /// Lets go of the stop that is latched at the robot. Nothing moves by it.
    pub fn reset(&mut self, now: Duration) {
        self.command(now, OperatorCommand::Reset);
    }

    /// Lets the robot move.
    pub fn resume(&mut self, now: Duration) {
        self.command(now, OperatorCommand::Resume);
    }

    /// Says goodbye: the robot stops. [`OperatorEvent::Ended`] follows.
    pub fn close(&mut self, now: Duration) {
        self.command(now, OperatorCommand::Close);
    }

    /// How the session goes.
    pub fn status(&self) -> Status {
        self.told.board.count(&self.agent.progress(self.now).status);
        self.addresses.counted(self.told.board.get())
    }

    /// Hears what happened, and does what is a host's.
    fn finish(&mut self, now: Time) {
        while let Some(note) = self.agent.poll_event(now) {
            match note {
                OperatorNote::Reconnect => {
                    let mut next = self.maker.make().expect("it could be made before");
                    next.add_path(now, PATH);
                    drop(self.agent.reconnect(now, next));
                }
                note => self.told.note(note),
            }
        }
    }
}

impl Drop for OperatorMachine {
    fn drop(&mut self) {
        self.told.end(None);
    }
}

impl std::fmt::Debug for OperatorMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OperatorMachine").field(&self.told.there.0).finish()
    }
}
