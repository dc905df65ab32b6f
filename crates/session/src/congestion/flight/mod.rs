//! No more under way than the path carries, where the session alone would fill its queue.

mod jitter;
mod judge;
mod least;
mod quiet;
mod room;
mod round;
#[cfg(test)]
mod tests;
mod window;

use taut_core::{Deadline, Duration, Time};

use jitter::Jitter;
pub(super) use least::Least;
use least::Recent;
use quiet::{Quiet, SELDOM};
pub(crate) use room::Claim;
use room::Room;
use round::{Round, Standing};
use window::{Stage, Window};

use super::{Arrived, Untold};

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
/// | free | none; nothing is held back, whatever is lost, but while [nothing is heard](Quiet) |
/// | a standing delay through three rounds, and less arrives than is to go, or the delay grows, by more than chance explains; or something that can wait is held back | a *trial*: three quarters of what the path itself carries, until a round was sent within it |
/// | half of the delay did not go with that | free: the queue is somebody else's, and yielding to it would starve (Copa, NSDI 2018 section 2.2, asks the same before it competes). Not tried again for 1 s, 2 s … 16 s, but once when the delay has doubled |
/// | it did | held: what the path carries, then less by what waits where that is more than [`TARGET`], more while nothing waits, in steps that double (Vegas; RFC 6817 section 2.4.2) |
/// | held, and a standing delay through three rounds, or more under way than the window through three, or a long delay in one | the next trial |
/// | held, and cuts cost throughput three times, or it was not the limit for eight rounds, or acknowledgements came late for eight though nothing waited, or no round ended for eight times as long as one takes | free |
///
/// What little a trial leaves of a delay is none of the session's own: it is the path's from then on, which became longer or
/// slower. Neither an outage under a window, nor what was sent under one that is no more, tells of the path.
///
/// Frames go as far apart as the window spreads their bytes over the least round trip, not when acknowledgements come: two at once
/// would be a queue, or one packet of twice the length. While more than the window is under way states go at a quarter of the rate at
/// which they arrive, for silence would stop the robot, and nothing else goes.
///
/// Messages that can wait obey the window, of which states are served first, and where there is none a [`Room`] of their own: a device
/// makes states at a rate, but a file fills whatever it is given.
///
/// What is under way is what was sent after the newest state that is known to have arrived: neither losses nor lost
/// acknowledgements fill the window.
#[derive(Debug)]
pub(crate) struct Flight {
    enabled: bool,
    /// Bytes sent, and those up to the newest frame that arrived.
    sent: u64,
    arrived: u64,
    /// When the last frame was to go, and its bytes.
    last: Time,
    last_bytes: f64,
    /// Bytes of a frame, smoothed.
    frame: f64,
    room: Room,
    /// What of what can wait was under way when it was asked last.
    untold: Untold,
    /// Silence says that the network stands still.
    hears: bool,
    delivered: Option<u64>,
    quiet: Quiet,
    /// Samples wait in the transport: what is given to it is not in the network, and acknowledgements are as seldom as its rate.
    transport_holds: bool,
    /// A state waits for that.
    is_quiet: bool,
    recent: Recent,
    window: Option<Window>,
    /// Of short frames and of long ones, whose own transmission takes time.
    frames: [Least<Duration>; 2],
    packets: Least<Duration>,
    there: Least<i64>,
    /// One-way delays of the reverse path, by the same clocks; and an acknowledgement came that had not waited there, so that the least round trip is the path's.
    reverse: Least<i64>,
    is_base_known: bool,
    jitter: Jitter,
    round: Round,
    standing: Standing,
    /// When the last acknowledgement came.
    heard: Time,
    /// What arrives of the bytes up to here tells nothing of what goes now: it was sent before an outage ended, or under a window
    /// that is no more.
    stale: u64,
    /// What was sent until here took a path that is no more.
    before: u64,
    /// No trial before.
    retry: Time,
    patience: Duration,
    /// The standing delay that the last trial did not take away, and whether one of twice that was tried since.
    failed: Duration,
    doubled: bool,
    /// The same, for as long as it lasts.
    others: Duration,
}

/// What may wait: a stop has a millisecond in all, and a packet that is being sent is not interrupted.
const TARGET: Duration = Duration::from_micros(250);
/// So long a standing delay, for so many rounds, asks whose queue it is.
const SUSPICIOUS: Duration = Duration::from_millis(1);
const ROUNDS: u32 = 3;
/// Of a delay as long as this it is asked in any case: what a little too much adds up to.
const PATIENT: Duration = Duration::from_millis(10);
/// How much more often it has to have grown than not, in standard deviations of tossed coins (a sign test).
const STEADILY: f64 = 3.0;
/// Or by how much, times the square root of the rounds: a standard deviation of what nine tenths of 10 Mbit/s, in packets of 1250 B, add in
/// one. More is not needed, for the delay is [long](PATIENT) besides, and longer after each trial that failed.
const GROWN: Duration = Duration::from_millis(5);
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
/// A round lasts at least so long, and so many frames: fewer say nothing.
const LEAST_ROUND: Duration = Duration::from_millis(20);
const LEAST_FRAMES: u64 = 8;
/// With more than the window under way, a state goes in the time in which so many arrive: what waits goes in a third more than its own time.
const EXCESS: f64 = 4.0;
/// The window's own least, in frames: below two, every one would wait for the acknowledgement of the one before.
const LEAST_WINDOW: f64 = 2.0;
/// After so long without an acknowledgement there was an outage.
const SILENCE: Duration = Duration::from_millis(100);
/// A frame of more than so many bytes is long: a state and its acknowledgement are not.
const LONG: u64 = 300;
/// Before anything was sent, a frame counts as this.
const ORDINARY: f64 = 100.0;
/// While so much waits, what can wait does.
const BRAKE: Duration = Duration::from_millis(2);
const PATIENCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(16));

impl Flight {
    pub(in crate::congestion) fn new(enabled: bool, repeats: bool) -> Self {
        Self {
            enabled,
            sent: 0,
            arrived: 0,
            last: Time::ZERO,
            last_bytes: 0.0,
            frame: ORDINARY,
            room: Room::default(),
            untold: Untold::default(),
            hears: enabled && !repeats,
            delivered: None,
            quiet: Quiet::default(),
            transport_holds: false,
            is_quiet: false,
            recent: Recent::default(),
            window: None,
            frames: Default::default(),
            packets: Least::default(),
            there: Least::default(),
            reverse: Least::default(),
            is_base_known: false,
            jitter: Jitter::default(),
            round: Round::begin(Time::ZERO, 0),
            standing: Standing::default(),
            heard: Time::ZERO,
            stale: 0,
            before: 0,
            retry: Time::ZERO,
            patience: PATIENCE.0,
            failed: Duration::MAX,
            doubled: false,
            others: Duration::ZERO,
        }
    }

    /// A frame of so many bytes goes, which may wait or not. Gives its place: all bytes sent with it.
    pub(in crate::congestion) fn sent(&mut self, now: Time, bytes: u64, can_wait: bool) -> u64 {
        // A driver that wakes late makes up for it, up to half of what lies between two frames.
        let apart = self.apart().unwrap_or_default();
        self.last = (self.last + apart).max(now - apart / 2).min(now);
        self.last_bytes = bytes as f64;
        self.frame += (self.last_bytes - self.frame) / 16.0;
        if self.sent == 0 {
            self.round = Round::begin(now, bytes);
        }
        self.quiet.sent(now, self.sent == self.arrived, self.base());
        self.sent += bytes;
        self.round.wanted += bytes;
        if can_wait {
            self.round.mixed = true;
            let base = self.base();
            let rate = self.window.zip(base).map(|(window, base)| window.size / base.as_secs_f64());
            self.room.sent(now, (bytes, self.sent), rate, base);
        } else {
            self.room.passed(now, bytes);
        }
        self.sent
    }

    /// A state was made, whatever becomes of it: so much of the path is theirs.
    pub(in crate::congestion) fn made(&mut self, now: Time, bytes: u64) {
        self.room.claimed(now, bytes);
    }

    /// The transport did not take a frame that was to go.
    pub(in crate::congestion) fn refused(&mut self, bytes: u64) {
        self.round.wanted += bytes;
    }

    /// What a transport that repeats what is lost says that arrived: acknowledgements of frames may all wait for one repetition.
    pub(in crate::congestion) fn delivered(&mut self, now: Time, delivered: Option<u64>) {
        self.hears = self.enabled && delivered.is_some();
        if std::mem::replace(&mut self.delivered, delivered) != delivered {
            self.quiet.heard(now);
        }
    }

    pub(in crate::congestion) fn transport_holds(&mut self, holds: bool) {
        self.transport_holds = holds;
    }

    fn look_whether_quiet(&mut self, now: Time) {
        self.is_quiet = self.hears && !self.transport_holds && now >= self.quiet.since();
    }

    /// May another state go?
    pub(in crate::congestion) fn admits(&mut self, now: Time) -> bool {
        self.look_whether_quiet(now);
        // Mostly nothing holds it back.
        self.window.is_none() && !self.is_quiet || self.is_its_turn(now)
    }

    /// Does a window hold states back?
    pub(in crate::congestion) fn has_window(&self) -> bool {
        self.window.is_some()
    }

    #[cold]
    fn is_its_turn(&mut self, now: Time) -> bool {
        let admitted = self.apart().is_none_or(|apart| now >= self.last + apart);
        self.round.limited |= !admitted;
        admitted
    }

    /// May a frame go that can wait, while so many bytes of those are under way?
    pub(in crate::congestion) fn admits_more(&mut self, now: Time, untold: Untold) -> bool {
        self.look_whether_quiet(now);
        self.untold = untold;
        let admitted = self.opens_for_more(untold).is_some_and(|opens| now >= opens);
        self.round.limited |= !admitted;
        self.room.asked(now, admitted);
        admitted
    }

    /// Nothing waits that can.
    pub(in crate::congestion) fn ran_dry(&mut self, now: Time) {
        self.room.ran_dry(now);
    }

    /// When a window lets the next state go.
    pub(in crate::congestion) fn poll_timeout(&self) -> Option<Deadline> {
        self.apart().map(|apart| Deadline::new(self.last + apart, "window"))
    }

    /// When a frame that can wait may go; `None`: an acknowledgement has to come first.
    pub(in crate::congestion) fn opens_for_more(&self, untold: Untold) -> Option<Time> {
        match &self.window {
            Some(window) => {
                let next = self.last + self.apart().unwrap_or_default();
                // It is the session's own: what waits there is too much already.
                let rate = window.size / self.base()?.as_secs_f64().max(1e-6);
                self.is_within(window).then(|| next.max(self.room.next_of(rate)))
            }
            None if !self.enabled => Some(Time::ZERO),
            None => {
                let opens = self.room.opens(untold, self.base())?;
                Some(self.apart().map_or(opens, |apart| opens.max(self.last + apart)))
            }
        }
    }

    /// Bytes per second that are left for what can wait; `None`: as many as come, as far as is known.
    pub(in crate::congestion) fn rate_left(&self) -> Option<f64> {
        match self.window.zip(self.base()) {
            Some((window, base)) => Some(self.room.left_of(window.size / base.as_secs_f64())),
            None if !self.enabled => None,
            None => self.room.rate(self.base()),
        }
    }

    /// The same where that is certain: what cannot arrive in time at it need not begin.
    pub(in crate::congestion) fn rate_found(&self, now: Time) -> Option<f64> {
        self.rate_left().filter(|_| self.window.is_some() || self.room.is_found(now))
    }

    fn is_within(&self, window: &Window) -> bool {
        ((self.sent - self.arrived) as f64) < self.most(window)
    }

    /// Bytes under way while the window is kept. On a short way the peer waits for longer, until it tells, than the way takes: what has arrived by then
    /// counts as under way.
    fn most(&self, window: &Window) -> f64 {
        let Untold { told_after, told_bytes, .. } = self.untold;
        let base = self.base().filter(|base| *base < told_after);
        let told =
            base.map_or(0.0, |base| window.size * (told_after.as_secs_f64() / base.as_secs_f64().max(1e-6)));
        window.size * window.stretch + told.min(1.5 * told_bytes as f64)
    }

    /// What the path takes when nothing waits.
    fn base(&self) -> Option<Duration> {
        let [short, long] = &self.frames;
        match (short.get(), long.get()) {
            (Some(short), Some(long)) => Some(short.min(long)),
            (short, long) => short.or(long),
        }
    }

    /// The time between the last frame and the next.
    fn apart(&self) -> Option<Duration> {
        let quiet = self.is_quiet.then_some(SELDOM);
        let Some(window) = self.window else { return quiet };
        let Some(base) = self.base() else { return quiet };
        let per_byte =
            if self.is_within(&window) { base.as_secs_f64() / window.size } else { EXCESS / window.rate };
        Some(Duration::from_secs_f64(self.last_bytes * per_byte).max(quiet.unwrap_or_default()))
    }

    /// Something of the peer's came, whatever it is, that took so long over the reverse path, ns, by two clocks that nobody set.
    pub(in crate::congestion) fn reverse_delay(&mut self, now: Time, delay: i64) {
        self.reverse.record(now, delay.clamp(i64::MIN / 4, i64::MAX / 4));
    }

    /// A round trip without what it waited on the way back more than anything else did that came, as long as each waited there for [long](PATIENT).
    /// Whoever begins to send while the peer fills the way back would take that wait for the path's own, and not see a queue of its own until it
    /// is as long.
    fn without_reverse_wait(&mut self, rtt: Duration, there: Option<i64>) -> Duration {
        let Some((there, reverse)) = there.zip(self.reverse.get()).filter(|_| !self.is_base_known) else {
            return rtt;
        };
        let without = Duration::from_nanos(there.saturating_add(reverse).max(0) as u64);
        self.is_base_known = without + PATIENT >= rtt;
        if self.is_base_known { rtt } else { without }
    }

    /// A frame arrived. `packet` tells what one of the transport's took lately to be acknowledged, if it knows: over kernel TCP
    /// that is a system call, and nobody asks where there is no window.
    pub(in crate::congestion) fn acknowledged(
        &mut self,
        now: Time,
        arrived: &Arrived,
        packet: impl FnOnce() -> Option<Duration>,
    ) {
        let Arrived { place, bytes, rtt, there, .. } = *arrived;
        self.quiet.heard(now);
        self.seen(place, bytes);
        if place <= self.before {
            self.heard = now;
            return;
        }
        let there = there.map(|there| there.clamp(i64::MIN / 4, i64::MAX / 4));
        let base = self.without_reverse_wait(rtt, there);
        let above = rtt.saturating_sub(self.frames[usize::from(bytes > LONG)].record(now, base));
        // Under a window an outage is not a slow path, nor what comes at once after it a fast one.
        let silent = now.saturating_since(std::mem::replace(&mut self.heard, now));
        let frame = self.frame;
        if let Some(window) = self.window.as_mut().filter(|window| silent > window.silence(frame)) {
            window.judged_by += silent - window.silence(frame);
            self.stale = self.sent;
        }
        if self.window.is_some_and(|window| now >= window.judged_by) {
            self.give_way(now);
        }
        if place <= self.stale {
            self.round = Round { filled: self.round.filled, ..Round::begin(now, self.sent + 1) };
            return;
        }
        let way_above = there.map_or(above, |there| {
            Duration::from_nanos(there.saturating_sub(self.there.record(now, there)).unsigned_abs())
        });
        let packet = packet().filter(|_| self.enabled);
        self.measure(now, above, there, packet);
        let by_chance = self.jitter.so_far(&self.round);
        let waits = self.recent.record(now, way_above.min(above));
        let most = if self.window.is_some() { PATIENT } else { BRAKE };
        self.room.saw(
            now,
            waits > most.max(self.jitter.for_a_moment(by_chance[0].min(by_chance[1]))),
            place,
            self.sent,
        );
        self.room.arrived(now, arrived, self.sent, by_chance[1]);
        let base = self.base().unwrap_or(rtt);
        let length = now.saturating_since(self.round.began);
        let enough = length >= LEAST_ROUND && self.round.frames >= LEAST_FRAMES;
        if let Some(window) = self.window.as_mut().filter(|_| enough) {
            window.slow_down(self.round.arrived as f64 / length.as_secs_f64());
        }
        // While the queue grows, a whole round takes ever longer; free, the path's own round trip is enough to see it.
        let is_held = self.window.is_some_and(|window| matches!(window.stage, Stage::Held(_)));
        let hurries = self.window.is_none() || is_held && waits > PATIENT;
        let whole = place >= self.round.ends || hurries && length >= base;
        if whole && enough {
            let round = std::mem::replace(&mut self.round, Round::begin(now, self.sent + 1));
            let under_way = (self.sent - self.arrived) as f64;
            let by_chance = self.jitter.judge(now, &round);
            self.judge(now, &round.measured(length, base, frame, by_chance));
            self.round.filled = self.window.map_or(0.0, |window| under_way / self.most(&window));
        }
    }

    /// What one frame tells of the queue.
    fn measure(&mut self, now: Time, above: Duration, there: Option<i64>, packet: Option<Duration>) {
        let round = &mut self.round;
        round.above = round.above.min(above);
        let at = now.saturating_since(round.began).as_secs_f64();
        round.scatter[0].add(at, above.as_secs_f64());
        // Whatever the peer's clock says: sums of it stay numbers.
        if let Some(there) = there {
            let above =
                Duration::from_nanos(there.saturating_sub(self.there.record(now, there)).unsigned_abs());
            round.there = round.there.min(above);
            let origin = *round.origin.get_or_insert(there);
            round.scatter[1].add(at, there.saturating_sub(origin) as f64 / 1e9);
        }
        if let Some(packet) = packet {
            let above = packet.saturating_sub(self.packets.record(now, packet));
            round.packets = round.packets.min(above);
        }
    }

    /// It arrived, and nobody knows when.
    pub(in crate::congestion) fn seen(&mut self, place: u64, bytes: u64) {
        self.round.frames += 1;
        if bytes > LONG {
            self.round.longest = self.round.longest.max(bytes);
        }
        self.round.arrived += bytes;
        self.arrived = self.arrived.max(place);
    }

    /// A path is no more: what goes takes another one, of which nothing is known. A longer one would be taken for a queue, and what can wait would
    /// be held back until the shorter one is forgotten.
    pub(in crate::congestion) fn lost_path(&mut self, now: Time) {
        self.release(now);
        self.before = self.sent;
        (self.frames, self.packets, self.there, self.reverse, self.recent) = Default::default();
        (self.jitter, self.is_base_known) = (Jitter::default(), false);
        self.round = Round::begin(now, self.sent + 1);
        self.room.saw(now, false, self.sent, self.sent);
    }

    /// Of the frames of channels this share is lost.
    pub(in crate::congestion) fn loses(&mut self, share: f64) {
        self.room.loss = share;
    }

    /// A frame that can wait is lost, and nobody will hear of it.
    pub(in crate::congestion) fn lost(&mut self, place: u64) {
        self.arrived = self.arrived.max(place);
        self.room.lost(place, self.sent);
    }
}
