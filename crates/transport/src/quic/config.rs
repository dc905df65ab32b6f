//! What can be chosen about a QUIC connection.

use taut_core::{Bytes, Duration, Priority};

use super::congestion::Congestion;
#[cfg(feature = "qlog")]
use super::qlog::Qlog;
use super::tls::Resumption;
use crate::service::Service;

/// What several paths are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case"))]
pub enum PathUse {
    /// The first one carries everything, the others wait: what the protocol has by itself (PATH_STATUS_AVAILABLE and
    /// PATH_STATUS_BACKUP). Only an emergency stop goes over all.
    #[default]
    FailOver,
    /// Every sample goes over every path, and the receiver takes the first copy. Reliable messages go once.
    Duplicate,
}

/// Choices for a [`Quic`](super::Quic) or [`MpQuic`](super::MpQuic). Both sides may choose differently but for `max_message`
/// and `certificates`.
#[derive(Clone, Debug)]
pub struct QuicConfig {
    pub(super) congestion: Congestion,
    pub(super) max_datagram: Bytes,
    pub(super) max_message: Bytes,
    pub(super) queue: usize,
    pub(super) send_buffer: Bytes,
    pub(super) idle_timeout: Duration,
    pub(super) keep_alive: Duration,
    /// How long, and how many.
    pub(super) acks: Option<(Duration, u32)>,
    pub(super) reordering: u32,
    pub(super) initial_rtt: Duration,
    pub(super) retry: bool,
    pub(super) resumption: Option<Resumption>,
    pub(super) early_data: bool,
    pub(super) certificates: bool,
    pub(super) key_log: bool,
    pub(super) service: Service,
    pub(super) instance: u128,
    pub(super) path_use: PathUse,
    pub(super) emergency: Option<Priority>,
    pub(super) path_idle_timeout: Duration,
    pub(super) reopen: Duration,
    #[cfg(feature = "qlog")]
    pub(super) qlog: Option<Qlog>,
}

/// What is asked of the peer where nothing else is chosen.
const ACKS: (Duration, u32) = (Duration::from_millis(5), 2);

impl Default for QuicConfig {
    fn default() -> Self {
        Self {
            congestion: Congestion::default(),
            max_datagram: Bytes::new(1_200),
            max_message: Bytes::new(1 << 18),
            queue: 64,
            send_buffer: Bytes::new(1 << 19),
            idle_timeout: Duration::from_secs(5),
            keep_alive: Duration::from_secs(1),
            acks: Some(ACKS),
            reordering: 16,
            initial_rtt: Duration::from_millis(100),
            retry: false,
            resumption: None,
            early_data: true,
            certificates: false,
            key_log: false,
            service: Service::Session,
            instance: 0,
            path_use: PathUse::default(),
            emergency: None,
            path_idle_timeout: Duration::from_millis(500),
            reopen: Duration::from_secs(1),
            #[cfg(feature = "qlog")]
            qlog: None,
        }
    }
}

impl QuicConfig {
    /// The defaults of one path.
    pub fn new() -> Self {
        Self::default()
    }

    /// Those of several paths, which are for what `path_use` says. Other than [`Self::new`]: [`Congestion::NewReno`] on each path,
    /// acknowledgements and reordering as RFC 9000 and 9002 have them, and a keep-alive of 100 ms.
    pub fn multipath(path_use: PathUse) -> Self {
        Self {
            path_use,
            // CUBIC computes with the system's `cbrt`; for small messages at a steady pace the two are alike.
            congestion: Congestion::NewReno,
            acks: None,
            reordering: 3,
            keep_alive: Duration::from_millis(100),
            ..Self::default()
        }
    }

    /// What several paths are for. Default [`PathUse::FailOver`].
    pub fn path_use(mut self, path_use: PathUse) -> Self {
        self.path_use = path_use;
        self
    }

    /// Samples of this priority, and of any more urgent one, go over every path whatever several are for. Default: none. What is reliable
    /// goes once.
    pub fn emergency(mut self, priority: Priority) -> Self {
        self.emergency = Some(priority);
        self
    }

    /// After how long a silence on one of several paths it is abandoned, and another one takes over. Default 500 ms; from 20 ms to
    /// 1 min. It is at least three probe timeouts (RFC 9000 section 10.1); a path is pinged thrice in it at least, however long [`Self::keep_alive`] is.
    pub fn path_idle_timeout(mut self, timeout: Duration) -> Self {
        self.path_idle_timeout = timeout.clamp(Duration::from_millis(20), Duration::from_secs(60));
        self
    }

    /// How often one of several paths is pinged: thrice before its silence would end it.
    pub(super) fn path_keep_alive(&self) -> Duration {
        self.keep_alive.min(self.path_idle_timeout / 3)
    }

    /// Client: how long after one of several paths was abandoned it is opened anew. Default 1 s; from 10 ms to 1 min.
    pub fn reopen(mut self, after: Duration) -> Self {
        self.reopen = after.clamp(Duration::from_millis(10), Duration::from_secs(60));
        self
    }

    /// Who decides how much is sent. Default [`Congestion::Paced`].
    pub fn congestion(mut self, congestion: Congestion) -> Self {
        self.congestion = congestion;
        self
    }

    /// What it is for. Default [`Service::Session`]. With a peer that has another nothing comes about, and a client is told so.
    pub fn service(mut self, service: Service) -> Self {
        self.service = service;
        self
    }

    /// A number of the address that a server listens at, the same after a restart. Default 0. Servers of one identity must have
    /// different ones: each gives out the token of a stateless reset to whoever asks with a connection ID of another (RFC 9000
    /// section 21.11).
    pub fn instance(mut self, number: u128) -> Self {
        self.instance = number;
        self
    }

    /// The longest UDP payload. Default 1200 B, which every path that QUIC works on carries; up to 1452 B, the most
    /// that IPv6 over Ethernet does. It is not probed for (RFC 8899): a probe that is lost looks like congestion, and
    /// samples are small. Above what the path carries, no handshake completes.
    pub fn max_datagram(mut self, bytes: Bytes) -> Self {
        self.max_datagram = bytes.clamp(Bytes::new(1_200), Bytes::new(1_452));
        self
    }

    /// The longest reliable message, sent or accepted. Default 256 KiB; from 1 B to 16 MiB. An unreliable one has to
    /// fit into a datagram, see [`Quic::max_unreliable`](super::Quic::max_unreliable).
    pub fn max_message(mut self, bytes: Bytes) -> Self {
        self.max_message = bytes.clamp(Bytes::new(1), Bytes::new(1 << 24));
        self
    }

    /// How many unreliable samples of one stream, series and priority wait at most; when more do, the oldest of them is superseded.
    /// Of all that is unreliable, as many bytes as so many of the longest have; beyond that the oldest of the least urgent is
    /// superseded, or what comes refused. Default 64; at least 1.
    pub fn queue(mut self, messages: usize) -> Self {
        self.queue = messages.max(1);
        self
    }

    /// How many bytes of reliable messages wait at most before they are given to QUIC, which keeps as much again until
    /// it is acknowledged; of priority 0 a tenth more. Default 512 KiB; at least the longest message.
    pub fn send_buffer(mut self, bytes: Bytes) -> Self {
        self.send_buffer = bytes;
        self
    }

    /// After how long a silence the connection is given up; the shorter one of both sides' counts (RFC 9000 section
    /// 10.1). Default 5 s; from 100 ms to 10 min. Meanwhile a new operator, or the old one anew, is refused.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout.clamp(Duration::from_millis(100), Duration::from_secs(600));
        self
    }

    /// After how long without anything to say a PING keeps the connection alive; of several paths each is pinged so often, by both
    /// sides, for a path that only one of them pings dies of silence. Default 1 s, of several paths 100 ms; from 5 ms to 10 min.
    /// Chosen above the idle timeout it does not.
    pub fn keep_alive(mut self, interval: Duration) -> Self {
        self.keep_alive = interval.clamp(Duration::from_millis(5), Duration::from_secs(600));
        self
    }

    /// How long the peer may withhold an acknowledgement (draft-ietf-quic-ack-frequency-11). Default 5 ms; from 1 ms
    /// to 25 ms. Shorter finds losses sooner, longer saves packets on the way back. Of several paths nothing is asked, unless it is chosen.
    pub fn ack_delay(mut self, delay: Duration) -> Self {
        let (_, every) = self.acks.unwrap_or(ACKS);
        self.acks = Some((delay.clamp(Duration::from_millis(1), Duration::from_millis(25)), every));
        self
    }

    /// At the latest how many packets the peer acknowledges together. Default 2, as RFC 9000 section 13.2.2 has it;
    /// from 1 to 100.
    pub fn ack_every(mut self, packets: u32) -> Self {
        let (delay, _) = self.acks.unwrap_or(ACKS);
        self.acks = Some((delay, packets.clamp(1, 100)));
        self
    }

    /// How many packets later one may arrive before those after it say that it is lost (RFC 9002 section 6.1.1, which
    /// suggests 3). Default 16; from 3 to 1000. At 1 kHz, jitter of a few milliseconds reorders by as many packets,
    /// and taking that for loss slows down for nothing. What is missing for 9/8 of a round trip is lost in any case.
    pub fn reordering(mut self, packets: u32) -> Self {
        self.reordering = packets.clamp(3, 1_000);
        self
    }

    /// The round trip that is assumed before one was measured: a lost first packet is sent again after thrice as long.
    /// Default 100 ms (RFC 9002 section 6.2.2 suggests 333 ms); from 1 ms to 5 s.
    pub fn initial_rtt(mut self, rtt: Duration) -> Self {
        self.initial_rtt = rtt.clamp(Duration::from_millis(1), Duration::from_secs(5));
        self
    }

    /// Server: makes every client prove its address first, by a Retry packet without state (RFC 9000 section 8.1.2).
    /// Default: only while three handshakes are under way. Costs a round trip; with it, the server computes nothing for
    /// strangers who forge addresses.
    pub fn retry(mut self, retry: bool) -> Self {
        self.retry = retry;
        self
    }

    /// Remembers sessions, for short handshakes. Default: none.
    pub fn resumption(mut self, resumption: Resumption) -> Self {
        self.resumption = Some(resumption);
        self
    }

    /// The same, unless there is one already.
    pub fn or_resumption(mut self, resumption: Resumption) -> Self {
        self.resumption.get_or_insert(resumption);
        self
    }

    /// Lets samples travel in the first packet of a resumed session (0-RTT, RFC 9001 section 4.6). Default on, of no
    /// effect without [`Self::resumption`]. See the [module](super#early-data) for what may go and what cannot happen.
    pub fn early_data(mut self, early_data: bool) -> Self {
        self.early_data = early_data;
        self
    }

    /// Shows identities as X.509 certificates, see [`certificate`](crate::certificate), instead of as raw public keys, for
    /// peers whose TLS lacks RFC 7250. Both sides must choose the same. Default off. Who is trusted does not change:
    /// the key in the peer's certificate counts, whoever signed it. Costs 200 B each way in a handshake.
    pub fn certificates(mut self, certificates: bool) -> Self {
        self.certificates = certificates;
        self
    }

    /// Writes what each connection does, packet by packet: on a server also of those whom nobody trusts. Default: not. It changes
    /// nothing of what is sent.
    #[cfg(feature = "qlog")]
    pub fn qlog(mut self, qlog: Qlog) -> Self {
        self.qlog = Some(qlog);
        self
    }

    /// Keeps the secrets of the connection for [`Quic::take_key_log`](super::Quic::take_key_log). Default off.
    /// **For the lab**: whoever has them reads everything.
    pub fn key_log(mut self, key_log: bool) -> Self {
        self.key_log = key_log;
        self
    }
}
