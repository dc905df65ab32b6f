//! How many states may be under way: no more than the path carries, where the session alone would fill its queue.

use taut_core::{Deadline, Duration, Time};

/// Keeps the session's own standing queue out of the network, so that an emergency stop does not wait behind states.
///
/// It looks at round trips of packets: those of states or, where lost states are repeated and others wait for that, those
/// that the transport measures. A round begins with a state and ends when that or a newer one is acknowledged. Its *standing
/// delay* is the least round trip in it less the least of the last half minute: what never went away while it lasted (as
/// CoDel's, RFC 8289 section 3.2). By Little's law, throughput × least round trip is what the path itself carries, and the
/// rest waits.
///
/// | | the window |
/// | --- | --- |
/// | free: no standing delay | none; nothing is held back, whatever is lost |
/// | a standing delay through three rounds | a quarter less than is under way: a *trial* |
/// | the trial does not shorten the round trip by half of that, or costs throughput | free again: the queue is somebody else's, and yielding to it would starve (the test that Copa, NSDI 2018 section 2.2, makes before it competes). Not tried again for 1 s, 2 s … 64 s |
/// | it does | held: throughput × least round trip, then less by what waits above [`TARGET`], more while nothing waits (Vegas; RFC 6817 section 2.4.2) |
/// | held, and cuts cost throughput and did not shorten the delay by what they took, or the window was not the limit for eight rounds | free |
///
/// States go as far apart as the window spreads them over the least round trip, not when acknowledgements come: two at once
/// would be a queue, or one packet of twice the length.
///
/// What is under way is what was sent after the newest state that is known to have arrived: neither losses nor lost
/// acknowledgements fill the window.
#[derive(Debug)]
pub(crate) struct Flight {
    enabled: bool,
    /// States sent, and the newest of them that arrived, counted from 1.
    sent: u64,
    arrived: u64,
    /// When something was last acknowledged, or the window was last given up for lost.
    progress: Time,
    mode: Mode,
    /// With a window, the next state goes then.
    due: Time,
    least: LeastRtt,
    round: Round,
    /// Rounds in a row with a standing delay, and the states per second that arrived in them, at best.
    standing: (u32, f64),
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
    Held(Held),
}

/// The queue is the session's own.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    window: u64,
    /// States per second that the path carried.
    rate: f64,
    /// The longest standing delay that the last cut leaves, if it cut off what waits.
    promised: Duration,
    /// Cuts that cost throughput and did not keep that.
    broken: u32,
    /// Rounds in a row in which the window was not the limit.
    unused: u32,
    /// Rounds in a row in which it grew.
    growing: u32,
    /// For how many rounds it has held.
    rounds: u32,
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
/// Rounds with a standing delay before a trial, and rounds that it lasts.
const ROUNDS: u32 = 3;
/// Less of the throughput than this: it costs states.
const FULL: f64 = 0.9;
/// Broken promises, and rounds without need, that end a window.
const BROKEN: u32 = 3;
const UNUSED: u32 = 8;
/// A window that held for so many rounds was right.
const PROVEN: u32 = 16;
/// After so many rounds of growth by one, by this part: the path may have become wider.
const STEADY: u32 = 4;
const GROWTH: u64 = 16;
/// A round lasts at least so long, and so many states: fewer say nothing.
const LEAST_ROUND: Duration = Duration::from_millis(20);
const LEAST_STATES: u64 = 8;
/// The window's own least: below two, every state would wait for the acknowledgement of the one before.
const LEAST_WINDOW: u64 = 2;
const PATIENCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(64));

impl Flight {
    pub(crate) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            sent: 0,
            arrived: 0,
            progress: Time::ZERO,
            mode: Mode::Free,
            due: Time::ZERO,
            least: LeastRtt::default(),
            round: Round::begin(Time::ZERO, 0),
            standing: (0, 0.0),
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
        let apart = self.apart();
        // A driver that wakes late makes up for half of that.
        self.due = self.due.max(now - apart / 2) + apart;
        self.sent
    }

    /// May another state go? `timeout`: after so long without an acknowledgement, all that was under way is given up.
    pub(crate) fn admits(&mut self, now: Time, timeout: Duration) -> bool {
        let Some(opens) = self.opens(timeout) else { return true };
        if now < opens {
            self.round.limited = true;
            return false;
        }
        if self.is_full() {
            self.arrived = self.sent;
            self.progress = now;
        }
        true
    }

    /// When the next state may go, if nothing is acknowledged before.
    pub(crate) fn poll_timeout(&self, timeout: Duration) -> Option<Deadline> {
        self.opens(timeout).map(|at| Deadline::new(at, "window"))
    }

    fn opens(&self, timeout: Duration) -> Option<Time> {
        self.window()?;
        Some(if self.is_full() { self.due.max(self.progress + timeout) } else { self.due })
    }

    fn is_full(&self) -> bool {
        self.window().is_some_and(|window| self.sent - self.arrived >= window)
    }

    /// The time between two states of a window that is spread over the least round trip.
    fn apart(&self) -> Duration {
        self.window().zip(self.least.get()).map_or(Duration::ZERO, |(window, least)| least / window)
    }

    /// The `number`th state that was sent arrived; a packet took `rtt` lately to be acknowledged, if that is known.
    pub(crate) fn acknowledged(&mut self, now: Time, number: u64, rtt: Option<Duration>) {
        self.seen(number);
        self.progress = now;
        let Some(rtt) = rtt else { return };
        self.least.record(now, rtt);
        self.round.least = self.round.least.min(rtt);
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
        self.arrived = self.arrived.max(number);
    }

    fn window(&self) -> Option<u64> {
        match self.mode {
            Mode::Free => None,
            Mode::Trial { window, .. } | Mode::Held(Held { window, .. }) => Some(window),
        }
    }

    fn judge(&mut self, now: Time, round: &Round) {
        let Some(least) = self.least.get() else { return };
        let seconds = now.saturating_since(round.began).as_secs_f64();
        let measured = Measured {
            least,
            rtt: round.least,
            rate: round.arrived as f64 / seconds,
            limited: round.limited,
        };
        if std::env::var("EMGDBG").is_ok() {
            eprintln!(
                "{:.3} {:?} least {:.2} rtt {:.2} rate {:.0} out {} lim {} settling {} std {:?} retry {:.2}",
                now.as_nanos() as f64 / 1e9, self.mode, least.as_millis_f64(), round.least.as_millis_f64(), measured.rate, self.sent-self.arrived, round.limited, self.settling, self.standing, self.retry.as_nanos() as f64/1e9
            );
        }
        match self.mode {
            Mode::Free => self.watch(now, &measured),
            Mode::Trial { window, rounds, before, rate } => {
                let shorter = measured.rtt <= before / 8 * 7;
                if shorter && !measured.limited {
                    // The queue went by itself.
                    self.mode = Mode::Free;
                } else if shorter && measured.rate >= rate * FULL {
                    self.mode = Mode::Held(Held::new(measured.rate.max(rate), least));
                } else if rounds > 1 {
                    // The first rounds still see what was sent before.
                    self.mode = Mode::Trial { window, rounds: rounds - 1, before, rate };
                } else {
                    self.release(now);
                }
            }
            Mode::Held(_) if std::mem::take(&mut self.settling) => {}
            Mode::Held(mut held) => {
                let before = held.window;
                held.follow(&measured);
                self.settling = held.window != before;
                if held.rounds == PROVEN {
                    self.patience = PATIENCE.0;
                }
                if held.broken >= BROKEN || held.unused >= UNUSED {
                    self.release(now);
                } else {
                    self.mode = Mode::Held(held);
                }
            }
        }
    }

    /// Free: is there a queue that may be the session's own?
    fn watch(&mut self, now: Time, measured: &Measured) {
        let (rounds, best) = self.standing;
        self.standing = match measured.standing() > SUSPICIOUS {
            true => (rounds + 1, best.max(measured.rate)),
            false => (0, 0.0),
        };
        let (rounds, rate) = self.standing;
        if rounds >= ROUNDS && now >= self.retry {
            self.standing = (0, 0.0);
            let window = (measured.carried(measured.rtt) * 3 / 4).max(LEAST_WINDOW);
            self.mode = Mode::Trial { window, rounds: ROUNDS, before: measured.rtt, rate };
        }
    }

    fn release(&mut self, now: Time) {
        self.mode = Mode::Free;
        self.standing = (0, 0.0);
        self.retry = now + self.patience;
        self.patience = self.patience.saturating_mul(2).min(PATIENCE.1);
    }
}

/// A round that is over.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// The least round trip for long, and that of the round.
    least: Duration,
    rtt: Duration,
    /// States per second that arrived.
    rate: f64,
    limited: bool,
}

impl Measured {
    fn standing(&self) -> Duration {
        self.rtt.saturating_sub(self.least)
    }

    /// Little's law.
    fn carried(&self, delay: Duration) -> u64 {
        (self.rate * delay.as_secs_f64()) as u64
    }
}

impl Held {
    fn new(rate: f64, least: Duration) -> Self {
        let window = ((rate * least.as_secs_f64()) as u64).max(LEAST_WINDOW);
        Self { window, rate, promised: Duration::MAX, broken: 0, unused: 0, growing: 0, rounds: 0 }
    }

    fn follow(&mut self, measured: &Measured) {
        let standing = measured.standing();
        self.rounds += 1;
        // A path that carries the states has its moments; one that does not, never is without limit.
        self.unused = if measured.limited { self.unused.saturating_sub(2) } else { self.unused + 1 };
        if standing > TARGET {
            self.broken += u32::from(standing > self.promised && measured.rate < self.rate * FULL);
            let excess = measured.carried(standing.saturating_sub(TARGET / 2)).max(1);
            let cut = excess.min(self.window.div_ceil(4)).min(self.window - LEAST_WINDOW);
            self.window -= cut;
            // Half of it will do.
            self.promised = standing.saturating_sub(Duration::from_secs_f64(cut as f64 / measured.rate / 2.0));
            self.growing = 0;
            return;
        }
        (self.promised, self.broken) = (Duration::MAX, 0);
        if measured.limited {
            self.rate = (self.rate * 3.0 + measured.rate) / 4.0;
        }
        if measured.limited && standing < TARGET / 4 {
            self.growing += 1;
            self.window += if self.growing > STEADY { (self.window / GROWTH).max(1) } else { 1 };
        } else {
            self.growing = 0;
        }
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
                flight: Flight::new(true),
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
                        self.flight.acknowledged(at, number, Some(at - sent));
                    }
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
