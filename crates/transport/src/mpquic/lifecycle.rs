//! How a conversation begins and ends: what noq reports, and what we make of it.

use noq_proto::{ConnectionError, EndpointEvent, Event as QuicEvent, Incoming, StreamEvent, VarInt};
use taut_core::{DropCause, Event, PathId, Time};

use super::{ATTEMPT, Connection, MAX_HANDSHAKES, MAX_UNPROVEN, MpQuic, Role, State, clock, close, tls};
use crate::quic::frame::FrameError;
use crate::quic::{CloseReason, QuicConfig};

impl MpQuic {
    /// When a client tries to connect, the first time or once more.
    pub(super) fn next_attempt(&self) -> Option<Time> {
        let Role::Client(hello) = &self.role else { return None };
        let paths = self.paths.count();
        // Each path is tried twice; the last attempt ends by itself.
        let more = hello.attempts == 0 || hello.again || paths > 1 && hello.attempts < 2 * paths;
        hello.next.filter(|_| paths > 0 && more && self.state == State::Waiting)
    }

    /// A client's hello, over the first path, or over the next one when it was not answered.
    pub(super) fn start(&mut self, now: Time) {
        if self.next_attempt().is_none_or(|at| at > now) {
            return;
        }
        let paths = self.paths.count();
        let Role::Client(hello) = &mut self.role else { return };
        if hello.attempts > 0 {
            self.paths.rotate();
        }
        let round = u64::from(hello.attempts / paths);
        hello.next = Some(now + ATTEMPT * (round + 1));
        hello.attempts += 1;
        hello.again = false;
        for before in self.connections.drain(..) {
            self.endpoint.handle_event(before.handle, EndpointEvent::drained());
        }
        let first = self.origins.address(self.paths.first().expect("there are paths"));
        let config = hello.config.clone();
        let started = self.endpoint.connect(clock::instant(now), config, first, tls::SERVER_NAME);
        let (handle, quic) =
            started.expect("a valid name, address and version, and connection IDs in plenty");
        self.connections.push(Connection { handle, quic, validated: true });
    }

    /// Somebody says hello.
    pub(super) fn on_incoming(&mut self, now: Time, path: PathId, incoming: Incoming) {
        let mut answer = Vec::new();
        if self.state != State::Waiting {
            let _ = self.endpoint.refuse(incoming, &mut answer);
            self.answer(path, answer);
            return self.refuse_busy(path);
        }
        let validated = incoming.remote_address_validated();
        if !validated && self.connections.len() >= MAX_UNPROVEN {
            // It cannot fail: an address is validated by a Retry only.
            let _ = self.endpoint.retry(incoming, &mut answer);
            return self.answer(path, answer);
        }
        if self.connections.len() >= MAX_HANDSHAKES {
            // Who gets here is at its address. One that may not be goes first.
            let unproven = self.connections.iter().position(|connection| !connection.validated);
            let oldest = self.connections.remove(unproven.unwrap_or(0));
            self.endpoint.handle_event(oldest.handle, EndpointEvent::drained());
            self.silent_until = now + self.config.idle_timeout;
            let from = self.remote(&oldest);
            self.refuse_stranger(from);
        }
        match self.endpoint.accept(incoming, clock::instant(now), &mut answer, None) {
            Ok((handle, quic)) => self.connections.push(Connection { handle, quic, validated }),
            Err(_) => {
                self.answer(path, answer);
                self.refuse_stranger(path);
            }
        }
    }

    /// Where a connection's first path leads, unless that has been abandoned.
    fn remote(&self, connection: &Connection) -> PathId {
        let path = connection.quic.network_path(noq_proto::PathId::ZERO);
        path.ok().and_then(|four| self.origins.path_at(four.remote())).unwrap_or(self.arrival)
    }

    /// Passes on what connections and endpoint have for each other and for us, and looks when to be called next.
    pub(super) fn settle(&mut self, now: Time) {
        for index in 0..self.connections.len() {
            loop {
                let connection = &mut self.connections[index];
                if let Some(event) = connection.quic.poll_endpoint_events() {
                    if let Some(event) = self.endpoint.handle_event(connection.handle, event) {
                        connection.quic.handle_event(event);
                    }
                } else if let Some(event) = connection.quic.poll() {
                    self.on_event(now, index, event);
                } else {
                    break;
                }
            }
        }
        self.connections.retain(|connection| !connection.quic.is_drained());
        self.keep_paths(now);
        self.find_deadline(now);
    }

    fn on_event(&mut self, now: Time, index: usize, event: QuicEvent) {
        let open = self.state == State::Open(self.connections[index].handle);
        let received = match event {
            QuicEvent::Connected => return self.on_connected(now, index),
            QuicEvent::HandshakeConfirmed => {
                self.paths.confirmed = true;
                return;
            }
            QuicEvent::ConnectionLost { reason } => return self.on_lost(now, index, reason_of(&reason)),
            QuicEvent::Path(event) if open => return self.on_path_event(now, index, event),
            QuicEvent::DatagramReceived if open => self.receive_samples(index),
            QuicEvent::Stream(StreamEvent::Opened { .. }) if open => self.receive_streams(index, None),
            QuicEvent::Stream(StreamEvent::Readable { id }) if open => self.receive_streams(index, Some(id)),
            _ => return,
        };
        self.check(now, index, received);
    }

    fn receive_samples(&mut self, index: usize) -> Result<(), FrameError> {
        let quic = &mut self.connections[index].quic;
        self.messages.receive_samples(quic, self.arrival, &mut self.events)
    }

    fn receive_streams(
        &mut self,
        index: usize,
        readable: Option<noq_proto::StreamId>,
    ) -> Result<(), FrameError> {
        let quic = &mut self.connections[index].quic;
        self.messages.receive_streams(quic, readable, self.arrival, &mut self.events)
    }

    /// A peer that breaks our framing is told so and left.
    fn check(&mut self, now: Time, index: usize, received: Result<(), FrameError>) {
        let Err(error) = received else { return };
        let reason = error.to_string();
        self.say(now, index, close::BAD_FRAME.into_inner(), reason.clone());
        self.refuse(DropCause::Malformed);
        if self.state == State::Open(self.connections[index].handle) {
            self.finish(CloseReason::Protocol(reason));
        }
    }

    fn say(&mut self, now: Time, index: usize, code: u64, reason: String) {
        let code = VarInt::from_u64(code).expect("it is small");
        self.connections[index].quic.close(clock::instant(now), code, reason.into());
    }

    fn on_connected(&mut self, now: Time, index: usize) {
        let connection = &self.connections[index];
        let (handle, path) = (connection.handle, self.remote(connection));
        let identity = connection.quic.crypto_session().peer_identity();
        let peer = identity.and_then(|identity| tls::peer_of(identity, &QuicConfig::new()));
        let Some(peer) = peer.filter(|peer| self.trust.contains(peer)) else {
            self.say(now, index, close::UNTRUSTED.into_inner(), String::new());
            self.refuse_stranger(path);
            if matches!(self.role, Role::Client(_)) {
                self.finish(CloseReason::PeerUntrusted);
            }
            return;
        };
        if self.state != State::Waiting {
            self.say(now, index, close::BUSY.into_inner(), String::new());
            return self.refuse_busy(path);
        }
        for other in (0..self.connections.len()).filter(|other| *other != index) {
            self.say(now, other, close::BUSY.into_inner(), String::new());
        }
        self.state = State::Open(handle);
        self.peer = Some(peer);
        self.paths.begin(now, path, self.config.keep_alive);
        self.events.extend([Event::Connected, Event::PathUp(path)]);
        // What came before it was clear from whom.
        let received = self.receive_samples(index).and_then(|()| self.receive_streams(index, None));
        self.check(now, index, received);
    }

    fn on_lost(&mut self, now: Time, index: usize, reason: CloseReason) {
        let handle = self.connections[index].handle;
        let ours = match self.state {
            State::Waiting => matches!(self.role, Role::Client(_)),
            State::Open(open) => open == handle,
            State::Closed(_) => false,
        };
        if reason == CloseReason::PeerUntrusted || !ours && !matches!(reason, CloseReason::TimedOut) {
            let path = self.remote(&self.connections[index]);
            self.refuse_stranger(path);
        }
        if !ours {
            return;
        }
        if let (State::Waiting, Role::Client(hello)) = (&self.state, &mut self.role)
            && let Some(again) = hello.ended.again(now, &reason)
        {
            (hello.next, hello.again) = (Some(again), true);
            return;
        }
        self.finish(reason);
    }

    pub(super) fn finish(&mut self, reason: CloseReason) {
        if !matches!(self.state, State::Closed(_)) {
            self.state = State::Closed(reason);
            self.messages.abandon(&mut self.events);
            self.events.push_back(Event::Closed);
        }
    }
}

/// As for quinn's errors, which have the same form.
fn reason_of(error: &ConnectionError) -> CloseReason {
    let application = |code: u64| match code {
        code if code == close::GOODBYE.into_inner() => CloseReason::Peer,
        code if code == close::BUSY.into_inner() => CloseReason::Busy,
        code if code == close::UNTRUSTED.into_inner() => CloseReason::NotTrusted,
        _ => CloseReason::of_peer(error),
    };
    match error {
        ConnectionError::TimedOut => CloseReason::TimedOut,
        ConnectionError::Reset => CloseReason::Restarted,
        ConnectionError::LocallyClosed => CloseReason::Local,
        ConnectionError::ApplicationClosed(said) => application(said.error_code.into_inner()),
        ConnectionError::ConnectionClosed(said) => match u64::from(said.error_code) {
            code if close::is_alert_about_identity(code) => CloseReason::NotTrusted,
            close::NO_APPLICATION_PROTOCOL => CloseReason::OtherService,
            // NO_ERROR; CONNECTION_REFUSED, APPLICATION_ERROR (RFC 9000 section 20.1).
            0 => CloseReason::Peer,
            2 | 12 => CloseReason::Busy,
            _ => CloseReason::of_peer(error),
        },
        ConnectionError::TransportError(problem)
            if close::is_alert_about_identity(u64::from(problem.code)) =>
        {
            CloseReason::PeerUntrusted
        }
        _ => CloseReason::of_peer(error),
    }
}
