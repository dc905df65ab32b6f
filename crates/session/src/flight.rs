//! How many states may be under way: no more than the path carries, where the session alone would fill its queue.

use taut_core::{Deadline, Duration, Time};

/// Keeps the session's own standing queue out of the network, so that an emergency stop does not wait behind states.
///
/// A round begins with a state and ends when that or a newer one is acknowledged. Its *standing delay* is the least
/// round trip in it less the least of the last half minute: what never went away while it lasted (as CoDel's, RFC 8289
/// section 3.2). It is taken of states and, apart from them, of the transport's packets, and the smaller counts: where lost
/// states are repeated, those behind them wait for that and not in a queue. By Little's law, throughput × least round trip
/// is what the path itself carries: with less than that under way, nothing of the session's waits.
///
/// | | the window |
/// | --- | --- |
/// | free | none; nothing is held back, whatever is lost |
/// | a standing delay through three rounds, and less arrives than is to go, by more than chance explains | a *trial*: three quarters of what the path itself carries, until a round was sent within it |
/// | half of the delay did not go with that | free: the queue is somebody else's, and yielding to it would starve (Copa, NSDI 2018 section 2.2, asks the same before it competes). Not tried again for 1 s, 2 s … 16 s |
/// | it did | held: what the path carries, then less by what waits where that is more than [`TARGET`], more while nothing waits (Vegas; RFC 6817 section 2.4.2) |
/// | held, and a standing delay through three rounds, or more under way than the window through three | the next trial |
/// | held, and cuts cost throughput three times, or it grew for eight rounds and nothing waits, or was not the limit for eight | free |
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
    states: LeastRtt,
    packets: LeastRtt,
    round: Round,
    standing: Standing,
    /// When the last acknowledgement came.
    heard: Time,
    /// The last state that was sent under a window: what arrives until then tells nothing of what goes now.
    held_back: u64,
    /// No trial before.
    retry: Time,
    patience: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    /// States, and parts of one: it is the rate as well, times the least round trip.
    size: f64,
    /// States per second that arrive, smoothed.
    rate: f64,
    /// It changed when the present round began, which tells of what was sent before.
    settling: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The standing delay that it is to take away, and until when what was sent before has to arrive.
    Trial {
        standing: Duration,
        ends: Time,
    },
    Held(Held),
}

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    rounds: u32,
    /// Rounds in a row in which it grew; rounds in which it was not the limit; rounds in which it cost states.
    growing: u32,
    unused: u32,
    costly: u32,
    /// Rounds until it may grow again, and the size from which on that is news.
    calm: u32,
    ceiling: f64,
    /// States per second that arrived while nothing waited, smoothed.
    full: f64,
}

/// Rounds in a row with a standing delay, the states that were to go in them, those that arrived, and the time that took.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    rounds: u32,
    /// The longest.
    most: Duration,
    wanted: u64,
    arrived: u64,
    length: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    began: Time,
    /// It ends when this state, or a newer one, is acknowledged.
    ends: u64,
    /// Least round trips of states and packets.
    states: Duration,
    packets: Duration,
    wanted: u64,
    arrived: u64,
    /// The window held a state back.
    limited: bool,
    /// It began with more under way than the window.
    full: bool,
}

/// A round that is over.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// What the path takes when nothing waits, and what waited.
    base: Duration,
    standing: Duration,
    /// States that were to go and those that arrived, and how long it took.
    wanted: u64,
    arrived: u64,
    length: Duration,
    limited: bool,
    full: bool,
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
/// It grows by this part. After so many rounds of growth, and still nothing waits, it was taken for less than the path carries.
const GROWTH: f64 = 1.0 / 64.0;
const STEADY: u32 = 8;
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
            states: LeastRtt::default(),
            packets: LeastRtt::default(),
            round: Round::begin(Time::ZERO, 0),
            standing: Standing::default(),
            heard: Time::ZERO,
            held_back: 0,
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
        let within = ((self.sent - self.arrived) as f64) < window.size;
        Some(if within {
            Duration::from_secs_f64(base.as_secs_f64() / window.size)
        } else {
            Duration::from_secs_f64(2.0 / window.rate)
        })
    }

    /// The `number`th state was sent `rtt` ago and arrived. `packet` tells what one of the transport's took lately to be
    /// acknowledged, if it knows: over kernel TCP that is a system call, and nobody asks where there is no window.
    pub(crate) fn acknowledged(
        &mut self,
        now: Time,
        number: u64,
        rtt: Duration,
        packet: impl FnOnce() -> Option<Duration>,
    ) {
        self.seen(number);
        if !self.enabled {
            return;
        }
        let base = self.states.record(now, rtt);
        // Under a window an outage is not a slow path: neither its length nor what was sent in it counts.
        let silent = now.saturating_since(std::mem::replace(&mut self.heard, now));
        if self.window.is_some_and(|window| silent > window.silence()) {
            self.round = Round { ends: self.round.ends, full: self.round.full, ..Round::begin(now, 0) };
        }
        let round = &mut self.round;
        round.states = round.states.min(rtt);
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
            self.judge(now, &round.measured(length, base, self.packets.get()));
            self.round.full = self.window.is_some_and(|window| under_way > window.size);
        }
    }

    /// It arrived, and nobody knows when.
    pub(crate) fn seen(&mut self, number: u64) {
        self.round.arrived += 1;
        self.arrived = self.arrived.max(number);
    }

    fn judge(&mut self, now: Time, measured: &Measured) {
        let Some(window) = &mut self.window else {
            let held_back = self.held_back > 0;
            if self.arrived > self.held_back {
                self.held_back = 0;
            }
            if held_back || measured.catches_up() {
                self.standing = Standing::default();
                return;
            }
            if self.standing.goes_on(measured) && self.standing.is_behind() && now >= self.retry {
                self.window = Some(Window::trial(now, &self.standing, measured, self.sent - self.arrived));
            }
            return;
        };
        window.rate = (window.rate * 3.0 + measured.rate()) / 4.0;
        let settling = std::mem::take(&mut window.settling);
        match window.stage {
            Stage::Trial { ends, .. } if measured.full && now >= ends => self.give_way(now),
            // What a repetition had held up came at once: the path carries all.
            Stage::Trial { .. } if self.standing.is_outdone(measured) => self.release(now),
            // It never empties: the path has become slower, or longer, or somebody else's.
            Stage::Held(_) if measured.full && self.standing.goes_on(measured) => {
                *window = Window::trial(now, &self.standing, measured, self.sent - self.arrived);
            }
            _ if settling || measured.full => {}
            // The queue went by itself, or there is nothing more to send.
            Stage::Trial { .. } if !measured.limited => self.release(now),
            Stage::Trial { standing, .. } if measured.standing > SUSPICIOUS.max(standing / 2) => {
                self.give_way(now);
            }
            Stage::Trial { standing, .. } => {
                let mut base = measured.base;
                // What is left where nearly all went is the path's own, which became longer or slower.
                if measured.standing > TARGET && measured.standing <= standing / RESIDUE {
                    base += measured.standing;
                    self.states.rise(now, measured.standing);
                    self.packets.rise(now, measured.standing);
                }
                window.hold(std::mem::take(&mut self.standing).rate(), base);
            }
            Stage::Held(Held { rounds, costly, .. }) => {
                if self.standing.goes_on(measured) {
                    *window = Window::trial(now, &self.standing, measured, self.sent - self.arrived);
                } else if costly >= COSTLY {
                    self.give_way(now);
                } else if !window.follow(measured) {
                    self.release(now);
                } else if rounds >= PROVEN {
                    self.patience = PATIENCE.0;
                }
            }
        }
    }

    /// The queue is somebody else's.
    fn give_way(&mut self, now: Time) {
        self.release(now);
        self.patience = self.patience.saturating_mul(2).min(PATIENCE.1);
    }

    fn release(&mut self, now: Time) {
        self.window = None;
        self.standing = Standing::default();
        self.held_back = self.sent;
        self.retry = now + self.patience;
    }
}

impl Standing {
    /// Is there a standing delay again, for some rounds by now?
    fn goes_on(&mut self, measured: &Measured) -> bool {
        *self = match measured.standing > SUSPICIOUS {
            true => Self {
                rounds: self.rounds + 1,
                most: self.most.max(measured.standing),
                wanted: self.wanted + measured.wanted,
                arrived: self.arrived + measured.arrived,
                length: self.length + measured.length,
            },
            false => Self::default(),
        };
        self.rounds >= ROUNDS
    }

    /// Does less arrive than is to go, by more than the chance of others' packets explains? What they do adds up as a random
    /// walk, with the square root of time.
    fn is_behind(&self) -> bool {
        let missing = 1.0 - self.arrived as f64 / self.wanted.max(1) as f64;
        missing * f64::from(self.rounds).sqrt() >= BEHIND
    }

    /// Did more arrive per second than was to go then?
    fn is_outdone(&self, measured: &Measured) -> bool {
        measured.rate() > 1.25 * self.wanted.max(self.arrived) as f64 / self.length.as_secs_f64()
    }

    /// States per second.
    fn rate(&self) -> f64 {
        self.arrived as f64 / self.length.as_secs_f64()
    }
}

impl Measured {
    /// More arrived than was to go: what a repetition had held up. A path that carries more than that is not too slow.
    fn catches_up(&self) -> bool {
        self.arrived > self.wanted + self.wanted / 4 + LEAST_STATES / 2
    }

    /// States per second.
    fn rate(&self) -> f64 {
        self.arrived as f64 / self.length.as_secs_f64()
    }
}

impl Window {
    fn trial(now: Time, standing: &Standing, measured: &Measured, under_way: u64) -> Self {
        let rate = standing.rate();
        let size = (rate * measured.base.as_secs_f64() * TRIAL).max(LEAST_WINDOW);
        // What is too much goes at half the rate.
        let drained = Duration::from_secs_f64(under_way as f64 * 2.0 / rate);
        let longest = drained.saturating_mul(2) + (measured.base + measured.standing).saturating_mul(4);
        let ends = now + longest.min(PATIENCE.1);
        Self { size, rate, settling: true, stage: Stage::Trial { standing: standing.most, ends } }
    }

    /// So long nothing is acknowledged only in an outage.
    fn silence(&self) -> Duration {
        SILENCE.max(Duration::from_secs_f64(4.0 / self.rate))
    }

    /// A round in which so many arrive per second goes on. Of what is too much half of the rate goes; where only two thirds of
    /// that arrive, the path has become slower, and the round that would tell so is as long as the queue.
    fn slow_down(&mut self, rate: f64) {
        if rate < self.rate / 3.0 {
            self.rate = rate;
        }
    }

    /// The trial went well.
    fn hold(&mut self, rate: f64, base: Duration) {
        self.size = (rate * base.as_secs_f64()).max(LEAST_WINDOW);
        self.settling = true;
        self.stage = Stage::Held(Held { full: rate * TRIAL, ..Held::default() });
    }

    /// What a round told of it. False when it is not needed.
    fn follow(&mut self, measured: &Measured) -> bool {
        let Stage::Held(held) = &mut self.stage else { return true };
        held.rounds += 1;
        // A path that carries the states has its moments; one that does not, never is without limit.
        held.unused = if measured.limited { held.unused.saturating_sub(2) } else { held.unused + 1 };
        if measured.standing > TARGET {
            // A queue of the session's own is what it has too much: as many arrive without it.
            let costs = measured.rate() < held.full * FULL;
            held.costly = if costs { held.costly + 1 } else { held.costly.saturating_sub(1) };
            // What waits goes, and a little more: a link that is full to the last bit never works off what comes between.
            let excess = measured.rate() * measured.standing.as_secs_f64() + self.size * SLACK;
            held.ceiling = self.size;
            self.size = (self.size - excess.min(self.size / 4.0)).max(LEAST_WINDOW);
            self.settling = true;
            (held.growing, held.calm) = (0, CALM);
        } else {
            // Quick to learn what the path carries, slow to forget it.
            let more = measured.rate() - held.full;
            held.full += more / if more > 0.0 { 4.0 } else { 32.0 };
            held.calm = held.calm.saturating_sub(1);
            let grows = measured.limited && measured.standing < TARGET / 2 && held.calm == 0;
            held.growing = if grows && self.size >= held.ceiling { held.growing + 1 } else { 0 };
            if grows {
                self.size += self.size * GROWTH;
            }
            self.settling = grows;
        }
        held.unused < UNUSED && held.growing < STEADY
    }
}

impl Round {
    fn begin(now: Time, ends: u64) -> Self {
        let none = Duration::MAX;
        Self {
            began: now,
            ends,
            states: none,
            packets: none,
            wanted: 0,
            arrived: 0,
            limited: false,
            full: false,
        }
    }

    fn measured(&self, length: Duration, base: Duration, packet_base: Option<Duration>) -> Measured {
        let of_packets = packet_base.map_or(Duration::MAX, |base| self.packets.saturating_sub(base));
        let standing = self.states.saturating_sub(base).min(of_packets);
        let Self { wanted, arrived, limited, full, .. } = *self;
        Measured { base, standing, wanted, arrived, length, limited, full }
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

    /// Nothing can be as fast as that any more, but slower by so much.
    fn rise(&mut self, now: Time, by: Duration) {
        self.windows = [self.get().map(|least| least + by), None];
        self.began = now;
    }

    fn get(&self) -> Option<Duration> {
        self.windows.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use taut_core::{Rng, Seed};

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
        /// When each will be acknowledged, when it was sent, its number, and what others did to it.
        under_way: VecDeque<(Time, Time, u64, Duration)>,
        lose: u64,
        waits: bool,
        /// The transport tells of its packets, whose round trips have nothing in them of what others did.
        tells: bool,
        /// Packets of 1 ms that others send, at random: per mille of the path.
        load: u64,
        rng: Rng,
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
                tells: false,
                load: 0,
                rng: Seed::new(1).stream("others"),
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
                if self.rng.below(10_000) < self.load {
                    self.free_at = self.free_at.max(self.now) + MS;
                }
                while let Some((at, sent, number, others)) =
                    self.under_way.front().copied().filter(|due| due.0 <= self.now)
                {
                    self.under_way.pop_front();
                    if !number.is_multiple_of(self.lose) {
                        let packet = self.tells.then(|| at - sent - others);
                        self.flight.acknowledged(at, number, at - sent, || packet);
                    }
                }
                self.waits |= self.now.as_nanos().is_multiple_of(self.period.as_nanos());
                if self.waits && self.flight.admits(self.now) {
                    self.waits = false;
                    let number = self.flight.sent(self.now);
                    let begins = self.free_at.max(self.now);
                    self.longest = self.longest.max(begins - self.now);
                    self.free_at = begins + self.service;
                    let acknowledged = self.free_at + self.others + MS * 20;
                    self.under_way.push_back((acknowledged, self.now, number, self.others));
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
        for tells in [false, true] {
            let mut path = Path::new(Duration::from_micros(1_300));
            path.tells = tells;
            path.run(MS * 4_000);
            let (sent, longest) = path.run(MS * 20_000);
            assert!(sent > 13_800, "{sent} of 15384 that fit");
            assert!(longest <= MS * 3, "{longest}");
        }
    }

    #[test]
    fn repetitions_that_take_their_time_are_no_queue() {
        let mut path = Path::new(MS / 2);
        path.tells = true;
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
    fn others_that_nearly_fill_the_path_leave_the_session_its_part() {
        for (load, least) in [(840, 59_000), (890, 58_000)] {
            let mut path = Path::new(MS / 10);
            path.load = load;
            let (sent, _) = path.run(MS * 60_000);
            assert!(sent > least, "{sent} beside {load}");
        }
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
    fn a_queue_that_became_somebody_elses_is_left_to_them() {
        let mut path = Path::new(Duration::from_micros(1_300));
        path.run(MS * 8_000);
        assert!(path.flight.window.is_some());
        (path.service, path.others) = (MS / 2, MS * 80);
        path.run(MS * 4_000);
        let (sent, _) = path.run(MS * 40_000);
        assert!(sent > 37_000, "{sent}");
    }

    #[test]
    fn a_window_that_never_empties_is_given_up() {
        let mut path = Path::new(Duration::from_micros(1_300));
        path.run(MS * 8_000);
        assert!(path.flight.window.is_some());
        // More than the window is under way even at half the rate, and that is no queue of states.
        (path.service, path.others) = (MS / 2, MS * 1_000);
        path.run(MS * 12_000);
        let (sent, _) = path.run(MS * 20_000);
        assert!(sent > 18_000, "{sent}, {:?}", path.flight);
    }

    #[test]
    fn a_path_that_becomes_slower_is_not_filled() {
        for times in [2, 4, 10, 20] {
            let mut path = Path::new(Duration::from_micros(1_300));
            path.run(MS * 8_000);
            path.service = path.service * times;
            path.run(MS * 4_000);
            let (sent, longest) = path.run(MS * 8_000);
            assert!(longest < path.service * 2, "{longest} of states of {}", path.service);
            let fit = 6_153 / times;
            assert!(sent > fit * 3 / 4, "{sent} of {fit} that fit");
        }
    }

    #[test]
    fn in_silence_states_go_at_half_the_rate() {
        let mut path = Path::new(MS * 5);
        path.run(MS * 3_000);
        path.under_way.clear();
        path.lose = 1;
        let (sent, _) = path.run(MS * 2_000);
        assert!((190..230).contains(&sent), "{sent} where 200 a second arrived");
        assert!(path.flight.window.is_some());
    }
}
