//! What the control loop of `deadline` knows of the shaper that empties the queue: its rate, and what it lets go at once
//! after a pause.

use std::collections::VecDeque;

use taut_core::{Bitrate, Duration, Time};

use super::{QueueReading, Settings};

/// Bytes that one packet may have: counters of packets are wrong by so much about bits.
pub(super) const MTU: u64 = 1_514;

/// A token bucket, as seen through the counters of the queue before it.
///
/// While something waits, what leaves is the rate, give or take a packet. Between two readings at which something waited
/// the rate was therefore at least what left less one packet, and at most that and one packet more when the queue cannot
/// have run empty in between.
#[derive(Clone, Debug)]
pub(super) struct Shaper {
    duration: Duration,
    /// When something waited, and what had left until then.
    loaded: VecDeque<(Time, u64)>,
    /// How long the link was not idle, by account: only then a rate can show that it is lower than it was.
    full: Duration,
    /// Lower bounds of the rate, bytes per second, at points of `full`: the first is the largest of the last `duration`.
    bounds: VecDeque<(Duration, u64)>,
    /// Since when the queue has not run empty, and what had left until then.
    busy: Option<(Time, u64)>,
    last: (Time, QueueReading),
    rate: u64,
    fallen: Option<Fall>,
    burst: u64,
    /// By account, the bucket was full since something was last seen to wait.
    filled: bool,
    /// The level is known: nothing was dropped since something was last seen to wait.
    sure: bool,
}

/// The rate fell far. A gate that goes by the lower one does not load a link that has recovered, and would never know.
#[derive(Clone, Copy, Debug)]
struct Fall {
    /// The rate before.
    from: u64,
    /// When it is tried again, and how long after that once more.
    retry: Time,
    pause: Duration,
}

impl Shaper {
    /// How long after it fell a rate is tried again for the first time; at most so long apart, doubling.
    const RETRY: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(60)];
    /// Readings that are remembered at most.
    const LOADED_MAX: usize = 256;
    /// So long a time the rate is measured over at most, to see it fall.
    const BUSY_MAX: Duration = Duration::from_secs(1);

    /// One of which nothing is known; bounds of its rate are forgotten after `duration`.
    pub(super) fn new(duration: Duration) -> Self {
        Self {
            duration,
            loaded: VecDeque::new(),
            full: Duration::ZERO,
            bounds: VecDeque::new(),
            busy: None,
            last: (Time::ZERO, QueueReading::default()),
            rate: 0,
            fallen: None,
            burst: 0,
            filled: false,
            sure: false,
        }
    }

    /// Bytes per second, at most [`Settings::RATE_MAX`]; 0: not known yet.
    pub(super) const fn rate(&self) -> u64 {
        self.rate
    }

    /// Bytes that it lets go at once after a pause.
    pub(super) const fn burst(&self) -> u64 {
        self.burst
    }

    /// Bytes that it sends in this time.
    pub(super) fn bytes_in(&self, time: Duration) -> u64 {
        (Bitrate::from_bps(self.rate * 8) * time).get()
    }

    /// Learns from a reading before which `drops` packets were dropped. By account, `level` bytes were waiting or are not
    /// filled up in the bucket, and the bucket was full in between if `filled`; the account goes by this shaper's rate if `trusted`.
    /// Returns what the level must be.
    pub(super) fn learn(
        &mut self,
        now: Time,
        reading: QueueReading,
        drops: u64,
        level: u64,
        filled: bool,
        trusted: bool,
    ) -> u64 {
        let (then, before) = std::mem::replace(&mut self.last, (now, reading));
        if !filled {
            self.full += now.saturating_since(then);
        }
        self.retry(now);
        self.measure(now, before, reading, drops);
        self.filled |= filled;
        // How many bytes were dropped nobody says.
        self.sure &= drops == 0;
        let expected = level.saturating_sub(self.burst);
        // The first packet has been paid for in part.
        let waiting = reading.backlog - reading.backlog.min(MTU / 2);
        let sure = self.sure && trusted;
        if sure && expected > waiting {
            self.was_faster(expected - waiting);
        } else if sure && self.filled {
            self.burst = self.burst.saturating_sub((waiting - expected) / 4);
        }
        if reading.backlog == 0 {
            return level.min(self.burst);
        }
        (self.filled, self.sure) = (false, true);
        // How much of the first packet has been paid for the reading does not tell: the account may.
        let told = self.burst + reading.backlog.saturating_sub(MTU)..=self.burst + reading.backlog;
        if told.contains(&level) { level } else { self.burst + waiting }
    }

    /// Less waits than expected: either the bucket holds more than was thought, or it fills faster.
    fn was_faster(&mut self, missing: u64) {
        if self.filled {
            self.burst = (self.burst + missing / 4).min(self.rate);
        } else if missing > MTU {
            self.bound(self.rate + self.rate / 16);
        }
    }

    fn measure(&mut self, now: Time, before: QueueReading, reading: QueueReading, drops: u64) {
        let left = reading.sent.saturating_sub(before.sent) + drops * MTU;
        // Otherwise what left had waited already: the queue did not run empty.
        if before.backlog == 0 || before.backlog < left {
            self.busy = None;
        }
        if reading.backlog == 0 {
            return;
        }
        let sent = reading.sent;
        let (begin, _) = *self.busy.get_or_insert((now, sent));
        let most = self.busy.filter(|_| begin < now).map(|since| rate(since, (now, sent + MTU)));
        if let Some(most) = most.filter(|most| *most < self.rate) {
            self.fall(now, most);
            self.loaded.retain(|(at, _)| *at >= begin);
            self.bounds.clear();
            self.bound(most);
        }
        if begin + Self::BUSY_MAX <= now {
            self.busy = Some((now, sent));
        }
        let least = |since| rate(since, (now, sent.saturating_sub(MTU)));
        let least = self.loaded.iter().map(|since| least(*since)).max().unwrap_or(0);
        if least > 0 {
            self.bound(least);
        }
        let old = |(at, _): &(Time, u64)| *at + self.duration < now;
        if self.loaded.len() >= Self::LOADED_MAX || self.loaded.front().is_some_and(old) {
            self.loaded.pop_front();
        }
        self.loaded.push_back((now, sent));
    }

    /// The rate is no more than `most`.
    fn fall(&mut self, now: Time, most: u64) {
        if most < self.rate - self.rate / 4 {
            let Fall { from, pause, .. } =
                self.fallen.unwrap_or(Fall { from: 0, retry: now, pause: Self::RETRY[0] });
            self.fallen = Some(Fall { from: from.max(self.rate), retry: now + pause, pause });
        }
    }

    /// Is what it fell from the rate again? The queue will tell soon if not.
    fn retry(&mut self, now: Time) {
        let Some(fall) = self.fallen.filter(|fall| fall.retry <= now) else { return };
        if self.rate >= fall.from - fall.from / 4 {
            self.fallen = None;
            return;
        }
        let pause = (fall.pause * 2).min(Self::RETRY[1]);
        self.fallen = Some(Fall { retry: now + pause, pause, ..fall });
        self.bound(fall.from);
    }

    /// The rate is no less than this.
    fn bound(&mut self, rate: u64) {
        let mut rate = rate.min(Settings::RATE_MAX);
        while self.bounds.front().is_some_and(|(at, _)| *at + self.duration < self.full) {
            self.bounds.pop_front();
            // What is forgotten was not disproved.
            rate = rate.max(self.rate - self.rate / 16);
        }
        // One that is larger and newer makes others superfluous.
        while self.bounds.back().is_some_and(|(_, smaller)| *smaller <= rate) {
            self.bounds.pop_back();
        }
        self.bounds.push_back((self.full, rate));
        self.rate = self.bounds[0].1;
    }
}

/// Bytes per second between two points of time.
fn rate((since, before): (Time, u64), (now, sent): (Time, u64)) -> u64 {
    let elapsed = now.saturating_since(since).as_nanos().max(1);
    (u128::from(sent.saturating_sub(before)) * 1_000_000_000 / u128::from(elapsed)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bucket of `burst` bytes that fills at `rate` bytes per second, offered `offered` in every interval of 100 ms, half
    /// of it 50 ms before the reading; and what the shaper makes of the readings.
    fn learned(rate: u64, burst: i64, offered: impl Fn(u64) -> i64, readings: u64) -> Shaper {
        let mut shaper = Shaper::new(Duration::from_secs(10));
        let (mut level, mut account, mut sent) = (0i64, 0u64, 0);
        for index in 0..readings {
            let mut filled = false;
            for half in 0..2 {
                let drained = (rate / 20) as i64;
                sent += drained.min(level - (-burst).min(level)).max(0) as u64;
                level = (level - drained).max(-burst);
                filled |= account < shaper.rate() / 20;
                account = account.saturating_sub(shaper.rate() / 20);
                if half == 0 {
                    level += offered(index);
                    account += offered(index) as u64;
                }
            }
            let now = Time::ZERO + Duration::from_millis(100 * index);
            // What waits is whole packets: the first one is there until it is paid for.
            let backlog = if level > 0 { level as u64 + MTU / 2 } else { 0 };
            account = shaper.learn(now, QueueReading { drops: 0, sent, backlog }, 0, account, filled, true);
        }
        shaper
    }

    #[test]
    fn a_loaded_shaper_shows_its_rate() {
        let shaper = learned(62_500, 3_000, |_| 6_300, 100);
        assert!((61_000..=63_000).contains(&shaper.rate()), "{shaper:?}");
    }

    /// 12 kB at once every second, after five seconds of load.
    fn bursts() -> Shaper {
        let offered = |index: u64| match index {
            0..50 => 7_000,
            _ if index.is_multiple_of(10) => 12_000,
            _ => 0,
        };
        learned(62_500, 3_000, offered, 300)
    }

    #[test]
    fn pauses_show_how_much_goes_at_once_after_them() {
        let shaper = bursts();
        assert!((2_000..=4_000).contains(&shaper.burst()), "{shaper:?}");
    }

    #[test]
    fn a_rate_is_not_forgotten_while_less_is_offered() {
        let shaper = bursts();
        assert!((58_000..=64_000).contains(&shaper.rate()), "{shaper:?}");
    }

    #[test]
    fn a_rate_that_fell_is_known_as_soon_as_the_queue_cannot_have_run_empty() {
        let mut shaper = Shaper::new(Duration::from_secs(10));
        let mut sent = 0;
        for index in 0..20 {
            sent += if index < 10 { 12_500 } else { 6_250 };
            let reading = QueueReading { drops: 0, sent, backlog: 40_000 };
            shaper.learn(Time::ZERO + Duration::from_millis(100 * index), reading, 0, 40_000, false, true);
        }
        assert!((62_000..=80_000).contains(&shaper.rate()), "{shaper:?}");
    }
}
