//! Links whose time begins with a run.

use std::sync::{Arc, OnceLock};

use taut_core::{Backlog, Deadline, Link, LinkEvent, Packet, PacketMeta, Time};

/// When a run began, on the clock of its network. Copies are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beginning(Arc<OnceLock<Time>>);

impl Beginning {
    /// It begins now, once.
    pub(crate) fn begin(&self, now: Time) {
        let _ = self.0.set(now); // It had begun.
    }

    /// Since it began; until then time stands still.
    fn since(&self, now: Time) -> Time {
        self.0.get().map_or(Time::ZERO, |began| Time::ZERO + now.saturating_since(*began))
    }

    /// Such a time on the network's clock.
    fn at(&self, since: Time) -> Time {
        self.0.get().map_or(Time::MAX, |began| *began + since.saturating_since(Time::ZERO))
    }
}

/// A link whose time is that since the run began, as in a simulation: what is scheduled in it happens then, however long it took to open
/// the sockets.
pub(crate) struct Since<L> {
    pub(crate) link: L,
    pub(crate) beginning: Beginning,
}

impl<L> Since<L> {
    /// As whoever reads the network's clock knows it.
    fn outside(&self, meta: &mut PacketMeta) {
        meta.sent = self.beginning.at(meta.sent);
    }
}

impl<L: Link> Link for Since<L> {
    fn handle_input(&mut self, now: Time, mut packet: Packet) {
        packet.meta.sent = self.beginning.since(packet.meta.sent);
        self.link.handle_input(self.beginning.since(now), packet);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.link.handle_timeout(self.beginning.since(now));
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        let mut packet = self.link.poll_transmit(self.beginning.since(now))?;
        self.outside(&mut packet.meta);
        Some(packet)
    }

    fn poll_event(&mut self) -> Option<LinkEvent> {
        let mut event = self.link.poll_event()?;
        let (LinkEvent::Dropped { meta, .. }
        | LinkEvent::Duplicated { meta }
        | LinkEvent::Corrupted { meta }
        | LinkEvent::Marked { meta }) = &mut event;
        self.outside(meta);
        Some(event)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let due = self.link.poll_timeout()?;
        Some(Deadline { at: self.beginning.at(due.at), ..due })
    }

    fn visit_held(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.link.visit_held(&mut |meta| {
            let mut meta = *meta;
            self.outside(&mut meta);
            visit(&meta);
        });
    }

    fn queued(&self) -> Backlog {
        self.link.queued()
    }

    fn counters(&self) -> Vec<(String, u64)> {
        self.link.counters()
    }
}

#[cfg(test)]
mod tests {
    use taut_core::{Bytes, Duration, Seed};
    use taut_lab::run::{Inputs, path_links};
    use taut_lab::scenario::Scenario;

    use super::*;

    const SCENARIO: &str = r#"title = "t"
duration = "5s"
[links.wire]
between = ["a", "b"]
chain = [{ delay = "5ms" }, { cut = { at = "1s", until = "2s" } }]
[teleop]
operator = "a"
robot = "b"
"#;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn packet(sent: Time) -> Packet {
        let meta = PacketMeta { sent, size: Bytes::new(100), ..PacketMeta::default() };
        Packet { meta, payload: vec![0; 100] }
    }

    /// What leaves of a packet that enters then, and when.
    fn leaves(link: &mut impl Link, enters: Time) -> Option<(Time, Time)> {
        link.handle_input(enters, packet(enters));
        while let Some(due) = link.poll_timeout().filter(|due| due.at < Time::MAX) {
            link.handle_timeout(due.at);
            if let Some(packet) = link.poll_transmit(due.at) {
                return Some((due.at, packet.meta.sent));
            }
        }
        None
    }

    #[test]
    fn what_is_scheduled_in_a_link_happens_so_long_after_the_run_began() {
        let scenario = Scenario::parse("t.toml", SCENARIO).unwrap();
        let mut links = path_links(&scenario, Seed::new(1), &mut Inputs::default()).unwrap();
        let [link, _] = links.remove(0);
        let beginning = Beginning::default();
        let mut link = Since { link, beginning: beginning.clone() };
        // It took 700 ms to open the sockets.
        beginning.begin(at(700));
        assert_eq!(leaves(&mut link, at(1_650)), Some((at(1_655), at(1_650))), "950 ms after the beginning");
        assert_eq!(leaves(&mut link, at(2_000)), None, "1.3 s after it: the link is cut");
        assert_eq!(leaves(&mut link, at(2_750)), Some((at(2_755), at(2_750))), "2.05 s after it");
    }
}
