//! How a conversation begins, moves and ends: what quinn reports, and what we make of it.

use quinn_proto::{ConnectionHandle, StreamEvent};
use taut_core::{DropCause, Event, Time};

use super::frame::FrameError;
use super::{CloseReason, Quic, Role, State, clock, close, tls};

impl Quic {
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
        if let State::Open(handle) = self.state {
            self.move_on(now);
            self.follow(handle);
        }
        self.find_deadline();
    }

    /// Moves a client to its next path, as soon as the server has confirmed the handshake.
    fn move_on(&mut self, now: Time) {
        let (Some(path), Some(connection)) = (self.next_path, self.connections.first_mut()) else { return };
        if connection.quic.stats().frame_rx.handshake_done == 0 {
            return;
        }
        self.next_path = None;
        if path != self.path {
            // RFC 9000 section 9.4: what was learned about the old path says nothing about the new one.
            connection.quic.path_changed(clock::instant(now));
            connection.quic.local_address_changed();
            self.path_before = std::mem::replace(&mut self.path, path);
            self.events.extend([Event::PathDown(self.path_before), Event::PathUp(path)]);
        }
    }

    fn on_event(&mut self, now: Time, index: usize, event: quinn_proto::Event) {
        let open = self.state == State::Open(self.connections[index].handle);
        let received = match event {
            quinn_proto::Event::Connected => return self.on_connected(now, index),
            quinn_proto::Event::ConnectionLost { reason } => return self.on_lost(now, index, reason.into()),
            quinn_proto::Event::DatagramReceived if open || self.takes_early(index) => {
                self.receive(index, None, false)
            }
            quinn_proto::Event::Stream(StreamEvent::Opened { .. }) if open => self.receive(index, None, true),
            quinn_proto::Event::Stream(StreamEvent::Readable { id }) if open => {
                self.receive(index, Some(id), true)
            }
            _ => return,
        };
        self.check(now, index, received);
    }

    fn receive(
        &mut self,
        index: usize,
        readable: Option<quinn_proto::StreamId>,
        streams: bool,
    ) -> Result<(), FrameError> {
        let path = self.path_of(self.connections[index].quic.remote_address());
        let quic = &mut self.connections[index].quic;
        match streams {
            true => self.carrier.receive_streams(quic, readable, path, &mut self.events),
            false => self.carrier.receive_datagrams(quic, path, &mut self.events),
        }
    }

    /// A peer that breaks our framing is told so and left.
    fn check(&mut self, now: Time, index: usize, received: Result<(), FrameError>) {
        let Err(error) = received else { return };
        let reason = error.to_string();
        let quic = &mut self.connections[index].quic;
        quic.close(clock::instant(now), close::BAD_FRAME, reason.clone().into());
        self.refuse(DropCause::Malformed);
        if self.state == State::Open(self.connections[index].handle) {
            self.finish(CloseReason::Protocol(reason));
        }
    }

    fn on_connected(&mut self, now: Time, index: usize) {
        let path = self.path_of(self.connections[index].quic.remote_address());
        let connection = &mut self.connections[index];
        let (handle, instant) = (connection.handle, clock::instant(now));
        // TLS checked the key, but not when a session was resumed: trust may have been withdrawn since.
        let peer = tls::peer(&connection.quic, &self.config).filter(|peer| self.trust.contains(peer));
        let Some(peer) = peer else {
            connection.quic.close(instant, close::UNTRUSTED, bytes::Bytes::new());
            self.refuse_stranger(path);
            if matches!(self.role, Role::Client(_)) {
                self.finish(CloseReason::PeerUntrusted);
            }
            return;
        };
        if self.state != State::Waiting {
            connection.quic.close(instant, close::BUSY, bytes::Bytes::new());
            return self.refuse_busy(path);
        }
        for other in self.connections.iter_mut().filter(|other| other.handle != handle) {
            other.quic.close(instant, close::BUSY, bytes::Bytes::new());
        }
        self.state = State::Open(handle);
        self.peer = Some(peer);
        self.path = path;
        self.observed.handshake = Some(now - self.connections[index].began);
        self.events.push_back(Event::Connected);
        self.carrier.settle_early(&mut self.connections[index].quic, &mut self.events);
        // What came before it was clear from whom.
        let received = self.receive(index, None, false).and_then(|()| self.receive(index, None, true));
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
            let path = self.path_of(self.connections[index].quic.remote_address());
            self.refuse_stranger(path);
        }
        if !ours {
            return;
        }
        let again = match &mut self.role {
            Role::Client(hello) if self.state == State::Waiting => hello.attempts.again(now, &reason),
            _ => None,
        };
        match (again, &mut self.role) {
            (Some(_), Role::Client(hello)) => {
                hello.next = again;
                self.carrier.lose_early(&mut self.events);
            }
            _ => self.finish(reason),
        }
    }

    pub(super) fn finish(&mut self, reason: CloseReason) {
        if !matches!(self.state, State::Closed(_)) {
            self.observed.last = self.quic_stats();
            self.state = State::Closed(reason);
            self.carrier.abandon(&mut self.events);
            self.events.push_back(Event::Closed);
        }
    }

    /// Notices when the conversation has moved.
    fn follow(&mut self, handle: ConnectionHandle) {
        let Some(index) = self.index(handle) else { return };
        let path = self.path_of(self.connections[index].quic.remote_address());
        if path != self.path {
            let old = std::mem::replace(&mut self.path, path);
            self.events.extend([Event::PathDown(old), Event::PathUp(path)]);
        }
    }
}
