//! Noise around every message of a byte stream.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use taut_core::{
    Bytes, Datagram, Deadline, DropCause, Duration, Event, Message, PathId, Reliability, SendError, StreamId,
    Time, Transmit, Transport, earliest, passes_on,
};

use super::config::SecurityConfig;
use super::header::{Index, NONCE, Offer, TAG, Verdict, View};
use super::noise::{Attempt, Keys, Local, Opened, Peer, Purpose, Sealing};
use crate::entropy::Entropy;
use crate::identity::{Fingerprint, Identity, Trust};
use crate::message_queue::MessageQueue;
use crate::service::Service;
use crate::stranger::ShownKey;

/// The first byte of a sealed message; handshake messages begin with 1 and 2, as in datagrams.
const TYPE_MESSAGE: u8 = 4;
/// Type, the low 16 bits of the counter.
const HEADER: usize = 3;
/// The longest plaintext of a message of Noise (revision 34, section 3).
const LONGEST: Bytes = Bytes::new(65_535 - TAG as u64);
/// How much may wait for the handshake, as [`MessageQueue`] counts.
const WAITING: Bytes = Bytes::new(262_144);
/// The tag of the handshake's messages, of which nobody else knows.
const OWN: u64 = u64::MAX;

/// A transport over a byte stream, TCP, whose every message is sealed.
///
/// The same handshake as [`Secured`](super::Secured)'s runs once, in the first two messages; the operator's third, which
/// may be empty, proves that it has the keys. A stream keeps order, so that the counter of a message is almost implied:
/// its low 16 bits are sent, because a message whose deadline passes before its turn never enters the stream.
///
/// A message that is not authentic ends the connection: somebody wrote into the stream. Keys last as long as the
/// connection; to have new ones, open another. Who may have the robot is decided where connections are accepted, with a
/// [`Reception`].
///
/// ```
/// use taut_core::Seed;
/// use taut_transport::entropy::Entropy;
/// use taut_transport::identity::{Identity, Trust};
/// use taut_transport::security::{Sealed, SecurityConfig};
/// use taut_transport::tcp::{Tcp, TcpConfig};
///
/// let seed = Seed::new(1);
/// let [me, robot] = ["operator", "robot"].map(|name| Identity::from_seed(seed, name));
/// let (config, tcp) = (SecurityConfig::new(), |client| {
///     if client { Tcp::client(TcpConfig::default(), 1) } else { Tcp::server(TcpConfig::default(), 2) }
/// });
/// let a = Sealed::initiator(config, &me, robot.fingerprint(), Entropy::seeded(seed, "a"), tcp(true));
/// let trust = Trust::only(me.fingerprint());
/// let b = Sealed::responder(config, &robot, trust, Entropy::seeded(seed, "b"), tcp(false));
/// assert!(!a.is_open() && !b.is_open());
/// ```
pub struct Sealed<T> {
    inner: T,
    config: SecurityConfig,
    local: Local,
    role: Role,
    phase: Phase,
    keys: Option<Keys>,
    peer: Option<Fingerprint>,
    /// The latest time that a caller told.
    now: Time,
    /// Until when the handshake must be done; set when the transport inside is connected.
    until: Option<Time>,
    waiting: MessageQueue,
    events: VecDeque<Event>,
    stats: SealedStats,
    stranger: Option<ShownKey>,
    opened: Vec<u8>,
}

/// What went through a [`Sealed`], in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SealedStats {
    /// Sealed and given to the transport inside.
    pub sealed: u64,
    /// Authentic and new.
    pub opened: u64,
    /// Refused: not authentic, or from nobody who is trusted. Each ends the connection.
    pub unauthenticated: u64,
    /// Refused: seen before. Each ends the connection.
    pub replayed: u64,
    /// Refused: not of this protocol. Each ends the connection.
    pub malformed: u64,
    /// Ends because another operator has the robot.
    pub busy: u64,
    /// Ends because a robot was taken for a proxy, or the other way round.
    pub other_service: u64,
}

enum Role {
    Initiator {
        peer: Peer,
        attempt: Option<Box<Attempt>>,
    },
    /// `serves`: this connection's operator has the robot.
    Responder {
        trusted: Vec<Peer>,
        reception: Reception,
        serves: bool,
    },
}

/// What all the connections to one robot know of each other: who has the robot, and which initiations came before. It
/// clones as a handle.
#[derive(Clone, Debug, Default)]
pub struct Reception(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Who has the robot, and when it was last heard.
    serving: Option<(Fingerprint, Time)>,
    /// The greatest time in an initiation of each operator.
    newest: BTreeMap<Fingerprint, u64>,
}

impl Reception {
    /// Nobody has the robot, and nobody came.
    pub fn new() -> Self {
        Self::default()
    }

    /// Nobody has it any more.
    pub fn leave(&self) {
        self.known().serving = None;
    }

    fn heard(&self, now: Time, operator: Fingerprint) {
        if let Some((_, heard)) = self.known().serving.as_mut().filter(|(serving, _)| *serving == operator) {
            *heard = now;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(
        &self,
        now: Time,
        operator: Fingerprint,
        timestamp: u64,
        config: &SecurityConfig,
    ) -> Result<Verdict, DropCause> {
        let mut known = self.known();
        if known.newest.get(&operator).is_some_and(|newest| timestamp <= *newest) {
            return Err(DropCause::Replayed);
        }
        known.newest.insert(operator, timestamp);
        Ok(if known.is_busy(now, operator, config) { Verdict::Busy } else { Verdict::Begun })
    }
}

impl Known {
    fn is_busy(&self, now: Time, operator: Fingerprint, config: &SecurityConfig) -> bool {
        self.serving.is_some_and(|(serving, heard)| {
            let until = match config.service {
                _ if serving == operator => config.returns_after(),
                Service::Session => config.silence,
                // One that has nothing to carry says nothing.
                Service::Proxy => Duration::MAX,
            };
            now.saturating_since(heard) < until
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The transport inside connects, or the handshake runs.
    Waiting,
    Open,
    Closed,
}

impl<T: Transport> Sealed<T> {
    /// Bytes that are added to every message: type 1, counter 2, tag 16.
    pub const OVERHEAD: Bytes = Bytes::new((HEADER + TAG) as u64);

    /// The operator's end, for the robot named `peer`.
    pub fn initiator(
        config: SecurityConfig,
        identity: &Identity,
        peer: Fingerprint,
        entropy: Entropy,
        inner: T,
    ) -> Self {
        let role = Role::Initiator { peer: Peer::new(peer, config.service), attempt: None };
        Self::new(
            config,
            Local::new(identity, Purpose(Sealing::Stream, config.service), entropy),
            role,
            inner,
        )
    }

    /// The robot's end, for one of those in `trust`.
    pub fn responder(
        config: SecurityConfig,
        identity: &Identity,
        trust: Trust,
        entropy: Entropy,
        inner: T,
    ) -> Self {
        let trusted = trust.iter().map(|peer| Peer::new(peer, config.service)).collect();
        let role = Role::Responder { trusted, reception: Reception::new(), serves: false };
        Self::new(
            config,
            Local::new(identity, Purpose(Sealing::Stream, config.service), entropy),
            role,
            inner,
        )
    }

    fn new(config: SecurityConfig, local: Local, role: Role, inner: T) -> Self {
        Self {
            inner,
            config,
            local,
            role,
            phase: Phase::Waiting,
            keys: None,
            peer: None,
            now: Time::ZERO,
            until: None,
            waiting: MessageQueue::new(WAITING, usize::MAX),
            events: VecDeque::new(),
            stats: SealedStats::default(),
            stranger: None,
            opened: Vec::new(),
        }
    }

    /// A robot's: one of several connections, of which one at most is to have the robot. Default: it knows of no other.
    pub fn received_by(mut self, known: &Reception) -> Self {
        if let Role::Responder { reception, .. } = &mut self.role {
            *reception = known.clone();
        }
        self
    }

    /// What went through it.
    pub fn stats(&self) -> SealedStats {
        self.stats
    }

    /// At the robot: the key that was shown and is not trusted.
    pub fn stranger(&self) -> Option<ShownKey> {
        self.stranger
    }

    /// Has it ended, and has the transport inside said everything?
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Closed && self.inner.poll_timeout().is_none()
    }

    /// The transport inside.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// Who is at the other end, once that is proven.
    pub fn peer(&self) -> Option<Fingerprint> {
        self.peer.filter(|_| self.is_open())
    }

    /// At the robot: from now on this operator has it, unless somebody else has by now: two may have been answered before one
    /// of them was done. Others are told that it is busy for as long as this connection speaks
    /// ([`SecurityConfig::silence`], and of the same identity [`SecurityConfig::returns_after`]).
    pub fn serve(&mut self, now: Time) -> bool {
        let peer = self.peer();
        let (Role::Responder { reception, serves, .. }, Some(peer)) = (&mut self.role, peer) else {
            return false;
        };
        let mut known = reception.known();
        *serves = !known.is_busy(now, peer, &self.config);
        if *serves {
            known.serving = Some((peer, now));
        }
        *serves
    }

    /// Do messages flow?
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Takes in what the transport inside has to say.
    fn pump(&mut self) {
        while self.phase != Phase::Closed {
            match self.inner.poll_event() {
                None => return,
                Some(Event::Connected) => self.begin(),
                Some(Event::Closed) => self.end(),
                Some(Event::Received { data, path, stream }) => {
                    if let Err(cause) = self.take(&data, path, stream) {
                        self.fail(cause);
                    }
                }
                Some(Event::Dropped { .. }) if self.phase == Phase::Waiting => self.end(),
                Some(Event::Dropped { tag: OWN, .. }) => {}
                Some(event) => self.events.push_back(event),
            }
        }
        // Whoever still speaks is not listened to; what does not arrive is told.
        while let Some(event) = self.inner.poll_event() {
            if matches!(event, Event::Dropped { tag, .. } if tag != OWN) {
                self.events.push_back(event);
            }
        }
    }

    /// The transport inside is connected.
    fn begin(&mut self) {
        self.until = Some(self.now + self.config.give_up);
        let Role::Initiator { peer, attempt } = &mut self.role else { return };
        // A new connection is a new conversation; nothing remembers the times of a stream's initiations.
        let timestamp = self.config.epoch.saturating_add(self.now.as_nanos());
        let conversation = self.local.random();
        let mut data = Vec::new();
        *attempt = Some(Box::new(self.local.initiate(peer, Offer { timestamp, conversation }, &mut data)));
        self.send_own(data);
    }

    fn send_own(&mut self, data: Vec<u8>) {
        let message = Message {
            data,
            created: self.now,
            reliability: Reliability::Reliable,
            tag: OWN,
            ..Message::default()
        };
        if self.inner.send(self.now, message).is_err() {
            self.end();
        }
    }

    fn take(&mut self, data: &[u8], path: PathId, stream: StreamId) -> Result<(), DropCause> {
        if let [TYPE_MESSAGE, high, low, sealed @ ..] = data {
            return self.open(u16::from_be_bytes([*high, *low]), sealed, path, stream);
        }
        match View::parse(data)? {
            // Who accepted the connection knows its address: there is nothing to prove.
            View::Initiation(initiation) if self.keys.is_none() => {
                let checked = self.local.check_mac(initiation.authenticated, &initiation.mac);
                let mut answer = Vec::new();
                if checked.is_err() && self.local.refuse_other_service(&initiation, &mut answer) {
                    self.stats.other_service += 1;
                    self.send_own(answer);
                }
                checked?;
                self.answer(initiation.sender, initiation.noise)
            }
            View::Refusal { receiver, nonce, tag } => self.refused(receiver, &nonce, &tag),
            View::Response { receiver, noise, authenticated, mac } => {
                self.local.check_mac(authenticated, &mac)?;
                self.complete(receiver, noise)
            }
            _ => Err(DropCause::Malformed),
        }
    }

    fn answer(&mut self, sender: Index, noise: &[u8]) -> Result<(), DropCause> {
        let Role::Responder { trusted, reception, .. } = &self.role else { return Err(DropCause::Malformed) };
        let request = self.local.read(sender, noise)?;
        let peer = trusted.iter().find(|peer| peer.x25519 == request.peer).cloned();
        let Some(peer) = peer else {
            self.stranger = Some(ShownKey::X25519(request.peer));
            return Err(DropCause::Unauthenticated);
        };
        let timestamp = request.offer.timestamp;
        let verdict = reception.admit(self.now, peer.fingerprint, timestamp, &self.config)?;
        let mut response = Vec::new();
        let keys = self.local.respond(self.now, request, &peer, verdict, &mut response);
        self.send_own(response);
        if verdict == Verdict::Busy {
            self.stats.busy += 1;
            self.events.push_back(Event::Refused(DropCause::Unauthenticated));
            self.end();
        } else {
            (self.keys, self.peer) = (Some(keys), Some(peer.fingerprint));
        }
        Ok(())
    }

    fn complete(&mut self, receiver: Index, noise: &[u8]) -> Result<(), DropCause> {
        let Role::Initiator { peer, attempt } = &mut self.role else { return Err(DropCause::Malformed) };
        let mut attempt =
            attempt.take().filter(|attempt| attempt.index == receiver).ok_or(DropCause::Malformed)?;
        let answer = attempt.complete(noise)?;
        if answer.verdict == Verdict::Busy {
            self.stats.busy += 1;
            self.end();
            return Ok(());
        }
        self.peer = Some(peer.fingerprint);
        self.keys = Some(attempt.into_keys(self.now, answer.index));
        // The robot hears that we have the keys, even when there is nothing else to say.
        let proof = self.seal(&[]);
        self.send_own(proof);
        self.opened_up();
        Ok(())
    }

    /// The other end is a proxy and no robot, or the other way round.
    fn refused(&mut self, receiver: Index, nonce: &[u8; NONCE], tag: &[u8; TAG]) -> Result<(), DropCause> {
        let Role::Initiator { peer, attempt } = &self.role else { return Err(DropCause::Malformed) };
        let attempt = attempt.as_ref().filter(|attempt| attempt.index == receiver);
        peer.cookies.check_refusal(&attempt.ok_or(DropCause::Malformed)?.mac, nonce, tag)?;
        self.stats.other_service += 1;
        self.end();
        Ok(())
    }

    /// Both have the keys.
    fn opened_up(&mut self) {
        if self.phase != Phase::Waiting {
            return;
        }
        self.phase = Phase::Open;
        self.until = None;
        self.events.push_back(Event::Connected);
        while let Some(message) = self.waiting.pop() {
            let tag = message.tag;
            if let Err(error) = self.send_sealed(message) {
                self.events.push_back(Event::Dropped { tag, cause: error.cause() });
            }
        }
    }

    fn open(&mut self, low: u16, sealed: &[u8], path: PathId, stream: StreamId) -> Result<(), DropCause> {
        let keys = self.keys.as_mut().ok_or(DropCause::Unauthenticated)?;
        // Who is not known yet gets one attempt: nothing is missing before the first message.
        let first = self.phase == Phase::Waiting;
        let opened = keys.open_next(low, !first, sealed, &mut self.opened)?;
        debug_assert_eq!(opened.0, Opened::Inner, "the counter has no such bit");
        self.opened_up();
        // Not by what a newcomer says, who would be its own earlier life that still speaks.
        if let (Role::Responder { reception, serves: true, .. }, Some(peer)) = (&self.role, self.peer) {
            reception.heard(self.now, peer);
        }
        // The proof; an empty message that somebody sent comes later.
        if !(first && self.opened.is_empty()) {
            self.stats.opened += 1;
            self.events.push_back(Event::Received { data: self.opened.clone(), path, stream });
        }
        Ok(())
    }

    fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        let keys = self.keys.as_mut().expect("sealed only when there are keys");
        let mut data = Vec::with_capacity(HEADER + plain.len() + TAG);
        data.push(TYPE_MESSAGE);
        data.extend((keys.sealed() as u16).to_be_bytes());
        keys.seal_bare(0, plain, &mut data);
        data
    }

    fn send_sealed(&mut self, mut message: Message) -> Result<(), SendError> {
        message.data = self.seal(&message.data);
        let overhead = Self::OVERHEAD;
        self.inner.send(self.now, message).map_err(|error| {
            self.keys.as_mut().expect("sealed with them").take_back();
            match error {
                SendError::TooLarge { size, limit } => SendError::TooLarge {
                    size: size.saturating_sub(overhead),
                    limit: limit.saturating_sub(overhead),
                },
                other => other,
            }
        })?;
        self.stats.sealed += 1;
        Ok(())
    }

    fn fail(&mut self, cause: DropCause) {
        match cause {
            DropCause::Replayed => self.stats.replayed += 1,
            DropCause::Malformed => self.stats.malformed += 1,
            _ => self.stats.unauthenticated += 1,
        }
        self.events.push_back(Event::Refused(cause));
        self.end();
    }

    fn end(&mut self) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        self.inner.close(self.now);
        while let Some(message) = self.waiting.pop() {
            self.events.push_back(Event::Dropped { tag: message.tag, cause: DropCause::Abandoned });
        }
        self.events.push_back(Event::Closed);
        (self.keys, self.until) = (None, None);
    }
}

impl<T: Transport> Transport for Sealed<T> {
    /// What is offered before the handshake is done waits for it, up to 262144 B; of samples, the newest. A message has 65519 B at most,
    /// as many as Noise seals at once.
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        self.now = now;
        let (size, limit) = (Bytes::new(message.data.len() as u64), LONGEST);
        if size > limit {
            return Err(SendError::TooLarge { size, limit });
        }
        match self.phase {
            Phase::Closed => Err(SendError::Closed),
            Phase::Open => self.send_sealed(message),
            Phase::Waiting => {
                let events = &mut self.events;
                self.waiting.push(message, |message| {
                    events.push_back(Event::Dropped { tag: message.tag, cause: DropCause::Superseded });
                })
            }
        }
    }

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.now = now;
        self.inner.handle_input(now, input);
        self.pump();
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        self.inner.handle_timeout(now);
        self.pump();
        if self.until.is_some_and(|until| now >= until) {
            self.end();
        }
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.now = now;
        self.pump();
        self.inner.poll_transmit(now, buffer)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.pump();
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        earliest(self.inner.poll_timeout(), self.until.map(|at| Deadline::new(at, "handshake")))
    }

    fn close(&mut self, now: Time) {
        self.now = now;
        self.end();
    }

    passes_on!(self, self.inner => abandon round_trip send_rate delivered waiting add_path remove_path set_origin uses_path);
}

impl<T> fmt::Debug for Sealed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed")
            .field("phase", &self.phase)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
