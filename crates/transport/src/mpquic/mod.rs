//! Multipath QUIC (draft-ietf-quic-multipath): one connection over several paths.
//!
//! The protocol is `noq-proto`'s, a state machine like quinn's, which it descends from; TLS, identities, framing and the queue of
//! messages are those of [`quic`](crate::quic). Unreliable messages travel in DATAGRAM frames, reliable ones in eight streams.
//!
//! The client opens the paths that its driver adds. The handshake takes the first of them, and the next one when no answer has come
//! for a second. Both sides ping every path, for one that nobody uses dies; the client opens again what was abandoned.
//!
//! [`PathUse`] says what the paths are for. By itself the protocol has no choice of a path for each datagram, only paths
//! that are available and others that stand by ([`PathUse::FailOver`]): when the first one falls silent, the next takes over
//! after [`MpQuicConfig::path_idle_timeout`]. With [`PathUse::Duplicate`], samples carry a number, for the time of each copy its path
//! alone is available, and the receiver gives on the first copy.
//!
//! A server speaks with the first client that it trusts, as [`Quic`](crate::quic::Quic) does; strangers are refused, and asked by a
//! Retry where they are while there are many of them.
//!
//! ```
//! use taut_core::{Datagram, Ecn, Event, Message, PathId, Seed, Time, Transport};
//! use taut_transport::entropy::Entropy;
//! use taut_transport::identity::{Identity, Trust};
//! use taut_transport::mpquic::{MpQuic, MpQuicConfig, PathUse};
//!
//! let seed = Seed::new(1);
//! let (operator, robot) = (Identity::from_seed(seed, "operator"), Identity::from_seed(seed, "robot"));
//! let config = MpQuicConfig::new().path_use(PathUse::Duplicate);
//! let trust = Trust::only(robot.fingerprint());
//! let mut client = MpQuic::client(config, &operator, trust, Entropy::seeded(seed, "client"));
//! let trust = Trust::only(operator.fingerprint());
//! let mut server = MpQuic::server(config, &robot, trust, Entropy::seeded(seed, "server"));
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

mod config;
mod crypto;
mod lifecycle;
mod messages;
mod paths;

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::BytesMut;
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::{
    ClientConfig, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, FourTuple,
    ServerConfig, ValidationTokenConfig,
};
use ring::hmac;
use taut_core::{
    Bytes, Datagram, Deadline, DropCause, Duration, Ecn, Event, Message, Origin, PathId, Reliability,
    SendError, Time, Transmit, Transport, earliest,
};

pub use self::config::{MpQuicConfig, PathUse};
use self::messages::{Messages, NUMBER};
use self::paths::Paths;
use crate::entropy::Entropy;
use crate::identity::{Fingerprint, Identity, Trust};
use crate::origins::Origins;
use crate::quic::attempts::Attempts;
use crate::quic::server::{MAX_HANDSHAKES, MAX_UNPROVEN};
use crate::quic::turned_away::TurnedAway;
use crate::quic::{CloseReason, LONG_HEADER, QuicConfig, clock, close, crypto as lent, derive, purpose, tls};
use crate::service::Service;
use crate::stranger::Stranger;

/// Paths of one conversation at most.
pub const MAX_PATHS: usize = 8;
/// QUIC streams each way.
const LANES: u16 = 8;
/// The longest UDP payload: what every path that QUIC works on carries.
const MAX_DATAGRAM: u16 = 1_200;
/// Bytes of datagrams that noq may keep; one sample is in it.
const DATAGRAM_BUFFER: usize = 1 << 16;
/// Around an unreliable message: flags, connection ID, packet number and tag of the packet, type and length of the
/// frame, our header and number.
const DATAGRAM_OVERHEAD: u64 = 1 + 8 + 4 + 16 + 9 + 4 + NUMBER as u64;
/// Answers to strangers that wait for the driver.
const MAX_ANSWERS: usize = 16;
/// An attempt to connect has so long before the next path is tried; twice that when all were tried once.
const ATTEMPT: Duration = Duration::from_secs(1);
/// What the two sides agree that they speak (RFC 7301): samples have numbers here.
const fn protocol(service: Service) -> &'static [u8] {
    match service {
        Service::Session => b"taut-mp/1",
        Service::Proxy => b"taut-mp-proxy/1",
    }
}

/// What went through an [`MpQuic`], in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MpQuicStats {
    /// Taken by `send`.
    pub offered: u64,
    /// Given to QUIC.
    pub sent: u64,
    /// Copies of them, the first included; what QUIC sends again is not counted.
    pub copies: u64,
    /// Dropped because the queue was full.
    pub superseded: u64,
    /// Dropped because they were past their deadline before they could be sent.
    pub too_late: u64,
    /// Dropped because the conversation ended.
    pub abandoned: u64,
    /// Dropped because the peer does not take such.
    pub unsendable: u64,
    /// Delivered here.
    pub received: u64,
    /// Copies refused because the message was there already.
    pub duplicates: u64,
    /// Datagrams refused: forged, seen before, malformed, of strangers.
    pub refused: u64,
}

/// One end of a multipath QUIC conversation.
pub struct MpQuic {
    config: MpQuicConfig,
    trust: Trust,
    /// `None` while it is lent out.
    entropy: Option<Entropy>,
    endpoint: Endpoint,
    role: Role,
    connections: Vec<Connection>,
    state: State,
    peer: Option<Fingerprint>,
    paths: Paths,
    /// The server's clients'.
    origins: Origins,
    /// The path of the datagram at work.
    arrival: PathId,
    messages: Messages,
    events: VecDeque<Event>,
    /// What the endpoint says to those who have no connection.
    answers: VecDeque<(PathId, Vec<u8>)>,
    /// As for [`Quic`](crate::quic::Quic): until then nobody is told that a connection is not there.
    silent_until: Time,
    refused: u64,
    turned_away: TurnedAway,
    deadline: Option<Deadline>,
}

enum Role {
    Client(Box<Hello>),
    Server,
}

/// A client's attempts to connect, one after the other, each over the next path.
struct Hello {
    config: ClientConfig,
    /// When the next attempt begins; the first with the call that brings the time, once there is a path. `None`: no more.
    next: Option<Time>,
    attempts: u32,
    /// Those that somebody ended.
    ended: Attempts,
    /// One was, and the next one is due whatever the number of attempts.
    again: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Waiting,
    Open(ConnectionHandle),
    Closed(CloseReason),
}

struct Connection {
    handle: ConnectionHandle,
    quic: noq_proto::Connection,
    /// A server's: the client has shown that it is where it says, by a Retry.
    validated: bool,
}

impl MpQuic {
    /// Connects to whichever of `trust` is at the other end of the first path that is added.
    pub fn client(config: MpQuicConfig, identity: &Identity, trust: Trust, entropy: Entropy) -> Self {
        let mut tls = tls::client_tls(identity, &trust, &QuicConfig::new(), None);
        tls.alpn_protocols = vec![protocol(config.service).to_vec()];
        let tls = QuicClientConfig::try_from(tls).expect("AES-128-GCM, which initial packets need, is there");
        let mut client = ClientConfig::new(Arc::new(tls));
        client
            .transport_config(config.transport())
            .initial_dst_cid_provider(Arc::new(crypto::connection_id::<20>));
        let hello = Hello {
            config: client,
            next: Some(Time::ZERO),
            attempts: 0,
            ended: Attempts::default(),
            again: false,
        };
        Self::new(config, identity, trust, entropy, Role::Client(Box::new(hello)), None)
    }

    /// Waits for one of `trust`, and for the paths that it opens.
    pub fn server(config: MpQuicConfig, identity: &Identity, trust: Trust, entropy: Entropy) -> Self {
        let (mut tls, untrusted) = tls::server_tls(identity, &trust, &QuicConfig::new(), None);
        tls.alpn_protocols = vec![protocol(config.service).to_vec()];
        let tls = QuicServerConfig::try_from(tls).expect("AES-128-GCM, which initial packets need, is there");
        let retry = crypto::RetryTokens::new(derive(
            identity,
            &purpose("multipath retry token", "server", config.service, config.instance),
        ));
        let mut server = ServerConfig::new(Arc::new(tls), Arc::new(retry));
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        server
            .transport_config(config.transport())
            .time_source(Arc::new(crypto::Lent))
            .validation_token_config(tokens)
            .max_incoming(MAX_HANDSHAKES)
            .migration(true);
        let quic = Self::new(config, identity, trust, entropy, Role::Server, Some(Arc::new(server)));
        Self { turned_away: TurnedAway::by(untrusted), ..quic }
    }

    fn new(
        config: MpQuicConfig,
        identity: &Identity,
        trust: Trust,
        mut entropy: Entropy,
        role: Role,
        server: Option<Arc<ServerConfig>>,
    ) -> Self {
        let end = if matches!(role, Role::Server) { "server" } else { "client" };
        let purpose = purpose("multipath stateless reset", end, config.service, config.instance);
        let reset_key = hmac::Key::new(hmac::HMAC_SHA256, &derive(identity, &purpose));
        let mut endpoint = EndpointConfig::new(Arc::new(reset_key));
        endpoint
            .rng_seed(Some(*entropy.key()))
            .cid_generator(Arc::new(|| Box::new(crypto::Lent)))
            .supported_versions(vec![1])
            .grease_quic_bit(false);
        Self {
            messages: Messages::new(&config),
            config,
            trust,
            entropy: Some(entropy),
            endpoint: Endpoint::new(Arc::new(endpoint), server, false),
            role,
            connections: Vec::new(),
            state: State::Waiting,
            peer: None,
            paths: Paths::default(),
            origins: Origins::default(),
            arrival: PathId(0),
            events: VecDeque::new(),
            answers: VecDeque::new(),
            silent_until: Time::ZERO,
            refused: 0,
            turned_away: TurnedAway::default(),
            deadline: None,
        }
    }

    /// The paths that carry messages now.
    pub fn paths(&self) -> impl Iterator<Item = PathId> {
        self.paths.up()
    }

    /// Who is at the other end; `None` before [`Event::Connected`].
    pub fn peer(&self) -> Option<Fingerprint> {
        self.peer
    }

    /// The longest unreliable message that is sent: 1150 B.
    pub fn max_unreliable(&self) -> Bytes {
        Bytes::new(u64::from(MAX_DATAGRAM) - DATAGRAM_OVERHEAD)
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

    /// What went through it.
    pub fn stats(&self) -> MpQuicStats {
        let counts = self.messages.counts;
        MpQuicStats {
            offered: counts.offered,
            sent: counts.sent,
            copies: counts.copies,
            superseded: self.messages.superseded(),
            too_late: self.messages.too_late(),
            abandoned: counts.abandoned,
            unsendable: counts.unsendable,
            received: counts.received,
            duplicates: counts.duplicates,
            refused: self.refused,
        }
    }

    /// Does `work` with entropy and time at hand for TLS.
    fn lent<R>(&mut self, now: Time, work: impl FnOnce(&mut Self) -> R) -> R {
        let mut entropy = self.entropy.take();
        let result = lent::lend(&mut entropy, now, || work(self));
        self.entropy = entropy;
        result
    }

    fn index(&self, handle: ConnectionHandle) -> Option<usize> {
        self.connections.iter().position(|connection| connection.handle == handle)
    }

    fn find_deadline(&mut self, now: Time) {
        let starts = self.next_attempt().map(|at| Deadline::new(at.max(now), "connect"));
        let client = matches!(self.role, Role::Client(_));
        let open = matches!(self.state, State::Open(_));
        let paths = self.paths.next_time(client).filter(|_| open).map(|at| Deadline::new(at, "paths"));
        self.deadline = self.connections.iter_mut().fold(earliest(starts, paths), |first, connection| {
            let at = connection.quic.poll_timeout().map(clock::time);
            earliest(first, at.map(|at| Deadline::new(at, "quic")))
        });
    }

    fn refuse(&mut self, cause: DropCause) {
        self.refused += 1;
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
        let open = self.paths.open();
        // noq wants an empty buffer, and the driver may have something in its own.
        let mut data = Vec::new();
        for index in 0..self.connections.len() {
            let Connection { handle, quic, .. } = &mut self.connections[index];
            let is_open = self.state == State::Open(*handle);
            if is_open {
                self.messages.hand_over(now, quic, &open, &mut self.events);
            }
            let instant = clock::instant(now);
            let mut transmit = quic.poll_transmit(instant, NonZeroUsize::MIN, &mut data);
            if transmit.is_none() && is_open && self.messages.release(quic, &open) {
                transmit = quic.poll_transmit(instant, NonZeroUsize::MIN, &mut data);
            }
            while let Some(sent) = transmit {
                let path = self.origins.path_at(sent.destination);
                let is_there =
                    |path: &PathId| self.paths.is_there(*path) || !matches!(self.role, Role::Client(_));
                if let Some(path) = path.filter(is_there) {
                    buffer.extend_from_slice(&data);
                    let ecn = Ecn::from_code_point(sent.ecn.map_or(0, |mark| mark as u8));
                    return Some(Transmit { path, ecn, padding: 0 });
                }
                // The last path, which noq cannot be without, is no more; or its number is another address's.
                data.clear();
                transmit = quic.poll_transmit(instant, NonZeroUsize::MIN, &mut data);
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
        let handshake = input.data.first().is_some_and(|first| first & LONG_HEADER != 0);
        self.arrival = input.path;
        let four = FourTuple::from_remote(self.origins.address(input.path));
        let ecn = EcnCodepoint::from_bits(input.ecn.code_point());
        let mut answer = Vec::new();
        match self.endpoint.handle(clock::instant(now), four, ecn, data, &mut answer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(index) = self.index(handle) else { return };
                let quic = &mut self.connections[index].quic;
                let before = quic.stats().frame_rx;
                quic.handle_event(event);
                // Every packet has a frame: one that brought none was forged, or seen before. Those of a handshake are sent
                // again for as long as their keys may be needed.
                let useless = quic.stats().frame_rx == before && !handshake;
                match self.state == State::Open(handle) {
                    true if useless => self.refuse(DropCause::Unauthenticated),
                    true => self.messages.hear(self.paths.quic_of(input.path)),
                    false => {}
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.on_incoming(now, input.path, incoming),
            // A reset, or another version is offered.
            Some(DatagramEvent::Response(_)) => {
                let is_reset = answer.first().is_some_and(|first| first & LONG_HEADER == 0);
                if !is_reset || now >= self.silent_until {
                    self.answer(input.path, answer);
                }
                self.refuse(DropCause::Unauthenticated);
            }
            None => self.refuse(DropCause::Malformed),
        }
        self.settle(now);
    }
}

impl Transport for MpQuic {
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
        self.messages.offer(message, &mut self.events)
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

    fn close(&mut self, now: Time) {
        for connection in &mut self.connections {
            let code = u64::from(close::GOODBYE);
            let code = noq_proto::VarInt::from_u64(code).expect("it is small");
            connection.quic.close(clock::instant(now), code, bytes::Bytes::new());
        }
        self.finish(CloseReason::Local);
        self.lent(now, |quic| quic.settle(now));
    }

    /// Client: it is opened when the handshake is done; the first one takes the handshake. Beyond [`MAX_PATHS`], for a path that is
    /// known, and on a server nothing happens; the answer tells.
    fn add_path(&mut self, now: Time, id: PathId) -> bool {
        let added = matches!(self.role, Role::Client(_)) && self.paths.add(now, id);
        if added {
            self.find_deadline(now);
        }
        added
    }

    /// Client: the peer is told, over another path. The connection outlives its last path for as long as it is not idle, and goes
    /// on over the next one that is added.
    fn remove_path(&mut self, now: Time, id: PathId) {
        match self.role {
            Role::Client(_) => self.lent(now, |quic| quic.drop_path(now, id)),
            Role::Server => self.origins.forget(id),
        }
    }

    /// A client's are those that it was given.
    fn set_origin(&mut self, path: PathId, origin: Origin) {
        if matches!(self.role, Role::Server) {
            self.origins.set(path, origin);
        }
    }

    /// One that is being opened is not: its address may be anybody's.
    fn uses_path(&self, path: PathId) -> bool {
        self.paths.is_there(path)
    }

    /// Smoothed (RFC 9002 section 5.3), of the fastest path.
    fn round_trip(&self) -> Option<Duration> {
        let State::Open(handle) = self.state else { return None };
        let quic = &self.connections[self.index(handle)?].quic;
        let fastest = quic.paths().into_iter().filter_map(|path| quic.rtt(path)).min()?;
        u64::try_from(fastest.as_nanos()).ok().map(Duration::from_nanos)
    }
}

impl std::fmt::Debug for MpQuic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MpQuic").field("state", &self.state).field("peer", &self.peer).finish_non_exhaustive()
    }
}
