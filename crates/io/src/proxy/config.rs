//! How a proxy is set, and what it counts.

use std::collections::BTreeMap;

use taut_core::{DropCause, Duration};
use taut_transport::mtip::ChoiceReport;

use super::clocks::ClockCounts;

/// How a proxy treats datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyConfig {
    pub(super) flows: usize,
    pub(super) idle: Duration,
    pub(super) deadline: Option<Duration>,
    pub(super) keep_overtaken: bool,
    pub(super) strictly_in_time: bool,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        Self {
            flows: 256,
            idle: Duration::from_secs(60),
            deadline: Some(Duration::from_millis(200)),
            keep_overtaken: false,
            strictly_in_time: false,
        }
    }
}

impl ProxyConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Flows at a time. Default 256; 1 to 4096. At the far end each has a socket. One more takes the place of the quietest if
    /// nothing was said in that for 1 s; otherwise the datagram that would begin it is dropped and counted.
    pub fn flows(mut self, flows: usize) -> Self {
        self.flows = flows.clamp(1, 4_096);
        self
    }

    /// A flow ends when nothing was said in it for so long. Default 60 s; 1 s to a day.
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = idle.clamp(Duration::from_secs(1), Duration::from_secs(86_400));
        self
    }

    /// The age at which a datagram is worthless, counted from when a proxy got it from its application. Default 200 ms. It goes along with
    /// what is sent from here, and is this end's own for what arrives: there the shorter one counts. `None`: never, but for what the
    /// other end and the transport say.
    pub fn deadline(mut self, deadline: Option<Duration>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Give datagrams that others of their flow have overtaken, in whatever order they come, each once. Default: no; what is older than
    /// one that was given is dropped.
    pub fn keep_overtaken(mut self, keep: bool) -> Self {
        self.keep_overtaken = keep;
        self
    }

    /// Drop what may be late, and not only what probably is. By the clocks of two hosts an age is known to within half of the
    /// shortest round trip; of that up to a quarter of the deadline counts against a datagram, and with this all of it: then
    /// nothing older than its deadline is given whatever the network, and nothing at all where a round trip is as long.
    /// Default: no.
    pub fn strictly_in_time(mut self, strictly: bool) -> Self {
        self.strictly_in_time = strictly;
        self
    }
}

/// What went through a proxy, in datagrams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProxyStats {
    /// Taken from applications here.
    pub taken: u64,
    /// Of these, given to the transport.
    pub sent: u64,
    /// Arrived from the other end.
    pub arrived: u64,
    /// Of these, given to applications here.
    pub given: u64,
    /// What was not, by cause: refused by the transport at once or later ([`Event::Dropped`](taut_core::Event::Dropped)), of a flow too many
    /// ([`DropCause::SendBufferFull`] with [`ProxyStats::flows_full`]), of an unknown flow, refused by the kernel; of what arrived, also
    /// what is older than its deadline or of unknown age ([`DropCause::TooLate`]), overtaken ([`DropCause::Superseded`]), or here
    /// already ([`DropCause::Duplicate`]).
    pub dropped: BTreeMap<DropCause, u64>,
    /// Datagrams from the other end, or from whoever pretended to be it, that the transport here refused ([`Event::Refused`](taut_core::Event::Refused)), by
    /// cause: too late, or here already, as one of two copies always is.
    pub refused: BTreeMap<DropCause, u64>,
    /// Of those dropped, for want of room for another flow.
    pub flows_full: u64,
    /// How often the kernel said that nobody listens here: at once, then it is among those dropped, or by an error that came
    /// back, then it was taken for given.
    pub refused_here: u64,
    /// Flows that began.
    pub flows: u64,
    /// Flows that ended because nothing was said, for [`ProxyConfig::idle`] or while another one wanted their place.
    pub flows_idle: u64,
    /// How the clocks of both ends were compared.
    pub clock: ClockCounts,
    /// How the datagrams sent, and the questions about clocks, were spread over paths, and why: [`Conversation::choices`](taut_agent::Conversation::choices), when this was reported.
    pub choices: Option<ChoiceReport>,
}
