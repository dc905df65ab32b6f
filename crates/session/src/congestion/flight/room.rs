//! What can wait, where no window holds: as fast as what goes was measured to arrive, and beside others' as much as one of them.

use std::collections::VecDeque;

use taut_core::{Duration, Time};

use super::super::{Arrived, Untold};
use super::round::Measured;

/// How fast messages go that can wait, and when the next frame may.
///
/// A burst that goes as fast as the sender can is a queue, and what is live waits behind it. So what is sent, live frames included, goes
/// at a *pace*: a part of the rate at which frames were seen to arrive while they came further apart than they were sent, for that
/// is what the path carries. Until then, and while they come no further apart, the pace grows. Where the queue is known to be others'
/// it competes as one of them does, by bytes under way.
#[derive(Debug)]
pub(super) struct Room {
    /// Bytes per second of all that goes.
    pace: Option<f64>,
    /// What it began with, beside what is live.
    initial: f64,
    /// What the path was last seen to carry.
    carried: Option<f64>,
    found: Time,
    span: Option<Span>,
    /// What was sent until here was sent at another pace, or before what can wait went without a pause.
    from: u64,
    /// Nothing waits any more; where what can wait went on after that, of what is under way.
    is_dry: bool,
    bursts: VecDeque<u64>,
    /// When the last burst began, how long after the one before, and how long the last that is over took.
    began: Time,
    period: Duration,
    took: Duration,
    /// Bytes under way, beside others.
    size: Option<f64>,
    /// It held something back in this round, for so long in all, and since then.
    limited: bool,
    held: Duration,
    held_since: Option<Time>,
    /// What was sent until here was sent before it shrank.
    shrunk: u64,
    slowed: u64,
    /// Of frames that can wait, this share is lost.
    pub(super) loss: f64,
    /// When the last frame was to go, and its bytes.
    last: Time,
    last_bytes: f64,
    /// Something waits in the network, and it is not known to be others'.
    waits: bool,
    claim: Claim,
    live: Claim,
}

/// Bytes per second of states, of the last two spans.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    began: Time,
    bytes: [u64; 2],
}

/// Frames that were sent and arrived one after the other, from the first to the last of them.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: Seen,
    last: Seen,
    /// Between two of them that came one after the other, what was added most.
    jump: Step,
    /// Pairs of them that came one after the other.
    steps: u32,
}

/// When a frame went, and when it came.
#[derive(Clone, Copy, Debug)]
struct Seen {
    place: u64,
    sent: Time,
    /// By the peer's clock, ns.
    arrived: i64,
}

/// From one frame to another.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    bytes: u64,
    /// Between their sending, and between their arrivals.
    apart: Duration,
    came: Duration,
}

/// RFC 3390 section 1: up to 4380 bytes in the first round trip.
const INITIAL: f64 = 4_380.0;
/// Beside others frames go over the round trip by this much faster than evenly (RFC 9002 section 7.7).
const PACING: f64 = 1.25;
const LOSS: f64 = 0.7;
/// Radios and long ways lose so much by chance: where nothing waits, a loss says no more than that. A queue that overflows without delay loses more as
/// soon as the pace is beyond what the path carries (draft-ietf-rmcat-gcc-02 section 6 holds from 2 % and slows down from 10 %).
const LOSS_BY_CHANCE: f64 = 0.05;
const HOLDS: f64 = 0.02;
const FRAME: f64 = 1_000.0;
/// Bytes per second: a frame each second, whatever was measured.
const LEAST: f64 = FRAME;
/// So much of what the path carries goes: the rest empties what a burst left, and is what the measure may be wrong by.
const HEADROOM: f64 = 0.85;
/// What is sent together arrives so much further apart where the path is full.
const STRETCHED: f64 = 1.125;
/// Two frames come further apart by more than this many times what chance adds to the least of a round, seven and a half standard deviations of one, only
/// where the path is narrow: of two frames with normal jitter one pair in ten million.
const APART: u64 = 3;
/// The pace doubles before it was found what the path carries, then grows by this, and near to that by this.
const GROWTH: (f64, f64) = (1.0 / 8.0, 1.0 / 64.0);
/// A picture that is gone so soon, and in this part of the time to the next one, goes no faster. On a path that carries less it arrives over more than that,
/// and what is live waits behind it for the difference: from [`LEAST_SPAN`] on that is seen, so that a millisecond is the most that is not.
const BRISK: Duration = Duration::from_millis(4);
const BRISK_SHARE: u64 = 8;
/// What was found counts for so long: a path may be wider by then.
const FRESH: Duration = Duration::from_secs(10);
/// What can wait pushes where it is held back for this part of a round, or goes with this part of the pace: with less, what arrives is what was there to go.
const PUSHES: f64 = 0.5;
/// A span of frames that tells something.
const LEAST_SPAN: Duration = Duration::from_millis(5);
/// And so many steps, where it came late: without the largest of them two are left, which say the same on a narrow path.
const LEAST_STEPS: u32 = 3;
/// So much of the path is left to what can wait, whatever is made that cannot.
const LEAST_SHARE: f64 = 1.0 / 16.0;
/// Pictures on their way: two seconds of them at 30/s.
const BURSTS: usize = 64;
/// A host that was late may make up for so long.
const CATCH_UP: Duration = Duration::from_millis(1);
/// And for so many bytes: transports keep 64 frames.
const AT_ONCE: f64 = 32_000.0;
const SPAN: Duration = Duration::from_millis(250);

impl Default for Room {
    fn default() -> Self {
        Self {
            pace: None,
            initial: 0.0,
            carried: None,
            found: Time::ZERO,
            span: None,
            from: 0,
            is_dry: false,
            bursts: VecDeque::new(),
            began: Time::ZERO,
            period: Duration::ZERO,
            took: Duration::ZERO,
            size: None,
            limited: false,
            held: Duration::ZERO,
            held_since: None,
            shrunk: 0,
            slowed: 0,
            loss: 0.0,
            last: Time::ZERO,
            last_bytes: 0.0,
            waits: false,
            claim: Claim::default(),
            live: Claim::default(),
        }
    }
}

impl Room {
    /// When the next frame may go at so many bytes per second, of which states have theirs.
    pub(super) fn next_of(&self, rate: f64) -> Time {
        let rate = if self.waits { self.braked(rate) } else { self.left_of(rate) };
        self.last + Duration::from_secs_f64(self.last_bytes / rate.max(1.0))
    }

    /// While something waits: what was found of the path is no more, but what is live seems to go.
    fn braked(&self, rate: f64) -> f64 {
        let live = self.live.rate();
        if live > 0.0 { rate.min(live) * LEAST_SHARE } else { rate * LEAST_SHARE }
    }

    fn next(&self, base: Option<Duration>) -> Time {
        let Some(rate) = self.rate(base) else { return self.last };
        let rate = match (self.size, self.waits) {
            (Some(_), _) => rate * PACING,
            (None, true) => self.braked(rate),
            (None, false) => rate,
        };
        self.last + Duration::from_secs_f64(self.last_bytes / rate)
    }

    /// When the next frame may go, where nothing else says it; `None`: so much is under way that one has to arrive first.
    pub(super) fn opens(&self, untold: Untold, base: Option<Duration>) -> Option<Time> {
        let most = match (self.size, self.pace.zip(base)) {
            (Some(size), _) => size,
            (None, Some((pace, base))) => {
                let there_and_back = 2.0 * pace * base.as_secs_f64();
                // On a short way the peer waits for longer, until it tells, than the way takes.
                let told = (2.0 * pace * untold.told_after.as_secs_f64()).min(1.5 * untold.told_bytes as f64);
                INITIAL + there_and_back.max(told)
            }
            (None, None) => INITIAL,
        };
        ((untold.bytes as f64) < most).then(|| self.next(base))
    }

    /// What states leave of so many bytes per second.
    pub(super) fn left_of(&self, rate: f64) -> f64 {
        self.claim.leaves_of(rate)
    }

    /// Bytes per second for what can wait.
    pub(super) fn rate(&self, base: Option<Duration>) -> Option<f64> {
        match (self.size, base) {
            (Some(size), Some(base)) => Some(size / base.as_secs_f64().max(1e-6)),
            _ => self.pace.map(|pace| self.live.leaves_of(pace)),
        }
    }

    /// Was it found lately how much the path carries?
    pub(super) fn is_found(&self, now: Time) -> bool {
        self.size.is_some() || self.carried.is_some() && now.saturating_since(self.found) < FRESH
    }

    /// States of so many bytes were made.
    pub(super) fn claimed(&mut self, now: Time, bytes: u64) {
        self.claim.record(now, bytes);
    }

    /// A frame went that cannot wait.
    pub(super) fn passed(&mut self, now: Time, bytes: u64) {
        self.live.record(now, bytes);
    }

    /// A frame went, the last of `sent` bytes, of the bytes per second of a window where there is one.
    pub(super) fn sent(
        &mut self,
        now: Time,
        (bytes, sent): (u64, u64),
        window: Option<f64>,
        base: Option<Duration>,
    ) {
        if self.pace.is_none() {
            self.initial = base.map_or(0.0, |base| INITIAL / base.as_secs_f64().max(1e-3));
            self.pace = base.map(|_| self.live.rate() + self.initial);
        }
        let next = window.map_or_else(|| self.next(base), |rate| self.next_of(rate));
        let was_dry = std::mem::take(&mut self.is_dry);
        if was_dry {
            (self.period, self.began) = (now.saturating_since(self.began), now);
        }
        let rate = window.or(self.pace).unwrap_or_default();
        let catch_up = CATCH_UP.min(Duration::from_secs_f64(AT_ONCE / rate.max(1.0)));
        if now > next + CATCH_UP && was_dry {
            // What goes from now on is a burst. Those before it may still be on their way, and tell as much.
            if self.bursts.len() == BURSTS {
                self.bursts.pop_front();
            }
            self.bursts.push_back(sent - bytes);
        } else if now > next + CATCH_UP {
            (self.span, self.from) = (None, self.from.max(sent - bytes));
        }
        (self.last, self.last_bytes) = (next.max(now - catch_up).min(now), bytes as f64);
    }

    /// A frame arrived: did it come further apart from those before than it was sent? `sent` bytes went until now, and chance does so
    /// much to the times of single frames.
    pub(super) fn arrived(&mut self, now: Time, frame: &Arrived, sent: u64, chance: Duration) {
        let way = frame.there.unwrap_or(frame.rtt.as_nanos() as i64);
        let arrived = way.saturating_add(frame.sent.as_nanos() as i64);
        let here = Seen { place: frame.place, sent: frame.sent, arrived };
        while self.bursts.front().is_some_and(|burst| *burst < frame.place) {
            (self.span, _) = (None, self.bursts.pop_front());
        }
        let Some(span) = &mut self.span else {
            if frame.place > self.from {
                self.span = Some(Span::of(here));
            }
            return;
        };
        if here.place <= span.last.place {
            return;
        }
        span.goes_on(here);
        let (whole, even) = (span.whole(), span.without_jump());
        let by_chance = chance.saturating_mul(APART);
        if whole.came.max(whole.apart) < LEAST_SPAN.max(by_chance) || whole.apart.is_zero() {
            return;
        }
        let Some(pace) = self.pace else { return };
        let is_late = whole.is_late(by_chance);
        // Of fewer nobody can tell a path that is narrow from a host that slept.
        if is_late && span.steps < LEAST_STEPS {
            return;
        }
        // A few small frames fill no path: what of them comes late is jitter. What comes late at one jump was slept through.
        let is_spread = even.added().saturating_mul(2) >= whole.added();
        if whole.bytes as f64 >= FRAME && is_spread && is_late {
            self.finds(now, whole.rate());
        } else if self.limited {
            let is_found = self.is_found(now);
            let rate = whole.rate();
            let growth = match self.carried {
                _ if self.takes(now) < BRISK.min(self.period / BRISK_SHARE) => 0.0,
                None if self.bursts.is_empty() => 1.0,
                None => GROWTH.0,
                Some(_) if is_found && self.loss > HOLDS => 0.0,
                Some(carried) if is_found && pace > carried * HEADROOM => GROWTH.1,
                Some(_) => GROWTH.0,
            };
            // Nothing is known of paces at which nobody sent.
            self.pace = Some((pace * (1.0 + growth)).min((rate * 2.0).max(pace)));
        } else {
            self.span = Some(Span::of(here));
            return;
        }
        (self.span, self.from) = (None, sent);
    }

    /// Something waits that can: was it admitted?
    pub(super) fn asked(&mut self, now: Time, admitted: bool) {
        self.limited |= !admitted;
        self.held = self.held_by(now);
        self.held_since = (!admitted).then_some(now);
    }

    /// So long a burst takes: the last one, or the one that goes.
    fn takes(&self, now: Time) -> Duration {
        if self.is_dry { self.took } else { self.took.max(now.saturating_since(self.began)) }
    }

    /// Nothing waits any more that can.
    pub(super) fn ran_dry(&mut self, now: Time) {
        self.took = self.last.saturating_since(self.began);
        self.held = self.held_by(now);
        (self.is_dry, self.held_since) = (true, None);
    }

    /// So long something was held back in this round.
    fn held_by(&self, now: Time) -> Duration {
        self.held + self.held_since.map_or(Duration::ZERO, |since| now.saturating_since(since))
    }

    /// Whatever was held back until now is none of the round that begins.
    fn forget_held(&mut self, now: Time) {
        (self.held, self.held_since) = (Duration::ZERO, self.held_since.map(|_| now));
    }

    /// Was what arrived in a round what the path carries? So many bytes, and nothing held back, fill no path. A queue has a frame in it, at least: a
    /// host that is busy makes delays as well, and whatever little was sent meanwhile arrives. And what goes was held back for half of the time, or went
    /// half as fast as it may.
    pub(super) fn is_full(&self, now: Time, round: &Measured) -> bool {
        let (rate, bytes) = (round.rate(), round.arrived as f64);
        let queues = rate * round.standing.as_secs_f64() >= round.frame;
        let is_held = self.held_by(now).as_secs_f64() >= round.length.as_secs_f64() * PUSHES;
        let pushes = is_held || self.pace.is_none_or(|pace| rate >= pace * PUSHES);
        (self.limited || bytes >= INITIAL) && queues && pushes
    }

    /// So many bytes per second arrived while something waited: that is what the path carries.
    pub(super) fn finds(&mut self, now: Time, rate: f64) {
        self.found = now;
        self.carried = Some(rate.max(LEAST));
        self.slow_down(rate * HEADROOM);
    }

    /// What is live goes in any case.
    fn slow_down(&mut self, rate: f64) {
        let least = self.live.rate().max(LEAST);
        self.pace = self.pace.map(|pace| pace.min(rate).max(least));
    }

    /// Does something wait in the network, that is not others'?
    pub(super) fn saw(&mut self, now: Time, waits: bool, place: u64, sent: u64) {
        // Where nothing is live, nothing waits behind this.
        let waits = waits && self.live.rate() > 0.0;
        if waits && !self.waits && place > self.slowed {
            let pace = self.pace.unwrap_or_default();
            if self.carried.is_some_and(|carried| pace > carried * HEADROOM) {
                // What was found still holds, about.
                self.found = now;
            }
            self.slow_down(pace * HEADROOM);
            self.slowed = sent;
        }
        self.waits = waits;
    }

    /// The frame at `place` is lost, of all that were sent.
    pub(super) fn lost(&mut self, place: u64, sent: u64) {
        // Beside others a loss is everybody's signal, and where something waits it is ours.
        let is_a_signal = self.size.is_some() || self.waits || self.loss > LOSS_BY_CHANCE;
        if is_a_signal && place > self.shrunk {
            self.size = self.size.map(|size| (size * LOSS).max(INITIAL));
            self.carried = self.carried.or(self.pace);
            // What is lost by chance on a path with much loss leaves 4380 bytes a round trip (RFC 5681 section 3.1).
            self.slow_down((self.pace.unwrap_or_default() * LOSS).max(self.initial));
            (self.shrunk, self.from, self.span) = (sent, sent, None);
        }
    }

    /// A round is over, in which so much waited; in a queue of others' it competes. Did it hold something back?
    pub(super) fn judge(&mut self, now: Time, stands: bool, base: Duration, competes: bool) -> bool {
        let limited = std::mem::take(&mut self.limited);
        self.forget_held(now);
        match (self.size, competes && stands) {
            (None, true) => self.begin_at(self.pace.unwrap_or_default() * base.as_secs_f64()),
            (Some(size), true) => self.size = Some(size + if limited { FRAME } else { 0.0 }),
            (_, false) => self.size = None,
        }
        limited
    }

    /// Beside others, from a window of this size on.
    fn begin_at(&mut self, size: f64) {
        self.size = Some(size.max(INITIAL));
    }

    /// A window of this rate is no more.
    pub(super) fn goes_on(&mut self, now: Time, rate: f64) {
        self.found = now;
        let rate = rate.max(LEAST);
        self.pace = Some(self.pace.map_or(rate, |pace| pace.min(rate)));
        self.carried = Some(rate);
        self.span = None;
        // What the window held back is none of a round's to come.
        self.forget_held(now);
    }
}

impl Span {
    /// It begins with this frame.
    fn of(here: Seen) -> Self {
        Self { first: here, last: here, jump: Step::default(), steps: 0 }
    }

    /// Another frame came.
    fn goes_on(&mut self, here: Seen) {
        let step = here.since(&self.last);
        // Whether it came at a jump, by more than what was sent meanwhile.
        if step.added() >= self.jump.added() {
            self.jump = step;
        }
        self.steps = self.steps.saturating_add(1);
        self.last = here;
    }

    fn whole(&self) -> Step {
        self.last.since(&self.first)
    }

    /// Without what was added most at once: a host that sleeps makes one such step, and what it slept through comes at once after it. A narrow
    /// path adds to every one.
    fn without_jump(&self) -> Step {
        let Step { bytes, apart, came } = self.whole();
        let jump = self.jump;
        Step {
            bytes: bytes.saturating_sub(jump.bytes),
            apart: apart.saturating_sub(jump.apart),
            came: came.saturating_sub(jump.came),
        }
    }
}

impl Seen {
    fn since(&self, before: &Self) -> Step {
        let came = u64::try_from(self.arrived.saturating_sub(before.arrived)).unwrap_or(0);
        Step {
            bytes: self.place.saturating_sub(before.place),
            apart: self.sent.saturating_since(before.sent),
            came: Duration::from_nanos(came),
        }
    }
}

impl Step {
    /// How much later it came than it was sent.
    fn added(&self) -> Duration {
        self.came.saturating_sub(self.apart)
    }

    /// Did it come later by more than chance explains?
    fn is_late(&self, by_chance: Duration) -> bool {
        self.came.as_secs_f64() > self.apart.as_secs_f64() * STRETCHED + by_chance.as_secs_f64()
    }

    /// Bytes per second.
    fn rate(&self) -> f64 {
        self.bytes as f64 / self.came.as_secs_f64().max(1e-9)
    }
}

impl Claim {
    /// States of so many bytes were made.
    pub(crate) fn record(&mut self, now: Time, bytes: u64) {
        if now.saturating_since(self.began) >= SPAN {
            let is_next = now.saturating_since(self.began) < SPAN * 2;
            self.bytes = [0, if is_next { self.bytes[0] } else { 0 }];
            self.began = now;
        }
        self.bytes[0] += bytes;
    }

    fn rate(&self) -> f64 {
        self.bytes[1] as f64 / SPAN.as_secs_f64()
    }

    /// What is left of so many bytes per second.
    pub(crate) fn leaves_of(&self, rate: f64) -> f64 {
        (rate - self.rate()).max(rate * LEAST_SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::super::round::Round;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Pictures of eight parts of 1 kB with nothing in between, sent at 10 Mbit/s through a path that is narrower.
    #[test]
    fn parts_of_pictures_alone_tell_a_narrow_path() {
        for mbit in [1, 2, 3, 6] {
            let mut room = Room { pace: Some(1.25e6), ..Room::default() };
            let service = MS * 8 / mbit;
            let (mut place, mut free) = (0, Time::ZERO);
            for picture in 0..10 {
                for part in 0..8 {
                    let sent = Time::ZERO + MS * 100 * picture + MS * 8 / 10 * part;
                    place += 1_000;
                    room.asked(sent, false);
                    room.sent(sent, (1_000, place), None, Some(MS * 20));
                    free = free.max(sent) + service;
                    let there = free + MS * 10 - sent;
                    let there_ns = i64::try_from(there.as_nanos()).unwrap();
                    let frame = Arrived { place, bytes: 1_000, sent, rtt: there * 2, there: Some(there_ns) };
                    room.arrived(free + MS * 20, &frame, place, Duration::ZERO);
                }
                room.ran_dry(free);
            }
            let carries = 125_000.0 * mbit as f64;
            let pace = room.pace.unwrap();
            assert!(pace < carries && pace > carries / 2.0, "{pace:.0} of {carries:.0} B/s");
        }
    }

    /// Pictures of eight parts of 1 kB on a path that carries 1 Gbit/s.
    #[test]
    fn pictures_that_are_soon_gone_go_no_faster() {
        for (period, most) in [(33, 4.1), (8, 1.3), (4, 1.3)] {
            let mut room = Room { pace: Some(1e5), ..Room::default() };
            let (mut place, mut picture) = (0, 0);
            let mut now = Time::ZERO + MS * 1_000;
            let mut took = Duration::ZERO;
            while picture < 2_000 {
                let (next, began) = (now + MS * period, now);
                for _ in 0..8 {
                    let untold = Untold { told_after: MS * 2, told_bytes: 1_000_000, bytes: 0 };
                    let opens = room.opens(untold, Some(MS * 20)).expect("nothing is under way");
                    room.asked(now, opens <= now);
                    now = now.max(opens);
                    room.asked(now, true);
                    place += 1_000;
                    room.sent(now, (1_000, place), None, Some(MS * 20));
                    let there_ns = 10_000_000;
                    let frame =
                        Arrived { place, bytes: 1_000, sent: now, rtt: MS * 20, there: Some(there_ns) };
                    room.arrived(now, &frame, place, Duration::ZERO);
                }
                took = now.saturating_since(began);
                room.ran_dry(now);
                room.limited = true;
                (now, picture) = (now.max(next), picture + 1);
            }
            let took = took.as_millis_f64();
            assert!(took < most && took > most / 3.0, "{took} ms of {period}");
        }
    }

    #[test]
    fn what_is_held_back_counts_for_the_round_in_which_it_was() {
        let at = |ms| Time::ZERO + MS * ms;
        // Little goes, and something waits.
        let round = Round { above: MS * 3, arrived: 5_000, ..Round::begin(at(0), 0) };
        let round = round.measured(MS * 20, MS * 20, 100.0, [Duration::ZERO; 2]);
        let mut room = Room { pace: Some(1e6), ..Room::default() };
        assert!(!room.is_full(at(20), &round));
        room.asked(at(20), false);
        assert!(room.is_full(at(40), &round), "since it began, and still");
        room.judge(at(40), false, MS * 20, false);
        room.asked(at(41), true);
        assert!(!room.is_full(at(60), &round), "for a millisecond of this one");
        room.asked(at(60), false);
        room.ran_dry(at(70));
        assert!(room.is_full(at(80), &round), "until it went out of date");
    }
}
