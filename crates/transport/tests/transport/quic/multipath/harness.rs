//! Two endpoints and the paths between them: each with delay, jitter, loss and a time when it is cut.

use std::collections::BTreeMap;

use taut_core::{
    Datagram, Duration, Ecn, Event, Message, PathId, Priority, Probability, Reliability, Rng, Seed, Time,
    Transport,
};
use taut_transport::entropy::Entropy;
use taut_transport::identity::Trust;
use taut_transport::quic::{MpQuic, QuicConfig};

pub(crate) use crate::net::{at_ms, ms};
pub(crate) use crate::quic::harness::identity;

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

pub(crate) fn client(config: QuicConfig, name: &str, seed: u64) -> MpQuic {
    let trust = Trust::only(identity("robot").fingerprint());
    MpQuic::client(config, &identity(name), trust, Entropy::seeded(Seed::new(seed), name))
}

pub(crate) fn server(config: QuicConfig, seed: u64) -> MpQuic {
    let trust = Trust::only(identity("operator").fingerprint());
    MpQuic::server(config, &identity("robot"), trust, Entropy::seeded(Seed::new(seed), "robot"))
}

/// Both directions of a path.
pub(crate) struct Way {
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
    pub(crate) loss: Probability,
    pub(crate) duplicate: Probability,
    /// Nothing passes from here on, until there.
    pub(crate) cut: Option<(Time, Time)>,
    /// On which path the other end sees what is sent, by who sends it, where that is another.
    pub(crate) arrives_on: [Option<PathId>; 2],
    /// Datagrams, by direction.
    pub(crate) carried: [u64; 2],
}

impl Way {
    pub(crate) fn new(delay: Duration) -> Self {
        let (loss, duplicate) = (Probability::NEVER, Probability::NEVER);
        Self {
            delay,
            jitter: Duration::ZERO,
            loss,
            duplicate,
            cut: None,
            arrives_on: [None; 2],
            carried: [0; 2],
        }
    }
}

pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) ends: [MpQuic; 2],
    pub(crate) ways: Vec<Way>,
    pub(crate) events: [Vec<(Time, Event)>; 2],
    /// Every datagram that was sent: when, by whom, over which path, its bytes.
    pub(crate) sent: Vec<(Time, usize, PathId, Vec<u8>)>,
    arrivals: BTreeMap<(Time, u64), (usize, PathId, Vec<u8>)>,
    count: u64,
    rng: Rng,
}

impl Net {
    /// Two paths of 4 and 5 ms.
    pub(crate) fn new(config: QuicConfig, seed: u64) -> Self {
        Self::between([client(config.clone(), "operator", seed), server(config, seed)], seed)
    }

    pub(crate) fn between(mut ends: [MpQuic; 2], seed: u64) -> Self {
        (0..2).for_each(|id| assert!(ends[CLIENT].add_path(Time::ZERO, PathId(id))));
        Self {
            now: Time::ZERO,
            ends,
            ways: vec![Way::new(ms(4)), Way::new(ms(5))],
            events: Default::default(),
            sent: Vec::new(),
            arrivals: BTreeMap::new(),
            count: 0,
            rng: Seed::new(seed).stream("net"),
        }
    }

    pub(crate) fn run_until(&mut self, end: Time) {
        (0..2).for_each(|end| self.drain(end));
        let mut turns_at_now = 0;
        while let Some(next) = self.next_time().filter(|next| *next <= end) {
            turns_at_now = if next > self.now { 0 } else { turns_at_now + 1 };
            assert!(turns_at_now < 1_000, "at {} the ends are called without end", self.now);
            self.now = next.max(self.now);
            while let Some(entry) = self.arrivals.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to, path, data) = entry.remove();
                self.deliver(to, path, &data);
            }
            for end in 0..2 {
                if self.ends[end].poll_timeout().is_some_and(|deadline| deadline.at <= self.now) {
                    self.ends[end].handle_timeout(self.now);
                }
                self.drain(end);
            }
        }
        self.now = self.now.max(end);
    }

    /// A sample of 100 bytes each `period`, until then. Each says which it is, and when it was made.
    pub(crate) fn samples(&mut self, from: usize, period: Duration, until: Time) -> u64 {
        self.samples_of(Priority::default(), from, period, until)
    }

    /// The same, and none is an emergency.
    pub(crate) fn plain(&mut self, from: usize, period: Duration, until: Time) -> u64 {
        self.samples_of(Priority(1), from, period, until)
    }

    fn samples_of(&mut self, priority: Priority, from: usize, period: Duration, until: Time) -> u64 {
        let mut number = 0u64;
        while self.now < until {
            let mut data = vec![0; 100];
            data[..8].copy_from_slice(&number.to_le_bytes());
            data[8..16].copy_from_slice(&self.now.as_nanos().to_le_bytes());
            self.send(from, Message { data, created: self.now, priority, tag: number, ..Message::default() });
            number += 1;
            self.run_until(self.now + period);
        }
        number
    }

    pub(crate) fn reliable(&mut self, from: usize, data: Vec<u8>) {
        let reliability = Reliability::Reliable;
        self.send(from, Message { data, created: self.now, reliability, ..Message::default() });
    }

    pub(crate) fn send(&mut self, from: usize, message: Message) {
        self.ends[from].send(self.now, message).expect("a message that is taken");
        self.drain(from);
    }

    pub(crate) fn deliver(&mut self, to: usize, path: PathId, data: &[u8]) {
        self.ends[to].handle_input(self.now, Datagram { path, ecn: Ecn::NotCapable, data, padding: 0 });
        self.drain(to);
    }

    pub(crate) fn drain(&mut self, end: usize) {
        let mut data = Vec::new();
        while let Some(transmit) = self.ends[end].poll_transmit(self.now, &mut data) {
            let data = std::mem::take(&mut data);
            assert!(!data.is_empty() && data.len() <= 1_200);
            self.sent.push((self.now, end, transmit.path, data.clone()));
            self.carry(end, transmit.path, data);
        }
        let now = self.now;
        let from = &mut self.ends[end];
        self.events[end].extend(std::iter::from_fn(|| from.poll_event()).map(|event| (now, event)));
    }

    fn carry(&mut self, from: usize, path: PathId, data: Vec<u8>) {
        let Some(way) = self.ways.get_mut(usize::from(path.0)) else { return };
        way.carried[from] += 1;
        let cut = way.cut.is_some_and(|(since, until)| self.now >= since && self.now < until);
        let copies = 1 + u64::from(way.duplicate.sample(&mut self.rng));
        if way.loss.sample(&mut self.rng) || cut {
            return;
        }
        let seen = way.arrives_on[from].unwrap_or(path);
        for _ in 0..copies {
            let at = self.now + way.delay + Duration::from_nanos(self.rng.below(way.jitter.as_nanos() + 1));
            self.count += 1;
            self.arrivals.insert((at, self.count), (1 - from, seen, data.clone()));
        }
    }

    fn next_time(&self) -> Option<Time> {
        let timers = self.ends.iter().filter_map(|end| end.poll_timeout().map(|deadline| deadline.at));
        timers.chain(self.arrivals.keys().next().map(|(at, _)| *at)).min()
    }

    /// What arrived, and when.
    pub(crate) fn received(&self, end: usize) -> Vec<(Time, &[u8])> {
        let received = self.events[end].iter().filter_map(|(at, event)| match event {
            Event::Received { data, .. } => Some((*at, &data[..])),
            _ => None,
        });
        received.collect()
    }

    pub(crate) fn count(&self, end: usize, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events[end].iter().filter(|(_, event)| wanted(event)).count()
    }
}

/// How long after it was made a sample arrived.
pub(crate) fn latency((at, data): &(Time, &[u8])) -> Duration {
    let made = data[8..16].try_into().expect("8 bytes");
    at.saturating_since(Time::from_nanos(u64::from_le_bytes(made)))
}
