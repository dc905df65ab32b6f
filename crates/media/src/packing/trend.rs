//! Samples per packet by the trend of the delay.

use taut_core::Duration;

use super::MAX_SAMPLES;

/// How the number of samples per packet follows the delay that is fed back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrendConfig {
    k_max: u32,
    window: u32,
    rise: Duration,
}

impl Default for TrendConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl TrendConfig {
    /// k from 1 to 4; the delay is judged every 8 reports; it rises when its smoothed value grew by more than 0.25 ms.
    pub const fn new() -> Self {
        Self { k_max: 4, window: 8, rise: Duration::from_micros(250) }
    }

    /// The most samples in a packet, 1 to [`MAX_SAMPLES`]. Default 4: beyond, packing costs more delay
    /// at 1 kHz than the headers it saves.
    pub const fn k_max(mut self, k_max: u32) -> Self {
        self.k_max = k_max;
        self
    }

    /// After how many reports the delay is judged, from 1. Default 8. Shorter reacts sooner and to noise.
    pub const fn window(mut self, reports: u32) -> Self {
        self.window = reports;
        self
    }

    /// By how much the smoothed delay grows within a window when it counts as rising. Default 0.25 ms.
    pub const fn rise(mut self, rise: Duration) -> Self {
        self.rise = rise;
        self
    }

    pub(crate) const fn most(&self) -> usize {
        self.k_max as usize
    }

    pub(super) const fn is_valid(&self) -> bool {
        self.k_max >= 1 && self.k_max as usize <= MAX_SAMPLES && self.window >= 1
    }
}

/// The smoothed delay, and the k that follows from it.
#[derive(Clone, Debug)]
pub(super) struct Trend {
    config: TrendConfig,
    k: u32,
    /// Exponential average with weight 1/8, as RFC 6298 section 2 smooths round-trip times.
    smoothed_ns: Option<i64>,
    judged_ns: i64,
    reports: u32,
}

impl Trend {
    pub(super) const fn new(config: TrendConfig) -> Self {
        Self { config, k: 1, smoothed_ns: None, judged_ns: 0, reports: 0 }
    }

    pub(super) const fn k(&self) -> u32 {
        self.k
    }

    /// One more delay, ns, of any origin. The new k, if it has changed: the maximum at once when the delay rises, one less when not.
    pub(super) fn push(&mut self, delay_ns: i64) -> Option<u32> {
        let Some(smoothed_ns) = self.smoothed_ns else {
            self.smoothed_ns = Some(delay_ns);
            self.judged_ns = delay_ns;
            return None;
        };
        let smoothed_ns = smoothed_ns.saturating_add(delay_ns.saturating_sub(smoothed_ns) / 8);
        self.smoothed_ns = Some(smoothed_ns);
        self.reports += 1;
        if self.reports < self.config.window {
            return None;
        }
        self.reports = 0;
        let rising = smoothed_ns.saturating_sub(self.judged_ns) > self.config.rise.as_nanos() as i64;
        self.judged_ns = smoothed_ns;
        let before = self.k;
        self.k = if rising { self.config.k_max } else { (self.k - 1).max(1) };
        (self.k != before).then_some(self.k)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_that_no_number_holds_the_difference_of_are_taken_for_the_largest() {
        let mut trend = Trend::new(TrendConfig::new().window(1));
        assert_eq!(trend.push(i64::MIN), None);
        assert_eq!(trend.push(i64::MAX), Some(4));
        assert_eq!(trend.push(i64::MIN), Some(3));
    }
}
