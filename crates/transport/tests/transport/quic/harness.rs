//! A server, its clients, and the links between them: delay, loss, jitter that reorders, duplication, rate.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{DefaultHasher, Hasher};

use taut_core::{
    Datagram, Duration, Ecn, Event, Message, PathId, Priority, Probability, Reliability, Rng, Seed, StreamId,
    Time, Transport,
};
use taut_transport::entropy::Entropy;
use taut_transport::identity::{Identity, Trust};
use taut_transport::quic::{Quic, QuicConfig};

pub(crate) use crate::net::{at_ms, ms};

pub(crate) const SERVER: usize = 0;
pub(crate) const CLIENT: usize = 1;
/// Paths of a client; the server sees those of the second client after those of the first.
const PATHS: u8 = 16;

pub(crate) fn identity(name: &str) -> Identity {
    Identity::from_seed(Seed::new(7), name)
}

pub(crate) fn client(config: QuicConfig, name: &str) -> Quic {
    let trust = Trust::only(identity("robot").fingerprint());
    Quic::client(config, &identity(name), trust, Entropy::seeded(Seed::new(7), name))
}

pub(crate) fn server(config: QuicConfig) -> Quic {
    let trust = Trust::only(identity("operator").fingerprint());
    Quic::server(config, &identity("robot"), trust, Entropy::seeded(Seed::new(7), "robot"))
}

/// Both directions of every path.
pub(crate) struct Link {
    pub(crate) delay: Duration,
    pub(crate) loss: Probability,
    /// Up to so much more delay by chance, which reorders.
    pub(crate) jitter: Duration,
    pub(crate) duplicate: Probability,
    /// Bits per second, and how many bytes wait for them.
    pub(crate) rate: Option<(u64, u64)>,
    /// What is sent is marked instead of queued beyond so many bytes.
    pub(crate) mark_above: Option<u64>,
    /// Nothing passes.
    pub(crate) cut: bool,
    busy_until: [Time; 2],
    rng: Rng,
}

/// A datagram as it was sent.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) at: Time,
    pub(crate) from: usize,
    pub(crate) path: PathId,
    pub(crate) data: Vec<u8>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at: Time,
    number: u64,
    to: usize,
    path: u8,
    marked: bool,
    data: Vec<u8>,
}

pub(crate) struct Net {
    pub(crate) now: Time,
    /// The server, then its clients.
    pub(crate) nodes: Vec<Quic>,
    pub(crate) link: Link,
    pub(crate) events: Vec<Vec<(Time, Event)>>,
    pub(crate) records: Vec<Record>,
    /// On which path the server sees the first client now, as when a NAT forgot it.
    pub(crate) seen_on: u8,
    flying: BinaryHeap<Reverse<Arrival>>,
    number: u64,
}

impl Net {
    pub(crate) fn new(nodes: Vec<Quic>) -> Self {
        let link = Link {
            delay: ms(10),
            loss: Probability::NEVER,
            jitter: Duration::ZERO,
            duplicate: Probability::NEVER,
            rate: None,
            mark_above: None,
            cut: false,
            busy_until: [Time::ZERO; 2],
            rng: Seed::new(1).stream("link"),
        };
        let events = nodes.iter().map(|_| Vec::new()).collect();
        let (now, number) = (Time::ZERO, 0);
        let (records, flying) = (Vec::new(), BinaryHeap::new());
        Self { now, nodes, link, events, records, seen_on: 0, flying, number }
    }

    /// A client and a server that trust each other.
    pub(crate) fn pair(config: &QuicConfig) -> Self {
        Self::new(vec![server(config.clone()), client(config.clone(), "operator")])
    }

    /// The same, with the handshake done.
    pub(crate) fn connected(config: &QuicConfig) -> Self {
        let mut net = Self::pair(config);
        net.run_until(at_ms(200));
        assert!(net.saw(SERVER, &Event::Connected) && net.saw(CLIENT, &Event::Connected));
        net
    }

    pub(crate) fn run_until(&mut self, end: Time) {
        (0..self.nodes.len()).for_each(|node| self.pump(node));
        while let Some(next) = self.next_time().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            while let Some(arrival) = self.take_arrival() {
                self.deliver(arrival);
            }
            for node in 0..self.nodes.len() {
                let now = self.now;
                if self.nodes[node].poll_timeout().is_some_and(|deadline| deadline.at <= now) {
                    self.nodes[node].handle_timeout(now);
                    self.pump(node);
                }
            }
        }
        self.now = self.now.max(end);
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    pub(crate) fn send(&mut self, node: usize, message: Message) {
        let now = self.now;
        self.nodes[node].send(now, message).expect("there is room");
        self.pump(node);
    }

    /// Hands a datagram to a node, past the link.
    pub(crate) fn inject(&mut self, to: usize, path: u8, data: &[u8]) {
        let now = self.now;
        let input = Datagram { path: PathId(path), ecn: Ecn::NotCapable, data, padding: 0 };
        self.nodes[to].handle_input(now, input);
        self.pump(to);
    }

    pub(crate) fn saw(&self, node: usize, event: &Event) -> bool {
        self.events[node].iter().any(|(_, seen)| seen == event)
    }

    /// What the node received, and when.
    pub(crate) fn received(&self, node: usize) -> Vec<(Time, StreamId, &[u8])> {
        let received = |(at, event): &'_ (Time, Event)| match event {
            Event::Received { .. } => Some(*at),
            _ => None,
        };
        let events = self.events[node].iter().filter(|event| received(event).is_some());
        events
            .map(|(at, event)| match event {
                Event::Received { data, stream, .. } => (*at, *stream, data.as_slice()),
                _ => unreachable!("filtered"),
            })
            .collect()
    }

    /// Everything that was sent, when and by whom, in one number.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for record in &self.records {
            hasher.write_u64(record.at.as_nanos());
            hasher.write_usize(record.from);
            hasher.write_u8(record.path.0);
            hasher.write(&record.data);
        }
        hasher.finish()
    }

    fn next_time(&self) -> Option<Time> {
        let timers = self.nodes.iter().filter_map(|node| node.poll_timeout().map(|deadline| deadline.at));
        timers.chain(self.flying.peek().map(|Reverse(arrival)| arrival.at)).min()
    }

    fn take_arrival(&mut self) -> Option<Arrival> {
        self.flying.peek().filter(|Reverse(arrival)| arrival.at <= self.now)?;
        self.flying.pop().map(|Reverse(arrival)| arrival)
    }

    fn deliver(&mut self, arrival: Arrival) {
        let ecn = if arrival.marked { Ecn::CongestionExperienced } else { Ecn::Capable0 };
        let input = Datagram { path: PathId(arrival.path), ecn, data: &arrival.data, padding: 0 };
        let now = self.now;
        self.nodes[arrival.to].handle_input(now, input);
        self.pump(arrival.to);
    }

    fn pump(&mut self, from: usize) {
        let mut data = Vec::new();
        while let Some(transmit) = self.nodes[from].poll_transmit(self.now, &mut data) {
            assert!(data.len() <= 1_452 && !data.is_empty());
            let path = transmit.path.0;
            self.records.push(Record { at: self.now, from, path: transmit.path, data: data.clone() });
            let (to, path) = match from {
                SERVER => (usize::from(path / PATHS) + 1, path % PATHS),
                CLIENT => (SERVER, self.seen_on),
                client => (SERVER, (client as u8 - 1) * PATHS + path),
            };
            self.carry(from, to, path, std::mem::take(&mut data));
        }
        let now = self.now;
        let node = &mut self.nodes[from];
        self.events[from].extend(std::iter::from_fn(|| node.poll_event()).map(|event| (now, event)));
    }

    fn carry(&mut self, from: usize, to: usize, path: u8, data: Vec<u8>) {
        let link = &mut self.link;
        let (lost, doubled) = (link.loss.sample(&mut link.rng), link.duplicate.sample(&mut link.rng));
        let jitter = Duration::from_nanos(link.rng.below(link.jitter.as_nanos() + 1));
        if lost || link.cut || to >= self.nodes.len() {
            return;
        }
        let (mut leaves, mut marked) = (self.now, false);
        if let Some((rate, limit)) = link.rate {
            let busy = &mut link.busy_until[usize::from(from == SERVER)];
            let queued = busy.saturating_since(self.now).as_nanos() * rate / 8_000_000_000;
            if queued > limit {
                return;
            }
            marked = link.mark_above.is_some_and(|mark| queued > mark);
            let wire = data.len() as u64 + 28;
            leaves = leaves.max(*busy) + Duration::from_nanos(wire * 8_000_000_000 / rate);
            *busy = leaves;
        }
        for at in [Some(leaves + link.delay + jitter), doubled.then_some(leaves + link.delay + ms(1))] {
            let Some(at) = at else { continue };
            self.number += 1;
            let (number, data) = (self.number, data.clone());
            self.flying.push(Reverse(Arrival { at, number, to, path, marked, data }));
        }
    }
}

/// A sample that says when it was made.
pub(crate) fn sample(now: Time, size: usize) -> Message {
    let mut data = vec![0; size];
    data[..8].copy_from_slice(&now.as_nanos().to_le_bytes());
    Message {
        data,
        created: now,
        priority: Priority(1),
        stream: StreamId(1),
        tag: now.as_nanos(),
        ..Message::default()
    }
}

/// A reliable message that says when it was made.
pub(crate) fn command(now: Time, stream: u16, priority: u8, size: usize) -> Message {
    let (stream, priority, reliability) = (StreamId(stream), Priority(priority), Reliability::Reliable);
    Message { stream, priority, reliability, ..sample(now, size) }
}

/// How long after it was made each message of the stream arrived, in order of size.
pub(crate) fn latencies(net: &Net, node: usize, stream: u16) -> Vec<Duration> {
    let received = net.received(node);
    let ours = received.iter().filter(|(_, id, _)| id.0 == stream);
    let mut all: Vec<_> = ours.map(|(at, _, data)| *at - made(data)).collect();
    all.sort_unstable();
    all
}

/// When the message was made.
pub(crate) fn made(data: &[u8]) -> Time {
    Time::from_nanos(u64::from_le_bytes(*data.first_chunk().expect("it says when it was made")))
}

/// That share of them took so long at most.
pub(crate) fn quantile(sorted: &[Duration], share: f64) -> Duration {
    sorted.get(((sorted.len() as f64 - 1.0) * share) as usize).copied().unwrap_or(Duration::MAX)
}

pub(crate) fn share(fraction: f64) -> Probability {
    Probability::from_fraction(fraction).expect("a fraction")
}
