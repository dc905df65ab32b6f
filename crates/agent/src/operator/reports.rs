//! When there is a report, and the round trips in it.

use taut_core::{Deadline, Duration, Time};

use super::{OperatorSettings, RoundTrips};

#[derive(Debug)]
pub(super) struct Reports {
    messages: Option<u64>,
    period: Option<Duration>,
    /// Samples sent as of the last one.
    reported: u64,
    next: Option<Time>,
    trips: RoundTrips,
    sum_ms: f64,
}

impl Reports {
    pub(super) fn new(settings: &OperatorSettings) -> Self {
        let (messages, period) = (settings.report_messages, settings.report_period);
        Self { messages, period, reported: 0, next: None, trips: RoundTrips::default(), sum_ms: 0.0 }
    }

    /// There is a session.
    pub(super) fn begin(&mut self, now: Time) {
        if self.next.is_none() {
            self.next = self.period.map(|period| now + period);
        }
    }

    pub(super) fn round_trip(&mut self, rtt: Duration) {
        let ms = rtt.as_millis_f64();
        (self.trips.count, self.trips.max_ms) = (self.trips.count + 1, self.trips.max_ms.max(ms));
        self.sum_ms += ms;
    }

    /// Those since the last report.
    pub(super) fn round_trips(&self) -> RoundTrips {
        let mean_ms = if self.trips.count == 0 { 0.0 } else { self.sum_ms / self.trips.count as f64 };
        RoundTrips { mean_ms, ..self.trips }
    }

    /// Is it time for a report, after so many samples?
    pub(super) fn poll(&mut self, now: Time, sent: u64) -> bool {
        if let Some(every) = self.messages
            && sent >= self.reported + every
        {
            self.reported += every;
            return true;
        }
        let (Some(period), Some(due)) = (self.period, self.next.filter(|due| now >= *due)) else {
            return false;
        };
        self.next = Some((due + period).max(now));
        true
    }

    /// There was one.
    pub(super) fn told(&mut self) {
        (self.trips, self.sum_ms) = (RoundTrips::default(), 0.0);
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.next.map(|at| Deadline::new(at, "report"))
    }
}
