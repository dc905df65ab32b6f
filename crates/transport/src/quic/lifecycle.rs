//! How a conversation begins, moves and ends: what QUIC reports, and what we make of it.

use taut_core::{DropCause, Duration, Event, PathId, Time};
use tracing::{debug, info};

use super::frame::FrameError;
use super::library::{Connection as Quic, Happened, Library};
use super::{CloseReason, Connection, Conversation, Role, State, close, tls};

/// Where there are several paths: an attempt to connect has so long before the next path is tried; twice that when all were tried
/// once.
const ATTEMPT: Duration = Duration::from_secs(1);

impl<L: Library> Conversation<L> {
    /// When a client tries to connect, the first time or once more.
    pub(super) fn next_attempt(&self) -> Option<Time> {
        let Role::Client(hello) = &self.role else { return None };
        let paths = if L::MULTIPATH { self.paths.count() } else { 1 };
        // Each path is tried twice; the last attempt ends by itself.
        let more = hello.made == 0 || hello.again || paths > 1 && hello.made < 2 * paths;
        hello.next.filter(|_| paths > 0 && more && self.state == State::Waiting)
    }

    /// A client's first steps, and once more when somebody ended them, or over the next path when they were not answered.
    pub(super) fn start(&mut self, now: Time) {
        if self.next_attempt().is_none_or(|at| at > now) {
            return;
        }
        let Role::Client(hello) = &mut self.role else { return };
        if L::MULTIPATH && hello.made > 0 {
            self.paths.rotate();
        }
        let round = u64::from(hello.made / self.paths.count().max(1));
        hello.next = Some(now + ATTEMPT * (round + 1));
        hello.made += 1;
        hello.again = false;
        for before in self.connections.drain(..) {
            self.library.forget(before.handle);
        }
        let (attempt, path) = (hello.made, self.paths.first().unwrap_or(self.path));
        debug!(attempt, path = path.0, "handshake begins");
        let to = self.address(path);
        let (handle, quic) = self.library.connect(now, to);
        self.connections.push(Connection::new(handle, quic, now, true));
    }

    /// Passes on what connections and endpoint have for each other and for us, and looks when to be called next.
    pub(super) fn settle(&mut self, now: Time) {
        for index in 0..self.connections.len() {
            loop {
                let Connection { handle, quic, .. } = &mut self.connections[index];
                if self.library.relay(*handle, quic) {
                    continue;
                }
                let Some(happened) = quic.next() else { break };
                self.on_happened(now, index, happened);
            }
        }
        self.connections.retain(|connection| !connection.quic.is_drained());
        if L::MULTIPATH {
            self.keep_paths(now);
        } else {
            self.follow();
        }
        self.find_deadline(now);
    }

    fn on_happened(&mut self, now: Time, index: usize, happened: Happened<<L::Connection as Quic>::Stream>) {
        let open = self.state == State::Open(self.connections[index].handle);
        let received = match happened {
            Happened::Connected => return self.on_connected(now, index),
            Happened::Confirmed => {
                self.paths.confirmed = true;
                return;
            }
            Happened::Lost(reason) => return self.on_lost(now, index, reason),
            Happened::Path(event) if open => return self.on_path_event(now, index, event),
            Happened::Samples if open || self.takes_early(index) => self.receive_samples(index),
            Happened::Streams(readable) if open => self.receive_streams(index, readable),
            _ => return,
        };
        self.check(now, index, received);
    }

    /// Where what a connection brings comes from.
    fn source(&self, index: usize) -> PathId {
        if L::MULTIPATH { self.arrival } else { self.remote(&self.connections[index]) }
    }

    fn receive_samples(&mut self, index: usize) -> Result<(), FrameError> {
        let path = self.source(index);
        self.carrier.receive_datagrams(&mut self.connections[index].quic, path, &mut self.events)
    }

    fn receive_streams(
        &mut self,
        index: usize,
        readable: Option<<L::Connection as Quic>::Stream>,
    ) -> Result<(), FrameError> {
        let path = self.source(index);
        self.carrier.receive_streams(&mut self.connections[index].quic, readable, path, &mut self.events)
    }

    /// A peer that breaks our framing is told so and left.
    fn check(&mut self, now: Time, index: usize, received: Result<(), FrameError>) {
        let Err(error) = received else { return };
        let reason = error.to_string();
        self.connections[index].quic.end(now, close::BAD_FRAME, reason.clone());
        self.refuse(DropCause::Malformed);
        if self.state == State::Open(self.connections[index].handle) {
            self.finish(CloseReason::Protocol(reason));
        }
    }

    fn on_connected(&mut self, now: Time, index: usize) {
        let path = self.remote(&self.connections[index]);
        let connection = &mut self.connections[index];
        let (handle, began) = (connection.handle, connection.began);
        // TLS checked the key, but not when a session was resumed: trust may have been withdrawn since.
        let peer = tls::peer(&connection.quic, &self.config).filter(|peer| self.trust.contains(peer));
        let Some(peer) = peer else {
            connection.quic.end(now, close::UNTRUSTED, String::new());
            info!(path = path.0, "the peer is not trusted");
            self.refuse_stranger(path);
            if matches!(self.role, Role::Client(_)) {
                self.finish(CloseReason::PeerUntrusted);
            }
            return;
        };
        if self.state != State::Waiting {
            connection.quic.end(now, close::BUSY, String::new());
            info!(path = path.0, %peer, "busy: there is a conversation");
            return self.refuse_busy(path);
        }
        let counted = connection.quic.counted();
        for other in self.connections.iter_mut().filter(|other| other.handle != handle) {
            other.quic.end(now, close::BUSY, String::new());
        }
        info!(path = path.0, %peer, took = %(now - began), "handshake complete");
        self.state = State::Open(handle);
        self.peer = Some(peer);
        (self.path, self.path_before) = (path, path);
        self.observed.handshake = Some(now - began);
        self.observed.count(counted);
        self.observed.traffic = self.connections[index].traffic;
        self.events.push_back(Event::Connected);
        if L::MULTIPATH {
            self.paths.begin(now, path, self.config.path_keep_alive());
            self.events.push_back(Event::PathUp(path));
        }
        self.carrier.settle_early(&mut self.connections[index].quic, &mut self.events);
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
        debug!(%reason, ours, "connection lost");
        if !ours {
            return;
        }
        let turn_of_the_next = reason == CloseReason::TimedOut && self.next_attempt().is_some();
        if let (State::Waiting, Role::Client(hello)) = (&self.state, &mut self.role)
            && let Some(again) = hello.ended.again(now, &reason)
        {
            (hello.next, hello.again) = (Some(again), true);
            debug!(after = %again.saturating_since(now), "handshake is repeated");
            return self.carrier.lose_early(&mut self.events);
        }
        if turn_of_the_next {
            return self.carrier.lose_early(&mut self.events);
        }
        self.finish(reason);
    }

    pub(super) fn finish(&mut self, reason: CloseReason) {
        if !matches!(self.state, State::Closed(_)) {
            info!(%reason, "conversation over");
            self.state = State::Closed(reason);
            self.carrier.abandon(&mut self.events);
            self.events.push_back(Event::Closed);
        }
    }

    /// Notices when the conversation has moved.
    fn follow(&mut self) {
        let Some(path) = self.open().map(|connection| self.remote(connection)) else { return };
        if path != self.path {
            self.path_before = std::mem::replace(&mut self.path, path);
            // In this order: what goes takes the new one.
            self.events.extend([Event::PathUp(path), Event::PathDown(self.path_before)]);
        }
    }
}
