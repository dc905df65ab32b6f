//! QUIC (RFC 9000): reliable messages in streams, samples in datagrams, all of it encrypted and both sides known.
//!
//! The protocol is `quinn-proto`'s, a state machine as sans-IO as ours; TLS 1.3 is `rustls`'. What is here: who goes
//! first, what is dropped, who is trusted, how time and chance get in, and one conversation as a [`Transport`].
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
//! # Determinism
//!
//! All randomness comes from the [`Entropy`] given, all time from the driver. With a seed, two runs are the same to
//! the byte. (CUBIC and BBR compute with `cbrt` and the like of the system; [`Congestion::Paced`] and NewReno do not.)
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

pub(crate) mod attempts;
mod carrier;
pub(crate) mod clock;
pub(crate) mod close;
mod config;
mod congestion;
pub(crate) mod crypto;
pub mod frame;
mod lifecycle;
pub(crate) mod outgoing;
pub(crate) mod server;
mod stats;
pub(crate) mod tls;
pub(crate) mod turned_away;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::{
    ClientConfig, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, EndpointEvent,
};
use ring::hmac;
use sha2::{Digest, Sha256};
use taut_core::{
    Bytes, Datagram, Deadline, DropCause, Duration, Ecn, Event, Message, Origin, PathId, Reliability,
    SendError, Time, Transmit, Transport, earliest,
};

use self::attempts::Attempts;
use self::carrier::{Carrier, Stage};
pub use self::close::CloseReason;
pub use self::config::QuicConfig;
pub use self::congestion::{Congestion, Paced};
use self::stats::Observed;
pub use self::stats::QuicStats;
use self::tls::KeyLines;
pub use self::tls::Resumption;
use self::turned_away::TurnedAway;
use crate::entropy::Entropy;
use crate::identity::{Fingerprint, Identity, Trust};
use crate::origins::Origins;
use crate::service::Service;
use crate::stranger::Stranger;

/// QUIC streams each way.
const LANES: u16 = 8;
/// Bytes of datagrams that quinn may keep; one sample is in it, or several urgent messages.
const DATAGRAM_BUFFER: usize = 1 << 16;
/// Around an unreliable message: flags, connection ID, packet number and tag of the packet, type and length of the
/// frame as quinn reckons them, and our header.
const DATAGRAM_OVERHEAD: u64 = 1 + 8 + 4 + 16 + 9 + 4;
/// In the first byte of a packet (RFC 9000 section 17); a stateless reset has it not.
pub(crate) const LONG_HEADER: u8 = 0x80;
/// Answers to strangers that wait for the driver.
const MAX_ANSWERS: usize = 16;

/// One end of a QUIC conversation.
pub struct Quic {
    config: QuicConfig,
    trust: Trust,
    /// `None` while it is lent out.
    entropy: Option<Entropy>,
    endpoint: Endpoint,
    role: Role,
    connections: Vec<Connection>,
    state: State,
    peer: Option<Fingerprint>,
    path: PathId,
    /// Where it was before it moved.
    path_before: PathId,
    /// The server's clients'.
    origins: Origins,
    /// A client's next path, until it may move.
    next_path: Option<PathId>,
    carrier: Carrier,
    events: VecDeque<Event>,
    /// What the endpoint says to those who have no connection.
    answers: VecDeque<(PathId, Vec<u8>)>,
    /// Handshakes had to make room: until then, who knows of a connection that is not there is not told so. It may begin anew
    /// at the same place, which a stateless reset would end.
    silent_until: Time,
    observed: Observed,
    turned_away: TurnedAway,
    key_lines: Arc<KeyLines>,
    deadline: Option<Deadline>,
}

enum Role {
    Client(Box<Hello>),
    Server,
}

/// A client's attempts to connect.
struct Hello {
    config: ClientConfig,
    /// When the next one begins: the first with the call that brings the time. `None`: there is one under way, or no more is made.
    next: Option<Time>,
    attempts: Attempts,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    /// No conversation yet; a client's attempt, if any, is the only connection.
    Waiting,
    /// The conversation is over this connection.
    Open(ConnectionHandle),
    Closed(CloseReason),
}

struct Connection {
    handle: ConnectionHandle,
    quic: quinn_proto::Connection,
    began: Time,
    /// A server's: the client has shown that it is where it says, by a Retry.
    validated: bool,
}

impl Quic {
    /// Connects to whichever of `trust` is at the other end of path 0 (or see [`Self::set_path`]).
    pub fn client(config: QuicConfig, identity: &Identity, trust: Trust, entropy: Entropy) -> Self {
        let key_lines = Arc::new(KeyLines::default());
        let key_log = config.key_log.then(|| key_lines.clone() as _);
        let tls = tls::client_config(identity, &trust, &config, key_log);
        let mut client = ClientConfig::new(Arc::new(tls));
        client.transport_config(config.transport()).initial_dst_cid_provider(crypto::first_connection_id());
        let hello = Hello { config: client, next: Some(Time::ZERO), attempts: Attempts::default() };
        let role = Role::Client(Box::new(hello));
        Self::new(config, identity, trust, entropy, role, None, key_lines)
    }

    /// Waits for one of `trust`.
    pub fn server(config: QuicConfig, identity: &Identity, trust: Trust, entropy: Entropy) -> Self {
        let key_lines = Arc::new(KeyLines::default());
        let key_log = config.key_log.then(|| key_lines.clone() as _);
        let (tls, untrusted) = tls::server_config(identity, &trust, &config, key_log);
        let server = Some(server::config(&config, identity, tls));
        let quic = Self::new(config, identity, trust, entropy, Role::Server, server, key_lines);
        Self { turned_away: TurnedAway::by(untrusted), ..quic }
    }

    fn new(
        config: QuicConfig,
        identity: &Identity,
        trust: Trust,
        mut entropy: Entropy,
        role: Role,
        server: Option<Arc<quinn_proto::ServerConfig>>,
        key_lines: Arc<KeyLines>,
    ) -> Self {
        // RFC 9000 section 10.3.2: from a secret that outlives the process, so that a peer learns of a restart.
        let end = if matches!(role, Role::Server) { "server" } else { "client" };
        let purpose = purpose("stateless reset", end, config.service, config.instance);
        let reset_key = hmac::Key::new(hmac::HMAC_SHA256, &derive(identity, &purpose));
        let mut endpoint = EndpointConfig::new(Arc::new(reset_key));
        endpoint
            .rng_seed(Some(*entropy.key()))
            .cid_generator(crypto::connection_ids())
            .supported_versions(vec![1])
            // RFC 9287 would hide from middleboxes, and from Wireshark, that this is QUIC.
            .grease_quic_bit(false);
        let deadline = matches!(role, Role::Client(_)).then(|| Deadline::new(Time::ZERO, "connect"));
        Self {
            carrier: Carrier::new(&config),
            config,
            trust,
            entropy: Some(entropy),
            endpoint: Endpoint::new(Arc::new(endpoint), server, false, None),
            role,
            connections: Vec::new(),
            state: State::Waiting,
            peer: None,
            path: PathId(0),
            path_before: PathId(0),
            origins: Origins::default(),
            next_path: None,
            events: VecDeque::new(),
            answers: VecDeque::new(),
            silent_until: Time::ZERO,
            observed: Observed::default(),
            turned_away: TurnedAway::default(),
            key_lines,
            deadline,
        }
    }

    /// Who is at the other end; `None` before [`Event::Connected`].
    pub fn peer(&self) -> Option<Fingerprint> {
        self.peer
    }

    /// The path that datagrams go to.
    pub fn path(&self) -> PathId {
        self.path
    }

    /// Client: goes on over another path (RFC 9000 section 9: active migration, with another connection ID), or begins
    /// there. While the handshake is under way it may not move (section 9.1) and does so afterwards. On a server this
    /// does nothing: it follows the client.
    pub fn set_path(&mut self, now: Time, path: PathId) {
        match (&self.role, self.connections.is_empty()) {
            (Role::Server, _) => {}
            (Role::Client(_), true) => self.path = path,
            (Role::Client(_), false) => {
                self.next_path = Some(path);
                self.lent(now, |quic| quic.settle(now));
            }
        }
    }

    /// The longest unreliable message that is sent: 1158 B with datagrams of 1200 B.
    pub fn max_unreliable(&self) -> Bytes {
        Bytes::new(self.config.max_datagram.get() - DATAGRAM_OVERHEAD)
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

    /// A client's first steps, and once more when somebody ended them.
    fn start(&mut self, now: Time) {
        let Role::Client(hello) = &mut self.role else { return };
        if self.state != State::Waiting || hello.next.take_if(|next| *next <= now).is_none() {
            return;
        }
        for before in self.connections.drain(..) {
            self.endpoint.handle_event(before.handle, EndpointEvent::drained());
        }
        let config = hello.config.clone();
        let started = self.endpoint.connect(
            clock::instant(now),
            config,
            self.origins.address(PathId(0)),
            tls::SERVER_NAME,
        );
        let (handle, quic) =
            started.expect("a valid name, address and version, and connection IDs in plenty");
        self.connections.push(Connection { handle, quic, began: now, validated: true });
    }

    fn index(&self, handle: ConnectionHandle) -> Option<usize> {
        self.connections.iter().position(|connection| connection.handle == handle)
    }

    /// Where the address that quinn knows is a path of ours. A client's peer has one address only.
    fn path_of(&self, address: SocketAddr) -> PathId {
        match self.role {
            Role::Server => self.origins.path_at(address).unwrap_or(self.path),
            Role::Client(_) => self.path,
        }
    }

    fn find_deadline(&mut self) {
        let paced = self.carrier.wake().map(|at| Deadline::new(at, "paced"));
        let next = match &self.role {
            Role::Client(hello) if self.state == State::Waiting => hello.next,
            _ => None,
        };
        let first = earliest(paced, next.map(|at| Deadline::new(at, "connect")));
        self.deadline = self.connections.iter_mut().fold(first, |first, connection| {
            let at = connection.quic.poll_timeout().map(clock::time);
            earliest(first, at.map(|at| Deadline::new(at, "quic")))
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

    fn transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.start(now);
        if let Some((path, data)) = self.answers.pop_front() {
            buffer.extend_from_slice(&data);
            return Some(Transmit { path, ..Transmit::default() });
        }
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            let early = connection.quic.is_handshaking() && connection.quic.has_0rtt();
            let client = matches!(self.role, Role::Client(_)) && self.state == State::Waiting;
            let stage = if self.state == State::Open(connection.handle) {
                Some(Stage::Open)
            } else if client && early {
                Some(Stage::Early)
            } else {
                self.answers_early(index).then_some(Stage::Answering)
            };
            let connection = &mut self.connections[index];
            if let Some(stage) = stage {
                self.carrier.hand_over(now, stage, &mut connection.quic, &mut self.events);
            }
            if let Some(transmit) = connection.quic.poll_transmit(clock::instant(now), 1, buffer) {
                let path = self.path_of(transmit.destination);
                return Some(Transmit {
                    path,
                    ecn: Ecn::from_code_point(transmit.ecn.map_or(0, |mark| mark as u8)),
                    padding: 0,
                });
            }
        }
        self.settle(now);
        None
    }

    fn input(&mut self, now: Time, input: Datagram<'_>) {
        self.start(now);
        let whole = input.data.len() + input.padding as usize;
        if whole > usize::from(u16::MAX) {
            return self.refuse(DropCause::Malformed);
        }
        let mut data = BytesMut::with_capacity(whole);
        data.extend_from_slice(input.data);
        data.resize(whole, 0);
        let from = match self.role {
            Role::Client(_) => self.origins.address(PathId(0)),
            Role::Server => self.origins.address(input.path),
        };
        let mut answer = Vec::new();
        let instant = clock::instant(now);
        match self.endpoint.handle(
            instant,
            from,
            None,
            EcnCodepoint::from_bits(input.ecn.code_point()),
            data,
            &mut answer,
        ) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(index) = self.index(handle) else { return };
                let judged = self.state == State::Open(handle);
                let quic = &mut self.connections[index].quic;
                let before = judged.then(|| quic.stats());
                quic.handle_event(event);
                let cause = before.and_then(|before| self.observed.judge(&before, &quic.stats(), input.data));
                if let Some(cause) = cause {
                    self.refuse(cause);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.on_incoming(now, input.path, incoming),
            // A reset, or another version is offered.
            Some(DatagramEvent::Response(_)) => {
                let is_reset = answer.first().is_some_and(|first| first & LONG_HEADER == 0);
                if !is_reset || now >= self.silent_until {
                    self.answer(input.path, answer);
                }
                self.refuse_stranger(input.path);
            }
            None => self.refuse(DropCause::Malformed),
        }
        self.settle(now);
        self.gauges(now);
    }
}

impl Transport for Quic {
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        if matches!(self.state, State::Closed(_)) {
            return Err(SendError::Closed);
        }
        let size = Bytes::new(message.data.len() as u64);
        let limit = match message.reliability {
            Reliability::Reliable => self.config.max_message,
            Reliability::Unreliable => self.max_unreliable(),
        };
        if size > limit {
            return Err(SendError::TooLarge { size, limit });
        }
        if message.is_late(now) {
            return Err(SendError::TooLate);
        }
        self.carrier.offer(message, &mut self.events)
    }

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.lent(now, |quic| quic.input(now, input));
    }

    fn handle_timeout(&mut self, now: Time) {
        self.lent(now, |quic| {
            quic.start(now);
            for connection in &mut quic.connections {
                connection.quic.handle_timeout(clock::instant(now));
            }
            quic.settle(now);
        });
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.lent(now, |quic| quic.transmit(now, buffer))
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.deadline
    }

    /// Smoothed (RFC 9002 section 5.3).
    fn round_trip(&self) -> Option<Duration> {
        let State::Open(handle) = self.state else { return None };
        let connection = self.connections.iter().find(|connection| connection.handle == handle)?;
        u64::try_from(connection.quic.rtt().as_nanos()).ok().map(Duration::from_nanos)
    }

    fn close(&mut self, now: Time) {
        for connection in &mut self.connections {
            let goodbye = bytes::Bytes::new();
            connection.quic.close(clock::instant(now), close::GOODBYE, goodbye);
        }
        self.finish(CloseReason::Local);
        self.lent(now, |quic| quic.settle(now));
    }

    fn set_origin(&mut self, path: PathId, origin: Origin) {
        if matches!(self.role, Role::Server) {
            self.origins.set(path, origin);
        }
    }

    fn remove_path(&mut self, _: Time, path: PathId) {
        self.origins.forget(path);
    }

    /// Also the path before: until the new one is validated it may go back there (RFC 9000 section 9.3.2).
    fn uses_path(&self, path: PathId) -> bool {
        let mut remotes = self.connections.iter().map(|connection| connection.quic.remote_address());
        path == self.path || path == self.path_before || remotes.any(|remote| self.path_of(remote) == path)
    }

    /// It follows its peer by itself.
    fn add_path(&mut self, _: Time, _: PathId) -> bool {
        false
    }
}

impl std::fmt::Debug for Quic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Quic").field("state", &self.state).field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// What a key is for, and at which end: those of one identity have different ones, so that none gives out what is another's.
pub(crate) fn purpose(what: &str, end: &str, service: Service, instance: u128) -> String {
    format!("{what} of {} {end} {instance:032x}", service.name())
}

/// A key for one purpose that comes from the identity's secret.
pub(crate) fn derive(identity: &Identity, purpose: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"taut quic ");
    hash.update(purpose.as_bytes());
    hash.update(&identity.to_bytes()[..]);
    hash.finalize().into()
}
