//! One direction: a device to read, a link, a device to write.

use std::io;

use taut_core::{DropCause, Link, LinkEvent, Packet, Time};
use taut_io::Clock;

use super::packet;
use super::port::Port;
use super::stats::DirectionStats;
use super::tap::Tap;

pub(super) struct Direction<L> {
    link: L,
    pub(super) stats: DirectionStats,
    next_id: u64,
    /// Bytes that may be inside the link.
    limit: u64,
    /// Bytes inside it. A duplicate may leave before the event that tells of it: then less than what is there, or none.
    inside: i64,
    buffer: Box<[u8]>,
    tap: Option<Box<dyn Tap>>,
}

impl<L: Link> Direction<L> {
    /// Packets read in one go, before the other direction has its turn.
    const BATCH: usize = 64;

    pub(super) fn stats(&self) -> DirectionStats {
        DirectionStats { queue: self.link.counters(), ..self.stats.clone() }
    }

    pub(super) fn count_held(&mut self) {
        self.stats.held = self.link.held().packets;
    }

    pub(super) fn new(link: L, limit: u64) -> Self {
        let buffer = vec![0; packet::LONGEST].into();
        Self { link, stats: DirectionStats::new(), next_id: 0, limit, inside: 0, buffer, tap: None }
    }

    pub(super) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    pub(super) fn set_tap(&mut self, tap: Box<dyn Tap>) {
        self.tap = Some(tap);
    }

    /// When the next packet is due.
    pub(super) fn due(&self) -> Time {
        self.link.poll_timeout().map_or(Time::MAX, |deadline| deadline.at)
    }

    /// Takes in what waits at `from`, one batch at most, and writes what is due to `to`. True when there was any.
    pub(super) fn turn(
        &mut self,
        clock: &Clock,
        from: &mut impl Port,
        to: &mut impl Port,
    ) -> io::Result<bool> {
        let mut busy = self.deliver(clock, clock.now(), to);
        for _ in 0..Self::BATCH {
            let len = match from.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            busy = true;
            let now = clock.now();
            // What was due before this packet came goes first, as of when it was due.
            self.deliver(clock, now, to);
            self.enter(now, len);
            self.drain(clock, now, to);
        }
        Ok(busy)
    }

    fn enter(&mut self, now: Time, len: usize) {
        let bytes = &self.buffer[..len];
        let Some(meta) = packet::meta(bytes, self.next_id, now) else {
            self.stats.malformed += 1;
            return;
        };
        if self.inside.max(0) as u64 + len as u64 > self.limit {
            self.stats.kept_out += 1;
            return self.stats.drop(DropCause::QueueFullBytes);
        }
        self.next_id += 1;
        self.stats.entered += 1;
        self.stats.entered_bytes += len as u64;
        self.inside += len as i64;
        let packet = Packet { meta, payload: bytes.to_vec() };
        self.tap.iter_mut().for_each(|tap| tap.entered(&packet));
        self.link.handle_input(now, packet);
    }

    /// Everything that is due at `now`, each packet as of its own deadline.
    fn deliver(&mut self, clock: &Clock, now: Time, to: &mut impl Port) -> bool {
        let mut busy = false;
        while let Some(deadline) = self.link.poll_timeout().filter(|deadline| deadline.at <= now) {
            self.link.handle_timeout(deadline.at);
            self.drain(clock, deadline.at, to);
            busy = true;
        }
        busy
    }

    fn drain(&mut self, clock: &Clock, due: Time, to: &mut impl Port) {
        while let Some(mut packet) = self.link.poll_transmit(due) {
            self.inside -= packet.meta.size.get() as i64;
            packet::mark(&mut packet.payload, packet.meta.ecn);
            let written = to.write(&packet.payload);
            let now = clock.now();
            self.stats.late(now.saturating_since(due));
            match written {
                Ok(()) => {
                    self.stats.left += 1;
                    self.stats.left_bytes += packet.payload.len() as u64;
                    self.tap.iter_mut().for_each(|tap| tap.left(now, &packet));
                }
                Err(_) => self.stats.refused += 1,
            }
        }
        while let Some(event) = self.link.poll_event() {
            match event {
                LinkEvent::Dropped { meta, cause } => {
                    tracing::debug!(id = meta.id, bytes = meta.size.get(), cause = cause.name(), "dropped");
                    self.inside -= meta.size.get() as i64;
                    self.stats.drop(cause);
                    self.tap.iter_mut().for_each(|tap| tap.dropped(&meta, cause));
                }
                LinkEvent::Duplicated { meta } => {
                    self.inside += meta.size.get() as i64;
                    self.stats.duplicated += 1;
                    self.tap.iter_mut().for_each(|tap| tap.duplicated(&meta));
                }
                LinkEvent::Corrupted { meta } => {
                    tracing::debug!(id = meta.id, "corrupted");
                    self.stats.corrupted += 1;
                }
                LinkEvent::Marked { meta } => {
                    tracing::debug!(id = meta.id, "marked");
                    self.stats.marked += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use taut_core::Duration;
    use taut_link::{Chain, Delay};

    use super::super::relay;
    use super::*;

    #[test]
    fn the_longest_datagram_of_ipv6_enters() {
        let Ok(robot) = UdpSocket::bind("[::1]:0") else { return println!("skipped: no IPv6") };
        let ends = relay("[::1]:0".parse().unwrap(), robot.local_addr().unwrap()).unwrap();
        let (mut clients, mut server) = ends;
        robot.send_to(&[0; 65_527], clients.address()).unwrap();
        let mut direction = Direction::new(Chain::from(Delay::new(Duration::from_millis(1))), 1_000_000);
        let clock = Clock::start();
        for _ in 0..2_000 {
            if direction.turn(&clock, &mut clients, &mut server).unwrap() {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        assert_eq!((direction.stats.malformed, direction.stats.entered_bytes), (0, 65_575));
    }
}
