//! CUBIC (RFC 9438). Windows are in segments here, as in the RFC.

use taut_core::{Duration, Time};

/// C of section 5, in segments per second cubed.
const C: f64 = 0.4;
/// β_cubic of section 4.6, as tenths: what a loss leaves of the window.
const BETA_TENTHS: u64 = 7;
const BETA: f64 = 0.7;
/// α_cubic of section 4.3: segments per round trip that, with β_cubic, give Reno's mean window.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// What CUBIC remembers beside the window.
#[derive(Clone, Debug, Default)]
pub(super) struct Cubic {
    /// W_max: where the last loss happened, or lower after fast convergence.
    w_max: Option<f64>,
    /// The window at the last loss.
    cwnd_prior: f64,
    epoch: Option<Epoch>,
    /// Part of a byte that the window in whole bytes leaves over, in segments.
    fraction: f64,
    last_ack: Option<Time>,
}

/// A stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    w_max: f64,
    k: f64,
    /// The window that Reno would have.
    w_est: f64,
}

/// What a loss leaves of `flight` bytes (section 4.6).
pub(super) fn after_loss(flight: u64) -> u64 {
    flight * BETA_TENTHS / 10
}

impl Cubic {
    /// The window in bytes after an acknowledgement of `segments` segments in congestion avoidance. Sections 4.2 to
    /// 4.5 grow it by `(target − cwnd)/cwnd` for an acknowledgement; here for a segment acknowledged, so that the
    /// window follows the function of time whatever the receiver's policy. Counting acknowledgements gives the other.
    pub(super) fn on_ack(&mut self, now: Time, rtt: Duration, segments: f64, cwnd: u64, smss: u64) -> u64 {
        let smss = smss as f64;
        let cwnd = cwnd as f64 / smss + self.fraction;
        self.last_ack = Some(now);
        let w_max = self.w_max;
        let cwnd_prior = self.cwnd_prior;
        let epoch = self.epoch.get_or_insert_with(|| Epoch::begin(now, cwnd, w_max));

        let t = now.saturating_since(epoch.start).as_secs_f64();
        let alpha = if epoch.w_est >= cwnd_prior { 1.0 } else { ALPHA };
        epoch.w_est += alpha * segments / cwnd;
        let grown = if epoch.at(t) < epoch.w_est {
            epoch.w_est.max(cwnd)
        } else {
            let target = epoch.at(t + rtt.as_secs_f64()).clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) / cwnd * segments
        };
        let bytes = (grown * smss) as u64;
        self.fraction = grown - bytes as f64 / smss;
        bytes
    }

    /// Time in which the window did not hold the sender back does not count (section 5.8).
    pub(super) fn pause(&mut self, now: Time) {
        if let (Some(epoch), Some(last)) = (&mut self.epoch, self.last_ack) {
            epoch.start += now.saturating_since(last);
            self.last_ack = Some(now);
        }
    }

    /// A loss at a window of `cwnd` bytes (sections 4.6 and 4.7).
    pub(super) fn on_loss(&mut self, cwnd: u64, smss: u64) {
        let cwnd = cwnd as f64 / smss as f64 + self.fraction;
        let converges = self.w_max.is_some_and(|w_max| cwnd < w_max);
        self.w_max = Some(if converges { cwnd * (1.0 + BETA) / 2.0 } else { cwnd });
        self.cwnd_prior = cwnd;
        self.epoch = None;
        self.fraction = 0.0;
    }

    /// Section 4.8: K = 0 and W_max = cwnd when congestion avoidance begins again.
    pub(super) fn on_timeout(&mut self) {
        self.w_max = None;
        self.epoch = None;
        self.fraction = 0.0;
    }
}

impl Epoch {
    fn begin(start: Time, cwnd: f64, w_max: Option<f64>) -> Self {
        let w_max = w_max.unwrap_or(cwnd).max(cwnd);
        Self { start, w_max, k: libm::cbrt((w_max - cwnd) / C), w_est: cwnd }
    }

    /// W_cubic(t), equation 1; `t` in seconds.
    fn at(&self, t: f64) -> f64 {
        let x = t - self.k;
        C * x * x * x + self.w_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_convergence_gives_way_when_the_window_shrinks() {
        // Section 4.7: W_max = cwnd (1 + β)/2 = 0.85 cwnd when the loss came below the last W_max.
        let mut cubic = Cubic::default();
        cubic.on_loss(100_000, 1000);
        assert_eq!(cubic.w_max, Some(100.0));
        cubic.on_loss(80_000, 1000);
        assert!((cubic.w_max.unwrap() - 68.0).abs() < 1e-9);
        cubic.on_loss(90_000, 1000);
        assert_eq!(cubic.w_max, Some(90.0));
    }

    #[test]
    fn plateau_is_reached_after_k_seconds() {
        // Equation 2: W_max 100, cwnd_epoch 70, C 0.4: K = cbrt(75) = 4.217 s.
        let epoch = Epoch::begin(Time::ZERO, 70.0, Some(100.0));
        assert!((epoch.k - 4.217_163).abs() < 1e-6);
        assert!((epoch.at(0.0) - 70.0).abs() < 1e-9);
        assert!((epoch.at(epoch.k) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn after_a_timeout_the_function_is_convex_from_the_start() {
        // Section 4.8.
        let mut cubic = Cubic::default();
        cubic.on_loss(100_000, 1000);
        cubic.on_timeout();
        let epoch = Epoch::begin(Time::ZERO, 35.0, cubic.w_max);
        assert_eq!((epoch.k, epoch.w_max), (0.0, 35.0));
    }

    #[test]
    fn short_round_trips_follow_reno() {
        // Section 4.3: at 10 segments and 10 ms the cubic function is slower than α_cubic = 0.529 segments a round trip.
        let (mut cubic, smss, rtt) = (Cubic::default(), 1000, Duration::from_millis(10));
        cubic.on_loss(20_000, smss);
        let (mut cwnd, mut now) = (14_000, Time::ZERO);
        for _ in 0..10 {
            for _ in 0..cwnd / smss {
                cwnd = cubic.on_ack(now, rtt, 1.0, cwnd, smss);
            }
            now += rtt;
        }
        assert!((18_800..=19_300).contains(&cwnd), "{cwnd}");
    }
}
