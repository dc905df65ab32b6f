//! How much may be under way: the choice of a controller, and [`Paced`], taut's own.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration as StdDuration, Instant};

use taut_core::{Bitrate, Bytes, Duration, Time};
use tracing::debug;

/// Who decides how much is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// A rate that the session needs, within limits. The default.
    Paced(Paced),
    /// RFC 9438, the library's.
    Cubic,
    /// RFC 9002 section 7, the library's.
    NewReno,
    /// The library's BBR, experimental: version 1 (draft-cardwell-iccrg-bbr-congestion-control-00) on one path, version 3
    /// (draft-ietf-ccwg-bbr) on several. It draws random numbers of the system, so that no two runs are the same.
    Bbr,
}

impl Default for Congestion {
    fn default() -> Self {
        Self::Paced(Paced::new())
    }
}

/// A controller for a flow whose rate is known: force and motion at 1 kHz are small and steady, and worthless when
/// they wait. Window-based control makes them wait at every loss, which on a radio link says nothing about congestion.
///
/// What is sent is held to a *rate*, by a token bucket before messages are given to QUIC. The rate begins at twice the
/// floor. It is reconsidered once per epoch, the longer of 100 ms and a round trip; of 25 ms and a round trip while it *starts*, at first and
/// from the floor after a silence, until a packet is marked, more than 2 % of an epoch is lost, or the ceiling is reached:
///
/// | in the epoch | the rate becomes |
/// | --- | --- |
/// | nothing that was sent within a whole congestion period arrived (RFC 9002 section 7.6) | the floor |
/// | it starts, and more than half of the rate was used (slow start, RFC 9002 section 7.3.1) | twice as much |
/// | a packet came through marked (RFC 3168) | 0.85 of what got through (the factor of RFC 8511) |
/// | more than 20 % was lost, and in the epoch before as well | 0.7 of what got through (that of RFC 9438) |
/// | neither, and more than half of the rate was used (RFC 7661) | a twentieth of the ceiling more, up to the ceiling |
///
/// It never goes below the floor: there the session itself must decide whether to go on, as the circuit breaker of
/// RFC 8084 would. Random loss below 20 % changes nothing. The rate is told by
/// [`send_rate`](taut_core::Transport::send_rate), so that a session makes less instead of dropping, and as the gauge `pacing_bps`.
///
/// The floor is meant for links of one's own, or for flows that are small on any link: set it no higher than what
/// force and motion need. Over the Internet, give bulk data to a connection of its own with [`Congestion::Cubic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paced {
    floor: Bitrate,
    ceiling: Bitrate,
}

impl Default for Paced {
    fn default() -> Self {
        Self { floor: Bitrate::from_bps(1_500_000), ceiling: Bitrate::from_bps(20_000_000) }
    }
}

impl Paced {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The rate that is kept whatever happens. Default 1.5 Mbit/s: samples of 75 B at 1 kHz take 0.92 Mbit/s with
    /// QUIC's headers, 1.15 with those of UDP and IP. At least 64 kbit/s; raises the ceiling when above it.
    pub fn floor(mut self, rate: Bitrate) -> Self {
        self.floor = rate.max(Bitrate::from_bps(64_000));
        self.ceiling = self.ceiling.max(self.floor);
        self
    }

    /// The rate that is never exceeded but by what is urgent (priority 0) and by what is sent again. Default
    /// 20 Mbit/s, which leaves room for video. Not below the floor.
    pub fn ceiling(mut self, rate: Bitrate) -> Self {
        self.ceiling = rate.max(self.floor);
        self
    }
}

/// How long an epoch lasts at least.
const EPOCH: StdDuration = StdDuration::from_millis(100);
/// The same while the rate starts.
const FIRST_EPOCH: StdDuration = StdDuration::from_millis(25);
/// An epoch in which nothing was heard for so many times its least length was a pause, and tells of no rate.
const PAUSE: u32 = 4;
/// So many times what is lost is less than what arrives, where a path is not full yet: 2 %.
const STARTS: u64 = 50;

#[derive(Clone, Debug)]
struct State {
    config: Paced,
    mtu: u64,
    rtt: StdDuration,
    /// Bits per second.
    rate: u64,
    epoch: Epoch,
    /// Much was lost in the epoch before.
    lossy: bool,
    /// Nothing told yet what the path carries.
    starts: bool,
}

#[derive(Clone, Debug)]
struct Epoch {
    began: Instant,
    /// Bytes acknowledged.
    arrived: u64,
    /// Bytes lost.
    lost: u64,
    /// A packet came through marked.
    marked: bool,
    /// Nothing came through for a while.
    silent: bool,
}

impl Epoch {
    fn new(began: Instant) -> Self {
        Self { began, arrived: 0, lost: 0, marked: false, silent: false }
    }
}

impl State {
    fn new(config: Paced, now: Instant, mtu: u16) -> Self {
        let rate = config.ceiling.as_bps().min(2 * config.floor.as_bps());
        let epoch = Epoch::new(now);
        let (mtu, rtt) = (u64::from(mtu), StdDuration::ZERO);
        Self { config, mtu, rtt, rate, epoch, lossy: false, starts: true }
    }

    /// How long an epoch lasts at least.
    fn shortest(&self) -> StdDuration {
        (if self.starts { FIRST_EPOCH } else { EPOCH }).max(self.rtt)
    }

    /// Something is heard again: an epoch that lasted through a pause begins anew.
    fn heard(&mut self, now: Instant) {
        if now.saturating_duration_since(self.epoch.began) > self.shortest() * PAUSE {
            self.epoch = Epoch::new(now);
        }
    }

    fn reconsider(&mut self, now: Instant) {
        let length = now.saturating_duration_since(self.epoch.began);
        if length < self.shortest() {
            return;
        }
        let past = std::mem::replace(&mut self.epoch, Epoch::new(now));
        let (floor, ceiling) = (self.config.floor.as_bps(), self.config.ceiling.as_bps());
        let lossy = past.lost * 4 > past.arrived;
        let got_through = past.arrived.saturating_mul(8_000_000) / (length.as_micros() as u64).max(1);
        let carried = self.rate.min(got_through);
        let before = self.rate;
        self.starts &= !past.marked && past.lost * STARTS <= past.arrived;
        self.rate = if past.silent {
            floor
        } else if past.marked {
            carried / 100 * 85
        } else if lossy && self.lossy {
            carried / 10 * 7
        } else if lossy || got_through < self.rate / 2 {
            self.rate
        } else if self.starts {
            self.rate * 2
        } else {
            self.rate + ceiling / 20
        };
        self.rate = self.rate.clamp(floor, ceiling);
        self.starts = past.silent || self.starts && self.rate < ceiling;
        self.lossy = lossy;
        if self.rate != before {
            let (rate_bps, Epoch { arrived, lost, marked, silent, .. }) = (self.rate, past);
            debug!(rate_bps, before, arrived, lost, marked, silent, "rate");
        }
    }
}

impl State {
    fn acknowledged(&mut self, now: Instant, bytes: u64, rtt: StdDuration) {
        self.heard(now);
        self.rtt = rtt;
        self.epoch.arrived += bytes;
        self.reconsider(now);
    }

    /// A mark is said by a loss of nothing.
    fn congested(&mut self, now: Instant, persistent: bool, lost: u64) {
        // That nothing came through is what a silence tells.
        if !persistent {
            self.heard(now);
        }
        self.epoch.lost += lost;
        self.epoch.marked |= lost == 0;
        self.epoch.silent |= persistent;
        self.reconsider(now);
    }

    /// Wide enough never to be the limit: what is lost counts as under way until its loss is found, two round trips
    /// and the peer's delay of acknowledgements later. The rate is the limit.
    fn window(&self) -> u64 {
        let seconds = 2.0 * self.rtt.as_secs_f64() + 0.2;
        ((self.rate as f64 * seconds / 8.0) as u64).max(32 * self.mtu)
    }
}

/// What the libraries ask of a controller is the same but for numbers of packets, and for where a rate is told: noq would hold
/// packets to a `pacing_rate`, in bytes, while messages are held to it already.
macro_rules! controller {
    ($proto:ident, $rate:ident $(, $number:tt)?) => {
        impl $proto::congestion::ControllerFactory for Paced {
            fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn $proto::congestion::Controller> {
                Box::new(State::new(*self, now, mtu))
            }
        }

        impl $proto::congestion::Controller for State {
            fn on_ack(
                &mut self,
                now: Instant,
                _: Instant,
                bytes: u64,
                $($number: u64,)?
                _: bool,
                rtt: &$proto::RttEstimator,
            ) {
                self.acknowledged(now, bytes, rtt.get());
            }

            fn on_congestion_event(
                &mut self,
                now: Instant,
                _: Instant,
                persistent: bool,
                $($number: bool,)?
                lost: u64,
                $($number: u64,)?
            ) {
                self.congested(now, persistent, lost);
            }

            fn on_mtu_update(&mut self, mtu: u16) {
                self.mtu = u64::from(mtu);
            }

            fn window(&self) -> u64 {
                State::window(self)
            }

            fn metrics(&self) -> $proto::congestion::ControllerMetrics {
                let mut metrics = $proto::congestion::ControllerMetrics::default();
                metrics.congestion_window = State::window(self);
                metrics.$rate = Some(self.rate);
                metrics
            }

            fn clone_box(&self) -> Box<dyn $proto::congestion::Controller> {
                Box::new(self.clone())
            }

            fn initial_window(&self) -> u64 {
                State::window(self)
            }

            fn into_any(self: Box<Self>) -> Box<dyn Any> {
                self
            }
        }
    };
}

controller!(quinn_proto, pacing_rate);
controller!(noq_proto, bandwidth_estimate, _);

/// A token bucket in time: when the next message may go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// At which rate it fills.
    rate: Bitrate,
    /// When the bucket will be full again.
    full_at: Time,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { rate: Bitrate::from_bps(u64::MAX), full_at: Time::ZERO }
    }
}

impl Bucket {
    /// A burst that may go at once.
    const BURST: Bytes = Bytes::new(16_000);
    /// What a message costs besides its own bytes: QUIC's, UDP's and IP's headers.
    const OVERHEAD: u64 = 60;

    /// It fills at this rate from now on: what is missing is as many bytes as before, and takes as long as those do now.
    pub(super) fn set_rate(&mut self, now: Time, rate: Bitrate) {
        let missing =
            u128::from(self.full_at.saturating_since(now).as_nanos()) * u128::from(self.rate.as_bps());
        let nanos = missing / u128::from(rate.as_bps().max(1));
        self.full_at = now + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.rate = rate;
    }

    /// When a message may go.
    pub(super) fn ready_at(&self) -> Time {
        self.full_at - self.rate.time_for(Self::BURST)
    }

    /// One goes.
    pub(super) fn take(&mut self, now: Time, bytes: usize) {
        let cost: Duration = self.rate.time_for(Bytes::new(bytes as u64 + Self::OVERHEAD));
        self.full_at = self.full_at.max(now) + cost;
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock;
    use super::*;

    fn state(config: Paced, now: Instant) -> State {
        State::new(config, now, 1200)
    }

    /// Epochs of 100 ms in which 125 kB arrive, 10 Mbit/s, and so much is lost.
    fn epochs(state: &mut State, from: Instant, count: u32, lost: u64) -> Instant {
        let mut now = from;
        for _ in 0..count {
            now += EPOCH;
            state.epoch.arrived += 125_000;
            if lost > 0 {
                state.congested(now, false, lost);
            } else {
                state.reconsider(now);
            }
        }
        now
    }

    #[test]
    fn the_rate_grows_while_it_is_used_and_random_loss_changes_nothing() {
        let base = clock::instant(Time::ZERO);
        let mut state = state(Paced::new(), base);
        assert_eq!(state.rate, 3_000_000);
        let now = epochs(&mut state, base, 10, 125_000 / 9);
        assert_eq!(state.rate, 13_000_000);
        epochs(&mut state, now, 50, 125_000 / 9);
        assert_eq!(state.rate, 20_000_000, "10 Mbit/s use half of it");
    }

    #[test]
    fn it_starts_by_doubling_and_again_after_a_silence() {
        let base = clock::instant(Time::ZERO);
        let mut state = state(Paced::new(), base);
        let rates = |state: &mut State, from: Instant| {
            let epochs = (1..=4).map(|epoch| from + FIRST_EPOCH * epoch);
            let rate = |now| {
                state.acknowledged(now, state.rate / 8 / 40, FIRST_EPOCH);
                state.rate / 1_000
            };
            epochs.map(rate).collect::<Vec<_>>()
        };
        assert_eq!(rates(&mut state, base), [6_000, 12_000, 20_000, 20_000]);
        let silent = base + EPOCH * 3;
        state.congested(silent, true, 9_000);
        assert_eq!(state.rate, 1_500_000);
        assert_eq!(rates(&mut state, silent), [3_000, 6_000, 12_000, 20_000]);
    }

    #[test]
    fn lasting_loss_slows_to_what_gets_through_and_to_the_floor_at_last() {
        let base = clock::instant(Time::ZERO);
        let mut state = state(Paced::new(), base);
        let now = epochs(&mut state, base, 20, 0);
        let now = epochs(&mut state, now, 1, 60_000);
        assert_eq!(state.rate, 20_000_000, "one epoch may be chance");
        let now = epochs(&mut state, now, 1, 60_000);
        assert_eq!(state.rate, 7_000_000);
        let now = epochs(&mut state, now, 20, 60_000);
        assert_eq!(state.rate, 1_500_000);
        epochs(&mut state, now, 3, 0);
        assert_eq!(state.rate, 4_500_000);
    }

    #[test]
    fn a_mark_counts_at_once() {
        let base = clock::instant(Time::ZERO);
        let mut state = state(Paced::new(), base);
        let now = epochs(&mut state, base, 20, 0);
        state.epoch.arrived = 125_000;
        state.congested(now + EPOCH, false, 0);
        assert_eq!(state.rate, 8_500_000);
    }

    #[test]
    fn a_mark_after_a_pause_counts_against_what_gets_through_then() {
        let base = clock::instant(Time::ZERO);
        let mut state = state(Paced::new(), base);
        let now = epochs(&mut state, base, 20, 0) + EPOCH * 100;
        state.congested(now, false, 0);
        assert_eq!(state.rate, 20_000_000, "a pause tells of no rate");
        state.acknowledged(now + EPOCH, 125_000, StdDuration::ZERO);
        assert_eq!(state.rate, 8_500_000);
    }

    #[test]
    fn silence_means_the_floor() {
        let base = clock::instant(Time::ZERO);
        let mut state = state(Paced::new(), base);
        state.congested(base + EPOCH, true, 9_000);
        assert_eq!(state.rate, 1_500_000);
    }

    /// Takes messages of 1000 B with their headers until none may go; how many.
    fn drain(bucket: &mut Bucket, now: Time) -> u32 {
        let mut sent = 0;
        while bucket.ready_at() <= now {
            bucket.take(now, 940);
            sent += 1;
        }
        sent
    }

    #[test]
    fn the_bucket_lets_a_burst_through_and_then_the_rate() {
        let (mut bucket, mut now) = (Bucket::default(), Time::ZERO + Duration::from_secs(1));
        bucket.set_rate(now, Bitrate::from_bps(8_000_000));
        let sent = drain(&mut bucket, now);
        assert_eq!(sent, 17, "16 kB, and the one that empties the bucket");
        let mut waited = Duration::ZERO;
        for _ in 0..100 {
            let next = bucket.ready_at();
            waited += next - now;
            now = next;
            bucket.take(now, 940);
        }
        assert_eq!(waited, Duration::from_millis(100));
    }

    #[test]
    fn a_faster_rate_keeps_nobody_waiting_and_a_slower_one_gives_no_other_burst() {
        let [slow, fast] = [1_500_000, 3_000_000].map(Bitrate::from_bps);
        let (mut bucket, mut now) = (Bucket::default(), Time::ZERO + Duration::from_secs(1));
        bucket.set_rate(now, slow);
        drain(&mut bucket, now);
        now = bucket.ready_at();
        bucket.set_rate(now, fast);
        assert!(bucket.ready_at() <= now, "{} to wait", bucket.ready_at() - now);
        // What is missing comes in half the time.
        bucket.take(now, 940);
        assert_eq!(bucket.ready_at() - now, fast.time_for(Bytes::new(1_000)));
        bucket.set_rate(now, slow);
        let waits = (bucket.ready_at() - now).abs_diff(slow.time_for(Bytes::new(1_000)));
        assert!(waits.as_nanos() < 10, "but for what is rounded: {waits}");
        assert_eq!(drain(&mut bucket, now), 0);
    }
}
