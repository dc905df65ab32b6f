//! A queue and what empties it, as in the guest.

use taut_core::{Bitrate, Bytes, DropCause, Duration, Ecn, LinkEvent, Packet, Queue, Rng, Seed, Time};
use taut_link::Discipline;

use crate::loads::{Arrival, CLOCK, START};

/// What became of a load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) sent: u64,
    /// Positions in the load, in order.
    pub(crate) dropped: Vec<u64>,
    /// Of those that left, as the guest's receiver sees them: who is marked may still find no room.
    pub(crate) marked: u64,
    /// Of those that left, how long each waited for its service to begin.
    pub(crate) waited: Vec<Duration>,
    /// Of the queue, at the end.
    pub(crate) counters: Vec<(String, u64)>,
}

impl Outcome {
    pub(crate) fn mean_us(&self) -> f64 {
        let sum: u64 = self.waited.iter().map(|wait| wait.as_nanos()).sum();
        sum as f64 / 1e3 / self.waited.len().max(1) as f64
    }

    pub(crate) fn longest_us(&self) -> f64 {
        self.waited.iter().max().map_or(0.0, |wait| wait.as_nanos() as f64 / 1e3)
    }
}

/// Bytes in the bucket of the guest's HTB: what its timers may be late by.
const BUCKET: u64 = 4;

/// HTB with next to no bucket is a serial server that asks its leaf only when something waits there; a discipline with a
/// shaper of its own has no such server, and is asked whenever it might have something. How often the guest reads its clock before the
/// leaf does is known for most packets: once, as with seed 1. With other seeds it is drawn.
pub(crate) fn run(queue: Discipline, rate: Option<Bitrate>, load: &[Arrival], seed: u64) -> Outcome {
    let mut server = Server {
        queue,
        rate,
        readings: (seed > 1).then(|| Seed::new(seed).stream("readings")),
        due: Time::MAX,
        busy_until: START,
        events: Vec::new(),
        outcome: Outcome::default(),
    };
    for (id, arrival) in (0..).zip(load) {
        server.arrive(START + arrival.after, arrival.packet(id));
    }
    server.serve_before(Time::MAX);
    server.outcome.dropped.sort_unstable();
    server.outcome.counters = server.queue.counters();
    server.outcome
}

/// HTB's timer goes off with the first step of the guest's clock after `due`. On these fractions of a microsecond hangs which of two
/// packets finds the last place in a full queue.
fn when_awake(due: Time) -> Time {
    START + CLOCK * ((due - START) / CLOCK + 1)
}

struct Server {
    queue: Discipline,
    rate: Option<Bitrate>,
    /// Draws how often the clock is read; none: once.
    readings: Option<Rng>,
    due: Time,
    busy_until: Time,
    events: Vec<LinkEvent>,
    outcome: Outcome,
}

impl Server {
    fn arrive(&mut self, at: Time, packet: Packet) {
        self.serve_before(at);
        self.outcome.sent += 1;
        self.queue.enqueue(at, packet, &mut self.events);
        self.note();
        if at >= self.busy_until {
            self.ask(at);
        }
    }

    fn serve_before(&mut self, end: Time) {
        while self.due < end {
            self.ask(self.due);
        }
    }

    fn ask(&mut self, at: Time) {
        self.due = Time::MAX;
        if self.rate.is_some() && self.queue.backlog().packets == 0 {
            return;
        }
        let asked = self.asked(at);
        if let Some(packet) = self.queue.dequeue(asked, &mut self.events) {
            self.outcome.waited.push(at - packet.meta.sent);
            self.outcome.marked += u64::from(packet.meta.ecn == Ecn::CongestionExperienced);
            self.due = at;
            if let Some(rate) = self.rate {
                self.busy_until =
                    self.busy_until.max(at - Bytes::new(BUCKET) / rate) + packet.meta.size / rate;
                self.due = when_awake(self.busy_until.max(at));
            }
        } else if let Some(deadline) = self.queue.poll_timeout() {
            assert!(deadline.at > at, "{deadline:?} is not after {at}");
            self.due = deadline.at;
        }
        self.note();
    }

    /// When the queue's own look at the clock is: HTB reads it before, and each reading takes a step.
    fn asked(&mut self, at: Time) -> Time {
        match (self.rate, &mut self.readings) {
            (None, _) => at,
            (Some(_), None) => at + CLOCK,
            (Some(_), Some(readings)) => at + CLOCK * readings.below(3),
        }
    }

    fn note(&mut self) {
        for event in self.events.drain(..) {
            match event {
                LinkEvent::Dropped { meta, cause } => {
                    assert_ne!(cause, DropCause::Loss);
                    self.outcome.dropped.push(meta.id);
                }
                LinkEvent::Marked { .. } => {}
                LinkEvent::Duplicated { .. } | LinkEvent::Corrupted { .. } => unreachable!("{event:?}"),
            }
        }
    }
}
