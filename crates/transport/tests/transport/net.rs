//! Two endpoints of any transport, and a network between them, in virtual time.

use std::collections::BTreeMap;

use taut_core::{Datagram, Duration, Ecn, Event, PathId, Probability, Rng, Seed, Time, Transport, earliest};

pub(crate) const MS: Duration = Duration::from_millis(1);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn at_ms(millis: u64) -> Time {
    Time::ZERO + ms(millis)
}

/// One direction.
pub(crate) struct Way {
    pub(crate) delay: Duration,
    /// Uniform, on top of the delay: reorders when it is longer than the gap between datagrams.
    pub(crate) jitter: Duration,
    pub(crate) loss: Probability,
    pub(crate) duplicates: Probability,
    pub(crate) cut: bool,
    /// The path that the receiver sees the datagrams come from.
    pub(crate) path: PathId,
    /// Instead: the one on which they were sent.
    pub(crate) as_sent: bool,
    /// Paths on which nothing arrives.
    pub(crate) dead: Vec<PathId>,
    /// Datagrams that do not arrive.
    pub(crate) filter: fn(&[u8]) -> bool,
    rng: Rng,
}

/// Endpoints 0 and 1; `ways[0]` leads from 0 to 1.
pub(crate) struct Net<T> {
    pub(crate) ends: [T; 2],
    pub(crate) ways: [Way; 2],
    pub(crate) now: Time,
    /// What each end had to tell, and when.
    pub(crate) events: [Vec<(Time, Event)>; 2],
    /// Every datagram that was sent: when, by whom, on which path, its bytes.
    pub(crate) sent: Vec<(Time, usize, PathId, Vec<u8>)>,
    in_flight: BTreeMap<(Time, u64), (usize, PathId, Vec<u8>)>,
    count: u64,
}

impl<T: Transport> Net<T> {
    pub(crate) fn new(ends: [T; 2], delay: Duration, seed: u64) -> Self {
        let way = |name| Way {
            delay,
            jitter: Duration::ZERO,
            loss: Probability::NEVER,
            duplicates: Probability::NEVER,
            cut: false,
            path: PathId(0),
            as_sent: false,
            dead: Vec::new(),
            filter: |_| false,
            rng: Seed::new(seed).stream(name),
        };
        Self {
            ends,
            ways: [way("forward"), way("back")],
            now: Time::ZERO,
            events: Default::default(),
            sent: Vec::new(),
            in_flight: BTreeMap::new(),
            count: 0,
        }
    }

    pub(crate) fn lossy(mut self, percent: f64) -> Self {
        let loss = Probability::from_fraction(percent / 100.0).expect("from 0 to 100");
        self.ways.iter_mut().for_each(|way| way.loss = loss);
        self
    }

    pub(crate) fn run_until(&mut self, end: Time) {
        (0..2).for_each(|end| self.drain(end));
        while let Some(next) = self.next_time().filter(|next| *next <= end) {
            self.now = next.max(self.now);
            while let Some(entry) = self.in_flight.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to, path, data) = entry.remove();
                self.deliver(to, path, &data);
            }
            for end in 0..2 {
                self.ends[end].handle_timeout(self.now);
                self.drain(end);
            }
        }
        self.now = end;
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    /// Hands `data` to an end at once, as from that path.
    pub(crate) fn deliver(&mut self, to: usize, path: PathId, data: &[u8]) {
        let input = Datagram { path, ecn: Ecn::NotCapable, data, padding: 0 };
        self.ends[to].handle_input(self.now, input);
        self.drain(to);
    }

    /// What the driver does after each call.
    pub(crate) fn drain(&mut self, end: usize) {
        let mut buffer = Vec::new();
        loop {
            let mut idle = true;
            while let Some(transmit) = self.ends[end].poll_transmit(self.now, &mut buffer) {
                idle = false;
                let data = std::mem::take(&mut buffer);
                self.sent.push((self.now, end, transmit.path, data.clone()));
                self.carry(end, transmit.path, data);
            }
            while let Some(event) = self.ends[end].poll_event() {
                idle = false;
                self.events[end].push((self.now, event));
            }
            if idle {
                return;
            }
        }
    }

    fn carry(&mut self, from: usize, path: PathId, data: Vec<u8>) {
        let way = &mut self.ways[from];
        let copies = 1 + u64::from(way.duplicates.sample(&mut way.rng));
        let lost =
            way.loss.sample(&mut way.rng) || way.cut || way.dead.contains(&path) || (way.filter)(&data);
        let seen = if way.as_sent { path } else { way.path };
        for _ in 0..copies {
            let jitter = Duration::from_nanos(way.rng.below(way.jitter.as_nanos() + 1));
            self.count += 1;
            if !lost {
                let at = self.now + way.delay + jitter;
                self.in_flight.insert((at, self.count), (1 - from, seen, data.clone()));
            }
        }
    }

    fn next_time(&self) -> Option<Time> {
        let timeout =
            earliest(self.ends[0].poll_timeout(), self.ends[1].poll_timeout()).map(|deadline| deadline.at);
        let arrival = self.in_flight.keys().next().map(|(at, _)| *at);
        timeout.into_iter().chain(arrival).min()
    }

    /// When the end said for the first time that it is connected.
    pub(crate) fn connected_at(&self, end: usize) -> Option<Time> {
        self.events[end].iter().find(|(_, event)| *event == Event::Connected).map(|(at, _)| *at)
    }

    pub(crate) fn received(&self, end: usize) -> impl Iterator<Item = (Time, &[u8])> {
        self.events[end].iter().filter_map(|(at, event)| match event {
            Event::Received { data, .. } => Some((*at, &data[..])),
            _ => None,
        })
    }

    pub(crate) fn count(&self, end: usize, wanted: &Event) -> usize {
        self.events[end].iter().filter(|(_, event)| event == wanted).count()
    }
}

/// The value below which that share of the sorted values lies.
pub(crate) fn percentile(sorted: &[Duration], share: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}
