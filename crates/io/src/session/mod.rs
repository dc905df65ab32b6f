//! Sessions on real sockets: which transport, whose identity, which address; and the loops around both ends.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`TransportKind`], [`TransportConfig`] | the transports by name; their settings, those of a stack or of the kernel's TCP |
//! | [`Endpoint`] | makes a [`Carrier`] and its [`Port`](crate::Port) for each conversation: the socket stays, the rest is new |
//! | [`Security`] | who an end is and whom it trusts; or plaintext, on loopback or anywhere |
//! | [`Carrier`] | a [stack](taut_transport::stack), or the kernel's TCP |
//! | [`OperatorMachine`], [`RobotMachine`] | the [agents](taut_agent) of both ends over a [`Carrier`] |
//! | [`PathSpec`] | where the paths of a session begin: interfaces that come and go |
//! | [`operate`], [`serve`] | run them: sockets, files, and whatever comes and goes |
//!
//! The loops run on the thread that calls them. [`Remote`] reaches them from other threads.

mod carrier;
mod endpoint;
mod entropy;
mod machines;
mod operate;
mod paths;
mod record;
mod security;
mod serve;
mod transport;

pub use self::carrier::Carrier;
pub use self::endpoint::{Endpoint, EndpointError};
pub use self::entropy::{os_entropy, os_identity, os_seed};
pub use self::machines::{OperatorMachine, RobotMachine};
pub use self::operate::{OperateConfig, OperateError, operate};
pub(crate) use self::paths::PathWatch;
pub use self::paths::{PathMissing, PathNote, PathSpec};
pub use self::record::{OperatorRecord, RobotRecord};
pub use self::security::{Credentials, Security};
pub use self::serve::{ServeConfig, ServeError, serve};
pub use self::transport::TransportConfig;
pub use taut_transport::stack::{StackSpec, TransportKind};

use crate::{Alarm, FloodNote, Machine, MachineId, Mailbox};

/// What those around a session are told.
#[derive(Clone, Debug)]
pub enum Told<Note> {
    /// By the agent; but for what [`operate`] and [`serve`] do themselves.
    Note(Note),
    /// An interface of ours came or went, and with it a path.
    Path(PathNote),
    /// Strangers flood a socket of ours.
    Flood(FloodNote),
}

/// A way to the one machine of a loop, from other threads. It can be copied.
#[derive(Debug)]
pub struct Remote<M: Machine> {
    mailbox: Mailbox<M>,
    id: MachineId,
}

impl<M: Machine> Clone for Remote<M> {
    fn clone(&self) -> Self {
        Self { mailbox: self.mailbox.clone(), id: self.id }
    }
}

impl<M: Machine> Remote<M> {
    pub(crate) const fn new(mailbox: Mailbox<M>, id: MachineId) -> Self {
        Self { mailbox, id }
    }

    /// Gives the machine a command; false when it has ended or does not keep up.
    pub fn send(&self, command: M::Command) -> bool {
        self.mailbox.send(self.id, command).is_ok()
    }

    /// Gives the machine a command that may not be lost, however many wait: see [`Mailbox::insist`]. False when it has ended.
    pub fn insist(&self, command: M::Command) -> bool {
        self.mailbox.insist(self.id, command)
    }

    /// The emergency stop: ahead of every command, however many wait. False when the machine has ended.
    pub fn stop(&self, alarm: Alarm) -> bool {
        self.mailbox.alarm(alarm)
    }

    /// Turns that the loop has begun. A robot's go on a thousand times a second, unless it hangs.
    pub fn turns(&self) -> u64 {
        self.mailbox.turns()
    }
}
