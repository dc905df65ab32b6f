//! What an agent asks of a transport beyond the contract of all transports.

use std::net::SocketAddr;

use taut_core::{PathId, Transport};
use taut_transport::mtip::ChoiceReport;
use taut_transport::stack::Stack;
pub use taut_transport::stack::Trouble;
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
    /// Messages that were to be sent, and copies of them that were; `None` where nobody counts.
    fn copies(&self) -> Option<(u64, u64)>;
    /// Bytes of streams that were sent and received, and that no port counts; `None` where ports count them.
    fn stream_bytes(&self) -> Option<(u64, u64)>;
}

/// As far as the stack knows by itself: on a host that wakes it when it is due, and whose port counts bytes.
impl Conversation for Stack {
    fn trouble(&self) -> Trouble {
        Self::trouble(self)
    }
    fn wakes_early(&self) -> bool {
        false
    }
    fn lingers(&self) -> bool {
        Self::lingers(self)
    }
    fn busy(&self) -> u64 {
        Self::busy(self)
    }
    fn take_stranger(&mut self) -> Option<Refused> {
        let stranger = Self::take_stranger(self)?;
        Some(Refused { path: Some(stranger.path), address: None, key: stranger.key })
    }
    fn choices(&self) -> Option<ChoiceReport> {
        Self::choices(self)
    }
    fn copies(&self) -> Option<(u64, u64)> {
        Self::copies(self)
    }
    fn stream_bytes(&self) -> Option<(u64, u64)> {
        None
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
