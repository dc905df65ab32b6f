//! What the builders of both ends have in common.

use std::sync::Arc;
use std::time::Duration;

use taut_session::{Channel, ChannelError, ControlLaw, Direction};
use taut_transport::identity::Trust;
use taut_transport::stack::TransportKind;

use crate::error::Error;
use crate::identity::{Fingerprint, Identity};
use crate::port::Port;

/// Who an end is, whom it trusts, and over what it speaks.
#[derive(Debug, Default)]
pub(crate) struct Common {
    pub(crate) identity: Option<Identity>,
    pub(crate) trust: Trust,
    pub(crate) transport: Option<String>,
    #[cfg(feature = "sockets")]
    pub(crate) paths: Vec<String>,
    #[cfg(feature = "sockets")]
    pub(crate) state: Option<std::path::PathBuf>,
    #[cfg(feature = "recording")]
    pub(crate) recording: Option<std::path::PathBuf>,
}

/// The same, checked.
pub(crate) struct Known {
    pub(crate) identity: Identity,
    pub(crate) trust: Trust,
    pub(crate) kind: TransportKind,
}

impl Common {
    pub(crate) fn trust(&mut self, peer: Fingerprint) {
        self.trust = std::mem::take(&mut self.trust).and(peer);
    }

    /// Neither end speaks in the clear.
    pub(crate) fn known(&self) -> Result<Known, Error> {
        let missing = |what, how| Error::Missing { what, how };
        let identity = self.identity.clone();
        let identity = identity.ok_or(missing("the identity", "say who this end is by `identity(…)`"))?;
        if self.trust.is_empty() {
            return Err(missing("trust", "name the other end's fingerprint by `trust(…)`"));
        }
        let kind = self.transport.as_deref().map_or(Ok(TransportKind::Quic), str::parse);
        let kind = kind.map_err(|why| Error::invalid("transport", why))?;
        Ok(Known { identity, trust: self.trust.clone(), kind })
    }
}

/// How a session is run, for whoever reads its recording.
#[cfg_attr(not(feature = "recording"), expect(dead_code, reason = "for a recording"))]
pub(crate) struct About {
    pub(crate) end: &'static str,
    pub(crate) transport: &'static str,
    pub(crate) law: Option<ControlLaw>,
    pub(crate) turns: bool,
    pub(crate) numbers: Vec<(&'static str, f64)>,
    /// By their numbers.
    pub(crate) channels: Vec<Channel>,
}

/// A number of times a second, as a period.
pub(crate) fn period(hz: u32) -> Result<Duration, Error> {
    if !(1..=10_000).contains(&hz) {
        return Err(Error::invalid("rate", format!("{hz} is not from 1 to 10000 Hz")));
    }
    Ok(Duration::from_secs(1) / hz)
}

/// Declares the channel of a sender or a receiver, at the end that sends `direction`.
pub(crate) fn declare<C>(
    config: C,
    port: &Arc<Port>,
    direction: Direction,
    channel: impl FnOnce(C, taut_session::Channel) -> Result<C, ChannelError>,
) -> Result<C, Error> {
    port.take()?;
    channel(config, port.declared(direction)).map_err(|error| Error::invalid("channel", error))
}
