//! A conversation as a [`Transport`]: datagrams in and out.

use bytes::BytesMut;
use taut_core::{
    Bitrate, Bytes, Datagram, Deadline, DropCause, Duration, Event, Message, Origin, PathId, Reliability,
    SendError, Time, Transmit, Transport, Waiting,
};

use super::carrier::Stage;
use super::library::{Connection as _, Found, Library};
use super::{CloseReason, Connection, Conversation, LONG_HEADER, MAX_ANSWERS, Role, State, close};

impl<L: Library> Conversation<L> {
    fn transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.start(now);
        if let Some((path, data)) = self.answers.pop_front() {
            buffer.extend_from_slice(&data);
            return Some(Transmit { path, ..Transmit::default() });
        }
        for index in 0..self.connections.len() {
            if let Some(transmit) = self.transmit_of(now, index) {
                buffer.extend_from_slice(&self.packet);
                return Some(transmit);
            }
        }
        self.settle(now);
        None
    }

    /// The next packet of a connection, after what messages it may carry.
    fn transmit_of(&mut self, now: Time, index: usize) -> Option<Transmit> {
        let stage = self.stage(index);
        let open = self.paths.open();
        loop {
            let Connection { quic, traffic, .. } = &mut self.connections[index];
            if let Some(stage) = stage {
                self.carrier.hand_over(now, stage, quic, &open, &mut self.events);
            }
            self.packet.clear();
            let mut sent = quic.packet(now, &mut self.packet);
            let copies =
                self.carrier.copies.as_mut().filter(|_| sent.is_none() && stage == Some(Stage::Open));
            if copies.is_some_and(|copies| copies.release(quic, &open)) {
                sent = quic.packet(now, &mut self.packet);
            }
            let (to, ecn) = sent?;
            traffic.datagrams_sent += 1;
            traffic.bytes_sent += self.packet.len() as u64;
            if stage == Some(Stage::Open) {
                self.observed.traffic = *traffic;
            }
            // Otherwise the last path, which noq cannot be without, is no more; or its number is another address's.
            if let Some(path) = self.way(to) {
                return Some(Transmit { path, ecn, padding: 0 });
            }
        }
    }

    /// What was accepted leaves before the end is told, as far as QUIC sends it at once: afterwards it sends nothing else. What strangers were to hear makes room.
    fn send_last(&mut self, now: Time) {
        let State::Open(handle) = self.state else { return };
        let Some(index) = self.index(handle) else { return };
        self.answers.clear();
        while self.answers.len() < MAX_ANSWERS
            && let Some(Transmit { path, .. }) = self.transmit_of(now, index)
        {
            self.answers.push_back((path, self.packet.clone()));
        }
    }

    /// What may go over a connection.
    pub(super) fn stage(&self, index: usize) -> Option<Stage> {
        let Connection { handle, quic, .. } = &self.connections[index];
        let client = matches!(self.role, Role::Client(_)) && self.state == State::Waiting;
        if self.state == State::Open(*handle) {
            Some(Stage::Open)
        } else if client && quic.is_handshaking() && quic.can_send_early() {
            Some(Stage::Early)
        } else {
            self.answers_early(index).then_some(Stage::Answering)
        }
    }

    /// Where what QUIC sends to that address goes.
    fn way(&self, to: std::net::SocketAddr) -> Option<PathId> {
        let client = matches!(self.role, Role::Client(_));
        match L::MULTIPATH {
            true => self.origins.path_at(to).filter(|path| !client || self.paths.is_there(*path)),
            false if client => Some(self.path),
            false => Some(self.origins.path_at(to).unwrap_or(self.path)),
        }
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
        self.arrival = input.path;
        let (from, mut answer) = (self.address(input.path), Vec::new());
        match self.library.handle(now, from, input.ecn, data, &mut answer) {
            Found::Connection(handle, event) => {
                let Some(index) = self.index(handle) else { return };
                self.connections[index].traffic.bytes_received += whole as u64;
                self.connections[index].quic.on_event(event);
                self.judge(index, &input);
            }
            Found::Hello(incoming) => self.on_incoming(now, input.path, incoming),
            // A reset, or another version is offered.
            Found::Answer => {
                let is_reset = answer.first().is_some_and(|first| first & LONG_HEADER == 0);
                if !is_reset || now >= self.silent_until {
                    self.answer(input.path, answer);
                }
                self.refuse_stranger(input.path);
            }
            Found::Nothing => self.refuse(DropCause::Malformed),
        }
        self.settle(now);
        self.gauges(now);
    }

    /// Was a datagram of the conversation any good?
    fn judge(&mut self, index: usize, input: &Datagram<'_>) {
        let connection = &mut self.connections[index];
        if self.state != State::Open(connection.handle) {
            return;
        }
        self.observed.traffic = connection.traffic;
        match self.observed.judge(connection.quic.counted(), input.data) {
            Some(cause) => self.refuse(cause),
            None => {
                let path = self.paths.quic_of(input.path);
                self.carrier.copies.iter_mut().for_each(|copies| copies.hear(path));
            }
        }
    }
}

impl<L: Library> Transport for Conversation<L> {
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
            quic.told = Some(now);
            for connection in &mut quic.connections {
                connection.quic.on_time(now);
                if quic.state == State::Open(connection.handle) {
                    quic.observed.count(connection.quic.counted());
                }
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

    /// Smoothed (RFC 9002 section 5.3), of the fastest path.
    fn round_trip(&self) -> Option<Duration> {
        self.open()?.quic.smoothed_rtt()
    }

    fn send_rate(&self) -> Option<Bitrate> {
        self.carrier.rate(&self.open()?.quic)
    }

    /// The peer's ACK frames.
    fn delivered(&self) -> Option<u64> {
        self.open().map(|_| self.observed.counted.acks)
    }

    fn waiting(&self) -> Waiting {
        Waiting::irreplaceable(self.carrier.has_irreplaceable())
    }

    fn close(&mut self, now: Time) {
        self.lent(now, |quic| quic.send_last(now));
        for connection in &mut self.connections {
            connection.quic.end(now, close::GOODBYE, String::new());
        }
        self.finish(CloseReason::Local);
        self.lent(now, |quic| quic.settle(now));
    }

    /// A client's are those that it was given.
    fn set_origin(&mut self, path: PathId, origin: Origin) {
        if matches!(self.role, Role::Server) {
            self.origins.set(path, origin);
        }
    }

    /// Client with several paths: it is opened when the handshake is done; the first one takes the handshake. Beyond
    /// [`MAX_PATHS`](super::MAX_PATHS), for a path that is known, on a server, and with one path, which follows its peer by itself,
    /// nothing happens; the answer tells.
    fn add_path(&mut self, now: Time, id: PathId) -> bool {
        let added = L::MULTIPATH && matches!(self.role, Role::Client(_)) && self.paths.add(now, id);
        if added {
            self.find_deadline(now);
        }
        added
    }

    /// Client with several paths: the peer is told, over another path. The connection outlives its last path for as long as it is
    /// not idle, and goes on over the next one that is added.
    fn remove_path(&mut self, now: Time, id: PathId) {
        match self.role {
            Role::Client(_) if L::MULTIPATH => self.lent(now, |quic| quic.drop_path(now, id)),
            _ => self.origins.forget(id),
        }
    }

    /// With one path also that before: until the new one is validated it may go back there (RFC 9000 section 9.3.2). Of several one
    /// that is being opened is not: its address may be anybody's.
    fn uses_path(&self, path: PathId) -> bool {
        if L::MULTIPATH {
            return self.paths.is_there(path);
        }
        let mut remotes = self.connections.iter().map(|connection| self.remote(connection));
        path == self.path || path == self.path_before || remotes.any(|remote| remote == path)
    }
}

impl<L: Library> std::fmt::Debug for Conversation<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = if L::MULTIPATH { "MpQuic" } else { "Quic" };
        f.debug_struct(name).field("state", &self.state).field("peer", &self.peer).finish_non_exhaustive()
    }
}
