//! The nodes that send and receive commands without a session, straight over a transport.

use std::collections::VecDeque;

use taut_core::{
    Datagram, Deadline, DropCause, Duration, Event, Message, Node, NodeEvent, Packet, Reliability, Time,
    Transport, earliest,
};
use taut_sim::Peer;
use taut_transport::stack::Side;

use super::books::Books;
use crate::run::flows::Counted;
use crate::run::transports::Carrier;
use crate::scenario::{Commands, MpquicSpec, Scenario, TransportSpec};

/// One end.
pub(super) struct Bare {
    stack: Counted,
    peer: Peer,
    books: Books,
    /// Of the end that sends commands.
    source: Option<Source>,
    events: VecDeque<NodeEvent>,
}

/// Makes a command every period: its number, when it was made, zeros.
struct Source {
    size: usize,
    period: Duration,
    deadline: Option<Duration>,
    reliability: Reliability,
    next: Time,
    stop: Time,
}

impl Bare {
    pub(super) fn new(scenario: &Scenario, commands: &Commands, carrier: Carrier, books: Books) -> Self {
        let Carrier { stack, others, peer } = carrier;
        let is_stream = matches!(commands.transport, TransportSpec::Mpquic(MpquicSpec { stream: true, .. }));
        let source = (others.end.side == Side::Opens).then(|| Source {
            size: commands.size.get() as usize,
            period: commands.period,
            deadline: stack.stack().keeps_deadlines().then_some(commands.deadline),
            reliability: if is_stream { Reliability::Reliable } else { Reliability::Unreliable },
            next: Time::ZERO,
            stop: Time::ZERO + scenario.duration,
        });
        Self { stack, peer, books, source, events: VecDeque::new() }
    }

    fn make(&mut self, now: Time) {
        let Some(source) = &mut self.source else { return };
        while source.next <= now && source.next < source.stop {
            source.next += source.period;
            let number = self.books.made(now);
            let mut data = vec![0; source.size];
            data[..8].copy_from_slice(&number.to_be_bytes());
            data[8..16].copy_from_slice(&now.as_nanos().to_be_bytes());
            let message = Message {
                data,
                created: now,
                deadline: source.deadline,
                reliability: source.reliability,
                tag: number,
                ..Message::default()
            };
            if self.stack.send(now, message).is_err() {
                self.books.refused();
            }
        }
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
}

impl Drop for Bare {
    /// The simulator drops its nodes at the end of a run.
    fn drop(&mut self) {
        if self.source.is_some() {
            let stack = self.stack.stack();
            self.books.copies(stack.copies(), stack.choices().map(|report| report.stats));
        }
    }
}

impl Node for Bare {
    fn handle_input(&mut self, now: Time, packet: Packet) {
        if packet.meta.corrupted {
            return self.events.push_back(NodeEvent::Refused(None, DropCause::Corrupted));
        }
        let (path, ecn, padding) = (packet.meta.path, packet.meta.ecn, Peer::padding(&packet));
        self.stack.handle_input(now, Datagram { path, ecn, data: &packet.payload, padding });
        self.drain(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.make(now);
        let is_due = self.stack.poll_timeout().is_some_and(|deadline| deadline.at <= now);
        if is_due {
            self.stack.handle_timeout(now);
        }
        self.drain(now);
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        let mut payload = Vec::new();
        let transmit = self.stack.poll_transmit(now, &mut payload);
        let choices = std::iter::from_fn(|| self.stack.stack_mut().poll_choice());
        self.events.extend(choices.map(|choice| NodeEvent::Chosen(Box::new(choice))));
        let transmit = transmit?;
        let packet = self.peer.packet(payload, transmit);
        self.books.packet(self.source.is_none(), transmit.path, packet.meta.size);
        Some(packet)
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let source = self.source.as_ref().filter(|source| source.next < source.stop);
        let next = source.map(|source| Deadline::new(source.next, "next command"));
        earliest(next, self.stack.poll_timeout())
    }
}
