//! Holds back repetitions of what is still on its way.
//!
//! RFC 9260 section 7.2.4: a chunk that was retransmitted fast is not eligible for another fast retransmit. `dcsctp`
//! 0.1.16 forgets that: `Item::mark_as_retransmitted` (`tx/outstanding_data.rs`) makes the repeated chunk one that
//! was never reported missing, so that the next three acknowledgements, which cannot know of the repetition yet, mark it
//! again, and `nack_chunk` queues it past the fast retransmit. At 1 kHz and a round trip of 70 ms that is a repetition
//! every three milliseconds. When its timer expires, `nack_all` repeats what left a moment ago, too.
//!
//! What `dcsctp` believes cannot be changed from outside; what leaves can. A chunk leaves again only when the peer reported
//! one that was first sent [`REORDERING`] chunks or more after it, or when it has been under way for
//! longer than an acknowledgement takes. What is held back counts as sent for `dcsctp`, which asks again three
//! acknowledgements later.
//!
//! A lost repetition costs more than a copy of it: as long as the oldest chunk is missing, the retransmission timer runs, and
//! when it expires before the second repetition is acknowledged, the window is one packet. So a repetition is followed
//! by [`SctpConfig::copies`](super::SctpConfig::copies) less one of it.

use std::collections::VecDeque;

use taut_core::{Duration, Time};

use super::packet::{self, Chunk, distance};

/// So many later chunks show that one is lost and not late: three miss indications (RFC 9260 section 7.2.4).
const REORDERING: i64 = 3;
/// A jump of more transmission sequence numbers is another association. `dcsctp` skips single numbers.
pub(super) const JUMP: i64 = 1024;

/// The chunks that an end sent and the peer has not acknowledged all of.
#[derive(Debug)]
pub(super) struct Repeats {
    copies: u8,
    /// The first number of `sent`.
    first: u32,
    sent: VecDeque<Sent>,
    /// The newest number that the peer reported.
    reported: u32,
    /// Packets that left with a chunk that had left before.
    pub(super) packets: u64,
    /// Chunks that were held back.
    pub(super) held: u64,
}

/// When a chunk left last, and the newest number at that time.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Time,
    newest: u32,
    /// So many copies of a repetition may follow it.
    copies: u8,
}

impl Repeats {
    /// A repetition leaves `copies` times, 1 or more.
    pub(super) fn new(copies: u8) -> Self {
        Self { copies, first: 0, sent: VecDeque::new(), reported: 0, packets: 0, held: 0 }
    }

    /// Takes out of `packet` what shall not leave yet; `None` when nothing remains. `patience`: how long an
    /// acknowledgement may take.
    pub(super) fn filter(&mut self, now: Time, patience: Duration, packet: Vec<u8>) -> Option<Vec<u8>> {
        let (mut held, mut again) = (0, false);
        let mut kept = None;
        for (index, chunk) in packet::chunks(&packet).enumerate() {
            let Some(tsn) = chunk.tsn() else { continue };
            match self.leaves(now, patience, tsn) {
                Leaves::First => {}
                Leaves::Again => again = true,
                Leaves::NotYet => {
                    held += 1;
                    kept.get_or_insert_with(|| vec![true; packet::chunks(&packet).count()])[index] = false;
                }
            }
        }
        self.packets += u64::from(again);
        self.held += held;
        match kept {
            None => Some(packet),
            Some(kept) => packet::keep(&packet, &kept),
        }
    }

    /// The peer acknowledged, and `dcsctp` accepted it.
    pub(super) fn acknowledged(&mut self, packet: &[u8]) {
        for (cumulative, newest) in packet::chunks(packet).filter_map(Chunk::sack) {
            let done = distance(self.first, cumulative) + 1;
            if done > self.sent.len() as i64 + JUMP {
                continue;
            }
            for _ in 0..done {
                self.sent.pop_front();
                self.first = self.first.wrapping_add(1);
            }
            if distance(self.reported, newest) > 0 {
                self.reported = newest;
            }
        }
    }

    /// The first TSN that the peer has not acknowledged, and the newest that it reported.
    pub(super) fn delivered(&self) -> u64 {
        u64::from(self.first) << 32 | u64::from(self.reported)
    }

    fn leaves(&mut self, now: Time, patience: Duration, tsn: u32) -> Leaves {
        let index = distance(self.first, tsn);
        let ahead = index - self.sent.len() as i64;
        if !(0..JUMP).contains(&ahead) && !(0..self.sent.len() as i64).contains(&index) {
            self.sent.clear();
            (self.first, self.reported) = (tsn, tsn.wrapping_sub(1));
        }
        let index = distance(self.first, tsn) as usize;
        if index >= self.sent.len() {
            self.sent.resize(index + 1, Sent { at: now, newest: tsn, copies: 0 });
            return Leaves::First;
        }
        let newest = self.first.wrapping_add(self.sent.len() as u32 - 1);
        let sent = &mut self.sent[index];
        let overtaken = distance(sent.newest, self.reported) >= REORDERING;
        if !overtaken && now.saturating_since(sent.at) < patience {
            if sent.copies == 0 {
                return Leaves::NotYet;
            }
            sent.copies -= 1;
            return Leaves::Again;
        }
        *sent = Sent { at: now, newest, copies: self.copies - 1 };
        Leaves::Again
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    First,
    Again,
    NotYet,
}

#[cfg(test)]
mod tests {
    use super::super::packet::tests::{data, sack};
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(140);

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// Chunk `number` of an association that begins just before the numbers do again.
    fn tsn(number: u32) -> u32 {
        (u32::MAX - 4).wrapping_add(number)
    }

    fn sent_ten() -> Repeats {
        let mut repeats = Repeats::new(1);
        for number in 0..10 {
            let packet = data(&[tsn(number)]);
            assert_eq!(repeats.filter(at(number.into()), PATIENCE, packet.clone()), Some(packet));
        }
        repeats
    }

    #[test]
    fn a_lost_chunk_leaves_again_once_until_something_later_was_reported() {
        let mut repeats = sent_ten();
        repeats.acknowledged(&sack(tsn(1), &[(2, 4)])); // 2 is missing; 3 to 5 arrived
        assert!(repeats.filter(at(12), PATIENCE, data(&[tsn(2)])).is_some());
        repeats.acknowledged(&sack(tsn(1), &[(2, 8)]));
        assert_eq!(repeats.filter(at(15), PATIENCE, data(&[tsn(2)])), None, "9 left before the repetition");
        for number in 10..13 {
            repeats.filter(at(16), PATIENCE, data(&[tsn(number)]));
        }
        repeats.acknowledged(&sack(tsn(1), &[(2, 10)]));
        assert_eq!(repeats.filter(at(20), PATIENCE, data(&[tsn(2)])), None, "11 may have overtaken it");
        repeats.acknowledged(&sack(tsn(1), &[(2, 11)]));
        assert!(repeats.filter(at(21), PATIENCE, data(&[tsn(2)])).is_some());
        assert_eq!((repeats.packets, repeats.held), (2, 2));
    }

    #[test]
    fn a_copy_follows_a_repetition_but_nothing_follows_what_was_not_lost() {
        let mut repeats = Repeats { copies: 2, ..sent_ten() };
        repeats.acknowledged(&sack(tsn(1), &[(2, 4)]));
        let mut leaves = |number| repeats.filter(at(12), PATIENCE, data(&[tsn(number)])).is_some();
        assert_eq!([(); 3].map(|()| leaves(2)), [true, true, false]);
        assert!(!leaves(9));
    }

    #[test]
    fn without_news_a_chunk_leaves_again_when_an_acknowledgement_is_overdue() {
        let mut repeats = sent_ten();
        assert_eq!(repeats.filter(at(100), PATIENCE, data(&[tsn(9)])), None);
        assert!(repeats.filter(at(149), PATIENCE, data(&[tsn(9)])).is_some());
        assert_eq!(repeats.filter(at(200), PATIENCE, data(&[tsn(9)])), None);
    }

    #[test]
    fn what_is_new_leaves_without_what_is_held_back() {
        let mut repeats = sent_ten();
        let packet = repeats.filter(at(11), PATIENCE, data(&[tsn(8), tsn(10), tsn(9), tsn(11)]));
        assert_eq!(packet, Some(data(&[tsn(10), tsn(11)])));
    }

    #[test]
    fn another_association_begins_anew_and_what_is_done_is_forgotten() {
        let mut repeats = sent_ten();
        repeats.acknowledged(&sack(tsn(9), &[]));
        assert!(repeats.sent.is_empty());
        repeats.acknowledged(&sack(tsn(90_000), &[]));
        assert_eq!(repeats.first, tsn(10), "nobody sent that");
        assert!(repeats.filter(at(12), PATIENCE, data(&[7_000_000])).is_some());
        assert_eq!((repeats.first, repeats.sent.len(), repeats.packets), (7_000_000, 1, 0));
    }
}
