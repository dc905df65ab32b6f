//! SCReAM v2: a reference window that follows the queue's delay (draft-johansson-ccwg-rfc8298bis-screamv2).

use taut_core::{Deadline, Duration, Time};

use super::Arrived;
use super::flight::{Claim, Least};

/// The reference window, and what it is judged by.
///
/// It grows by a segment a round trip, more slowly near where it was last cut, faster long after; it shrinks with the queue's delay, from half
/// the target on as if packets were marked in proportion, and by three tenths for a lost frame of channels. States and what can wait share it, states first.
#[derive(Debug)]
pub(crate) struct Scream {
    target: f64,
    sent: u64,
    arrived: u64,
    window: f64,
    /// Where it was cut last.
    inflection: f64,
    base: Least<i64>,
    delay: f64,
    smoothed_rtt: f64,
    last: Time,
    last_bytes: f64,
    acknowledged: f64,
    /// The most that was under way, in this round trip and the one before.
    most: [f64; 2],
    updated: Time,
    cut: Time,
    lost: Option<u64>,
    shrunk: u64,
    claim: Claim,
    next_more: Time,
}

/// Of a segment: a fragment.
const SEGMENT: f64 = 1_000.0;
/// The least window, of the draft two segments.
const LEAST: f64 = 2.0 * SEGMENT;
const INITIAL: f64 = 10.0 * SEGMENT;
/// Changes are no more often than this (the virtual round trip of the draft).
const VIRTUAL_RTT: f64 = 0.025;
const LOSS: f64 = 0.7;
/// Growth in proportion to the window, so many round trips after the last cut in full.
const PROPORTIONAL: f64 = 0.02;
const CAUTIOUS_ROUNDS: f64 = 100.0;
/// Frames go by this much faster than evenly.
const PACING: f64 = 1.5;
/// In silence a state goes so often.
const SILENCE: Duration = Duration::from_millis(25);

impl Scream {
    pub(super) fn new(target: Duration) -> Self {
        Self {
            target: target.as_secs_f64(),
            sent: 0,
            arrived: 0,
            window: INITIAL,
            inflection: LEAST,
            base: Least::default(),
            delay: 0.0,
            smoothed_rtt: 0.0,
            last: Time::ZERO,
            last_bytes: 0.0,
            acknowledged: 0.0,
            most: [0.0; 2],
            updated: Time::ZERO,
            cut: Time::ZERO,
            lost: None,
            shrunk: 0,
            claim: Claim::default(),
            next_more: Time::ZERO,
        }
    }

    pub(super) fn sent(&mut self, now: Time, bytes: u64, can_wait: bool) -> u64 {
        let due = self.last + self.apart();
        self.last = due.max(now - self.apart() / 2).min(now);
        self.last_bytes = bytes as f64;
        self.sent += bytes;
        self.most[0] = self.most[0].max(self.under_way());
        if can_wait && let Some(rate) = self.rate_left() {
            self.next_more = self.next_more.max(now) + Duration::from_secs_f64(bytes as f64 / rate);
        }
        self.sent
    }

    pub(super) fn made(&mut self, now: Time, bytes: u64) {
        self.claim.record(now, bytes);
    }

    fn under_way(&self) -> f64 {
        (self.sent - self.arrived) as f64
    }

    fn apart(&self) -> Duration {
        Duration::from_secs_f64(self.last_bytes * self.smoothed_rtt / (self.window * PACING))
    }

    fn opens(&self) -> Time {
        if self.under_way() < self.window { self.last + self.apart() } else { self.last + SILENCE }
    }

    pub(super) fn admits(&self, now: Time) -> bool {
        now >= self.opens()
    }

    pub(super) fn admits_more(&self, now: Time) -> bool {
        self.opens_for_more().is_some_and(|opens| now >= opens)
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        Some(Deadline::new(self.opens(), "window"))
    }

    pub(super) fn opens_for_more(&self) -> Option<Time> {
        (self.under_way() < self.window).then(|| (self.last + self.apart()).max(self.next_more))
    }

    pub(super) fn rate_left(&self) -> Option<f64> {
        let rate = (self.smoothed_rtt > 0.0).then(|| self.window / self.smoothed_rtt)?;
        Some(self.claim.leaves_of(rate))
    }

    pub(super) fn seen(&mut self, place: u64, bytes: u64) {
        self.acknowledged += bytes as f64;
        self.arrived = self.arrived.max(place);
    }

    pub(super) fn lost(&mut self, place: u64) {
        self.arrived = self.arrived.max(place);
        self.lost = self.lost.max(Some(place));
    }

    pub(super) fn acknowledged(&mut self, now: Time, frame: &Arrived) {
        self.seen(frame.place, frame.bytes);
        let rtt = frame.rtt.as_secs_f64();
        self.smoothed_rtt += (rtt - self.smoothed_rtt) / if self.smoothed_rtt > 0.0 { 8.0 } else { 1.0 };
        // The way there alone where the clocks are known to run, else the round trip.
        let way = frame.there.unwrap_or(frame.rtt.as_nanos() as i64).clamp(i64::MIN / 4, i64::MAX / 4);
        let delay = way.saturating_sub(self.base.record(now, way)) as f64 / 1e9;
        self.delay += (delay - self.delay) * if delay < self.delay { 1.0 } else { 0.25 };
        let round = self.smoothed_rtt.max(VIRTUAL_RTT);
        if now.saturating_since(self.updated).as_secs_f64() >= round {
            self.update(now, round);
            self.updated = now;
        }
    }

    /// Once a round trip.
    fn update(&mut self, now: Time, round: f64) {
        let excess = ((self.delay - self.target / 2.0) / (self.target / 2.0)).clamp(0.0, 1.0);
        let is_lost = self.lost.take().is_some_and(|place| place > self.shrunk);
        let acknowledged = std::mem::take(&mut self.acknowledged);
        if is_lost || excess > 0.0 {
            self.inflection = self.window;
            self.window *= if is_lost { LOSS } else { 1.0 - excess / 2.0 };
            (self.cut, self.shrunk) = (now, self.sent);
        } else {
            let near = 8.0 * (self.window - self.inflection) / self.inflection;
            let since = now.saturating_since(self.cut).as_secs_f64() / (CAUTIOUS_ROUNDS * round);
            let proportional = PROPORTIONAL * self.window * since.min(1.0);
            let step = (SEGMENT + proportional) * (near * near).clamp(0.1, 1.0);
            // No more than what is used shows to be there.
            let most = (self.most[0].max(self.most[1]) * 2.0).max(INITIAL);
            let grown = self.window + step * (acknowledged / self.window).min(1.0);
            self.window = self.window.max(grown.min(most));
        }
        self.window = self.window.max(LEAST);
        self.most = [self.under_way(), self.most[0]];
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{self, MS, Verbs};
    use super::*;

    fn run(scream: &mut Scream, service: Duration, from: Time, length: Duration) -> (u64, Duration) {
        let verbs = Verbs { admits: Scream::admits, sent: Scream::sent, acknowledged: Scream::acknowledged };
        tests::run(scream, &verbs, service, from, length)
    }

    #[test]
    fn it_fills_a_path_and_keeps_its_queue_near_the_target() {
        let mut scream = Scream::new(MS * 20);
        run(&mut scream, MS, Time::ZERO + MS, MS * 5_000);
        let (count, longest) = run(&mut scream, MS, Time::ZERO + MS * 5_100, MS * 5_000);
        assert!(count > 4_000, "{count} of 5000 that fit");
        assert!(longest <= MS * 30, "{longest}");
    }

    #[test]
    fn in_silence_it_sends_a_little_and_a_loss_costs_three_tenths_once() {
        let mut scream = Scream::new(MS * 20);
        run(&mut scream, MS, Time::ZERO + MS, MS * 2_000);
        let before = scream.window;
        let place = scream.sent;
        scream.lost(place);
        scream.lost(place);
        scream.update(Time::ZERO + MS * 3_000, 0.025);
        assert!((scream.window - (before * LOSS).max(LEAST)).abs() < 1.0);
        let mut sent = 0;
        for ms in 4_000..5_000 {
            let now = Time::ZERO + MS * ms;
            if scream.admits(now) {
                scream.sent(now, 1_000, false);
                sent += 1;
            }
        }
        assert!((40..80).contains(&sent), "{sent} a second, of which none is acknowledged");
    }
}
