//! `dcsctp`'s socket with our clock and our randomness.

use std::collections::VecDeque;
use std::time::Duration as StdDuration;

use dcsctp::api::{
    DcSctpSocket, ErrorKind, Message as SctpMessage, Metrics, Options, PpId, SendOptions, SocketEvent,
    SocketTime, StreamId as SctpStream,
};
use taut_core::{Priority, StreamId, Time};

use crate::entropy::Entropy;

pub(super) struct Association {
    socket: Box<dyn DcSctpSocket>,
    /// The state of its generator.
    randomness: u64,
    /// Events that were looked at on the way.
    seen: VecDeque<SocketEvent>,
}

impl Association {
    pub(super) fn new(options: &Options, mut entropy: Entropy) -> Self {
        Self {
            socket: dcsctp::new_socket("", options),
            randomness: entropy.next_u64(),
            seen: VecDeque::new(),
        }
    }

    pub(super) fn advance(&mut self, now: Time) {
        self.socket.advance_time(SocketTime::zero() + StdDuration::from_nanos(now.as_nanos()));
    }

    pub(super) fn timeout(&self) -> Option<Time> {
        let at = self.socket.poll_timeout();
        let since = at - SocketTime::zero();
        (at != SocketTime::infinite_future())
            .then(|| Time::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)))
    }

    pub(super) fn connect(&mut self) {
        let socket = &mut self.socket;
        with_randomness(&mut self.randomness, || socket.connect());
    }

    /// Takes a packet; says what was wrong with it, if anything.
    pub(super) fn handle_input(&mut self, packet: &[u8]) -> Option<ErrorKind> {
        let socket = &mut self.socket;
        with_randomness(&mut self.randomness, || socket.handle_input(packet));
        let mut complaint = None;
        while let Some(event) = self.socket.poll_event() {
            match event {
                SocketEvent::OnError(kind, _) => complaint = Some(kind),
                event => self.seen.push_back(event),
            }
        }
        complaint
    }

    pub(super) fn send(
        &mut self,
        now: Time,
        stream: StreamId,
        priority: Priority,
        ppid: u32,
        payload: Vec<u8>,
        options: &SendOptions,
    ) -> bool {
        self.advance(now);
        let (stream, weight) = (SctpStream(stream.0), weight(priority));
        if self.socket.get_stream_priority(stream) != weight {
            self.socket.set_stream_priority(stream, weight);
        }
        self.socket.send(SctpMessage::new(stream, PpId(ppid), payload), options).is_ok()
    }

    /// Did the packet that it took last begin it anew?
    pub(super) fn began_anew(&self) -> bool {
        self.seen.iter().any(|event| matches!(event, SocketEvent::OnConnectionRestarted()))
    }

    /// Bytes on that stream that were not sent.
    pub(super) fn unsent(&self, stream: StreamId) -> u64 {
        self.socket.buffered_amount(SctpStream(stream.0)) as u64
    }

    pub(super) fn poll_event(&mut self) -> Option<SocketEvent> {
        self.seen.pop_front().or_else(|| self.socket.poll_event())
    }

    pub(super) fn receive(&mut self) -> Option<SctpMessage> {
        self.socket.get_next_message()
    }

    pub(super) fn metrics(&self) -> Option<Metrics> {
        self.socket.get_metrics()
    }

    pub(super) fn shutdown(&mut self) {
        self.socket.shutdown();
    }

    pub(super) fn abort(&mut self) {
        self.socket.close();
    }
}

/// The share of a stream in the path (RFC 8260 section 3.6, weighted fair queueing).
fn weight(priority: Priority) -> u16 {
    match priority.0 {
        0 => u16::MAX,
        1 => 4096,
        _ => 256,
    }
}

/// `dcsctp` draws tags and initial sequence numbers from `fastrand`'s generator of the thread. For the time of `call`
/// that one is ours, so that transports on one thread neither depend on each other nor on anybody else who draws. Its state goes
/// on from call to call: asking the system for a new one at every packet would be a system call each.
fn with_randomness(state: &mut u64, call: impl FnOnce()) {
    let others = fastrand::get_seed();
    fastrand::seed(*state);
    call();
    *state = fastrand::get_seed();
    fastrand::seed(others);
}
