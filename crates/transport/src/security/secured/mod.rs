//! Noise around every datagram.

mod initiator;
mod keys;
mod paths;
mod responder;
mod stats;

use std::collections::VecDeque;
use std::fmt;

use taut_core::{
    Bytes, Datagram, Deadline, DropCause, Duration, Ecn, Event, Message, Origin, PathId, SendError, Time,
    Transmit, Transport, earliest, passes_on,
};

use super::config::SecurityConfig;
use super::header::{Control, View};
use super::noise::{Local, OVERHEAD, Opened, Peer, Purpose, Sealing};
use crate::entropy::Entropy;
use crate::identity::{Fingerprint, Identity, Trust};
use crate::origins::Origins;
use crate::stranger::{LastStranger, Stranger};
use initiator::Initiator;
use keys::KeyRing;
use paths::Paths;
use responder::{Hello, Responder};
pub use stats::SecuredStats;

/// How long a transport that closes may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);
/// For how many times [`SecurityConfig::rekey_after`] keys last when no others can be had: 1 h by default.
pub(super) const KEYS_LAST: u64 = 30;
/// Handshake messages and control words that wait for the driver; the oldest go first when there are more.
const OUTBOX: usize = 16;

/// A transport whose every datagram is sealed: confidential, authentic, and taken once.
///
/// The operator is the initiator and knows the robot's fingerprint. The robot is the responder, knows whom it trusts,
/// and serves one operator at a time. See the [module](super) for what is on the wire and what is promised.
///
/// ```
/// use taut_core::{Datagram, Ecn, Event, Message, PathId, Seed, Time, Transport};
/// use taut_transport::entropy::Entropy;
/// use taut_transport::identity::{Identity, Trust};
/// use taut_transport::security::{Secured, SecurityConfig};
/// use taut_transport::udp::{Udp, UdpConfig};
///
/// let seed = Seed::new(1);
/// let [me, robot] = ["operator", "robot"].map(|name| Identity::from_seed(seed, name));
/// let entropy = |name| Entropy::seeded(seed, name);
/// let udp = || Udp::new(UdpConfig::new());
/// let (config, trust) = (SecurityConfig::new(), Trust::only(me.fingerprint()));
/// let mut a = Secured::initiator(config, &me, robot.fingerprint(), entropy("a"), udp());
/// let mut b = Secured::responder(config, &robot, trust, entropy("b"), udp);
///
/// let now = Time::ZERO;
/// a.send(now, Message { data: b"pose".to_vec(), ..Message::default() })?;
/// a.handle_timeout(now); // The operator begins.
/// let mut received = Vec::new();
/// for _ in 0..4 {
///     for turn in 0..2 {
///         let (from, to) = if turn == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
///         let mut datagram = Vec::new();
///         while from.poll_transmit(now, &mut datagram).is_some() {
///             to.handle_input(now, Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &datagram, padding: 0 });
///             datagram.clear();
///         }
///     }
///     received.extend(std::iter::from_fn(|| b.poll_event()));
/// }
/// assert_eq!(received[0], Event::Connected);
/// assert!(matches!(&received[1], Event::Received { data, .. } if data == b"pose"));
/// assert_eq!(b.peer(), Some(me.fingerprint()));
/// # Ok::<(), taut_core::SendError>(())
/// ```
pub struct Secured<T> {
    inner: T,
    config: SecurityConfig,
    local: Local,
    role: Role<T>,
    phase: Phase,
    keys: KeyRing,
    /// Where the peer is; of several paths, where the newest datagram came from.
    path: PathId,
    /// Of a transport that uses several, those; and where the peer was asked whether it is there.
    paths: Paths,
    origins: Origins,
    /// When the last authentic datagram came.
    heard: Time,
    /// The transport inside said that it is connected, and nobody was told.
    connected_inside: bool,
    outbox: VecDeque<(PathId, Vec<u8>)>,
    events: VecDeque<Event>,
    stats: SecuredStats,
    stranger: LastStranger,
    /// What is sealed next, and what was opened last.
    plain: Vec<u8>,
    opened: Vec<u8>,
}

enum Role<T> {
    Initiator(Initiator),
    Responder(Responder<T>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No keys yet, or no longer.
    Waiting,
    /// Datagrams flow.
    Open,
    /// The transport inside says goodbye, until then at the latest.
    Closing(Time),
    /// Over.
    Closed,
}

impl<T: Transport> Secured<T> {
    /// Bytes that are added to every datagram of the transport inside: type and index 4, nonce 8, tag 16.
    pub const OVERHEAD: Bytes = Bytes::new(OVERHEAD as u64);

    /// The operator's end, for the robot named `peer`. It begins with the first `handle_timeout`.
    pub fn initiator(
        config: SecurityConfig,
        identity: &Identity,
        peer: Fingerprint,
        entropy: Entropy,
        inner: T,
    ) -> Self {
        let service = config.service;
        let mut local = Local::new(identity, Purpose(Sealing::Datagrams, service), entropy);
        let conversation = local.random();
        Self::new(
            config,
            local,
            Role::Initiator(Initiator::new(Peer::new(peer, service), conversation)),
            inner,
        )
    }

    /// The robot's end, for one at a time of those in `trust`. `make` gives the transport inside for each conversation.
    pub fn responder(
        config: SecurityConfig,
        identity: &Identity,
        trust: Trust,
        entropy: Entropy,
        mut make: impl FnMut() -> T + Send + 'static,
    ) -> Self {
        let local = Local::new(identity, Purpose(Sealing::Datagrams, config.service), entropy);
        let inner = make();
        Self::new(config, local, Role::Responder(Responder::new(&config, trust, Box::new(make))), inner)
    }

    fn new(config: SecurityConfig, local: Local, role: Role<T>, inner: T) -> Self {
        Self {
            inner,
            config,
            local,
            role,
            phase: Phase::Waiting,
            keys: KeyRing::default(),
            path: PathId(0),
            paths: Paths::default(),
            origins: Origins::default(),
            heard: Time::ZERO,
            connected_inside: false,
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            stats: SecuredStats::default(),
            stranger: LastStranger::default(),
            plain: Vec::new(),
            opened: Vec::new(),
        }
    }

    /// What went through it.
    pub fn stats(&self) -> SecuredStats {
        self.stats
    }

    /// At the robot: the last who was refused since this was asked last, with the key that it showed if one did.
    pub fn take_stranger(&mut self) -> Option<Stranger> {
        self.stranger.take()
    }

    /// The transport inside; at a robot, that of this conversation.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// Who is at the other end, when somebody is.
    pub fn peer(&self) -> Option<Fingerprint> {
        match &self.role {
            _ if !self.is_open() => None,
            Role::Initiator(initiator) => Some(initiator.peer.fingerprint),
            Role::Responder(responder) => responder.operator(),
        }
    }

    /// Do keys exist, so that datagrams flow?
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Closing(_))
    }

    /// At the operator: does another one have the robot, by what it said last?
    pub fn is_turned_away(&self) -> bool {
        matches!(&self.role, Role::Initiator(initiator) if initiator.turned_away)
    }

    /// A robot's end waits for the next conversation when one is over, but not after it was [closed](Transport::close) at this end.
    pub fn serves_again(&self) -> bool {
        !matches!(self.phase, Phase::Closing(_) | Phase::Closed)
    }

    fn refuse(&mut self, cause: DropCause) {
        match cause {
            DropCause::Replayed => self.stats.replayed += 1,
            DropCause::Malformed => self.stats.malformed += 1,
            _ => self.stats.unauthenticated += 1,
        }
        self.events.push_back(Event::Refused(cause));
    }

    fn post(&mut self, path: PathId, bytes: Vec<u8>) {
        if self.outbox.len() == OUTBOX {
            self.outbox.pop_front();
        }
        self.outbox.push_back((path, bytes));
    }

    fn post_control(&mut self, control: Control) {
        self.post_control_on(self.path, control);
    }

    fn post_control_on(&mut self, path: PathId, control: Control) {
        if let Some(keys) = &mut self.keys.current {
            let mut bytes = Vec::with_capacity(OVERHEAD + 9);
            keys.seal_control(control, &mut bytes);
            self.post(path, bytes);
        }
    }

    /// The peer is there, perhaps as before.
    fn moved_to(&mut self, path: PathId) {
        if path != self.path {
            self.stats.moved += 1;
            self.events.extend([Event::PathUp(path), Event::PathDown(self.path)]);
            self.path = path;
        }
    }

    fn handle_data(
        &mut self,
        now: Time,
        input: &Datagram<'_>,
        key: super::header::Index,
        nonce: u64,
        sealed: &[u8],
    ) -> Result<(), DropCause> {
        let mut plain = std::mem::take(&mut self.opened);
        let opened = if self.is_multipath() && !self.paths.contains(input.path) {
            self.open_unbound(now, input.path, key, nonce, sealed, &mut plain)
        } else {
            match self.keys.open(key, nonce, sealed, &mut plain) {
                Some(Ok((opened, newest))) => {
                    self.heard_on(now, input.path, newest, opened);
                    Ok(opened)
                }
                Some(Err(cause)) => Err(cause),
                None => self.take_over(now, input.path, key, nonce, sealed, &mut plain),
            }
        };
        if let Ok(opened) = opened {
            self.heard = now;
            match opened {
                Opened::Inner => {
                    self.stats.opened += 1;
                    let data = &plain[..];
                    self.inner.handle_input(now, Datagram { data, ..*input });
                }
                Opened::Control(Control::Ping) => {
                    let path = if self.is_multipath() { input.path } else { self.path };
                    self.post_control_on(path, Control::Pong);
                }
                Opened::Control(Control::PathChallenge(token)) => self.asked_on(input.path, token),
                Opened::Control(Control::PathResponse(token)) => self.answered_on(input.path, token),
                Opened::Control(Control::Pong) => {}
                Opened::Control(Control::Close) => self.end(false),
                Opened::Control(Control::Initiation) => {
                    let answered = self.handle_sealed_initiation(now, input.path, &plain[1..]);
                    self.opened = plain;
                    return answered;
                }
            }
        }
        self.opened = plain;
        opened.map(drop)
    }

    /// When the keys must not be used any longer, whatever became of those that were to follow.
    fn keys_end(&self) -> Option<Time> {
        self.keys.current.as_ref().map(|keys| keys.born + self.config.rekey_after.saturating_mul(KEYS_LAST))
    }

    /// Ends the conversation; a robot waits for the next one.
    fn end(&mut self, say_goodbye: bool) {
        if say_goodbye {
            self.post_control(Control::Close);
        }
        self.inner.abandon();
        while let Some(event) = self.inner.poll_event() {
            if !matches!(event, Event::Connected | Event::Closed) {
                self.events.push_back(event);
            }
        }
        self.events.push_back(Event::Closed);
        self.keys = KeyRing::default();
        if matches!(self.role, Role::Responder(_)) {
            self.paths.clear();
        }
        self.connected_inside = false;
        let closing = matches!(self.phase, Phase::Closing(_));
        self.phase = match &mut self.role {
            Role::Responder(responder) if !closing => {
                responder.free();
                self.inner = (responder.make)();
                Phase::Waiting
            }
            _ => Phase::Closed,
        };
    }

    /// Nothing more comes from inside: is that all, if we are closing?
    fn has_said_goodbye(&self, now: Time) -> bool {
        matches!(self.phase, Phase::Closing(until) if now >= until || self.inner.poll_timeout().is_none())
    }
}

impl<T: Transport> Transport for Secured<T> {
    /// As the transport inside: messages may be offered before there are keys, and it keeps as many as it keeps.
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        match self.phase {
            Phase::Closed => Err(SendError::Closed),
            _ => self.inner.send(now, message),
        }
    }

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        if self.phase == Phase::Closed {
            return;
        }
        let view = match input.padding {
            0 => View::parse(input.data),
            // What was sealed has no zeros that need not be stored.
            _ => Err(DropCause::Malformed),
        };
        let taken = view.and_then(|view| match view {
            View::Initiation(initiation) => {
                if let Err(cause) = self.local.check_mac(initiation.authenticated, &initiation.mac) {
                    self.refuse_other_service(input.path, &initiation);
                    return Err(cause);
                }
                self.handle_initiation(now, input.path, Hello { initiation, sealed: false })
            }
            View::CookieReply { receiver, nonce, sealed } => {
                self.handle_cookie(now, input.path, receiver, &nonce, &sealed)
            }
            View::Refusal { receiver, nonce, tag } => self.handle_refusal(receiver, &nonce, &tag),
            View::Response { receiver, noise, authenticated, mac } => {
                self.local.check_mac(authenticated, &mac)?;
                self.handle_response(now, input.path, receiver, noise)
            }
            View::Data { receiver, nonce, sealed } => self.handle_data(now, &input, receiver, nonce, sealed),
        });
        if let Err(cause) = taken {
            if cause == DropCause::Unauthenticated {
                self.stranger.on(input.path, None);
            }
            self.refuse(cause);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.is_open() {
            self.inner.handle_timeout(now);
        }
        let over = self.keys_end().is_some_and(|end| now >= end);
        if over || matches!(self.phase, Phase::Closing(until) if now >= until) {
            return self.end(true);
        }
        self.initiator_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            if let Some((path, bytes)) = self.outbox.pop_front() {
                buffer.extend_from_slice(&bytes);
                return Some(Transmit { path, ecn: Ecn::NotCapable, padding: 0 });
            }
            if !self.is_open() {
                return None;
            }
            self.plain.clear();
            if let Some(transmit) = self.inner.poll_transmit(now, &mut self.plain) {
                let path = if self.is_multipath() { transmit.path } else { self.path };
                if self.is_multipath() && !self.paths.contains(path) {
                    self.stats.no_path += 1;
                    continue;
                }
                self.plain.resize(self.plain.len() + transmit.padding as usize, 0);
                let keys = self.keys.current.as_mut().expect("open: there are keys");
                keys.seal(&self.plain, buffer);
                self.stats.sealed += 1;
                self.initiator_sent(now);
                return Some(Transmit { path, ecn: transmit.ecn, padding: 0 });
            }
            if !self.has_said_goodbye(now) {
                return None;
            }
            self.end(true);
        }
    }

    /// A robot's [`Event::Closed`] ends a conversation; the next [`Event::Connected`] begins another, unless the robot
    /// itself closed.
    fn poll_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.phase == Phase::Closed {
                return None;
            }
            if self.is_open() && std::mem::take(&mut self.connected_inside) {
                return Some(Event::Connected);
            }
            match self.inner.poll_event()? {
                Event::Connected if !self.is_open() => self.connected_inside = true,
                Event::Closed => self.end(true),
                event => return Some(event),
            }
        }
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let inner = if self.is_open() { self.inner.poll_timeout() } else { None };
        let closing = match self.phase {
            Phase::Closing(until) => Some(Deadline::new(until, "goodbye")),
            _ => None,
        };
        let keys = self.keys_end().map(|end| Deadline::new(end, "keys"));
        earliest(earliest(earliest(inner, closing), keys), self.initiator_deadline())
    }

    /// The transport inside says goodbye first, for a second at most; then the peer is told.
    fn close(&mut self, now: Time) {
        match self.phase {
            Phase::Open => {
                self.phase = Phase::Closing(now + GOODBYE);
                self.inner.close(now);
            }
            Phase::Waiting => {
                self.phase = Phase::Closing(now);
                self.end(false);
            }
            Phase::Closing(_) | Phase::Closed => {}
        }
    }

    passes_on!(self, self.inner => round_trip send_rate delivered waiting);

    /// With [`SecurityConfig::multipath`], at the operator's end; a robot's paths are the operator's.
    fn add_path(&mut self, now: Time, path: PathId) -> bool {
        if !self.is_multipath() || self.phase == Phase::Closed || matches!(self.role, Role::Responder(_)) {
            return false;
        }
        let added = self.inner.add_path(now, path);
        if added {
            if self.paths.is_empty() {
                self.path = path;
                self.initiator_hurries(now);
            }
            self.paths.bind(now, path);
        }
        added
    }

    /// Here addresses are proven; the transport inside, a new one for each conversation, knows paths alone.
    fn set_origin(&mut self, path: PathId, origin: Origin) {
        self.origins.set(path, origin);
    }

    fn remove_path(&mut self, now: Time, path: PathId) {
        self.inner.remove_path(now, path);
        self.paths.unbind(path);
        self.origins.forget(path);
        if self.path == path {
            self.path = self.paths.after(path).unwrap_or(path);
        }
    }

    /// What was asked on a path, or answered there before there are keys, is not enough.
    fn uses_path(&self, path: PathId) -> bool {
        if self.is_multipath() { self.paths.contains(path) } else { path == self.path }
    }
}

impl<T> fmt::Debug for Secured<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secured")
            .field("phase", &self.phase)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
