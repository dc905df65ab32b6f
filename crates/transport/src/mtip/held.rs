//! Answers that wait for more to be answered with them.
//!
//! At 1 kHz an answer to each message takes two thirds of what messages of 100 B take, and on a path that carries little more than those it is
//! the queue that they wait in. Eight in a round trip tell the sender as much, for each speaks for the 64 messages before it, too (RFC 9000
//! section 13.2.2 leaves the same to the receiver). What comes seldom is answered at once.
//!
//! How long an answer may wait the sender says with each message ([`Hold`](taut_wire::mtip::Hold)), as QUIC's ACK_FREQUENCY frames do
//! (draft-ietf-quic-ack-frequency): it alone knows what it waits for, and how long silence means nothing. A bound in the handshake, as
//! QUIC's max_ack_delay is (RFC 9000 section 18.2), would have to be there before a round trip is known, and one that either end reckons
//! from its own round trips is not the same at both: under a queue they have measured different ones.

use taut_core::{Deadline, Duration, Time};

use super::codec::Answer;
use super::{Mtip, Outgoing};

/// Messages before its own that one answer speaks for.
const SPAN: u64 = 64;

/// The answer of one path that waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldAnswer {
    waits: Option<Waits>,
    /// None that may wait goes before.
    next: Time,
}

/// One answer to all that wait for theirs.
#[derive(Clone, Copy, Debug)]
struct Waits {
    /// To the newest of them.
    answer: Answer,
    oldest: u64,
    /// The newest may wait for so long.
    hold: Duration,
    /// One of them may wait no longer.
    until: Time,
}

impl HeldAnswer {
    /// Another answer is to go, for which the sender waits so long, at once or with others: the one that does not wait any more, if there
    /// is one.
    fn take(&mut self, now: Time, answer: Answer, hold: Duration, at_once: bool) -> Option<Answer> {
        let spans = |waits: &Waits| waits.oldest < answer.number && answer.number - waits.oldest <= SPAN;
        if at_once || hold.is_zero() || self.waits.is_none() && now >= self.next {
            // It speaks for those that wait, unless they are newer.
            self.waits = self.waits.filter(|waits| waits.answer.number > answer.number || !spans(waits));
            self.next = now + hold;
            return Some(answer);
        }
        let joined = self.waits.filter(spans);
        let left = if joined.is_some() { None } else { self.waits };
        let alone = Waits { answer, oldest: answer.number, hold, until: self.next.min(now + hold) };
        self.waits = Some(joined.map_or(alone, |waits| {
            let (oldest, until) = (waits.oldest, waits.until.min(now + hold));
            Waits { answer, oldest, hold, until }
        }));
        left.map(|waits| waits.answer)
    }

    /// What waited long enough, or whatever waits.
    fn pop(&mut self, now: Time, whatever: bool) -> Option<Answer> {
        let waits = self.waits.take_if(|waits| whatever || waits.until <= now)?;
        self.next = now + waits.hold;
        Some(waits.answer)
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.waits.map(|waits| Deadline::new(waits.until, "answer"))
    }
}

impl Mtip {
    /// Answers a message that came over this path, now or, unless at once, with others within so long.
    pub(super) fn answer(&mut self, now: Time, place: usize, answer: Answer, hold: Duration, at_once: bool) {
        let path = &mut self.paths[place];
        let id = path.id;
        if let Some(answer) = path.held.take(now, answer, hold, at_once) {
            self.post_answer(id, answer);
        }
    }

    /// Answers that waited for others; `all`: there will be no others.
    pub(super) fn answer_held(&mut self, now: Time, all: bool) {
        (0..self.paths.len()).for_each(|place| self.answer_held_on(now, place, all));
    }

    /// The same of one path.
    pub(super) fn answer_held_on(&mut self, now: Time, place: usize, all: bool) {
        let path = &mut self.paths[place];
        let id = path.id;
        if let Some(answer) = path.held.pop(now, all) {
            self.post_answer(id, answer);
        }
    }

    fn post_answer(&mut self, id: taut_core::PathId, answer: Answer) {
        let before = self.receiver.before(id, answer.number);
        self.post(id, Outgoing::Ack(Answer { before, ..answer }));
    }
}

#[cfg(test)]
mod tests {
    use taut_wire::mtip::{Echo, Verdict};

    use super::*;

    fn answer(number: u64) -> Answer {
        let (echo, one_way) = (Echo { clock_ns: 0, hold_ns: 0 }, Duration::ZERO);
        let (verdict, elsewhere, before, arrived) = (Verdict::OnTime, false, 0, Time::ZERO);
        Answer { verdict, number, elsewhere, before, echo, arrived, one_way }
    }

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::ZERO + MS * ms
    }

    fn number(answer: Option<Answer>) -> Option<u64> {
        answer.map(|answer| answer.number)
    }

    #[test]
    fn the_newest_speaks_for_those_that_wait_and_none_waits_longer_than_it_may_or_beyond_its_span() {
        let mut held = HeldAnswer::default();
        assert_eq!(number(held.take(at(0), answer(1), MS * 10, false)), Some(1), "nothing went lately");
        for n in 1..4 {
            assert_eq!(number(held.take(at(n), answer(1 + n), MS * 10, false)), None);
        }
        assert_eq!(held.poll_timeout().map(|deadline| deadline.at), Some(at(10)));
        assert_eq!(number(held.pop(at(9), false)), None);
        assert_eq!(number(held.pop(at(10), false)), Some(4));
        assert_eq!(number(held.pop(at(30), true)), None, "nothing waits");
        assert_eq!(number(held.take(at(11), answer(5), MS * 10, false)), None);
        assert_eq!(number(held.take(at(12), answer(6), MS * 2, false)), None);
        assert_eq!(
            held.poll_timeout().map(|deadline| deadline.at),
            Some(at(14)),
            "the newest may not as long"
        );
        assert_eq!(
            number(held.take(at(12), answer(69), MS * 10, false)),
            None,
            "a bit for each of 64 and itself"
        );
        assert_eq!(number(held.take(at(13), answer(70), MS * 10, false)), Some(69));
        assert_eq!(number(held.pop(at(13), true)), Some(70));
    }

    #[test]
    fn what_may_not_wait_goes_at_once_and_speaks_for_older_ones_that_wait() {
        let mut held = HeldAnswer::default();
        held.take(at(0), answer(1), MS * 10, false);
        assert_eq!(number(held.take(at(1), answer(3), MS * 10, false)), None);
        assert_eq!(number(held.take(at(2), answer(2), MS * 10, true)), Some(2));
        assert!(held.poll_timeout().is_some(), "a newer one still waits");
        assert_eq!(number(held.take(at(3), answer(4), Duration::ZERO, false)), Some(4));
        assert!(held.poll_timeout().is_none(), "it was spoken for");
        assert_eq!(number(held.take(at(4), answer(6), MS * 10, true)), Some(6));
        assert_eq!(number(held.take(at(5), answer(7), MS * 10, false)), None, "one went just now");
    }
}
