//! Sends the last message before a silence once more, when nothing is heard of it.
//!
//! Nothing behind it would tell of its loss, so it waits for the retransmission timer: a second at least (RTO.Min of RFC 9260 section
//! 16). With the timer at 200 ms such a message came sooner, but a path that carried no acknowledgements for longer, as radios
//! do, was taken for one that had lost everything, and the window was one packet afterwards. So the timer keeps to the RFC, and this is
//! TCP's tail loss probe (RFC 8985 section 7): the newest packet leaves again after two round trips and what the peer may hold its
//! acknowledgement for. It changes no window. Its messages alone do, to where the peer is by then: what it acknowledged is old.

use taut_core::{Duration, Time};

use super::packet::{self, distance};

/// What a peer may wait before it acknowledges one packet, and a host to be on time.
pub(super) const HELD: Duration = Duration::from_millis(60);

/// The newest packet with a message in it.
#[derive(Debug, Default)]
pub(super) struct Tail {
    packet: Vec<u8>,
    newest: Option<u32>,
    due: Option<Time>,
}

impl Tail {
    /// A packet leaves; `rtt` is the round trip. Repetitions are nobody's tail.
    pub(super) fn sent(&mut self, now: Time, rtt: Duration, packet: &[u8]) {
        let Some(tsn) = packet::chunks(packet).filter_map(packet::Chunk::tsn).last() else { return };
        if self.newest.is_some_and(|newest| distance(newest, tsn) <= 0) {
            return;
        }
        self.packet.clear();
        self.packet.extend_from_slice(packet);
        (self.newest, self.due) = (Some(tsn), Some(now + rtt * 2 + HELD));
    }

    /// The peer acknowledged all that was sent.
    pub(super) const fn acknowledged(&mut self) {
        self.due = None;
    }

    /// Another association begins, or this one is over.
    pub(super) const fn forget(&mut self) {
        (self.newest, self.due) = (None, None);
    }

    /// When it leaves again.
    pub(super) const fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    /// The packet that leaves again, once.
    pub(super) fn poll(&mut self, now: Time) -> Option<Vec<u8>> {
        self.due.take_if(|due| *due <= now)?;
        let messages: Vec<bool> = packet::chunks(&self.packet).map(|chunk| chunk.tsn().is_some()).collect();
        packet::keep(&self.packet, &messages)
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::tests::{data, sack};
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_newest_leaves_once_more_after_two_round_trips() {
        let mut tail = Tail::default();
        tail.sent(at(0), RTT, &data(&[u32::MAX]));
        tail.sent(at(10), RTT, &data(&[0, 1]));
        tail.sent(at(20), RTT, &data(&[u32::MAX]));
        tail.sent(at(20), RTT, &sack(1, &[]));
        assert_eq!((tail.poll(at(149)), tail.poll_timeout()), (None, Some(at(150))));
        assert_eq!(tail.poll(at(150)), Some(data(&[0, 1])));
        assert_eq!((tail.poll(at(900)), tail.poll_timeout()), (None, None));
    }

    #[test]
    fn what_a_packet_acknowledged_is_old_and_stays_behind() {
        let mut tail = Tail::default();
        tail.sent(at(0), RTT, &packet::join(&sack(1, &[(2, 4)]), &data(&[7, 8])));
        assert_eq!(tail.poll(at(140)), Some(data(&[7, 8])));
    }

    #[test]
    fn what_arrived_and_what_is_over_leaves_no_more() {
        let mut tail = Tail::default();
        tail.sent(at(0), RTT, &data(&[7]));
        tail.acknowledged();
        assert_eq!(tail.poll(at(900)), None);
        tail.sent(at(1_000), RTT, &data(&[8]));
        tail.forget();
        assert_eq!(tail.poll(at(9_000)), None);
        tail.sent(at(9_000), RTT, &data(&[3]));
        assert!(tail.poll_timeout().is_some(), "another association counts from anywhere");
    }
}
