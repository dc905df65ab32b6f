//! Answers that wait for more to be answered with them.
//!
//! At 1 kHz an answer to each message takes two thirds of what messages of 100 B take, and on a path that carries little more than those it is
//! the queue that they wait in. Eight in a round trip tell the sender as much, for each speaks for the 64 messages before it, too (RFC 9000
//! section 13.2.1 leaves the same to the receiver). What comes seldom is answered at once.

use taut_core::{Deadline, Duration, Time};

use super::codec::Answer;
use super::{Mtip, Outgoing};

/// So many answers go in a round trip.
const IN_A_ROUND_TRIP: u64 = 8;
/// Messages before its own that one answer speaks for.
const SPAN: u64 = 64;

/// The answer of one path that waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    /// To the greatest number of those that wait, and the least of them.
    newest: Option<(Answer, u64)>,
    /// None goes before.
    next: Time,
}

impl Held {
    /// The time between two answers, where a round trip takes so long.
    pub(super) fn apart(round_trip: Duration) -> Duration {
        round_trip / IN_A_ROUND_TRIP
    }

    /// Another one is to go: the one that does not wait any more, if there is one.
    fn take(&mut self, now: Time, answer: Answer, apart: Duration) -> Option<Answer> {
        let Some((newest, oldest)) = self.newest else {
            if now >= self.next {
                self.next = now + apart;
                return Some(answer);
            }
            self.newest = Some((answer, answer.number));
            return None;
        };
        let greatest = newest.number.max(answer.number);
        if greatest - oldest.min(answer.number) > SPAN {
            self.newest = Some((answer, answer.number));
            return Some(newest);
        }
        let kept = if answer.number > newest.number { answer } else { newest };
        self.newest = Some((kept, oldest.min(answer.number)));
        None
    }

    /// What waited long enough, or whatever waits.
    fn pop(&mut self, now: Time, apart: Duration, whatever: bool) -> Option<Answer> {
        if now < self.next && !whatever {
            return None;
        }
        let (answer, _) = self.newest.take()?;
        self.next = now + apart;
        Some(answer)
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.newest.map(|_| Deadline::new(self.next, "answer"))
    }
}

impl Mtip {
    /// Answers a message that came over this path, now or with others.
    pub(super) fn answer(&mut self, now: Time, place: usize, answer: Answer) {
        let path = &mut self.paths[place];
        let (id, apart) = (path.id, Held::apart(path.round_trip()));
        if let Some(answer) = path.held.take(now, answer, apart) {
            self.post_answer(id, answer);
        }
    }

    /// Answers that waited for others; `all`: there will be no others.
    pub(super) fn answer_held(&mut self, now: Time, all: bool) {
        for place in 0..self.paths.len() {
            let path = &mut self.paths[place];
            let (id, apart) = (path.id, Held::apart(path.round_trip()));
            if let Some(answer) = path.held.pop(now, apart, all) {
                self.post_answer(id, answer);
            }
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

    #[test]
    fn the_greatest_number_speaks_for_those_that_wait_and_none_waits_beyond_its_span() {
        let (mut held, ms) = (Held::default(), Duration::from_millis(1));
        let at = |n: u64| Time::ZERO + ms * n;
        let number = |answer: Option<Answer>| answer.map(|answer| answer.number);
        assert_eq!(number(held.take(at(0), answer(1), ms * 10)), Some(1), "nothing went lately");
        for (n, of) in [(1, 3), (2, 2), (3, 5), (4, 4)] {
            assert_eq!(number(held.take(at(n), answer(of), ms * 10)), None);
        }
        assert_eq!(held.poll_timeout().map(|deadline| deadline.at), Some(at(10)));
        assert_eq!(number(held.pop(at(9), ms * 10, false)), None);
        assert_eq!(number(held.pop(at(10), ms * 10, false)), Some(5));
        assert_eq!(number(held.pop(at(30), ms * 10, true)), None, "nothing waits");
        assert_eq!(number(held.take(at(11), answer(6), ms * 10)), None);
        assert_eq!(number(held.take(at(12), answer(69), ms * 10)), None, "a bit for each of 64 and itself");
        assert_eq!(number(held.take(at(13), answer(71), ms * 10)), Some(69));
        assert_eq!(number(held.pop(at(13), ms * 10, true)), Some(71));
    }
}
