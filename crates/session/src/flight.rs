//! How many states may be under way: no more than the path carries, where the session alone would fill its queue.

use taut_core::{Deadline, Duration, Time};

/// Keeps the session's own standing queue out of the network and of the transport, so that an emergency stop does not
/// wait behind states.
///
/// A round begins with a state and ends when that or a newer one is acknowledged. Its *standing delay* is the least
/// round trip in it less the least of the last half minute: what never went away while it lasted (as CoDel's, RFC 8289
/// section 3.2). By Little's law, throughput × least round trip is what the path itself carries, and the rest waits.
///
/// | | the window |
/// | --- | --- |
/// | free: no standing delay | none; nothing is held back, whatever is lost |
/// | a standing delay through three rounds; where lost states are repeated, through three exchanges of clocks as well, by a round trip, and a tenth less arrives than is sent three times in a row | a quarter less than is under way: a *trial* |
/// | the trial does not shorten the round trip by half of that, or costs throughput | free again: the queue is somebody else's, and yielding to it would starve (the test that Copa, NSDI 2018 section 2.2, makes before it competes). Not tried again for 1 s, 2 s … 64 s |
/// | it does | held: throughput × least round trip, then less by what waits above [`TARGET`], more by 1, 1, 1, 2, 4 … while nothing waits (Vegas; RFC 6817 section 2.4.2) |
/// | held, and two cuts did not halve the standing delay, or the window was not the limit for eight rounds | free |
///
/// What is under way is what was sent after the newest state that is known to have arrived: neither losses nor lost
/// acknowledgements fill the window.
#[derive(Debug)]
pub(crate) struct Flight {
    enabled: bool,
    /// Lost states are repeated: those behind them wait for that, and their round trip says little of queues.
    reliable: bool,
    /// States sent, and the newest of them that arrived, counted from 1.
    sent: u64,
    arrived: u64,
    /// When something was last acknowledged, or the window was last given up for lost.
    progress: Time,
    mode: Mode,
    least: LeastRtt,
    round: Round,
    /// Rounds in a row with a standing delay before a trial, and of a held window that was not used.
    standing: u32,
    /// When it was last asked whether less arrives than is sent, the states that were sent then, and those that had
    /// arrived; how often in a row it was so.
    since: (Time, u64, u64),
    delivered: u64,
    behind: u32,
    /// The last exchanges of clocks, and the least for long.
    exchanges: [Option<Duration>; 3],
    least_exchange: LeastRtt,
    unused: u32,
    /// Cuts of a held window that did not halve the standing delay, and that delay.
    strikes: u32,
    last_standing: Duration,
    /// For how many rounds it has held, and in how many of them repetitions hid what it did.
    held: u32,
    repeating: u32,
    /// Four times by how much the window grows next.
    step: u64,
    /// The window changed when the present round began: it tells of what was sent before.
    settling: bool,
    /// No trial before.
    retry: Time,
    patience: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Free,
    /// Rounds that the trial has left; the least round trip and the states per second before it.
    Trial {
        window: u64,
        rounds: u32,
        before: Duration,
        rate: f64,
    },
    Held {
        window: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Round {
    began: Time,
    /// It ends when this state, or a newer one, is acknowledged.
    ends: u64,
    least: Duration,
    arrived: u64,
    /// The window held a state back.
    limited: bool,
}

/// What may wait: a stop has a millisecond in all, and a packet that is being sent is not interrupted.
const TARGET: Duration = Duration::from_micros(500);
/// A standing delay that is not worth a trial.
const SUSPICIOUS: Duration = Duration::from_millis(1);
/// Where lost states are repeated, less than nine in ten must arrive for so long, and for three round trips, so often in a
/// row.
const BEHIND_FOR: Duration = Duration::from_millis(100);
const BEHIND_TIMES: u32 = 3;
/// A window that held for so many rounds was right.
const PROVEN: u32 = 16;
/// A round lasts at least so long, and so many states: fewer say nothing.
const LEAST_ROUND: Duration = Duration::from_millis(20);
const LEAST_STATES: u64 = 8;
/// The window's own least: below two, every state would wait for the acknowledgement of the one before.
const LEAST_WINDOW: u64 = 2;
const PATIENCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(64));

impl Flight {
    pub(crate) fn new(enabled: bool, reliable: bool) -> Self {
        Self {
            enabled,
            reliable,
            sent: 0,
            arrived: 0,
            progress: Time::ZERO,
            mode: Mode::Free,
            least: LeastRtt::default(),
            round: Round::begin(Time::ZERO, 0),
            standing: 0,
            since: (Time::ZERO, 0, 0),
            delivered: 0,
            behind: 0,
            exchanges: [None; 3],
            least_exchange: LeastRtt::default(),
            unused: 0,
            strikes: 0,
            held: 0,
            repeating: 0,
            last_standing: Duration::MAX,
            step: 1,
            settling: false,
            retry: Time::ZERO,
            patience: PATIENCE.0,
        }
    }

    /// A state goes; its number among all that were sent.
    pub(crate) fn sent(&mut self, now: Time) -> u64 {
        if self.sent == self.arrived {
            self.progress = now;
        }
        self.sent += 1;
        if self.sent == 1 {
            self.round = Round::begin(now, 1);
        }
        self.sent
    }

    /// May another state go? `timeout`: after so long without an acknowledgement, all that was under way is given up.
    pub(crate) fn admits(&mut self, now: Time, timeout: Duration) -> bool {
        let Some(window) = self.window() else { return true };
        if self.sent - self.arrived < window {
            return true;
        }
        if now >= self.progress + timeout {
            self.arrived = self.sent;
            self.progress = now;
            return true;
        }
        self.round.limited = true;
        false
    }

    /// When a closed window opens without an acknowledgement.
    pub(crate) fn poll_timeout(&self, timeout: Duration) -> Option<Deadline> {
        let closed = self.window().is_some_and(|window| self.sent - self.arrived >= window);
        closed.then(|| Deadline::new(self.progress + timeout, "window"))
    }

    /// The `number`th state that was sent arrived, `rtt` ago.
    pub(crate) fn acknowledged(&mut self, now: Time, number: u64, rtt: Duration) {
        self.least.record(now, rtt);
        self.round.least = self.round.least.min(rtt);
        self.seen(number);
        self.progress = now;
        let (length, states) = (now.saturating_since(self.round.began), self.round.arrived);
        // While the queue grows, a whole round takes ever longer; free, the path's own round trip is enough to see it.
        let free = self.mode == Mode::Free && self.least.get().is_some_and(|least| length >= least);
        if length >= LEAST_ROUND && states >= LEAST_STATES && (free || number >= self.round.ends) {
            let round = std::mem::replace(&mut self.round, Round::begin(now, self.sent + 1));
            if self.enabled {
                self.judge(now, &round);
            }
        }
    }

    /// It arrived, and nobody knows when.
    pub(crate) fn seen(&mut self, number: u64) {
        self.round.arrived += 1;
        self.delivered += 1;
        self.arrived = self.arrived.max(number);
    }

    fn window(&self) -> Option<u64> {
        match self.mode {
            Mode::Free => None,
            Mode::Trial { window, .. } | Mode::Held { window } => Some(window),
        }
    }

    fn judge(&mut self, now: Time, round: &Round) {
        let Some(least) = self.least.get() else { return };
        let standing = round.least.saturating_sub(least);
        let seconds = now.saturating_since(round.began).as_secs_f64();
        let rate = round.arrived as f64 / seconds;
        let carried = |delay: Duration| (rate * delay.as_secs_f64()) as u64;
        let (may_be_queue, is_queue) = (self.may_be_queue(4), self.may_be_queue(1));
        let behind = self.falls_behind(now, least) || !self.reliable;
        match &mut self.mode {
            Mode::Free => {
                self.standing = if standing > SUSPICIOUS { self.standing + 1 } else { 0 };
                if self.standing >= 3 && is_queue && behind && now >= self.retry {
                    self.standing = 0;
                    let window = (carried(round.least) * 3 / 4).max(LEAST_WINDOW);
                    self.mode = Mode::Trial { window, rounds: 3, before: round.least, rate };
                }
            }
            Mode::Trial { rounds, before, rate: rate_before, .. } => {
                // Its first rounds still see what was sent before.
                *rounds -= 1;
                let shorter = round.least <= *before / 8 * 7;
                if shorter && !round.limited {
                    // The queue went by itself.
                    self.mode = Mode::Free;
                } else if shorter && rate >= *rate_before * 0.9 {
                    self.mode = Mode::Held { window: carried(least).max(LEAST_WINDOW) };
                    (self.unused, self.step, self.held, self.repeating) = (0, 1, 0, 0);
                    (self.strikes, self.last_standing) = (0, Duration::MAX);
                } else if *rounds == 0 {
                    self.release(now);
                }
            }
            Mode::Held { .. } if std::mem::take(&mut self.settling) => {}
            Mode::Held { window } => {
                let before = *window;
                self.held += 1;
                if self.held == PROVEN {
                    self.patience = PATIENCE.0;
                }
                // A path that carries the states has its moments; one that does not, never is without limit.
                self.unused = if round.limited { self.unused.saturating_sub(2) } else { self.unused + 1 };
                if standing > SUSPICIOUS.max(least / 4) && !may_be_queue {
                    // A repetition takes its time. Where that goes on, the window was wrong.
                    self.repeating += 1;
                } else if standing > TARGET {
                    let excess = carried(standing.saturating_sub(TARGET / 2)).max(1);
                    *window = window.saturating_sub(excess).max(LEAST_WINDOW);
                    self.step = 1;
                    // What was cut off was all that waited, if it was ours.
                    let stays = standing > SUSPICIOUS && standing > self.last_standing / 2;
                    self.strikes += u32::from(stays);
                    self.last_standing = standing;
                } else {
                    (self.strikes, self.last_standing) = (0, Duration::MAX);
                    self.repeating = 0;
                    if round.limited && standing < TARGET / 4 {
                        *window += self.step.max(4) / 4;
                        self.step = (self.step * 2).min(256);
                    } else {
                        self.step = 1;
                    }
                }
                self.settling = *window != before;
                if self.strikes >= 2 || self.unused >= 8 || self.repeating >= 2 * PROVEN {
                    self.release(now);
                }
            }
        }
    }

    /// A clock request and its answer took so long: they wait for no repetition of a state.
    pub(crate) fn exchanged(&mut self, now: Time, rtt: Duration) {
        self.least_exchange.record(now, rtt);
        self.exchanges.rotate_right(1);
        self.exchanges[0] = Some(rtt);
    }

    /// May the delay be a queue? Where lost states are repeated, those behind them wait for that, and it takes the
    /// exchanges of clocks to tell.
    fn may_be_queue(&self, share: u64) -> bool {
        let lately = self.exchanges.iter().try_fold(Duration::MAX, |least, rtt| Some(least.min((*rtt)?)));
        let Some((lately, ever)) = lately.zip(self.least_exchange.get()) else { return !self.reliable };
        // A transport that repeats waits for its own window as well, a share of a round trip.
        !self.reliable || lately > ever + SUSPICIOUS.max(ever / share)
    }

    /// Does less arrive than is sent, again and again? After a repetition that took its time, what waited for it comes all
    /// at once.
    fn falls_behind(&mut self, now: Time, least: Duration) -> bool {
        let (since, sent, delivered) = self.since;
        if now.saturating_since(since) >= BEHIND_FOR.max(least * 3) {
            self.since = (now, self.sent, self.delivered);
            let behind = (self.delivered - delivered) * 10 < (self.sent - sent) * 9;
            self.behind = if behind { self.behind + 1 } else { 0 };
        }
        self.behind >= BEHIND_TIMES
    }

    fn release(&mut self, now: Time) {
        self.mode = Mode::Free;
        (self.standing, self.unused) = (0, 0);
        self.retry = now + self.patience;
        self.patience = self.patience.saturating_mul(2).min(PATIENCE.1);
    }
}

impl Round {
    fn begin(now: Time, ends: u64) -> Self {
        Self { began: now, ends, least: Duration::MAX, arrived: 0, limited: false }
    }
}

/// The least round trip of the last 15 to 30 s.
#[derive(Debug, Default)]
struct LeastRtt {
    windows: [Option<Duration>; 2],
    began: Time,
}

impl LeastRtt {
    const WINDOW: Duration = Duration::from_secs(15);

    fn record(&mut self, now: Time, rtt: Duration) {
        if now.saturating_since(self.began) >= Self::WINDOW {
            self.windows = [None, self.windows[0]];
            self.began = now;
        }
        self.windows[0] = Some(self.windows[0].map_or(rtt, |least| least.min(rtt)));
    }

    fn get(&self) -> Option<Duration> {
        self.windows.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const MS: Duration = Duration::from_millis(1);

    /// A path with a queue: states are made every `period`, each takes `service`, then 20 ms until it is acknowledged.
    struct Path {
        flight: Flight,
        now: Time,
        period: Duration,
        service: Duration,
        /// What others put into the queue.
        others: Duration,
        free_at: Time,
        under_way: VecDeque<(Time, Time, u64)>,
        lose: u64,
        waits: bool,
        longest: Duration,
        count: u64,
    }

    impl Path {
        fn new(service: Duration) -> Self {
            Self {
                flight: Flight::new(true, false),
                now: Time::ZERO + MS,
                period: MS,
                service,
                others: Duration::ZERO,
                free_at: Time::ZERO,
                under_way: VecDeque::new(),
                lose: u64::MAX,
                waits: false,
                longest: Duration::ZERO,
                count: 0,
            }
        }

        /// The states that go within so long, and the longest that one waits in the queue.
        fn run(&mut self, length: Duration) -> (u64, Duration) {
            (self.count, self.longest) = (0, Duration::ZERO);
            let end = self.now + length;
            while self.now < end {
                self.now += MS / 10;
                while let Some((at, sent, number)) =
                    self.under_way.front().copied().filter(|due| due.0 <= self.now)
                {
                    self.under_way.pop_front();
                    if !number.is_multiple_of(self.lose) {
                        self.flight.acknowledged(at, number, at - sent);
                    }
                }
                if self.now.as_nanos().is_multiple_of((MS * 100).as_nanos()) {
                    let queue = self.free_at.saturating_since(self.now);
                    self.flight.exchanged(self.now, queue + self.service + MS * 20);
                }
                self.waits |= self.now.as_nanos().is_multiple_of(self.period.as_nanos());
                if self.waits && self.flight.admits(self.now, MS * 500) {
                    self.waits = false;
                    let number = self.flight.sent(self.now);
                    let begins = self.free_at.max(self.now);
                    self.longest = self.longest.max(begins - self.now);
                    self.free_at = begins + self.service;
                    self.under_way.push_back((self.free_at + self.others + MS * 20, self.now, number));
                    self.count += 1;
                }
            }
            (self.count, self.longest)
        }
    }

    #[test]
    fn a_path_that_carries_all_holds_nothing_back_whatever_it_loses() {
        for lose in [20, u64::MAX] {
            let mut path = Path::new(MS / 2);
            path.lose = lose;
            assert_eq!(path.run(MS * 10_000).0, 10_000);
        }
    }

    #[test]
    fn its_own_queue_goes_and_the_path_stays_busy() {
        for reliable in [false, true] {
            let mut path = Path::new(Duration::from_micros(1_300));
            path.flight = Flight::new(true, reliable);
            path.run(MS * 4_000);
            let (sent, longest) = path.run(MS * 20_000);
            assert!(sent > 13_800, "{sent} of 15384 that fit");
            assert!(longest <= MS * 3, "{longest}");
        }
    }

    #[test]
    fn repetitions_that_take_their_time_are_no_queue() {
        let mut path = Path::new(MS / 2);
        path.flight = Flight::new(true, true);
        path.run(MS * 1_000);
        // As it looks when each state waits for the repetition of another.
        path.others = MS * 40;
        assert_eq!(path.run(MS * 20_000).0, 20_000);
    }

    #[test]
    fn somebody_elses_queue_takes_nothing_but_trials() {
        let mut path = Path::new(MS / 2);
        path.run(MS * 1_000);
        path.others = MS * 80;
        let (sent, _) = path.run(MS * 60_000);
        assert!(sent > 57_000, "{sent}");
    }

    #[test]
    fn a_path_that_becomes_wider_is_used_again() {
        let mut path = Path::new(MS * 5);
        path.run(MS * 8_000);
        path.service = MS / 2;
        path.run(MS * 2_000);
        let (sent, _) = path.run(MS * 1_000);
        assert!((990..=1_010).contains(&sent), "{sent}, {:?}", path.flight);
    }

    #[test]
    fn silence_opens_the_window_once_for_each_timeout() {
        let mut path = Path::new(MS * 5);
        path.run(MS * 3_000);
        path.under_way.clear();
        path.lose = 1;
        assert!(path.run(MS * 2_000).0 < 60);
        assert!(path.flight.window().is_some());
    }
}
