//! QUIC (RFC 9000): reliable messages in streams, samples in datagrams, all of it encrypted and both sides known.
//!
//! The protocol is `quinn-proto`'s on one path ([`Quic`]) and `noq-proto`'s on up to eight ([`MpQuic`]), state machines as sans-IO
//! as ours; TLS 1.3 is `rustls`'. What is here is the same for both: who goes first, what is dropped, who is trusted, how time and
//! chance get in, and one conversation as a [`Transport`](taut_core::Transport).
//!
//! | message | travels as |
//! | --- | --- |
//! | [`Unreliable`](taut_core::Reliability::Unreliable) | a DATAGRAM frame (RFC 9221), never sent again |
//! | [`Reliable`](taut_core::Reliability::Reliable) | a frame in a QUIC stream; eight streams, by [`StreamId`](taut_core::StreamId) modulo 8, none waits for another |
//!
//! What lies inside is in [`frame`].
//!
//! # Order and age
//!
//! Messages wait here, not in QUIC: the most urgent goes first, of equally urgent reliable ones that which was offered
//! first, of samples the newest counts, age is checked when a
//! message is offered and when it is its turn. QUIC is given one sample at a time, when the one before has left; so
//! one sample at most grows old inside QUIC when congestion control holds it back. A reliable message that has been
//! given to QUIC is delivered whatever its age. Priority 0 waits for neither queue nor rate, and its stream goes
//! before all others.
//!
//! # One peer
//!
//! A server answers strangers only as far as a handshake; eight at once. From the fourth on a client has to show that it
//! is where it says, by a Retry packet that costs the server no memory (RFC 9000 section 8.1.2), so that who forges addresses
//! crowds nobody out; beyond eight the oldest makes room, in silence, those first that have not shown it. The first that is
//! trusted has the conversation; whoever comes later is refused, with [`Event::Refused`], and changes nothing, until
//! the conversation has ended. A client that moves to another path is followed (RFC 9000 section 9); packets that
//! are forged or were seen before are refused.
//!
//! An attempt that somebody ended before the server had proven who it is, is repeated, five times in all: anybody who overhears
//! can forge such an end. On the client, [`Event::Connected`] means that the server is the right one. A server that does not trust the
//! client says so half a round trip later: [`Event::Closed`], and [`CloseReason::NotTrusted`].
//!
//! # Early data
//!
//! With [`QuicConfig::resumption`], the second handshake between the same peers needs no signatures, and the client's
//! unreliable messages travel in its first packet. Those of priority 0 do not, and reliable ones do not: an early
//! packet may be recorded and sent again (RFC 8446 section 8), and what is a command shall not be done twice. A server
//! takes each ticket once, and none from before it was started, so that a packet sent again is not taken early. On a
//! server, early messages are received before `Connected`, and its unreliable answers go at once, in the packets of
//! its half of the handshake: only who has the keys of the session before can read them. Where the server does not take them, they are reported
//! as dropped.
//!
//! # Several paths
//!
//! [`MpQuic`] speaks draft-ietf-quic-multipath. Its client opens the paths that its driver adds. The handshake takes the first of
//! them, and the next one when no answer has come for a second. Both sides ping every path, for one that nobody uses dies; the client
//! opens again what was abandoned. [`PathUse`] says what the paths are for. By itself the protocol has no choice of a path for each
//! datagram, only paths that are available and others that stand by ([`PathUse::FailOver`]): when the first one falls silent, the
//! next takes over after [`QuicConfig::path_idle_timeout`]. With [`PathUse::Duplicate`], samples carry a number, for the time of each
//! copy its path alone is available, and the receiver gives on the first copy; a sample of priority 0 waits for the copy at work.
//!
//! # Determinism
//!
//! All randomness comes from the [`Entropy`] given, all time from the driver. With a seed, two runs are the same to
//! the byte, but for [`Congestion::Bbr`]. (CUBIC computes with the `cbrt` of the system.)
//!
//! ```
//! use taut_core::{Datagram, Ecn, Event, Message, PathId, Seed, Time, Transport};
//! use taut_transport::entropy::Entropy;
//! use taut_transport::identity::{Identity, Trust};
//! use taut_transport::quic::{Quic, QuicConfig};
//!
//! let seed = Seed::new(1);
//! let (operator, robot) = (Identity::from_seed(seed, "operator"), Identity::from_seed(seed, "robot"));
//! let entropy = |name| Entropy::seeded(seed, name);
//! let trust = Trust::only(robot.fingerprint());
//! let mut client = Quic::client(QuicConfig::new(), &operator, trust, entropy("client"));
//! let trust = Trust::only(operator.fingerprint());
//! let mut server = Quic::server(QuicConfig::new(), &robot, trust, entropy("server"));
//!
//! client.send(Time::ZERO, Message { data: b"pose".to_vec(), ..Message::default() })?;
//! let mut events = Vec::new();
//! for _ in 0..8 {
//!     let mut data = Vec::new();
//!     for (from, to) in [(&mut client, &mut server)] {
//!         while from.poll_transmit(Time::ZERO, &mut data).is_some() {
//!             to.handle_input(Time::ZERO, Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &data, padding: 0 });
//!             data.clear();
//!         }
//!         while to.poll_transmit(Time::ZERO, &mut data).is_some() {
//!             from.handle_input(Time::ZERO, Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &data, padding: 0 });
//!             data.clear();
//!         }
//!     }
//!     events.extend(std::iter::from_fn(|| server.poll_event()));
//! }
//! assert!(events.contains(&Event::Connected));
//! assert!(events.iter().any(|event| matches!(event, Event::Received { data, .. } if data == b"pose")));
//! assert_eq!(server.peer(), Some(operator.fingerprint()));
//! # Ok::<(), taut_core::SendError>(())
//! ```
//!
//! Over two paths:
//!
//! ```
//! use taut_core::{Datagram, Ecn, Event, Message, PathId, Seed, Time, Transport};
//! use taut_transport::entropy::Entropy;
//! use taut_transport::identity::{Identity, Trust};
//! use taut_transport::quic::{MpQuic, PathUse, QuicConfig};
//!
//! let seed = Seed::new(1);
//! let (operator, robot) = (Identity::from_seed(seed, "operator"), Identity::from_seed(seed, "robot"));
//! let config = || QuicConfig::multipath(PathUse::Duplicate);
//! let trust = Trust::only(robot.fingerprint());
//! let mut client = MpQuic::client(config(), &operator, trust, Entropy::seeded(seed, "client"));
//! let trust = Trust::only(operator.fingerprint());
//! let mut server = MpQuic::server(config(), &robot, trust, Entropy::seeded(seed, "server"));
//! client.add_path(Time::ZERO, PathId(0));
//! client.add_path(Time::ZERO, PathId(1));
//!
//! let mut received = 0;
//! for tick in 0..1_000_u64 {
//!     let now = Time::from_nanos(tick * 1_000_000);
//!     if tick == 900 {
//!         client.send(now, Message { data: b"pose".to_vec(), created: now, ..Message::default() })?;
//!     }
//!     for turn in 0..2 {
//!         let (from, to) = if turn == 0 { (&mut client, &mut server) } else { (&mut server, &mut client) };
//!         from.handle_timeout(now);
//!         let mut data = Vec::new();
//!         while let Some(transmit) = from.poll_transmit(now, &mut data) {
//!             let path = transmit.path;
//!             to.handle_input(now, Datagram { path, ecn: Ecn::NotCapable, data: &data, padding: 0 });
//!             data.clear();
//!         }
//!     }
//!     received += std::iter::from_fn(|| server.poll_event())
//!         .filter(|event| matches!(event, Event::Received { .. }))
//!         .count();
//! }
//! assert_eq!((received, server.stats().duplicates), (1, 1));
//! # Ok::<(), taut_core::SendError>(())
//! ```

mod attempts;
mod carrier;
mod clock;
mod close;
mod config;
mod congestion;
mod copies;
mod crypto;
pub mod frame;
mod library;
mod lifecycle;
mod lines;
mod paths;
#[cfg(feature = "qlog")]
pub mod qlog;
mod server;
mod stats;
mod tls;
mod transport;
mod turned_away;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use taut_core::{Bytes, Deadline, DropCause, Duration, Event, PathId, Time, earliest};

use self::attempts::Attempts;
use self::carrier::{Carrier, NUMBER};
pub use self::close::CloseReason;
pub use self::config::{PathUse, QuicConfig};
pub use self::congestion::{Congestion, Paced};
use self::library::{Connection as _, Handle, Keys, Library, Noq, Quinn};
use self::paths::Paths;
pub use self::stats::QuicStats;
use self::stats::{Observed, Traffic};
use self::tls::KeyLines;
pub use self::tls::Resumption;
use self::turned_away::TurnedAway;
use crate::entropy::Entropy;
use crate::identity::{Fingerprint, Identity, Trust};
use crate::origins::Origins;
use crate::service::Service;
use crate::stranger::Stranger;

/// Paths of one conversation at most.
pub const MAX_PATHS: usize = 8;
/// QUIC streams each way.
const LANES: u16 = 8;
/// What is due at one instant over and over waits for so long.
const PACED_AGAIN: Duration = Duration::from_micros(1);
/// Bytes of datagrams that QUIC may keep; one sample is in it, or several urgent messages.
const DATAGRAM_BUFFER: usize = 1 << 16;
/// Around an unreliable message: flags, connection ID, packet number and tag of the packet, type and length of the
/// frame as the library reckons them, and our header.
const DATAGRAM_OVERHEAD: u64 = 1 + 8 + 4 + 16 + 9 + 4;
/// In the first byte of a packet (RFC 9000 section 17); a stateless reset has it not.
const LONG_HEADER: u8 = 0x80;
/// Answers to strangers that wait for the driver.
const MAX_ANSWERS: usize = 16;

/// One end of a QUIC conversation, on one path at a time.
pub type Quic = Conversation<Quinn>;
/// One end of a QUIC conversation on several paths.
pub type MpQuic = Conversation<Noq>;

/// One end of a QUIC conversation: a [`Quic`] or an [`MpQuic`].
pub struct Conversation<L: Library> {
    config: QuicConfig,
    trust: Trust,
    /// `None` while it is lent out.
    entropy: Option<Entropy>,
    library: L,
    role: Role,
    connections: Vec<Connection<L::Connection>>,
    state: State,
    peer: Option<Fingerprint>,
    /// With one path: where it is.
    path: PathId,
    /// Where a server's client was before it moved.
    path_before: PathId,
    /// Several paths.
    paths: Paths,
    /// The path of the datagram at work.
    arrival: PathId,
    /// The server's clients'.
    origins: Origins,
    carrier: Carrier<L::Connection>,
    events: VecDeque<Event>,
    /// What the endpoint says to those who have no connection.
    answers: VecDeque<(PathId, Vec<u8>)>,
    /// The packet at work: the libraries want an empty buffer, and the driver may have something in its own.
    packet: Vec<u8>,
    /// Handshakes had to make room: until then, who knows of a connection that is not there is not told so. It may begin anew
    /// at the same place, which a stateless reset would end.
    silent_until: Time,
    observed: Observed<<L::Connection as library::Connection>::Frames>,
    turned_away: TurnedAway,
    key_lines: Arc<KeyLines>,
    /// When it was told the time last.
    told: Option<Time>,
    deadline: Option<Deadline>,
}

enum Role {
    Client(Hello),
    Server,
}

/// A client's attempts to connect.
struct Hello {
    /// When the next one begins: the first with the call that brings the time. `None`: no more.
    next: Option<Time>,
    made: u32,
    /// Those that somebody ended.
    ended: Attempts,
    /// One was, and the next one is due whatever the number of attempts.
    again: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    /// No conversation yet; a client's attempt, if any, is the only connection.
    Waiting,
    /// The conversation is over this connection.
    Open(Handle),
    Closed(CloseReason),
}

struct Connection<C> {
    handle: Handle,
    quic: C,
    began: Time,
    /// A server's: the client has shown that it is where it says, by a Retry.
    validated: bool,
    traffic: Traffic,
}

impl<C> Connection<C> {
    fn new(handle: Handle, quic: C, began: Time, validated: bool) -> Self {
        Self { handle, quic, began, validated, traffic: Traffic::default() }
    }
}

impl Quic {
    /// The path that datagrams go to.
    pub fn path(&self) -> PathId {
        self.path
    }
}

impl MpQuic {
    /// The paths that carry messages now.
    pub fn paths(&self) -> impl Iterator<Item = PathId> {
        self.paths.up()
    }
}

impl<L: Library> Conversation<L> {
    /// Connects to whichever of `trust` is at the other end: of path 0; of the first path that is added, where there are several.
    pub fn client(config: QuicConfig, identity: &Identity, trust: Trust, mut entropy: Entropy) -> Self {
        let key_lines = Arc::new(KeyLines::default());
        let tls = tls::client(identity, &trust, &config, L::MULTIPATH, key_lines.clone());
        let library = L::client(&config, &keys::<L>(&config, identity, "client", &mut entropy), tls);
        let hello = Hello { next: Some(Time::ZERO), made: 0, ended: Attempts::default(), again: false };
        Self::new(config, trust, entropy, library, Role::Client(hello), key_lines)
    }

    /// Waits for one of `trust`, and for the paths that it opens.
    pub fn server(config: QuicConfig, identity: &Identity, trust: Trust, mut entropy: Entropy) -> Self {
        let key_lines = Arc::new(KeyLines::default());
        let (tls, untrusted) = tls::server(identity, &trust, &config, L::MULTIPATH, key_lines.clone());
        let library = L::server(&config, &keys::<L>(&config, identity, "server", &mut entropy), tls);
        let quic = Self::new(config, trust, entropy, library, Role::Server, key_lines);
        Self { turned_away: TurnedAway::by(untrusted), ..quic }
    }

    fn new(
        config: QuicConfig,
        trust: Trust,
        entropy: Entropy,
        library: L,
        role: Role,
        key_lines: Arc<KeyLines>,
    ) -> Self {
        let mut quic = Self {
            carrier: Carrier::new(&config, L::MULTIPATH),
            config,
            trust,
            entropy: Some(entropy),
            library,
            role,
            connections: Vec::new(),
            state: State::Waiting,
            peer: None,
            path: PathId(0),
            path_before: PathId(0),
            paths: Paths::default(),
            arrival: PathId(0),
            origins: Origins::default(),
            events: VecDeque::new(),
            answers: VecDeque::new(),
            packet: Vec::new(),
            silent_until: Time::ZERO,
            observed: Observed::new(),
            turned_away: TurnedAway::default(),
            key_lines,
            told: None,
            deadline: None,
        };
        quic.find_deadline(Time::ZERO);
        quic
    }

    /// Who is at the other end; `None` before [`Event::Connected`].
    pub fn peer(&self) -> Option<Fingerprint> {
        self.peer
    }

    /// The longest unreliable message that is sent: 1158 B with datagrams of 1200 B, 1150 B on several paths.
    pub fn max_unreliable(&self) -> Bytes {
        let number = if L::MULTIPATH { NUMBER as u64 } else { 0 };
        Bytes::new(self.config.max_datagram.get() - DATAGRAM_OVERHEAD - number)
    }

    /// Why nothing flows any more; `None` while it may.
    pub fn close_reason(&self) -> Option<&CloseReason> {
        match &self.state {
            State::Closed(reason) => Some(reason),
            _ => None,
        }
    }

    /// Server: the last who was refused since this was asked last, with the key that it showed if one did.
    pub fn take_stranger(&mut self) -> Option<Stranger> {
        self.turned_away.take_last()
    }

    /// Server: how often somebody was refused because there is a conversation already. Who that was is not asked.
    pub fn busy(&self) -> u64 {
        self.turned_away.busy()
    }

    /// The secrets of the connection since the last call, as lines of an NSS key log for Wireshark
    /// (draft-ietf-tls-keylogfile); none unless [`QuicConfig::key_log`] is on.
    pub fn take_key_log(&mut self) -> Vec<String> {
        self.key_lines.take()
    }

    /// Does `work` with entropy and time at hand for TLS.
    fn lent<R>(&mut self, now: Time, work: impl FnOnce(&mut Self) -> R) -> R {
        let mut entropy = self.entropy.take();
        let result = crypto::lend(&mut entropy, now, || work(self));
        self.entropy = entropy;
        result
    }

    fn index(&self, handle: Handle) -> Option<usize> {
        self.connections.iter().position(|connection| connection.handle == handle)
    }

    /// The conversation's connection.
    fn open(&self) -> Option<&Connection<L::Connection>> {
        let State::Open(handle) = self.state else { return None };
        self.index(handle).map(|index| &self.connections[index])
    }

    /// What QUIC knows as the address of what is behind `path`. A client's peer has one address only, unless it has several paths.
    fn address(&self, path: PathId) -> SocketAddr {
        let one = !L::MULTIPATH && matches!(self.role, Role::Client(_));
        self.origins.address(if one { PathId(0) } else { path })
    }

    /// The path on which a connection's first packets come, as far as that is known.
    fn remote(&self, connection: &Connection<L::Connection>) -> PathId {
        let client = matches!(self.role, Role::Client(_));
        let known = connection.quic.remote().filter(|_| L::MULTIPATH || !client);
        let otherwise = if L::MULTIPATH { self.arrival } else { self.path };
        known.and_then(|address| self.origins.path_at(address)).unwrap_or(otherwise)
    }

    fn find_deadline(&mut self, now: Time) {
        // An attempt to connect that has ended takes nothing more.
        let takes = (0..self.connections.len()).any(|index| self.stage(index).is_some());
        let paced = self.carrier.wake().filter(|_| takes).map(|at| Deadline::new(at, "paced"));
        let starts = self.next_attempt().map(|at| Deadline::new(at.max(now), "connect"));
        let client = matches!(self.role, Role::Client(_));
        let open = matches!(self.state, State::Open(_));
        let paths = self.paths.next_time(client).filter(|_| open).map(|at| Deadline::new(at, "paths"));
        let first = earliest(earliest(paced, starts), paths);
        self.deadline = self.connections.iter_mut().fold(first, |first, connection| {
            let due = connection.quic.due().map(|at| match self.told {
                // It knows that it is this late: at a round trip of microseconds what is paced is due at once over and over.
                Some(told) if at <= told => told + PACED_AGAIN,
                _ => at,
            });
            earliest(first, due.map(|at| Deadline::new(at, "quic")))
        });
    }

    fn refuse(&mut self, cause: DropCause) {
        self.observed.refused(cause);
        self.events.push_back(Event::Refused(cause));
    }

    /// The same, of somebody in particular.
    fn refuse_stranger(&mut self, path: PathId) {
        self.turned_away.on(path);
        self.refuse(DropCause::Unauthenticated);
    }

    /// There is a conversation already.
    fn refuse_busy(&mut self, path: PathId) {
        self.turned_away.count_busy();
        self.refuse_stranger(path);
    }

    /// An answer to somebody without a connection. A client has nothing to say to strangers.
    fn answer(&mut self, path: PathId, data: Vec<u8>) {
        if matches!(self.role, Role::Server) && !data.is_empty() && self.answers.len() < MAX_ANSWERS {
            self.answers.push_back((path, data));
        }
    }
}

/// The keys of an end. RFC 9000 section 10.3.2: from a secret that outlives the process, so that a peer learns of a restart.
fn keys<L: Library>(config: &QuicConfig, identity: &Identity, end: &str, entropy: &mut Entropy) -> Keys {
    let paths = if L::MULTIPATH { "multipath " } else { "" };
    let of =
        |what| derive(identity, &purpose(&format!("{paths}{what}"), end, config.service, config.instance));
    Keys { reset: of("stateless reset"), token: of("retry token"), seed: *entropy.key() }
}

/// What a key is for, and at which end: those of one identity have different ones, so that none gives out what is another's.
fn purpose(what: &str, end: &str, service: Service, instance: u128) -> String {
    format!("{what} of {} {end} {instance:032x}", service.name())
}

/// A key for one purpose that comes from the identity's secret.
fn derive(identity: &Identity, purpose: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"taut quic ");
    hash.update(purpose.as_bytes());
    hash.update(&identity.to_bytes()[..]);
    hash.finalize().into()
}
