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
/// | a standing delay through three rounds | what the path itself carries, but no less than half of what is under way |
/// | the delay does not go with it | free: the queue is somebody else's, and yielding to it would starve (the test that Copa, NSDI 2018 section 2.2, makes before it competes). Not tried again for 1 s, 2 s … 64 s |
/// | it does | less by what waits above [`TARGET`], more while nothing waits (Vegas; RFC 6817 section 2.4.2) |
/// | cuts cost throughput and the delay does not go with them, or the window was not the limit for eight rounds | free |
///
/// States go as far apart as the window spreads them over the least round trip, not when acknowledgements come: two at once
/// would be a queue, or one packet of twice the length. While more than the window is under way they go at half the rate at
/// which they arrive, for silence would stop the robot.
///
/// What is under way is what was sent after the newest state that is known to have arrived: neither losses nor lost
/// acknowledgements fill the window.
#[derive(Debug)]
pub(crate) struct Flight {
    enabled: bool,
    /// States sent, and the newest of them that arrived, counted from 1.
    sent: u64,
    arrived: u64,
    /// When the last one was to go.
    last: Time,
    window: Option<Window>,
    least: LeastRtt,
    round: Round,
    /// Without a window: rounds in a row with a standing delay, the states that arrived in them, and the time that took.
    standing: (u32, u64, Duration),
    /// No window before.
    retry: Time,
    patience: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    size: u64,
    /// It changed when the present round began, which tells of what was sent before.
    settling: bool,
    /// The longest standing delay that the last cut leaves.
    promised: Duration,
    /// Cuts that did not keep that, and cost throughput.
    broken: u32,
    /// States per second that arrived, smoothed.
    rate: f64,
    /// And while nothing waited; `None` before the queue was seen to go.
    full_rate: Option<f64>,
    /// Rounds in which it held, rounds in a row in which it grew, and in which it was not the limit.
    rounds: u32,
    growing: u32,
    unused: u32,
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
    /// It began with more under way than the window.
    full: bool,
}

/// A round that is over.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// The least round trip for long, and that of the round.
    least: Duration,
    rtt: Duration,
    /// States that arrived, and how long it took.
    arrived: u64,
    length: Duration,
    limited: bool,
    full: bool,
}

/// What may wait: a stop has a millisecond in all, and a packet that is being sent is not interrupted.
const TARGET: Duration = Duration::from_micros(500);
/// So long a standing delay, for so many rounds, asks for a window.
const SUSPICIOUS: Duration = Duration::from_millis(1);
const ROUNDS: u32 = 3;
/// Less of the throughput than this: it costs states. So often a window that was right may do that in vain.
const FULL: f64 = 0.9;
const BROKEN: u32 = 3;
/// Rounds without need that end a window, and rounds that prove it right.
const UNUSED: u32 = 8;
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
            last: Time::ZERO,
            window: None,
            least: LeastRtt::default(),
            round: Round::begin(Time::ZERO, 0),
            standing: (0, 0, Duration::ZERO),
            retry: Time::ZERO,
            patience: PATIENCE.0,
        }
    }

    /// A state goes; its number among all that were sent.
    pub(crate) fn sent(&mut self, now: Time) -> u64 {
        // A driver that wakes late makes up for it, up to half of what lies between two states.
        let apart = self.apart().unwrap_or_default();
        self.last = (self.last + apart).max(now - apart / 2).min(now);
        self.sent += 1;
        if self.sent == 1 {
            self.round = Round::begin(now, 1);
        }
        self.sent
    }

    /// May another state go?
    pub(crate) fn admits(&mut self, now: Time) -> bool {
        let admitted = self.apart().is_none_or(|apart| now >= self.last + apart);
        self.round.limited |= !admitted;
        admitted
    }

    /// When a window lets the next state go.
    pub(crate) fn poll_timeout(&self) -> Option<Deadline> {
        self.apart().map(|apart| Deadline::new(self.last + apart, "window"))
    }

    /// The time between two states.
    fn apart(&self) -> Option<Duration> {
        let (window, least) = self.window.zip(self.least.get())?;
        Some(if self.sent - self.arrived < window.size {
            least / window.size
        } else {
            Duration::from_secs_f64(2.0 / window.rate)
        })
    }

    /// The `number`th state that was sent arrived; a packet took `rtt` lately to be acknowledged, if that is known.
    pub(crate) fn acknowledged(&mut self, now: Time, number: u64, rtt: Option<Duration>) {
        self.seen(number);
        let Some(rtt) = rtt else { return };
        let least = self.least.record(now, rtt);
        self.round.least = self.round.least.min(rtt);
        let length = now.saturating_since(self.round.began);
        // While the queue grows, a whole round takes ever longer; free, the path's own round trip is enough to see it.
        let whole = number >= self.round.ends || (self.window.is_none() && length >= least);
        if self.enabled && whole && length >= LEAST_ROUND && self.round.arrived >= LEAST_STATES {
            let round = std::mem::replace(&mut self.round, Round::begin(now, self.sent + 1));
            let Round { least: rtt, arrived, limited, full, .. } = round;
            let under_way = self.sent - self.arrived;
            self.judge(now, &Measured { least, rtt, arrived, length, limited, full });
            self.round.full = self.window.is_some_and(|window| under_way > window.size);
        }
    }

    /// It arrived, and nobody knows when.
    pub(crate) fn seen(&mut self, number: u64) {
        self.round.arrived += 1;
        self.arrived = self.arrived.max(number);
    }

    fn judge(&mut self, now: Time, measured: &Measured) {
        if std::env::var("EMGDBG").is_ok() {
            eprintln!(
                "{:.3} least {:.2} rtt {:.2} rate {:.0} out {} lim {} std {:?} retry {:.2} {:?}",
                now.as_nanos() as f64 / 1e9, measured.least.as_millis_f64(), measured.rtt.as_millis_f64(), measured.rate(), self.sent-self.arrived, measured.limited, self.standing, self.retry.as_nanos() as f64/1e9, self.window
            );
        }
        let Some(window) = &mut self.window else { return self.watch(now, measured) };
        if !window.follow(measured) {
            self.window = None;
            self.retry = now + self.patience;
            self.patience = self.patience.saturating_mul(2).min(PATIENCE.1);
        } else if window.rounds == PROVEN {
            self.patience = PATIENCE.0;
        }
    }

    /// There is no window: is there a queue that may be the session's own?
    fn watch(&mut self, now: Time, measured: &Measured) {
        let (rounds, arrived, length) = self.standing;
        self.standing = match measured.standing() > SUSPICIOUS {
            true => (rounds + 1, arrived + measured.arrived, length + measured.length),
            false => (0, 0, Duration::ZERO),
        };
        let (rounds, arrived, length) = self.standing;
        if rounds >= ROUNDS && now >= self.retry {
            // What a repetition kept back comes all at once: the mean over all of them.
            self.window = Some(Window::begin(&Measured { arrived, length, ..*measured }));
            self.standing = (0, 0, Duration::ZERO);
        }
    }
}

impl Measured {
    fn standing(&self) -> Duration {
        self.rtt.saturating_sub(self.least)
    }

    /// States per second.
    fn rate(&self) -> f64 {
        self.arrived as f64 / self.length.as_secs_f64()
    }

    /// By Little's law, what is under way for so long.
    fn states(&self, delay: Duration) -> u64 {
        (self.rate() * delay.as_secs_f64()) as u64
    }
}

impl Window {
    fn begin(measured: &Measured) -> Self {
        let [under_way, carried] = [measured.rtt, measured.least].map(|delay| measured.states(delay));
        let mut window = Self {
            size: under_way.max(LEAST_WINDOW),
            settling: true,
            promised: Duration::MAX,
            broken: 0,
            rate: measured.rate(),
            full_rate: None,
            rounds: 0,
            growing: 0,
            unused: 0,
        };
        window.cut(measured, under_way.saturating_sub(carried.max(under_way / 2)));
        window
    }

    /// What a round told of it. False when it is not to stay.
    fn follow(&mut self, measured: &Measured) -> bool {
        self.rate = (self.rate * 3.0 + measured.rate()) / 4.0;
        if std::mem::take(&mut self.settling) || measured.full {
            return true;
        }
        self.rounds += 1;
        // A path that carries the states has its moments; one that does not, never is without limit.
        self.unused = if measured.limited { self.unused.saturating_sub(2) } else { self.unused + 1 };
        let standing = measured.standing();
        if standing > self.promised {
            match self.full_rate {
                None => return false,
                Some(full) => self.broken += u32::from(measured.rate() < full * FULL),
            }
        }
        let full = *self.full_rate.get_or_insert(measured.rate());
        if standing > TARGET {
            self.growing = 0;
            let excess = measured.states(standing.saturating_sub(TARGET / 2)).max(1);
            self.cut(measured, excess.min(self.size.div_ceil(4)));
        } else {
            (self.promised, self.broken) = (Duration::MAX, 0);
            if measured.limited {
                self.full_rate = Some((full * 3.0 + measured.rate()) / 4.0);
            }
            let grows = measured.limited && standing < TARGET / 4;
            self.growing = if grows { self.growing + 1 } else { 0 };
            self.size += match self.growing {
                0 => 0,
                1..=STEADY => 1,
                _ => (self.size / GROWTH).max(1),
            };
            self.settling = grows;
        }
        self.broken < BROKEN && self.unused < UNUSED
    }

    /// So many states less shorten the delay by the time in which as many arrive. A quarter of it will do: states that
    /// travel alone are longer than those that share packets.
    fn cut(&mut self, measured: &Measured, states: u64) {
        let states = states.min(self.size.saturating_sub(LEAST_WINDOW));
        let less = Duration::from_secs_f64(states as f64 / measured.rate() / 4.0);
        self.promised = measured.standing().saturating_sub(less);
        self.size -= states;
        self.settling = states > 0;
    }
}

impl Round {
    fn begin(now: Time, ends: u64) -> Self {
        Self { began: now, ends, least: Duration::MAX, arrived: 0, limited: false, full: false }
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

    /// The least so far.
    fn record(&mut self, now: Time, rtt: Duration) -> Duration {
        if now.saturating_since(self.began) >= Self::WINDOW {
            self.windows = [None, self.windows[0]];
            self.began = now;
        }
        let present = self.windows[0].map_or(rtt, |least| least.min(rtt));
        self.windows[0] = Some(present);
        self.windows[1].map_or(present, |last| last.min(present))
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
                if self.waits && self.flight.admits(self.now) {
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
            
            path.run(MS * 4_000);
            let (sent, longest) = path.run(MS * 20_000);
            assert!(sent > 13_800, "{sent} of 15384 that fit");
            assert!(longest <= MS * 3, "{longest}");
        }
    }

    #[test]
    fn repetitions_that_take_their_time_are_no_queue() {
        let mut path = Path::new(MS / 2);
        
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
        assert!(path.flight.window.is_some());
    }
}
