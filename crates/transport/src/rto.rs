//! The retransmission timeout (RFC 6298), of TCP and of DCCP's CCID 2.

use taut_core::{Duration, RttEstimator};

/// Clock granularity G of RFC 6298 section 2.
const GRANULARITY: Duration = Duration::from_millis(1);

/// Estimates the round trip and says how long to wait for an acknowledgement.
#[derive(Clone, Debug)]
pub(crate) struct Rto {
    rtt: RttEstimator,
    current: Duration,
    min: Duration,
    max: Duration,
    /// The least of what is above the smoothed round trip.
    margin: Duration,
}

impl Rto {
    /// `initial` until there is a measurement; from then on at least `min`, and never more than `max`.
    pub(crate) fn new(initial: Duration, min: Duration, max: Duration) -> Self {
        Self { rtt: RttEstimator::default(), current: initial, min, max, margin: GRANULARITY }
    }

    /// At least so much more than the smoothed round trip.
    pub(crate) fn margin(self, margin: Duration) -> Self {
        Self { margin: margin.max(GRANULARITY), ..self }
    }

    /// The timeout now.
    pub(crate) fn get(&self) -> Duration {
        self.current
    }

    /// SRTT, once there was a measurement.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.rtt.srtt()
    }

    /// RTTVAR; zero before the first measurement.
    pub(crate) fn variation(&self) -> Duration {
        self.rtt.rttvar()
    }

    /// The last measurement; zero before the first.
    pub(crate) fn latest(&self) -> Duration {
        self.rtt.latest()
    }

    /// A round trip of something that was sent once (Karn's algorithm, section 3). Also ends a backoff (section 5).
    pub(crate) fn sample(&mut self, rtt: Duration) {
        self.rtt.record(rtt);
        self.current = self.rtt.timeout(self.margin).unwrap_or(self.current).max(self.min).min(self.max);
    }

    /// The timer expired (section 5.5).
    pub(crate) fn back_off(&mut self) {
        self.current = self.current.saturating_mul(2).min(self.max);
    }

    /// The handshake needed a retransmission (section 5.7): 3 s until there is a measurement.
    pub(crate) fn after_lost_syn(&mut self) {
        if self.rtt.srtt().is_none() {
            self.current = Duration::from_secs(3).clamp(self.min, self.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::TcpConfig;

    /// `tcp_rtt_estimator` and `tcp_set_rto` of Linux: `ss` shows `rto:230 rtt:20.003/0` where timers tick every 10 ms.
    #[test]
    fn linux_adds_its_smallest_timeout_to_the_round_trip() {
        let ms = Duration::from_millis;
        let mut rto = rto(ms(200)).margin(ms(200));
        (0..100).for_each(|_| rto.sample(ms(20)));
        assert_eq!(rto.get(), ms(220));
    }

    fn rto(min: Duration) -> Rto {
        let TcpConfig { initial_rto, max_rto, .. } = TcpConfig::default();
        Rto::new(initial_rto, min, max_rto)
    }

    #[test]
    fn estimator_follows_rfc_6298_section_2() {
        let ms = Duration::from_millis;
        let mut rto = rto(ms(1));
        assert_eq!(rto.get(), ms(1000));
        rto.sample(ms(100)); // SRTT = R, RTTVAR = R/2, RTO = SRTT + 4 RTTVAR
        assert_eq!(rto.get(), ms(300));
        rto.sample(ms(60)); // RTTVAR = 3/4·50 + 1/4·40 = 47.5, SRTT = 7/8·100 + 1/8·60 = 95
        assert_eq!(rto.smoothed(), Some(ms(95)));
        assert_eq!(rto.get(), ms(285));
    }

    #[test]
    fn timeout_stays_in_its_range_and_a_measurement_ends_the_backoff() {
        let mut rto = rto(Duration::from_secs(1));
        rto.sample(Duration::from_millis(16));
        assert_eq!(rto.get(), Duration::from_secs(1)); // section 2.4
        (0..20).for_each(|_| rto.back_off());
        assert_eq!(rto.get(), Duration::from_secs(60)); // section 2.5
        rto.sample(Duration::from_millis(16));
        assert_eq!(rto.get(), Duration::from_secs(1));
    }
}
