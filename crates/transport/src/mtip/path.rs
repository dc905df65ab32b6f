//! One path: is it alive, how long does it take, what does it lose?

use std::collections::VecDeque;

use taut_core::{Duration, PathId, Time};
use taut_wire::mtip::Hold;

use super::codec::Times;
use super::estimate::{Answers, DEATH, Delays, Losses};
use super::held::HeldAnswer;
use super::published::Memory;
use crate::window::Window;

/// Packets whose fate is open, or was decided lately.
const FLIGHTS: usize = 4_096;
/// A round trip is expected within this before any was seen.
const UNKNOWN_RTT: Duration = Duration::from_millis(200);
/// What a round trip may take beyond those that were seen.
const LEAST_MARGIN: Duration = Duration::from_millis(1);
/// A path is down when it is dead with this probability.
const SURE: f64 = 0.8;
/// However seldom answers were missing so far, one may be.
const LEAST_SILENCE: f64 = 0.01;
/// Two packets closer than usual are lost together so often at least, as long as nothing says that they are not.
const SAME_FATE: f64 = 0.25;
/// Silence of more packets than that says no more.
const SILENT: usize = 32;
/// How long an answer to what is overdue still counts.
const MEMORY: Duration = Duration::from_secs(2);
/// Messages that follow each other within this part of a round trip come fast.
const FAST: u64 = 4;
/// So many answers go in a round trip where messages come fast.
const IN_A_ROUND_TRIP: u64 = 8;
/// So many answers tell how soon they come.
const ENOUGH: usize = 8;

/// Where a path stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// The peer has not answered on it yet.
    Linking,
    /// Its packets are acknowledged.
    Up,
    /// The newest packet is overdue.
    Suspect,
    /// So many are, in a row, that it must be dead.
    Down,
}

/// What travelled over one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathStats {
    /// Copies of messages sent.
    pub copies: u64,
    /// Datagrams sent, of every kind.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Copies and probes that were acknowledged.
    pub acknowledged: u64,
    /// Copies and probes that were overdue, and not acknowledged later.
    pub lost: u64,
    /// Copies that the peer says were duplicates, or late.
    pub duplicates: u64,
    /// Copies that the peer says were late.
    pub late: u64,
    /// How often it went down.
    pub downs: u64,
}

/// Something that was sent and wants an acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Flight {
    probe: bool,
    number: u64,
    sent: Time,
    /// It was to be acknowledged on every path.
    everywhere: bool,
    /// How likely it is that it was lost, once it is overdue.
    lost: f64,
    /// So long its answer may wait for others.
    hold: Duration,
    /// From when on it is not the only one of its number on this path: that the number arrived then does not say that this one did.
    repeated: Option<Time>,
}

#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) id: PathId,
    pub(super) state: PathState,
    /// It is down since.
    down: Option<Time>,
    /// From here to the peer.
    pub(super) one_way: Delays,
    pub(super) published: Memory,
    /// Answers on this path, and those of packets that every path answers, whichever was first.
    own: Answers,
    any: Answers,
    newest_round_trip: Duration,
    pub(super) losses: Losses,
    /// The newest packet that something was heard of left then, and the share of losses was this: silence since may be the end of the
    /// path, and says nothing of its losses then.
    heard_of: Time,
    lost_when_heard: f64,
    /// The newest packet left then, and so long after the one before.
    newest_sent: Time,
    spacing: Duration,
    /// On their way, as far as is known.
    open: VecDeque<Flight>,
    /// Counted as lost, lately.
    overdue: VecDeque<Flight>,
    /// Messages that were answered on this path.
    answers: Window,
    /// What this end has to answer here.
    pub(super) held: HeldAnswer,
    pub(super) next_probe: Time,
    pub(super) probes: u64,
    pub(super) stats: PathStats,
}

impl Path {
    pub(super) fn new(now: Time, id: PathId) -> Self {
        Self {
            id,
            state: PathState::Linking,
            down: None,
            one_way: Delays::default(),
            published: Memory::default(),
            own: Answers::default(),
            any: Answers::default(),
            newest_round_trip: Duration::ZERO,
            losses: Losses::default(),
            heard_of: Time::ZERO,
            lost_when_heard: Losses::default().share(),
            newest_sent: now,
            spacing: UNKNOWN_RTT,
            open: VecDeque::new(),
            overdue: VecDeque::new(),
            answers: Window::new(),
            held: HeldAnswer::default(),
            next_probe: now,
            probes: 0,
            stats: PathStats::default(),
        }
    }

    pub(super) fn is_linked(&self) -> bool {
        self.state != PathState::Linking
    }

    /// Answers to what every path is to answer, or this one alone.
    pub(super) fn answers(&self, everywhere: bool) -> &Answers {
        if everywhere && self.any.delays.count() >= ENOUGH { &self.any } else { &self.own }
    }

    /// When an answer to what is sent now is overdue.
    fn answer_within(&self, everywhere: bool) -> Duration {
        let delays = &self.answers(everywhere).delays;
        let Some(most) = delays.quantile(0.99) else { return UNKNOWN_RTT };
        let usual = delays.quantile(0.5).unwrap_or(most);
        most + LEAST_MARGIN.max(most.saturating_sub(usual) / 2)
    }

    /// The same, at least what the newest answer took, for paths may have become slower of late; and what it may wait for others.
    pub(super) fn newest_or_usual(&self) -> Duration {
        self.answer_within(false).max(self.newest_round_trip) + self.longest_hold().duration()
    }

    fn longest_hold(&self) -> Hold {
        Hold::at_least(self.round_trip() / IN_A_ROUND_TRIP)
    }

    /// How long the answer to a copy that leaves now may wait for others: where copies come fast, what makes eight answers in a
    /// round trip. A loss need not be feared for that, what comes after it is answered at once; and on a path that stands still, or loses, an answer to each
    /// would be what fills it.
    pub(super) fn hold(&self, now: Time) -> Hold {
        let is_fast = now.saturating_since(self.newest_sent) < self.round_trip() / FAST;
        if is_fast { self.longest_hold() } else { Hold::NONE }
    }

    /// The shortest of its round trips lately; zero before one is known.
    pub(super) fn round_trip(&self) -> Duration {
        self.own.delays.quantile(0.0).unwrap_or_default()
    }

    /// How likely it is that a packet which is sent now is lost.
    pub(super) fn next_lost(&self, now: Time) -> f64 {
        let dead = self.dead(now);
        dead + (1.0 - dead) * self.losses.next()
    }

    /// The same of a message that left on this path so long before, if that copy was lost. What follows a loss is known of packets
    /// at their usual distances; sooner they may share a fate.
    pub(super) fn next_lost_after(&self, now: Time, gap: Duration) -> f64 {
        let dead = self.dead(now);
        let again = self.losses.after_one();
        dead + (1.0 - dead) * if gap < self.spacing { again.max(SAME_FATE) } else { again }
    }

    /// How likely it is that the path is dead (Bayes' theorem): silence since the newest packet that something was heard of is
    /// either that, or packets and answers that were lost or are slow.
    pub(super) fn dead(&self, now: Time) -> f64 {
        let lost = self.lost_when_heard;
        let chance = |flight: &Flight, heard: f64| {
            let missing = self.answers(flight.everywhere).missing().max(LEAST_SILENCE);
            lost + (1.0 - lost) * (1.0 - heard * (1.0 - missing))
        };
        let is_newer = |flight: &&Flight| flight.sent > self.heard_of;
        let open = self.open.iter().filter(is_newer).take(SILENT).map(|flight| {
            let waited = now.saturating_since(flight.sent + flight.hold);
            chance(flight, self.answers(flight.everywhere).delays.within(waited))
        });
        let overdue = self.overdue.iter().rev().take_while(is_newer).take(SILENT);
        let chance: f64 = open.chain(overdue.map(|flight| chance(flight, 1.0))).product();
        if chance >= 1.0 { 0.0 } else { DEATH / (DEATH + (1.0 - DEATH) * chance) }
    }

    /// Is anything amiss: was something lost lately, is it silent, or are its answers missing?
    pub(super) fn is_doubtful(&self, now: Time, tolerated: f64) -> bool {
        self.losses.share() > tolerated || self.own.missing() > LEAST_SILENCE || self.dead(now) > tolerated
    }

    /// So long it is down.
    pub(super) fn down_for(&self, now: Time) -> Option<Duration> {
        self.down.map(|since| now.saturating_since(since))
    }

    /// Is it down, and was it for so long?
    pub(super) fn is_down_for(&self, now: Time, least: Duration) -> bool {
        self.down.is_some_and(|since| since + least <= now)
    }

    /// A copy, whose answer may wait for so long.
    pub(super) fn sent_copy(&mut self, now: Time, number: u64, everywhere: bool, hold: Duration) {
        self.sent(Flight { probe: false, number, sent: now, everywhere, lost: 0.0, hold, repeated: None });
    }

    pub(super) fn sent_probe(&mut self, now: Time, number: u64) {
        let (everywhere, hold) = (false, Duration::ZERO);
        self.sent(Flight { probe: true, number, sent: now, everywhere, lost: 0.0, hold, repeated: None });
    }

    fn sent(&mut self, mut flight: Flight) {
        if self.open.len() == FLIGHTS {
            self.open.pop_front();
        }
        let now = flight.sent;
        let alike = |other: &&mut Flight| !flight.probe && !other.probe && other.number == flight.number;
        for other in self.open.iter_mut().chain(&mut self.overdue).filter(alike) {
            (other.repeated, flight.repeated) = (Some(other.repeated.unwrap_or(now)), Some(Time::ZERO));
        }
        (self.newest_sent, self.spacing) = (now, now.saturating_since(self.newest_sent));
        self.open.push_back(flight);
        self.published.sent();
    }

    /// The answer to a packet, which names it by this end's clock if it names times. When that was sent; `None` if it was not, or was
    /// answered before. What an answer waited for others is none of the path's delay, as long as it may (RFC 9002 section 5.3).
    pub(super) fn answered(
        &mut self,
        now: Time,
        probe: bool,
        number: u64,
        times: Option<Times>,
    ) -> Option<Time> {
        let flight = self.settle(|flight| {
            let alike = flight.probe == probe && flight.number == number;
            alike && times.is_none_or(|times| times.asked == flight.sent.as_nanos())
        })?;
        let held = times.map_or(Duration::ZERO, Times::held).min(flight.hold);
        let answers = if flight.everywhere { &mut self.any } else { &mut self.own };
        self.newest_round_trip = answers.sample(now.saturating_since(flight.sent), held);
        Some(flight.sent)
    }

    /// Is this copy of a message open, or was it given up lately?
    pub(super) fn waits_for(&self, number: u64, times: Option<Times>) -> bool {
        let is_it = |flight: &Flight| {
            !flight.probe
                && flight.number == number
                && times.is_none_or(|times| times.asked == flight.sent.as_nanos())
        };
        self.open.iter().any(is_it) || self.overdue.iter().any(is_it)
    }

    /// An earlier message that the peer has, as the acknowledgement of one says that left at `newer`. Was its own one missing, or does this
    /// speak for both?
    pub(super) fn has(&mut self, number: u64, newer: Option<Time>) -> bool {
        // One that left before the others of its number did was alone with what is acknowledged.
        let is_alone = |flight: &Flight| {
            flight.repeated.is_none_or(|repeated| newer.is_some_and(|newer| newer < repeated))
        };
        let flight = self.settle(|flight| !flight.probe && flight.number == number && is_alone(flight));
        let Some(flight) = flight else { return false };
        let answers = if flight.everywhere { &mut self.any } else { &mut self.own };
        // What left further apart may have come closer on its way.
        let with_it = newer.is_some_and(|newer| newer < flight.sent + flight.hold * 2);
        if with_it {
            // Of each message that one answer speaks for it is as good a measure: by messages old delays are forgotten.
            answers.delays.record(self.newest_round_trip);
        }
        answers.record(!with_it);
        true
    }

    /// A copy of the message `number`, which left at `sent`, arrived; of the 64 messages before it those did that `before` has a
    /// bit for. Copies of the others that left so much earlier that they cannot be merely slower were lost: which.
    pub(super) fn missing(&mut self, number: u64, sent: Time, before: u64) -> Vec<u64> {
        let quantile = |share| self.one_way.quantile(share).unwrap_or_default();
        let slower = quantile(0.99).saturating_sub(quantile(0.5)) + LEAST_MARGIN;
        let is_missing = |flight: &Flight| {
            let place = number.wrapping_sub(flight.number).wrapping_sub(1);
            !flight.probe
                && place < u64::from(u64::BITS)
                && before >> place & 1 == 0
                && flight.sent + slower <= sent
        };
        let mut lost = Vec::new();
        while let Some(at) = self.open.iter().position(is_missing) {
            let Some(flight) = self.open.remove(at) else { break };
            self.losses.record(1.0);
            self.stats.lost += 1;
            self.overdue.push_back(Flight { lost: 1.0, ..flight });
            lost.push(flight.number);
        }
        for flight in self.overdue.iter_mut().filter(|flight| flight.lost < 1.0 && is_missing(flight)) {
            self.losses.take_back(flight.lost);
            self.losses.record(1.0);
            flight.lost = 1.0;
        }
        lost
    }

    /// Of the 64 messages before `number`, those that `before` has a bit for and that were not answered on this path yet.
    pub(super) fn unanswered(&self, number: u64, before: u64) -> impl Iterator<Item = u64> + use<> {
        let mut left = before & !self.answers.before(number);
        std::iter::from_fn(move || {
            let place = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            number.checked_sub(1 + u64::from(place)).filter(|_| place < u64::BITS)
        })
    }

    /// Answers come about in the order of what is answered: it is among the first, or late.
    fn settle(&mut self, is_it: impl Fn(&Flight) -> bool) -> Option<Flight> {
        let flight = if let Some(at) = self.open.iter().position(&is_it) {
            self.losses.record(0.0);
            self.open.remove(at)
        } else {
            let at = self.overdue.iter().position(&is_it)?;
            self.losses.take_back(self.overdue[at].lost);
            self.stats.lost -= 1;
            self.overdue.remove(at)
        };
        self.lost_when_heard = self.losses.share();
        self.heard_of = self.heard_of.max(flight.map_or(Time::ZERO, |flight| flight.sent));
        if let Some(flight) = flight.filter(|flight| !flight.probe && self.answers.is_new(flight.number)) {
            self.answers.record(flight.number);
        }
        self.stats.acknowledged += 1;
        self.published.answered();
        flight
    }

    /// When the oldest open packet is overdue.
    pub(super) fn overdue_at(&self) -> Option<Time> {
        let flight = self.open.front()?;
        Some(flight.sent + self.answer_within(flight.everywhere) + flight.hold)
    }

    /// Counts what is overdue as lost, and tells each message of it.
    pub(super) fn expire(&mut self, now: Time, mut lost: impl FnMut(u64)) {
        let within = [false, true].map(|everywhere| self.answer_within(everywhere));
        let is_overdue =
            |flight: &mut Flight| flight.sent + within[usize::from(flight.everywhere)] + flight.hold <= now;
        while let Some(mut flight) = self.open.pop_front_if(is_overdue) {
            // Silence is a loss, or an answer that went missing.
            let (share, missing) = (self.losses.share(), self.answers(flight.everywhere).missing());
            let lost_unless_dead = share / (share + (1.0 - share) * missing).max(f64::MIN_POSITIVE);
            flight.lost = (1.0 - self.dead(now)) * lost_unless_dead;
            self.losses.record(flight.lost);
            self.stats.lost += 1;
            if !flight.probe {
                lost(flight.number);
            }
            self.overdue.push_back(flight);
        }
        while self.overdue.len() > FLIGHTS
            || self.overdue.len() > SILENT
                && self.overdue.front().is_some_and(|flight| flight.sent + MEMORY <= now)
        {
            self.overdue.pop_front();
        }
    }

    /// All that is on its way, when the path is gone.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = u64> {
        self.open.drain(..).filter(|flight| !flight.probe).map(|flight| flight.number)
    }

    /// How it stands by what is lost.
    pub(super) fn judge(&mut self, now: Time) -> PathState {
        if self.is_linked() {
            self.state = match self.dead(now) {
                _ if self.overdue.back().is_none_or(|flight| flight.sent <= self.heard_of) => PathState::Up,
                dead if dead < SURE => PathState::Suspect,
                _ => PathState::Down,
            };
        }
        self.down = (self.state == PathState::Down).then(|| self.down.unwrap_or(now));
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn up() -> Path {
        let mut path = Path::new(at(0), PathId(1));
        path.state = PathState::Up;
        for n in 0..100 {
            path.sent_copy(at(30 * n), n, false, Duration::ZERO);
            assert_eq!(path.answered(at(30 * n + 10), false, n, None), Some(at(30 * n)));
        }
        path
    }

    #[test]
    fn a_dead_path_is_suspected_before_the_next_message_and_down_after_three() {
        let mut path = up();
        for n in 100..104 {
            path.sent_copy(at(30 * n), n, false, Duration::ZERO);
            let overdue = path.overdue_at().expect("one is open");
            assert_eq!(overdue, at(30 * n + 11));
            let mut lost = Vec::new();
            path.expire(overdue, |number| lost.push(number));
            assert_eq!(lost, [n]);
            assert_eq!(path.judge(overdue), if n < 102 { PathState::Suspect } else { PathState::Down });
        }
        assert_eq!(
            path.answered(at(30 * 103 + 40), false, 103, None),
            Some(at(30 * 103)),
            "it was only slow"
        );
        assert_eq!((path.judge(at(4_000)), path.stats.lost), (PathState::Up, 3));
    }

    #[test]
    fn a_path_that_dies_young_is_down_too() {
        let mut path = Path::new(at(0), PathId(1));
        path.state = PathState::Up;
        (0..2).for_each(|n| path.sent_probe(at(n), n));
        assert!(
            path.answered(at(5), true, 0, None).is_some() && path.answered(at(6), true, 1, None).is_some()
        );
        (2..12).for_each(|n| path.sent_probe(at(100 * n), n));
        path.expire(at(10_000), |_| panic!("probes are no messages"));
        assert_eq!(path.judge(at(10_000)), PathState::Down);
        assert!(
            path.is_down_for(at(11_000), Duration::from_secs(1))
                && !path.is_down_for(at(10_999), Duration::from_secs(1))
        );
    }

    #[test]
    fn what_was_never_sent_is_not_answered() {
        let mut path = up();
        assert_eq!(path.answered(at(4_000), false, 99, None), None, "answered before");
        assert_eq!(path.answered(at(4_000), false, 5_000, None), None);
        path.sent_probe(at(4_000), 1);
        assert_eq!(path.answered(at(4_010), false, 1, None), None, "a probe is no message");
        assert_eq!(path.stats.acknowledged, 100);
    }
}
