//! How many states may be under way: no more than the path carries, where the session alone would fill its queue.

mod round;

use taut_core::{Deadline, Duration, Time};

use self::round::{Delays, Measured, Round};

/// Keeps the session's own standing queue out of the network, so that an emergency stop does not wait behind states.
///
/// The window is that of FAST TCP (Wei, Jin, Low and Hegde, IEEE/ACM Transactions on Networking 14(6), 2006, equation 1, with
/// γ = 1): once a round, *w* ← *w* · base / RTT + α. In its one equilibrium α states of the session wait in the queue
/// ([`ALPHA`]). The base is the least round trip of the last half minute, RTT is the least of the round: what never went away
/// while it lasted stands (CoDel, RFC 8289). What waits inside the transport, for its congestion control or for a repetition, is
/// no queue in the network: exchanges of clocks, which go past it, tell ([`Delays`]).
///
/// FAST alone yields to the queues of others until nothing is left. So there is no window until a delay has stood for
/// [`ROUNDS`], and each window after that says what will come of it if the queue is the session's own: by Little's law the round
/// trip goes with the window. [`BROKEN`] such promises more broken than kept, and the queue is somebody else's: no window
/// for [`PATIENCE`]. The first cut takes a quarter at most ([`TRIAL`]), and none leaves less than nine tenths of what arrived before.
/// A window that has not been the limit for [`UNUSED`] rounds goes as well.
///
/// Where lost states are repeated, the transport keeps what it was given, so that a queue in it is there to stay; there the window
/// has a ceiling from the beginning, twice what the path carries (BBR's `cwnd_gain`, draft-ietf-ccwg-bbr section 5.6.4.2), until
/// the queue was found to be somebody else's.
///
/// What is under way is what was sent after the newest state that is known to have arrived: neither losses nor lost
/// acknowledgements fill the window.
#[derive(Debug)]
pub(crate) struct Flight {
    enabled: bool,
    /// Lost states are repeated.
    reliable: bool,
    /// States sent, and the newest of them that arrived, counted from 1.
    sent: u64,
    arrived: u64,
    /// When something was last acknowledged, or the window was last given up for lost.
    progress: Time,
    /// Time between two states that are to go.
    interval: Duration,
    delays: Delays,
    /// States per second that arrived lately, at best.
    fastest: Option<f64>,
    window: Option<Window>,
    /// Without a window: rounds in a row with a standing delay, when they began, and what arrived in them.
    standing: (u32, Time, u64),
    /// The queue was found to be somebody else's: no window before.
    retry: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    size: f64,
    /// No less than this: it would cost states, and not only their queue.
    floor: f64,
    /// The round trip that it promises, and more than chance adds.
    promised: Duration,
    /// How long it was at the first cut, and how many states a second arrived.
    before: (Duration, f64),
    /// Promises broken, less those kept since.
    broken: u32,
    /// Rounds in a row in which it grew, or was not the limit.
    rising: u32,
    unused: u32,
    /// What has to arrive before a cut shows.
    settling: Option<Settling>,
    /// When it is next made smaller to see the base, and what it was before that.
    drain: Time,
    full: Option<f64>,
}

/// A state that was sent after the cut, then one that was sent after that one's arrival: until then the queue may have run
/// dry, because nothing went, or because what was lost was still counted.
#[derive(Clone, Copy, Debug)]
struct Settling {
    state: u64,
    last: bool,
}

/// States of the session that wait in the queue: less than one, for a stop has a millisecond in all.
const ALPHA: f64 = 0.25;
/// A standing delay that is not worth a trial; rounds in a row with a longer one before it.
const SUSPICIOUS: Duration = Duration::from_millis(1);
const ROUNDS: u32 = 3;
/// What the first cut leaves of what is under way, and every one of what arrived before.
const TRIAL: f64 = 0.75;
const FLOOR: f64 = 0.9;
/// States by which a cut is large enough to be waited for.
const LEAST_CUT: f64 = 2.0;
const BROKEN: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(2);
const UNUSED: u32 = 8;
/// The path may have become wider: after so many rounds of growth it goes on by so much a round.
const STEADY: u32 = 16;
const GROWTH: f64 = 1.0 / 32.0;
/// And by this, while nothing stands and fewer states arrive than before: then the window costs them.
const AMENDS: f64 = 1.0 / 8.0;
/// So often the window is so much smaller until the queue has gone, for a base that was never without a queue is too long
/// (BBR's ProbeRTT, section 5.3.4); after that it grows by so much with each state that arrives, for all at once would be
/// a queue again.
const DRAIN: (Duration, f64) = (Duration::from_secs(10), 0.875);
const REFILL: f64 = 1.0 / 32.0;
/// The ceiling leaves room for a queue of the base, and of this at least.
const ROOM: Duration = Duration::from_millis(20);
/// Below two, every state would wait for the acknowledgement of the one before.
const LEAST_WINDOW: f64 = 2.0;

impl Flight {
    pub(crate) fn new(enabled: bool, reliable: bool) -> Self {
        Self {
            enabled,
            reliable,
            sent: 0,
            arrived: 0,
            progress: Time::ZERO,
            interval: Duration::from_millis(1),
            delays: Delays::new(reliable),
            fastest: None,
            window: None,
            standing: (0, Time::ZERO, 0),
            retry: None,
        }
    }

    /// A state goes; its number among all that were sent.
    pub(crate) fn sent(&mut self, now: Time) -> u64 {
        if self.sent == self.arrived {
            self.progress = now;
        }
        self.sent += 1;
        if self.sent == 1 {
            self.delays.round = Round::begin(now);
        }
        self.sent
    }

    /// May another state go, of which one is to go each `interval`? `timeout`: after so long without an acknowledgement, all
    /// that was under way is given up.
    pub(crate) fn admits(&mut self, now: Time, interval: Duration, timeout: Duration) -> bool {
        self.interval = interval;
        if !self.is_closed() {
            return true;
        }
        if now >= self.progress + timeout {
            self.arrived = self.sent;
            self.progress = now;
            return true;
        }
        self.delays.round.limited = true;
        false
    }

    /// When a closed window opens without an acknowledgement.
    pub(crate) fn poll_timeout(&self, timeout: Duration) -> Option<Deadline> {
        self.is_closed().then(|| Deadline::new(self.progress + timeout, "window"))
    }

    fn is_closed(&self) -> bool {
        let size = self.window.map(|window| window.size).or_else(|| self.ceiling());
        size.is_some_and(|size| self.sent - self.arrived >= size as u64)
    }

    fn ceiling(&self) -> Option<f64> {
        let base = self.delays.base().filter(|_| self.enabled && self.reliable && self.retry.is_none())?;
        let rate = self.fastest.unwrap_or(1.0 / self.interval.as_secs_f64());
        let longest = base + base.max(ROOM) + self.delays.inside;
        Some((rate * longest.as_secs_f64()).max(LEAST_WINDOW))
    }

    /// The `number`th state that was sent arrived, `rtt` ago.
    pub(crate) fn acknowledged(&mut self, now: Time, number: u64, rtt: Duration) {
        self.delays.state(now, rtt);
        self.progress = now;
        self.seen(number);
        if !self.window.as_mut().is_none_or(|window| window.is_steady(number, self.sent)) {
            self.delays.round = Round::begin(now);
        } else if let Some(measured) =
            self.delays.end_round(now, self.window.is_some()).filter(|_| self.enabled)
        {
            self.fastest =
                Some(self.fastest.map_or(measured.rate, |fastest| measured.rate.max(fastest * 0.9)));
            match self.window.take() {
                None => self.watch(now, &measured),
                Some(window) => self.follow(now, window, &measured),
            }
        }
    }

    /// Shall clocks be compared more often, for there may be a queue and it takes exchanges to tell?
    pub(crate) fn asks(&self) -> bool {
        self.reliable && (self.window.is_some() || self.delays.round.limited || self.standing.0 > 0)
    }

    /// It arrived, and nobody knows when.
    pub(crate) fn seen(&mut self, number: u64) {
        self.delays.round.arrived += 1;
        self.arrived = self.arrived.max(number);
    }

    /// A clock request and its answer took so long.
    pub(crate) fn exchanged(&mut self, now: Time, rtt: Duration) {
        self.delays.exchange(now, rtt);
    }

    /// There is no window: is there a queue that may be the session's own?
    fn watch(&mut self, now: Time, measured: &Measured) {
        let (rounds, began, arrived) = self.standing;
        self.standing = match rounds {
            _ if measured.standing <= SUSPICIOUS => return self.standing.0 = 0,
            0 => (1, measured.began, measured.arrived),
            _ => (rounds + 1, began, arrived + measured.arrived),
        };
        if self.standing.0 < ROUNDS || self.retry.is_some_and(|retry| now < retry) {
            return;
        }
        // By Little's law, so much is in the network, and so much of it in no queue.
        let rate = self.standing.2 as f64 / now.saturating_since(self.standing.1).as_secs_f64();
        let [under_way, carried] = [measured.rtt(), measured.base].map(|delay| rate * delay.as_secs_f64());
        let size = (carried + ALPHA).max(TRIAL * under_way).max(LEAST_WINDOW);
        (self.standing.0, self.retry) = (0, None);
        self.window = Some(Window {
            size: under_way,
            floor: (FLOOR * carried).max(LEAST_WINDOW),
            promised: Duration::MAX,
            before: (measured.rtt(), rate),
            broken: 0,
            rising: 0,
            unused: 0,
            settling: None,
            drain: now,
            full: None,
        });
        self.window.iter_mut().for_each(|window| window.resize(size, measured, self.sent));
    }

    fn follow(&mut self, now: Time, mut window: Window, measured: &Measured) {
        // Where states are repeated they arrive in bursts, and a round's rate says little.
        window.judge(measured, !self.reliable);
        if window.broken >= BROKEN {
            self.retry = Some(now + PATIENCE);
            return;
        }
        window.unused = if measured.limited { 0 } else { window.unused + 1 };
        if window.unused >= UNUSED {
            return;
        }
        window.update(measured, self.sent);
        if now >= window.drain {
            window.drain = now + DRAIN.0;
            window.full = Some(window.size);
            window.cut_to((window.size * DRAIN.1).max(LEAST_WINDOW), self.sent);
        }
        self.window = Some(window);
    }
}

impl Window {
    /// Does the last cut show, now that the state of this number has arrived, and is the window what it shall be?
    fn is_steady(&mut self, number: u64, sent: u64) -> bool {
        match self.settling {
            Some(settling) if number < settling.state => {}
            Some(settling) if !settling.last => {
                self.settling = Some(Settling { state: sent + 1, last: true })
            }
            Some(_) => self.settling = None,
            None => {
                let Some(full) = self.full else { return true };
                self.size = (self.size + REFILL).min(full);
                self.full = (self.size < full).then_some(full);
            }
        }
        false
    }

    /// Did the round trip go with the window?
    fn judge(&mut self, measured: &Measured, decisive: bool) {
        // At the floor nothing of the session's can wait.
        let foreign = self.size <= self.floor && measured.standing > SUSPICIOUS;
        let kept = measured.rtt() <= self.promised && !foreign;
        // A queue of the session's own stays busy: it does not stand as before while fewer arrive.
        let (rtt, rate) = self.before;
        let costs = decisive && measured.rtt() >= rtt - rtt / 16 && measured.rate < FLOOR * rate;
        self.broken = match kept {
            true => self.broken.saturating_sub(1),
            false if costs => BROKEN,
            false => self.broken + 1,
        };
    }

    /// FAST, equation 1.
    fn update(&mut self, measured: &Measured, sent: u64) {
        let share = measured.base.as_secs_f64() / measured.rtt().as_secs_f64();
        let next = (self.size * share + ALPHA).max(self.floor);
        if next < self.size {
            self.rising = 0;
            self.resize(next, measured, sent);
        } else if measured.limited {
            self.rising += 1;
            let costs = measured.standing <= SUSPICIOUS && measured.rate < FLOOR * self.before.1;
            let wider = match () {
                () if costs => self.size * (1.0 + AMENDS),
                () if self.rising > STEADY => self.size * (1.0 + GROWTH),
                () => next,
            };
            self.resize(next.max(wider), measured, sent);
        } else {
            self.promised = Duration::MAX;
        }
    }

    fn resize(&mut self, size: f64, measured: &Measured, sent: u64) {
        let rtt = measured.rtt();
        let promised = Duration::from_secs_f64(rtt.as_secs_f64() * size / self.size).max(measured.base);
        // A few packets may come between, and half of what a cut promised will do.
        let (few, less) = (Duration::from_secs_f64(2.0 / measured.rate), rtt.saturating_sub(promised));
        self.promised = promised + (less / 2).max(SUSPICIOUS).max(few);
        if self.size - size >= LEAST_CUT {
            self.cut_to(size, sent);
        }
        self.size = size;
    }

    fn cut_to(&mut self, size: f64, sent: u64) {
        self.size = size;
        self.settling = Some(Settling { state: sent + 1, last: false });
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
        waits: u64,
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
                waits: 0,
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
                self.waits += u64::from(self.now.as_nanos().is_multiple_of(self.period.as_nanos()));
                // The newest goes, where none is reliable.
                self.waits = self.waits.min(if self.flight.reliable { 2_000 } else { 1 });
                while self.waits > 0 && self.flight.admits(self.now, self.period, MS * 500) {
                    self.waits -= 1;
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
        assert!(path.flight.window.is_some());
    }
}
