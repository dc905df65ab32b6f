//! Compares the clocks of two proxies, so that each knows how old is what the other one sent.

use std::collections::VecDeque;

use taut_core::{ClockEstimator, Duration, Exchange, PeerTime, Time};
use taut_wire::proxy::Body;
use taut_wire::session::{ClockReply, ClockRequest};

/// Asks the other end for its clock while there is a conversation, and answers what it asks.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    estimator: ClockEstimator,
    /// When to ask next; `None`: there is nobody to ask.
    next: Option<Time>,
    /// Questions since the estimate began.
    asked: u32,
    /// When the last answer came, or the conversation began.
    heard: Time,
    /// Questions that may still be answered, by when they were asked.
    open: VecDeque<Time>,
    /// Questions of the other end: its clock, and when they came.
    unanswered: VecDeque<(u64, Time)>,
    counts: ClockCounts,
}

/// How the comparison of clocks went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockCounts {
    /// Questions asked.
    pub asked: u64,
    /// Of these, answered.
    pub answered: u64,
    /// How often a clock was found to have been set.
    pub steps: u64,
    /// How far the estimate may be off; `None`: the clocks were not compared yet, and nothing is given.
    pub uncertainty: Option<Duration>,
}

/// How long something was on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) took: Duration,
    /// It may have taken so much more or less.
    pub(super) doubt: Duration,
}

/// The first questions, and how far apart they are: the best of them is little disturbed.
const QUICK: (u32, Duration) = (8, Duration::from_millis(10));
/// Of these, so many before the first answer.
const UNHEARD: u32 = 2;
/// Between two questions while nothing is known.
const UNKNOWN: Duration = Duration::from_millis(100);
/// And otherwise. A clock that was set is noticed so late at most.
const REGULAR: Duration = Duration::from_millis(250);
/// When no answer came for so long, it is asked once a second: a narrow path is for datagrams.
const SILENCE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(1));
/// Questions of ours that may be answered, and of theirs that wait for the next call.
const OPEN: usize = 16;

impl Clocks {
    /// There is somebody to ask: at once.
    pub(super) fn begin(&mut self, now: Time) {
        (self.next, self.asked, self.heard) = (Some(now), 0, now);
    }

    /// There is nobody any more. What was known is of no use for the next one.
    pub(super) fn end(&mut self) {
        *self = Self { counts: self.counts, ..Self::default() };
    }

    /// The other end's clock is another one now.
    pub(super) fn begin_anew(&mut self, now: Time) {
        self.end();
        self.begin(now);
    }

    pub(super) fn is_known(&self, now: Time) -> bool {
        self.estimator.estimate(now).is_some()
    }

    pub(super) fn counts(&self, now: Time) -> ClockCounts {
        let uncertainty = self.estimator.estimate(now).map(|estimate| estimate.uncertainty);
        ClockCounts { uncertainty, ..self.counts }
    }

    /// What is to be said now.
    pub(super) fn poll(&mut self, now: Time) -> Option<Body<'static>> {
        if let Some((echo_ns, arrived)) = self.unanswered.pop_front() {
            let (received_ns, sent_ns) = (arrived.as_nanos(), now.as_nanos());
            return Some(Body::ClockReply(ClockReply { echo_ns, received_ns, sent_ns }));
        }
        if self.next.is_none_or(|next| now < next) {
            return None;
        }
        self.asked = self.asked.saturating_add(1);
        self.counts.asked += 1;
        let is_known = self.is_known(now);
        let interval = if self.asked <= QUICK.0 && (is_known || self.asked < UNHEARD) {
            QUICK.1
        } else if now.saturating_since(self.heard) >= SILENCE.0 {
            SILENCE.1
        } else if is_known {
            REGULAR
        } else {
            UNKNOWN
        };
        self.next = Some(now + interval);
        if self.open.len() == OPEN {
            self.open.pop_front();
        }
        self.open.push_back(now);
        Some(Body::ClockRequest(ClockRequest { sent_ns: now.as_nanos() }))
    }

    /// When [`Clocks::poll`] has something.
    pub(super) fn due(&self) -> Option<Time> {
        self.unanswered.front().map(|(_, arrived)| *arrived).or(self.next)
    }

    /// The other end asks. Of more than wait here, the oldest stay without an answer: it asks again.
    pub(super) fn asked(&mut self, now: Time, request: ClockRequest) {
        if self.unanswered.len() == OPEN {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back((request.sent_ns, now));
    }

    /// An answer came; one to no question of ours says nothing.
    pub(super) fn answered(&mut self, now: Time, reply: &ClockReply) {
        let Some(index) = self.open.iter().position(|sent| sent.as_nanos() == reply.echo_ns) else { return };
        let Some(sent) = self.open.remove(index) else { return };
        (self.heard, self.counts.answered) = (now, self.counts.answered + 1);
        let (received, answered) = (PeerTime(reply.received_ns), PeerTime(reply.sent_ns));
        if self.estimator.record(sent, received, answered, now) == Exchange::Stepped {
            self.stepped(now);
        } else if self.asked < QUICK.0 {
            self.next = self.next.map(|next| next.min(now + QUICK.1));
        }
    }

    /// How long something was on its way that left when the other end's clock read `clock_ns`; `None`: nobody knows. What left
    /// later than now says that a clock was set: then nothing is known until the next answer.
    pub(super) fn way(&mut self, now: Time, clock_ns: u64) -> Option<Way> {
        let estimate = self.estimator.estimate(now)?;
        let (left, doubt) = (PeerTime(clock_ns), estimate.uncertainty);
        if estimate.to_local(left).saturating_since(now) > doubt {
            self.was_set(now);
            return None;
        }
        Some(Way { took: estimate.age(now, left), doubt })
    }

    /// One of the clocks is known to have been set, or may be off after its machine was suspended.
    pub(super) fn was_set(&mut self, now: Time) {
        self.estimator.reset();
        self.stepped(now);
    }

    /// Answers to what was asked before a clock was set would contradict those after it.
    fn stepped(&mut self, now: Time) {
        self.counts.steps += 1;
        self.open.clear();
        if self.next.is_some() {
            self.begin(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::ZERO + MS * ms
    }

    /// Asks, and answers 5 ms later by a clock that is so many ms ahead.
    fn exchange(clocks: &mut Clocks, asked: u64, ahead: u64) {
        assert!(matches!(clocks.poll(at(asked)), Some(Body::ClockRequest(_))));
        let there = at(asked + 5 + ahead).as_nanos();
        let reply = ClockReply { echo_ns: at(asked).as_nanos(), received_ns: there, sent_ns: there };
        clocks.answered(at(asked + 10), &reply);
    }

    #[test]
    fn it_asks_at_once_and_less_often_when_it_knows_and_when_nobody_answers() {
        let mut clocks = Clocks::default();
        assert_eq!((clocks.poll(at(0)), clocks.due()), (None, None), "there is nobody");
        clocks.begin(at(5));
        let asked = |clocks: &mut Clocks, from: u64, to: u64| {
            (from..to).filter(|ms| clocks.poll(at(*ms)).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(asked(&mut clocks, 5, 120), [5, 15, 115]);
        exchange(&mut clocks, 215, 0);
        assert_eq!(asked(&mut clocks, 225, 1_000), [235, 245, 255, 265, 275, 525, 775]);
        assert_eq!(asked(&mut clocks, 5_000, 8_000), [5_000, 6_000, 7_000]);
        clocks.end();
        assert_eq!((clocks.due(), clocks.is_known(at(8_000))), (None, false));
    }

    #[test]
    fn a_question_is_answered_with_when_it_came_and_when_the_answer_leaves() {
        let mut clocks = Clocks::default();
        clocks.asked(at(3), ClockRequest { sent_ns: 77 });
        assert_eq!(clocks.due(), Some(at(3)));
        let (received_ns, sent_ns) = (at(3).as_nanos(), at(4).as_nanos());
        let reply = ClockReply { echo_ns: 77, received_ns, sent_ns };
        assert_eq!(clocks.poll(at(4)), Some(Body::ClockReply(reply)));
        assert_eq!(clocks.poll(at(4)), None);
        (0..100).for_each(|n| clocks.asked(at(5), ClockRequest { sent_ns: n }));
        assert_eq!(clocks.unanswered.len(), OPEN);
    }

    #[test]
    fn an_answer_to_no_question_of_ours_says_nothing() {
        let mut clocks = Clocks::default();
        clocks.begin(at(0));
        exchange(&mut clocks, 0, 1_000);
        let known = clocks.counts(at(10));
        clocks.answered(at(11), &ClockReply { echo_ns: 0, received_ns: 1, sent_ns: 1 });
        clocks.answered(at(11), &ClockReply { echo_ns: 9, received_ns: 1, sent_ns: 1 });
        assert_eq!(clocks.counts(at(10)), known);
        assert_eq!((known.asked, known.answered, known.steps), (1, 1, 0));
    }

    #[test]
    fn the_way_is_known_also_of_what_left_before_this_clock_began() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.way(at(10), 0), None, "not compared yet");
        clocks.begin(at(0));
        exchange(&mut clocks, 0, 100_000);
        let way = clocks.way(at(20), at(100_012).as_nanos()).expect("known");
        assert_eq!(way.took, MS * 8);
        assert!(way.doubt >= MS * 5 && way.doubt < MS * 6, "{way:?}");
        let way = clocks.way(at(20), at(90_000).as_nanos()).expect("known");
        assert_eq!(way.took, MS * 10_020, "10 s before the zero of this clock");
    }

    #[test]
    fn what_left_later_than_now_says_that_a_clock_was_set_and_nothing_is_known_until_the_next_answer() {
        let mut clocks = Clocks::default();
        clocks.begin(at(0));
        exchange(&mut clocks, 0, 0);
        assert!(clocks.way(at(20), at(24).as_nanos()).is_some(), "within the doubt");
        assert_eq!(clocks.way(at(20), at(40).as_nanos()), None);
        assert_eq!((clocks.way(at(20), at(15).as_nanos()), clocks.due()), (None, Some(at(20))));
        exchange(&mut clocks, 20, 20);
        assert_eq!(clocks.way(at(40), at(55).as_nanos()).map(|way| way.took), Some(MS * 5));
        assert_eq!(clocks.counts(at(40)).steps, 1);
        exchange(&mut clocks, 1_000, 5_000);
        assert_eq!(clocks.counts(at(1_010)).steps, 2, "an answer that contradicts says so too");
    }
}
