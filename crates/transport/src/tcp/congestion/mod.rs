//! The congestion window: how it grows with acknowledgements and what a loss leaves of it. When a loss is a loss is
//! decided elsewhere.

mod cubic;

use taut_core::{Duration, Time};

use self::cubic::Cubic;
use super::{AckCounting, CongestionControl, TcpConfig};

/// L of RFC 3465 section 2.2: segments that one acknowledgement adds in slow start, at most.
const SLOW_START_LIMIT: u64 = 2;

/// The congestion window, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Congestion {
    /// Bytes that may be in flight.
    pub(super) cwnd: u64,
    /// Below it slow start, from it on congestion avoidance.
    pub(super) ssthresh: u64,
    smss: u64,
    restart: u64,
    counting: AckCounting,
    /// Bytes acknowledged that have not made the window grow yet (RFC 3465 section 2.1).
    acked: u64,
    /// What congestion avoidance adds, of what it would add (RFC 6356 section 3).
    share: f64,
    /// Slow start grows by all that an acknowledgement covers, up to `ssthresh`, as Linux's (`tcp_slow_start`): where order
    /// changes, one covers many segments.
    unlimited: bool,
    /// The slow start that follows a timeout grows by one segment per acknowledgement (RFC 3465 section 2.3).
    after_timeout: bool,
    cubic: Option<Cubic>,
}

/// An acknowledgement of new data, as far as the window is concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acked {
    pub(super) now: Time,
    pub(super) bytes: u64,
    /// Smoothed round trip.
    pub(super) rtt: Duration,
    /// The window was what held the sender back. Otherwise it does not grow: it would not be tested by anything
    /// (RFC 9438 section 5.8, RFC 7661 section 4.3).
    pub(super) window_limited: bool,
}

impl Congestion {
    pub(super) fn new(config: &TcpConfig, smss: u64) -> Self {
        let segments = |count: u32| u64::from(count) * smss;
        Self {
            cwnd: segments(config.initial_window),
            ssthresh: config.initial_ssthresh.map_or(u64::MAX, |count| segments(count.max(2))),
            smss,
            restart: segments(config.initial_window),
            counting: config.counting,
            acked: 0,
            share: 1.0,
            unlimited: config.rack,
            after_timeout: false,
            cubic: (config.congestion == CongestionControl::Cubic).then(Cubic::default),
        }
    }

    /// The SYN was lost: one segment to begin with (RFC 5681 section 3.1).
    pub(super) fn after_lost_syn(&mut self) {
        self.cwnd = self.smss;
    }

    /// Nothing was sent for a retransmission timeout (RFC 5681 section 4.1).
    pub(super) fn restart_after_idle(&mut self) {
        self.cwnd = self.cwnd.min(self.restart);
    }

    /// The window did not hold the sender back until now: nothing was under way, or less than it permits.
    pub(super) fn pause(&mut self, now: Time) {
        if let Some(cubic) = &mut self.cubic {
            cubic.pause(now);
        }
    }

    /// New data was acknowledged outside of recovery.
    pub(super) fn on_ack(&mut self, ack: Acked) {
        if !ack.window_limited {
            self.pause(ack.now);
        } else if self.cwnd < self.ssthresh {
            self.slow_start(ack.bytes);
        } else {
            self.after_timeout = false;
            self.avoid_congestion(ack);
        }
    }

    fn slow_start(&mut self, bytes: u64) {
        let limit = match self.counting {
            AckCounting::Bytes if !self.after_timeout && self.unlimited => self.ssthresh - self.cwnd,
            AckCounting::Bytes if !self.after_timeout => SLOW_START_LIMIT * self.smss,
            _ => self.smss,
        };
        self.cwnd += bytes.min(limit);
    }

    /// The window shares its growth with those of other paths.
    pub(super) fn couple(&mut self, share: f64) {
        self.share = share.clamp(0.0, 1.0);
    }

    fn avoid_congestion(&mut self, ack: Acked) {
        let bytes = (ack.bytes as f64 * self.share) as u64;
        let segments = match self.counting {
            AckCounting::Bytes => bytes as f64 / self.smss as f64,
            AckCounting::Acks => self.share,
        };
        match (&mut self.cubic, self.counting) {
            (Some(cubic), _) => self.cwnd = cubic.on_ack(ack.now, ack.rtt, segments, self.cwnd, self.smss),
            (None, AckCounting::Bytes) => {
                // RFC 3465 section 2.1; the rest is kept, so that it is one segment per window, not less.
                self.acked += bytes;
                if self.acked >= self.cwnd {
                    self.acked -= self.cwnd;
                    self.cwnd += self.smss;
                }
            }
            // RFC 5681 equation 3.
            (None, AckCounting::Acks) => {
                self.cwnd += ((self.smss * self.smss / self.cwnd) as f64 * self.share).max(1.0) as u64;
            }
        }
    }

    /// At most `used` was under way for a timeout: half of what is beyond that goes, and the threshold remembers three quarters
    /// (RFC 2861 section 3).
    pub(super) fn come_down(&mut self, used: u64) {
        let used = used.max(self.restart);
        if used < self.cwnd {
            self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
            self.cwnd = u64::midpoint(self.cwnd, used);
        }
    }

    /// A loss was noticed by duplicate acknowledgements with `flight` bytes outstanding: sets `ssthresh` (RFC 5681
    /// equation 4, RFC 9438 section 4.6). The caller sets `cwnd` as its kind of recovery wants.
    pub(super) fn on_loss(&mut self, flight: u64) {
        self.acked = 0;
        let left = match &mut self.cubic {
            Some(cubic) => {
                cubic.on_loss(self.cwnd, self.smss);
                cubic::after_loss(flight)
            }
            None => flight / 2,
        };
        self.ssthresh = left.max(2 * self.smss);
    }

    /// A reduction since `before` was needless (RFC 4015 section 3.2, RFC 9438 section 4.9.2).
    pub(super) fn undo(&mut self, before: Self) {
        let (cwnd, ssthresh) = (self.cwnd.max(before.cwnd), self.ssthresh.max(before.ssthresh));
        *self = Self { cwnd, ssthresh, share: self.share, ..before };
    }

    /// The retransmission timer expired with `flight` bytes outstanding. `reduce`: the window was not reduced for these
    /// losses before, neither by an earlier timeout of the segment (RFC 5681 section 3.1) nor by fast recovery.
    pub(super) fn on_timeout(&mut self, flight: u64, reduce: bool) {
        if reduce {
            self.on_loss(flight);
        }
        if let Some(cubic) = &mut self.cubic {
            cubic.on_timeout();
        }
        self.after_timeout = true;
        self.cwnd = self.smss;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMSS: u64 = 1000;

    fn window(config: TcpConfig) -> Congestion {
        Congestion::new(&config, SMSS)
    }

    fn ack(bytes: u64) -> Acked {
        Acked { now: Time::ZERO, bytes, rtt: Duration::from_millis(20), window_limited: true }
    }

    #[test]
    fn slow_start_counts_two_segments_an_ack_and_one_after_a_timeout() {
        // RFC 3465 sections 2.2 and 2.3.
        let mut window = window(TcpConfig::default());
        window.on_ack(ack(4 * SMSS));
        assert_eq!(window.cwnd, 12 * SMSS);
        window.on_timeout(12 * SMSS, true);
        assert_eq!((window.cwnd, window.ssthresh), (SMSS, 6 * SMSS));
        window.on_ack(ack(4 * SMSS));
        assert_eq!(window.cwnd, 2 * SMSS);
    }

    #[test]
    fn congestion_avoidance_by_bytes_keeps_the_fraction() {
        // RFC 3465 section 2.1: ten windows of 10.. segments, acknowledged three segments at a time.
        let mut window = window(TcpConfig { initial_ssthresh: Some(10), ..TcpConfig::default() });
        let to_acknowledge: u64 = (10..20).sum::<u64>() * SMSS;
        let mut left = to_acknowledge;
        while left > 0 {
            let bytes = left.min(3 * SMSS);
            window.on_ack(ack(bytes));
            left -= bytes;
        }
        assert_eq!(window.cwnd, 20 * SMSS);
    }

    #[test]
    fn second_timeout_of_a_segment_leaves_ssthresh() {
        // RFC 5681 section 3.1, below equation 4.
        let mut window = window(TcpConfig::default());
        window.on_timeout(10 * SMSS, true);
        window.on_timeout(SMSS, false);
        assert_eq!(window.ssthresh, 5 * SMSS);
    }

    #[test]
    fn a_window_that_nothing_fills_comes_down_to_what_is_used() {
        // RFC 2861 section 3: half of what is beyond that at a time, never below the first window.
        let mut window = window(TcpConfig::default());
        (window.cwnd, window.ssthresh) = (100 * SMSS, 40 * SMSS);
        window.come_down(20 * SMSS);
        assert_eq!((window.cwnd, window.ssthresh), (60 * SMSS, 75 * SMSS));
        window.come_down(0);
        assert_eq!((window.cwnd, window.ssthresh), (35 * SMSS, 75 * SMSS));
        window.come_down(40 * SMSS);
        assert_eq!(window.cwnd, 35 * SMSS);
    }

    #[test]
    fn window_that_is_not_used_does_not_grow() {
        let mut window = window(TcpConfig::default());
        window.on_ack(Acked { window_limited: false, ..ack(2 * SMSS) });
        assert_eq!(window.cwnd, 10 * SMSS);
    }
}
