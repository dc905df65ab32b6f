//! Two endpoints and the two links between them: delay, jitter that reorders, loss by chance or by script, duplicates,
//! congestion marks, and a rate with a queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use taut_core::{
    Datagram, Duration, Ecn, Event, Message, PathId, Priority, Probability, Rng, Seed, StreamId, Time,
    Transport,
};
use taut_transport::dccp::{Ccid, Dccp, DccpConfig};
use taut_wire::dccp::{Packet, Repr, View};

pub(crate) use crate::net::{at_ms, ms};

/// Bytes of the headers around a packet over UDP.
const HEADERS: u64 = 28;

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// A packet as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) at: Time,
    pub(crate) from: usize,
    pub(crate) repr: Repr,
    pub(crate) bytes: Vec<u8>,
    pub(crate) ecn: Ecn,
}

/// Decides whether a packet is lost: told how many of its type went this way before.
pub(crate) type Script = Box<dyn FnMut(usize, &Repr) -> bool>;

pub(crate) struct Link {
    pub(crate) delay: Duration,
    /// Up to so much more delay by chance.
    pub(crate) jitter: Duration,
    pub(crate) loss: f64,
    pub(crate) duplicate: f64,
    pub(crate) mark: f64,
    /// Bits per second, and how long a packet may wait.
    pub(crate) rate: Option<(u64, Duration)>,
    pub(crate) script: Script,
    pub(crate) dropped: u64,
    busy_until: Time,
    types: Vec<(std::mem::Discriminant<Packet>, usize)>,
    rng: Rng,
}

impl Link {
    fn new(seed: Seed, name: &str) -> Self {
        Self {
            delay: ms(10),
            jitter: Duration::ZERO,
            loss: 0.0,
            duplicate: 0.0,
            mark: 0.0,
            rate: None,
            script: Box::new(|_, _| false),
            dropped: 0,
            busy_until: Time::ZERO,
            types: Vec::new(),
            rng: seed.stream(name),
        }
    }

    fn chance(&mut self, fraction: f64) -> bool {
        Probability::from_fraction(fraction).expect("a fraction").sample(&mut self.rng)
    }

    /// When the packet arrives: never, once or twice.
    fn carry(&mut self, now: Time, record: &Record) -> Vec<Time> {
        let kind = std::mem::discriminant(&record.repr.packet);
        let index = match self.types.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                self.types.push((kind, 0));
                0
            }
        };
        let lost = self.chance(self.loss);
        let twice = self.chance(self.duplicate);
        if (self.script)(index, &record.repr) || lost {
            self.dropped += 1;
            return Vec::new();
        }
        let mut leaves = now;
        if let Some((rate, patience)) = self.rate {
            let start = self.busy_until.max(now);
            if start.saturating_since(now) > patience {
                self.dropped += 1;
                return Vec::new();
            }
            let bits = (record.bytes.len() as u64 + HEADERS) * 8;
            leaves = start + Duration::from_nanos(bits * 1_000_000_000 / rate);
            self.busy_until = leaves;
        }
        let mut arrival = || {
            let jitter = Duration::from_nanos(self.rng.below(self.jitter.as_nanos() + 1));
            leaves + self.delay + jitter
        };
        if twice { vec![arrival(), arrival()] } else { vec![arrival()] }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at: Time,
    number: u64,
    to: usize,
    path: u8,
    marked: bool,
    bytes: Vec<u8>,
}

/// A message that an application will offer.
type Offer = (Time, usize, Message);

pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) ends: [Dccp; 2],
    /// From the client, and from the server.
    pub(crate) links: [Link; 2],
    pub(crate) events: [Vec<(Time, Event)>; 2],
    pub(crate) records: Vec<Record>,
    /// Whether `records` is kept.
    pub(crate) recording: bool,
    /// Over which path packets to the server arrive.
    pub(crate) path: u8,
    /// Offered later, the next one last.
    offers: Vec<Offer>,
    flying: BinaryHeap<Reverse<Arrival>>,
    number: u64,
}

impl Net {
    pub(crate) fn new(seed: u64, client: DccpConfig, server: DccpConfig) -> Self {
        let seed = Seed::new(seed);
        Self {
            now: Time::ZERO,
            ends: [Dccp::client(client, seed.stream("client")), Dccp::server(server, seed.stream("server"))],
            links: [Link::new(seed, "forward"), Link::new(seed, "backward")],
            events: [Vec::new(), Vec::new()],
            records: Vec::new(),
            recording: true,
            path: 0,
            offers: Vec::new(),
            flying: BinaryHeap::new(),
            number: 0,
        }
    }

    pub(crate) fn with(ccid: Ccid) -> Self {
        Self::new(1, config(ccid), config(ccid))
    }

    pub(crate) fn links(mut self, mut change: impl FnMut(&mut Link)) -> Self {
        self.links.iter_mut().for_each(&mut change);
        self
    }

    /// Offers `count` samples of 75 bytes, one each `period`, from `start` on. Each says which it is, and when it was made.
    pub(crate) fn samples(&mut self, from: usize, start: Time, period: Duration, count: u64) {
        for n in 0..count {
            let at = start + period * n;
            let mut data = vec![0; 75];
            data[..8].copy_from_slice(&n.to_le_bytes());
            data[8..16].copy_from_slice(&at.as_nanos().to_le_bytes());
            let message = Message { data, created: at, priority: Priority(1), tag: n, ..Message::default() };
            self.offers.push((at, from, message));
        }
        self.offers.sort_by_key(|(at, from, _)| Reverse((*at, *from)));
    }

    pub(crate) fn send(&mut self, from: usize, message: Message) {
        let now = self.now;
        self.ends[from].send(now, message).expect("a message that is taken");
        self.pump(from);
    }

    pub(crate) fn close(&mut self, end: usize) {
        let now = self.now;
        self.ends[end].close(now);
        self.pump(end);
    }

    pub(crate) fn run_until(&mut self, end: Time) {
        self.pump(CLIENT);
        self.pump(SERVER);
        while let Some(next) = self.next_time().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.step();
        }
        self.now = self.now.max(end);
    }

    fn step(&mut self) {
        let now = self.now;
        if self.offers.last().is_some_and(|(at, ..)| *at <= now) {
            let (_, from, message) = self.offers.pop().expect("one was seen");
            let _ = self.ends[from].send(now, message);
            self.pump(from);
        }
        if self.flying.peek().is_some_and(|Reverse(arrival)| arrival.at <= now) {
            let Reverse(arrival) = self.flying.pop().expect("one was seen");
            self.deliver(arrival.to, arrival.path, &arrival.bytes, arrival.marked);
        }
        for end in [CLIENT, SERVER] {
            if self.ends[end].poll_timeout().is_some_and(|deadline| deadline.at <= now) {
                self.ends[end].handle_timeout(now);
                self.pump(end);
            }
        }
    }

    /// Hands these bytes to an end, as if a network had.
    pub(crate) fn deliver(&mut self, to: usize, path: u8, bytes: &[u8], marked: bool) {
        let ecn = if marked { Ecn::CongestionExperienced } else { Ecn::NotCapable };
        let now = self.now;
        self.ends[to].handle_input(now, Datagram { path: PathId(path), ecn, data: bytes, padding: 0 });
        self.pump(to);
    }

    pub(crate) fn is_connected(&self, end: usize) -> Option<Time> {
        self.events[end].iter().find(|(_, event)| *event == Event::Connected).map(|(at, _)| *at)
    }

    pub(crate) fn closed_at(&self, end: usize) -> Option<Time> {
        self.events[end].iter().find(|(_, event)| *event == Event::Closed).map(|(at, _)| *at)
    }

    /// What an application received, with its stream.
    pub(crate) fn received(&self, end: usize) -> Vec<(Time, StreamId, &[u8])> {
        let received = |(at, event): &'_ (Time, Event)| match event {
            Event::Received { stream, .. } => Some((*at, *stream)),
            _ => None,
        };
        let data = |event: &'_ Event| matches!(event, Event::Received { .. });
        self.events[end]
            .iter()
            .filter(|(_, event)| data(event))
            .map(|entry| {
                let (at, stream) = received(entry).expect("received");
                let Event::Received { data, .. } = &entry.1 else { unreachable!() };
                (at, stream, data.as_slice())
            })
            .collect()
    }

    /// Which samples arrived, and how old they were.
    pub(crate) fn samples_received(&self, end: usize) -> Vec<(u64, Duration)> {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        self.received(end)
            .iter()
            .map(|(at, _, data)| (number(&data[..8]), *at - Time::from_nanos(number(&data[8..16]))))
            .collect()
    }

    /// The types of the packets that were sent, in order.
    pub(crate) fn types(&self) -> Vec<(usize, &'static str)> {
        self.records.iter().map(|record| (record.from, name(&record.repr.packet))).collect()
    }

    fn next_time(&self) -> Option<Time> {
        let timers = self.ends.iter().filter_map(|end| Some(end.poll_timeout()?.at));
        let arrival = self.flying.peek().map(|Reverse(arrival)| arrival.at);
        timers.chain(arrival).chain(self.offers.last().map(|(at, ..)| *at)).min()
    }

    pub(crate) fn pump(&mut self, from: usize) {
        let mut bytes = Vec::new();
        while let Some(transmit) = self.ends[from].poll_transmit(self.now, &mut bytes) {
            let repr = View::new_checked(&bytes).expect("an endpoint emits what parses").repr();
            let record = Record { at: self.now, from, repr, bytes: bytes.clone(), ecn: transmit.ecn };
            let link = &mut self.links[from];
            let marked = link.chance(link.mark) && transmit.ecn != Ecn::NotCapable;
            for at in link.carry(self.now, &record) {
                self.number += 1;
                let path = if from == CLIENT { self.path } else { 0 };
                let arrival =
                    Arrival { at, number: self.number, to: 1 - from, path, marked, bytes: bytes.clone() };
                self.flying.push(Reverse(arrival));
            }
            if self.recording {
                self.records.push(record);
            }
            bytes.clear();
        }
        while let Some(event) = self.ends[from].poll_event() {
            self.events[from].push((self.now, event));
        }
    }
}

pub(crate) fn config(ccid: Ccid) -> DccpConfig {
    DccpConfig::new().ccids(&[ccid]).expect("one profile")
}

pub(crate) fn name(packet: &Packet) -> &'static str {
    match packet {
        Packet::Request { .. } => "Request",
        Packet::Response { .. } => "Response",
        Packet::Data => "Data",
        Packet::Ack { .. } => "Ack",
        Packet::DataAck { .. } => "DataAck",
        Packet::CloseReq { .. } => "CloseReq",
        Packet::Close { .. } => "Close",
        Packet::Reset { .. } => "Reset",
        Packet::Sync { .. } => "Sync",
        Packet::SyncAck { .. } => "SyncAck",
    }
}

pub(crate) fn message(tag: u64) -> Message {
    Message { data: tag.to_le_bytes().to_vec(), tag, ..Message::default() }
}
