//! How many states may be under way: no more than the path carries, where the session alone would fill its queue.

mod least;
mod round;
#[cfg(test)]
mod tests;
mod window;

use taut_core::{Deadline, Duration, Time};

use least::Least;
use round::{Measured, Round, Standing};
use window::{Held, Stage, Window};

/// Keeps the session's own standing queue out of the network, so that an emergency stop does not wait behind states.
///
/// A round begins with a state and ends when that or a newer one is acknowledged. Its *standing delay* is the least
/// round trip in it less the least of the last half minute: what never went away while it lasted (as CoDel's, RFC 8289
/// section 3.2). The same is taken of the transport's packets, for where lost states are repeated, those behind them wait
/// for that and not in a queue; and of the way to the peer alone (as RFC 6817 section 2.2: two clocks that nobody set, but
/// their difference stays), for what waits on the way back is not the session's. The least of the three counts, and less
/// what chance does to a least where round trips scatter. By Little's law, throughput × least round trip is what the path itself
/// carries: with less than that under way, nothing of the session's waits.
///
/// | | the window |
/// | --- | --- |
/// | free | none; nothing is held back, whatever is lost |
/// | a standing delay through three rounds, and less arrives than is to go, by more than chance explains | a *trial*: three quarters of what the path itself carries, until a round was sent within it |
/// | half of the delay did not go with that | free: the queue is somebody else's, and yielding to it would starve (Copa, NSDI 2018 section 2.2, asks the same before it competes). Not tried again for 1 s, 2 s … 16 s, but once when the delay has doubled |
/// | it did | held: what the path carries, then less by what waits where that is more than [`TARGET`], more while nothing waits, in steps that double (Vegas; RFC 6817 section 2.4.2) |
/// | held, and a standing delay through three rounds, or more under way than the window through three | the next trial |
/// | held, and cuts cost throughput three times, or it was not the limit for eight rounds, or acknowledgements came late for eight though nothing waited, or no round ended for eight times as long as one takes | free |
///
/// What little a trial leaves of a delay is none of the session's own: it is the path's from then on, which became longer or
/// slower. Neither an outage under a window, nor what was sent under one that is no more, tells of the path.
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
    states: Least<Duration>,
    packets: Least<Duration>,
    there: Least<i64>,
    /// What chance did in the last rounds, to round trips and to the way to the peer.
    chances: [[Duration; 2]; 4],
    judged: usize,
    round: Round,
    standing: Standing,
    /// When the last acknowledgement came.
    heard: Time,
    /// What arrives until this state tells nothing of what goes now: it was sent before an outage ended, or under a window
    /// that is no more.
    stale: u64,
    /// No trial before.
    retry: Time,
    patience: Duration,
    /// The standing delay that the last trial did not take away, and whether one of twice that was tried since.
    failed: Duration,
    doubled: bool,
}

/// What may wait: a stop has a millisecond in all, and a packet that is being sent is not interrupted.
const TARGET: Duration = Duration::from_micros(250);
/// So long a standing delay, for so many rounds, asks whose queue it is.
const SUSPICIOUS: Duration = Duration::from_millis(1);
const ROUNDS: u32 = 3;
/// The part that is missing, times the square root of the rounds: a third in three of them, a tenth in 36.
const BEHIND: f64 = 0.6;
/// Rounds without need that end a window, and rounds that prove it right.
const UNUSED: u32 = 8;
const PROVEN: u32 = 16;
/// Less of the throughput than this part costs states; so often, and the queue is somebody else's.
const FULL: f64 = 0.8;
const COSTLY: u32 = 3;
/// So many times the window under way is much more than it.
const FAR: f64 = 1.25;
/// It grows by this part, and by twice as much after every so many rounds of growth, as often as that: where still nothing
/// waits, it was taken for much less than the path carries.
const GROWTH: f64 = 1.0 / 64.0;
const STEADY: u32 = 8;
const DOUBLINGS: u32 = 4;
/// After a cut it stays for so many rounds, that much below what the path carries.
const CALM: u32 = 16;
const SLACK: f64 = 1.0 / 32.0;
/// Where a trial leaves no more than this part of a standing delay, the rest was no queue.
const RESIDUE: u64 = 8;
/// The part of what the path carries that a trial leaves.
const TRIAL: f64 = 0.75;
/// A round lasts at least so long, and so many states: fewer say nothing.
const LEAST_ROUND: Duration = Duration::from_millis(20);
const LEAST_STATES: u64 = 8;
/// Where round trips vary, the least of a round is above the least of all by chance: by so many of their standard deviations.
const JITTER: f64 = 2.5;
/// The window's own least: below two, every state would wait for the acknowledgement of the one before.
const LEAST_WINDOW: f64 = 2.0;
/// After so long without an acknowledgement there was an outage.
const SILENCE: Duration = Duration::from_millis(100);
const PATIENCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(16));

impl Flight {
    pub(crate) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            sent: 0,
            arrived: 0,
            last: Time::ZERO,
            window: None,
            states: Least::default(),
            packets: Least::default(),
            there: Least::default(),
            chances: [[Duration::MAX; 2]; 4],
            judged: 0,
            round: Round::begin(Time::ZERO, 0),
            standing: Standing::default(),
            heard: Time::ZERO,
            stale: 0,
            retry: Time::ZERO,
            patience: PATIENCE.0,
            failed: Duration::MAX,
            doubled: false,
        }
    }

    /// A state goes; its number among all that were sent.
    pub(crate) fn sent(&mut self, now: Time) -> u64 {
        // A driver that wakes late makes up for it, up to half of what lies between two states.
        let apart = self.apart().unwrap_or_default();
        self.last = (self.last + apart).max(now - apart / 2).min(now);
        self.sent += 1;
        self.round.wanted += 1;
        if self.sent == 1 {
            self.round = Round::begin(now, 1);
        }
        self.sent
    }

    /// The transport did not take a state that was to go.
    pub(crate) fn refused(&mut self) {
        self.round.wanted += 1;
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
        let (window, base) = self.window.zip(self.states.get())?;
        let within = ((self.sent - self.arrived) as f64) < window.size * window.stretch;
        Some(if within {
            Duration::from_secs_f64(base.as_secs_f64() / window.size)
        } else {
            Duration::from_secs_f64(2.0 / window.rate)
        })
    }

    /// The `number`th state was sent `rtt` ago and arrived; `there` is how long it took to the peer, ns, give or take the same
    /// for all, for it is the difference of two clocks that nobody set. `packet` tells what one of the transport's took lately to be
    /// acknowledged, if it knows: over kernel TCP that is a system call, and nobody asks where there is no window.
    pub(crate) fn acknowledged(
        &mut self,
        now: Time,
        number: u64,
        rtt: Duration,
        there: Option<i64>,
        packet: impl FnOnce() -> Option<Duration>,
    ) {
        self.seen(number);
        if !self.enabled {
            return;
        }
        let base = self.states.record(now, rtt);
        // Under a window an outage is not a slow path, nor what comes at once after it a fast one.
        let silent = now.saturating_since(std::mem::replace(&mut self.heard, now));
        if let Some(window) = self.window.as_mut().filter(|window| silent > window.silence()) {
            window.judged_by += silent - window.silence();
            self.stale = self.sent;
        }
        if self.window.is_some_and(|window| now >= window.judged_by) {
            self.give_way(now);
        }
        if number <= self.stale {
            self.round = Round { filled: self.round.filled, ..Round::begin(now, self.sent + 1) };
            return;
        }
        let round = &mut self.round;
        round.states = round.states.min(rtt);
        let at = now.saturating_since(round.began).as_secs_f64();
        round.scatter[0].add(at, rtt.as_secs_f64());
        // Whatever the peer's clock says: sums of it stay numbers.
        if let Some(there) = there.map(|there| there.clamp(i64::MIN / 4, i64::MAX / 4)) {
            self.there.record(now, there);
            round.there = round.there.min(there);
            let origin = *round.origin.get_or_insert(there);
            round.scatter[1].add(at, there.saturating_sub(origin) as f64 / 1e9);
        }
        if let Some(packet) = packet() {
            self.packets.record(now, packet);
            round.packets = round.packets.min(packet);
        }
        let length = now.saturating_since(round.began);
        let enough = length >= LEAST_ROUND && round.arrived >= LEAST_STATES;
        if let Some(window) = self.window.as_mut().filter(|_| enough) {
            window.slow_down(round.arrived as f64 / length.as_secs_f64());
        }
        // While the queue grows, a whole round takes ever longer; free, the path's own round trip is enough to see it.
        let whole = number >= round.ends || (self.window.is_none() && length >= base);
        if whole && enough {
            let round = std::mem::replace(&mut self.round, Round::begin(now, self.sent + 1));
            let under_way = (self.sent - self.arrived) as f64;
            // The path's jitter is in every round; what the window itself does to the queue is not.
            self.chances[self.judged % self.chances.len()] = round.chance();
            self.judged += 1;
            let least = |way: usize| self.chances.iter().map(|chance| chance[way]).min().unwrap_or_default();
            let chance = if self.window.is_some() { [least(0), least(1)] } else { round.chance() };
            self.judge(now, &round.measured(length, base, self.packets.get(), self.there.get(), chance));
            self.round.filled = self.window.map_or(0.0, |window| under_way / (window.size * window.stretch));
        }
    }

    /// It arrived, and nobody knows when.
    pub(crate) fn seen(&mut self, number: u64) {
        self.round.arrived += 1;
        self.arrived = self.arrived.max(number);
    }

    fn judge(&mut self, now: Time, measured: &Measured) {
        let Some(window) = &mut self.window else {
            if measured.catches_up() {
                self.standing = Standing::default();
                return;
            }
            if self.standing.goes_on(measured) && self.standing.is_behind() && self.is_news(now) {
                self.window = Some(Window::trial(now, &self.standing, measured, self.sent - self.arrived));
                self.doubled = now < self.retry;
            }
            return;
        };
        // With more than the window under way, what arrives is what the path carries.
        let smoothed = (window.rate * 3.0 + measured.rate()) / 4.0;
        window.rate = if measured.full() { smoothed.min(measured.rate()) } else { smoothed };
        window.stretch = measured.stretch;
        if let Stage::Held(_) = window.stage {
            window.judged_by = now + PATIENCE.0.max(measured.length.saturating_mul(8));
        }
        let settling = std::mem::take(&mut window.settling);
        match window.stage {
            // What a repetition had held up came at once: the path carries all.
            Stage::Trial { .. } if measured.standing < SUSPICIOUS && self.standing.is_outdone(measured) => {
                self.release()
            }
            // It never empties: the path has become slower, or longer, or somebody else's.
            Stage::Held(_) if measured.full() && self.standing.goes_on(measured) => {
                *window = Window::trial(now, &self.standing, measured, self.sent - self.arrived);
            }
            Stage::Held(held) if measured.full() => {
                let costs = measured.filled > FAR || measured.rate() < held.full * FULL;
                let late = if costs && measured.standing <= SUSPICIOUS { held.late + 1 } else { 0 };
                window.stage = Stage::Held(Held { late, ..held });
                if late >= UNUSED {
                    self.release();
                }
            }
            _ if settling || measured.full() => {}
            // The queue went by itself, or there is nothing more to send.
            Stage::Trial { .. } if !measured.limited => self.release(),
            Stage::Trial { standing } if measured.standing > SUSPICIOUS.max(standing / 2) => {
                self.give_way(now);
            }
            Stage::Trial { standing } => {
                let mut base = measured.base;
                // What is left where nearly all went is the path's own, which became longer or slower.
                if measured.above > TARGET && measured.standing <= standing / RESIDUE {
                    base += measured.above;
                    self.states.rise(now, measured.above);
                    self.packets.rise(now, measured.above);
                    self.there.rise(now, measured.above.as_nanos() as i64);
                }
                window.hold(now, std::mem::take(&mut self.standing).rate(), base);
            }
            Stage::Held(Held { rounds, costly, .. }) => {
                if self.standing.goes_on(measured) {
                    *window = Window::trial(now, &self.standing, measured, self.sent - self.arrived);
                } else if costly >= COSTLY {
                    self.give_way(now);
                } else if !window.follow(measured) {
                    self.release();
                } else if rounds >= PROVEN {
                    self.patience = PATIENCE.0;
                }
            }
        }
    }

    /// A trial that failed is not repeated soon, but where the delay has doubled since.
    fn is_news(&self, now: Time) -> bool {
        now >= self.retry || (!self.doubled && self.standing.most > self.failed.saturating_mul(2))
    }

    /// The queue is somebody else's.
    fn give_way(&mut self, now: Time) {
        self.failed = match self.window {
            Some(Window { stage: Stage::Trial { standing }, .. }) => standing,
            _ => self.states.get().unwrap_or_default() / 2,
        };
        self.release();
        self.retry = now + self.patience;
        self.patience = self.patience.saturating_mul(2).min(PATIENCE.1);
    }

    fn release(&mut self) {
        self.window = None;
        self.standing = Standing::default();
        self.stale = self.sent;
    }
}
