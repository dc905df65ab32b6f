//! The smoothed round trip.

use crate::Duration;

/// SRTT and RTTVAR as RFC 6298 section 2 has them (α = 1/8, β = 1/4), which RFC 9002, RFC 9260 and RFC 4341 use as well. How long
/// to wait for an answer, and within which bounds, is for whoever asks.
///
/// ```
/// use taut_core::{Duration, RttEstimator};
/// let ms = Duration::from_millis;
/// let mut rtt = RttEstimator::default();
/// assert_eq!(rtt.srtt(), None);
/// rtt.record(ms(100));
/// assert_eq!((rtt.srtt(), rtt.rttvar()), (Some(ms(100)), ms(50)));
/// rtt.record(ms(60));
/// assert_eq!((rtt.srtt(), rtt.rttvar()), (Some(ms(95)), Duration::from_micros(47_500)));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RttEstimator {
    srtt: Option<Duration>,
    rttvar: Duration,
    latest: Duration,
}

impl RttEstimator {
    /// A round trip of something that was sent once (Karn's algorithm, section 3).
    pub fn record(&mut self, rtt: Duration) {
        self.latest = rtt;
        self.srtt = Some(match self.srtt {
            None => {
                self.rttvar = rtt / 2;
                rtt
            }
            // The variation first, by the smoothed value before (section 2.3).
            Some(srtt) => {
                self.rttvar = (self.rttvar.saturating_mul(3) + srtt.abs_diff(rtt)) / 4;
                (srtt.saturating_mul(7) + rtt) / 8
            }
        });
    }

    /// What an answer took that came after `elapsed`, of which the peer says that it held it for `held`. All of it where that cannot be,
    /// for a peer that says too much would make a path of no length (RFC 9002 section 5.3; its least round trip holds the answer's delay,
    /// because a peer of QUIC tells that for one packet of several; here each answer tells its own).
    ///
    /// ```
    /// use taut_core::{Duration, RttEstimator};
    /// let ms = Duration::from_millis;
    /// assert_eq!(RttEstimator::without_hold(ms(22), ms(2)), ms(20));
    /// assert_eq!(RttEstimator::without_hold(ms(22), ms(23)), ms(22));
    /// ```
    pub fn without_hold(elapsed: Duration, held: Duration) -> Duration {
        if held < elapsed { elapsed - held } else { elapsed }
    }

    /// `None` before the first measurement.
    pub const fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    /// Zero before the first measurement.
    pub const fn rttvar(&self) -> Duration {
        self.rttvar
    }

    /// The last measurement; zero before the first.
    pub const fn latest(&self) -> Duration {
        self.latest
    }

    /// SRTT + max(`least_margin`, 4·RTTVAR) (sections 2.2 and 2.3); `None` before the first measurement.
    pub fn timeout(&self, least_margin: Duration) -> Option<Duration> {
        Some(self.srtt? + self.rttvar.saturating_mul(4).max(least_margin))
    }
}
