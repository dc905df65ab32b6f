//! Lets acknowledgements that say nothing urgent wait for a message to travel with.
//!
//! RFC 9260 section 6.2 asks for an acknowledgement of every second packet, and `dcsctp` sends it alone where no message leaves at
//! that moment: at 1 kHz both ways 400 times a second, each in half as many bytes as a state. A path that carries little more than the
//! states is filled by that. TCP's rule is one for every second *full-sized* segment (RFC 1122 section 4.2.3.2), and it is the rule here:
//! what acknowledges less waits for an eighth of a round trip, then for the next message, and leaves alone only when none comes.
//!
//! What reports a hole or a duplicate leaves at once, for the peer repeats by it, and so does what the peer asks for (I bit, RFC 7053): `dcsctp` does so
//! while its window is less than ten packets, as it is after the retransmission timer expired, and grows by acknowledgements. `dcsctp` takes what waits for sent; acknowledgements
//! are cumulative, so the newest says all that those before it did.

use taut_core::{Duration, PathId, Time};

use super::packet;

/// Full packets that arrived, for which an acknowledgement leaves at once.
const FULL: usize = 2;
/// This part of a round trip lies between two of less, within bounds.
const PART: u64 = 8;
const APART: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(10));
/// One that found no message leaves alone so much later: long enough for the next of 1 kHz to take it along, and with the longest of the bounds shorter than a silence in
/// which a session takes its network for one that stands still.
const ALONE: Duration = Duration::from_millis(2);

/// The acknowledgement of one end that did not leave yet.
#[derive(Debug)]
pub(super) struct Acks {
    /// Bytes of a full packet.
    full: usize,
    held: Option<Held>,
    /// Bytes that arrived since one left, whether the peer asked for one since, and when that was.
    arrived: usize,
    asked: bool,
    left: Time,
}

#[derive(Debug)]
struct Held {
    /// With nothing else in it.
    packet: Vec<u8>,
    path: PathId,
    due: Time,
}

impl Acks {
    /// Of an end whose packets are no longer than so many bytes.
    pub(super) const fn new(full: usize) -> Self {
        Self { full, held: None, arrived: 0, asked: false, left: Time::ZERO }
    }

    /// A packet came.
    pub(super) fn arrived(&mut self, packet: &[u8]) {
        self.arrived = self.arrived.saturating_add(packet.len());
        self.asked |= packet::chunks(packet).any(packet::Chunk::asks_for_acknowledgement);
    }

    /// What leaves now of `packet`, which goes to `path`; `rtt` is the round trip.
    pub(super) fn filter(
        &mut self,
        now: Time,
        rtt: Duration,
        path: PathId,
        packet: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let apart = (rtt / PART).max(APART.0).min(APART.1);
        let many = self.asked || self.arrived >= FULL * self.full;
        let is_time = many || now.saturating_since(self.left) >= apart;
        let plain: Vec<bool> = packet::chunks(&packet).map(|chunk| chunk.is_plain_sack()).collect();
        let data = packet::chunks(&packet).filter(|chunk| chunk.tsn().is_some()).count();
        if !packet::chunks(&packet).any(packet::Chunk::acknowledges) {
            // A heartbeat says nothing of what arrived: beside it, what is held stays so until it is due.
            return Some(if is_time && data == plain.len() { self.with_held(now, packet) } else { packet });
        }
        if data + plain.iter().filter(|plain| **plain).count() < plain.len() {
            // It reports a hole or a duplicate, or ends an association.
            self.leaves(now);
            return Some(packet);
        }
        if many || is_time && data > 0 {
            self.leaves(now);
            return Some(packet);
        }
        let due = self.held.take().map_or((self.left + apart).max(now) + ALONE, |held| held.due);
        self.held = packet::keep(&packet, &plain).map(|packet| Held { packet, path, due });
        let others: Vec<bool> = plain.iter().map(|plain| !plain).collect();
        packet::keep(&packet, &others)
    }

    /// When one leaves alone.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.held.as_ref().map(|held| held.due)
    }

    /// One that has waited long enough, and where it goes.
    pub(super) fn poll(&mut self, now: Time) -> Option<(PathId, Vec<u8>)> {
        let held = self.held.take_if(|held| held.due <= now)?;
        self.leaves(now);
        Some((held.path, held.packet))
    }

    /// Another association begins, or this one is over.
    pub(super) fn forget(&mut self) {
        (self.held, self.arrived, self.asked) = (None, 0, false);
    }

    /// What is held goes with a message, where there is room.
    fn with_held(&mut self, now: Time, packet: Vec<u8>) -> Vec<u8> {
        let Some(joined) = self.held.as_ref().map(|held| packet::join(&held.packet, &packet)) else {
            return packet;
        };
        if joined.len() > self.full {
            return packet;
        }
        self.leaves(now);
        joined
    }

    /// An acknowledgement leaves, and what was held said no more.
    fn leaves(&mut self, now: Time) {
        self.held = None;
        (self.left, self.arrived, self.asked) = (now, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::tests::{data, sack, without_numbers};
    use super::*;

    const RTT: Duration = Duration::from_millis(40);
    const HEARTBEAT: u8 = 4;
    const HEARTBEAT_ACK: u8 = 5;
    const SHUTDOWN: u8 = 7;
    const FORWARD_TSN: u8 = 192;
    const PATH: PathId = PathId(0);

    fn at(ms: u64) -> Time {
        Time::from_nanos((100 + ms) * 1_000_000)
    }

    fn both(cumulative: u32, tsn: u32) -> Vec<u8> {
        packet::join(&sack(cumulative, &[]), &data(&[tsn]))
    }

    #[test]
    fn the_newest_travels_with_a_message_an_eighth_of_a_round_trip_after_the_last() {
        let mut acks = Acks::new(1_200);
        assert_eq!(acks.filter(at(0), RTT, PATH, both(1, 7)), Some(both(1, 7)));
        assert_eq!(acks.filter(at(1), RTT, PATH, sack(3, &[])), None);
        assert_eq!(acks.filter(at(2), RTT, PATH, both(5, 8)), Some(data(&[8])));
        assert_eq!(acks.filter(at(3), RTT, PATH, data(&[9])), Some(data(&[9])));
        assert_eq!((acks.poll(at(6)), acks.poll_timeout()), (None, Some(at(7))));
        assert_eq!(acks.filter(at(6), RTT, PATH, data(&[10])), Some(both(5, 10)));
        assert_eq!((acks.poll(at(50)), acks.poll_timeout()), (None, None));
    }

    #[test]
    fn without_a_message_it_leaves_alone() {
        let mut acks = Acks::new(1_200);
        assert_eq!(acks.filter(at(0), RTT, PATH, sack(1, &[])), None);
        assert_eq!(acks.poll_timeout(), Some(at(2)), "none left lately");
        assert_eq!(acks.filter(at(0), RTT, PATH, sack(2, &[])), None);
        assert_eq!(acks.poll(at(2)), Some((PATH, sack(2, &[]))));
        assert_eq!(acks.filter(at(3), RTT, PathId(1), sack(3, &[])), None);
        assert_eq!((acks.poll(at(8)), acks.poll(at(9))), (None, Some((PathId(1), sack(3, &[])))));
        acks.filter(at(10), RTT, PATH, sack(4, &[]));
        acks.forget();
        assert_eq!(acks.poll(at(99)), None);
    }

    #[test]
    fn a_hole_is_reported_at_once_and_so_are_two_full_packets() {
        let mut acks = Acks::new(1_200);
        acks.filter(at(0), RTT, PATH, both(1, 7));
        assert_eq!(acks.filter(at(1), RTT, PATH, sack(2, &[])), None);
        let hole = sack(2, &[(2, 4)]);
        assert_eq!(acks.filter(at(1), RTT, PATH, hole.clone()), Some(hole));
        assert_eq!(acks.poll(at(50)), None, "it said more than what was held");
        acks.arrived(&[0; 1_200]);
        assert_eq!(acks.filter(at(51), RTT, PATH, sack(8, &[])), None);
        acks.arrived(&[0; 1_200]);
        assert_eq!(acks.filter(at(51), RTT, PATH, sack(9, &[])), Some(sack(9, &[])));
        assert_eq!(acks.poll_timeout(), None);
    }

    #[test]
    fn a_peer_that_asks_is_told_at_once() {
        let mut acks = Acks::new(1_200);
        acks.filter(at(0), RTT, PATH, both(1, 7));
        let message = data(&[2]);
        let asking: Vec<Vec<u8>> = packet::chunks(&message).map(packet::Chunk::asking).collect();
        acks.arrived(&packet::build(packet::header(&message), asking.iter().map(Vec::as_slice)));
        assert_eq!(acks.filter(at(1), RTT, PATH, sack(2, &[])), Some(sack(2, &[])));
        acks.arrived(&message);
        assert_eq!(acks.filter(at(2), RTT, PATH, sack(3, &[])), None);
    }

    #[test]
    fn what_acknowledges_nothing_takes_the_place_of_no_acknowledgement() {
        for kind in [HEARTBEAT, HEARTBEAT_ACK, FORWARD_TSN] {
            let mut acks = Acks::new(1_200);
            acks.filter(at(0), RTT, PATH, both(1, 7));
            assert_eq!(acks.filter(at(1), RTT, PATH, sack(3, &[])), None);
            acks.arrived(&[0; 1_200]);
            let other = without_numbers(kind);
            assert_eq!(acks.filter(at(2), RTT, PATH, other.clone()), Some(other.clone()));
            acks.arrived(&[0; 1_200]);
            let with_message = packet::join(&other, &data(&[8]));
            assert_eq!(acks.filter(at(3), RTT, PATH, with_message.clone()), Some(with_message));
            assert_eq!(
                acks.filter(at(3), RTT, PATH, data(&[9])),
                Some(both(3, 9)),
                "two full ones came, {kind}"
            );

            assert_eq!(acks.filter(at(4), RTT, PATH, sack(5, &[])), None);
            assert_eq!(acks.filter(at(20), RTT, PATH, other.clone()), Some(other.clone()));
            assert_eq!(acks.poll(at(20)), Some((PATH, sack(5, &[]))), "{kind}");

            assert_eq!(acks.filter(at(21), RTT, PATH, sack(6, &[])), None);
            let own = packet::join(&sack(7, &[]), &other);
            assert_eq!(acks.filter(at(22), RTT, PATH, own.clone()), Some(own));
            assert_eq!(acks.poll(at(99)), None, "it had one of its own, {kind}");
        }
    }

    #[test]
    fn a_shutdown_acknowledges_all_that_was_held() {
        let mut acks = Acks::new(1_200);
        acks.filter(at(0), RTT, PATH, sack(1, &[]));
        let shutdown = without_numbers(SHUTDOWN);
        assert_eq!(acks.filter(at(0), RTT, PATH, shutdown.clone()), Some(shutdown));
        assert_eq!(acks.poll(at(99)), None);
    }

    #[test]
    fn a_packet_that_is_full_takes_none_along() {
        let mut acks = Acks::new(data(&[1]).len() + 8);
        acks.filter(at(0), RTT, PATH, sack(1, &[]));
        assert_eq!(acks.filter(at(10), RTT, PATH, data(&[2])), Some(data(&[2])));
        assert!(acks.poll(at(10)).is_some());
    }
}
