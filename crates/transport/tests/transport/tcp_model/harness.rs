//! Two endpoints and the two links between them: a rate with a drop-tail queue counted in bytes, a delay, losses by
//! script or by chance, reordering.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use taut_core::{Datagram, Duration, Ecn, Event, PathId, Rng, Seed, Time, Transport};
use taut_transport::tcp::{Tcp, TcpConfig};
use taut_wire::tcp::Repr;

pub(crate) use crate::net::{at_ms, ms};

/// Bytes of the IP header that goes before every segment.
const IP: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Client,
    Server,
}

/// A segment as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) at: Time,
    pub(crate) from: End,
    pub(crate) repr: Repr,
    /// Bytes of data.
    pub(crate) len: u64,
    pub(crate) dropped: bool,
}

/// Decides whether a segment is lost: told how many of this direction carried data before, and the segment.
pub(crate) type Script = Box<dyn FnMut(u64, &Record) -> bool>;

pub(crate) struct Link {
    pub(crate) delay: Duration,
    /// Bits per second.
    pub(crate) rate: Option<u64>,
    /// Bytes that may wait; what is being sent does not.
    pub(crate) limit: Option<u64>,
    /// Up to so much more delay by chance, which reorders.
    pub(crate) jitter: Duration,
    pub(crate) script: Script,
    /// Segments dropped by the queue.
    pub(crate) overflowed: u64,
    rng: Rng,
    data_segments: u64,
    busy_until: Time,
    waiting: VecDeque<(Time, u64)>,
}

impl Link {
    fn new(name: &str) -> Self {
        Self {
            delay: ms(8),
            rate: None,
            limit: None,
            jitter: Duration::ZERO,
            script: Box::new(|_, _| false),
            overflowed: 0,
            rng: Seed::new(1).stream(name),
            data_segments: 0,
            busy_until: Time::ZERO,
            waiting: VecDeque::new(),
        }
    }

    /// When the segment arrives, unless it is lost.
    fn carry(&mut self, now: Time, size: u64, record: &Record) -> Option<Time> {
        let index = self.data_segments;
        self.data_segments += u64::from(record.len > 0);
        if (self.script)(index, record) {
            return None;
        }
        let mut leaves = now;
        if let Some(rate) = self.rate {
            while self.waiting.front().is_some_and(|(start, _)| *start <= now) {
                self.waiting.pop_front();
            }
            let waits = self.busy_until > now;
            let backlog: u64 = self.waiting.iter().map(|(_, size)| size).sum();
            if waits && self.limit.is_some_and(|limit| backlog + size > limit) {
                self.overflowed += 1;
                return None;
            }
            let start = if waits { self.busy_until } else { now };
            if waits {
                self.waiting.push_back((start, size));
            }
            leaves = start + Duration::from_nanos(size * 8_000_000_000 / rate);
            self.busy_until = leaves;
        }
        let jitter = Duration::from_nanos(self.rng.below(self.jitter.as_nanos() + 1));
        Some(leaves + self.delay + jitter)
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at: Time,
    number: u64,
    to: End,
    data: Vec<u8>,
    padding: u32,
}

pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) client: Tcp,
    pub(crate) server: Tcp,
    /// From the client to the server.
    pub(crate) forward: Link,
    pub(crate) backward: Link,
    pub(crate) client_events: Vec<Event>,
    pub(crate) server_events: Vec<Event>,
    pub(crate) records: Vec<Record>,
    /// The client's congestion window, whenever it changed.
    pub(crate) windows: Vec<(Time, u64)>,
    flying: BinaryHeap<Reverse<Arrival>>,
    number: u64,
}

impl Net {
    pub(crate) fn new(client: Tcp, server: Tcp) -> Self {
        Self {
            now: Time::ZERO,
            client,
            server,
            forward: Link::new("forward"),
            backward: Link::new("backward"),
            client_events: Vec::new(),
            server_events: Vec::new(),
            records: Vec::new(),
            windows: Vec::new(),
            flying: BinaryHeap::new(),
            number: 0,
        }
    }

    /// A client that sends bulk data without end to a server that counts it.
    pub(crate) fn bulk(config: &TcpConfig) -> Self {
        let client = Tcp::client(config.clone(), 1000).bulk(None);
        Self::new(client, Tcp::server(config.clone(), 2000).sink())
    }

    pub(crate) fn run_until(&mut self, end: Time) {
        self.pump(End::Client);
        self.pump(End::Server);
        while let Some(next) = self.next_time().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            if self.flying.peek().is_some_and(|Reverse(arrival)| arrival.at <= self.now) {
                let Reverse(arrival) = self.flying.pop().expect("one was seen");
                let (path, ecn) = (PathId(0), Ecn::NotCapable);
                let datagram = Datagram { path, ecn, data: &arrival.data, padding: arrival.padding };
                let now = self.now;
                self.end(arrival.to).handle_input(now, datagram);
                self.pump(arrival.to);
            }
            for end in [End::Client, End::Server] {
                let now = self.now;
                if self.end(end).poll_timeout().is_some_and(|deadline| deadline.at <= now) {
                    self.end(end).handle_timeout(now);
                    self.pump(end);
                }
            }
        }
        self.now = self.now.max(end);
    }

    /// Segments with data that the client sent.
    pub(crate) fn data_records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| record.from == End::Client && record.len > 0)
    }

    pub(crate) fn acks_of_server(&self) -> usize {
        self.records.iter().filter(|record| record.from == End::Server && record.len == 0).count()
    }

    /// What the server's application received.
    pub(crate) fn received(&self) -> Vec<&[u8]> {
        let data = |event: &'_ Event| matches!(event, Event::Received { .. });
        let events = self.server_events.iter().filter(|event| data(event));
        events
            .map(|event| if let Event::Received { data, .. } = event { data.as_slice() } else { &[] })
            .collect()
    }

    fn end(&mut self, end: End) -> &mut Tcp {
        match end {
            End::Client => &mut self.client,
            End::Server => &mut self.server,
        }
    }

    fn next_time(&self) -> Option<Time> {
        let timers = [self.client.poll_timeout(), self.server.poll_timeout()].into_iter().flatten();
        let arrival = self.flying.peek().map(|Reverse(arrival)| arrival.at);
        timers.map(|deadline| deadline.at).chain(arrival).min()
    }

    fn pump(&mut self, from: End) {
        let mut data = Vec::new();
        while let Some(transmit) = {
            let now = self.now;
            self.end(from).poll_transmit(now, &mut data)
        } {
            let (repr, header) = Repr::parse(&data).expect("an endpoint emits what parses");
            let len = (data.len() - header) as u64 + u64::from(transmit.padding);
            let mut record = Record { at: self.now, from, repr, len, dropped: false };
            let size = IP + header as u64 + len;
            let (link, to) = match from {
                End::Client => (&mut self.forward, End::Server),
                End::Server => (&mut self.backward, End::Client),
            };
            match link.carry(self.now, size, &record) {
                Some(at) => {
                    self.number += 1;
                    let data = std::mem::take(&mut data);
                    self.flying.push(Reverse(Arrival {
                        at,
                        number: self.number,
                        to,
                        data,
                        padding: transmit.padding,
                    }));
                }
                None => record.dropped = true,
            }
            self.records.push(record);
            data.clear();
        }
        let cwnd = self.client.congestion_window().get();
        if self.windows.last().is_none_or(|(_, last)| *last != cwnd) {
            self.windows.push((self.now, cwnd));
        }
        while let Some(event) = self.end(from).poll_event() {
            match from {
                End::Client => self.client_events.push(event),
                End::Server => self.server_events.push(event),
            }
        }
    }
}

/// Loses the data segments with these indices, counted from 0, and no other.
pub(crate) fn lose(indices: &'static [u64]) -> Script {
    Box::new(move |index, record| record.len > 0 && indices.contains(&index))
}
