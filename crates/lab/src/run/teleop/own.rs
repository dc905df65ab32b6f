//! The queue that a session makes by itself, and how long its packets wait there.
//!
//! For each link with one constant rate: a server of that rate that is given the session's packets alone. What waits in it
//! would wait on a path without other traffic; what waits beyond it, others brought. The packet in service does not
//! count: nothing interrupts it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use taut_core::{Address, Bitrate, Duration, LinkEvent, Packet, Time};
use taut_sim::{LinkId, Observer};

/// Packets whose waits are remembered.
const REMEMBERED: usize = 1 << 14;

/// Who reads the waits, and who observes.
pub(in crate::run) type SharedQueues = Rc<RefCell<OwnQueues>>;

#[derive(Debug, Default)]
pub(in crate::run) struct OwnQueues {
    ends: [Address; 2],
    links: Vec<Server>,
    /// Packets that waited: their numbers, rising, and how long on all links together.
    waits: VecDeque<(u64, Duration)>,
}

#[derive(Debug, Default)]
struct Server {
    /// `None`: not a constant one; nothing is known of its queue.
    rate: Option<Bitrate>,
    /// When each packet that is here has been served.
    done: VecDeque<Time>,
    last: u64,
}

impl OwnQueues {
    /// Of a session between two addresses.
    pub(super) fn new(ends: [Address; 2], rates: impl Iterator<Item = Option<Bitrate>>) -> Self {
        let links = rates.map(|rate| Server { rate, ..Server::default() }).collect();
        Self { ends, links, waits: VecDeque::new() }
    }

    /// How long the packet waited behind others of the session.
    pub(super) fn wait(&self, id: u64) -> Duration {
        let found = self.waits.iter().rev().find(|(number, _)| *number == id);
        found.map_or(Duration::ZERO, |(_, wait)| *wait)
    }

    fn waited(&mut self, id: u64, wait: Duration) {
        if wait.is_zero() {
            return;
        }
        match self.waits.iter_mut().rev().find(|(number, _)| *number == id) {
            Some((_, sum)) => *sum += wait,
            None => self.waits.push_back((id, wait)),
        }
        if self.waits.len() > REMEMBERED {
            self.waits.pop_front();
        }
    }
}

impl Server {
    /// A packet comes; how long it waits, but for the packet in service.
    fn take(&mut self, now: Time, id: u64, size: taut_core::Bytes) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        while self.done.front().is_some_and(|done| *done <= now) {
            self.done.pop_front();
        }
        let ends = self.done.front().zip(self.done.back());
        let wait = ends.map_or(Duration::ZERO, |(first, last)| *last - *first);
        let begins = self.done.back().copied().unwrap_or(now);
        self.done.push_back(begins + rate.time_for(size));
        self.last = id;
        wait
    }
}

/// Watches a run, if there is a session.
pub(in crate::run) struct Watcher(pub(in crate::run) Option<SharedQueues>);

impl Observer for Watcher {
    fn entered(&mut self, now: Time, link: LinkId, packet: &Packet) {
        let Some(queues) = &self.0 else { return };
        let mut queues = queues.borrow_mut();
        let (id, meta) = (packet.meta.id, &packet.meta);
        if queues.ends.contains(&meta.source)
            && let Some(server) = queues.links.get_mut(link.0 as usize)
        {
            let wait = server.take(now, id, meta.size);
            queues.waited(id, wait);
        }
    }

    fn link_event(&mut self, _: Time, link: LinkId, event: &LinkEvent) {
        let (Some(queues), LinkEvent::Dropped { meta, .. }) = (&self.0, event) else { return };
        let mut queues = queues.borrow_mut();
        // What is dropped as it enters was not served.
        if let Some(server) = queues.links.get_mut(link.0 as usize).filter(|server| server.last == meta.id) {
            server.done.pop_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Bytes;

    #[test]
    fn a_packet_waits_for_those_before_it_but_not_for_the_one_in_service() {
        let (ms, mut server) = (Duration::from_millis(1), Server::default());
        server.rate = Some(Bitrate::from_bps(1_000_000));
        let mut take = |at: u64| server.take(Time::ZERO + ms * at, at, Bytes::new(250));
        assert_eq!([take(0), take(0), take(0), take(1)], [0, 0, 2, 4].map(|n| ms * n));
        assert_eq!([take(7), take(100)], [Duration::ZERO; 2]);
    }
}
