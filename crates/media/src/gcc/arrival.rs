//! Groups of packets, their delay variation, its trend, and what to think of it (draft-ietf-rmcat-gcc-02 sections 5.2 to 5.4).

use std::collections::VecDeque;

/// What the delays say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Usage {
    /// Queues run empty.
    Under,
    /// Nothing changes.
    Normal,
    /// Queues grow.
    Over,
}

/// Packets sent in a burst, and those before it; times in milliseconds, those of sending and of arrival by clocks of their own.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    current: Option<Group>,
    before: Option<Group>,
    trend: Trend,
    detector: Detector,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    /// When its first packet was sent.
    first: f64,
    /// When its last packet was sent and arrived.
    sent: f64,
    arrived: f64,
}

/// `burst_time`: what is sent, or arrives early, within this is one group.
const BURST_MS: f64 = 5.0;

impl Groups {
    /// A packet arrived. `Some` when a group has been completed by it.
    pub(super) fn handle_arrival(&mut self, sent: f64, arrived: f64) -> Option<Usage> {
        let Some(group) = &mut self.current else {
            self.current = Some(Group { first: sent, sent, arrived });
            return None;
        };
        let later = (arrived - group.arrived) - (sent - group.sent);
        let burst = arrived - group.arrived < BURST_MS && later < 0.0;
        if sent - group.first <= BURST_MS || burst {
            (group.sent, group.arrived) = (group.sent.max(sent), group.arrived.max(arrived));
            return None;
        }
        let complete = std::mem::replace(group, Group { first: sent, sent, arrived });
        let before = self.before.replace(complete)?;
        let (apart, sent_apart) = (complete.arrived - before.arrived, complete.sent - before.sent);
        let trend = self.trend.update(apart - sent_apart, complete.arrived);
        Some(self.detector.update(trend, sent_apart, complete.arrived))
    }
}

/// The slope of the delays of the last groups: how much later each millisecond's packets are than those of the one before.
#[derive(Clone, Debug, Default)]
struct Trend {
    groups: u32,
    /// Sum of all delay variations.
    delay: f64,
    smoothed: f64,
    /// Time of arrival and smoothed delay.
    points: VecDeque<(f64, f64)>,
    slope: f64,
}

/// `kDefaultTrendlineWindowSize`, `…SmoothingCoeff` and `…ThresholdGain` of WebRTC's `trendline_estimator.cc`.
const WINDOW: usize = 20;
const SMOOTHING: f64 = 0.9;
const GAIN: f64 = 4.0;
/// `kMinNumDeltas`: so many groups make a slope certain.
const CERTAIN: u32 = 60;

impl Trend {
    /// With the delay variation of a group that was complete at `arrived`. In milliseconds, as the threshold is.
    fn update(&mut self, variation: f64, arrived: f64) -> f64 {
        self.groups = (self.groups + 1).min(CERTAIN);
        self.delay += variation;
        self.smoothed = SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * self.delay;
        if self.points.len() == WINDOW {
            self.points.pop_front();
        }
        self.points.push_back((arrived, self.smoothed));
        if self.points.len() == WINDOW {
            self.slope = slope(&self.points).unwrap_or(self.slope);
        }
        f64::from(self.groups) * self.slope * GAIN
    }
}

/// Least squares; `None` of points that all have one time.
fn slope(points: &VecDeque<(f64, f64)>) -> Option<f64> {
    let count = points.len() as f64;
    let (x_mean, y_mean) =
        points.iter().fold((0.0, 0.0), |(x_sum, y_sum), (x, y)| (x_sum + x / count, y_sum + y / count));
    let (products, squares) = points.iter().fold((0.0, 0.0), |(products, squares), (x, y)| {
        (products + (x - x_mean) * (y - y_mean), squares + (x - x_mean) * (x - x_mean))
    });
    (squares > 0.0).then(|| products / squares)
}

/// Section 5.4.
#[derive(Clone, Copy, Debug)]
struct Detector {
    /// `del_var_th`
    threshold: f64,
    updated: Option<f64>,
    /// Since when the trend has been above it, and for how many groups.
    over_for: Option<(f64, u32)>,
    before: f64,
    usage: Usage,
}

impl Default for Detector {
    fn default() -> Self {
        Self { threshold: 12.5, updated: None, over_for: None, before: 0.0, usage: Usage::Normal }
    }
}

/// `overuse_time_th`
const OVER_MS: f64 = 10.0;
/// `K_u` and `K_d`, for each millisecond.
const UP: f64 = 0.01;
const DOWN: f64 = 0.000_18;
/// What is further above the threshold does not move it.
const OUTLIER_MS: f64 = 15.0;
/// The longest step of the threshold (`kMaxTimeDelta` of WebRTC).
const STEP_MS: f64 = 100.0;

impl Detector {
    fn update(&mut self, trend: f64, sent_apart: f64, now: f64) -> Usage {
        if trend > self.threshold {
            let (time, groups) =
                self.over_for.map_or((sent_apart / 2.0, 1), |(time, groups)| (time + sent_apart, groups + 1));
            self.over_for = Some((time, groups));
            if time > OVER_MS && groups > 1 && trend >= self.before {
                self.over_for = Some((0.0, 0));
                self.usage = Usage::Over;
            }
        } else {
            self.over_for = None;
            self.usage = if trend < -self.threshold { Usage::Under } else { Usage::Normal };
        }
        self.before = trend;
        self.adapt(trend, now);
        self.usage
    }

    fn adapt(&mut self, trend: f64, now: f64) {
        let elapsed = now - self.updated.replace(now).unwrap_or(now);
        let above = trend.abs() - self.threshold;
        if above <= OUTLIER_MS {
            let pace = if above < 0.0 { DOWN } else { UP };
            self.threshold = (self.threshold + pace * above * elapsed.clamp(0.0, STEP_MS)).clamp(6.0, 600.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups of one packet every 20 ms, each of which arrives `growth` ms later than the one before.
    fn after(groups: u32, growth: f64) -> (Groups, Option<Usage>) {
        let mut all = Groups::default();
        let mut usage = None;
        for index in 0..groups {
            let sent = f64::from(index) * 20.0;
            usage = all.handle_arrival(sent, 1_000.0 + sent + f64::from(index) * growth).or(usage);
        }
        (all, usage)
    }

    #[test]
    fn delays_that_grow_are_over_use_and_those_that_stay_are_not() {
        assert_eq!(after(60, 0.0).1, Some(Usage::Normal));
        assert_eq!(after(60, 4.0).1, Some(Usage::Over));
        assert_eq!(after(60, -4.0).1, Some(Usage::Under));
    }

    /// The delay grows by 1 ms in 21: a slope of 1/21, times 60 groups and the gain of 4.
    #[test]
    fn the_trend_is_the_slope_of_the_delays() {
        let (groups, _) = after(400, 1.0);
        assert!((groups.trend.slope - 1.0 / 21.0).abs() < 1e-6, "{:?}", groups.trend.slope);
        assert!((groups.detector.before - 60.0 * 4.0 / 21.0).abs() < 1e-4);
    }

    #[test]
    fn packets_of_one_burst_are_one_group() {
        let mut groups = Groups::default();
        for (sent, arrived) in [(0.0, 10.0), (2.0, 20.0), (4.0, 30.0)] {
            assert_eq!(groups.handle_arrival(sent, arrived), None);
        }
        let group = groups.current.unwrap();
        assert_eq!((group.first, group.sent, group.arrived), (0.0, 4.0, 30.0));
        // Sent 36 ms later, arrived 4 ms later: a burst that a queue let go.
        assert_eq!(groups.handle_arrival(40.0, 34.0), None);
        assert!(groups.current.unwrap().first.abs() < 1e-12);
    }

    /// del_var_th(i) = 12.5 + 20·0.01·(|m| − 12.5) at first; an outlier leaves it.
    #[test]
    fn the_threshold_follows_the_trend_fast_upwards_and_slowly_down() {
        let mut detector = Detector::default();
        detector.update(0.0, 20.0, 0.0);
        detector.update(20.0, 20.0, 20.0);
        assert!((detector.threshold - 14.0).abs() < 1e-12, "{}", detector.threshold);
        detector.update(30.0, 20.0, 40.0);
        assert!((detector.threshold - 14.0).abs() < 1e-12);
        detector.update(4.0, 20.0, 60.0);
        assert!((detector.threshold - (14.0 - 20.0 * 0.000_18 * 10.0)).abs() < 1e-12);
    }
}
