//! The nodes that send and receive commands without a session, straight over a transport.

use std::collections::VecDeque;

use taut_core::{
    Datagram, Deadline, DropCause, Duration, Event, Message, Node, NodeEvent, Packet, Reliability, Time,
    Transport, earliest,
};
use taut_sim::Peer;

use super::books::Books;
use crate::run::flows::Counted;
use crate::scenario::{Commands, MpquicSpec, TransportSpec};

/// Makes a command every period: its number, when it was made, zeros.
pub(super) struct Sender {
    end: End,
    size: usize,
    period: Duration,
    deadline: Option<Duration>,
    reliability: Reliability,
    next: Time,
    stop: Time,
}

/// Takes them.
pub(super) struct Receiver(End);

struct End {
    stack: Counted,
    peer: Peer,
    books: Books,
    /// Is this the one that receives commands?
    back: bool,
    events: VecDeque<NodeEvent>,
}

impl Sender {
    pub(super) fn new(stack: Counted, peer: Peer, commands: &Commands, stop: Time, books: Books) -> Self {
        let deadline = stack.stack().keeps_deadlines().then_some(commands.deadline);
        let end = End { stack, peer, books, back: false, events: VecDeque::new() };
        let (size, period) = (commands.size.get() as usize, commands.period);
        let is_stream = matches!(commands.transport, TransportSpec::Mpquic(MpquicSpec { stream: true, .. }));
        let reliability = if is_stream { Reliability::Reliable } else { Reliability::Unreliable };
        Self { end, size, period, deadline, reliability, next: Time::ZERO, stop }
    }

    fn make(&mut self, now: Time) {
        while self.next <= now && self.next < self.stop {
            self.next += self.period;
            let number = self.end.books.made(now);
            let mut data = vec![0; self.size];
            data[..8].copy_from_slice(&number.to_be_bytes());
            data[8..16].copy_from_slice(&now.as_nanos().to_be_bytes());
            let message = Message {
                data,
                created: now,
                deadline: self.deadline,
                reliability: self.reliability,
                tag: number,
                ..Message::default()
            };
            if self.end.stack.send(now, message).is_err() {
                self.end.books.refused();
            }
        }
    }
}

impl Drop for Sender {
    /// The simulator drops its nodes at the end of a run.
    fn drop(&mut self) {
        let stack = self.end.stack.stack();
        self.end.books.copies(stack.copies(), stack.choices().map(|report| report.stats));
    }
}

impl Receiver {
    pub(super) fn new(stack: Counted, peer: Peer, books: Books) -> Self {
        Self(End { stack, peer, books, back: true, events: VecDeque::new() })
    }
}

impl End {
    fn handle_input(&mut self, now: Time, packet: &Packet) {
        if packet.meta.corrupted {
            return self.events.push_back(NodeEvent::Refused(None, DropCause::Corrupted));
        }
        let (path, ecn, padding) = (packet.meta.path, packet.meta.ecn, Peer::padding(packet));
        self.stack.handle_input(now, Datagram { path, ecn, data: &packet.payload, padding });
        self.drain(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        let is_due = self.stack.poll_timeout().is_some_and(|deadline| deadline.at <= now);
        if is_due {
            self.stack.handle_timeout(now);
        }
        self.drain(now);
    }

    fn drain(&mut self, now: Time) {
        while let Some(event) = self.stack.poll_event() {
            match event {
                Event::Received { data, .. } => self.receive(now, &data),
                Event::Refused(cause) => self.events.push_back(NodeEvent::Refused(None, cause)),
                // What is dropped is missing at the receiver, and counted there.
                _ => {}
            }
        }
    }

    fn receive(&mut self, now: Time, data: &[u8]) {
        let Some((number, _)) = data.split_first_chunk::<8>() else {
            return self.events.push_back(NodeEvent::Refused(None, DropCause::Malformed));
        };
        self.books.delivered(now, u64::from_be_bytes(*number), true);
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        let mut payload = Vec::new();
        let transmit = self.stack.poll_transmit(now, &mut payload);
        let choices = std::iter::from_fn(|| self.stack.stack_mut().poll_choice());
        self.events.extend(choices.map(|choice| NodeEvent::Chosen(Box::new(choice))));
        let transmit = transmit?;
        let packet = self.peer.packet(payload, transmit);
        self.books.packet(self.back, transmit.path, packet.meta.size);
        Some(packet)
    }
}

impl Node for Sender {
    fn handle_input(&mut self, now: Time, packet: Packet) {
        self.end.handle_input(now, &packet);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.make(now);
        self.end.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        self.end.poll_transmit(now)
    }
    fn poll_event(&mut self) -> Option<NodeEvent> {
        self.end.events.pop_front()
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        let next = (self.next < self.stop).then(|| Deadline::new(self.next, "next command"));
        earliest(next, self.end.stack.poll_timeout())
    }
}

impl Node for Receiver {
    fn handle_input(&mut self, now: Time, packet: Packet) {
        self.0.handle_input(now, &packet);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        self.0.poll_transmit(now)
    }
    fn poll_event(&mut self) -> Option<NodeEvent> {
        self.0.events.pop_front()
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        self.0.stack.poll_timeout()
    }
}
