//! Sessions on real sockets: which transport, whose identity, which address; and the loops around both ends.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`TransportKind`], [`TransportConfig`] | the transports by name; their settings, those of a stack or of the kernel's TCP |
//! | [`Endpoint`] | makes a [`Carrier`] and its [`Port`](crate::Port) for each conversation: the socket stays, the rest is new |
//! | [`Security`] | who an end is and whom it trusts; or plaintext, on loopback or anywhere |
//! | [`Carrier`] | a [stack](taut_transport::stack), or the kernel's TCP |
//! | [`OperatorMachine`] | an operator that sends samples at a rate, resumes as it is told, and reports |
//! | [`RobotMachine`] | a robot with something that moves: a [`Plant`](crate::device::Plant) |
//! | [`PathSpec`] | where the paths of a session begin: interfaces that come and go |
//! | [`Witness`] | looks on, for measurements |
//! | [`operate`], [`serve`] | the loops: connecting, losing the link, beginning anew, saying goodbye |
//!
//! The loops run on the thread that calls them. [`Remote`] reaches them from other threads.

mod carrier;
mod endpoint;
mod entropy;
mod operate;
mod operator;
mod paths;
mod record;
mod refusals;
mod robot;
mod security;
mod serve;
mod silence;
mod transport;
mod witness;

pub use self::carrier::{Carrier, Refused, Trouble, Witnessed};
pub use self::endpoint::{Endpoint, EndpointError};
pub use self::entropy::{os_entropy, os_identity, os_seed};
pub use self::operate::{OperateConfig, OperateError, operate};
pub use self::operator::{
    OperatorCommand, OperatorMachine, OperatorNote, Progress, ResumePolicy, RoundTrips, Sample,
};
pub(crate) use self::paths::PathWatch;
pub use self::paths::{PathMissing, PathNote, PathSpec};
pub use self::record::{OperatorRecord, RobotRecord};
pub use self::robot::{DeviceReport, RobotCommand, RobotMachine, RobotNote};
pub use self::security::{Credentials, Security};
pub use self::serve::{ServeConfig, ServeError, serve};
pub use self::silence::Standing;
pub use self::transport::TransportConfig;
pub use self::witness::{Look, Seen, Witness};
pub use taut_transport::stack::{StackSpec, TransportKind};

use crate::{Alarm, Machine, MachineId, Mailbox};

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

    /// The emergency stop: ahead of every command, however many wait. False when the machine has ended.
    pub fn stop(&self, alarm: Alarm) -> bool {
        self.mailbox.alarm(alarm)
    }

    /// Turns that the loop has begun. A robot's go on a thousand times a second, unless it hangs.
    pub fn turns(&self) -> u64 {
        self.mailbox.turns()
    }
}
