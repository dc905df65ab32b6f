//! What an agent asks of a transport beyond the contract of all transports.

use std::net::SocketAddr;

use taut_core::{PathId, Transport};
use taut_transport::mtip::ChoiceReport;
use taut_transport::stranger::ShownKey;

/// A transport that knows why it carries nothing, and who else asked for it. A host whose transports cannot tell answers
/// plainly: no trouble but silence, and nothing of the rest.
pub trait Conversation: Transport {
    /// What stands in the way. At the operator; the robot's end looks at its counters.
    fn trouble(&self) -> Trouble;
    /// Is [`handle_timeout`](Transport::handle_timeout) called whenever the host wakes up, also before the deadline? A transport that owns
    /// its socket asks for it, and one on a host whose time passes by itself is answered sooner.
    fn wakes_early(&self) -> bool;
    /// Is a goodbye still on its way?
    fn lingers(&self) -> bool;
    /// How often an operator was sent away because there is another one, since this transport began.
    fn busy(&self) -> u64;
    /// At the robot: the last who was refused since this was asked last.
    fn take_stranger(&mut self) -> Option<Refused>;
    /// How messages were spread over paths and why, in the conversation at hand; `None` where nothing is chosen.
    fn choices(&self) -> Option<ChoiceReport>;
    /// Bytes of streams that were sent and received, and that no port counts; `None` where ports count them.
    fn stream_bytes(&self) -> Option<(u64, u64)>;
}

/// Why there is no session (any more), as far as this end can know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Nothing was heard at all.
    #[error("no answer")]
    NoAnswer,
    /// Nobody takes connections there.
    #[error("nobody listens there")]
    Unreachable,
    /// The peer has a session with somebody else.
    #[error("the robot has another operator")]
    Busy,
    /// The peer does not trust this identity.
    #[error("the robot does not trust this identity")]
    NotTrusted,
    /// The peer is not the one that is trusted here.
    #[error("the peer is not the robot that is trusted here")]
    WrongPeer,
    /// The peer ended a connection before it was one, and may not say why: it does not trust this identity, is not the robot
    /// that is trusted here, or strangers crowd it.
    #[error("the robot sent us away: it does not trust this identity, or strangers crowd it")]
    SentAway,
    /// It was there, and ended.
    #[error("{0}")]
    Ended(String),
}

impl Trouble {
    /// Is the peer there, and will have nothing to do with this end, or this end with it?
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Busy | Self::NotTrusted | Self::WrongPeer | Self::SentAway)
    }
}

/// Who was refused at a robot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The path on which it spoke, until its address is known.
    pub path: Option<PathId>,
    /// Where it is, as far as the driver remembers.
    pub address: Option<SocketAddr>,
    /// The key that it showed, when it came as far as that and is not trusted.
    pub key: Option<ShownKey>,
}
