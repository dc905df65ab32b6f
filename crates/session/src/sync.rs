//! Asks the peer for its clock, and judges the age of what it made.

use std::collections::VecDeque;

use taut_core::{Deadline, Duration, Time};
use taut_wire::session::{ClockReply, ClockRequest};

use crate::latency::RoundTrip;
use taut_core::{ClockEstimate, ClockEstimator, Exchange, PeerTime};

/// Compares clocks again and again, more often at first, and less often where requests stay without an answer: over a
/// transport that carries a message or two a second, they would be all that it carries.
#[derive(Debug)]
pub(crate) struct ClockSync {
    estimator: ClockEstimator,
    interval: Duration,
    next: Time,
    /// Requests since the estimate began.
    asked: u32,
    /// Was one of them answered?
    answered: bool,
    /// Requests that may still be answered.
    open: VecDeque<Request>,
    round_trip: RoundTrip,
    /// The interval is so many times doubled.
    slowness: u32,
    /// When a state was last carried, and the time between two, smoothed.
    last_state: Option<Time>,
    between_states: Duration,
    /// Answers to none of them.
    unmatched: u64,
    /// By how much a clock was set at most, since somebody asked.
    step: Duration,
    /// What was known before it was found wrong: the next answer says by how much.
    before: Option<ClockEstimate>,
}

/// Requests at the beginning, and how far apart they are.
const QUICK: (u32, Duration) = (8, Duration::from_millis(10));
/// How many go quickly before the first answer.
const UNHEARD: u32 = 2;
/// Requests that may be under way at once.
const OPEN: usize = 64;
/// One message in so many is the session's own, but one a second in any case.
const SHARE: u64 = 8;
const LONGEST_SHARE: Duration = Duration::from_secs(1);
/// The interval is eight times as long at most: a clock that was set has to be noticed.
const SLOWEST: u32 = 3;

#[derive(Clone, Copy, Debug)]
struct Request {
    sent: Time,
    /// Twice the timeout has passed: it counts as unanswered.
    overdue: bool,
}

/// How long ago a peer made something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age {
    pub(crate) likely: Duration,
    /// The true age is within `likely` ± this.
    pub(crate) uncertainty: Duration,
}

/// When a peer made something, by its clock, and how long ago that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) created: PeerTime,
    pub(crate) age: Age,
}

impl Age {
    /// The most that it can be.
    pub(crate) fn most(self) -> Duration {
        self.likely + self.uncertainty
    }
}

impl ClockSync {
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            estimator: ClockEstimator::new(),
            interval,
            next: Time::ZERO,
            asked: 0,
            answered: false,
            open: VecDeque::new(),
            round_trip: RoundTrip::default(),
            slowness: 0,
            last_state: None,
            between_states: Duration::ZERO,
            unmatched: 0,
            step: Duration::ZERO,
            before: None,
        }
    }

    /// How often something is said again that would be said every `interval`: less often while answers stay out, and
    /// once for eight states that are carried, so that most of a slow transport is left to them.
    pub(crate) fn stretched(&self, interval: Duration) -> Duration {
        let share = self.between_states.saturating_mul(SHARE).min(LONGEST_SHARE);
        interval.saturating_mul(1 << self.slowness).max(share)
    }

    /// The smoothed round trip of the requests.
    pub(crate) fn smoothed_rtt(&self) -> Option<Duration> {
        self.round_trip.smoothed()
    }

    /// As [`RoundTrip::at_best`].
    pub(crate) fn best_rtt(&self) -> Option<Duration> {
        self.round_trip.at_best()
    }

    /// A state was carried; smoothed as in RFC 6298.
    pub(crate) fn carried(&mut self, now: Time) {
        if let Some(last) = self.last_state.replace(now) {
            let gap = now.saturating_since(last).min(LONGEST_SHARE);
            self.between_states = (self.between_states.saturating_mul(7) + gap) / 8;
        }
    }

    pub(crate) fn estimate(&self, now: Time) -> Option<ClockEstimate> {
        self.estimator.estimate(now)
    }

    pub(crate) fn steps(&self) -> u64 {
        self.estimator.steps()
    }

    pub(crate) fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// Is the next request due?
    pub(crate) fn is_due(&self, now: Time) -> bool {
        now >= self.next
    }

    /// The next request, if it is due.
    pub(crate) fn poll(&mut self, now: Time) -> Option<ClockRequest> {
        if !self.is_due(now) {
            return None;
        }
        let patience = self.round_trip.timeout().saturating_mul(2);
        for request in self.open.iter_mut().filter(|request| !request.overdue) {
            if now.saturating_since(request.sent) < patience {
                break;
            }
            request.overdue = true;
            self.slowness = (self.slowness + 1).min(SLOWEST);
        }
        self.asked = self.asked.saturating_add(1);
        let quick = self.asked <= QUICK.0 && (self.answered || self.asked < UNHEARD);
        self.next = now + if quick { QUICK.1.min(self.interval) } else { self.stretched(self.interval) };
        if self.open.len() >= OPEN {
            self.open.pop_front();
        }
        self.open.push_back(Request { sent: now, overdue: false });
        Some(ClockRequest { sent_ns: now.as_nanos() })
    }

    /// An answer came. Its round trip, when it answers a request of ours.
    pub(crate) fn answered(&mut self, now: Time, reply: &ClockReply) -> Option<Duration> {
        let Some(index) = self.open.iter().position(|request| request.sent.as_nanos() == reply.echo_ns)
        else {
            self.unmatched += 1;
            return None;
        };
        let sent = self.open.remove(index)?.sent;
        self.answered = true;
        self.slowness = self.slowness.saturating_sub(1);
        let (received, answered) = (PeerTime(reply.received_ns), PeerTime(reply.sent_ns));
        let before = self.before.take().or(self.estimate(now));
        match self.estimator.record(sent, received, answered, now) {
            Exchange::Impossible => {
                self.unmatched += 1;
                return None;
            }
            Exchange::Stepped => self.begin_again(now),
            Exchange::Taken | Exchange::Outdated => {}
        }
        if let (Some(before), Some(after)) = (before, self.estimate(now)) {
            // What either did not know is no step.
            let by = Duration::from_nanos(after.offset_ns.wrapping_sub(before.offset_ns).unsigned_abs());
            self.stepped(by.saturating_sub(before.uncertainty + after.uncertainty));
        }
        let there = Duration::from_nanos(reply.sent_ns - reply.received_ns);
        let rtt = (now - sent).saturating_sub(there);
        self.round_trip.record(rtt);
        Some(rtt)
    }

    /// How long ago the peer made something, and whether that can be: a time of making or sending that is still to come
    /// means that a clock was set. Then nothing is known until the next answer.
    pub(crate) fn age(&mut self, now: Time, created: PeerTime, sent: PeerTime) -> Option<Age> {
        let estimate = self.estimator.estimate(now)?;
        let ahead = estimate.to_local(sent).saturating_since(now);
        if ahead > estimate.uncertainty {
            self.stepped(ahead);
            self.before = Some(estimate);
            self.estimator.reset();
            self.begin_again(now);
            return None;
        }
        Some(Age { likely: estimate.age(now, created), uncertainty: estimate.uncertainty })
    }

    /// The same of what the peer sent at `sent_us`, µs of its clock modulo 2³² and nearer to now than half an hour, and had made so long
    /// before.
    pub(crate) fn stamp_of_micros(&mut self, now: Time, sent_us: u32, waited: Duration) -> Option<Stamp> {
        let sent = self.peer_time(now, sent_us)?;
        let created = PeerTime(sent.0.saturating_sub(waited.as_nanos()));
        Some(Stamp { created, age: self.age(now, created, sent)? })
    }

    /// What the peer's clock read, by µs modulo 2³², when that was within half an hour of now.
    pub(crate) fn peer_time(&self, now: Time, micros: u32) -> Option<PeerTime> {
        let offset = self.estimator.estimate(now)?.offset_ns;
        let peer_us = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX).saturating_add(offset) / 1_000;
        let ago = i64::from((peer_us as u32).wrapping_sub(micros) as i32);
        Some(PeerTime(u64::try_from((peer_us - ago).max(0)).unwrap_or(0) * 1_000))
    }

    /// How long an answer of the peer's is waited for.
    pub(crate) fn timeout(&self) -> Duration {
        self.round_trip.timeout()
    }

    pub(crate) fn poll_timeout(&self) -> Deadline {
        Deadline::new(self.next, "clock")
    }

    /// There is a new peer.
    pub(crate) fn restart(&mut self, now: Time) {
        *self = Self::new(self.interval);
        self.next = now;
    }

    fn stepped(&mut self, by: Duration) {
        self.step = self.step.max(by);
    }

    /// By how much a clock was set, at most, since this was asked last; zero when none was. A host that was held up between
    /// looking at its clock and at its socket sees small steps that nobody made.
    pub(crate) fn take_step(&mut self) -> Duration {
        std::mem::replace(&mut self.step, Duration::ZERO)
    }

    fn begin_again(&mut self, now: Time) {
        self.asked = 0;
        self.answered = false;
        self.next = now;
        // Answers to what was asked before the clock was set would contradict those after it.
        self.open.clear();
    }
}

/// Judges age without comparing clocks: by how much longer something took than the fastest of the last seconds.
///
/// What it gives is the least that the age can be, but for the fastest one's own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RelativeAge {
    /// The least difference of clocks in the present window and in the last.
    least: [Option<i64>; 2],
    window_began: Time,
    /// By how much something took less than anything before, since somebody asked: a clock was set.
    step: Duration,
}

impl RelativeAge {
    const WINDOW: Duration = Duration::from_secs(5);

    /// As [`ClockSync::take_step`].
    pub(crate) fn take_step(&mut self) -> Duration {
        std::mem::replace(&mut self.step, Duration::ZERO)
    }

    pub(crate) fn age(&mut self, now: Time, created_ns: u64) -> Age {
        let difference = now.as_nanos().wrapping_sub(created_ns) as i64;
        if now.saturating_since(self.window_began) >= Self::WINDOW {
            self.least = [None, self.least[0]];
            self.window_began = now;
        }
        if let Some(least) = self.least.into_iter().flatten().min() {
            self.step = self.step.max(Duration::from_nanos(least.saturating_sub(difference).max(0) as u64));
        }
        let present = self.least[0].map_or(difference, |least| least.min(difference));
        self.least[0] = Some(present);
        let least = self.least[1].map_or(present, |last| last.min(present));
        let likely = Duration::from_nanos(difference.wrapping_sub(least) as u64);
        Age { likely, uncertainty: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::ZERO + MS * ms
    }

    fn reply(sent: Time, peer_ns: u64) -> ClockReply {
        ClockReply { echo_ns: sent.as_nanos(), received_ns: peer_ns, sent_ns: peer_ns }
    }

    #[test]
    fn an_answer_to_no_request_measures_nothing() {
        let mut sync = ClockSync::new(MS * 100);
        assert!(sync.poll(at(0)).is_some());
        assert_eq!(sync.answered(at(5), &reply(at(1), 9)), None);
        assert_eq!(sync.answered(at(5), &reply(at(0), 9)), Some(MS * 5));
        assert_eq!(sync.answered(at(6), &reply(at(0), 9)), None, "answered already");
        assert_eq!(sync.unmatched(), 2);
        assert_eq!(sync.open.len(), 0);
    }

    #[test]
    fn unanswered_requests_and_rare_states_make_requests_rare() {
        let asked = |sync: &mut ClockSync, from: u64, answers: bool| {
            let mut count = 0;
            for ms in from..from + 10_000 {
                if sync.poll(at(ms)).is_some() {
                    count += 1;
                    if answers {
                        assert!(sync.answered(at(ms), &reply(at(ms), ms * 1_000_000)).is_some());
                    }
                }
            }
            count
        };
        let mut sync = ClockSync::new(MS * 100);
        assert!((105..=110).contains(&asked(&mut sync, 0, true)));
        assert!((12..=20).contains(&asked(&mut sync, 10_000, false)), "each 800 ms");
        let again = asked(&mut sync, 20_000, true);
        assert!((80..=110).contains(&again), "{again}");
        (0..100).for_each(|n| sync.carried(at(30_000 + 50 * n)));
        assert!((24..=26).contains(&asked(&mut sync, 35_000, true)), "one for eight states, each 400 ms");
        assert_eq!(sync.stretched(MS * 1_000), MS * 1_000);
    }

    #[test]
    fn what_was_made_before_this_clock_began_is_older_than_the_clock() {
        let mut sync = ClockSync::new(MS * 100);
        sync.poll(at(10));
        sync.answered(at(20), &reply(at(10), 5_000_000_000));
        let age = sync.age(at(30), PeerTime(1_000_000_000), PeerTime(4_999_000_000)).map(|age| age.likely);
        assert_eq!(age, Some(MS * 4_015));
    }

    #[test]
    fn what_is_made_in_the_future_says_that_a_clock_was_set() {
        let mut sync = ClockSync::new(MS * 100);
        assert_eq!(sync.age(at(0), PeerTime(0), PeerTime(0)), None, "not compared yet");
        sync.poll(at(10));
        sync.answered(at(20), &reply(at(10), 15_000_000));
        assert_eq!(
            sync.age(at(30), PeerTime(22_000_000), PeerTime(22_000_000)).map(|age| age.likely),
            Some(MS * 8)
        );
        assert!(sync.poll_timeout().at < at(21));
        assert_eq!(sync.age(at(30), PeerTime(99_000_000), PeerTime(99_000_000)), None);
        assert_eq!((sync.estimate(at(30)), sync.steps(), sync.poll_timeout().at), (None, 1, at(30)));
    }

    #[test]
    fn relative_age_is_what_the_fastest_did_not_need() {
        let mut ages = RelativeAge::default();
        let peer = |ms: u64| at(1_000_000 + ms).as_nanos();
        assert_eq!(ages.age(at(20), peer(0)).likely, Duration::ZERO);
        assert_eq!(ages.age(at(40), peer(10)).likely, MS * 10);
        assert_eq!(ages.age(at(35), peer(20)).likely, Duration::ZERO);
        assert_eq!(ages.age(at(60), peer(20)).likely, MS * 25);
        // Ten seconds later the route is 30 ms longer, and that is the new fastest.
        assert_eq!(ages.age(at(6_045), peer(6_000)).likely, MS * 30);
        assert_eq!(ages.age(at(12_045), peer(12_000)).likely, Duration::ZERO);
    }
}
