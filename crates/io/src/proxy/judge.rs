//! What of that which arrives may still be given to an application: what is neither too old nor overtaken.

use std::collections::{BTreeMap, VecDeque};

use taut_core::{Deadline, DropCause, Duration, Time, earliest, nearest};
use taut_transport::window::{REPLAY_WINDOW, Window};
use taut_wire::proxy::Header;

use super::clocks::{Clocks, Way};

/// What an end asks of datagrams from the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// The age at which one is worthless, counted from when the other proxy got it. `None`: what the other end says alone.
    pub(super) deadline: Option<Duration>,
    /// One may be given after another that was said later in its flow.
    pub(super) keep_overtaken: bool,
    /// All of what the clocks leave open counts against a datagram.
    pub(super) strict: bool,
}

/// Judges what arrives, in order, and holds what it cannot judge yet: of unknown age, for the time of an exchange of clocks.
#[derive(Debug)]
pub(super) struct Judge {
    rules: Rules,
    pub(super) clocks: Clocks,
    /// Which life of the other end its numbers and its clock are of.
    life: Option<u32>,
    /// What was given, by flow.
    given: BTreeMap<u16, Window>,
    waiting: VecDeque<Arrived>,
    /// Bytes of these, each with [`COST`] more.
    bytes: usize,
}

/// A datagram of the other end, in its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) at: Time,
    pub(super) header: Header,
    pub(super) frame: Vec<u8>,
}

/// Of what waits for clocks to be compared, bytes at most.
const WAITING: usize = 256 * 1024;
const COST: usize = 64;
/// Flows of which it is known what was given: as many as there can be.
const FLOWS: usize = 4_096;
/// So much of a deadline may be in doubt, and counts against a datagram: on a round trip of up to half a deadline nothing late is given,
/// on a longer one what may be in time still is.
const DOUBTED: u64 = 4;
/// So much of a deadline is for the way from here to the application.
const HANDED_OVER: u64 = 64;

impl Judge {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            clocks: Clocks::default(),
            life: None,
            given: BTreeMap::new(),
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    /// The other end says which life it is in; another one numbers anew, by another clock. How many datagrams of the one before were
    /// still waiting: they are dropped.
    pub(super) fn meet(&mut self, now: Time, life: u32) -> u64 {
        if self.life.replace(life).is_none_or(|before| before == life) {
            return 0;
        }
        self.given.clear();
        self.clocks.begin_anew(now);
        self.drop_waiting()
    }

    /// The conversation is over. How many datagrams were still waiting: they are dropped.
    pub(super) fn disconnected(&mut self) -> u64 {
        self.clocks.end();
        self.drop_waiting()
    }

    /// A datagram arrived.
    pub(super) fn take(&mut self, now: Time, header: Header, frame: Vec<u8>) {
        self.bytes += frame.len() + COST;
        self.waiting.push_back(Arrived { at: now, header, frame });
    }

    /// The next datagram that can be judged, and why it is not to be given.
    pub(super) fn poll(&mut self, now: Time) -> Option<(Arrived, Option<DropCause>)> {
        let header = self.waiting.front()?.header;
        let cause = match self.is_late(now, &header) {
            Some(true) => Some(DropCause::TooLate),
            Some(false) => self.out_of_order(&header),
            None if self.is_worthless(now) || self.bytes > WAITING => Some(DropCause::TooLate),
            None => return None,
        };
        let arrived = self.waiting.pop_front()?;
        self.bytes -= arrived.frame.len() + COST;
        Some((arrived, cause))
    }

    /// The application got it.
    pub(super) fn was_given(&mut self, header: &Header) {
        let number = self.number(header);
        if self.given.len() >= FLOWS && !self.given.contains_key(&header.flow) {
            // Numbers are of all flows together: the least is of the flow that was silent for longest.
            let quietest = self.given.iter().min_by_key(|(_, window)| window.next()).map(|(flow, _)| *flow);
            quietest.and_then(|flow| self.given.remove(&flow));
        }
        self.given.entry(header.flow).or_default().record(number);
    }

    /// When there is something to do though nothing arrives.
    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        let held = self.waiting.front().and_then(|first| Some(first.at + self.deadline(&first.header)?));
        let held = held.map(|at| Deadline::new(at, "unknown age"));
        earliest(held, self.clocks.due().map(|at| Deadline::new(at, "clock")))
    }

    fn drop_waiting(&mut self) -> u64 {
        self.bytes = 0;
        self.waiting.drain(..).count() as u64
    }

    /// The age at which it is worthless, to either end.
    fn deadline(&self, header: &Header) -> Option<Duration> {
        let theirs = (header.deadline_us > 0).then(|| Duration::from_micros(header.deadline_us.into()));
        self.rules.deadline.into_iter().chain(theirs).min()
    }

    /// Is it past its deadline, as far as that can be said? `None`: nobody knows how old it is.
    fn is_late(&mut self, now: Time, header: &Header) -> Option<bool> {
        let Some(deadline) = self.deadline(header) else { return Some(false) };
        let waited = Duration::from_micros(header.age_us.into());
        if header.age_us == u32::MAX || waited >= deadline {
            return Some(true);
        }
        let Way { took, doubt } = self.clocks.way(now, header.clock_ns)?;
        let doubted = if self.rules.strict { doubt } else { doubt.min(deadline / DOUBTED) };
        let age = waited + took + doubted + deadline / HANDED_OVER;
        // So much in doubt, an age says nothing.
        Some(doubt >= deadline || age >= deadline)
    }

    /// The first one waited here for so long that it is worthless whatever its age was.
    fn is_worthless(&self, now: Time) -> bool {
        let held = |first: &Arrived| Some(now.saturating_since(first.at) >= self.deadline(&first.header)?);
        self.waiting.front().and_then(held).unwrap_or(false)
    }

    fn out_of_order(&self, header: &Header) -> Option<DropCause> {
        let (window, number) = (self.given.get(&header.flow)?, self.number(header));
        let behind = window.next().saturating_sub(number);
        match window.is_new(number) {
            false if behind <= REPLAY_WINDOW => Some(DropCause::Duplicate),
            // Too far behind to tell.
            false => Some(DropCause::Superseded),
            true => (behind > 0 && !self.rules.keep_overtaken).then_some(DropCause::Superseded),
        }
    }

    /// The number whose low half this is, nearest to the newest of its flow.
    fn number(&self, header: &Header) -> u64 {
        let first = 1 << 32 | u64::from(header.number);
        let near = self.given.get(&header.flow).map_or(first, Window::next);
        nearest(near, header.number, 32).unwrap_or(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_wire::proxy::Body;
    use taut_wire::session::ClockReply;

    const MS: Duration = Duration::from_millis(1);

    fn judge(keep_overtaken: bool) -> Judge {
        Judge::new(Rules { deadline: Some(MS * 100), keep_overtaken, strict: false })
    }

    /// By the other end's clock, which reads the same.
    fn header(flow: u16, number: u32, at: Time) -> Header {
        Header { flow, number, clock_ns: at.as_nanos(), age_us: 0, deadline_us: 0 }
    }

    fn compare(judge: &mut Judge, now: Time) {
        judge.clocks.begin(now);
        assert!(matches!(judge.clocks.poll(now), Some(Body::ClockRequest(_))));
        let at = now.as_nanos();
        judge.clocks.answered(now, &ClockReply { echo_ns: at, received_ns: at, sent_ns: at });
    }

    /// What becomes of one that arrives in no time.
    fn arrives(judge: &mut Judge, now: Time, flow: u16, number: u32) -> Option<DropCause> {
        judge.take(now, header(flow, number, now), Vec::new());
        let (arrived, cause) = judge.poll(now).expect("its age is known");
        if cause.is_none() {
            judge.was_given(&arrived.header);
        }
        cause
    }

    #[test]
    fn numbers_that_wrap_go_on_counting_up() {
        let (mut judge, now) = (judge(false), Time::ZERO + MS * 5);
        compare(&mut judge, now);
        for number in [u32::MAX - 1, u32::MAX, 0, 1, 2_000_000_000] {
            assert_eq!(arrives(&mut judge, now, 1, number), None, "{number}");
        }
        assert_eq!(arrives(&mut judge, now, 1, 1), Some(DropCause::Superseded), "too long ago to tell");
        assert_eq!(arrives(&mut judge, now, 1, 2_000_000_000), Some(DropCause::Duplicate));
        assert_eq!(arrives(&mut judge, now, 2, 1), None, "another flow");
    }

    #[test]
    fn what_is_overtaken_is_kept_once_where_that_is_wanted() {
        let (mut judge, now) = (judge(true), Time::ZERO + MS * 5);
        compare(&mut judge, now);
        for (number, cause) in [(9, None), (3, None), (3, Some(DropCause::Duplicate)), (8, None)] {
            assert_eq!(arrives(&mut judge, now, 1, number), cause, "{number}");
        }
    }

    #[test]
    fn what_is_of_unknown_age_waits_for_a_deadline_at_most_and_in_bounded_memory() {
        let (mut judge, now) = (judge(false), Time::ZERO + MS * 500);
        assert_eq!(judge.meet(now, 1), 0);
        let mut dropped = 0;
        for number in 1..=1_000 {
            judge.take(now, header(1, number, now), vec![0; 936]);
            while let Some((_, cause)) = judge.poll(now) {
                assert_eq!(cause, Some(DropCause::TooLate));
                dropped += 1;
            }
        }
        assert_eq!((dropped, judge.waiting.len(), judge.bytes), (738, 262, 262_000));
        assert_eq!(judge.poll_timeout().map(|due| due.at), Some(now + MS * 100));
        assert_eq!(judge.poll(now + MS * 99), None);
        let causes = std::iter::from_fn(|| judge.poll(now + MS * 100));
        assert!(causes.map(|(_, cause)| cause).eq([Some(DropCause::TooLate); 262]));
        judge.take(now, header(1, 1_001, now), Vec::new());
        assert_eq!((judge.meet(now, 1), judge.meet(now, 2), judge.bytes), (0, 1, 0), "of another life");
        judge.take(now, header(1, 1, now), Vec::new());
        assert_eq!((judge.disconnected(), judge.poll(now)), (1, None));
    }

    #[test]
    fn it_remembers_as_many_flows_as_there_can_be_and_forgets_the_one_that_was_silent_for_longest() {
        let (mut judge, now) = (judge(false), Time::ZERO + MS * 5);
        compare(&mut judge, now);
        for flow in 0..=FLOWS as u16 {
            assert_eq!(arrives(&mut judge, now, flow, u32::from(flow) + 10), None);
        }
        assert_eq!(
            (judge.given.len(), judge.given.first_key_value().map(|(flow, _)| *flow)),
            (FLOWS, Some(1))
        );
    }

    #[test]
    fn an_age_that_cannot_be_said_is_late_and_one_in_doubt_by_more_than_the_deadline_is_too() {
        let (mut judge, now) = (judge(false), Time::ZERO + MS * 500);
        compare(&mut judge, now);
        judge.take(now, Header { age_us: u32::MAX, ..header(1, 1, now) }, Vec::new());
        assert_eq!(judge.poll(now).map(|(_, cause)| cause), Some(Some(DropCause::TooLate)));
        judge.clocks.begin_anew(now);
        judge.clocks.poll(now);
        let (echo_ns, at) = (now.as_nanos(), (now + MS * 100).as_nanos());
        judge.clocks.answered(now + MS * 200, &ClockReply { echo_ns, received_ns: at, sent_ns: at });
        let now = now + MS * 200;
        judge.take(now, header(1, 2, now), Vec::new());
        assert_eq!(judge.poll(now).map(|(_, cause)| cause), Some(Some(DropCause::TooLate)));
    }

    #[test]
    fn without_any_deadline_nothing_waits_for_clocks() {
        let mut judge = Judge::new(Rules { deadline: None, keep_overtaken: false, strict: false });
        assert_eq!(arrives(&mut judge, Time::ZERO, 1, 1), None);
        judge.take(Time::ZERO, Header { deadline_us: 5, ..header(1, 2, Time::ZERO) }, Vec::new());
        assert_eq!(judge.poll(Time::ZERO), None, "the other end has one");
    }
}
