//! How fast the operator sends: down when too little arrives, up again when it does.

use taut_core::{Duration, Time};

/// Steps the rate down when less than 85 % of a window's states were delivered, as the source saw it (Clerix 2025: 1000
/// to 875 Hz), and back up after several good windows in a row.
///
/// A window in which nothing arrived is an outage, not congestion, and changes nothing: what comes after it shall not
/// begin at an eighth of the rate. A step is an eighth of the configured rate. States that were sent before the last step are not counted: they say
/// nothing about the new rate.
#[derive(Clone, Debug)]
pub(crate) struct RateAdapter {
    /// States per second as configured.
    nominal: u32,
    eighths: u32,
    floor: u32,
    adaptive: bool,
    /// When the rate last changed.
    changed: Option<Time>,
    window_began: Option<Time>,
    delivered: u32,
    lost: u32,
    good_windows: u32,
}

const WINDOW: Duration = Duration::from_millis(500);
/// Fewer states than this say nothing.
const LEAST_STATES: u32 = 20;
const DOWN_BELOW: f64 = 0.85;
const UP_FROM: f64 = 0.95;
/// Good windows in a row before a step up: the hysteresis.
const UP_AFTER: u32 = 3;

impl RateAdapter {
    pub(crate) fn new(nominal: u32, least: u32, adaptive: bool) -> Self {
        let floor = (least * 8).div_ceil(nominal).clamp(1, 8);
        Self {
            nominal,
            eighths: 8,
            floor,
            adaptive,
            changed: None,
            window_began: None,
            delivered: 0,
            lost: 0,
            good_windows: 0,
        }
    }

    /// States per second now.
    pub(crate) fn hz(&self) -> f64 {
        f64::from(self.nominal) * f64::from(self.eighths) / 8.0
    }

    pub(crate) fn interval(&self) -> Duration {
        Duration::from_nanos(8_000_000_000 / (u64::from(self.nominal) * u64::from(self.eighths)))
    }

    pub(crate) fn is_reduced(&self) -> bool {
        self.eighths < 8
    }

    /// It is known what became of a state sent at `sent`. True when the rate changed.
    pub(crate) fn record(&mut self, now: Time, sent: Time, delivered: bool) -> bool {
        if !self.adaptive || self.changed.is_some_and(|changed| sent < changed) {
            return false;
        }
        let began = *self.window_began.get_or_insert(now);
        if delivered {
            self.delivered += 1;
        } else {
            self.lost += 1;
        }
        let counted = self.delivered + self.lost;
        if now.saturating_since(began) < WINDOW || counted < LEAST_STATES {
            return false;
        }
        let ratio = f64::from(self.delivered) / f64::from(counted);
        (self.delivered, self.lost, self.window_began) = (0, 0, Some(now));
        self.good_windows = if ratio >= UP_FROM { self.good_windows + 1 } else { 0 };
        let eighths = if ratio < DOWN_BELOW && ratio > 0.0 {
            self.eighths.saturating_sub(1).max(self.floor)
        } else if self.good_windows >= UP_AFTER {
            (self.eighths + 1).min(8)
        } else {
            self.eighths
        };
        let changed = eighths != self.eighths;
        if changed {
            self.eighths = eighths;
            self.changed = Some(now);
            self.window_began = None;
            self.good_windows = 0;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One state a millisecond of which `percent` arrive; the rates it passed through.
    fn rates(adapter: &mut RateAdapter, from_ms: u64, millis: u64, percent: u64) -> Vec<f64> {
        let mut rates = Vec::new();
        for ms in from_ms..from_ms + millis {
            let now = Time::ZERO + Duration::from_millis(ms);
            if adapter.record(now, now, ms % 100 < percent) {
                rates.push(adapter.hz());
            }
        }
        rates
    }

    #[test]
    fn below_85_percent_it_steps_down_to_its_floor_and_comes_back_up() {
        let mut adapter = RateAdapter::new(1000, 500, true);
        assert_eq!(rates(&mut adapter, 0, 5_000, 86), [0.0; 0]);
        assert_eq!(rates(&mut adapter, 5_000, 5_000, 80), [875.0, 750.0, 625.0, 500.0]);
        assert_eq!(rates(&mut adapter, 10_000, 5_000, 90), [0.0; 0], "neither bad nor good");
        assert_eq!(rates(&mut adapter, 15_000, 20_000, 100), [625.0, 750.0, 875.0, 1000.0]);
        assert!(!adapter.is_reduced());
    }

    #[test]
    fn a_step_up_takes_longer_than_a_step_down() {
        let mut adapter = RateAdapter::new(1000, 125, true);
        assert_eq!(rates(&mut adapter, 0, 501, 10), [875.0]);
        assert_eq!(adapter.interval(), Duration::from_nanos(1_142_857));
        assert_eq!(rates(&mut adapter, 501, 1_499, 100), [0.0; 0]);
        assert_eq!(rates(&mut adapter, 2_000, 200, 100), [1000.0]);
    }

    #[test]
    fn an_outage_is_not_congestion() {
        let mut adapter = RateAdapter::new(1000, 125, true);
        assert_eq!(rates(&mut adapter, 0, 5_001, 0), [0.0; 0]);
        assert_eq!(rates(&mut adapter, 5_001, 600, 50), [875.0]);
    }

    #[test]
    fn what_was_sent_before_a_step_says_nothing_about_it() {
        let mut adapter = RateAdapter::new(1000, 125, true);
        rates(&mut adapter, 0, 600, 0);
        for ms in 600..3_000 {
            let now = Time::ZERO + Duration::from_millis(ms);
            assert!(!adapter.record(now, Time::ZERO, false));
        }
        assert!(!RateAdapter::new(1000, 125, false).record(Time::MAX, Time::ZERO, false));
    }
}
