//! Two endpoints and the paths between them: each with delay, jitter, loss and a time when it is cut.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use taut_core::{
    Datagram, Duration, Ecn, Event, Message, PathId, Probability, Rng, Seed, SendError, Time, Transport,
};
use taut_transport::mtip::{Mtip, MtipConfig};
use taut_wire::mtip::{Body, Repr};

use crate::mtip::recording::Recording;

pub(crate) use crate::net::{at_ms, ms};

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

pub(crate) struct Way {
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
    pub(crate) loss: f64,
    pub(crate) duplicate: f64,
    /// Nothing passes from here on, until there.
    pub(crate) cut: Option<(Time, Time)>,
    /// The way back takes so much, if it is not as long.
    pub(crate) delay_back: Option<Duration>,
    /// From then until then it takes so long, each way.
    pub(crate) slow: Option<(Time, Time, Duration)>,
    /// From then on the server sees the client on another path, which is the one of this address now.
    pub(crate) rebound: Option<(Time, u8)>,
    /// The way back loses so much.
    pub(crate) loss_back: f64,
    /// What a recording has for each 30 ms, instead of all that.
    pub(crate) recorded: Option<Recording>,
    /// Datagrams, by direction.
    pub(crate) carried: [u64; 2],
}

impl Way {
    pub(crate) fn new(delay_us: u64) -> Self {
        Self {
            delay: Duration::from_micros(delay_us),
            jitter: Duration::ZERO,
            loss: 0.0,
            duplicate: 0.0,
            cut: None,
            delay_back: None,
            slow: None,
            rebound: None,
            loss_back: 0.0,
            recorded: None,
            carried: [0; 2],
        }
    }
}

/// When, in which order, at which end, over which path, what.
type Arrival = (Time, u64, usize, u8, Vec<u8>);

pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) ends: [Mtip; 2],
    pub(crate) ways: Vec<Way>,
    /// The server's clock minus the client's.
    pub(crate) offset: Duration,
    /// What the client sent of messages: over which path, its number, and its clock then.
    pub(crate) copies_sent: Vec<(u8, u32, u64)>,
    /// Of each command, how old its first copy was when it arrived, in improved packets.
    pub(crate) arrived: BTreeMap<u64, Duration>,
    pub(crate) events: [Vec<(Time, Event)>; 2],
    /// The client is called so much later than it asks for, at most.
    pub(crate) wakes_late: Duration,
    /// An end that is called sends so much later.
    pub(crate) sends_late: Duration,
    /// How late it is this time.
    late: Duration,
    offers: BinaryHeap<Reverse<(Time, u64)>>,
    pub(crate) messages: Vec<Message>,
    arrivals: BinaryHeap<Reverse<Arrival>>,
    count: u64,
    rng: Rng,
}

impl Net {
    pub(crate) fn new(config: MtipConfig, ways: Vec<Way>) -> Self {
        Self::seeded(1, [config.clone(), config], ways)
    }

    pub(crate) fn seeded(seed: u64, [client, server]: [MtipConfig; 2], ways: Vec<Way>) -> Self {
        let mut client = Mtip::client(client, seed);
        (0..ways.len()).for_each(|id| assert!(client.add_path(Time::ZERO, PathId(id as u8))));
        Self {
            now: Time::ZERO,
            ends: [client, Mtip::server(server)],
            ways,
            offset: Duration::ZERO,
            copies_sent: Vec::new(),
            arrived: BTreeMap::new(),
            events: Default::default(),
            wakes_late: Duration::ZERO,
            sends_late: Duration::ZERO,
            late: Duration::ZERO,
            offers: BinaryHeap::new(),
            messages: Vec::new(),
            arrivals: BinaryHeap::new(),
            count: 0,
            rng: Seed::new(seed).stream("net"),
        }
    }

    /// What the end's clock reads.
    pub(crate) fn clock(&self, end: usize) -> Time {
        if end == SERVER { self.now + self.offset } else { self.now }
    }

    /// The client offers `count` commands, one each `period`. Each says which it is.
    pub(crate) fn commands(&mut self, start: Time, period: Duration, count: u64, deadline: Duration) {
        for n in 0..count {
            let created = start + period * n;
            let mut data = vec![0; 100];
            data[..8].copy_from_slice(&n.to_le_bytes());
            data[8..16].copy_from_slice(&created.as_nanos().to_le_bytes());
            self.offers.push(Reverse((created, self.messages.len() as u64)));
            let deadline = Some(deadline);
            self.messages.push(Message { data, created, deadline, tag: n, ..Message::default() });
        }
    }

    pub(crate) fn send(&mut self, message: Message) {
        self.ends[CLIENT].send(self.now, message).expect("a message that is taken");
        self.pump(CLIENT);
    }

    pub(crate) fn run_until(&mut self, end: Time) {
        self.pump(CLIENT);
        while let Some(next) = self.next_time().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            while let Some(Reverse((_, index))) =
                self.offers.peek().filter(|offer| offer.0.0 <= self.now).copied()
            {
                self.offers.pop();
                let message = self.messages[index as usize].clone();
                match self.ends[CLIENT].send(self.now, message) {
                    Ok(()) | Err(SendError::Closed) => self.pump(CLIENT),
                    Err(error) => panic!("{error}"),
                }
            }
            while self.arrivals.peek().is_some_and(|arrival| arrival.0.0 <= self.now) {
                let Reverse((_, _, to, path, data)) = self.arrivals.pop().expect("it was there");
                self.deliver(to, path, &data);
            }
            for side in [CLIENT, SERVER] {
                let now = self.clock(side);
                let late = if side == CLIENT { self.late } else { Duration::ZERO };
                if self.ends[side].poll_timeout().is_some_and(|deadline| deadline.at + late <= now) {
                    self.late = Duration::from_nanos(self.rng.below(self.wakes_late.as_nanos() + 1));
                    self.ends[side].handle_timeout(now);
                    self.pump(side);
                }
            }
        }
        self.now = self.now.max(end);
    }

    fn next_time(&self) -> Option<Time> {
        let timer = |side: usize| {
            let at = self.ends[side].poll_timeout()?.at;
            Some(match side {
                SERVER => Time::ZERO + at.saturating_since(Time::ZERO + self.offset),
                _ => at + self.late,
            })
        };
        let offer = self.offers.peek().map(|offer| offer.0.0);
        let arrival = self.arrivals.peek().map(|arrival| arrival.0.0);
        [offer, arrival, timer(CLIENT), timer(SERVER)].into_iter().flatten().min()
    }

    pub(crate) fn deliver(&mut self, to: usize, path: u8, data: &[u8]) {
        let input = Datagram { path: PathId(path), ecn: Ecn::NotCapable, data, padding: 0 };
        if let (SERVER, Ok(Repr { body: Body::Data { payload, .. }, .. })) = (to, Repr::parse(data))
            && payload.len() >= 16
        {
            let (number, created) = named(payload);
            self.arrived.entry(number).or_insert(self.now.saturating_since(created));
        }
        let now = self.clock(to);
        self.ends[to].handle_input(now, input);
        self.pump(to);
    }

    /// All that the end has to say.
    pub(crate) fn pump(&mut self, end: usize) {
        let now = self.clock(end) + self.sends_late;
        loop {
            let mut data = Vec::new();
            let transmit = self.ends[end].poll_transmit(now, &mut data);
            while let Some(event) = self.ends[end].poll_event() {
                self.events[end].push((self.now, event));
            }
            let Some(transmit) = transmit else { return };
            self.carry(end, transmit.path.0, data);
        }
    }

    fn carry(&mut self, from: usize, path: u8, data: Vec<u8>) {
        let now = self.now;
        let is_rebound = |way: &Way| way.rebound.filter(|(at, _)| *at <= now).map(|(_, to)| to);
        let place = match self.ways.iter().position(|way| from == SERVER && is_rebound(way) == Some(path)) {
            Some(place) => place,
            None => usize::from(path),
        };
        let Some(way) = self.ways.get_mut(place) else { return };
        let path = match is_rebound(way) {
            Some(to) if from == CLIENT => to,
            // Nobody is at the old address.
            Some(to) if path != to => return,
            _ => place as u8,
        };
        way.carried[from] += 1;
        if let Some(recorded) = &way.recorded {
            self.count += 1;
            if let Some(delay) = recorded.delay(self.now, from, &mut self.rng) {
                self.arrivals.push(Reverse((self.now + delay, self.count, 1 - from, path, data)));
            }
            return;
        }
        if let (CLIENT, Ok(Repr { clock_ns, body: Body::Data { number, .. } })) = (from, Repr::parse(&data)) {
            self.copies_sent.push((path, number, clock_ns));
        }
        let mut chance =
            |share: f64| Probability::from_fraction(share).expect("a share").sample(&mut self.rng);
        let lost = chance(if from == SERVER { way.loss.max(way.loss_back) } else { way.loss });
        let copies = if chance(way.duplicate) { 2 } else { 1 };
        if lost || way.cut.is_some_and(|(from, until)| (from..until).contains(&self.now)) {
            return;
        }
        for _ in 0..copies {
            let jitter = Duration::from_nanos(self.rng.below(way.jitter.as_nanos() + 1));
            self.count += 1;
            let delay = way.delay_back.filter(|_| from == SERVER).unwrap_or(way.delay);
            let slow = way.slow.filter(|(from, until, _)| (*from..*until).contains(&self.now));
            let at = self.now + slow.map_or(delay, |(.., delay)| delay) + jitter;
            self.arrivals.push(Reverse((at, self.count, 1 - from, path, data.clone())));
        }
    }

    /// Commands that the server delivered: which, and how long they took.
    pub(crate) fn received(&self) -> Vec<(u64, Duration)> {
        let taken = self.events[SERVER].iter().filter_map(|(at, event)| match event {
            Event::Received { data, .. } => {
                let (number, created) = named(data);
                Some((number, at.saturating_since(created)))
            }
            _ => None,
        });
        taken.collect()
    }

    pub(crate) fn count(&self, end: usize, is_it: impl Fn(&Event) -> bool) -> usize {
        self.events[end].iter().filter(|(_, event)| is_it(event)).count()
    }

    /// Copies per message.
    pub(crate) fn copies(&self) -> f64 {
        let stats = self.ends[CLIENT].stats();
        stats.copies as f64 / stats.sent as f64
    }
}

/// Which command this is, and when it was made.
fn named(data: &[u8]) -> (u64, Time) {
    let number = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().expect("8 bytes"));
    (number(0), Time::from_nanos(number(8)))
}
