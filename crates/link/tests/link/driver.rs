//! A driver in virtual time that checks, at every step, what holds for every link.

use std::collections::BTreeSet;

use taut_core::{Backlog, Bytes, DropCause, Duration, Link, LinkEvent, Packet, PacketMeta, Rng, Seed, Time};
use taut_link::Chain;

/// Everything that came out of a link, and when the driver got it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Run {
    pub(crate) out: Vec<(Time, Packet)>,
    pub(crate) events: Vec<LinkEvent>,
}

/// When the driver calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Calls {
    /// At every deadline, and before the packets that arrive then.
    Exact,
    /// At every deadline, but after the packets that arrive then.
    ExactAfterArrivals,
    /// Only when packets arrive, and once more long after.
    Lazy,
}

/// Drives `link` until nothing more happens, or until an hour after the last arrival.
pub(crate) fn run(link: &mut Chain, arrivals: Vec<(Time, Packet)>, calls: Calls) -> Run {
    let mut driver = Driver { link, run: Run::default(), inside: BTreeSet::new(), bytes: Bytes::ZERO };
    let mut end = Time::ZERO;
    for (at, packet) in arrivals {
        driver.run_until(at, calls);
        driver.input(at, packet);
        end = at;
    }
    end += Duration::from_secs(3_600);
    driver.run_until(end, calls);
    driver.link.handle_timeout(end);
    driver.poll(end);
    driver.run
}

struct Driver<'a> {
    link: &'a mut Chain,
    run: Run,
    inside: BTreeSet<(u64, u8)>,
    bytes: Bytes,
}

impl Driver<'_> {
    fn run_until(&mut self, end: Time, calls: Calls) {
        if calls == Calls::Lazy {
            return;
        }
        while let Some(deadline) = self.link.poll_timeout() {
            if deadline.at > end || (deadline.at == end && calls == Calls::ExactAfterArrivals) {
                break;
            }
            self.link.handle_timeout(deadline.at);
            self.poll(deadline.at);
            let next = self.link.poll_timeout();
            assert!(
                next.is_none_or(|next| next.at > deadline.at),
                "{deadline:?} makes no progress: {next:?}"
            );
        }
    }

    fn input(&mut self, at: Time, packet: Packet) {
        self.enters(packet.meta);
        self.link.handle_input(at, packet);
        self.poll(at);
    }

    fn poll(&mut self, now: Time) {
        let first_event = self.run.events.len();
        let first_out = self.run.out.len();
        while let Some(packet) = self.link.poll_transmit(now) {
            self.run.out.push((now, packet));
        }
        self.run.events.extend(std::iter::from_fn(|| self.link.poll_event()));
        for index in first_event..self.run.events.len() {
            match self.run.events[index] {
                LinkEvent::Duplicated { meta } => self.enters(meta),
                LinkEvent::Dropped { meta, .. } => self.leaves(meta),
                LinkEvent::Corrupted { .. } | LinkEvent::Marked { .. } => {}
            }
        }
        for index in first_out..self.run.out.len() {
            self.leaves(self.run.out[index].1.meta);
        }
        let held = Backlog { packets: self.inside.len() as u64, bytes: self.bytes };
        assert_eq!(self.link.held(), held, "in + duplicated = out + dropped + held");
        self.link.visit_held(&mut |meta| assert!(self.inside.contains(&(meta.id, meta.copy)), "{meta:?}"));
        assert!(self.link.queued().packets <= held.packets && self.link.queued().bytes <= held.bytes);
    }

    fn enters(&mut self, meta: PacketMeta) {
        assert!(self.inside.insert((meta.id, meta.copy)), "{meta:?} exists twice");
        self.bytes += meta.size;
    }

    fn leaves(&mut self, meta: PacketMeta) {
        assert!(self.inside.remove(&(meta.id, meta.copy)), "{meta:?} was not inside");
        self.bytes = self.bytes - meta.size;
    }
}

impl Run {
    /// Packets by id, with the nanosecond at which they came out.
    pub(crate) fn departures(&self) -> Vec<(u64, u64)> {
        self.out.iter().map(|(at, packet)| (packet.meta.id, at.as_nanos())).collect()
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.out.iter().map(|(_, packet)| packet.meta.id).collect()
    }

    pub(crate) fn drops(&self) -> Vec<(u64, DropCause)> {
        let dropped = |event: &LinkEvent| match event {
            LinkEvent::Dropped { meta, cause } => Some((meta.id, *cause)),
            _ => None,
        };
        self.events.iter().filter_map(dropped).collect()
    }
}

pub(crate) fn packet(id: u64, size: u64) -> Packet {
    let meta = PacketMeta { id, size: Bytes::new(size), ..PacketMeta::default() };
    Packet { meta, payload: id.to_le_bytes().to_vec() }
}

/// Packets of `size` bytes with ids from 0, one every `gap`.
pub(crate) fn every(gap: Duration, count: u64, size: u64) -> Vec<(Time, Packet)> {
    (0..count).map(|id| (Time::ZERO + gap.saturating_mul(id), packet(id, size))).collect()
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

pub(crate) fn at(duration: Duration) -> Time {
    Time::ZERO + duration
}

pub(crate) fn rng(name: &str) -> Rng {
    Seed::new(1).stream(name)
}
